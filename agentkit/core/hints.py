"""What an error suggests in the place of a name that does not exist, or of a function that cannot be called.

The sources of a suggestion are two: a table of terms, which are mostly names from other frameworks, each with what to
do here; and the names that do exist, one of which may be close.  All errors about unknown names ask `suggest`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import wraps
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, TypeVar

from .errors import DefinitionError

C = TypeVar("C")
MIN_LIKENESS = 0.6
"""Similarity from which a name is taken for a misspelt one."""
NO_TERMS: Mapping[str, str] = MappingProxyType({})


def suggest(
    name: str,
    names: Iterable[str],
    terms: Mapping[str, str] = NO_TERMS,
    *,
    then: str = "",
    likeness: float = MIN_LIKENESS,
) -> str:
    """Return what to do about an unknown name, a sentence; "" without a suggestion.

    Args:
        name: The name.
        names: The names that exist.
        terms: Remedies by names that belong to something else.
        then: What follows the suggestion, or stands alone without one.
        likeness: The similarity, from 0 to 1, from which a name is taken for a misspelt one.
    """
    if (hint := terms.get(name, "")) == "" and (close := get_close_matches(name, list(names), 1, likeness)):
        hint = f"Did you mean {close[0]!r}?"
    return f"{hint} {then}".strip()


def check_takes(setting: str, function: Callable[..., Any], argument: str) -> None:
    """Raise `DefinitionError` for a function of a setting that does not take its one argument, which has this name."""
    try:
        inspect.signature(function).bind(None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        remedy = f"Write def {name}({argument}): ..." if name.isidentifier() else f"Write lambda {argument}: ..."
        raise DefinitionError(f"{setting}: {name} must take one argument, the {argument} ({error}). {remedy}") from None


def suggest_name(name: str, names: Iterable[str], terms: Mapping[str, str], modules: Iterable[str]) -> str:
    """Return what to do about a name that a package does not have; "" without a suggestion.

    Args:
        name: The name.
        names: The names of the package.
        terms: Remedies by names that belong to something else.
        modules: The public modules of the package, whose sources and stubs are read; none is imported.
    """
    homes = [module for module in modules if _has_public(module, name)]
    found = {name: f"It is in another module: from {homes[0]} import {name}"} if homes else {}
    return suggest(name, names, {**found, **terms})


def _has_public(module: str, name: str) -> bool:
    spec = find_spec(module)
    assert spec is not None
    source: Any = spec.loader  # which also reads from an archive
    path = str(spec.origin)
    text = b""
    for place in (path.removesuffix(".py") + ".pyi", path):
        with suppress(OSError):
            text = text or source.get_data(place)
    lines = text.decode().splitlines()
    is_listed = any(f'"{name}"' in line for line in lines if line.startswith(('    "', "__all__")))
    return is_listed or any(line.endswith(f" as {name}") for line in lines)


def explain_attributes(terms: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """Return a class decorator: reading an attribute that does not exist and is in `terms` raises with its remedy.

    Type checkers do not see it, so they still report the attribute.  Python itself suggests close names.
    """

    def decorate(cls: type[C]) -> type[C]:
        def explain(value: Any, name: str) -> Any:
            if name not in terms:
                return object.__getattribute__(value, name)  # raises as it did, also what a property raised
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}. {terms[name]}")

        changed: Any = cls
        changed.__getattr__ = explain
        return cls

    return decorate


def explain_keywords(terms: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """Return a class decorator: an unknown keyword of the constructor raises `TypeError` with a suggestion."""

    def decorate(cls: type[C]) -> type[C]:
        construct: Callable[..., None] = cls.__init__
        _, *names = inspect.signature(construct).parameters

        @wraps(construct)
        def checked(value: Any, *args: Any, **given: Any) -> None:
            for name in given.keys() - set(names):
                hint = suggest(name, names, terms, then=f"Keywords: {', '.join(names)}.")
                raise TypeError(f"{cls.__name__}() got an unexpected keyword {name!r}. {hint}")
            construct(value, *args, **given)

        changed: Any = cls
        changed.__init__ = checked
        return cls

    return decorate
