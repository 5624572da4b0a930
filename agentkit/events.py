"""Everything that a run reports: each class of event, and `encode_event`, which turns one into JSON data.

A listener is a function of one event: `JsonAgent(..., listeners=[print])`.
"""

from .core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
