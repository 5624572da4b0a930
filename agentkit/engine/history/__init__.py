"""Conversations as providers take them: what is wrong with one, its repair, and the groups that must stay whole."""

from ...core.portable import object_text, portable_name, valid_text
from .admit import admit
from .groups import groups
from .repair import INTERRUPTED, check_history, repair_history
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
