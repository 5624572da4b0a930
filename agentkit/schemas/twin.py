"""pydantic's validator of a callable's parameters, and which of them a model can be shown.

pydantic validates a *twin*: a function with the original's parameters, all by keyword, that returns its arguments.
"""

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import SchemaError

from ..core.errors import DefinitionError
from .generator import PlainJsonSchema
from .pydantic_types import adapt_annotation
from .signature import Kind, name_of
from .walk import JsonSchema

UNUSABLE_TYPE_ERRORS = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, SchemaError)
Adapter: TypeAlias = "TypeAdapter[dict[str, Any]]"


@dataclass(frozen=True)
class Twin:
    """The parameters of a callable as pydantic validates them; the validator returns the arguments by name.

    `omitted` are types without a schema, by parameter: an alternative, or the whole parameter, which has a default.
    """

    parameters: list[inspect.Parameter]
    adapter: Adapter
    schema: JsonSchema
    omitted: dict[str, str]


def build_twin(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> Twin:
    """Build the validator and the schema of parameters; raise `DefinitionError` for a type that cannot be left out."""
    parameters = [parameter.replace(annotation=adapt_annotation(parameter.annotation)) for parameter in parameters]
    omitted: dict[str, str] = {}
    try:
        return Twin(parameters, *_build(parameters), omitted)
    except UNUSABLE_TYPE_ERRORS:
        reduced = [_reduce(function, parameter, omitted) for parameter in parameters]
        parameters = [parameter for parameter in reduced if parameter is not None]
        return Twin(parameters, *_build(parameters), omitted)


def _build(parameters: list[inspect.Parameter]) -> tuple[Adapter, JsonSchema]:
    def twin(**arguments: Any) -> dict[str, Any]:
        return arguments

    by_keyword = sorted(map(_make_keyword_only, parameters), key=lambda parameter: parameter.kind)
    twin.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    twin.__annotations__ = {parameter.name: parameter.annotation for parameter in by_keyword}
    adapter = TypeAdapter[dict[str, Any]](cast(Any, twin))
    return adapter, adapter.json_schema(schema_generator=PlainJsonSchema)


def _make_keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.kind is Kind.VAR_KEYWORD:
        return parameter
    if parameter.kind is Kind.VAR_POSITIONAL:
        return Kind(parameter.name, Kind.KEYWORD_ONLY, default=[], annotation=list[parameter.annotation])  # type: ignore[name-defined]
    return parameter.replace(kind=Kind.KEYWORD_ONLY)


def _reduce(
    function: Callable[..., Any], parameter: inspect.Parameter, omitted: dict[str, str]
) -> inspect.Parameter | None:
    """Return the parameter without the alternatives that have no schema; None to leave it at its default."""
    if (error := _find_error(parameter)) is None:
        return parameter
    place = f"{name_of(function)}: the parameter {parameter.name!r}"
    type_name = describe_type(parameter.annotation)
    if name := undefined_name(parameter.annotation):
        raise DefinitionError(explain_undefined(f"{place} has the type {type_name}, which", name)) from error
    if isinstance(error, SchemaError):
        raise DefinitionError(
            f"{place} has a type that pydantic refuses: {describe_error(error)}. Change the constraint; a pattern with "
            "look-around or back-references works as Field(pattern=re.compile(...))."
        ) from error
    if parameter.default is Kind.empty:
        raise DefinitionError(
            f"{place} has the type {type_name}, which a model cannot write ({describe_error(error)}). Use a type that "
            f"pydantic can validate from JSON (numbers, strings, lists, dataclasses, models), give it a default, or "
            f"hide it from the model: {parameter.name}: Injected[{type_name}]."
        ) from error
    alternatives, metadata = _split_union(parameter.annotation)
    usable = [entry for entry in alternatives if _find_error(parameter.replace(annotation=entry)) is None]
    usable = usable if {*usable} - {types.NoneType} else []  # null alone says nothing
    lost = [describe_type(entry) for entry in alternatives if entry not in usable]
    omitted[parameter.name] = " and ".join(lost) if usable else type_name
    if not usable:
        return None
    union: Any = Union[tuple(usable)]  # noqa: UP007 - built at run time
    return parameter.replace(annotation=Annotated[union, *metadata] if metadata else union)


def _find_error(parameter: inspect.Parameter) -> Exception | None:
    try:
        _build([parameter])
    except UNUSABLE_TYPE_ERRORS as error:
        return error
    return None


def _split_union(annotation: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the alternatives of an annotation, if it is a union, and the metadata around it."""
    metadata = getattr(annotation, "__metadata__", ())
    inner = annotation.__origin__ if metadata else annotation
    alternatives = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else ()
    return alternatives, metadata


def undefined_name(annotation: Any) -> str:
    """Return the name that a type refers to and that is not defined; "" if all are."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.rebuild(force=True, raise_errors=True)
    except PydanticUndefinedAnnotation as error:
        return error.name or ""
    except UNUSABLE_TYPE_ERRORS:
        return ""
    return ""


def explain_undefined(place: str, name: str) -> str:
    """Return the message for a type that refers to an undefined name."""
    return f"{place} refers to the undefined name {name!r}. Define or import {name} in the module of that type."


def describe_type(annotation: Any) -> str:
    """Return the name of a type for a message to the developer."""
    is_plain_class = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if is_plain_class else str(annotation).replace("typing.", "")


def describe_error(error: Exception) -> str:
    """Return the first sentence of pydantic's error; of an invalid constraint the last line, which holds the reason."""
    if isinstance(error, SchemaError):
        return str(error).splitlines()[-1].strip()
    return str(error).splitlines()[0].partition(". ")[0].rstrip(".")


def choose_extra_keys(schema: JsonSchema, *classes: type) -> Literal["forbid"] | None:
    """Return how to validate undeclared keys: "forbid", unless a class decides otherwise.

    A class with `extra="allow"` shows in pydantic's `schema`, one of `classes` with `extra="ignore"` does not.
    """
    says_ignore = any(getattr(entry, "model_config", {}).get("extra") == "ignore" for entry in classes)
    return None if says_ignore or _takes_any_keys(schema) else "forbid"


def _takes_any_keys(node: Any) -> bool:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("additionalProperties"):
            return True
        return any(map(_takes_any_keys, node.values()))
    return isinstance(node, list) and any(map(_takes_any_keys, node))
