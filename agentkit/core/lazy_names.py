"""Names that are loaded when they are used: of public modules, of functions that display a value, and of doors.

A door is an optional part of the package that a keyword of a lower room can open.  The public face fills the table of
doors when `agentkit` is imported, so the rooms know a door by its short name alone.  It fills a second table with what
removes the rows of doors beside a journal.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_names(
    package: str, terms: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the module `package`.

    The stub file beside the module has its names, one import a line, `from .place import Name as Name`; type checkers
    and editors read the same lines.  `from . import module as module` names a public module; `__all__` leaves it out.

    Args:
        package: The `__name__` of the module.
        terms: What to do about names from other frameworks.

    Raises:
        AttributeError: When an unknown name is read; `ImportError` where a statement imports it from a package.
    """
    module: Any = sys.modules[package]
    stub = module.__spec__.loader.get_data(module.__file__.removesuffix(".py") + ".pyi").decode()
    home_of = {name: home for _, home, _, name, *_ in map(str.split, stub.splitlines())}
    public = sorted(name for name, home in home_of.items() if home.strip("."))

    def load(name: str) -> Any:
        if name not in home_of:
            text = f"module {package!r} has no attribute {name!r}"
            if name.startswith("_"):
                raise AttributeError(text)
            modules = [f"{package}.{name}" for name in home_of if name not in public]
            hint = import_module(".errors", __package__).suggest_name(name, public, terms, modules)
            is_imported = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
            # the text of an AttributeError is lost in an import
            raise (ImportError if hint and is_imported else AttributeError)(f"{text}. {hint}" if hint else text)
        if name not in public:
            return import_module(f"{package}.{name}")
        with paused_gc():
            home = import_module(home_of[name], module.__package__)
        value = getattr(home, name) if hasattr(home, name) else import_module(f"{home.__name__}.{name}")
        setattr(module, name, value)
        return value

    return public, load, lambda: list(public)


MANY_OBJECTS = 50_000
"""From how many new objects on it is worth counting all of them."""


@contextmanager
def paused_gc(*, freeze: bool = True) -> Iterator[None]:
    """Pause the garbage collector for the body: modules that load create many objects and no garbage.

    If they created most of the objects of the process, later collections leave these out, so the first one does not
    look through them all. `gc.freeze` also freezes all older objects: not where these are most, nor without `freeze`.
    """
    collecting = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
        created = gc.get_count()[0] - before
        if freeze and created > MANY_OBJECTS and 2 * created > len(gc.get_objects()):
            gc.freeze()
    finally:
        if collecting:
            gc.enable()


def display_with(place: str, read: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """Return a method that calls the function at `place` ("agentkit.views.html:tool_view", say) with the value.

    With `read` it calls the function with `read(value)`.
    """

    def method(value: Any, *args: Any) -> Any:
        return _load(place)(read(value) if read else value, *args)

    return method


def _load(place: str) -> Any:
    """Return the attribute at a place, "package.module:attribute"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


DOORS: dict[str, str] = {}
"""The doors by name, each as "package.module:attribute"."""


def open_door(name: str) -> Any:
    """Import a door and return its entry.

    Raises:
        DefinitionError: A package that the door needs is not installed; the error names it.
    """
    return _load(DOORS[name])


CLEAN_UPS: dict[str, str] = {}
"""What removes the rows of doors for runs that are deleted, each as "package.module:attribute", by the name of the
table by which a journal shows that the door uses it."""
