"""What a callable takes: its parameters with their types, as a caller (or a model) sees them."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Union, get_origin

from pydantic.fields import FieldInfo
from typing_extensions import get_type_hints

from ..errors import DefinitionError


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside partials, methods, decorators and callable objects: it has the name, hints and docstring."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
        elif not (inspect.isroutine(function) or inspect.isclass(function)):
            function = type(function).__call__
        else:
            return function


def name_of(function: Callable[..., Any]) -> str:
    """What to call `function` in a message to the developer."""
    return str(getattr(plain_function(function), "__qualname__", repr(function)))


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of `function` that a caller may give, with resolved types; what a partial binds is left out.

    Raises `DefinitionError` where Python knows no signature, or a type is named that cannot be found.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"{name_of(function)}: Python knows no signature of it ({error}). "
            "Wrap it in a function of your own with typed parameters."
        ) from error
    hints = _hints(function)
    bound = _bound_by_partials(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter, hints))
        for parameter in signature.parameters.values()
        if parameter.name not in bound
    ]
    return signature.replace(parameters=parameters, return_annotation=hints.get("return", Any))


def _bound_by_partials(function: Callable[..., Any]) -> set[str]:
    names: set[str] = set()
    while isinstance(function, partial):
        names.update(function.keywords)
        function = function.func
    return names


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    inner = plain_function(function)
    owner = inner.__init__ if inspect.isclass(inner) else inner
    closure = getattr(owner, "__closure__", None) or ()
    names = getattr(getattr(owner, "__code__", None), "co_freevars", ())
    local_names = {name: cell.cell_contents for name, cell in zip(names, closure, strict=True) if _is_filled(cell)}
    try:
        return get_type_hints(owner, localns=local_names or None, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{name_of(function)}: the type {error.name!r} in its signature cannot be found. "
            "Import or define it at the top of the module that defines the function."
        ) from error
    except TypeError:  # a builtin: it has no annotations at all
        return {}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell is the only way to learn that it is empty
    except ValueError:
        return False
    return True


def _annotation(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    annotation = hints.get(parameter.name, Any)
    implicit = parameter.default is None and annotation is not Any and not isinstance(annotation, FieldInfo)
    if implicit and get_origin(annotation) is not Union:  # `x: int = None` is meant as `int | None`
        return Union[annotation, None]  # noqa: UP007 - `|` does not take every annotation
    return annotation
