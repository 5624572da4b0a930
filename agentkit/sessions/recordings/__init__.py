"""Runs as readable files: recorded with every reply and result, and replayed without model, tools and network."""

from .differences import ReplayDiffers
from .file import Recording
from .journaled import read_journaled
from .recorder import RunRecorder
from .replay import replay_policy

__all__ = ["Recording", "ReplayDiffers", "RunRecorder", "read_journaled", "replay_policy"]
