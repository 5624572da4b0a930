"""The embedded model: a deterministic planner that needs no key, no network and no weights."""

from .model import OfflineModel
from .plan import plan

__all__ = ["OfflineModel", "plan"]
