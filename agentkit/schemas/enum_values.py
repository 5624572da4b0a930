"""Enum values that a developer adds to a parameter or a field: as JSON, in the schema and in the validation."""

import types
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..core.errors import DefinitionError
from .walk import JsonSchema

SCALARS = (str, int, float, bool, type(None))
COLLECTIONS = (list, set, frozenset, tuple, Sequence)


def read_enum(place: str, values: Sequence[Any], *, refuse_duplicates: bool) -> list[Any]:
    """Return enum values as distinct JSON values; the members of an Enum are written as their values.

    Raises:
        DefinitionError: A value is not a JSON scalar, or is repeated and `refuse_duplicates`; the error names `place`.
    """
    distinct: dict[tuple[type, Any], Any] = {}  # by type as well, because 1 == True
    for value in map(_to_scalar, values):
        if not isinstance(value, SCALARS):
            raise DefinitionError(f"{place}: the enum value {value!r} is not a string, number, boolean or None.")
        if refuse_duplicates and (type(value), value) in distinct:
            raise DefinitionError(f"{place}: the enum value {value!r} is repeated. Remove one of them.")
        distinct[type(value), value] = value
    return list(distinct.values())


def restrict(annotation: Any, values: Sequence[Any], place: str) -> Any:
    """Return `annotation` with `Literal[values]` in place of `str`, `int` or `bool`, at the top or inside.

    Inside are `Annotated`, a union, and the items of a list.  Other types stay as they are.

    Raises:
        DefinitionError: A value is not of that type.
    """
    if annotation in (str, int, bool):
        fitting = [str(value) for value in values if value is not None] if annotation is str else list(values)
        if wrong := [value for value in fitting if type(value) is not annotation and value is not None]:
            raise DefinitionError(
                f"{place}: the enum value {wrong[0]!r} does not fit the type {annotation.__name__}. "
                f"Use values of type {annotation.__name__}."
            )
        return Literal[tuple(value for value in fitting if value is not None)]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[restrict(inside[0], values, place), *annotation.__metadata__]
    if origin in (Union, types.UnionType):
        kinds = [entry for entry in inside if entry is not type(None)]
        if len(kinds) == 1:
            return Union[restrict(kinds[0], values, place), None]  # noqa: UP007 - built at run time
    if origin in COLLECTIONS and len(inside) == 1:
        return origin[restrict(inside[0], values, place)]
    return annotation


def add_keywords(schema: JsonSchema, keywords: JsonSchema) -> None:
    """Add `description` and `enum` to a schema in place; an enum goes to the alternative or the items that it lists."""
    keywords = dict(keywords)
    values = keywords.pop("enum", None)
    schema |= keywords
    if values is None:
        return
    kinds = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    target = kinds[0] if len(kinds) == 1 else schema
    if target.get("type") == "array" and isinstance(target.get("items"), dict):
        target = target["items"]
    if target.get("type") == "string":
        values = [str(value) for value in values if value is not None]
    target["enum"] = values


def _to_scalar(value: Any) -> Any:
    if not isinstance(value, Enum):
        return value
    return value.value if isinstance(value.value, SCALARS) else value.name
