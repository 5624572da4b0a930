"""A journal as a whole: read, list, show, branch and delete its runs, and save the sound ones of a damaged file.

A run is shown in the terminal, in a notebook, and as a page.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from ...core.errors import DefinitionError, RunError
from ...core.lazy_names import CLEAN_UPS, display_with
from ...core.masking import mask, masked_repr
from ...core.messages import Message, ToolCall, Usage, assistant, calls_of, pending_calls, text_of, tool_message
from ...core.values import frozen
from ...engine.result import Span, Trace
from ...policies.long_results import TruncatedResults
from ...tools.execution.call import ANSWER_RESULT
from ...tools.results.result_text import render_text
from ..records import (
    DAMAGE,
    MAP_ORIGIN,
    ConversationTagged,
    ConversationTitled,
    MessageWritten,
    Record,
    RunBegun,
    RunEntry,
    StateWritten,
    Step,
    StepBegun,
    StepEnded,
    TextStored,
    cut_digest,
    decode_all,
    digest,
    fold,
)
from .connections import opened_store
from .run_info import (
    RunInfo,
    RunRecords,
    begun_calls,
    decode_setup,
    find_entry,
    find_run,
    inner_runs,
    is_hiding,
    list_runs,
    read_records_of,
    read_run_records,
    state_of,
    subtract_usage,
    to_run_info,
    usage_of,
    with_inner_runs,
)
from .search import FoundConversation, SearchHit, check_tags, excerpt_of, has_words, words_of
from .store import (
    NOTES_NAME,
    RUNS_PER_QUERY,
    ConversationBusy,
    Journal,
    JournalError,
    Place,
    RunFilter,
    SharedStore,
    Store,
    check_free,
    damage_error,
    encode_json,
    in_batches,
    is_url,
    reading,
    show_place,
)
from .writer import DIGEST_MODULUS, JournaledConversation, StoredAnswer

HANDOFF_PREFIX = "The conversation is handed over to "
"""The beginning of the result of a hand-off."""
TRANSFER_PREFIX = "transfer_to_"
"""The beginning of the names of hand-off tools."""
Opened: TypeAlias = tuple[JournaledConversation, dict[str, Any]]
"""A conversation to continue, and the state of its session as far as it was written."""


def read_conversation(store: Store, journal: Journal, key: int) -> Opened:
    """Return a conversation without what its runs have used."""
    with reading(store, f"conversation {key}"):
        stored = fold(store.records(key)).conversation(key)
        if stored.damage:
            raise damage_error(store, stored.damage)
        kept = JournaledConversation(journal, key)
        for message, number in zip(stored.messages, stored.digests, strict=True):
            kept.note(message, number or 0)
        cut = stored.read_texts()
        kept.name = stored.name
        kept.state = json.loads(stored.state)
        kept.cut = {*cut}
        return kept, {**kept.state, "cut": cut}


def open_named(journal: Journal, name: str) -> Opened:
    """Return the conversation of that name, or a new one, and its state."""
    if not isinstance(name, str) or not name:
        raise RunError(
            f'a conversation of a journal needs a name, got {name!r:.60}. Give a text: Session.open("ada", ...)'
        )
    if name.startswith(NOTES_NAME):
        raise RunError(f"{name!r:.60}: names that begin with {NOTES_NAME!r} are those of notes. Choose another name.")
    with opened_store(journal.path, journal.sync) as store, reading(store, f"the conversation {name!r}"):
        key = store.claim_name(name, JournaledConversation(journal).key)
        kept, state = read_conversation(store, journal, key)
        unfinished = store.runs(RunFilter(conversations=[key], is_unfinished=True))
        kept.base = usage_before(store, key, unfinished[0] if unfinished else None)
        if unfinished:
            records = read_run_records(store, unfinished[0])
            kept.run = records.entry.id
            kept.begun = begun_calls(store, records, kept.written)
            kept.is_hiding = is_hiding(records)
            state["usage"] = (kept.base + usage_of(store, records)).as_dict()
        return kept, state


def open_run(journal: Journal, run: str) -> Opened:
    """Return the conversation of a run to resume, and its state.

    The conversation of a finished run ends with that run and has its stored answer; nothing is written until the next
    query.  If it continued with other runs, the returned one is a new conversation.

    Raises:
        JournalError: There is no such run, it is damaged or in progress, or its conversation continued without it.
    """
    with opened_store(journal.path, journal.sync, must_exist=True) as store, reading(store, f"run {run}"):
        wanted = find_run(store, run)
        if wanted.origin == MAP_ORIGIN:
            raise JournalError(
                f"run {wanted.id} is a map. Continue it with the same call: agent.map(queries, batch=...)"
            )
        if wanted.state not in ("finished", "superseded"):
            check_free(store, wanted.conversation, f"run {wanted.id}")
        return store.read_together(partial(_read_run, store, journal, wanted.id))


def _read_run(store: Store, journal: Journal, name: str) -> Opened:
    """Return the conversation of a run that is finished or can be resumed, and its state."""
    records = read_run_records(store, find_entry(store, name))  # another process may have ended it before it was free
    run = to_run_info(store, records)
    if run.state == "superseded":
        raise JournalError(
            f"run {run.id} cannot be resumed: its conversation continued with another run. Branch it: "
            f"agent.fork({run.id!r}, step)"
        )
    kept, state = read_conversation(store, journal, run.conversation)
    messages = kept.written[: end_of_run(store, records.entry)]
    replies = _find_replies(store, kept, records, len(messages))
    if run.state == "finished":
        later = any(other.number > records.entry.number for other in _runs_beside(store, records.entry))
        if later or len(messages) < len(kept.written):
            kept = JournaledConversation(journal)
        calls = calls_of(messages[replies[-1]]) if replies else []
        given = {message["tool_call_id"] for message in messages if message.get("content") == ANSWER_RESULT}
        accepted = [call for call in calls if call.id in given]  # another one may have failed a check
        kept.stored = StoredAnswer(run, tuple(accepted or calls))
        state |= {**closed_state(messages[run.first :]), "messages": messages}
    else:
        kept.run = run.id
        kept.begun = begun_calls(store, records, messages)
        kept.is_hiding = is_hiding(records)
    kept.base = usage_before(store, run.conversation, records.entry)
    return kept, {**state, "usage": (kept.base + run.usage).as_dict()}


def _runs_beside(store: Store, run: RunEntry) -> list[RunEntry]:
    return store.runs(RunFilter(conversations=[run.conversation]))


def usage_before(store: Store, key: int, run: RunEntry | None) -> Usage:
    """Return the usage of the runs of a conversation before `run`, or for None of all."""
    others = store.runs(RunFilter(conversations=[key]))
    before = [other for other in others if run is None or other.number < run.number]
    return sum((usage_of(store, records) for records in read_records_of(store, before)), Usage())


def end_of_run(store: Store, run: RunEntry) -> int | None:
    """Return the index after the last message of a run; None if it is the end of the conversation."""
    if run.last is not None:
        return run.last
    return min((other.first for other in _runs_beside(store, run) if other.number > run.number), default=None)


def closed_state(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the state of a session after a run with these messages that left no pending call and no unread message."""
    results = [message for message in messages if message["role"] == "tool"]
    accepted = {entry.get("tool_call_id") for entry in results if str(entry.get("content")).startswith(HANDOFF_PREFIX)}
    calls = [call for message in messages for call in calls_of(message) if call.id in accepted]
    handed = [call.name.removeprefix(TRANSFER_PREFIX) for call in calls if call.name.startswith(TRANSFER_PREFIX)]
    return {"inbox": [], "waiting": {}, "nested": {}, "handed": handed, "asked": {}, "inner_answers": {}}


def _find_replies(store: Store, kept: JournaledConversation, run: RunRecords, end: int) -> list[int]:
    """Return the indexes of a run's replies; raise `JournalError` if messages before its last request are missing."""
    places = [place for place in range(run.entry.first, end) if kept.written[place]["role"] == "assistant"]
    asked = [step for step in run.steps if not step.call]
    if asked:
        last = max(asked, key=lambda step: step.step)
        before = places[last.step - 1] if last.step <= len(places) else end
        if last.input != sum(kept.digests[1:before]) % DIGEST_MODULUS:
            raise damage_error(store, f"messages of run {run.entry.id} are missing")
    return places


SECONDS_PER_DAY = 86_400.0
DEFAULT_PATH = "runs.db"
"""The default journal."""


def runs(
    store: Place = DEFAULT_PATH,
    *,
    unfinished: bool = False,
    conversations: Collection[int] | None = None,
    limit: int | None = None,
    checked: bool = True,
) -> list[RunInfo]:
    """Return the runs of a journal, the newest first; those that cannot be read have the state "damaged".

    Args:
        store: The journal.
        unfinished: Whether only those are wanted that can be resumed.
        conversations: The keys of their conversations, as in `RunInfo`; default: all.
        limit: The greatest number of runs.
        checked: Whether all messages are read, too, so that a run whose conversation is damaged has that state.
    """
    with opened_store(store, must_exist=True) as opened:
        wanted = RunFilter(conversations=conversations, limit=limit)
        if not unfinished:
            return list_runs(opened, wanted, checked=checked)
        listed = list_runs(opened, replace(wanted, is_unfinished=True, limit=None), checked=checked)
        return [run for run in listed if run.is_unfinished][:limit]  # others are running


def name_conversations(store: Place = DEFAULT_PATH) -> dict[int, str]:
    """Return the names of the conversations that `Session.open` began, by the key that `RunInfo.conversation` has."""
    with opened_store(store, must_exist=True) as opened, reading(opened, "the names of conversations"):
        return {key: name for name, key in opened.names().items()}


@frozen
class ConversationInfo:
    """A named conversation: its key, as in `RunInfo`, and the time and the state of its last run.

    `title` is the one that a person gave it, else its first query; `tags` are those that a person gave it.
    """

    key: int
    name: str
    title: str
    seen: float
    state: str
    tags: tuple[str, ...] = ()


EVALUATION_PREFIX = "eval:"
"""The beginning of the names of conversations that belong to evaluations."""


def list_conversations(
    store: Place = DEFAULT_PATH, *, beginning: str = "", limit: int | None = None
) -> list[ConversationInfo]:
    """Return the named conversations of a journal, the newest first; secrets masked.

    Args:
        store: The journal.
        beginning: The beginning of their names.  Those of evaluations are listed only for a beginning of their own.
        limit: The greatest number, of those whose last runs began last; the rest is not read.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, "the list of conversations"):
        hidden = () if beginning.startswith(EVALUATION_PREFIX) else EVALUATION_PREFIX
        named = [(key, name) for name, key in opened.names().items() if name.startswith(beginning)]
        names = {key: name for key, name in named if not name.startswith(hidden)}
        last = _find_last_runs(opened, names, limit) if names else {}
        seen = _read_last_times(opened, [run for run in last.values() if run.ended is None])
        titles = _read_titles(opened, [*last])
        found = []
        for key, run in last.items():
            try:
                latest = max(run.begun, run.ended or 0.0, seen.get(run.id, 0.0))
                title, tags = titles[key]
                found.append(ConversationInfo(key, names[key], mask(title), latest, state_of(opened, run), tags))
            except DAMAGE:
                found.append(ConversationInfo(key, names[key], "", 0.0, "damaged"))
        return sorted(found, key=lambda info: info.seen, reverse=True)


def _find_last_runs(store: Store, keys: Collection[int], limit: int | None) -> dict[int, RunEntry]:
    """Return the last runs of the conversations that continued last, the newest first."""
    few = keys if len(keys) <= RUNS_PER_QUERY else None
    wanted = RunFilter(conversations=few, is_inner=False)
    most = None if limit is None else 2 * limit
    while True:
        listed = store.runs(replace(wanted, limit=most))
        last = dict[int, RunEntry]()
        for run in listed:
            if run.conversation in keys:
                last.setdefault(run.conversation, run)
        if limit is None or most is None or len(last) >= limit or len(listed) < most:
            return dict(islice(last.items(), limit))
        most *= 4


def _read_last_times(store: Store, runs: Sequence[RunEntry]) -> dict[str, float]:
    """Return when runs wrote last, as far as their steps can be read."""
    if runs:
        with suppress(JournalError, *DAMAGE):
            steps = fold(store.records(*runs, kinds=(StepBegun, StepEnded))).steps
            return {run: max(step.ended or step.begun for step in some.values()) for run, some in steps.items() if some}
    return {}


def _read_titles(store: Store, keys: Sequence[int]) -> dict[int, tuple[str, tuple[str, ...]]]:
    """Return the titles of conversations, or their first queries, each with the tags."""
    titles = dict[int, tuple[str, tuple[str, ...]]]()
    for some in in_batches(keys):
        stored = fold(store.records(*some, kinds=(ConversationTitled, ConversationTagged)))
        known = {key: stored.conversation(key) for key in some}
        untitled = [key for key in some if not known[key].title]
        runs = store.runs(RunFilter(conversations=untitled)) if untitled else ()
        queries = {run.conversation: run.query for run in runs}  # of the oldest runs, which are the last in the list
        titles |= {
            key: (conversation.title or queries.get(key, ""), tuple(conversation.tags.split()))
            for key, conversation in known.items()
        }
    return titles


@frozen
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
    with opened_store(store, must_exist=True) as opened, reading(opened, f"the conversation {conversation!r}"):
        key = opened.names(conversation).get(conversation) if isinstance(conversation, str) else conversation
        found = [] if key is None else opened.runs(RunFilter(conversations=[key]))
        if key is None or not (found or isinstance(conversation, str)):
            return None
        last = max(found, key=lambda run: run.number).id if found else ""
        return Mark(key, last, bool(opened.holder(key)), opened.version(key))


def fork(
    run_id: str, step: int, *, edit: Mapping[str | int, str] = MappingProxyType({}), store: Place = DEFAULT_PATH
) -> str:
    """Branch a run after its first `step` replies and their calls (0: after the query); return the branch's id.

    The run itself is not changed.  The branch is resumed like any run, also by an agent with other tools or another
    instruction.

    Args:
        run_id: The id of the run, or its beginning.
        step: The number of replies that the branch begins with.
        edit: Other texts for what the branch begins with: of results, by the ids of their calls, and of messages, by
            their indexes in the conversation.  The labels stay.
        store: The journal.

    Raises:
        JournalError: The run has no such step, or nothing to edit under a key.
    """
    if not isinstance(step, int) or not isinstance(edit, Mapping):
        raise JournalError(f"fork: expected an integer and a dict of edits, got {step!r:.40} and {edit!r:.60}")
    with opened_store(store, must_exist=True) as opened, reading(opened, f"run {run_id}"):
        records = read_run_records(opened, find_entry(opened, run_id))
        run = to_run_info(opened, records)
        kept, before = read_conversation(opened, Journal(store), run.conversation)
        listed = kept.written[: end_of_run(opened, records.entry)]
        replies = [place for place in range(run.first, len(listed)) if listed[place]["role"] == "assistant"]
        last = len(replies) - (run.state == "finished")
        if not 0 <= step <= last:
            raise JournalError(f"run {run.id}: step must be an integer from 0 to {last}, got {step}")
        messages = listed[: replies[step] if step < len(replies) else None]
        steps = [row for row in records.steps if row.step <= step]
        _edit(run, edit, kept, messages, steps)
        state = {**kept.state, **closed_state(messages[run.first :]), "inbox": kept.state.get("inbox", [])}
        state |= _session_state_after(records, step, kept.state)
        branch = JournaledConversation(kept.journal)
        key = branch.key
        origin = f"{run.id}:{step}"
        asked = next((place for place in range(run.first, len(messages)) if messages[place]["role"] == "user"), -1)
        query = edit.get(asked, run.query)
        begun = RunBegun(branch.begin_run(), query, run.model, run.first, time.time(), key, origin=origin)
        opened.append(
            [
                begun,
                StateWritten(encode_json(state), key),
                *branch.message_records(messages),
                *branch.text_records(TruncatedResults.from_dict(before["cut"])),
                *(one for row in steps for one in replace(row, run=branch.run, digest=None).split(key)),
            ]
        )
    return branch.run


def _edit(
    run: RunInfo,
    edit: Mapping[str | int, str],
    kept: JournaledConversation,
    messages: list[Message],
    steps: list[Step],
) -> None:
    """Give the messages and the steps of a branch other texts; see `fork`."""
    where = f"run {run.id}"
    results = {entry.get("tool_call_id"): place for place, entry in enumerate(messages) if place >= run.first}
    calls = {row.call: place for place, row in enumerate(steps) if row.call and row.outcome is not None}
    for key, text in edit.items():
        if not isinstance(text, str):
            raise JournalError(f"{where}: edit[{key!r}] must be a text, got {text!r:.60}")
        place = results.get(key) if isinstance(key, str) else key
        if isinstance(key, str) and key in calls:
            row = steps[calls[key]]
            old = json.loads(row.outcome or "{}")
            rest = {name: old[name] for name in ("seconds", "label", "session_state") if name in old}
            steps[calls[key]] = replace(row, outcome=encode_json({"text": text, **rest}), digest=None)
        elif place is None or not 0 <= place < len(messages):
            known = ", ".join([*map(repr, calls), f"0 to {len(messages) - 1}"])
            raise JournalError(f"{where}: edit has {key!r}, but there are {known}. Take ids of calls, or indexes.")
        if place is not None:
            if messages[place]["role"] == "tool" and messages[place]["tool_call_id"] in calls and isinstance(key, int):
                raise JournalError(f"{where}: message {key} is a result. Edit it by the id of its call.")
            messages[place] = {**messages[place], "content": text}
            change = digest(place, encode_json(messages[place])) - kept.digests[place]
            replies = [at for at in range(run.first, len(messages)) if messages[at]["role"] == "assistant"]
            for at, row in enumerate(steps):
                # a request that had the message
                if not row.call and place > 0 and (row.step > len(replies) or place < replies[row.step - 1]):
                    steps[at] = replace(row, input=(row.input + change) % DIGEST_MODULUS)


def _session_state_after(run: RunRecords, step: int, last: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry `session_state` of a conversation after a step of a run; `last` has that of its end, if any."""
    if "session_state" not in last:
        return {}
    calls = [row for row in run.steps if row.call and row.step <= step and row.outcome]
    for row in sorted(calls, key=lambda row: row.ended or 0.0, reverse=True):
        if "session_state" in (outcome := json.loads(row.outcome or "{}")):
            return {"session_state": outcome["session_state"]}
    setup = decode_setup(run.setup)
    return {"session_state": last["session_state"] if setup is None else setup.session_state}


def delete(run_id: str, *, store: Place = DEFAULT_PATH) -> None:
    """Delete a run; with the last run of a conversation also its messages.

    What workers keep of the run is removed too, but for its id.

    Raises:
        ConversationBusy: It is in progress, or is queued for workers.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"run {run_id}"):
        run = find_entry(opened, run_id)
        _delete_runs(opened, run.conversation, RunFilter(ids=[run.id]), f"run {run.id}")


def delete_conversation(key: int, *, store: Place = DEFAULT_PATH) -> None:
    """Delete a conversation, by its key in `RunInfo`: all its runs, all or none of them, and its messages.

    Raises:
        ConversationBusy: One of the runs is in progress, or is queued for workers.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"conversation {key}"):
        _delete_runs(opened, key, RunFilter(conversations=[key]), "the conversation")


def rename_conversation(key: int, title: str, *, store: Place = DEFAULT_PATH) -> None:
    """Give a conversation, by its key in `RunInfo`, the title that lists show; "" for its first query.

    The name under which it is opened stays.  It may be renamed while a run of it works.

    Raises:
        DefinitionError: The title is no text of at most 200 characters that can be printed.
        JournalError: The journal has no such conversation.
    """
    text = title.strip() if isinstance(title, str) else None
    if text is None or len(text) > TITLE_CHARS or not text.isprintable():
        raise DefinitionError(
            f"title: expected a printable text of at most {TITLE_CHARS} characters, got {title!r:.80}"
        )
    _append_to_conversation(key, ConversationTitled(text, key), store)


TITLE_CHARS = 200


def tag_conversation(key: int, *tags: str, store: Place = DEFAULT_PATH) -> None:
    """Give a conversation, by its key in `RunInfo`, these tags in the place of those that it has.

    Raises:
        DefinitionError: A tag is no word of at most 40 characters.
        JournalError: The journal has no such conversation.
    """
    _append_to_conversation(key, ConversationTagged(check_tags(tags), key), store)


def _append_to_conversation(key: int, record: Record, store: Place) -> None:
    with opened_store(store, must_exist=True) as opened, reading(opened, f"conversation {key}"):
        if not (opened.runs(RunFilter(conversations=[key], limit=1)) or key in opened.names().values()):
            raise JournalError(f"there is no conversation {key} in {opened.named}")
        opened.append([record])


def find(words: str, *, tag: str = "", limit: int = 20, store: Place = DEFAULT_PATH) -> list[FoundConversation]:
    """Return the conversations that have all words in one message or in their titles and tags, the best first.

    The first search makes an index in the journal; later ones add what was written since.

    Args:
        words: The words, which may be beginnings of words; "" for all conversations with the tag.
        tag: Only conversations with this tag.
        limit: The most conversations.
        store: The journal.

    Raises:
        DefinitionError: There are neither words nor a tag.
        JournalError: There is no such journal, or its store cannot search.
    """
    wanted = words_of(words)
    if not (wanted or tag):
        raise DefinitionError(f"find: {words!r:.80} has no words. Give words of the conversation, or a tag.")
    with opened_store(store, must_exist=True) as opened, reading(opened, "the conversations"):
        listed = opened.runs(RunFilter(is_inner=False))
        runs = {run.conversation: run for run in reversed(listed) if not run.damage}
        first = {run.conversation: run.query for run in listed if not run.damage}
        kinds = ConversationTitled, ConversationTagged
        titled = fold(record for some in in_batches([*runs]) for record in opened.records(*some, kinds=kinds))
        names = {key: name for name, key in opened.names().items()}
        hits = _find_hits(opened, wanted, limit)
        found = []
        for key in [*hits, *(key for key in sorted(runs, key=lambda key: -runs[key].begun) if key not in hits)]:
            conversation = titled.conversation(key)
            tags = tuple(conversation.tags.split())
            if key not in runs or (tag and tag not in tags):
                continue
            if key in hits or has_words(f"{conversation.title} {conversation.tags}", wanted):
                title = mask(conversation.title or first[key] or "")
                shown = excerpt_of(hits[key], wanted) if key in hits else ("", "")
                run = runs[key]
                found.append(FoundConversation(key, names.get(key, ""), run.id, title, tags, run.begun, *shown))
        return found[:limit]


HITS_PER_CONVERSATION = 8


def _find_hits(store: Store, words: Sequence[str], limit: int) -> dict[int, SearchHit]:
    """Return the best message of each conversation, the best first."""
    search = getattr(store, "search", None)
    if search is None:
        raise JournalError(
            f"{store.named}: the store has no method search(), which finds conversations. Add the method of "
            "agentkit.extend.SearchStore to it, or record the runs in a SQLite file or in PostgreSQL."
        )
    best = dict[int, SearchHit]()
    for hit in search(words, limit * HITS_PER_CONVERSATION) if words else ():
        best.setdefault(hit.conversation, hit)
    return best


def prune(days: float, *, store: Place = DEFAULT_PATH) -> int:
    """Delete the runs, finished or not, that have written nothing for `days`; return their number.

    What workers keep of the runs is removed too, but for their ids.  A run that is queued or in progress stays.
    """
    if not isinstance(days, int | float) or not days >= 0:
        raise DefinitionError(f"prune: days must be a number >= 0, got {days!r}")
    count = 0
    with opened_store(store, must_exist=True) as opened, _opened_clean_ups(opened) as beside:
        end = time.time() - days * SECONDS_PER_DAY
        listed = list_runs(opened, RunFilter(before=end))
        old = [run.id for run in listed if run.seen < end and run.state not in ("running", "damaged")]
        for some in in_batches(old, getattr(opened, "runs_removed_together", RUNS_PER_QUERY)):
            count += _delete_idle(opened, some, end, beside)
        for door in beside:
            door.empty_others(end)
        if count:
            opened.compact()
    return count


class CleanUp(Protocol):
    """What a door keeps of the runs of a journal, see `CLEAN_UPS`."""

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
    opened = list[CleanUp]()
    if isinstance(store, SharedStore):
        opened = [display_with(place)(store) for table, place in CLEAN_UPS.items() if store.has_table(table)]
    try:
        yield opened
    finally:
        for door in opened:
            door.close()


def _delete_idle(store: Store, ids: Sequence[str], end: float, beside: Sequence[CleanUp]) -> int:
    """Delete those of the runs together that have still written nothing since `end`; return their number.

    One of them may have been resumed since they were listed, or was deleted.
    """
    with ExitStack() as leases:
        free = dict[str, RunEntry]()
        taken = set[int]()
        for run in store.runs(RunFilter(ids=ids)):
            with suppress(ConversationBusy):
                if run.conversation not in taken:
                    leases.callback(store.take(run.conversation, f"run {run.id}").release)
                    taken.add(run.conversation)
                free[run.id] = run
        listed = list_runs(store, RunFilter(ids=[*free]), checked=False) if free else []
        idle = [free[run.id] for run in listed if run.seen < end and run.state != "damaged"]
        found = [run for run in idle if all(door.empty(run.id) for door in beside)]
        if found:
            store.remove([inner for run in found for inner in with_inner_runs(store, run)])
        return len(found)


def _delete_runs(store: Store, key: int, wanted: RunFilter, what: str) -> None:
    with _opened_clean_ups(store) as beside:
        lease = store.take(key, what)
        try:
            found = store.runs(wanted)
            for run in found:
                if not all(door.empty(run.id) for door in beside):
                    raise ConversationBusy(
                        f"run {run.id} is queued for workers. Stop it first, or wait until it has ended."
                    )
            store.remove([inner for run in found for inner in with_inner_runs(store, run)])
        finally:
            lease.release()
        store.compact()


@frozen(slots=False)
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
    with opened_store(store, must_exist=True) as opened, reading(opened, f"run {run_id}"):
        records = read_run_records(opened, find_entry(opened, run_id))
        run = to_run_info(opened, records)
        found, error = _read_messages(opened, records.entry)
        trace = _read_trace(opened, records, run, run.begun, found)
    if error:
        run = replace(run, state="damaged", error=error)
    return JournaledRun(run, found, trace.as_dict())


def show_conversation(key: int, *, store: Place = DEFAULT_PATH) -> list[JournaledRun]:
    """Return the runs of a conversation, the oldest first; its messages are read once.

    Raises:
        JournalError: The conversation is damaged.
    """
    with opened_store(store, must_exist=True) as opened, reading(opened, f"conversation {key}"):
        stored = fold(opened.records(key, kinds=(MessageWritten,))).conversation(key)
        if stored.damage:
            raise damage_error(opened, stored.damage)
        messages = stored.messages
        shown = []
        entries = sorted(opened.runs(RunFilter(conversations=[key])), key=lambda run: run.begun)
        for records in read_records_of(opened, entries):
            own = messages[: end_of_run(opened, records.entry)]
            info = to_run_info(opened, records)
            trace = _read_trace(opened, records, info, records.entry.begun, own)
            shown.append(JournaledRun(info, own, trace.as_dict()))
        return shown


def _read_messages(store: Store, run: RunEntry) -> tuple[list[Message], str]:
    """Return the messages of a run before any damage, and the damage."""
    stored = fold(store.records(run.conversation, kinds=(MessageWritten,))).conversation(run.conversation)
    end = end_of_run(store, run)
    is_cut = bool(stored.damage) and (end is None or end > len(stored.bodies))
    return decode_all(stored.bodies[:end]), str(damage_error(store, stored.damage)) if is_cut else ""


def _read_trace(store: Store, run: RunRecords, info: RunInfo, began: float, messages: Sequence[Message]) -> Trace:
    """Return the requests and calls of a run; those of agents inside its calls are in `inner`."""
    trace = Trace(began=began)
    before: dict[str, Any] = {}
    for step, result in zip(run.steps, decode_all([step.outcome or "{}" for step in run.steps]), strict=True):
        error = ": ".join(result.get("error", ())) or ("" if step.ended else "the outcome is unknown")
        own = result.get("request_usage") or subtract_usage(result.get("usage"), before)
        usage = Usage(**own) if own else None
        before = result.get("usage", before)
        start = max(began, step.begun)
        end = max(began, step.ended or step.begun)
        trace.spans.append(Span("tool" if step.call else "model", step.name, start, end, step.call, error, usage))
    names = {span.call: span.name for span in trace.spans if span.call}
    trace.spans += _unbegun_calls(run, began, messages)
    paused = {call.id: call.name for call in pending_calls(messages) if call.id not in names}  # they have no step
    for place, identity in dict(inner_runs(store, run.entry.id)).items():
        records = read_run_records(store, identity)
        inner = to_run_info(store, records)
        outer = place.rpartition("/")[0]
        found, _ = _read_messages(store, records.entry)
        below = _read_trace(store, records, inner, began, found)
        below.messages = found
        if call_id := next((one for one in (place, outer) if one in paused), ""):
            names[call_id] = paused.pop(call_id)
            trace.spans.append(Span("tool", names[call_id], inner.begun, info.seen, call_id, info.error))
        if place in names:
            trace.inner[place] = below
        elif outer in names:  # a function that calls agents
            call = ToolCall(place, names[outer], json.dumps({"query": inner.query}))
            between = trace.within(outer)
            between.spans.append(Span("tool", call.name, inner.begun, inner.seen, place, inner.error))
            between.inner[place] = below
            answer = [tool_message(call, render_text(inner.answer))] if inner.state == "finished" else []
            between.messages = [*between.messages, assistant(None, [call]), *answer]
    return trace


def _unbegun_calls(run: RunRecords, began: float, messages: Sequence[Message]) -> Iterator[Span]:
    """Yield the calls that failed before they began, by wrong arguments, say, and so have no step.

    The answer and a hand-over have none, either, and no failure.
    """
    replies = {step.step: step for step in run.steps if not step.call}
    known = {step.call for step in run.steps}
    number = 0
    now = began
    for message in messages[run.entry.first :]:
        if message["role"] == "assistant":
            number += 1
            now = max(now, (replies[number].ended or now) if number in replies else now)
        elif message["role"] == "tool" and message["tool_call_id"] not in known:
            text = text_of(message)
            if text != ANSWER_RESULT and not text.startswith(HANDOFF_PREFIX):
                yield Span("tool", message.get("name") or "", now, now, message["tool_call_id"], text)


def find_problems(store: Place) -> list[str]:
    """Return a line for each problem of a journal: damage that SQLite finds, and runs that cannot be read."""
    with opened_store(store, must_exist=True) as opened:
        found = opened.find_damage()
        sound = set[int]()
        for run in runs(store):
            try:
                _read_parts(opened, run, sound)
            except JournalError as error:
                found.append(f"run {run.id}: {error}")
    return found


def salvage(store: Place, target: Place) -> int:
    """Copy the runs and the notes that can be read into a new journal `target`; return the number of the runs.

    Raises:
        DefinitionError: `target` exists.
    """
    if isinstance(target, str | os.PathLike) and not is_url(target) and Path(target).exists():
        raise DefinitionError(f"{show_place(target)!r} exists. Name a new file.")
    saved = 0
    sound = set[int]()
    with opened_store(store, must_exist=True) as old, opened_store(target) as new:
        for run in reversed(runs(store)):  # the oldest first
            with suppress(JournalError):  # a damaged run does not keep the others from being copied
                parts = _read_parts(old, run, sound)
                of = {part.id: part.conversation for part in parts}
                read = old.records(*parts, *{*of.values()})
                split = ([*one.split(of[one.run])] if isinstance(one, Step) else [one] for one in read)
                new.append([*chain.from_iterable(split)])
                saved += 1
        for name, key in old.names().items():
            if name.startswith(NOTES_NAME):
                texts = [one for one in old.records(key, kinds=(TextStored,)) if isinstance(one, TextStored)]
                new.claim_name(name, key)
                new.append([one for one in texts if one.digest == cut_digest(key, one.key, one.body or "")])
    return saved


def _read_parts(store: Store, run: RunInfo, sound: set[int]) -> list[RunEntry]:
    """Return a run and those inside it; raise `JournalError` if one of them, or its conversation, is damaged.

    The conversations in `sound` were read before; those that are read now are added.
    """
    if run.state == "damaged":
        raise JournalError(run.error)
    with reading(store, f"run {run.id}"):
        parts = [*with_inner_runs(store, find_entry(store, run.id))]
        for part in parts[1:]:
            to_run_info(store, read_run_records(store, part))
        keys = {part.conversation for part in parts} - sound
        stored = fold(store.records(*keys, kinds=(MessageWritten, TextStored)) if keys else ())
        for conversation in map(stored.conversation, keys):
            if conversation.damage:
                raise damage_error(store, conversation.damage)
            decode_all(conversation.bodies)
            conversation.read_texts()
        sound |= keys
    return parts
