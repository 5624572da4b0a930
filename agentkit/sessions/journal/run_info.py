"""Runs as the journal has them: the state of one, or of many with a few queries, and their steps.

A step is a request, or a call with its outcome.
"""

import json
import math
import sys
import time
from collections import defaultdict, namedtuple
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import ExceptionInfo
from ...core.labels import Label
from ...core.masking import masked_repr
from ...core.messages import Message, Usage, pending_calls
from ...engine.model import Reply
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.results.jsonable import to_json_data
from ...tools.results.result_text import RenderedResult, StoredResult, has_own_text, render_result
from .location import JournalError, show_place
from .store import Statement, Store, damage_error, encode_json, read_checked_messages, reading, step_digest
from .tables import END_STEP, INSERT_STEP

LAST_TIME = 253_402_300_800.0
"""The end of the year 9999: a later time in a row is damage."""
StepRow = namedtuple("StepRow", "run step call name input arguments begun ended outcome digest")
"""A row of the table `steps`; `call` is "" for a request."""


class StepRows:
    """The statements that write the steps of one run, with the digests of their rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], tuple[str, int, str | None]] = {}
        self._with_images: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def begin(self, run: str, step: int, call: str, name: str, number: int, arguments: str | None) -> Statement:
        """Return the statement for a step that is about to be made; `call` is "" for a request."""
        self._rows[step, call] = name, number, arguments
        check = step_digest(run, step, call, name, number, arguments, None)
        return INSERT_STEP, (run, step, call, name, number, arguments, time.time(), None, None, check)

    def end(self, run: str, step: int, call: str, outcome: Mapping[str, Any]) -> Statement:
        """Return the statement for the outcome of a step."""
        text, check = self._encode(run, step, call, outcome)
        if "images" in outcome:
            self._with_images[call] = step, outcome
        return END_STEP, (time.time(), text, check, run, step, call)

    def release_images(self, run: str, message: Message) -> Iterator[Statement]:
        """Yield the statement that removes the images of a result whose message is written, and has them."""
        if message["role"] == "tool" and (kept := self._with_images.pop(message["tool_call_id"], None)):
            step, outcome = kept
            rest = {key: value for key, value in outcome.items() if key != "images"}
            text, check = self._encode(run, step, message["tool_call_id"], rest)
            sql = "UPDATE steps SET outcome = ?, digest = ? WHERE run = ? AND step = ? AND call = ?"
            yield sql, (text, check, run, step, message["tool_call_id"])

    def _encode(self, run: str, step: int, call: str, outcome: Mapping[str, Any]) -> tuple[str, int | None]:
        text = encode_json(outcome)
        row = self._rows.get((step, call))
        return text, None if row is None else step_digest(run, step, call, *row, text)

    def read_reply(self, store: Store, run: str, step: int) -> tuple[tuple[int, Reply], dict[str, Any]] | None:
        """Return a recorded reply that the conversation lacks, with the digest of its input, and its other figures."""
        sql = "SELECT name, input, arguments, outcome FROM steps WHERE run = ? AND step = ? AND call = ''"
        for name, number, arguments, outcome in store.read(sql, run, step):
            data = json.loads(outcome) if outcome else {}
            if message := data.pop("message", None):
                self._rows[step, ""] = name, number, arguments
                return (number, Reply(message, Usage(), data.get("finish_reason"))), data
        return None


def read_steps(store: Store, ids: Sequence[str]) -> dict[str, list[StepRow]]:
    """Return the rows of the steps of runs, the newest first."""
    steps: dict[str, list[StepRow]] = defaultdict(list)
    columns = ", ".join(StepRow._fields)
    marks = ", ".join("?" * len(ids))
    for row in store.read(f"SELECT {columns} FROM steps WHERE run IN ({marks}) ORDER BY step DESC, begun DESC", *ids):
        steps[row[0]].append(StepRow(*row))
    return steps


def usage_of(store: Store, run: str) -> Usage:
    """Return the usage of a run: as of its last reply, plus that of agents inside later calls."""
    done = "call = '' AND outcome IS NOT NULL"
    rows = store.read(f"SELECT ended, outcome FROM steps WHERE run = ? AND {done} ORDER BY step DESC LIMIT 1", run)
    last, usage = (rows[0][0], Usage(**json.loads(rows[0][1])["usage"])) if rows else (0.0, Usage())
    for _, inner in inner_runs(store, run, last):
        usage += usage_of(store, inner)
    return usage


def inner_runs(store: Store, run: str, since: float = 0.0) -> list[tuple[str, str]]:
    """Return the runs of agents inside the calls of a run: (call id, run id), the oldest of a call first."""
    sql = "SELECT origin, id FROM runs WHERE origin > ? AND origin < ? AND begun >= ? ORDER BY origin, begun"
    rows = store.read(sql, f"{run}/", f"{run}0", since)  # 0 is the character after /
    return [(origin.removeprefix(f"{run}/"), inner) for origin, inner in rows]


def begun_calls(store: Store, run: str, messages: Sequence[Message]) -> frozenset[str]:
    """Return the ids of the pending calls that a process began: they, or agents inside them, are in the journal."""
    if not (pending := {call.id for call in pending_calls(messages)}):
        return frozenset()
    known = {call for (call,) in store.read("SELECT call FROM steps WHERE run = ? AND call != ''", run)}
    inside = [key for key, _ in inner_runs(store, run)]
    return frozenset(call for call in pending if call in known or has_key(inside, call))


def has_key(keys: Iterable[str], call: str) -> bool:
    """Return whether one of the keys of inner runs is a call's id, or begins with it ("outer/inner")."""
    return any(key == call or key.startswith(f"{call}/") for key in keys)


def time_and_calls(store: Store, run: str, open_calls: Collection[str] = ()) -> tuple[float, int]:
    """Return the seconds in which requests or calls were in progress, and the calls made without `open_calls`."""
    calls = 0
    seconds = 0.0
    latest = 0.0
    sql = "SELECT call, begun, ended FROM steps WHERE run = ? AND ended IS NOT NULL ORDER BY begun"
    for call, begun, ended in store.read(sql, run):
        calls += bool(call) and call not in open_calls
        seconds += max(0.0, ended - max(begun, latest))
        latest = max(latest, ended)
    return seconds, calls + sum(time_and_calls(store, inner)[1] for _, inner in inner_runs(store, run))


def outcome_of(result: ToolResult) -> dict[str, Any]:
    """Return the outcome of a call as JSON: its error, or its value and what the model would read untruncated.

    The value is not repeated where the text is that value, or its JSON (`json`).
    """
    label = {"label": result.label.as_dict()} if result.label else {}
    if result.error is not None:
        own = {"own": True} if result.error.is_own else {}
        return {"error": [result.error.name, result.error.message], **own, "seconds": result.seconds, **label}
    shown = result.rendered or render_result(result.value)
    outcome: dict[str, Any] = {"text": shown.text, "seconds": result.seconds, **label}
    if shown.images:
        outcome["images"] = [*shown.images]
    if shown.is_json:
        outcome["json"] = True
    elif isinstance(result.value, dict | list) or has_own_text(result.value):
        outcome["value"] = to_json_data(result.value)
    return outcome


def value_of(outcome: Mapping[str, Any]) -> Any:
    """Return what a tool would return for this outcome; the value is JSON data, not of the class that it had."""
    if error := outcome.get("error"):
        name, message = error
        return ExceptionInfo(name, message, is_own=outcome.get("own") is True)
    text = outcome["text"]
    is_json = bool(outcome.get("json"))
    value = outcome.get("value", text)
    if is_json:
        with suppress(ValueError):  # the masked text of a recording may not be JSON
            value = json.loads(text)
    return StoredResult(value, RenderedResult(text, outcome.get("images", ()), is_json))


def restore_result(bound: BoundCall, outcome: Mapping[str, Any]) -> BoundCall:
    """Return the call with its recorded outcome as its result; one without a label is untrusted."""
    bound.origin.add(Label.from_dict(outcome.get("label")))
    return preset_result(bound, value_of(outcome))


def preset_result(bound: BoundCall, value: Any) -> BoundCall:
    """Return the call with `value` as its result; the tool is not run, and the time that is left does not matter."""
    problem = value if isinstance(value, ExceptionInfo) else None
    return replace(bound, run=lambda: value, problem=problem, timeout=None, is_stored=True)


RUNS_PER_QUERY = 300
UNFINISHED = "status NOT IN ('finished', 'superseded')"
_INNER = "origin > '' AND origin LIKE '%/%'"
"""Runs of agents inside tools, which are parts of others; an index has them."""
_SELECT_RUNS = (
    "SELECT id, conversation, query, model, first, last, begun, ended, status, outcome, origin FROM runs WHERE"
)


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

    __repr__ = masked_repr

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.time() - self.seen

    @property
    def is_unfinished(self) -> bool:
        """Whether it can be resumed to get an answer."""
        return self.state in ("interrupted", "paused", "failed")


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    rows = store.read(f"{_SELECT_RUNS} id >= ? AND id < ? ORDER BY id LIMIT 2", run, f"{run}{chr(sys.maxunicode)}")
    if not run or not rows or (len(rows) == 2 and rows[0][0] != run):
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {show_place(store.place)!r}; agentkit runs lists them")
    return _describe_run(store, rows[0], read_steps(store, [rows[0][0]])[rows[0][0]])


def with_inner_runs(store: Store, run: RunInfo) -> Iterator[RunInfo]:
    """Yield a run, and the runs of agents inside its calls at any depth."""
    yield run
    for _, inner in inner_runs(store, run.id):
        yield from with_inner_runs(store, find_run(store, inner))


def list_runs(store: Store, condition: str = "", *values: Any, limit: int | None = None) -> list[RunInfo]:
    """Return runs, the newest first; without a condition also those that cannot be read, with the state "damaged".

    Args:
        store: The open journal.
        condition: The wanted runs, as SQL about the columns of the table `runs`.
        *values: The values for the condition.
        limit: The greatest number of runs.
    """
    where = f"(origin IS NULL OR NOT ({_INNER})) AND ({condition or '1 = 1'})"
    inside = store.read(f"SELECT origin, begun FROM runs WHERE {_INNER} ORDER BY begun")
    newest_inner = {
        origin.partition("/")[0]: begun
        for origin, begun in inside
        if isinstance(origin, str) and isinstance(begun, float | int)
    }
    checked: dict[int, str] = {}
    try:
        end = sys.maxsize if limit is None else limit
        return [*_read_runs(store, f"{where} ORDER BY begun DESC LIMIT ?", (*values, end), newest_inner, checked)]
    except JournalError:  # a part of the file is damaged; the indexes alone have all ids
        ids = store.read(f"SELECT id FROM runs EXCEPT SELECT id FROM runs WHERE {_INNER}")
    listed: list[RunInfo] = []
    for (run,) in ids:
        try:
            listed += _read_runs(store, f"{where} AND id = ?", (*values, run), newest_inner, checked)
        except JournalError as error:
            if not condition:  # which a run that cannot be read may not meet
                listed.append(RunInfo(run, error=str(error)))
    return sorted(listed, key=lambda run: run.begun, reverse=True)[:limit]


def _read_runs(
    store: Store, where: str, values: Sequence[Any], newest_inner: Mapping[str, float], checked: dict[int, str]
) -> Iterator[RunInfo]:
    """Yield the state of runs; `checked` has the damage of the conversations read so far, "" for sound ones."""
    rows = store.read(f"{_SELECT_RUNS} {where}", *values)
    for batch in (rows[start : start + RUNS_PER_QUERY] for start in range(0, len(rows), RUNS_PER_QUERY)):
        steps = read_steps(store, [row[0] for row in batch])
        checked |= _check_conversations(store, {row[1] for row in batch} - checked.keys())
        for row in batch:
            try:
                if damage := checked[row[1]]:
                    raise JournalError(damage)
                yield _describe_run(store, row, steps[row[0]], newest_inner.get(row[0], -1.0))
            except JournalError as error:
                yield RunInfo(row[0], error=str(error))


def _check_conversations(store: Store, keys: set[int]) -> dict[int, str]:
    """Return the damage of each conversation, "" for one that is as it was written."""
    damage = dict.fromkeys(keys, "")
    try:
        for key, _, _, error in read_checked_messages(store, *keys):
            damage[key] = damage.get(key, "") or error
    except JournalError as error:
        if len(keys) > 1:
            raise
        return dict.fromkeys(keys, str(error))
    return damage


def _describe_run(
    store: Store, row: Sequence[Any], steps: Sequence[StepRow], newest_inner: float = math.inf
) -> RunInfo:
    """Return the state of a run.

    Args:
        store: The open journal.
        row: The row of the run.
        steps: The rows of its steps, the newest first.
        newest_inner: When the newest run of an agent inside its calls began.

    Raises:
        JournalError: A row is damaged.
    """
    identity, conversation, query, model, first, last, begun, ended, status, outcome, origin = row
    with reading(store, f"runs, run {identity}"):
        if not all(isinstance(value, str | None) for value in (query, model, status, origin)):
            raise ValueError("a value is not a text")
        if not all(isinstance(value, int | None) for value in (conversation, first, last)):
            raise ValueError("a value is not a number")
        if not all(0 <= time < LAST_TIME for time in (begun, ended or 0.0)):
            raise ValueError("a time is out of range")
        for step in steps:
            if step.digest is not None and step.digest != step_digest(*step[:6], step.outcome):
                raise damage_error(store, f"step {step.step} of run {identity} is not readable")
        result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
        state = "finished" if "answer" in result else status
        if state == "open":
            state = "running" if store.is_leased(conversation) else "interrupted"
        reply = next((step for step in steps if not step.call and step.outcome), None)
        if reply and newest_inner < reply.ended:
            usage = Usage(**json.loads(reply.outcome)["usage"])
        else:
            usage = usage_of(store, identity)
        seen = max([begun, ended or 0.0, *(step.ended or step.begun for step in steps)])
        return RunInfo(
            identity,
            query,
            model,
            state,
            begun,
            seen,
            steps[0].step if steps else 0,
            _describe_last(steps),
            result.get("answer"),
            result.get("error", ""),
            usage,
            origin or "",
            result.get("stopped", ""),
            first,
            last,
            conversation,
        )


def _describe_last(steps: Sequence[StepRow]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0]
    calls = [step for step in steps if step.call and step.step == newest.step]
    if not calls:
        return f"after a reply of {newest.name}" if newest.ended else f"asking {newest.name}"
    open_calls = sorted(call.name for call in calls if call.ended is None)
    return f"calling {', '.join(open_calls)}" if open_calls else f"{len(calls)} calls had ended"
