"""The answer of a finished run, returned again without model, tools and writes."""

from contextlib import suppress
from typing import Any

from ...core.flow import Flow, ask
from ...engine.loop import Answer
from ...tools.execution.call_tools import CallTools
from ...tools.registry import ToolRegistry
from .conversation import StoredAnswer


def repeat_answer(tools: ToolRegistry, stored: StoredAnswer) -> Flow[Answer]:
    """Return the stored answer: typed, if the recorded call of the answer tool is still valid; else as JSON."""
    for bound in map(tools.bind, stored.calls):
        if bound.is_answer:
            with suppress(Exception):
                results: Any = yield from ask(CallTools((bound,)))
                if results[0].error is None:
                    return Answer(results[0].value, stored.run.stopped)
    return Answer(stored.run.answer, stored.run.stopped)
