"""Runs as readable files: recorded with all that came back, and replayed without model, tools and network."""

from .differences import ReplayDiffers
from .file import Recording
from .recorder import Recorder
from .replay import replaying

__all__ = ["Recorder", "Recording", "ReplayDiffers", "replaying"]
