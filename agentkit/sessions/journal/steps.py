"""What a step of a run is in its journal: a request, or a call with what came of it."""

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
    """A call that a journal knows: the arguments it was made with if they were not the model's, and what came of it."""

    arguments: str | None
    outcome: Mapping[str, Any] | None


def usage_of(store: Store, run: str) -> Usage:
    """What a run took: as its last reply says, and what agents inside its calls took since then."""
    done = "call = '' AND outcome IS NOT NULL"
    rows = store.rows(f"SELECT ended, outcome FROM steps WHERE run = ? AND {done} ORDER BY step DESC LIMIT 1", run)
    last, usage = (rows[0][0], Usage(**json.loads(rows[0][1])["usage"])) if rows else (0.0, Usage())
    for _, inner in inner_runs(store, run, last):
        usage += usage_of(store, inner)
    return usage


def inner_runs(store: Store, run: str, since: float = 0.0) -> list[tuple[str, str]]:
    """The runs of agents inside the calls of a run: (the call's id, the run's), the oldest of a call first."""
    sql = "SELECT origin, id FROM runs WHERE origin > ? AND origin < ? AND begun >= ? ORDER BY origin, begun"
    rows = store.rows(sql, f"{run}/", f"{run}0", since)  # 0 is what follows upon /
    return [(origin.removeprefix(f"{run}/"), inner) for origin, inner in rows]


def time_and_calls(store: Store, run: str, open_calls: Collection[str] = ()) -> tuple[float, int]:
    """The seconds of a run in which something was under way, and the calls that it made, but for the `open_calls`."""
    calls, seconds, latest = 0, 0.0, 0.0
    sql = "SELECT call, begun, ended FROM steps WHERE run = ? AND ended IS NOT NULL ORDER BY begun"
    for call, begun, ended in store.rows(sql, run):
        calls += bool(call) and call not in open_calls
        seconds += max(0.0, ended - max(begun, latest))
        latest = max(latest, ended)
    return seconds, calls + sum(time_and_calls(store, inner)[1] for _, inner in inner_runs(store, run))


def outcome_of(result: ToolResult) -> dict[str, Any]:
    """What came of a call, as it would be shown to the model if it were not shortened."""
    if result.error is not None:
        return {"error": [result.error.name, result.error.message], "seconds": result.seconds}
    shown = render_result(result.value)
    images = {"images": [*shown.images]} if shown.images else {}
    return {"text": shown.text, **images, "seconds": result.seconds}


def value_of(outcome: Mapping[str, Any]) -> Any:
    """What a tool would return to come to this outcome."""
    if error := outcome.get("error"):
        return ExceptionInfo(*error)
    images = outcome.get("images")
    return RenderedResult(outcome["text"], images) if images else outcome["text"]


def preset_result(bound: BoundCall, value: Any) -> BoundCall:
    """The call that does nothing but give `value`."""
    return replace(bound, run=lambda: value, problem=value if isinstance(value, ExceptionInfo) else None)
