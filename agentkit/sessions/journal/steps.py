"""The steps of a run in its journal: requests, and calls with their outcomes."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import ExceptionInfo
from ...core.messages import Usage
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.results.result_text import RenderedResult, render_result
from .store import Store


@dataclass(frozen=True, slots=True)
class BegunCall:
    """A recorded call: its arguments if they differ from the model's, and its outcome if it has one."""

    arguments: str | None
    outcome: Mapping[str, Any] | None


def usage_of(store: Store, run: str) -> Usage:
    """Return the usage of a run: as of its last reply, plus that of agents inside later calls."""
    done = "call = '' AND outcome IS NOT NULL"
    rows = store.rows(f"SELECT ended, outcome FROM steps WHERE run = ? AND {done} ORDER BY step DESC LIMIT 1", run)
    last, usage = (rows[0][0], Usage(**json.loads(rows[0][1])["usage"])) if rows else (0.0, Usage())
    for _, inner in inner_runs(store, run, last):
        usage += usage_of(store, inner)
    return usage


def inner_runs(store: Store, run: str, since: float = 0.0) -> list[tuple[str, str]]:
    """Return the runs of agents inside the calls of a run: (call id, run id), the oldest of a call first."""
    sql = "SELECT origin, id FROM runs WHERE origin > ? AND origin < ? AND begun >= ? ORDER BY origin, begun"
    rows = store.rows(sql, f"{run}/", f"{run}0", since)  # 0 is the character after /
    return [(origin.removeprefix(f"{run}/"), inner) for origin, inner in rows]


def time_and_calls(store: Store, run: str, open_calls: Collection[str] = ()) -> tuple[float, int]:
    """Return the seconds in which requests or calls were in progress, and the calls made without `open_calls`."""
    calls, seconds, latest = 0, 0.0, 0.0
    sql = "SELECT call, begun, ended FROM steps WHERE run = ? AND ended IS NOT NULL ORDER BY begun"
    for call, begun, ended in store.rows(sql, run):
        calls += bool(call) and call not in open_calls
        seconds += max(0.0, ended - max(begun, latest))
        latest = max(latest, ended)
    return seconds, calls + sum(time_and_calls(store, inner)[1] for _, inner in inner_runs(store, run))


def outcome_of(result: ToolResult) -> dict[str, Any]:
    """Return the outcome of a call as JSON: its error, or the text and images that the model would get untruncated."""
    if result.error is not None:
        return {"error": [result.error.name, result.error.message], "seconds": result.seconds}
    shown = render_result(result.value)
    images = {"images": [*shown.images]} if shown.images else {}
    return {"text": shown.text, **images, "seconds": result.seconds}


def value_of(outcome: Mapping[str, Any]) -> Any:
    """Return the value that a tool would return for this outcome."""
    if error := outcome.get("error"):
        return ExceptionInfo(*error)
    images = outcome.get("images")
    return RenderedResult(outcome["text"], images) if images else outcome["text"]


def preset_result(bound: BoundCall, value: Any) -> BoundCall:
    """Return the call with `value` as its result; the tool is not run."""
    return replace(bound, run=lambda: value, problem=value if isinstance(value, ExceptionInfo) else None)
