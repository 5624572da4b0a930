"""Read a journal: conversations to continue, and the state of runs."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.messages import Message, Usage, calls_of
from .conversation import JournaledConversation
from .lease import is_leased
from .steps import usage_of
from .store import Journal, JournalError, Store, digest, open_store
from .writer import DIGEST_MODULUS

SELECT_RUNS = "SELECT id, conversation, query, model, first, begun, ended, status, outcome, origin FROM runs"


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
    identity, conversation, query, model, first, begun, ended, status, outcome, origin = row
    sql = "SELECT step, call, name, begun, ended FROM steps WHERE run = ? ORDER BY step DESC, begun DESC"
    steps = store.rows(sql, identity)
    result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
    state = status if status != "open" else "running" if is_leased(store.path, conversation) else "interrupted"
    seen = max([begun, ended or 0.0, *(time or start for _, _, _, start, time in steps)])
    return RunInfo(
        identity, query, model, state, begun, seen, steps[0][0] if steps else 0, _describe_last(steps),
        result.get("answer"), result.get("error", ""), usage_of(store, identity), origin or "",
        result.get("stopped", ""), first, conversation,
    )  # fmt: skip


def _describe_last(steps: list[tuple[Any, ...]]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0][0]
    calls = [(name, end) for step, call, name, _, end in steps if step == newest and call]
    if not calls:
        _, _, name, _, end = steps[0]
        return f"{name} had replied" if end else f"asking {name}"
    open_calls = [name for name, end in calls if end is None]
    return f"calling {', '.join(sorted(open_calls))}" if open_calls else f"{len(calls)} calls had ended"


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    rows = store.rows(f"{SELECT_RUNS} WHERE id LIKE ? || '%' LIMIT 2", run.replace("%", "").replace("_", ""))
    exact = [row for row in rows if row[0] == run]
    if len(exact or rows) != 1 or not run:
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {str(store.path)!r}; agentkit runs lists them")
    return read_info(store, (exact or rows)[0])


def read_messages(store: Store, key: int) -> Iterator[tuple[Message, int]]:
    """Yield the messages of a conversation with their digests; raise `JournalError` at the first damaged one."""
    rows = store.rows("SELECT place, body, digest FROM messages WHERE conversation = ? ORDER BY place", key)
    for expected, (place, body, number) in enumerate(rows):
        if place != expected or digest(place, body) != number:
            raise JournalError(f"the journal {str(store.path)!r} is damaged: message {expected} of a run is incomplete")
        yield json.loads(body), number


def read_conversation(
    store: Store, journal: Journal, key: int, run: str = ""
) -> tuple[JournaledConversation, dict[str, Any]]:
    """Return a conversation to continue with `run`, and the state of its session as far as it was written."""
    kept = JournaledConversation(journal, key)
    for message, number in read_messages(store, key):
        kept.note(message, number)
    state, kept.name = store.rows("SELECT state, name FROM conversations WHERE id = ?", key)[0]
    kept.state = json.loads(state)
    cut = {key: json.loads(body) for key, body in store.rows("SELECT key, body FROM cut WHERE conversation = ?", key)}
    kept.cut = {*cut}
    for other, status in store.rows("SELECT id, status FROM runs WHERE conversation = ?", key):
        if other == run or status not in ("finished", "superseded"):
            kept.run = other
        else:
            kept.base += usage_of(store, other)
    return kept, {**kept.state, "cut": cut}


def open_named(journal: Journal, name: str) -> tuple[JournaledConversation, dict[str, Any]]:
    """Return the conversation of that name, or a new one."""
    with open_store(journal.path, journal.sync) as store:
        key = JournaledConversation(journal).key
        store.write([("INSERT OR IGNORE INTO conversations (id, name) VALUES (?, ?)", (key, name))])
        return read_conversation(store, journal, store.rows("SELECT id FROM conversations WHERE name = ?", name)[0][0])


def open_run(journal: Journal, run: str) -> tuple[JournaledConversation, dict[str, Any], dict[str, Any]]:
    """Return the conversation of a run to resume, its state, and the calls that had begun with their new arguments.

    A finished run comes without the last turn, so it answers again.
    """
    with open_store(journal.path, journal.sync, must_exist=True) as store:
        wanted = find_run(store, run)
        if wanted.state == "superseded":
            raise JournalError(
                f"run {wanted.id} cannot be resumed: its conversation continued with another run. Branch it: "
                f"agent.fork({wanted.id!r}, step)"
            )
        kept, state = read_conversation(store, journal, wanted.conversation, wanted.id)
        if wanted.state == "finished":
            _withdraw_answer(kept, wanted)
        step = sum(message["role"] == "assistant" for message in kept.written[wanted.first :])
        _check_requests(store, kept, wanted, step)
        sql = "SELECT call, arguments FROM steps WHERE run = ? AND step = ? AND call != ''"
        begun = {call: json.loads(given) if given else True for call, given in store.rows(sql, wanted.id, step)}
        return kept, state, begun


def _withdraw_answer(kept: JournaledConversation, run: RunInfo) -> None:
    """End a finished conversation before its answer: before the results of the last calls, or the last texts."""
    last = max(place for place, message in enumerate(kept.written) if message["role"] == "assistant")
    if last < run.first or any(message["role"] == "user" for message in kept.written[last:]):
        raise JournalError(f"run {run.id} is finished, and its conversation went on: journal.show() has its answer")
    end = last + 1
    if not calls_of(kept.written[last]):
        end = next(place for place in reversed(range(last)) if kept.written[place]["role"] == "assistant")
        kept.replies = [message for message in kept.written[end:] if message["role"] == "assistant"]
    kept.forget(end)


def _check_requests(store: Store, kept: JournaledConversation, run: RunInfo, step: int) -> None:
    """Raise `JournalError` if the last request was made on another conversation than the one that is there."""
    rows = store.rows("SELECT step, input FROM steps WHERE run = ? AND call = '' ORDER BY step DESC LIMIT 1", run.id)
    places = [place for place, message in enumerate(kept.written) if message["role"] == "assistant"]
    for last, number in rows:
        end = places[last - step - 1] if last <= step else len(kept.written)
        if number != sum(kept.digests[1:end]) % DIGEST_MODULUS and not kept.replies:
            raise JournalError(f"the journal {str(store.path)!r} is damaged: messages of run {run.id} are missing")
