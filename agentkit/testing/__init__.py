"""Test doubles for models, for this project's tests and for its users'."""

from .chaos import chaos
from .scripted import ScriptedModel
from .server import ModelServer

__all__ = ["ModelServer", "ScriptedModel", "chaos"]
