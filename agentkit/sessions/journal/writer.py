"""Write one run into its journal: each step before it is made, its outcome afterwards, and the new messages."""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError
from ...core.messages import Message, ToolCall, Usage, pending_calls
from ...core.values import frozen
from ...engine.model import Reply
from ...policies.limits import Spent
from ...policies.long_results import TruncatedResults
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.execution.turn import NOT_STARTED
from ..records import (
    ConversationCut,
    ConversationNamed,
    MessageWritten,
    Record,
    RunBegun,
    RunConcluded,
    RunReopened,
    StateWritten,
    Step,
    StepBegun,
    StepEnded,
    StepWithdrawn,
    TextStored,
    cut_digest,
    digest,
    step_digest,
)
from .connections import close_store, open_store
from .run_info import (
    RecordedOutcome,
    RunInfo,
    Setup,
    begun_calls,
    decode_setup,
    inner_runs,
    outcome_of,
    read_run_records,
    time_and_calls,
    usage_of,
)
from .store import (
    ConversationBusy,
    Journal,
    JournalError,
    Lease,
    LeaseLost,
    RunFilter,
    Store,
    encode_json,
    show_place,
)

Uncertain: TypeAlias = Callable[[ToolCall], Any] | Literal["ask"] | None
"""Decide about a call whose outcome is unknown: True repeats it, a value is its result, None or False informs the model
that the outcome is unknown; "ask" asks the person at the terminal."""
Changed: TypeAlias = Literal["refuse", "go on"]


@frozen
class StoredAnswer:
    """A finished run, and the calls of its last reply: that of the answer tool has the typed answer."""

    run: RunInfo
    calls: tuple[ToolCall, ...]


@dataclass(eq=False)
class JournaledConversation:
    """One conversation in a journal; `run` is its unfinished run, or "".

    A message is written again only if it is another object.  Only the first one and those of the last turn are
    compared, because the loop changes no others.
    """

    journal: Journal
    key: int = field(default_factory=lambda: secrets.randbits(60))
    name: str | None = None
    origin: str = ""
    """"run/call" of the enclosing run, if it is the conversation of an agent inside a tool."""
    run: str = ""
    begun: Mapping[str, RecordedOutcome | None] = field(default_factory=dict, repr=False)
    """The pending calls that the unfinished run has begun, in any process, with the outcomes that are recorded."""
    is_hiding: bool = False
    """Whether the agent of the unfinished run hides untrusted results."""
    next_run: str = ""
    """The id that the next run gets; "" for a random one."""
    on_uncertain: Uncertain = None
    changed: Changed = "refuse"
    written: list[Message] = field(default_factory=list, repr=False)
    digests: list[int] = field(default_factory=list, repr=False)
    cut: set[str] = field(default_factory=set, repr=False)
    cut_version: tuple[object, int] = field(default=(None, 0), repr=False)
    """The texts that were written last, and their version."""
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    total: int = 0
    """The sum of the digests without the instruction's: each request stores it, so missing messages are noticed."""
    stored: "StoredAnswer | None" = field(default=None, repr=False)
    """The answer of a finished run that is resumed; a run without a query returns it."""
    base: Usage = field(default_factory=Usage)
    """The usage of the other runs of the conversation."""

    def is_continued_by(self, messages: Sequence[Message]) -> bool:
        """Return whether `messages` begin with the written ones, ignoring the instruction and the last turn."""
        kept = self._turn
        return len(messages) >= kept and all(
            old is new or old == new for old, new in zip(self.written[1:kept], messages[1:kept], strict=True)
        )

    def command_to_resume(self) -> str:
        """Return the command that continues the unfinished run; "" if the conversation has none.

        The command does not know a store of the program's own.
        """
        if not isinstance(self.journal.path, str | os.PathLike):
            return ""
        return f"agentkit resume {self.run} --journal {show_place(self.journal.path)}" if self.run else ""

    def set_decisions(self, on_uncertain: Uncertain, changed: Changed) -> None:
        """Set what is done about calls in doubt, and about another agent than the one that began the run."""
        if on_uncertain not in (None, "ask") and not callable(on_uncertain):
            raise DefinitionError(f'on_uncertain must be a function, "ask" or None, got {on_uncertain!r:.60}')
        if changed not in ("refuse", "go on"):
            raise DefinitionError(f'changed must be "refuse" or "go on", got {changed!r:.60}')
        self.on_uncertain = on_uncertain
        self.changed = changed

    def begin_run(self) -> str:
        """Return the id of a new run, which is now the unfinished one."""
        self.begun = {}
        self.run = self.next_run or secrets.token_hex(6)
        self.next_run = ""
        return self.run

    def detach(self) -> None:
        """Become a new conversation; the old one stays in the journal."""
        self.key = secrets.randbits(60)
        self.run = ""
        self.state = {}
        self.total = 0
        self.written = []
        self.digests = []
        self.cut = set()
        self.cut_version = (None, 0)
        self.stored = None

    def note(self, message: Message, number: int) -> None:
        """Add the next message that the journal has, with its digest."""
        self.total += number if self.written else 0
        self.written.append(message)
        self.digests.append(number)

    def message_records(self, messages: Sequence[Message]) -> Iterator[MessageWritten]:
        """Yield the records of the messages to write, which count as written."""
        for place in (*range(min(1, len(messages))), *range(max(1, self._turn), len(messages))):
            if place == len(self.written):
                self.note({}, 0)
            old = self.written[place]
            self.written[place] = messages[place]
            if old is not messages[place] and old != messages[place]:
                body = encode_json(messages[place])
                number = digest(place, body)
                self.total += (number - self.digests[place]) if place else 0
                self.digests[place] = number
                yield MessageWritten(place, body, self.key, number)

    def cut_records(self, messages: Sequence[Message]) -> Iterator[Record]:
        """Yield the record that ends the conversation earlier, if there are fewer `messages`."""
        if (end := len(messages)) < len(self.written):
            self.total -= sum(self.digests[max(1, end) :])
            del self.written[end:], self.digests[end:]
            yield ConversationCut(end, self.key)

    def text_records(self, stored: TruncatedResults) -> Iterator[Record]:
        """Yield the records of the full texts of results truncated since the last write."""
        if self.cut_version[0] is stored and self.cut_version[1] == stored.version:
            return
        self.cut_version = stored, stored.version
        for key in self.cut ^ stored.texts.keys():
            if key in self.cut:
                yield TextStored(key, None, self.key)
            else:
                body = encode_json(stored.encode(key))
                yield TextStored(key, body, self.key, cut_digest(self.key, key, body))
        self.cut = {*stored.texts}

    @property
    def _turn(self) -> int:
        """The index at which the last written turn begins."""
        places = range(len(self.written) - 1, -1, -1)
        return next((place for place in places if self.written[place].get("role") != "tool"), 0)


DIGEST_MODULUS = 1 << 62  # integers below it fit into a column
RETRY_SECONDS = 5.0
"""Seconds after which a run tries again to open a journal that could not be opened."""


@dataclass(eq=False)
class JournalWriter:
    """The journal of one run; records that could not be written are written with the next ones.

    `messages` is the run's own list, `state` returns the rest of its session, `usage` returns the usage of the run.
    """

    conversation: JournaledConversation
    messages: Sequence[Message]
    state: Callable[[], Mapping[str, Any]]
    texts: TruncatedResults
    setup: Setup
    append: Callable[[Sequence[Record]], None] | None = None
    """Writes the records of a run that is not in the store of `open`: into a file of its own."""
    run: str = ""
    usage: Callable[[], Usage] = Usage
    owner: str = ""
    """Who pays for the run; "" without a quota."""
    spent: Spent = field(default_factory=Spent)
    """What a resumed run used before, without the calls that have no result."""
    step: int = 0
    """Replies of the run."""
    known: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The outcomes of the recorded calls of the last turn of a resumed run, by their ids; None without an outcome."""
    decided: dict[str, Any] = field(default_factory=dict)
    """The decisions about those calls: True, or the new arguments."""
    inner: dict[str, str] = field(default_factory=dict)
    """The runs of agents inside its calls, by the calls' ids."""
    _first: int = 1
    _pending: list[Record] = field(default_factory=list, repr=False)
    _begun: set[str] = field(default_factory=set, repr=False)
    _ended: set[str] = field(default_factory=set, repr=False)
    _unrecorded: set[str] = field(default_factory=set, repr=False)
    """The ids of calls whose beginning is not in the journal yet."""
    _reply: tuple[int, Reply] | None = None
    """A recorded reply that is not in the conversation yet, and the digest of the messages that it answers."""
    _figures: dict[str, Any] | None = None
    """The outcome of the last request without its message."""
    _begins: dict[tuple[int, str], tuple[str, int, str | None]] = field(default_factory=dict, repr=False)
    """The names, the inputs and the arguments of the steps that began."""
    _with_images: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict, repr=False)
    """The steps and the outcomes of calls whose images are in no message yet."""
    _has_failed: bool = False
    _is_closed: bool = False
    _is_begun: bool = True
    """Whether the journal has the begin of the run."""
    _open_error: JournalError | None = None
    """Why the store could not be opened."""
    _session_state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The `session_state` that was written last with the outcome of a call, at first that of the begin."""
    _superseded: str = ""
    """The unfinished run of the conversation before this one."""
    _next_try: float = 0.0
    _store: Store | None = field(default=None, repr=False)
    _lease: Lease | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def open(self, query: str | None, model: str) -> None:
        """Begin a run, or without a query continue the unfinished run of the conversation.

        Raises:
            JournalError: Another run has the conversation or has continued it since it was opened, the run began
                with other tools or another instruction, or it has begun calls and is not in the journal any more.
        """
        continues = query is None and bool(self.conversation.run)
        try:
            if not self._take_lease(must_succeed=continues) or not self.conversation.is_continued_by(self.messages):
                self._detach()
            if self._store is not None:
                if continues and not self._store.runs(RunFilter(ids=[self.conversation.run])):  # it was deleted alone
                    self._detach()
                self._check_unchanged()
            if continues and self.conversation.run:
                self._continue(self._open_store())
            else:
                if query is None:
                    self._check_not_begun()
                self.begin(query or "", model)
        except BaseException:
            self.close()
            raise

    def _take_lease(self, *, must_succeed: bool = True) -> bool:
        """Take the lease of the conversation; return whether it could be written."""
        conversation = self.conversation
        what = f"run {conversation.run}" if conversation.run else f"a run of {conversation.name!r}"
        try:
            self._lease = self._open_store().take(conversation.key, what)
            self._lease.keep()
        except JournalError as error:
            if must_succeed or isinstance(error, ConversationBusy) or conversation.journal.errors == "raise":
                raise
        return self._lease is not None

    def _detach(self) -> None:
        """Write the present conversation as a new one, leased with its first records; the old one stays."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self.conversation.detach()

    def _open_store(self) -> Store:
        """Return the store; one that could not be opened is tried again after `RETRY_SECONDS`."""
        if self._store is None:
            if self._open_error is not None and time.monotonic() < self._next_try:
                raise self._open_error
            try:
                self._store = open_store(self.conversation.journal.path, self.conversation.journal.sync)
            except JournalError as error:
                self._open_error = error
                self._next_try = time.monotonic() + RETRY_SECONDS
                raise
        return self._store

    def _check_unchanged(self) -> None:
        conversation = self.conversation
        found = self._open_store().count_messages(conversation.key)
        if not found and conversation.written:  # the messages were deleted
            self._detach()
        elif found != len(conversation.written):
            name = f" {conversation.name!r}" if conversation.name else ""
            message = f"the conversation{name} was continued elsewhere since it was opened. Open it again."
            raise ConversationBusy(message)

    def _check_not_begun(self) -> None:
        """Raise `JournalError` if a new run would repeat calls that another one has begun."""
        if begun := [call.name for call in pending_calls(self.messages) if call.id in self.conversation.begun]:
            raise JournalError(
                "the unfinished run of the session cannot be continued: it is not in this journal any more, or the "
                f"messages of the session were changed. Calls that had begun would be repeated: {', '.join(begun)}. "
                "Give a query, which continues with their recorded outcomes: agent(query, session=session)"
            )

    def begin(self, query: str, model: str) -> None:
        """Add the record of a new run."""
        self._superseded = self.conversation.run
        self.run = self.conversation.begin_run()
        self._session_state = self.setup.session_state
        key = self.conversation.key
        body = self.setup.encode()
        self._first = max(1, len(self.messages) - bool(query))
        self._is_begun = False
        if name := self.conversation.name:
            self._pending.append(ConversationNamed(name, key))
        origin = self.conversation.origin
        self._pending.append(RunBegun(self.run, query, model, self._first, time.time(), key, body, origin))

    def _continue(self, store: Store) -> None:
        self.run = self.conversation.run
        self._session_state = self.setup.session_state
        run = read_run_records(store, self.run)
        self._first = run.entry.first
        if self.conversation.changed == "refuse" and (before := decode_setup(run.setup)):
            before.check(self.run, self.setup)
        self.step = sum(message["role"] == "assistant" for message in self.conversation.written[self._first :])
        for step in run.steps:
            if step.call and step.step == self.step:
                self.known[step.call] = json.loads(step.outcome) if step.outcome else None
                self.decided[step.call] = json.loads(step.arguments) if step.arguments else True
        self._begun = {call for call, outcome in self.known.items() if outcome is not None}
        self._ended = {*self._begun}
        self._take_recorded(run.step_of(self.step + 1))
        self.inner = dict(inner_runs(store, self.run))
        self.conversation.begun = begun_calls(store, run, self.messages)
        seconds, calls = time_and_calls(store, run, {call.id for call in pending_calls(self.messages)})
        self.spent = Spent(self.step + (self._reply is not None), calls, seconds, usage_of(store, run))
        self._pending.append(RunReopened(self.run, self.conversation.key))

    def _take_recorded(self, step: Step | None) -> None:
        """Take the reply of a request that the conversation lacks, and its other figures."""
        data = json.loads(step.outcome) if step is not None and step.outcome else {}
        if step is not None and (message := data.pop("message", None)):
            self._begins[step.step, ""] = step.name, step.input, step.arguments
            self._reply = step.input, Reply(message, Usage(), data.get("finish_reason"))
            self._figures = data

    def _begin_step(self, step: int, call: str, name: str, number: int, arguments: str | None) -> None:
        self._begins[step, call] = name, number, arguments
        check = step_digest(self.run, step, call, name, number, arguments, None)
        key = self.conversation.key
        self._pending.append(StepBegun(step, call, name, arguments, number, time.time(), self.run, key, check))

    def _end_step(self, step: int, call: str, outcome: Mapping[str, Any], ended: float | None) -> None:
        text = encode_json(outcome)
        begin = self._begins.get((step, call))
        check = None if begin is None else step_digest(self.run, step, call, *begin, text)
        self._pending.append(StepEnded(step, call, text, ended, self.run, self.conversation.key, check))

    def _release_images(self, message: Message) -> None:
        """Remove the images of a result whose message is written, and has them."""
        if message["role"] == "tool" and (kept := self._with_images.pop(message["tool_call_id"], None)):
            step, outcome = kept
            rest = {key: value for key, value in outcome.items() if key != "images"}
            self._end_step(step, message["tool_call_id"], rest, None)

    def begin_request(self, model: str) -> None:
        """Record that a request is about to be made."""
        self._begin_step(self.step + 1, "", model, self.conversation.total % DIGEST_MODULUS, None)

    def end_request(self, reply: Reply) -> None:
        """Record the reply of the request; its message stays in the step until the conversation has it."""
        figures = {"usage": self.usage().as_dict(), "request_usage": reply.usage.as_dict()}
        self._figures = {**figures, "finish_reason": reply.finish_reason}
        if self.owner:
            self._figures["owner"] = self.owner
        self._end_step(self.step + 1, "", {**self._figures, "message": reply.message}, time.time())

    def may_run(self, call: str) -> bool:
        """Return whether the journal has the beginning of a call, or its outcome."""
        return call in self.conversation.begun or (call in self._begun and call not in self._unrecorded)

    def take_reply(self) -> Reply | None:
        """Return the reply that was recorded before the run was stopped, once, if the conversation is the same."""
        recorded = self._reply
        self._reply = None
        if recorded is None or recorded[0] != self.conversation.total % DIGEST_MODULUS:
            return None
        return recorded[1]

    def begin_call(self, bound: BoundCall) -> None:
        """Record that a call is about to be made."""
        identity = bound.call.id
        if bound.problem is not None or bound.is_answer or identity in self._begun:
            return
        asked = next((call for call in pending_calls(self.messages) if call.id == identity), bound.call)
        arguments = bound.call.arguments if bound.call.arguments != asked.arguments else None
        self._begun.add(identity)
        self._unrecorded.add(identity)
        self._begin_step(self.step, identity, asked.name, digest(asked.name, asked.arguments), arguments)

    def end_call(self, result: ToolResult) -> None:
        """Record the result of a call; a paused call has no result yet, and a cancelled one may not have begun."""
        identity = result.call.id
        if identity not in self._begun or identity in self._ended:
            return
        if result.is_open or result.value is NOT_STARTED:  # begun again, it is recorded again
            self._begun.discard(identity)
            self._pending.append(StepWithdrawn(self.step, identity, self.run, self.conversation.key))
        else:
            self._ended.add(identity)
            outcome = outcome_of(result)
            state = self.conversation.state.get("session_state", {})
            if state != self._session_state:
                outcome["session_state"] = self._session_state = state
            if "images" in outcome:
                self._with_images[identity] = self.step, outcome
            self._end_step(self.step, identity, outcome, time.time())

    def end_run(self, status: str, outcome: Mapping[str, Any]) -> None:
        """Record the end of the run."""
        self.conversation.run = "" if status == "finished" else self.run
        last = len(self.messages) if status == "finished" else None
        key = self.conversation.key
        self._pending.append(RunConcluded(status, encode_json(outcome), time.time(), last, self.run, key))

    def write(self, note: Callable[[], None] | None = None) -> JournalError | None:
        """Call `note` and write all new records; return the first error, if errors do not end the run.

        A write that waits in a thread while a cancelled run is closed does nothing: the conversation may have
        continued.
        """
        try:
            with self._lock:
                if self._is_closed:
                    return None
                self._note_conversation()
                if note is not None:
                    note()
                self._flush()
        except LeaseLost:
            self._has_failed = True
            raise
        except JournalError as error:
            is_first = not self._has_failed
            self._has_failed = True
            if self.conversation.journal.errors == "raise":
                raise
            return error if is_first else None
        return None

    def close(self) -> None:
        """Release the journal; a conversation that is not written completely becomes a new one in the next run.

        A run that has written nothing, because it was stopped before its first step, is not recorded at all.
        """
        with self._lock:
            self._is_closed = True
            try:
                if not self._is_begun and not self._has_failed and self.append is None:
                    self._pending.clear()
                    self.conversation.run = self._superseded
                with suppress(JournalError):
                    self._flush()
            finally:
                if self._pending or self._has_failed:
                    self.conversation.detach()
                if self._lease is not None:
                    self._lease.release()
                if self._store is not None:
                    close_store(self._store, may_rest=True)

    def _flush(self) -> None:
        if self._pending and self.run:
            if self._lease is None and self.append is None:
                self._take_lease()
            append = self.append or partial(self._open_store().append, lease=self._lease)
            append(self._pending)
            self._pending.clear()
            self._unrecorded.clear()
            self._is_begun = True

    def _note_conversation(self) -> None:
        conversation = self.conversation
        self._pending += conversation.cut_records(self.messages)
        before = len(conversation.written)
        for record in conversation.message_records(self.messages):
            message = self.messages[record.place]
            self._pending.append(record)
            self._release_images(message)
            if record.place >= max(before, self._first) and message["role"] == "assistant":
                self.step += 1
                if self._figures is not None:  # the message has a record of its own now
                    self._end_step(self.step, "", self._figures, None)
                    self._figures = None
        self._pending += conversation.text_records(self.texts)
        if (state := self.state()) != conversation.state:
            conversation.state = state
            self._pending.append(StateWritten(encode_json(state), conversation.key))
