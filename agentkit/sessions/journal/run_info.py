"""Runs as the journal has them: what they began with, the state of one, or of many with a few queries, and their steps.

A step is a request, or a call with its outcome.  A run begins with a setup, its instruction and tools: an agent that
resumes it should have the same.  A difference names the message, the tool's schema, or the field.
"""

import json
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import zip_longest
from types import NoneType
from typing import Any, TypeAlias

from ...core.errors import ExceptionInfo
from ...core.masking import masked_repr
from ...core.messages import Label, Message, Usage, pending_calls
from ...core.values import frozen
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.lock import compare_locks, lock
from ...tools.registry import ToolRegistry
from ...tools.results.jsonable import to_json_data
from ...tools.results.result_text import RenderedResult, StoredResult, has_own_text, render_result
from ..records import (
    Conversation,
    ConversationTitled,
    MessageWritten,
    Record,
    RunBegun,
    RunEntry,
    Step,
    StepBegun,
    StepEnded,
    fold,
)
from .store import (
    ALL_RUNS,
    JournalError,
    RunFilter,
    SharedStore,
    Store,
    damage_error,
    encode_json,
    in_batches,
    reading,
)

LAST_TIME = 253_402_300_800.0
"""The end of the year 9999: a later time in a record is damage."""
RecordedOutcome: TypeAlias = Mapping[str, Any]
"""The recorded outcome of a call, see `value_of`."""


@frozen
class RunRecords:
    """A run of a store: its entry, its setup as JSON, and its steps in the order in which they began."""

    entry: RunEntry
    setup: str | None
    steps: Sequence[Step]

    def step_of(self, number: int) -> Step | None:
        """Return the request for the reply of this number, if it was made."""
        return next((step for step in self.steps if step.step == number and not step.call), None)

    @property
    def last_reply(self) -> Step | None:
        """The last request that has a reply."""
        return max(
            (step for step in self.steps if not step.call and step.outcome), key=lambda step: step.step, default=None
        )


def read_run_records(store: Store, run: str | RunEntry) -> RunRecords:
    """Return a run whose id is known; raise `LookupError` for an unknown one."""
    (records,) = read_records_of(store, [store.runs(RunFilter(ids=[run]))[0] if isinstance(run, str) else run])
    return records


def read_records_of(store: Store, runs: Sequence[RunEntry]) -> Iterator[RunRecords]:
    """Yield runs with their setups and steps; a few hundred are read together."""
    for some in in_batches(runs):
        stored = fold(store.records(*some, kinds=(RunBegun, StepBegun, StepEnded)))
        for entry in some:
            steps = sorted(stored.steps[entry.id].values(), key=lambda step: step.begun)
            yield RunRecords(entry, stored.setups.get(entry.id), steps)


def usage_of(store: Store, run: RunRecords) -> Usage:
    """Return the usage of a run: as of its last reply, plus that of agents inside later calls."""
    reply = run.last_reply
    last, usage = (0.0, Usage()) if reply is None else (reply.ended or 0.0, usage_in(reply))
    for inner in store.runs(RunFilter(inside=run.entry.id)):
        if inner.begun >= last:
            usage += usage_of(store, read_run_records(store, inner))
    return usage


def usage_in(reply: Step) -> Usage:
    """Return what a run had used at a reply."""
    return Usage(**json.loads(reply.outcome or "")["usage"])


def subtract_usage(usage: Mapping[str, Any] | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage since an earlier request, for steps of former versions, which have the sum alone."""
    pairs = [(name, value, before.get(name, 0)) for name, value in (usage or {}).items()]
    return {name: None if value is None or old is None else value - old for name, value, old in pairs}


def inner_runs(store: Store, run: str) -> list[tuple[str, str]]:
    """Return the runs of agents inside the calls of a run: (call id, run id), the oldest first."""
    inside = store.runs(RunFilter(inside=run))
    return [(str(inner.origin).removeprefix(f"{run}/"), inner.id) for inner in reversed(inside)]


def begun_calls(store: Store, run: RunRecords, messages: Sequence[Message]) -> Mapping[str, RecordedOutcome | None]:
    """Return the pending calls that a process began, by their ids, with their outcomes: None where none is recorded.

    They, or agents inside them, are in the journal.
    """
    if not (pending := {call.id for call in pending_calls(messages)}):
        return {}
    begun: dict[str, RecordedOutcome | None] = {
        step.call: json.loads(step.outcome) if step.outcome else None for step in run.steps if step.call in pending
    }
    inside = [key for key, _ in inner_runs(store, run.entry.id)]
    return begun | {call: None for call in pending - begun.keys() if has_key(inside, call)}


def has_key(keys: Iterable[str], call: str) -> bool:
    """Return whether one of the keys of inner runs is a call's id, or begins with it ("outer/inner")."""
    return any(key == call or key.startswith(f"{call}/") for key in keys)


def time_and_calls(store: Store, run: RunRecords, open_calls: Collection[str] = ()) -> tuple[float, int]:
    """Return the seconds in which requests or calls were in progress, and the calls made without `open_calls`."""
    calls = 0
    seconds = 0.0
    latest = 0.0
    for step in run.steps:
        if step.ended is not None:
            calls += bool(step.call) and step.call not in open_calls
            seconds += max(0.0, step.ended - max(step.begun, latest))
            latest = max(latest, step.ended)
    for key, inner in inner_runs(store, run.entry.id):
        records = read_run_records(store, inner)
        continues = any(has_key([key], call) for call in open_calls)
        open_inside = _open_calls(store, records.entry.conversation) if continues else ()
        calls += time_and_calls(store, records, open_inside)[1]
    return seconds, calls


def _open_calls(store: Store, conversation: int) -> set[str]:
    """Return the ids of the pending calls of a conversation."""
    messages = fold(store.records(conversation, kinds=(MessageWritten,))).conversation(conversation).messages
    return {call.id for call in pending_calls(messages)}


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
    elif shown.has_tables or isinstance(result.value, dict | list) or has_own_text(result.value):
        outcome["value"] = to_json_data(result.value)
    return outcome


def value_of(outcome: RecordedOutcome) -> Any:
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


@frozen(slots=False)
class RunInfo:
    """A run in a journal.

    `state` is "running", "interrupted" (it can be resumed), "paused", "failed", "finished", "superseded" (its
    conversation continued with another run) or "damaged".  `begun` and `seen` are the times of its first and last write
    (seconds since 1970); `last` describes the last step; `origin` is the run and step that it was forked from.
    `title` is the one that a person gave its conversation, in lists of runs.
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
    title: str = ""

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
    return to_run_info(store, read_run_records(store, find_entry(store, run)))


def find_entry(store: Store, run: str) -> RunEntry:
    """Return the entry of the run whose id is or begins with `run`; raise `JournalError` unless there is one."""
    found = store.runs(RunFilter(ids=[run])) or (store.runs(RunFilter(prefix=run, limit=4)) if run else [])
    if len(found) != 1:
        which = "several runs have ids that begin with" if found else "no run has the id"
        place = store.named.removeprefix("the journal ")
        how = f"agentkit runs --journal {place}" if isinstance(store, SharedStore) else "agentkit.journal.runs(store)"
        some = f": {', '.join(entry.id for entry in found[:3])}{', ...' if len(found) > 3 else ''}" if found else ""
        raise JournalError(f"{which} {run!r} in {store.named}{some}; {how} lists them")
    return found[0]


def with_inner_runs(store: Store, run: RunEntry) -> Iterator[RunEntry]:
    """Yield a run, and the runs of agents inside its calls at any depth."""
    yield run
    for inner in store.runs(RunFilter(inside=run.id)):
        yield from with_inner_runs(store, inner)


KINDS_OF_LIST = (ConversationTitled, StepBegun, StepEnded)
"""What a list shows of runs."""


def list_runs(store: Store, wanted: RunFilter = ALL_RUNS, *, checked: bool = True) -> list[RunInfo]:
    """Return runs that are not inside others, the newest first; those that cannot be read have the state "damaged".

    Their messages are read if they are `checked`.
    """
    entries = store.runs(replace(wanted, is_inner=False))
    newest_inner: dict[str, float] = {}
    for inner in store.runs(RunFilter(is_inner=True)) if entries else ():
        if isinstance(inner.origin, str) and isinstance(inner.begun, float | int):
            outer = inner.origin.partition("/")[0]
            newest_inner[outer] = max(inner.begun, newest_inner.get(outer, -1.0))
    kinds = (*KINDS_OF_LIST, MessageWritten) if checked else KINDS_OF_LIST
    known: dict[int, Conversation] = {}
    listed: list[RunInfo] = []
    for batch in in_batches(entries):
        try:
            listed += _describe_runs(store, batch, newest_inner, known, kinds)
        except JournalError:  # a part of the store is damaged
            for entry in batch:
                try:
                    listed += _describe_runs(store, [entry], newest_inner, known, kinds)
                except JournalError as error:
                    listed.append(RunInfo(entry.id, error=str(error)))
    return listed


def _describe_runs(
    store: Store,
    entries: Sequence[RunEntry],
    newest_inner: Mapping[str, float],
    known: dict[int, Conversation],
    kinds: Collection[type[Record]],
) -> list[RunInfo]:
    """Return the state of runs; `known` has the conversations read so far, without their messages."""
    sound = [entry for entry in entries if not entry.damage]
    keys = {entry.conversation for entry in sound} - known.keys()
    stored = fold(store.records(*sound, *keys, kinds=kinds))
    for conversation in map(stored.conversation, keys):
        known[conversation.key] = Conversation(conversation.key, title=conversation.title, damage=conversation.damage)
    listed = []
    for entry in entries:
        conversation = known.get(entry.conversation, Conversation(entry.conversation))
        damage = entry.damage or conversation.damage
        run = RunRecords(entry, None, list(stored.steps[entry.id].values()))
        try:
            if damage:
                raise JournalError(damage) if entry.damage else damage_error(store, damage)
            info = to_run_info(store, run, newest_inner.get(entry.id, -1.0))
            listed.append(replace(info, title=conversation.title) if conversation.title else info)
        except JournalError as error:
            listed.append(RunInfo(entry.id, error=str(error)))
    return listed


def state_of(store: Store, run: RunEntry) -> str:
    """Return the state of a run, as in `RunInfo`."""
    state = "finished" if "answer" in json.loads(run.outcome or "{}") else run.status
    if state == "open":
        return "running" if store.holder(run.conversation) else "interrupted"
    return state


def to_run_info(store: Store, run: RunRecords, newest_inner: float = math.inf) -> RunInfo:
    """Return the state of a run.

    Args:
        store: The open journal.
        run: The records of the run.
        newest_inner: When the newest run of an agent inside its calls began.

    Raises:
        JournalError: A record is damaged.
    """
    entry = run.entry
    with reading(store, f"run {entry.id}"):
        steps = sorted(run.steps, key=lambda step: (step.step, step.begun), reverse=True)
        if not {*map(type, (entry.query, entry.model, entry.status, entry.origin))} <= {str, NoneType}:
            raise ValueError("a value is not a text")
        if not {*map(type, (entry.conversation, entry.first, entry.last))} <= {int, NoneType}:
            raise ValueError("a value is not a number")
        if not (0 <= entry.begun < LAST_TIME and 0 <= (entry.ended or 0.0) < LAST_TIME):
            raise ValueError("a time is out of range")
        for step in steps:
            if not step.is_sound:
                raise damage_error(store, f"step {step.step} of run {entry.id} is not readable")
        result = json.loads(entry.outcome or "{}")
        reply = run.last_reply
        is_whole = reply is not None and newest_inner < (reply.ended or 0.0)
        usage = usage_in(reply) if reply is not None and is_whole else usage_of(store, run)
        seen = max([entry.begun, entry.ended or 0.0, *(step.ended or step.begun for step in steps)])
        return RunInfo(
            entry.id,
            entry.query,
            entry.model,
            state_of(store, entry),
            entry.begun,
            seen,
            steps[0].step if steps else 0,
            _describe_last(steps),
            result.get("answer"),
            result.get("error", ""),
            usage,
            entry.origin or "",
            result.get("stopped", ""),
            entry.first,
            entry.last,
            entry.conversation,
        )


def _describe_last(steps: Sequence[Step]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0]
    calls = [step for step in steps if step.call and step.step == newest.step]
    if not calls:
        return f"after a reply of {newest.name}" if newest.ended else f"asking {newest.name}"
    open_calls = sorted(call.name for call in calls if call.ended is None)
    return f"calling {', '.join(open_calls)}" if open_calls else f"{len(calls)} calls had ended"


CONTEXT_CHARS = 30
"""Characters that are shown before the first difference of two texts; twice as many after it."""


def compare_messages(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> str:
    """Describe the first difference of two conversations, without their marks; "" if they are equal."""
    for place, (before, now) in enumerate(zip_longest(map(_without_marks, old), map(_without_marks, new))):
        if before != now:
            where = f"message {place} ({(now or before).get('role')})"
            if before and now:
                return f"{where}, {compare_values('', before, now)}"
            shown = json.dumps(now or before, ensure_ascii=False, default=str)
            return f"{where} is {'new' if now else 'recorded only'}: {shown[: 3 * CONTEXT_CHARS]}"
    return ""


MARKS = {"label", "refused", "raw"}
"""The keys of a message that no model reads; files of older versions lack them."""


def _without_marks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return message if MARKS.isdisjoint(message) else {key: message[key] for key in message if key not in MARKS}


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe each difference of the tools' schemas."""
    changes = compare_locks({"tools": old}, {"tools": new})
    return [f"{change.tool}{'.' if change.path else ''}{change.path}: {change.message}" for change in changes]


def compare_values(path: str, old: Any, new: Any) -> str:
    """Describe the first difference of two JSON values, with its path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return compare_values(f"{path}.{key}".lstrip("."), old.get(key), new.get(key))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, now) in enumerate(zip(old, new, strict=True)):
            if before != now:
                return compare_values(f"{path}[{place}]", before, now)
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (old, new)]
    pairs = enumerate(zip(*texts, strict=False))
    same = next((place for place, (before, now) in pairs if before != now), min(map(len, texts)))
    cut = [text[max(0, same - CONTEXT_CHARS) : same + 2 * CONTEXT_CHARS] for text in texts]
    return f"{path or 'the value'}: recorded {cut[0]!r}, now {cut[1]!r}"


@frozen
class Setup:
    """An agent's instruction and the schemas of its tools, and the `session_state` of the conversation.

    `is_hiding` is whether the agent hides untrusted results.  `fixed` is the begin of the instruction, which alone is
    compared; None: the whole instruction is.
    """

    instruction: str
    tools: Mapping[str, Any]
    session_state: Mapping[str, Any] = field(default_factory=dict)
    is_hiding: bool = False
    fixed: str | None = None

    def encode(self) -> str:
        """Return the setup as JSON, for `decode_setup`."""
        hiding = [True] if self.is_hiding else []
        state = [self.session_state] if self.session_state or hiding else []
        return encode_json([self.instruction, self.tools, *state, *hiding])

    def check(self, run: str, now: "Setup") -> None:
        """Raise `JournalError` if `now` differs from the setup that `run` began with."""
        if changes := self.changes(now):
            raise JournalError(
                f"run {run} began with another agent. {'; '.join(changes)}. Resume it with the agent that began it, or "
                'with this one: agent.resume(run_id, changed="go on"), agentkit resume --go-on'
            )

    def changes(self, now: "Setup") -> list[str]:
        """Describe how `now` differs: the tools, their fields, and the first change of the instruction."""
        changes = list_changes(self.tools, now.tools)
        fixed = now.fixed
        if self.instruction != now.instruction if fixed is None else not self.instruction.startswith(fixed):
            changes.append(compare_values("instruction", self.instruction, now.instruction))
        return changes


def read_setup(store: Store, run: str) -> Setup | None:
    """Return the setup that a run of a journal began with; None for a branch, which stores none."""
    entries = store.runs(RunFilter(ids=[run]))
    return decode_setup(fold(store.records(*entries, kinds=(RunBegun,))).setups.get(run))


def decode_setup(text: str | None) -> Setup | None:
    """Return the setup in a record of the begin of a run, if it has one."""
    return Setup(*json.loads(text)) if text else None


def is_hiding(run: RunRecords) -> bool:
    """Return whether the agent that began a run hides untrusted results."""
    setup = decode_setup(run.setup)
    return setup is not None and setup.is_hiding


def schemas_of(tools: ToolRegistry) -> dict[str, Any]:
    """Return the plain schemas of tools by name, that of the answer included."""
    answer = {} if tools.answer is None else {tools.answer.name: tools.answer.schema("json")}
    return {**lock(tools)["tools"], **answer}
