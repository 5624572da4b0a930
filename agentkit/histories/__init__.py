"""Conversations as providers take them: what is wrong with one, its repair, and the groups that must stay whole."""

from .admission import admit
from .grouping import groups
from .repair import INTERRUPTED, check_history, repair_history
from .tool_calls import portable_name
from .values import object_text, valid_text
from .violations import Rule, Violation

__all__ = [
    "INTERRUPTED",
    "Rule",
    "Violation",
    "admit",
    "check_history",
    "groups",
    "object_text",
    "portable_name",
    "repair_history",
    "valid_text",
]
