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
    join_path,
)

OUTCOMES: Mapping[str, Outcome] = {"finished": "answer", "paused": "paused", "superseded": "stopped", "failed": "error"}
"""For each state of a stored run: the outcome that its end is shown with; "cancelled" for others."""


def frames_of_stored_run(
    run: Mapping[str, Any], *, run_id: str, query: str, state: str, first: int = 0, pending: Sequence[PendingInput] = ()
) -> list[tuple[float, Frame]]:
    """Return the frames of a run with their times, those of agents inside its calls included, in the order of times.

    Args:
        run: The run, in the form of `Result.as_dict`.
        run_id: Its id.
        query: Its query.
        state: Its state, as in `RunInfo`; an interrupted or running one has no end.
        first: The index of its first message.
        pending: What it waits for.
    """
    frames: list[tuple[float, Frame]] = [(0.0, RunOpened("", run_id, mask(query), run["model"]))]
    frames += _steps("", run["messages"][first:], run["trace"].get("spans", ()), run["model"], 0.0, first)
    frames.sort(key=lambda timed: timed[0])  # stable: calls of one turn ran side by side
    frames += _end(run, state, max(frames[-1][0], run.get("seconds", 0.0)), pending)
    return frames


def _steps(
    agent: str, messages: Sequence[Message], spans: Sequence[Mapping[str, Any]], model: str, now: float, first: int
) -> Iterator[tuple[float, Frame]]:
    """Yield the requests and calls of an agent; `first` is the index of the first message in its requests."""
    requests = [span for span in spans if span["kind"] == "model"]
    calls = {span.get("call"): span for span in spans if span["kind"] == "tool"}
    answers = {message["tool_call_id"] for message in messages if message.get("content") == ANSWER_RESULT}
    number = 0
    for place, message in enumerate(messages, first):
        if message["role"] == "assistant":
            span = requests[number] if number < len(requests) else {}
            number += 1
            now = max(now, span.get("start", now))
            yield now, RequestOpened(agent, number, span.get("name", model), place)
            end = max(now, span.get("end", now))
            yield end, RequestClosed(agent, number, span.get("usage") or {}, end - now)
            now = end
            yield from _reply(agent, message, answers, calls, now)
        elif message["role"] == "tool" and message["tool_call_id"] not in answers:
            span = calls.get(message["tool_call_id"], {})
            now = max(now, span.get("end", now))
            yield now, _result(agent, message, span)


def _reply(
    agent: str, message: Message, answers: set[str], calls: Mapping[Any, Any], now: float
) -> Iterator[tuple[float, Frame]]:
    if calls_of(message) and (text := text_of(message)):
        yield now, Remark(agent, mask(text))
    for call in calls_of(message):
        if call.id not in answers:
            span = calls.get(call.id, {})
            begun, path = max(now, span.get("start", now)), join_path(agent, call.id)
            yield begun, CallOpened(agent, path, call.name, mask(call.arguments))
            if inner := span.get("inner"):
                yield from _inner(path, call.name, inner, begun, max(begun, span.get("end", begun)))


def _inner(path: str, name: str, inner: Mapping[str, Any], begun: float, end: float) -> Iterator[tuple[float, Frame]]:
    """Yield the frames of an agent inside a call."""
    messages = inner.get("messages", ())
    query = next((text_of(message) for message in messages if message["role"] == "user"), "")
    yield begun, RunOpened(path, "", mask(query), "", name)
    yield from _steps(path, messages, inner.get("spans", ()), name, begun, 0)
    yield end, RunClosed(path, "answer")


def _result(agent: str, message: Message, span: Mapping[str, Any]) -> CallClosed:
    seconds, path = span.get("end", 0.0) - span.get("start", 0.0), join_path(agent, message["tool_call_id"])
    return CallClosed(agent, path, mask(text_of(message)), seconds, bool(span.get("error")))


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
