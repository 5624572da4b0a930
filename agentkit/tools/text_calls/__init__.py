"""Tool calls that a model wrote as text -> calls: in which forms models do that, and when a text is nothing else."""

from .call import WrittenCall
from .reply import Written, without_thoughts, written_calls
from .scanner import calls_in_code

__all__ = ["Written", "WrittenCall", "calls_in_code", "without_thoughts", "written_calls"]
