"""Check and repair conversations so that every provider accepts them; split them into groups that must stay whole."""

from .repair import check_history, repair_history
from .tool_calls import Violation

__all__ = ["Violation", "check_history", "repair_history"]
