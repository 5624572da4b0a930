"""Record a run, and replay it: loop, policies and the tools' schemas are real, replies and results are recorded.

A recording has what the journal of a run lacks for its replay: each request as it is really made, and its outcome.  A
journaled run is replayed with its conversation in the place of its requests.
"""

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn

from pydantic_core import to_jsonable_python

from ...core.errors import InnerPaused, ModelError, RunError
from ...core.flow import Effect, Event, Flow, Policy, Sleep, around, ask, interpret
from ...core.masking import mask, mask_data, mask_pieces
from ...core.messages import Message, Usage
from ...engine.loop import Answer
from ...engine.model import AskModel, Delta, ModelAsked, ModelReplied, Reply, Request
from ...engine.result import SubRun
from ...policies.pending import ApprovalGiven, Consult, PendingInputs, StoredDecision
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ...tools.registry import ToolRegistry
from ...tools.results.jsonable import to_answer_data
from ..journal.connections import opened_store
from ..journal.maintenance import DEFAULT_PATH, closed_state, end_of_run, read_conversation, usage_before
from ..journal.policy import WriteJournal
from ..journal.run_info import (
    compare_messages,
    compare_values,
    find_entry,
    has_key,
    list_changes,
    preset_result,
    read_run_records,
    restore_result,
    schemas_of,
    to_run_info,
    value_of,
)
from ..journal.store import Journal, Place, Store, encode_json, reading, show_place
from ..journal.writer import JournalWriter
from ..records import (
    DAMAGE,
    ConversationNamed,
    DecisionMade,
    Exchange,
    MessageWritten,
    Record,
    RequestEnded,
    RequestMade,
    StateWritten,
    Step,
    UsageAdded,
    write_json,
)
from .file import DELTAS, RecordFile, Recording, begin_file, lines_of, write_lines

ONLY_RECORDED = " (a journal has one request of each step; with record= all of them can be replayed)"


class ReplayDiffers(RunError):
    """A replayed run differs from the recorded one; the message names the step, the place and both values."""


@dataclass(eq=False)
class Replay:
    """The replay of a recording, whose `policy` gives a run its recorded replies and results, without waits.

    `conversation` and `tools` are those of the new run and its agent, which are compared in place of the requests if
    the recording is a journal's.  `session_state` is that of the new run; it gets what the recorded calls left there.
    `execute` runs the tools, `any_model` accepts another provider's model, `timed` streams with the recorded delays.
    """

    recording: Recording
    conversation: Sequence[Message]
    tools: ToolRegistry
    session_state: dict[str, Any]
    execute: bool = False
    any_model: bool = False
    timed: bool = False
    _number: int = field(default=0, init=False)
    """Requests so far."""
    _masked: dict[int, tuple[Message, Message]] = field(default_factory=dict, init=False, repr=False)
    """The messages of requests, by their ids, as a recording has them, so that each is converted once."""
    _difference: ReplayDiffers | None = field(default=None, init=False)
    _paused: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)
    """The agents inside calls that the recorded run waits for, by the ids of `PendingInputs.nested`."""

    @property
    def decisions(self) -> dict[str, StoredDecision]:
        """The recorded decisions by the ids of the calls; calls that are executed are decided again."""
        recorded = {} if self.execute else self.recording.decisions
        return {call: StoredDecision(decision, None) for call, decision in recorded.items()}

    def restore_pause(self, inputs: PendingInputs, read_session: Callable[[Any], Any]) -> None:
        """Add what the recorded run waits for at its end, unless the calls are executed."""
        if self.execute:
            return
        with self._reading(": the state at its end"):
            state = {"waiting": {}, "nested": {}, **self.recording.state}  # files of older versions lack parts
            waiting = PendingInputs.from_dict(state, read_session)
        inputs.asking = waiting.asking
        inputs.nested = waiting.nested
        self._paused = waiting.nested

    def policy(self, flow: Flow[Any]) -> Flow[Any]:
        """Raise `ReplayDiffers` at the first request, call or answer that differs from the recorded one."""
        try:
            answer: Answer = yield from interpret(flow, self._handle)
        finally:
            if self._difference is not None:  # also if another policy has caught it
                raise self._difference
        now = mask_data(to_answer_data(answer.value))
        end = self.recording.end
        if "answer" in end and end["answer"] != now:
            raise self._differ(f": the answer differs, {compare_values('', end['answer'], now)}")
        return answer

    def _handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            self._number += 1
            with self._reading(f": request {self._number}"):
                model = RecordedModel(self._find_exchange(effect), timed=self.timed)
                model.check(effect.request)
            return (yield from ask(AskModel(model, effect.request)))  # not the effect itself: its model is another one
        if isinstance(effect, Consult) and not self.execute:
            return None  # the decision is part of the conversation
        if isinstance(effect, CallTools) and not self.execute:
            with self._reading(f": a call of step {self._number}"):
                effect = effect.with_calls([*map(self._restore_call, effect.calls)])
                self._restore_state(effect)
        return None if isinstance(effect, Sleep) else (yield from ask(effect))

    def _differ(self, message: str) -> ReplayDiffers:
        """Return the error for a difference; the first one ends the run."""
        error = ReplayDiffers(f"{self.recording.path}{message}")
        self._difference = self._difference or error
        return error

    @contextmanager
    def _reading(self, where: str) -> Iterator[None]:
        """Raise `ReplayDiffers` for a recorded value that is not what was written."""
        try:
            yield
        except DAMAGE as error:
            raise self._differ(f"{where} is damaged: {type(error).__name__}: {error}") from error

    def _find_exchange(self, effect: AskModel) -> Exchange:
        """Return the recorded request with this number; raise `ReplayDiffers` for another one, or one too many."""
        number = self._number
        exchanges = self.recording.exchanges
        hint = ONLY_RECORDED if self.recording.is_journaled else ""
        if number > len(exchanges):
            raise self._differ(f": {number - 1} requests are recorded, and one more is made{hint}")
        exchange = exchanges[number - 1]
        line = f":{self.recording.places[number - 1]}" if self.recording.places else ""
        where = f"{line}: request {number} differs"
        if difference := self._compare(exchange, effect.request):
            raise self._differ(f"{where}: {difference}{hint}")
        if not self.any_model and exchange.model.partition("/")[0] != effect.model.name.partition("/")[0]:
            raise self._differ(
                f"{where}: recorded model {exchange.model!r}, now {effect.model.name!r}. "
                "agent.replay(path, any_model=True) accepts another provider."
            )
        return exchange

    def _compare(self, exchange: Exchange, request: Request) -> str:
        """Describe the first difference of a request from the recorded one; "" if they are equal."""
        messages = request.messages
        offered = request.tools
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

    def _restore_state(self, effect: CallTools) -> None:
        """Change the `session_state` to what the recorded calls of a turn left there."""
        calls = sorted((bound.call.id for bound in effect.calls), key=lambda call: self._places.get(call, -1))
        lines = [self.recording.results.get(call, {}) for call in calls]
        for state in [line["session_state"] for line in lines if "session_state" in line][-1:]:
            self.session_state.clear()
            self.session_state.update(deepcopy(state))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The places of the calls in the order of their ends."""
        return {call: place for place, call in enumerate(self.recording.results)}

    def _restore_call(self, bound: BoundCall) -> BoundCall:
        if bound.problem is not None or bound.is_answer:
            return bound
        line = self.recording.results.get(bound.call.id)
        name = bound.call.name
        arguments = mask(bound.call.arguments)
        where = f": step {self._number} differs: {name}({arguments})"
        if line is None and has_key(self._paused, bound.call.id):
            return replace(bound, run=_pause, is_stored=True)
        if line is None:
            raise self._differ(f"{where} has no recorded result")
        if (line["name"], line["arguments"]) != (name, arguments):
            raise self._differ(f"{where}, recorded was {line['name']}({line['arguments']})")
        if "label" in line:  # else of an older version
            return restore_result(bound, line)
        return preset_result(bound, value_of(line))


def _pause() -> NoReturn:
    raise InnerPaused


class RecordedModel:
    """A model that returns the recorded outcome of one request."""

    def __init__(self, exchange: Exchange, *, timed: bool = False) -> None:
        self.name = exchange.model
        self._outcome = exchange.outcome or {}
        self._timed = timed

    def check(self, request: Request) -> None:
        """Read the recorded outcome, which raises for one that is damaged; a recorded error is raised by `ask`."""
        with suppress(ModelError):
            deque(self._pieces(request), maxlen=0)

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
        outcome = self._outcome
        last = 0.0
        for at, kind, *rest in outcome.get("deltas", ()) if request.stream else ():
            yield (max(0.0, at - last) if self._timed else 0.0), DELTAS[kind](*rest)
            last = at
        if outcome.get("kind") != "reply":
            raise ModelError(
                outcome.get("message", "the recording has no reply"),
                kind=outcome.get("error_kind", "connection"),
                status=outcome.get("status"),
                transient=outcome.get("transient", False),
                retry_after=outcome.get("retry_after"),
            )
        usage = Usage(**outcome["usage"])
        yield 0.0, Reply(dict(outcome["message"]), usage, outcome["finish_reason"], outcome["model"])


_KINDS = {delta: kind for kind, delta in DELTAS.items()}


class RequestRecorder:
    """Write the requests, replies, failed attempts and decisions of a run: `listen` to its events, and use `policy`."""

    def __init__(self, writer: JournalWriter, file: RecordFile) -> None:
        self._writer = writer
        self._file = file
        self._messages: Sequence[Message] = ()
        self._tools: Mapping[str, Any] = {}
        self._asked = time.perf_counter()
        self._deltas: list[list[Any]] = []

    @property
    def policy(self) -> Policy:
        """The policy of the run; not kept here, where it would be a cycle."""
        return around(self._ask, AskModel)

    def listen(self, event: Event) -> None:
        """Write the line of an event; the pieces of a reply are written with it."""
        match event:
            case ModelAsked(model, request):
                self._write_request(model, request)
            case _ if isinstance(event, Delta):
                values = (getattr(event, name) for name in event.__match_args__)
                self._deltas.append([self._seconds, _KINDS[type(event)], *values])
            case ModelReplied(reply):
                figures = {"finish_reason": reply.finish_reason, "usage": reply.usage.as_dict(), "model": reply.model}
                deltas = {"deltas": _mask_deltas(self._deltas)} if self._deltas else {}
                outcome = {"seconds": self._seconds, "message": reply.message, **figures, **deltas}
                self._file.append([RequestEnded("reply", write_json(outcome))])
            case SubRun(usage=usage) if usage.requests:
                self._file.append([UsageAdded(usage.as_dict())])
            case ApprovalGiven(call, decision):
                self._file.append([DecisionMade(call.id, to_jsonable_python(decision, fallback=str), call.name)])

    @property
    def _seconds(self) -> float:
        return round(time.perf_counter() - self._asked, 4)

    def _ask(self, effect: AskModel) -> Flow[Reply]:
        try:
            return (yield from ask(effect))
        except ModelError as error:
            kind: dict[str, Any] = {"error_kind": error.kind, "status": error.status, "transient": error.transient}
            data = {"seconds": self._seconds, "message": str(error), "retry_after": error.retry_after, **kind}
            failed = RequestEnded("error", write_json(data))
            yield from ask(WriteJournal(self._writer, partial(self._file.append, [failed])))
            raise

    def _write_request(self, model: str, request: Request) -> None:
        same = 0
        for old, new in zip(self._messages, request.messages, strict=False):
            if old is not new:
                break
            same += 1
        self._messages = [*request.messages]
        tools = schemas_of(request.tools)
        changed = tools if tools != self._tools else None
        self._tools = tools
        self._asked = time.perf_counter()
        self._deltas = []
        places = {id(message): place for place, message in enumerate(self._writer.conversation.written)}
        added = [places.get(id(message), message) for message in self._messages[same:]]  # whole if a policy made it
        self._file.append([RequestMade(model, added, same, request.tool_choice, changed)])


def _mask_deltas(deltas: list[list[Any]]) -> list[list[Any]]:
    """Mask the pieces of each text together: a secret may be spread over several of them."""
    texts: dict[Any, list[list[Any]]] = {}
    for delta in deltas:
        texts.setdefault(tuple(delta[1:-1]) if delta[1] == "call" else delta[1], []).append(delta)
    for pieces in texts.values():
        for delta, text in zip(pieces, mask_pieces([delta[-1] for delta in pieces]), strict=True):
            delta[-1] = text
    return deltas


def read_journaled(run_id: str, place: Place) -> Recording:
    """Return the recording of a journaled run.

    Raises:
        JournalError: No run has the id, or it is damaged.
    """
    lines = [json.loads(line) for line in _read_lines(run_id, place)]
    return Recording.of(lines, f"run {run_id} of {show_place(place)!r}")


def export(run_id: str, path: str | os.PathLike[str], *, store: Place = DEFAULT_PATH) -> None:
    """Write a journaled run into a file that `JsonAgent.replay` and `Session.load` read; secrets are masked.

    Raises:
        JournalError: No run has the id, or it is damaged.
        OSError: The file cannot be written.
    """
    write_lines(path, _read_lines(run_id, store))


def _read_lines(run_id: str, place: Place) -> list[str]:
    """Return the lines of the records of a run and of its conversation up to its end."""
    with opened_store(place, must_exist=True) as store, reading(store, f"run {run_id}"):
        return [*lines_of(store.read_together(partial(_read_run, run_id, place, store)))]


def _read_run(run_id: str, place: Place, store: Store) -> list[Record]:
    entry = find_entry(store, run_id)
    to_run_info(store, read_run_records(store, entry))  # raises for damage, as the next line does
    kept, _ = read_conversation(store, Journal(place), entry.conversation)
    end = end_of_run(store, entry)
    records: list[Record] = [begin_file(usage_before(store, entry.conversation, entry))]
    for record in store.records(entry, entry.conversation):
        if getattr(record, "run", entry.id) != entry.id:  # a store may return the other runs of the conversation too
            continue
        is_later = isinstance(record, MessageWritten) and end is not None and record.place >= end
        if isinstance(record, Step):
            records += record.split()
        elif not is_later and not isinstance(record, ConversationNamed):
            records.append(record)
    if len(kept.written[:end]) < len(kept.written):
        state = {**kept.state, **closed_state(kept.written[entry.first : end])}
        records.append(StateWritten(encode_json(state), entry.conversation))
    return records
