"""Read a journal: conversations to continue, and the state of runs."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.messages import Message, Usage, calls_of
from .connections import opened_store
from .conversation import JournaledConversation, StoredAnswer
from .encoding import digest, reading, step_digest
from .location import Journal, JournalError, show_place
from .steps import usage_of
from .store import Store
from .tables import INSERT_CONVERSATION
from .writer import DIGEST_MODULUS

HANDOFF_PREFIX = "The conversation is handed over to "
"""The beginning of the result of a hand-off."""
TRANSFER_PREFIX = "transfer_to_"
"""The beginning of the names of hand-off tools."""
SELECT_RUNS = "SELECT id, conversation, query, model, first, begun, ended, status, outcome, origin, last FROM runs"


@dataclass(frozen=True)
class RunInfo:
    """A run in a journal.

    `state` is "running", "interrupted" (it can be resumed), "paused", "failed", "finished", "superseded" (its
    conversation continued with another run) or "damaged".  `begun` and `seen` are the times of its first and last write
    (seconds since 1970); `last` describes the last step; `origin` is the run and step that it was forked from.
    """

    id: str
    query: str = ""
    model: str = ""
    state: str = "damaged"
    begun: float = 0.0
    seen: float = 0.0
    steps: int = 0
    last: str = ""
    answer: Any = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    origin: str = ""
    stopped: str = ""
    first: int = field(default=0, repr=False)
    end: int | None = field(default=None, repr=False)
    conversation: int = field(default=0, repr=False)

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.time() - self.seen

    @property
    def is_unfinished(self) -> bool:
        """Whether it can be resumed to get an answer."""
        return self.state in ("interrupted", "paused", "failed")


def read_info(store: Store, row: tuple[Any, ...]) -> RunInfo:
    """Return the state of a run from a row of `SELECT_RUNS` and its steps."""
    identity, conversation, query, model, first, begun, ended, status, outcome, origin, end = row
    steps = read_steps(store, identity)
    result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
    state = "finished" if "answer" in result else status
    if state == "open":
        state = "running" if store.is_leased(conversation) else "interrupted"
    seen = max([begun, ended or 0.0, *(time or start for _, _, _, start, time in steps)])
    return RunInfo(
        identity, query, model, state, begun, seen, steps[0][0] if steps else 0, _describe_last(steps),
        result.get("answer"), result.get("error", ""), usage_of(store, identity), origin or "",
        result.get("stopped", ""), first, end, conversation,
    )  # fmt: skip


def read_steps(store: Store, run: str) -> list[tuple[int, str, str, float, float | None]]:
    """Return step, call, name, start and end of the steps of a run, the newest first; check their digests."""
    columns = "step, call, name, begun, ended, input, arguments, outcome, digest"
    rows = store.read(f"SELECT {columns} FROM steps WHERE run = ? ORDER BY step DESC, begun DESC", run)
    for step, call, name, _, _, number, arguments, outcome, check in rows:
        if check is not None and check != step_digest(run, step, call, name, number, arguments, outcome):
            raise JournalError(
                f"the journal {show_place(store.place)!r} is damaged: step {step} of run {run} is not readable"
            )
    return [row[:5] for row in rows]


def _describe_last(steps: list[tuple[Any, ...]]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0][0]
    calls = [(name, end) for step, call, name, _, end in steps if step == newest and call]
    if not calls:
        _, _, name, _, end = steps[0]
        return f"after a reply of {name}" if end else f"asking {name}"
    open_calls = [name for name, end in calls if end is None]
    return f"calling {', '.join(sorted(open_calls))}" if open_calls else f"{len(calls)} calls had ended"


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    rows = store.read(f"{SELECT_RUNS} WHERE id LIKE ? LIMIT 2", run.replace("%", "").replace("_", "") + "%")
    exact = [row for row in rows if row[0] == run]
    if len(exact or rows) != 1 or not run:
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {show_place(store.place)!r}; agentkit runs lists them")
    row = (exact or rows)[0]
    with reading(store, f"runs, run {row[0]}"):
        return read_info(store, row)


def find_damage(store: Store, key: int) -> str:
    """Return the message of the `JournalError` that reading a conversation would raise, "" for a sound one."""
    try:
        for _ in _read_texts(store, key):
            pass
    except JournalError as error:
        return str(error)
    return ""


def _read_texts(store: Store, key: int) -> Iterator[tuple[str, int]]:
    rows = store.read("SELECT place, body, digest FROM messages WHERE conversation = ? ORDER BY place", key)
    for expected, (place, body, number) in enumerate(rows):
        if place != expected or digest(place, body) != number:
            raise JournalError(
                f"the journal {show_place(store.place)!r} is damaged: message {expected} of a run is incomplete"
            )
        yield body, number


def read_messages(store: Store, key: int) -> Iterator[tuple[Message, int]]:
    """Yield the messages of a conversation with their digests; raise `JournalError` at the first damaged one."""
    for place, (body, number) in enumerate(_read_texts(store, key)):
        with reading(store, f"messages, message {place}"):
            message = json.loads(body)
        yield message, number


def read_conversation(
    store: Store, journal: Journal, key: int, run: str = ""
) -> tuple[JournaledConversation, dict[str, Any]]:
    """Return a conversation to continue with `run`, and the state of its session as far as it was written."""
    kept = JournaledConversation(journal, key)
    for message, number in read_messages(store, key):
        kept.note(message, number)
    texts = store.read("SELECT key, body FROM cut WHERE conversation = ?", key)
    with reading(store, f"conversations and cut, conversation {key}"):
        state, kept.name = store.read("SELECT state, name FROM conversations WHERE id = ?", key)[0]
        kept.state = json.loads(state)
        cut = {key: json.loads(body) for key, body in texts}
    kept.cut = {*cut}
    for other, status in store.read("SELECT id, status FROM runs WHERE conversation = ?", key):
        if other == run or status not in ("finished", "superseded"):
            kept.run = other
        else:
            kept.base += usage_of(store, other)
    return kept, {**kept.state, "cut": cut}


def open_named(journal: Journal, name: str) -> tuple[JournaledConversation, dict[str, Any]]:
    """Return the conversation of that name, or a new one."""
    with opened_store(journal.path, journal.sync) as store:
        key = JournaledConversation(journal).key
        store.append([(INSERT_CONVERSATION, (key, name))])
        return read_conversation(store, journal, store.read("SELECT id FROM conversations WHERE name = ?", name)[0][0])


def open_run(journal: Journal, run: str) -> tuple[JournaledConversation, dict[str, Any], dict[str, Any]]:
    """Return the conversation of a run to resume, its state, and the calls that had begun with their new arguments.

    The conversation of a finished run ends with that run and has its stored answer; nothing is written until the next
    query.  If it continued with other runs, the returned one is a new conversation.

    Raises:
        JournalError: There is no such run, it is damaged or in progress, or its conversation continued without it.
    """
    with opened_store(journal.path, journal.sync, must_exist=True) as store:
        wanted = find_run(store, run)
        if wanted.state == "finished":
            with store.snapshot():
                return _finished(store, journal, wanted)
        if wanted.state == "superseded":
            raise JournalError(
                f"run {wanted.id} cannot be resumed: its conversation continued with another run. Branch it: "
                f"agent.fork({wanted.id!r}, step)"
            )
        lease = store.lease(wanted.conversation, f"run {wanted.id}")
        try:
            with store.snapshot():
                return _unfinished(store, journal, wanted)
        finally:
            lease.release()


def _finished(
    store: Store, journal: Journal, run: RunInfo
) -> tuple[JournaledConversation, dict[str, Any], dict[str, Any]]:
    kept, state = read_conversation(store, journal, run.conversation)
    end = end_of_run(store, run, len(kept.written))
    messages = kept.written[:end]
    places = [place for place in range(run.first, end) if messages[place]["role"] == "assistant"]
    _check_request(store, kept, run, places, end)
    if end < len(kept.written) or _runs_after(store, run):
        kept = JournaledConversation(journal)
    calls = tuple(calls_of(messages[places[-1]])) if places else ()
    kept.run = ""
    kept.stored = StoredAnswer(run.id, run.answer, run.stopped, calls, run.steps, run.usage)
    kept.base = Usage()
    for (other,) in store.read(
        f"SELECT id FROM runs WHERE conversation = ? AND rowid < {_ROW}", run.conversation, run.id
    ):
        kept.base += usage_of(store, other)
    nothing_open: dict[str, Any] = {"inbox": [], "waiting": {}, "nested": {}}
    return kept, {**state, **nothing_open, "handed": handoffs_in(messages[run.first :]), "messages": messages}, {}


def _unfinished(
    store: Store, journal: Journal, run: RunInfo
) -> tuple[JournaledConversation, dict[str, Any], dict[str, Any]]:
    kept, state = read_conversation(store, journal, run.conversation, run.id)
    end = len(kept.written)
    places = [place for place in range(run.first, end) if kept.written[place]["role"] == "assistant"]
    _check_request(store, kept, run, places, end)
    sql = "SELECT call, arguments FROM steps WHERE run = ? AND step = ? AND call != ''"
    with reading(store, f"steps, run {run.id}"):
        begun = {call: json.loads(given) if given else True for call, given in store.read(sql, run.id, len(places))}
    return kept, state, begun


_ROW = "(SELECT rowid FROM runs WHERE id = ?)"


def _runs_after(store: Store, run: RunInfo) -> bool:
    sql = f"SELECT 1 FROM runs WHERE conversation = ? AND rowid > {_ROW} LIMIT 1"
    return bool(store.read(sql, run.conversation, run.id))


def end_of_run(store: Store, run: RunInfo, end: int) -> int:
    """Return the index after the last message of a run; `end` is that of its conversation."""
    if run.end is not None:
        return min(run.end, end)
    sql = f"SELECT min(first) FROM runs WHERE conversation = ? AND rowid > {_ROW}"
    later = store.read(sql, run.conversation, run.id)[0][0]
    return end if later is None else min(later, end)


def handoffs_in(messages: Sequence[Message]) -> list[str]:
    """Return the names of the agents to which a run was handed over, in order."""
    results = {
        message.get("tool_call_id"): str(message.get("content")) for message in messages if message["role"] == "tool"
    }
    calls = [call for message in messages for call in calls_of(message)]
    return [
        call.name.removeprefix(TRANSFER_PREFIX)
        for call in calls
        if call.name.startswith(TRANSFER_PREFIX) and results.get(call.id, "").startswith(HANDOFF_PREFIX)
    ]


def _check_request(store: Store, kept: JournaledConversation, run: RunInfo, places: Sequence[int], end: int) -> None:
    """Raise `JournalError` if the last request was made with other messages than those in the journal."""
    rows = store.read("SELECT step, input FROM steps WHERE run = ? AND call = '' ORDER BY step DESC LIMIT 1", run.id)
    for step, number in rows:
        before = places[step - 1] if step <= len(places) else end
        if number != sum(kept.digests[1:before]) % DIGEST_MODULUS:
            raise JournalError(
                f"the journal {show_place(store.place)!r} is damaged: messages of run {run.id} are missing"
            )
