"""The optional parts of the package that a keyword of a lower room can open, by name.

The public face fills the table when `agentkit` is imported, so the rooms know a door only by its short name.
"""

from importlib import import_module
from typing import Any

_doors: dict[str, str] = {}


def register_doors(doors: dict[str, str]) -> None:
    """Add doors by name, each as "package.module:attribute"; nothing is imported."""
    _doors.update(doors)


def open_door(name: str) -> Any:
    """Import a door and return its entry.

    Raises:
        DefinitionError: A package that the door needs is not installed; the error names it.
    """
    module, _, attribute = _doors[name].partition(":")
    return getattr(import_module(module), attribute)
