"""The backends that answer requests, and the parts to write one; nothing here knows policies or views."""

from ..core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
