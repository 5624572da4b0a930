"""Test doubles for models, for this project's tests and for its users'."""

from .scripted import ScriptedModel

__all__ = ["ScriptedModel"]
