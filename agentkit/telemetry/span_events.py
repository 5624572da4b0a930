"""Which events of a run become events of its spans, and with which attributes.

The attributes are counts and names.  The notice of an event may quote a model or a tool, so it is content.
"""

from collections.abc import Callable
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Event
from ..engine.result import HandedOver
from ..policies.approval import ApprovalAsked, ApprovalGiven
from ..policies.compaction import Compacted
from ..policies.fallback_models import FallenBack
from ..policies.final_request import FinalRequest
from ..policies.rate_limit import Throttled
from ..policies.retries import Retrying
from ..tools.execution.retries import ToolRetried
from ..tools.execution.turn import ToolAbandoned
from . import names


def error_type(error: BaseException) -> str:
    """Return the class of an error: a model's kind of failure ("rate_limit"), else the name of the exception."""
    return error.kind if isinstance(error, ModelError) else type(error).__name__


def _no_attributes(_: Event) -> dict[str, Any]:
    return {}


_ATTRIBUTES: dict[type[Event], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    Retrying: (
        "agentkit.retry",
        lambda event: {names.ERROR_TYPE: error_type(event.error), "agentkit.retry.wait_seconds": event.seconds},
    ),
    FallenBack: (
        "agentkit.fallback",
        lambda event: {names.ERROR_TYPE: error_type(event.error), names.REQUEST_MODEL: event.model},
    ),
    Throttled: ("agentkit.throttled", _no_attributes),
    ToolRetried: (
        "agentkit.tool_retry",
        lambda event: {names.ERROR_TYPE: event.error.name, "agentkit.failures": event.failures},
    ),
    ToolAbandoned: ("agentkit.tool_abandoned", lambda event: {"agentkit.abandoned_threads": event.threads}),
    ApprovalAsked: (
        "agentkit.approval_asked",
        lambda event: {names.TOOL_NAME: event.call.name, names.TOOL_CALL: event.call.id},
    ),
    ApprovalGiven: (
        "agentkit.approval_given",
        lambda event: {names.TOOL_NAME: event.call.name, names.TOOL_CALL: event.call.id,
                       "agentkit.approved": event.decision is True or isinstance(event.decision, dict)},
    ),
    FinalRequest: ("agentkit.final_request", lambda event: {"agentkit.reason": event.reason}),
    Compacted: ("agentkit.compacted", _no_attributes),
    HandedOver: ("agentkit.handed_over", lambda event: {names.AGENT_NAME: event.name}),
}  # fmt: skip
"""For each class of event: the name of the span's event, and its attributes."""


def describe_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the attributes of the span's event; None for an event that has none.

    Any other warning is an event too, under the name of its class.
    """
    if known := _ATTRIBUTES.get(type(event)):
        return known[0], known[1](event)
    return (f"agentkit.{type(event).__name__}", {}) if event.level == "WARNING" else None
