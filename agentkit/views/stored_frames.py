"""The frames of a run that was stored, with the seconds after its begin at which they happened."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.masking import mask
from ..core.messages import Message, calls_of, text_of
from ..engine.result import Outcome
from ..tools.execution.call import ANSWER_RESULT
from ..tools.results.result_text import render_text
from .frames import (
    AnswerPiece,
    CallClosed,
    CallOpened,
    Frame,
    PendingInput,
    Remark,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunOpened,
)

OUTCOMES: Mapping[str, Outcome] = {"finished": "answer", "paused": "paused", "superseded": "stopped", "failed": "error"}
"""For each state of a stored run: the outcome that its end is shown with; "cancelled" for others."""


def frames_of_stored_run(
    run: Mapping[str, Any], *, run_id: str, query: str, state: str, first: int = 0, pending: Sequence[PendingInput] = ()
) -> Iterator[tuple[float, Frame]]:
    """Yield the frames of a run with their times.

    Args:
        run: The run, in the form of `Result.as_dict`.
        run_id: Its id.
        query: Its query.
        state: Its state, as in `RunInfo`; an interrupted or running one has no end.
        first: The index of its first message.
        pending: What it waits for.
    """
    messages, spans = run["messages"][first:], run["trace"].get("spans", ())
    requests = [span for span in spans if span["kind"] == "model"]
    calls = {span.get("call"): span for span in spans if span["kind"] == "tool"}
    answers = {message["tool_call_id"] for message in messages if message.get("content") == ANSWER_RESULT}
    now, number = 0.0, 0
    yield now, RunOpened("", run_id, mask(query), run["model"])
    for place, message in enumerate(messages, first):
        if message["role"] == "assistant":
            span = requests[number] if number < len(requests) else {}
            number += 1
            now = max(now, span.get("start", now))
            yield now, RequestOpened("", number, span.get("name", run["model"]), place)
            end = max(now, span.get("end", now))
            yield end, RequestClosed("", number, span.get("usage") or {}, end - now)
            now = end
            yield from _reply(message, answers, calls, now)
        elif message["role"] == "tool" and message["tool_call_id"] not in answers:
            span = calls.get(message["tool_call_id"], {})
            now = max(now, span.get("end", now))
            yield now, _result(message, span)
    yield from _end(run, state, max(now, run.get("seconds", now)), pending)


def _reply(message: Message, answers: set[str], calls: Mapping[Any, Any], now: float) -> Iterator[tuple[float, Frame]]:
    if calls_of(message) and (text := text_of(message)):
        yield now, Remark("", mask(text))
    for call in calls_of(message):
        if call.id not in answers:
            begun = max(now, calls.get(call.id, {}).get("start", now))
            yield begun, CallOpened("", call.id, call.name, mask(call.arguments))


def _result(message: Message, span: Mapping[str, Any]) -> CallClosed:
    seconds = span.get("end", 0.0) - span.get("start", 0.0)
    return CallClosed("", message["tool_call_id"], mask(text_of(message)), seconds, bool(span.get("error")))


def _end(
    run: Mapping[str, Any], state: str, now: float, pending: Sequence[PendingInput]
) -> Iterator[tuple[float, Frame]]:
    if state in ("running", "interrupted"):
        return
    outcome = OUTCOMES.get(state, "cancelled")
    answer = mask(render_text(run["answer"])) if outcome == "answer" else ""
    if answer:
        yield now, AnswerPiece(answer)
    error, usage = mask(run.get("error", "")), run["usage"]
    yield now, RunClosed("", outcome, answer, error, state, usage, run.get("seconds", 0.0), tuple(pending))
