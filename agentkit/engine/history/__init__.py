"""Check and repair conversations so that every provider accepts them; split them into groups that must stay whole."""

from ...core.portable import to_object_text, to_portable_name, to_valid_text
from .repair import INTERRUPTED, check_history, repair_history
from .tool_calls import normalize_reply
from .tool_results import split_groups
from .violations import Rule, Violation

__all__ = [
    "INTERRUPTED",
    "Rule",
    "Violation",
    "check_history",
    "normalize_reply",
    "repair_history",
    "split_groups",
    "to_object_text",
    "to_portable_name",
    "to_valid_text",
]
