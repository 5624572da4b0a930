"""Replay a recorded run: loop, policies and the tools' schemas are real, replies and results are recorded."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from ...core.errors import ModelError
from ...core.flow import Effect, Flow, Policy, Sleep, ask, interpret
from ...core.masking import mask, mask_data
from ...core.messages import Message, Usage
from ...engine.loop import Answer
from ...engine.model import AskModel, Delta, Reply, Request, TextDelta, ThinkingDelta, ToolCallDelta
from ...policies.consult import Consult, ConsultPerson
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ..journal.setup import schemas_of
from ..journal.steps import preset_result, restore_result, value_of
from .differences import ReplayDiffers, compare_messages, compare_tools, compare_values
from .file import Exchange, Recording


def replay_policy(
    recording: Recording,
    *,
    execute: bool = False,
    any_model: bool = False,
    timed: bool = False,
    conversation: Sequence[Message] | None = None,
) -> Policy:
    """Return the policy that gives a run its recorded replies and results, without waits.

    `conversation` is that of the new run, which is compared in place of its requests if the recording is a journal's.
    `execute` runs the tools, `any_model` accepts another provider's model, `timed` streams with the recorded delays.
    Raises `ReplayDiffers` at the first request, call or answer that differs from the recorded one.
    """
    check = partial(_check, recording, {}, any_model=any_model, conversation=conversation)
    number = 0
    differences: list[ReplayDiffers] = []

    def handle(effect: Effect[Any]) -> Flow[Any]:
        nonlocal number
        if isinstance(effect, AskModel):
            number += 1
            model = RecordedModel(check(number, effect), timed=timed)
            return (yield from ask(AskModel(model, effect.request)))  # not the effect itself: its model is another one
        if isinstance(effect, ConsultPerson) and not execute:
            return {}
        if isinstance(effect, Consult) and not execute:
            return None  # the decision is part of the conversation
        if isinstance(effect, CallTools) and not execute:
            effect = effect.with_calls(_recorded(recording, number, bound) for bound in effect.calls)
        return None if isinstance(effect, Sleep) else (yield from ask(effect))

    def policy(flow: Flow[Any]) -> Flow[Any]:
        def collect(effect: Effect[Any]) -> Flow[Any]:
            try:
                return (yield from handle(effect))
            except ReplayDiffers as difference:
                differences.append(difference)
                raise

        try:
            answer: Answer = yield from interpret(flow, collect)
        finally:
            if differences:  # also if another policy has caught it
                raise differences[0]
        _check_answer(recording, answer)
        return answer

    return policy


def _check_answer(recording: Recording, answer: Answer) -> None:
    now = mask_data(to_jsonable_python(answer.value, fallback=str))
    if "answer" in recording.end and recording.end["answer"] != now:
        difference = compare_values("", recording.end["answer"], now)
        raise ReplayDiffers(f"{recording.path}: the answer differs, {difference}")


class RecordedModel:
    """A model that returns the recorded outcome of one request."""

    def __init__(self, exchange: Exchange, *, timed: bool = False) -> None:
        self.name = exchange.model
        self._outcome = exchange.outcome or {}
        self._timed = timed

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the recorded pieces and the reply; raise the recorded error."""
        for wait, piece in self._pieces(request):
            time.sleep(wait)
            yield piece

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the recorded pieces and the reply; raise the recorded error."""
        for wait, piece in self._pieces(request):
            await asyncio.sleep(wait)
            yield piece

    def worst_case(self, _: Request) -> float:
        """Return 0: a replayed request is free."""
        return 0.0

    def _pieces(self, request: Request) -> Iterator[tuple[float, Delta | Reply]]:
        """Yield the pieces of the reply, each with the delay before it in seconds."""
        outcome, last = self._outcome, 0.0
        for at, kind, *rest in outcome.get("deltas", ()) if request.stream else ():
            yield (max(0.0, at - last) if self._timed else 0.0), DELTAS[kind](*rest)
            last = at
        if outcome.get("kind") != "reply":
            raise ModelError(
                outcome.get("message", "the recording has no reply"), kind=outcome.get("error_kind", "connection"),
                status=outcome.get("status"), transient=outcome.get("transient", False),
                retry_after=outcome.get("retry_after"),
            )  # fmt: skip
        usage = Usage(**outcome["usage"])
        yield 0.0, Reply(dict(outcome["message"]), usage, outcome["finish_reason"], outcome["model"])


ONLY_RECORDED = " (a journal has one request of each step; with record= all of them can be replayed)"
DELTAS: Mapping[str, Any] = {"text": TextDelta, "thinking": ThinkingDelta, "call": ToolCallDelta}


def _check(
    recording: Recording, masked: dict[int, tuple[Message, Message]], number: int, effect: AskModel, *, any_model: bool,
    conversation: Sequence[Message] | None,
) -> Exchange:  # fmt: skip
    """Return the recorded request with this number; raise `ReplayDiffers` for another one, or one too many.

    `masked` has the messages of earlier requests as a recording has them, so that each is converted once.
    """
    hint = "" if conversation is None else ONLY_RECORDED
    if number > len(recording.exchanges):
        raise ReplayDiffers(f"{recording.path}: {number - 1} requests are recorded, and one more is made{hint}")
    exchange = recording.exchanges[number - 1]
    request, where = effect.request, f"{recording.path}:{exchange.line}: request {number} differs"
    messages = request.messages if conversation is None else conversation
    if conversation is not None and number > 1:  # a hand-over changes the instruction
        messages = [exchange.messages[0], *messages[1:]]
    for message in messages:
        if id(message) not in masked:  # it is kept here, so its id stays its own
            masked[id(message)] = message, mask_data(to_jsonable_python(message, fallback=str))
    difference = compare_messages(exchange.messages, [masked[id(message)][1] for message in messages])
    if not difference and exchange.tools is not None:
        difference = compare_tools(exchange.tools, mask_data(schemas_of(request.tools)))
    if not difference and exchange.tool_choice not in ("", request.tool_choice):
        difference = compare_values("tool_choice", exchange.tool_choice, request.tool_choice)
    if difference:
        raise ReplayDiffers(f"{where}: {difference}{hint}")
    if not any_model and _provider(exchange.model) != _provider(effect.model.name):
        raise ReplayDiffers(
            f"{where}: recorded model {exchange.model!r}, now {effect.model.name!r}. "
            "agent.replay(path, any_model=True) accepts another provider."
        )
    return exchange


def _recorded(recording: Recording, number: int, bound: BoundCall) -> BoundCall:
    if bound.problem is not None or bound.is_answer:
        return bound
    line = recording.results.get(bound.call.id)
    where = f"{recording.path}: step {number} differs: {bound.call.name}({mask(bound.call.arguments)})"
    if line is None:
        raise ReplayDiffers(f"{where} has no recorded result")
    if (line["name"], line["arguments"]) != (bound.call.name, mask(bound.call.arguments)):
        raise ReplayDiffers(f"{where}, recorded was {line['name']}({line['arguments']})")
    if "label" in line:  # else of an older version
        return restore_result(bound, line)
    return preset_result(bound, value_of(line))


def _provider(model: str) -> str:
    return model.partition("/")[0]
