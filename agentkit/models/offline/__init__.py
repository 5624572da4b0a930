"""The embedded model: a deterministic planner that needs no key, no network and no weights."""

from .model import OfflineModel
from .planning import plan

__all__ = ["OfflineModel", "plan"]
