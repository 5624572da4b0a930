"""Annotations that pydantic cannot use as they are, replaced by equivalent ones."""

import sys
import types
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import BeforeValidator, WithJsonSchema
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from .annotations import strip_qualifiers
from .enum_values import SCALARS


def adapt_annotation(annotation: Any) -> Any:
    """Return `annotation` with the types that need it replaced; the same object if nothing changes.

    - `typing.TypedDict` before Python 3.12, which pydantic refuses, becomes the one of typing_extensions.
    - An enum with members that are no JSON scalars is read by its members' names, or by values as pydantic does.
    """
    if isinstance(annotation, type):
        if is_typeddict(annotation) and sys.version_info < (3, 12):
            return _convert_typed_dict(annotation)
        if issubclass(annotation, Enum) and not all(isinstance(member.value, SCALARS) for member in annotation):
            return _read_by_name(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not args:
        return annotation
    if origin is Annotated:
        inner = adapt_annotation(args[0])
        return annotation if inner is args[0] else Annotated[inner, *annotation.__metadata__]
    inside = tuple(adapt_annotation(arg) if not isinstance(arg, list) else arg for arg in args)
    if all(new is old for new, old in zip(inside, args, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[inside]  # noqa: UP007 - built at run time
    return annotation.copy_with(inside) if hasattr(annotation, "copy_with") else origin[inside]


_typed_dicts: dict[type, Any] = {}


def _convert_typed_dict(type_: Any) -> Any:
    """Return the same TypedDict made by typing_extensions; a reference to itself becomes one to the new class."""
    if getattr(type_, "__module__", "") == "typing_extensions" or type(type_).__module__ == "typing_extensions":
        return type_
    if type_ not in _typed_dicts:
        _typed_dicts[type_] = type_  # while it is being made, a reference to itself stays as it is
        hints: Mapping[str, Any] = get_type_hints(type_, include_extras=True)
        fields = {
            name: (Required if name in type_.__required_keys__ else NotRequired)[
                adapt_annotation(strip_qualifiers(hint))
            ]
            for name, hint in hints.items()
        }
        new = TypedDict(type_.__name__, fields)  # type: ignore[misc]
        new.__doc__, new.__module__, new.__qualname__ = type_.__doc__, type_.__module__, type_.__qualname__
        _typed_dicts[type_] = new
    return _typed_dicts[type_]


def _read_by_name(type_: type[Enum]) -> Any:
    members = type_.__members__

    def read(value: Any) -> Any:
        return members.get(value, value) if isinstance(value, str) else value

    return Annotated[type_, BeforeValidator(read), WithJsonSchema({"type": "string", "enum": list(members)})]
