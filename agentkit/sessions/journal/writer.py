"""What one run writes into its journal: what it is about to do before it does it, and what came of it."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import Paused
from ...core.messages import Message, Usage, pending_calls
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.execution.turn import NOT_STARTED
from .conversation import JournaledConversation
from .lease import acquire_lease
from .setup import Setup
from .steps import BegunCall, inner_runs, outcome_of, time_and_calls, usage_of
from .store import JournalError, Statement, Store, digest, encode_json, open_store

DIGEST_MODULUS = 1 << 62
"""Numbers below this fit into a column."""


@dataclass(eq=False)
class JournalWriter:
    """The journal of one run.

    `messages` is the run's own list; `state` tells what else its session holds, `texts` the whole texts of cut results,
    `usage` what the run took.  What could not be written is written with what comes next.
    """

    conversation: JournaledConversation
    messages: Sequence[Message]
    state: Callable[[], Mapping[str, Any]]
    texts: Mapping[str, str]
    setup: Setup
    run: str = ""
    usage: Callable[[], Usage] = Usage
    prior: Usage = field(default_factory=Usage)
    """What a run that goes on took before, ..."""
    seconds: float = 0.0
    """... how long something was under way in it, ..."""
    calls: int = 0
    """... and how many calls it made, without those that have no result yet."""
    step: int = 0
    """How many replies the run has by now."""
    known: dict[str, BegunCall] = field(default_factory=dict)
    """The calls of the last turn that a run which goes on had begun, ..."""
    inner: dict[str, str] = field(default_factory=dict)
    """... and the runs of agents inside of calls."""
    _first: int = 1
    _pending: list[Statement] = field(default_factory=list, repr=False)
    _begun: set[str] = field(default_factory=set, repr=False)
    _ended: set[str] = field(default_factory=set, repr=False)
    _has_failed: bool = False
    _store: Store | None = field(default=None, repr=False)
    _release: Callable[[], None] | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def open(self, query: str | None, model: str) -> None:
        """Begin the run, or go on with the one that is open in the conversation if there is no query.

        Raises `JournalError` when another run has the conversation, or has gone on with it since it was opened, and
        when the agent is not the one that the run began with.
        """
        try:
            self._take_lease()
            if not self.conversation.is_continued_by(self.messages):
                self._detach()
            self._check_unchanged()
            if query is None and self.conversation.run:
                self._go_on(self._open_store())
            else:
                self._begin(query or "", model)
        except BaseException:
            self.close()
            raise

    def _take_lease(self) -> None:
        conversation = self.conversation
        try:
            self._release = acquire_lease(Path(conversation.journal.path), conversation.key)
        except OSError:
            return  # nothing can be written there, as the first write will tell
        if self._release is None:
            what = f"run {conversation.run}" if conversation.run else f"a run of {conversation.name!r}"
            raise JournalError(f"{what} is under way already, here or in another process: wait until it has ended")

    def _detach(self) -> None:
        """The conversation stays in the journal as it was; what it is now is written beside it."""
        if name := self.conversation.name:
            self._pending.append(("UPDATE conversations SET name = NULL WHERE name = ?", (name,)))
        if self._release is not None:
            self._release()
        self.conversation.detach()
        self._take_lease()

    def _open_store(self) -> Store:
        if self._store is None:
            self._store = open_store(self.conversation.journal.path, self.conversation.journal.sync)
        return self._store

    def _check_unchanged(self) -> None:
        conversation = self.conversation
        try:
            store = self._open_store()
        except JournalError:
            if conversation.journal.errors == "raise":
                raise
            return  # the first write will tell
        found = store.rows("SELECT count(*) FROM messages WHERE conversation = ?", conversation.key)[0][0]
        if not found and conversation.rows:  # it was deleted
            self._detach()
        elif found != conversation.rows:
            name = f" {conversation.name!r}" if conversation.name else ""
            raise JournalError(f"the conversation{name} went on elsewhere since it was opened: open it again")

    def _begin(self, query: str, model: str) -> None:
        self.run = self.conversation.run = secrets.token_hex(6)
        key, body = self.conversation.key, encode_json([self.setup.instruction, self.setup.tools])
        identity = f"{digest('', body):016x}"
        self._first = max(1, len(self.messages) - bool(query))
        sql = (
            "INSERT INTO runs (id, conversation, query, model, setup, first, begun, status, origin) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?)"
        )
        self._pending += [
            ("INSERT OR IGNORE INTO conversations (id, name) VALUES (?, ?)", (key, self.conversation.name)),
            ("UPDATE runs SET status = 'superseded' WHERE conversation = ? AND status != 'finished'", (key,)),
            ("INSERT OR IGNORE INTO setups VALUES (?, ?)", (identity, body)),
            (sql, (self.run, key, query, model, identity, self._first, time.time(), self.conversation.origin or None)),
        ]

    def _go_on(self, store: Store) -> None:
        self.run = self.conversation.run
        sql = "SELECT first, body FROM runs LEFT JOIN setups ON setups.id = runs.setup WHERE runs.id = ?"
        self._first, body = store.rows(sql, self.run)[0]
        if body and self.conversation.changed == "refuse":
            self._check_setup(Setup(*json.loads(body)))
        self.step = sum(message["role"] == "assistant" for message in self.conversation.written[self._first :])
        found = store.rows("SELECT call, arguments, outcome FROM steps WHERE run = ? AND step = ?", self.run, self.step)
        self.known = {
            call: BegunCall(arguments, json.loads(outcome) if outcome else None)
            for call, arguments, outcome in found
            if call
        }
        self._begun = {call for call, begun in self.known.items() if begun.outcome is not None}
        self._ended = {*self._begun}
        self.prior, self.inner = usage_of(store, self.run), dict(inner_runs(store, self.run))
        waiting = {call.id for call in pending_calls(self.messages)}
        self.seconds, self.calls = time_and_calls(store, self.run, waiting)
        self._pending.append(("UPDATE runs SET status = 'open', ended = NULL WHERE id = ?", (self.run,)))

    def _check_setup(self, old: Setup) -> None:
        if changes := old.changes(self.setup):
            raise JournalError(
                f"run {self.run} began with another agent. {'; '.join(changes)}. To go on with it all the same: "
                'agent.resume(run_id, changed="go on")'
            )

    def begin_request(self, model: str) -> None:
        """A request is about to be made."""
        self._begin_step(self.step + 1, "", model, self.conversation.total % DIGEST_MODULUS, None)

    def end_request(self, finish_reason: str | None) -> None:
        """The request has its reply; it is written as soon as the conversation holds it."""
        self._end_step(self.step + 1, "", {"usage": self.usage().as_dict(), "finish_reason": finish_reason})

    def begin_call(self, bound: BoundCall) -> None:
        """A call is about to be made."""
        identity = bound.call.id
        if bound.problem is not None or bound.is_answer or identity in self._begun:
            return
        asked = next((call for call in pending_calls(self.messages) if call.id == identity), bound.call)
        arguments = bound.call.arguments if bound.call.arguments != asked.arguments else None
        self._begun.add(identity)
        self._begin_step(self.step, identity, asked.name, digest(asked.name, asked.arguments), arguments)

    def end_call(self, result: ToolResult) -> None:
        """A call has its result; one of an agent that paused has none yet, and one that was given up had not begun."""
        identity = result.call.id
        if identity not in self._begun or identity in self._ended:
            return
        if isinstance(result.exception, Paused) or result.value is NOT_STARTED:
            sql = "DELETE FROM steps WHERE run = ? AND step = ? AND call = ?"
            self._pending.append((sql, (self.run, self.step, identity)))
        else:
            self._ended.add(identity)
            self._end_step(self.step, identity, outcome_of(result))

    def end_run(self, status: str, outcome: Mapping[str, Any]) -> None:
        """The run has ended."""
        self.conversation.run = "" if status == "finished" else self.run
        sql = "UPDATE runs SET status = ?, ended = ?, outcome = ? WHERE id = ?"
        self._pending.append((sql, (status, time.time(), encode_json(outcome), self.run)))

    def write(self, note: Callable[[], None] | None = None) -> JournalError | None:
        """Write what is new, and what `note` notes; what went wrong, if it is the first time and may be passed over."""
        try:
            with self._lock:
                self._note_conversation()
                if note is not None:
                    note()
                self._flush()
        except JournalError as error:
            is_first, self._has_failed = not self._has_failed, True
            if self.conversation.journal.errors == "raise":
                raise
            return error if is_first else None
        return None

    def close(self) -> None:
        """Let the journal go; a conversation that it does not hold whole is written as another one the next time."""
        with self._lock:
            try:
                with suppress(JournalError):
                    self._flush()
            finally:
                if self._pending or self._has_failed:
                    self.conversation.detach()
                if self._store is not None:
                    self._store.close()
                if self._release is not None:
                    self._release()

    def _flush(self) -> None:
        if self._pending and self.run:
            self._open_store().write(self._pending)
            self._pending.clear()

    def _note_conversation(self) -> None:
        conversation = self.conversation
        self._pending += conversation.truncation_statements(self.messages)
        before = len(conversation.written)
        for place, message in conversation.new_messages(self.messages):
            self._pending.append(conversation.statement(place, message))
            self.step += place >= max(before, self._first) and message["role"] == "assistant"
        self._pending += conversation.cut_statements(self.texts)
        state = self.state()
        if state != conversation.state:
            conversation.state = state
            sql = "UPDATE conversations SET state = ? WHERE id = ?"
            self._pending.append((sql, (encode_json(state), conversation.key)))

    def _begin_step(self, step: int, call: str, name: str, number: int, arguments: str | None) -> None:
        sql = "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
        self._pending.append((sql, (self.run, step, call, name, number, arguments, time.time())))

    def _end_step(self, step: int, call: str, outcome: Mapping[str, Any]) -> None:
        sql = "UPDATE steps SET ended = ?, outcome = ? WHERE run = ? AND step = ? AND call = ?"
        self._pending.append((sql, (time.time(), encode_json(outcome), self.run, step, call)))
