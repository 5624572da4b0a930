"""The steps of a run in its journal: requests, and calls with their outcomes."""

import json
import time
from collections import defaultdict, namedtuple
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...core.errors import ExceptionInfo
from ...core.labels import Label
from ...core.messages import Message, Usage
from ...engine.model import Reply
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.results.jsonable import to_json_data
from ...tools.results.result_text import RenderedResult, StoredResult, has_own_text, render_result
from .encoding import encode_json, step_digest
from .store import Statement, Store
from .tables import END_STEP, INSERT_STEP

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
        text, row = encode_json(outcome), self._rows.get((step, call))
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
    columns, marks = ", ".join(StepRow._fields), ", ".join("?" * len(ids))
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


def time_and_calls(store: Store, run: str, open_calls: Collection[str] = ()) -> tuple[float, int]:
    """Return the seconds in which requests or calls were in progress, and the calls made without `open_calls`."""
    calls, seconds, latest = 0, 0.0, 0.0
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
        return {"error": [result.error.name, result.error.message], "seconds": result.seconds, **label}
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
        return ExceptionInfo(*error)
    text, is_json = outcome["text"], bool(outcome.get("json"))
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
    """Return the call with `value` as its result; the tool is not run."""
    return replace(bound, run=lambda: value, problem=value if isinstance(value, ExceptionInfo) else None)
