"""A Python callable as a tool: its definition, the validation and repair of its arguments, its execution, the registry.

Public are two functions for the bodies of tools: a time limit for a call that has none, and short texts for errors.
Nothing here knows models, the loop or policies.
"""

from ..core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
