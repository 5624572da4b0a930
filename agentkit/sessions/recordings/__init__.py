"""Runs as readable files: recorded with every reply and result, and replayed without model, tools and network."""

from .file import Recording
from .journaled import read_journaled
from .recorder import RequestRecorder
from .replay import Replay, ReplayDiffers

__all__ = ["Recording", "Replay", "ReplayDiffers", "RequestRecorder", "read_journaled"]
