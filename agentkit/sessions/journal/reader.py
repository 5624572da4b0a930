"""Read a journal: conversations to continue, and the state of runs."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from ...core.errors import RunError
from ...core.messages import Message, Usage, calls_of
from .connections import opened_store
from .conversation import JournaledConversation, StoredAnswer
from .encoding import check_messages, damage_error, reading
from .location import Journal, JournalError
from .run_info import UNFINISHED, RunInfo, find_run
from .steps import usage_of
from .store import Store
from .tables import INSERT_CONVERSATION
from .writer import DIGEST_MODULUS

HANDOFF_PREFIX = "The conversation is handed over to "
"""The beginning of the result of a hand-off."""
TRANSFER_PREFIX = "transfer_to_"
"""The beginning of the names of hand-off tools."""
Opened: TypeAlias = tuple[JournaledConversation, dict[str, Any]]
"""A conversation to continue, and the state of its session as far as it was written."""


def read_messages(store: Store, key: int) -> Iterator[tuple[Message, int]]:
    """Yield the messages of a conversation with their digests; raise `JournalError` at the first damaged one."""
    with reading(store, f"messages, conversation {key}"):
        for _, body, number, error in check_messages(store, key):
            if error:
                raise JournalError(error)
            yield json.loads(body), number


def read_conversation(store: Store, journal: Journal, key: int) -> Opened:
    """Return a conversation without what its runs have used."""
    kept = JournaledConversation(journal, key)
    for message, number in read_messages(store, key):
        kept.note(message, number)
    texts = store.read("SELECT key, body FROM cut WHERE conversation = ?", key)
    with reading(store, f"conversations and cut, conversation {key}"):
        state, kept.name = store.read("SELECT state, name FROM conversations WHERE id = ?", key)[0]
        kept.state = json.loads(state)
        cut = {key: json.loads(body) for key, body in texts}
    kept.cut = {*cut}
    return kept, {**kept.state, "cut": cut}


def open_named(journal: Journal, name: str) -> Opened:
    """Return the conversation of that name, or a new one."""
    if not isinstance(name, str) or not name:
        raise RunError(
            f'a conversation of a journal needs a name, got {name!r:.60}. Give a text: Session.open("ada", ...)'
        )
    with opened_store(journal.path, journal.sync) as store:
        key = JournaledConversation(journal).key
        store.append([(INSERT_CONVERSATION, (key, name))])
        key = store.read("SELECT id FROM conversations WHERE name = ?", name)[0][0]
        kept, state = read_conversation(store, journal, key)
        unfinished = store.read(f"SELECT id FROM runs WHERE conversation = ? AND {UNFINISHED}", key)
        kept.run = unfinished[0][0] if unfinished else ""
        kept.base = usage_before(store, key, kept.run)
        return kept, state


def open_run(journal: Journal, run: str) -> Opened:
    """Return the conversation of a run to resume, and its state.

    The conversation of a finished run ends with that run and has its stored answer; nothing is written until the next
    query.  If it continued with other runs, the returned one is a new conversation.

    Raises:
        JournalError: There is no such run, it is damaged or in progress, or its conversation continued without it.
    """
    with opened_store(journal.path, journal.sync, must_exist=True) as store:
        wanted = find_run(store, run)
        if wanted.state not in ("finished", "superseded"):
            store.check_free(wanted.conversation, f"run {wanted.id}")
        with store.snapshot():
            now = find_run(store, run)  # another process may have ended it before it was free
            if now.state == "superseded":
                raise JournalError(
                    f"run {now.id} cannot be resumed: its conversation continued with another run. Branch it: "
                    f"agent.fork({now.id!r}, step)"
                )
            return _read_run(store, journal, now)


def _read_run(store: Store, journal: Journal, run: RunInfo) -> Opened:
    """Return the conversation of a run that is finished or can be resumed, and its state."""
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
