"""Names that are loaded when they are used: those of public modules, and the functions that display a value.

The optional parts of the package that a keyword of a lower room can open, by name.

The public face fills the table when `agentkit` is imported, so the rooms know a door only by its short name.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the module `package`.

    `homes` has the names that each module defines, a submodule's name included; the modules are written relative to the
    package `agentkit`.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = sorted(home_of)

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = f"agentkit.{home_of[name]}"
        module = import_module(home)
        value = getattr(module, name) if hasattr(module, name) else import_module(f"{home}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    return public, load, lambda: list(public)


def display_with(place: str, read: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """Return a method that calls the function at `place` ("agentkit.views.html:tool_view", say) with the value.

    With `read` it calls the function with `read(value)`.
    """

    def method(value: Any, *args: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(read(value) if read else value, *args)

    return method


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
