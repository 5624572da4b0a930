"""Replay a recorded run: loop, policies and the tools' schemas are real, replies and results are recorded."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from ...core.errors import ModelError, RunError
from ...core.flow import Effect, Flow, Sleep, ask, interpret
from ...core.masking import mask, mask_data
from ...core.messages import Message, Usage
from ...engine.loop import Answer
from ...engine.model import AskModel, Delta, Reply, Request
from ...policies.consult import Consult, ConsultPerson
from ...policies.decisions import StoredDecision
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ...tools.registry import ToolRegistry
from ..differences import compare_messages, compare_values, list_changes
from ..journal.setup import schemas_of
from ..journal.steps import preset_result, restore_result, value_of
from .file import Exchange, Recording
from .lines import DELTAS

ONLY_RECORDED = " (a journal has one request of each step; with record= all of them can be replayed)"


class ReplayDiffers(RunError):
    """A replayed run differs from the recorded one; the message names the step, the place and both values."""


@dataclass(eq=False)
class Replay:
    """The replay of a recording, whose `policy` gives a run its recorded replies and results, without waits.

    `conversation` and `tools` are those of the new run and its agent, which are compared in place of the requests if
    the recording is a journal's.
    `execute` runs the tools, `any_model` accepts another provider's model, `timed` streams with the recorded delays.
    """

    recording: Recording
    conversation: Sequence[Message]
    tools: ToolRegistry
    execute: bool = False
    any_model: bool = False
    timed: bool = False
    _number: int = field(default=0, init=False)
    """Requests so far."""
    _masked: dict[int, tuple[Message, Message]] = field(default_factory=dict, init=False, repr=False)
    """The messages of requests, by their ids, as a recording has them, so that each is converted once."""
    _difference: ReplayDiffers | None = field(default=None, init=False)

    @property
    def decisions(self) -> dict[str, StoredDecision]:
        """The recorded decisions by the ids of the calls; calls that are executed are decided again."""
        recorded = {} if self.execute else self.recording.decisions
        return {call: StoredDecision(decision, None) for call, decision in recorded.items()}

    def policy(self, flow: Flow[Any]) -> Flow[Any]:
        """Raise `ReplayDiffers` at the first request, call or answer that differs from the recorded one."""
        try:
            answer: Answer = yield from interpret(flow, self._handle)
        finally:
            if self._difference is not None:  # also if another policy has caught it
                raise self._difference
        now, end = mask_data(to_jsonable_python(answer.value, fallback=str)), self.recording.end
        if "answer" in end and end["answer"] != now:
            raise self._differ(f": the answer differs, {compare_values('', end['answer'], now)}")
        return answer

    def _handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            self._number += 1
            model = RecordedModel(self._find_exchange(effect), timed=self.timed)
            return (yield from ask(AskModel(model, effect.request)))  # not the effect itself: its model is another one
        if isinstance(effect, ConsultPerson) and not self.execute:
            return {}
        if isinstance(effect, Consult) and not self.execute:
            return None  # the decision is part of the conversation
        if isinstance(effect, CallTools) and not self.execute:
            effect = effect.with_calls(map(self._restore_call, effect.calls))
        return None if isinstance(effect, Sleep) else (yield from ask(effect))

    def _differ(self, message: str) -> ReplayDiffers:
        """Return the error for a difference; the first one ends the run."""
        error = ReplayDiffers(f"{self.recording.path}{message}")
        self._difference = self._difference or error
        return error

    def _find_exchange(self, effect: AskModel) -> Exchange:
        """Return the recorded request with this number; raise `ReplayDiffers` for another one, or one too many."""
        number, exchanges = self._number, self.recording.exchanges
        hint = ONLY_RECORDED if self.recording.is_journaled else ""
        if number > len(exchanges):
            raise self._differ(f": {number - 1} requests are recorded, and one more is made{hint}")
        exchange = exchanges[number - 1]
        where = f":{exchange.line}: request {number} differs"
        if difference := self._compare(exchange, effect.request):
            raise self._differ(f"{where}: {difference}{hint}")
        if not self.any_model and _provider(exchange.model) != _provider(effect.model.name):
            raise self._differ(
                f"{where}: recorded model {exchange.model!r}, now {effect.model.name!r}. "
                "agent.replay(path, any_model=True) accepts another provider."
            )
        return exchange

    def _compare(self, exchange: Exchange, request: Request) -> str:
        """Describe the first difference of a request from the recorded one; "" if they are equal."""
        messages, offered = request.messages, request.tools
        if self.recording.is_journaled:  # a hand-over changes the instruction
            offered = self.tools
            messages = [(exchange.messages if self._number > 1 else self.conversation)[0], *self.conversation[1:]]
        if difference := compare_messages(exchange.messages, map(self._mask, messages)):
            return difference
        if exchange.tools is not None and exchange.tools != (tools := mask_data(schemas_of(offered))):
            changes = list_changes(exchange.tools, tools) or [compare_values("", exchange.tools, tools)]
            return f"the tools: {'; '.join(changes)}"
        if exchange.tool_choice in ("", request.tool_choice):
            return ""
        return compare_values("tool_choice", exchange.tool_choice, request.tool_choice)

    def _mask(self, message: Message) -> Message:
        if id(message) not in self._masked:  # it is kept here, so its id stays its own
            self._masked[id(message)] = message, mask_data(to_jsonable_python(message, fallback=str))
        return self._masked[id(message)][1]

    def _restore_call(self, bound: BoundCall) -> BoundCall:
        if bound.problem is not None or bound.is_answer:
            return bound
        line, name, arguments = self.recording.results.get(bound.call.id), bound.call.name, mask(bound.call.arguments)
        where = f": step {self._number} differs: {name}({arguments})"
        if line is None:
            raise self._differ(f"{where} has no recorded result")
        if (line["name"], line["arguments"]) != (name, arguments):
            raise self._differ(f"{where}, recorded was {line['name']}({line['arguments']})")
        if "label" in line:  # else of an older version
            return restore_result(bound, line)
        return preset_result(bound, value_of(line))


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


def _provider(model: str) -> str:
    return model.partition("/")[0]
