"""What a step of a run is in its journal: a request, or a call with what came of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..calls import ToolResult
from ..errors import ExceptionInfo
from ..messages import Usage
from ..results import Rendering, rendering
from .store import Store


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that a journal knows: the arguments it was made with if they were not the model's, and what came of it."""

    arguments: str | None
    outcome: Mapping[str, Any] | None


def usage_of(store: Store, run: str) -> Usage:
    """What a run took, as its last reply says."""
    sql = "SELECT outcome FROM steps WHERE run = ? AND call = '' AND outcome IS NOT NULL ORDER BY step DESC LIMIT 1"
    found = store.rows(sql, run)
    return Usage(**json.loads(found[0][0])["usage"]) if found else Usage()


def outcome_of(result: ToolResult) -> dict[str, Any]:
    """What came of a call, as it would be shown to the model if it were not shortened."""
    if result.error is not None:
        return {"error": [result.error.name, result.error.message], "seconds": result.seconds}
    shown = rendering(result.value)
    images = {"images": [*shown.images]} if shown.images else {}
    return {"text": shown.text, **images, "seconds": result.seconds}


def value_of(outcome: Mapping[str, Any]) -> Any:
    """What a tool would return to come to this outcome."""
    if error := outcome.get("error"):
        return ExceptionInfo(*error)
    images = outcome.get("images")
    return Rendering(outcome["text"], images) if images else outcome["text"]
