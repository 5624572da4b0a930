"""The signature of a callable: its parameters with resolved types, as a caller (or a model) sees them.

A tool has its default name from the callable; names and descriptions are checked here.
"""

import inspect
import re
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import InitVar
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions
from annotated_types import BaseMetadata
from pydantic.fields import FieldInfo
from typing_extensions import Doc, Format, get_annotations, get_type_hints, is_typeddict

from ..core.errors import DefinitionError, plain_signature
from ..core.portable import to_portable_name
from .annotations import is_required_key, read_docstring, read_metadata_text, strip_qualifiers, texts_of

Parameter = inspect.Parameter
PARAMETER_METADATA = (str, Doc, FieldInfo, BaseMetadata)
"""Metadata that applies to a parameter as a whole, None included."""
UNPACK = (typing.Unpack, typing_extensions.Unpack)


def unwrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside partials, methods, decorators and objects with `__call__`, which has the texts."""
    return list(iter_wrapped(function))[-1]


def iter_wrapped(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield a callable and what it wraps, layer by layer, down to the function."""
    while True:
        yield function
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
        elif not (inspect.isroutine(function) or inspect.isclass(function)):
            function = type(function).__call__
        else:
            return


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of `function` for a message to the developer."""
    return str(getattr(unwrap_function(function), "__qualname__", repr(function)))


def docstring_of(function: Callable[..., Any]) -> str | None:
    """Return the docstring of a call of `function`: of a partial its own, if it has one, else the function's.

    An object whose `__call__` has none is described by its class's docstring, without the constructor's parameters.
    """
    while isinstance(function, partial):
        if text := vars(function).get("__doc__"):
            return inspect.cleandoc(text)
        function = function.func
    inner = unwrap_function(function)
    if getattr(inner, "__name__", "") == "__call__" and not inner.__doc__:
        constructor = plain_signature(type(function)).parameters
        return read_docstring(inspect.getdoc(type(function)), constructor).description
    return inspect.getdoc(inner)


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of `function` that a caller may pass, with resolved types.

    Parameters that a partial binds are left out.  The keys of `**kwargs: Unpack[TypedDict]` are listed as parameters.

    Raises:
        DefinitionError: Python has no signature for `function`, or a type in it cannot be resolved.
    """
    try:
        signature = plain_signature(function)
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"{name_of(function)}: it has no signature that Python can read ({error}). "
            "Wrap it in a function of your own with typed parameters."
        ) from error
    hints = _resolve_hints(function)
    bound = _names_bound_by_partials(function)
    parameters = [
        shown
        for parameter in signature.parameters.values()
        if parameter.name not in bound
        for shown in _expand_parameter(function, parameter.replace(annotation=_annotation_of(parameter, hints)))
    ]
    if twice := [name for name, count in Counter(parameter.name for parameter in parameters).items() if count > 1]:
        raise DefinitionError(
            f"{name_of(function)}: {twice[0]!r} is a parameter and a key of its **keywords: Unpack[...]. Rename one."
        )
    return inspect.Signature(parameters, return_annotation=hints.get("return", Any), __validate_parameters__=False)


def _expand_parameter(function: Callable[..., Any], parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    annotation = parameter.annotation
    if parameter.kind is not Parameter.VAR_KEYWORD or get_origin(annotation) not in UNPACK:
        yield parameter
        return
    (keys,) = get_args(annotation)
    assert is_typeddict(keys)
    texts = texts_of(keys).fields
    try:
        hints = get_type_hints(keys, include_extras=True)
    except NameError as error:
        raise _unknown_type_error(function, {parameter.name: error.name}, error.name or "") from error
    for name, hint in hints.items():
        default = Parameter.empty if is_required_key(keys, name, hint) else MISSING
        annotation = strip_qualifiers(hint)
        if text := texts.get(name, {}).get("description"):
            annotation = Annotated[annotation, Doc(text)]
        yield Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


class _Missing:
    """The default of a key that is left out of the call when it is not given."""

    def __repr__(self) -> str:
        return "missing"


MISSING: Any = _Missing()


def _names_bound_by_partials(function: Callable[..., Any]) -> set[str]:
    names: set[str] = set()
    while isinstance(function, partial):
        names.update(function.keywords)
        function = function.func
    return names


def _resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    inner = unwrap_function(function)
    has_fields = hasattr(inner, "_fields")  # a NamedTuple, which has the types itself
    owner = inner.__init__ if inspect.isclass(inner) and not has_fields else inner
    closure = getattr(owner, "__closure__", None) or ()
    names = getattr(getattr(owner, "__code__", None), "co_freevars", ())
    known = {name: cell.cell_contents for name, cell in zip(names, closure, strict=True) if _is_filled(cell)}
    try:
        return get_type_hints(owner, localns=known or None, include_extras=True)
    except (NameError, AttributeError):
        pass
    except Exception as error:
        if not get_annotations(owner):  # a builtin
            return {}
        raise _unreadable_type_error(function, owner, known, error) from error
    known = _find_surrounding_names(owner) | known
    try:
        return get_type_hints(owner, localns=known, include_extras=True)
    except (NameError, AttributeError):
        pass
    # The type of the result may be one that is imported for type checkers alone: no call needs it.
    annotations = get_annotations(owner, format=Format.FORWARDREF)
    annotations.pop("return", None)
    parameters = SimpleNamespace(__annotations__=annotations, __globals__=getattr(owner, "__globals__", {}))
    try:
        return get_type_hints(parameters, localns=known, include_extras=True)
    except (NameError, AttributeError) as error:
        raise _unknown_type_error(function, annotations, error.name or "") from error


def _find_surrounding_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the local names of the function that defines `function`, if it is running."""
    outer = getattr(function, "__qualname__", "").rpartition(".<locals>.")[0]
    frame = sys._getframe(1) if outer else None
    while frame is not None:
        if frame.f_code.co_qualname == outer:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _unknown_type_error(function: Callable[..., Any], annotations: dict[str, Any], name: str) -> DefinitionError:
    texts = {key: getattr(value, "__forward_arg__", value) for key, value in annotations.items()}
    parameter = next((key for key, text in texts.items() if isinstance(text, str) and name in text), None)
    where = f"the parameter {parameter!r}" if parameter else "its signature"
    return DefinitionError(
        f"{name_of(function)}: {where} names the type {name!r}, which cannot be found. "
        "Import or define it at the top of the module that defines the function."
    )


def _unreadable_type_error(
    function: Callable[..., Any], owner: Any, known: dict[str, Any], error: Exception
) -> DefinitionError:
    where = "its signature"
    for name, annotation in get_annotations(owner).items():
        alone = SimpleNamespace(__annotations__={name: annotation}, __globals__=getattr(owner, "__globals__", {}))
        try:
            get_type_hints(alone, localns=known, include_extras=True)
        except NameError:
            continue
        except Exception:
            where = "its result" if name == "return" else f"the parameter {name!r}"
            break
    return DefinitionError(
        f"{name_of(function)}: {where} has a type that Python cannot read ({type(error).__name__}: {error}). Write a "
        "type there; a text about the parameter stands in Annotated[type, text] or in the docstring."
    )


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell is the only way to learn that it is empty
    except ValueError:
        return False
    return True


def _annotation_of(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    annotation = hints.get(parameter.name, Any)
    if isinstance(annotation, InitVar):  # of a dataclass
        annotation = annotation.type
    if parameter.default is None and annotation is not Any and not isinstance(annotation, FieldInfo):
        return allow_none(annotation)  # `x: int = None` means `int | None`
    return annotation


def allow_none(annotation: Any) -> Any:
    """Return `annotation` with None as an alternative, inside `Annotated`: texts and bounds are the parameter's.

    Validators, which may not expect None, stay with the type, and only the text moves outside.
    """
    metadata = getattr(annotation, "__metadata__", ())
    if metadata and all(isinstance(entry, PARAMETER_METADATA) for entry in metadata):
        return Annotated[Union[annotation.__origin__, None], *metadata]  # noqa: UP007 - built at run time
    descriptions = [entry.description for entry in metadata if getattr(entry, "description", None)]
    text = read_metadata_text(annotation) or next(iter(descriptions), "")
    optional = Union[annotation, None]  # noqa: UP007 - built at run time
    return Annotated[optional, Doc(text)] if text else optional


SUFFIX = re.compile(r"(?<=.)(Args|Arguments|Tool)$")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_name(name: str, remedy: str = "@tool(name={!r})", prefix: str = "") -> None:
    """Check that every provider accepts the tool name `prefix` + `name`.

    Raises:
        DefinitionError: It is no text, or a provider would refuse it; the message suggests a valid one, in the template
            `remedy`.
    """
    if not isinstance(name, str):
        raise DefinitionError(f"the name of a tool must be a text, got {name!r:.80}. Write {remedy.format('add')}.")
    if (whole := prefix + name) != to_portable_name(whole):
        text = re.sub(r"[^A-Za-z0-9_-]+", "_", whole).strip("_-")[:64]
        better = text if text == to_portable_name(text) else f"tool_{text}"[:64]
        raise DefinitionError(
            f"{whole!r} is not a valid tool name: providers take letters, digits, _ and -, not starting with a digit "
            f"or -, at most 64 characters. Choose another one: {remedy.format(better.removeprefix(prefix))}."
        )


def check_description(name: str, description: str, remedy: str = "") -> None:
    """Raise `DefinitionError` for a tool without a description, with `remedy` or with what to write."""
    if not description.strip():
        remedy = remedy or (
            f'Write a docstring under `def {name}(...)`, for example """Looks up ... and returns ...""", '
            'or give JsonTool(..., description="...").'
        )
        raise DefinitionError(f"the tool {name!r} has no description, which a model needs to choose it. {remedy}")


def to_snake_case(class_name: str) -> str:
    """Return the tool name for a class: `GetWeatherArgs` -> `get_weather`, `HTTPGetArgs` -> `http_get`."""
    return HUMP.sub("_", SUFFIX.sub("", class_name)).lower()


def name_of_callable(function: Callable[..., Any]) -> str:
    """Return the tool name for a callable: its own name or that of its class; raise `DefinitionError` for a lambda."""
    inner = unwrap_function(function)
    name = getattr(inner, "__name__", "")
    if name == "__call__":
        while isinstance(function, partial):
            function = function.func
        return to_snake_case(type(function).__name__)
    if name == "<lambda>":
        raise DefinitionError(
            f"{name_of(function)}: a lambda has no name that a model could call. "
            'Name it: JsonTool(lambda ..., name="add", description="Adds ...").'
        )
    return str(name)
