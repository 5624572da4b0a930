"""Runs as readable files: recorded with every reply and result, and replayed without model, tools and network."""

from .file import Recording
from .replay import Replay, ReplayDiffers, RequestRecorder, read_journaled

__all__ = ["Recording", "Replay", "ReplayDiffers", "RequestRecorder", "read_journaled"]
