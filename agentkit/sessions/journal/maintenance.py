"""A journal as a whole: read, list, show, branch and delete its runs, and save the sound ones of a damaged file.

A run is shown in the terminal, in a notebook, and as a page.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ...core.errors import DefinitionError, RunError
from ...core.lazy_names import clean_ups, display_with
from ...core.masking import masked_repr
from ...core.messages import Message, ToolCall, Usage, assistant, calls_of, tool_message
from ...engine.trace import Span, Trace
from ...policies.long_results import TruncatedResults
from ...tools.results.result_text import render_text
from .connections import opened_store
from .location import ConversationBusy, Journal, JournalError, Place, is_url, show_place
from .run_info import (
    UNFINISHED,
    RunInfo,
    begun_calls,
    find_run,
    inner_runs,
    list_runs,
    read_steps,
    usage_of,
    with_inner_runs,
)
from .store import Statement, Store, damage_error, digest, encode_json, read_checked_messages, read_texts, reading
from .tables import COLUMNS, INSERT_CONVERSATION, INSERT_RUN, INSERT_STEP, insert
from .writer import DIGEST_MODULUS, JournaledConversation, StoredAnswer

HANDOFF_PREFIX = "The conversation is handed over to "
"""The beginning of the result of a hand-off."""
TRANSFER_PREFIX = "transfer_to_"
"""The beginning of the names of hand-off tools."""
Opened: TypeAlias = tuple[JournaledConversation, dict[str, Any]]
"""A conversation to continue, and the state of its session as far as it was written."""


def read_messages(store: Store, key: int) -> Iterator[tuple[Message, int]]:
    """Yield the messages of a conversation with their digests; raise `JournalError` at the first damaged one."""
    with reading(store, f"messages, conversation {key}"):
        for _, body, number, error in read_checked_messages(store, key):
            if error:
                raise JournalError(error)
            yield json.loads(body), number


def read_conversation(store: Store, journal: Journal, key: int) -> Opened:
    """Return a conversation without what its runs have used."""
    kept = JournaledConversation(journal, key)
    for message, number in read_messages(store, key):
        kept.note(message, number)
    cut = read_texts(store, key)
    with reading(store, f"conversations and cut, conversation {key}"):
        state, kept.name = store.read("SELECT state, name FROM conversations WHERE id = ?", key)[0]
        kept.state = json.loads(state)
    kept.cut = {*cut}
    return kept, {**kept.state, "cut": cut}


def open_named(journal: Journal, name: str) -> Opened:
    """Return the conversation of that name, or a new one."""
    if not isinstance(name, str) or not name:
        raise RunError(
            f'a conversation of a journal needs a name, got {name!r:.60}. Give a text: Session.open("ada", ...)'
        )
    with opened_store(journal.path, journal.sync) as store, reading(store, f"conversations, {name!r}"):
        key = JournaledConversation(journal).key
        store.append([(INSERT_CONVERSATION, (key, name))])
        key = store.read("SELECT id FROM conversations WHERE name = ?", name)[0][0]
        kept, state = read_conversation(store, journal, key)
        unfinished = store.read(f"SELECT id FROM runs WHERE conversation = ? AND {UNFINISHED}", key)
        kept.run = unfinished[0][0] if unfinished else ""
        kept.begun = begun_calls(store, kept.run, kept.written)
        kept.base = usage_before(store, key, kept.run)
        return kept, state


def open_run(journal: Journal, run: str) -> Opened:
    """Return the conversation of a run to resume, and its state.

    The conversation of a finished run ends with that run and has its stored answer; nothing is written until the next
    query.  If it continued with other runs, the returned one is a new conversation.

    Raises:
        JournalError: There is no such run, it is damaged or in progress, or its conversation continued without it.
    """
    with opened_store(journal.path, journal.sync, must_exist=True) as store, reading(store, f"runs, run {run}"):
        wanted = find_run(store, run)
        if wanted.state not in ("finished", "superseded"):
            store.check_free(wanted.conversation, f"run {wanted.id}")
        return store.read_together(partial(_read_run, store, journal, run))


def _read_run(store: Store, journal: Journal, name: str) -> Opened:
    """Return the conversation of a run that is finished or can be resumed, and its state."""
    run = find_run(store, name)  # another process may have ended it before it was free
    if run.state == "superseded":
        raise JournalError(
            f"run {run.id} cannot be resumed: its conversation continued with another run. Branch it: "
            f"agent.fork({run.id!r}, step)"
        )
    kept, state = read_conversation(store, journal, run.conversation)
    messages = kept.written[: end_of_run(store, run)]
    replies = _find_replies(store, kept, run, len(messages))
    if run.state == "finished":
        later = store.read(f"SELECT 1 FROM runs WHERE conversation = ? AND rowid > {_ROW} LIMIT 1", kept.key, run.id)
        if later or len(messages) < len(kept.written):
            kept = JournaledConversation(journal)
        kept.stored = StoredAnswer(run, tuple(calls_of(messages[replies[-1]])) if replies else ())
        state |= {**closed_state(messages[run.first :]), "messages": messages}
    else:
        kept.run = run.id
        kept.begun = begun_calls(store, run.id, messages)
    kept.base = usage_before(store, run.conversation, run.id)
    return kept, state


_ROW = "(SELECT rowid FROM runs WHERE id = ?)"


def usage_before(store: Store, key: int, run: str) -> Usage:
    """Return the usage of the runs of a conversation before `run`, or for "" of all."""
    sql = f"SELECT id FROM runs WHERE conversation = ? AND rowid < coalesce({_ROW}, {sys.maxsize})"
    return sum((usage_of(store, other) for (other,) in store.read(sql, key, run)), Usage())


def end_of_run(store: Store, run: RunInfo) -> int | None:
    """Return the index after the last message of a run; None if it is the end of the conversation."""
    if run.end is not None:
        return run.end
    sql = f"SELECT min(first) FROM runs WHERE conversation = ? AND rowid > {_ROW}"
    end: int | None = store.read(sql, run.conversation, run.id)[0][0]
    return end


def closed_state(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the state of a session after a run with these messages that left no pending call and no unread message."""
    results = [message for message in messages if message["role"] == "tool"]
    accepted = {entry.get("tool_call_id") for entry in results if str(entry.get("content")).startswith(HANDOFF_PREFIX)}
    calls = [call for message in messages for call in calls_of(message) if call.id in accepted]
    handed = [call.name.removeprefix(TRANSFER_PREFIX) for call in calls if call.name.startswith(TRANSFER_PREFIX)]
    return {"inbox": [], "waiting": {}, "nested": {}, "handed": handed, "asked": {}, "inner_answers": {}}


def _find_replies(store: Store, kept: JournaledConversation, run: RunInfo, end: int) -> list[int]:
    """Return the indexes of a run's replies; raise `JournalError` if messages before its last request are missing."""
    places = [place for place in range(run.first, end) if kept.written[place]["role"] == "assistant"]
    rows = store.read("SELECT step, input FROM steps WHERE run = ? AND call = '' ORDER BY step DESC LIMIT 1", run.id)
    for step, number in rows:
        before = places[step - 1] if step <= len(places) else end
        if number != sum(kept.digests[1:before]) % DIGEST_MODULUS:
            raise damage_error(store, f"messages of run {run.id} are missing")
    return places


SECONDS_PER_DAY = 86_400.0
DELETE_SETUPS = "DELETE FROM setups WHERE id NOT IN (SELECT setup FROM runs WHERE setup IS NOT NULL)"
DEFAULT_PATH = "runs.db"
"""The default journal."""


def runs(store: Place = DEFAULT_PATH, *, unfinished: bool = False, limit: int | None = None) -> list[RunInfo]:
    """Return the runs of a journal, the newest first; with `unfinished`, only those that can be resumed.

    A run that cannot be read has the state "damaged".  `limit` is the greatest number of runs.
    """
    with opened_store(store, must_exist=True) as opened:
        if not unfinished:
            return list_runs(opened, limit=limit)
        return [run for run in list_runs(opened, UNFINISHED) if run.is_unfinished][:limit]  # others are running


def name_conversations(store: Place = DEFAULT_PATH) -> dict[int, str]:
    """Return the names of the conversations that `Session.open` began, by the key that `RunInfo.conversation` has."""
    with opened_store(store, must_exist=True) as opened, reading(opened, "conversations"):
        return dict(opened.read("SELECT id, name FROM conversations WHERE name IS NOT NULL AND name != ''"))


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells whether a conversation has continued: its key, its last run, and whether a process works on it.

    `written` changes with each write of a step, a message or the state.
    """

    key: int
    run: str
    is_running: bool
    written: str


def read_mark(conversation: str | int, store: Place = DEFAULT_PATH) -> Mark | None:
    """Return the mark of a conversation, by its name or its key; None if the journal has no such conversation."""
    column = "name" if isinstance(conversation, str) else "id"
    sql = (
        "SELECT c.id, c.state, (SELECT count(*) FROM messages m WHERE m.conversation = c.id), r.id, r.status, r.ended, "
        "(SELECT max(coalesce(s.ended, s.begun)) FROM steps s WHERE s.run = r.id) FROM conversations c "
        f"LEFT JOIN runs r ON r.conversation = c.id WHERE c.{column} = ? ORDER BY r.rowid DESC LIMIT 1"
    )
    with opened_store(store, must_exist=True) as opened, reading(opened, f"conversations, {conversation!r}"):
        rows = opened.read(sql, conversation)
        if not rows:
            return None
        key, state, *rest = rows[0]
        return Mark(key, rest[1] or "", opened.is_leased(key), f"{digest('', state)} {rest}")


def fork(run_id: str, step: int, *, store: Place = DEFAULT_PATH) -> str:
    """Branch a run after its first `step` replies and their calls (0: after the query); return the branch's id.

    The run itself is not changed.  The branch is resumed like any run, also by an agent with other tools or another
    instruction.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"runs, run {run_id}"):
        run = find_run(opened, run_id)
        kept, before = read_conversation(opened, Journal(store), run.conversation)
        listed = kept.written[: end_of_run(opened, run)]
        replies = [place for place in range(run.first, len(listed)) if listed[place]["role"] == "assistant"]
        last = len(replies) - (run.state == "finished")
        if not 0 <= step <= last:
            raise JournalError(f"run {run.id}: step must be an integer from 0 to {last}, got {step}")
        end = replies[step] if step < len(replies) else len(listed)
        state = {**kept.state, **closed_state(listed[run.first : end]), "inbox": kept.state.get("inbox", [])}
        steps = [row for row in read_steps(opened, [run.id])[run.id] if row.step <= step]
        branch = JournaledConversation(kept.journal)
        begun = branch.begin_run(), branch.key, run.query, run.model, None, run.first, time.time(), f"{run.id}:{step}"
        opened.append(
            [
                (insert("conversations"), (branch.key, None, encode_json(state))),
                *(statement for _, statement in branch.message_statements(listed[:end])),
                *branch.cut_statements(TruncatedResults.from_dict(before["cut"])),
                (INSERT_RUN, begun),
                *((INSERT_STEP, row._replace(run=branch.run, digest=None)) for row in steps),
            ]
        )
    return branch.run


def delete(run_id: str, *, store: Place = DEFAULT_PATH) -> None:
    """Delete a run; with the last run of a conversation also its messages.

    What workers keep of the run is removed too, but for its id.

    Raises:
        ConversationBusy: It is in progress, or is queued for workers.
    """
    where = f"runs, run {run_id}"
    with opened_store(store, must_exist=True) as opened, reading(opened, where), _opened_clean_ups(opened) as beside:
        _delete_run(opened, find_run(opened, run_id), beside)
        opened.remove([(DELETE_SETUPS, ())])


def prune(days: float, *, store: Place = DEFAULT_PATH) -> int:
    """Delete the runs, finished or not, that have written nothing for `days`; return their number.

    What workers keep of the runs is removed too, but for their ids.  A run that is queued or in progress stays.
    """
    if not days >= 0:
        raise DefinitionError(f"prune: days must be a number >= 0, got {days!r}")
    count = 0
    with opened_store(store, must_exist=True) as opened, _opened_clean_ups(opened) as beside:
        for run in list_runs(opened, "begun < ?", end := time.time() - days * SECONDS_PER_DAY):
            if run.seen >= end or run.state in ("running", "damaged"):
                continue
            with suppress(ConversationBusy):  # it has just been resumed
                _delete_run(opened, run, beside)
                count += 1
        for door in beside:
            door.empty_others(end)
        if count:
            opened.remove([(DELETE_SETUPS, ())])
    return count


class CleanUp(Protocol):
    """What a door keeps of the runs of a journal, see `register_clean_ups`."""

    def empty(self, run: str) -> bool:
        """Remove what the door has of a run; return False if the run is queued or in progress there, and stays."""
        ...

    def empty_others(self, before: float) -> None:
        """Remove the runs that ended before a time and are not in the journal."""
        ...

    def close(self) -> None:
        """Release what the door has opened."""
        ...


@contextmanager
def _opened_clean_ups(store: Store) -> Iterator[list[CleanUp]]:
    """Open what the doors keep beside the journal."""
    opened = [open_clean_up(store) for table, open_clean_up in clean_ups().items() if store.has_table(table)]
    try:
        yield opened
    finally:
        for door in opened:
            door.close()


def _delete_run(store: Store, run: RunInfo, beside: Sequence[CleanUp]) -> None:
    lease = store.lease(run.conversation, f"run {run.id}")
    try:
        if not all(door.empty(run.id) for door in beside):
            raise ConversationBusy(f"run {run.id} is queued for workers. Stop it first, or wait until it has ended.")
        store.append([*_removal_statements(store, run)])
    finally:
        lease.release()


def _removal_statements(store: Store, run: RunInfo) -> Iterator[Statement]:
    for part in with_inner_runs(store, run):
        for table in ("steps", "runs"):
            yield f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ?", (part.id,)
        for table in ("messages", "cut", "conversations"):
            empty = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.conversation = ?)"
            yield f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ? AND {empty}", (part.conversation,) * 2


@dataclass(frozen=True)
class JournaledRun:
    """A run, its messages, and its spans (see `Trace.as_dict`); secrets are masked where they are shown."""

    run: RunInfo
    messages: list[Message] = field(repr=False)
    trace: dict[str, Any] = field(repr=False)

    __repr__ = masked_repr

    def as_dict(self) -> dict[str, Any]:
        """Return the run in the form of `Result.as_dict`."""
        run = self.run
        figures = {"steps": run.steps, "stopped": run.stopped or run.state, "model": run.model}
        error = {"error": run.error} if run.error else {}
        data = {"usage": run.usage.as_dict(), "messages": self.messages, "trace": self.trace}
        started = datetime.fromtimestamp(run.begun, UTC).isoformat(timespec="seconds")
        seconds = {"seconds": round(run.seen - run.begun, 3), "started": started}
        return {"answer": run.answer, **figures, **seconds, **error, **data}

    def to_html(self, path: Place | None = None) -> str:
        """Return the run as an HTML page; write it into the file `path`, if given."""
        page = display_with("agentkit.views.html:result_page")(self.as_dict())
        return str(display_with("agentkit.views.html:write_page")(page, path))

    _repr_html_ = display_with("agentkit.views.html:result_view", as_dict)
    _repr_markdown_ = display_with("agentkit.views.html:result_markdown", as_dict)
    __str__ = display_with("agentkit.views.history:format_result", as_dict)


def show(run_id: str, *, store: Place = DEFAULT_PATH) -> JournaledRun:
    """Return a run with its conversation up to its end; print it, show it in a notebook, or write it with `to_html`.

    Of a damaged conversation it has the messages before the damage.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"runs, run {run_id}"):
        run = find_run(opened, run_id)
        found, error = _read_messages(opened, run)
        trace = _read_trace(opened, run, run.begun)
    if error:
        run = replace(run, state="damaged", error=error)
    return JournaledRun(run, found, trace.as_dict())


def show_conversation(key: int, *, store: Place = DEFAULT_PATH) -> list[JournaledRun]:
    """Return the runs of a conversation, the oldest first; its messages are read once.

    Raises:
        JournalError: The conversation is damaged.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"runs, conversation {key}"):
        messages = [message for message, _ in read_messages(opened, key)]
        return [
            JournaledRun(run, messages[: end_of_run(opened, run)], _read_trace(opened, run, run.begun).as_dict())
            for run in reversed(list_runs(opened, "conversation = ?", key))
        ]


def _read_messages(store: Store, run: RunInfo) -> tuple[list[Message], str]:
    """Return the messages of a run before any damage, and the damage."""
    end = end_of_run(store, run)
    found = list[Message]()
    try:
        found.extend(message for message, _ in islice(read_messages(store, run.conversation), end))
    except JournalError as damage:
        return found, str(damage)
    return found, ""


def _read_trace(store: Store, run: RunInfo, began: float) -> Trace:
    """Return the requests and calls of a run; those of agents inside its calls are in `inner`."""
    trace = Trace(began=began)
    sql = "SELECT call, name, begun, ended, outcome FROM steps WHERE run = ? ORDER BY begun"
    for call, name, begun, ended, outcome in store.read(sql, run.id):
        result = json.loads(outcome) if outcome else {}
        error = ": ".join(result.get("error", ())) or ("" if ended else "the outcome is unknown")
        usage = Usage(**result["usage"]) if "usage" in result else None
        start = max(began, begun)
        end = max(began, ended or begun)
        trace.spans.append(Span("tool" if call else "model", name, start, end, call, error, usage))
    names = {span.call: span.name for span in trace.spans if span.call}
    for place, identity in dict(inner_runs(store, run.id)).items():
        inner = find_run(store, identity)
        outer = place.rpartition("/")[0]
        below = _read_trace(store, inner, began)
        below.messages = _read_messages(store, inner)[0]
        if place in names:
            trace.inner[place] = below
        elif outer in names:  # a function that calls agents
            call = ToolCall(place, names[outer], json.dumps({"query": inner.query}))
            between = trace.within(outer)
            between.spans.append(Span("tool", call.name, inner.begun, inner.seen, place))
            between.inner[place] = below
            answer = tool_message(call, render_text(inner.answer))
            between.messages = [*between.messages, assistant(None, [call]), answer]
    return trace


def find_problems(store: Place) -> list[str]:
    """Return a line for each problem of a journal: damage that SQLite finds, and runs that cannot be read."""
    with opened_store(store, must_exist=True) as opened:
        found = opened.find_damage()
        for run in runs(store):
            try:
                _read_parts(opened, run)
            except JournalError as error:
                found.append(f"run {run.id}: {error}")
    return found


def salvage(store: Place, target: Place) -> int:
    """Copy the runs that can be read into a new journal `target`; return their number.

    Raises:
        JournalError: `target` exists.
    """
    if not is_url(target) and Path(target).exists():
        raise JournalError(f"{show_place(target)!r} exists. Name a new file.")
    saved = 0
    with opened_store(store, must_exist=True) as old, opened_store(target) as new:
        for run in reversed(runs(store)):  # the oldest first
            with suppress(JournalError):  # a damaged run does not keep the others from being copied
                parts = _read_parts(old, run)
                new.append([statement for part in parts for statement in _copy_run(old, part)])
                saved += 1
    return saved


def _read_parts(store: Store, run: RunInfo) -> list[RunInfo]:
    """Return a run and those inside it; raise `JournalError` if one of them, or its conversation, is damaged."""
    if run.state == "damaged":
        raise JournalError(run.error)
    with reading(store, f"runs, run {run.id}"):
        parts = [*with_inner_runs(store, run)]
    for part in parts[1:]:
        deque(read_messages(store, part.conversation), maxlen=0)
    for key in {part.conversation for part in parts}:
        read_texts(store, key)
    return parts


def _copy_run(store: Store, run: RunInfo) -> Iterator[Statement]:
    """Yield the statements that write the rows of a run, and of its conversation, into another journal."""
    parts = (
        ("conversations", "id = ?", run.conversation),
        ("messages", "conversation = ?", run.conversation),
        ("cut", "conversation = ?", run.conversation),
        ("setups", "id = (SELECT setup FROM runs WHERE id = ?)", run.id),
        ("runs", "id = ?", run.id),
        ("steps", "run = ?", run.id),
    )
    for table, where, value in parts:
        for row in store.read(f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE {where}", value):
            yield insert(table), row
