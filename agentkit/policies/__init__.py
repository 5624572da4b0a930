"""What is decided about a step of a run: one policy a file, and the parts to write one.

A policy turns a flow into a flow.  The room knows no models, no views and no sessions.
"""

from ..core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
