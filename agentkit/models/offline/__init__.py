"""The embedded model: a deterministic planner without a key, network access or weights."""

from .model import OfflineModel
from .planning import plan

__all__ = ["OfflineModel", "plan"]
