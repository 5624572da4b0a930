"""Texts and enum values of types: those in the type's own source, and those that a developer adds with `annotate`.

The values of an enum stand as JSON in the schema, and the validation accepts them.
"""

import dataclasses
import inspect
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from annotated_types import BaseMetadata, GroupedMetadata
from pydantic import BaseModel, Discriminator, Strict
from pydantic.fields import FieldInfo
from typing_extensions import Doc, get_type_hints, is_typeddict

from ..core.context import is_injected, is_injected_inside
from ..core.errors import DefinitionError, suggest
from .docstrings import read_attribute_texts, read_docstring
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
    origin = get_origin(annotation)
    inside = get_args(annotation)
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
    keywords = {key: value for key, value in keywords.items() if key != "required"}
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


def mark_required(schema: JsonSchema, fields: Mapping[str, JsonSchema], place: str) -> None:
    """Add the properties with `required` to those that an object schema requires, in place.

    Args:
        schema: The schema of the object.
        fields: The keywords of the properties, by their names in the schema.
        place: What the schema is of, for errors.

    Raises:
        DefinitionError: `required` is False for a property without a default.
    """
    needed = list(schema.get("required", ()))
    for name, keywords in fields.items():
        if keywords.get("required") is False and name in needed:
            raise DefinitionError(f"{place}: {name!r} has no default, so it is required. Give it a default.")
        if keywords.get("required") and name not in needed and name in schema.get("properties", {}):
            needed.append(name)
    if needed:
        schema["required"] = [name for name in schema["properties"] if name in needed]


def _to_scalar(value: Any) -> Any:
    if not isinstance(value, Enum):
        return value
    return value.value if isinstance(value.value, SCALARS) else value.name


FieldText: TypeAlias = str | Mapping[str, Any]
"""A description, or a mapping with `description`, `enum` (a list of the allowed values) and `required`."""
FIELD_KEYS = ("description", "enum", "required")
Duplicates: TypeAlias = Literal["dedupe", "error"]


@dataclass(frozen=True, slots=True)
class TypeTexts:
    """The texts of a type, and the schema keywords of its fields by their Python names.

    `injected` is the name of a field with an injected type, which is an error; "" without one.  `name` is that of
    `annotate`.
    """

    description: str = ""
    fields: Mapping[str, JsonSchema] = field(default_factory=dict)
    injected: str = ""
    name: str = ""


_annotated: "WeakKeyDictionary[type, TypeTexts]" = WeakKeyDictionary()
_own_texts: "WeakKeyDictionary[type, TypeTexts]" = WeakKeyDictionary()


def check_duplicates(what: str, duplicates: Any) -> None:
    """Raise `DefinitionError` unless `duplicates` is "dedupe" or "error"."""
    if duplicates not in get_args(Duplicates):
        raise DefinitionError(f'{what}: duplicates must be "dedupe" or "error", got {duplicates!r:.80}')


def annotate(
    type_: type,
    *,
    name: str = "",
    description: str = "",
    fields: Mapping[str, FieldText] | None = None,
    required: Collection[str] = (),
    duplicates: Duplicates = "dedupe",
) -> None:
    """Describe a type from another package: its description, and those of its fields (or of an enum's members).

    The texts replace those of the type itself, in every schema built afterwards.

    Args:
        type_: A class or an enum.
        name: The name of the type where it is a tool or a response format; default: the name of the class.
        description: The description of the type.
        fields: A description by field name, or a mapping with `description`, `enum` and `required`.
        required: The fields with a default that a model must give all the same.
        duplicates: Whether repeated enum values are dropped ("dedupe") or refused ("error").

    Raises:
        DefinitionError: The type has no such field.
    """
    check_duplicates("annotate", duplicates)
    if not inspect.isclass(type_):
        raise DefinitionError(
            f"annotate: {getattr(type_, '__name__', type_)!s} is not a class. "
            "Describe a function's parameters with JsonTool(function, parameters={name: text})."
        )
    names = list_field_names(type_)
    texts: dict[str, JsonSchema] = {}
    for field_name, text in {**dict.fromkeys(required, ""), **(fields or {})}.items():
        if field_name not in names:
            raise unknown_name_error(f"annotate({type_.__name__})", "field", field_name, names)
        texts[field_name] = read_field_text(f"{type_.__name__}.{field_name}", text, duplicates) if text else {}
        if field_name in required:
            texts[field_name]["required"] = True
    _annotated[type_] = TypeTexts(description, texts, name=name)


def read_field_text(place: str, text: FieldText, duplicates: Duplicates = "dedupe") -> JsonSchema:
    """Return the schema keywords for `text`; `place` names the field in errors."""
    if isinstance(text, str):
        return {"description": text}
    if unknown := set(text) - {*FIELD_KEYS}:
        raise unknown_name_error(place, "key", unknown.pop(), FIELD_KEYS)
    keywords = dict(text)
    if not isinstance(keywords.get("required", True), bool):
        raise DefinitionError(f"{place}: required must be True or False, got {keywords['required']!r:.80}")
    if "enum" in keywords:
        keywords["enum"] = read_enum(place, [*keywords["enum"]], refuse_duplicates=duplicates == "error")
    return keywords


def unknown_name_error(place: str, kind: str, name: str, names: Sequence[str]) -> DefinitionError:
    """Return the error for a name that does not exist, with the nearest that does."""
    hint = suggest(name, names, then=f"Known: {', '.join(names) or 'none'}.")
    return DefinitionError(f"{place}: no {kind} {name!r}. {hint}")


def list_field_names(type_: type) -> list[str]:
    """Return the names of a class's fields, or of an enum's members."""
    if issubclass(type_, Enum):
        return list(type_.__members__)
    if issubclass(type_, BaseModel):
        return list(type_.model_fields)
    if dataclasses.is_dataclass(type_):
        return [entry.name for entry in dataclasses.fields(type_)]
    return list(getattr(type_, "__annotations__", {}))


def texts_of(type_: type) -> TypeTexts:
    """Return the texts of `type_`: those of `annotate` first, then its own.

    A field's text comes from `annotate`, from `Annotated[T, "text"]` or `Doc`, from the string under the attribute, or
    from the class docstring, in this order.  A pydantic `Field` is in the schema already and precedes the last three.
    """
    own = _read_own_texts(type_)
    given = _annotated.get(type_)
    if given is None:
        return own
    fields = {name: {**own.fields.get(name, {}), **text} for name, text in given.fields.items()}
    return TypeTexts(given.description or own.description, {**own.fields, **fields}, name=given.name)


def is_annotated(type_: type, name: str) -> bool:
    """Return whether `annotate` has a text for the field, which precedes the type's own schema."""
    given = _annotated.get(type_)
    return given is not None and bool(given.fields.get(name, {}).keys() - {"required"})


def _read_own_texts(type_: type) -> TypeTexts:
    """Read the texts of a type once; those of a class with an undefined name are read again."""
    if (known := _own_texts.get(type_)) is not None:
        return known
    names = list_field_names(type_)
    documentation = read_docstring(_read_own_docstring(type_), names)
    hints = _read_hints(type_)
    annotated = {name: text for name, hint in (hints or {}).items() if (text := read_metadata_text(hint))}
    texts = {**documentation.parameters, **read_attribute_texts(type_), **annotated}
    found = TypeTexts(
        documentation.description,
        {name: {"description": text} for name, text in texts.items() if name in names},
        next((name for name, hint in (hints or {}).items() if is_injected(hint) or is_injected_inside(hint)), ""),
    )
    if hints is not None:
        _own_texts[type_] = found
    return found


def _read_own_docstring(type_: type) -> str | None:
    """Return the docstring written for this class, not one that Python or a base class provides."""
    text = type_.__dict__.get("__doc__")
    if not isinstance(text, str) or (is_typeddict(type_) and text.startswith("dict() -> new empty")):
        return None
    generated = text.startswith(f"{type_.__name__}(") and text.endswith(")")
    return None if generated else inspect.cleandoc(text)


def _read_hints(type_: type) -> dict[str, Any] | None:
    try:
        return get_type_hints(type_, include_extras=True)
    except Exception:  # a name that only pydantic can resolve: the schema exists, texts are optional
        return None


def refuse_injected_fields(type_: type) -> None:
    """Raise `DefinitionError` if a field of `type_` has an injected type: the model would fill it."""
    if name := _read_own_texts(type_).injected:
        raise DefinitionError(
            f"{type_.__name__}.{name}: a field cannot be injected, a model would fill it. "
            "Make it a parameter of the function."
        )


def strip_qualifiers(hint: Any) -> Any:
    """Return the type inside `Required`, `NotRequired` and `ReadOnly`."""
    name = getattr(get_origin(hint), "_name", None) or getattr(get_origin(hint), "__name__", "")
    return strip_qualifiers(get_args(hint)[0]) if name in ("Required", "NotRequired", "ReadOnly") else hint


def read_metadata_text(annotation: Any) -> str:
    """Return the text in `Annotated[T, "text"]` or `Annotated[T, Doc("text")]`, the last of several.

    The text of other metadata is its entry or its attribute `description`: `Annotated[T, {"description": "text"}]`.
    """
    texts = map(_text_of, getattr(strip_qualifiers(annotation), "__metadata__", ()))
    return next((text for text in reversed([*texts]) if text), "")


def _text_of(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Mapping):
        text = entry.get("description")
    else:
        text = entry.documentation if isinstance(entry, Doc) else getattr(entry, "description", None)
    return text if isinstance(text, str) else ""


def list_unused_metadata(annotation: Any) -> list[Any]:
    """Return the metadata of an annotation that neither pydantic nor agentkit reads."""
    found = getattr(strip_qualifiers(annotation), "__metadata__", ())
    return [
        entry
        for entry in found
        if not _text_of(entry)
        and not isinstance(entry, READ_METADATA)
        and not any(hasattr(entry, name) for name in _PYDANTIC_METHODS)
    ]


READ_METADATA = (str, Doc, FieldInfo, BaseMetadata, GroupedMetadata, Discriminator, Strict)
_PYDANTIC_METHODS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
