"""Runs as readable files: recorded with every reply and result, and replayed without model, tools and network."""

from .differences import ReplayDiffers
from .file import Recording
from .journaled import read_journaled
from .recorder import RequestRecorder
from .replay import replay_policy

__all__ = ["Recording", "ReplayDiffers", "RequestRecorder", "read_journaled", "replay_policy"]
