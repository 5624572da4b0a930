"""pydantic's JSON Schema generator, with the texts of types added and without keywords that do not help a model.

Annotations that pydantic cannot use as they are become equivalent ones.
"""

import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date
from enum import Enum, Flag
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import AliasChoices, AliasPath, BeforeValidator, ValidationError, WithJsonSchema, json_schema
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, PydanticSerializationError, core_schema
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from .annotations import (
    SCALARS,
    add_keywords,
    annotated_fields,
    is_required_key,
    mark_required,
    refuse_injected_fields,
    strip_qualifiers,
    texts_of,
)
from .walk import JsonSchema, Nodes, expand_schemas, iter_child_schemas, json_type, rebuild

MEMBERS = "x-members"
"""The mark of a schema that offers the names of an enum: what pydantic reads in their place.  See `take_names`."""
CLOCK = "x-clock"
"""The mark of a schema of dates, times and durations: pydantic would read a number, also one in a text, as seconds."""


def _name_key(value: Any) -> str:
    """Return the text of a scalar value as a key of `MEMBERS`, and of an object: JSON has no other keys."""
    return value if isinstance(value, str) else json.dumps(value)


class _Methods(dict[str, Any]):
    def __init__(self, generator: GenerateJsonSchema) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, kind: str) -> Any:
        method = self[kind] = getattr(self._generator, f"{kind.replace('-', '_')}_schema")
        return method


class PlainJsonSchema(GenerateJsonSchema):
    """Plain JSON Schema (draft 2020-12) without titles and without defaults that JSON cannot represent."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own attribute
    _is_marked = False
    _own_validators = 0
    """The validators of the developer around the schema at hand, which read the value first."""

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        result = super().generate(schema, mode)
        return {**result, MEMBERS: {}} if self._is_marked else result

    def build_schema_type_to_method(self) -> dict[Any, Any]:
        """Return pydantic's methods by types of schemas, each when it is needed: there are 60, and a tool has few."""
        return _Methods(self)

    def _build_definitions_remapping(self) -> Any:
        """Return the short names of the definitions; pydantic compares all of these, in case two share a name.

        A pydantic that keeps the names elsewhere finds the short ones itself.
        """
        every = getattr(self, "_prioritized_defsref_choices", None)
        remap = getattr(json_schema, "_DefinitionsRemapping", None)
        choices = {key: every[key] for key in self.definitions} if every and remap else {}
        names = [name for own in choices.values() for name in own]
        if remap is None or not names or len(set(names)) < len(names):
            return super()._build_definitions_remapping()
        shortest = {key: own[0] for key, own in choices.items()}
        refer = self.ref_template.format
        return remap(shortest, {refer(model=key): refer(model=name) for key, name in shortest.items()})

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's name
        return False

    def encode_default(self, dft: Any) -> Any:
        if dft is None or type(dft) in (str, int, bool):  # pydantic would build a serializer for each default
            return dft
        if type(dft) in (list, dict) and not dft:
            return type(dft)()
        value = super().encode_default(dft)
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PydanticSerializationError(str(error)) from error
        if '"$ref"' in text:
            raise PydanticSerializationError("pydantic would look for what it refers to")
        return value

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Show the default as the name of the enum's member where the names are the values of the schema."""
        result = super().default_schema(schema)
        default = schema.get("default")
        if not isinstance(default, Enum):
            return result
        places = (result, *result.get("anyOf", ()))
        options = [value for place in places for value in place.get("enum", ())]
        is_named = any("$ref" in place for place in places) and self._is_named(type(default))  # may not be there yet
        if is_named or (default.value not in options and default.name in options):
            result["default"] = default.name
        return result

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return self._mark_clock(super().date_schema(schema))

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return self._mark_clock(super().datetime_schema(schema))

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return self._mark_clock(super().time_schema(schema))

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return self._mark_clock(super().timedelta_schema(schema))

    def _mark_clock(self, result: JsonSchemaValue) -> JsonSchemaValue:
        if self.mode != "validation" or self._own_validators or result.get("type") != "string":
            return result
        self._is_marked = True
        return {**result, CLOCK: True}

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        return self._generate_within(super().function_before_schema, schema)

    def function_wrap_schema(self, schema: core_schema.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        return self._generate_within(super().function_wrap_schema, schema)

    def _generate_within(self, generate: Callable[[Any], JsonSchemaValue], schema: Any) -> JsonSchemaValue:
        self._own_validators += 1
        try:
            return generate(schema)
        finally:
            self._own_validators -= 1

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._add_fields(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._add_fields(super().dataclass_schema(schema), schema["cls"])

    def _add_fields(self, result: JsonSchemaValue, cls: type) -> JsonSchemaValue:
        result = _add_texts(result, cls)
        return _nest_paths(result, cls) if self.mode == "validation" else result

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        """Refuse `type[T]` as pydantic refuses a callable: no JSON value passes its validation."""
        return self.handle_invalid_for_json_schema(schema, "core_schema.IsSubclassSchema")

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        result = super().typed_dict_schema(schema)
        cls = schema.get("cls")
        return _add_texts(result, cls) if cls else result

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """Show members of an enum as the enum does; pydantic would take no JSON in the place of most of them."""
        result = super().literal_schema(schema)
        members = [one for one in schema["expected"] if isinstance(one, Enum) and not isinstance(one, str | int)]
        if not members or self.mode != "validation":
            return result
        self._is_marked = True
        shown = [one.name if self._is_named(type(one)) else one.value for one in members]
        options = [*shown, *(one for one in schema["expected"] if one not in members)]
        is_text = all(isinstance(option, str) for option in options)
        read = dict(zip(map(_name_key, shown), members, strict=True))
        return {"enum": options, **({"type": "string"} if is_text else {}), MEMBERS: read}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Return pydantic's form, with texts for keys of an enum or a Literal of numbers: JSON has no other keys."""
        result = super().dict_schema(schema)
        keys = schema.get("keys_schema", {"type": "any"})
        if keys["type"] not in ("enum", "literal", "definition-ref"):
            return result
        place: Any = self.generate_inner(keys)
        place = dict((self.get_schema_from_definitions(place["$ref"]) if "$ref" in place else place) or {})
        options = place.get("enum") or [place.pop("const", "")]
        if all(isinstance(option, str) for option in options):
            return result
        values = {_name_key(option): option for option in options} | place.get(MEMBERS, {})
        result["propertyNames"] = {**place, "type": "string", "enum": list(values)}
        if self.mode == "validation":
            self._is_marked = True
            result["propertyNames"][MEMBERS] = values
        return result

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """Return pydantic's array form, with the field's name in the description of each place."""
        return _add_places(super().named_tuple_schema(schema), schema["cls"])

    def call_schema(self, schema: core_schema.CallSchema) -> JsonSchemaValue:
        """Return the form of a NamedTuple, which is a call before pydantic 2.14."""
        result = super().call_schema(schema)
        return _add_places(result, schema["function"]) if hasattr(schema["function"], "_fields") else result

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Describe an enum by its members' texts; pydantic would put the bare docstring in their place."""
        result = super().generate_inner(schema)
        if schema["type"] == "enum":
            place = self.get_schema_from_definitions(result["$ref"]) if "$ref" in result else result
            if place is not None:
                place.pop("description", None)
                place |= self._describe(schema["cls"])
        return result

    def _describe(self, cls: type[Enum]) -> JsonSchema:
        if not self._is_named(cls):
            return _describe_enum(cls)
        self._is_marked = True
        read = {name: one.value if isinstance(one.value, SCALARS) else one for name, one in cls.__members__.items()}
        return {**_show_names(cls), MEMBERS: read}

    def _is_named(self, cls: type[Enum]) -> bool:
        """Return whether the names stand for the members: what a model writes, not what a tool returns."""
        return self.mode == "validation" and _is_read_by_name(cls)


def _describe_enum(cls: type[Enum], *, by_name: bool = False) -> JsonSchema:
    """Return the description of an enum: its own, and the meanings of its values or names.  Counted values have one."""
    texts = texts_of(cls)
    is_counted = not by_name and _is_counted(cls)
    meanings = [
        f"{name if by_name else member.value}: {texts.fields.get(name, {}).get('description', name)}"
        for name, member in cls.__members__.items()
        if is_counted or "description" in texts.fields.get(name, {})
    ]
    description = ". ".join(filter(None, [texts.description.rstrip("."), "; ".join(meanings)]))
    return {"description": description} if description else {}


def _show_names(cls: type[Enum]) -> JsonSchema:
    return {"type": "string", "enum": list(cls.__members__), **_describe_enum(cls, by_name=True)}


def take_names(schema: JsonSchema) -> tuple[JsonSchema, Callable[[Any], Any] | None]:
    """Return a schema without its marks, and a function that replaces the names it offers; None without any.

    pydantic reads an enum inside of a class by its values, so the names are replaced before: by values, or by the
    members themselves where JSON has no such value, and as keys, which JSON would make texts.  The function also writes
    a date of eight digits with hyphens, and raises `pydantic.ValidationError` for a number in the place of a date, a
    time or a duration.
    """
    if MEMBERS not in schema:
        return schema, None
    shown = rebuild(schema, lambda place: {key: value for key, value in place.items() if key not in (MEMBERS, CLOCK)})
    return shown, partial(_read_names, schemas=[schema], root=schema)


def _read_names(value: Any, schemas: Iterable[Any], root: JsonSchema, path: tuple[int | str, ...] = ()) -> Any:
    nodes = expand_schemas(schemas, root)
    if isinstance(value, list):
        return [_read_inside(inner, nodes, (*path, place), root) for place, inner in enumerate(value)]
    if isinstance(value, dict):
        keys = expand_schemas((node.get("propertyNames") for node in nodes), root)
        names = {key: _read_scalar(key, keys, (*path, key, "[key]")) for key in value} if keys else {}
        return {names.get(key, key): _read_inside(inner, nodes, (*path, key), root) for key, inner in value.items()}
    return _read_scalar(value, nodes, path)


def _read_inside(value: Any, nodes: Nodes, path: tuple[int | str, ...], root: JsonSchema) -> Any:
    return _read_names(value, (inner for node in nodes for inner in iter_child_schemas(node, path[-1])), root, path)


def _read_scalar(value: Any, nodes: Nodes, path: tuple[int | str, ...]) -> Any:
    """Return the member that a text names, or the value itself, a date with hyphens."""
    members = _find_members(value, nodes) if type(value) in (str, int, float) else []
    return members[0] if members else _read_clock(value, nodes, path)


_NUMBER = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)")


def _read_clock(value: Any, nodes: Nodes, path: tuple[int | str, ...]) -> Any:
    """Return a date of eight digits with hyphens (ISO 8601), and any other value but a number as it is.

    Raises:
        ValidationError: The value is a number, or a text of one, and only a date, a time or a duration is allowed.
    """
    formats = [node["format"] for node in nodes if CLOCK in node]
    is_text = isinstance(value, str)
    if not formats or not (_NUMBER.fullmatch(value) if is_text else type(value) in (int, float)):
        return value
    others = [
        node.get("type", "") for node in nodes if node.keys().isdisjoint((CLOCK, "$ref", "anyOf", "oneOf", "allOf"))
    ]
    if "" in others or ("string" if is_text else "number") in others or (not is_text and "integer" in others):
        return value
    if is_text and {*formats} & {"date", "date-time"}:
        with suppress(ValueError):
            return date.fromisoformat(value).isoformat()
    wanted = " or ".join(dict.fromkeys(formats))
    problem = PydanticCustomError("clock", "Input should be a {wanted} in ISO 8601, not a number", {"wanted": wanted})
    raise ValidationError.from_exception_data("arguments", [{"type": problem, "loc": path, "input": value}])


def _find_members(value: str | int | float, nodes: Nodes) -> list[Any]:
    """Return what a value names, which may be None; nothing if another alternative takes it as it is."""
    key = _name_key(value)
    found = [node[MEMBERS][key] for node in nodes if key in node.get(MEMBERS, ())]
    others = [node for node in nodes if MEMBERS not in node]
    is_taken = any(value in node.get("enum", [value]) for node in others if node.get("type") == json_type(value))
    return [] if is_taken else found


def _add_texts(schema: JsonSchema, cls: type) -> JsonSchema:
    """Return `schema` with the descriptions of `cls` and of its fields."""
    if "properties" not in schema:
        return schema
    refuse_injected_fields(cls)
    texts = texts_of(cls)
    if texts.description:
        schema["description"] = texts.description
    elif schema.get("description") == inspect.cleandoc(cls.__doc__ or ""):  # nothing but sections about the fields
        del schema["description"]
    fields = getattr(cls, "__pydantic_fields__", {})
    aliases = {_key_of(field) or name: name for name, field in fields.items()}
    annotated = annotated_fields(cls)
    for key, place in schema["properties"].items():
        name = aliases.get(key, key)
        if name in annotated:
            add_keywords(place, texts.fields[name])
        elif "description" in texts.fields.get(name, {}):
            place.setdefault("description", texts.fields[name]["description"])
    named = {key: texts.fields.get(aliases.get(key, key), {}) for key in schema["properties"]}
    mark_required(schema, named, cls.__name__)
    return schema


def _key_of(field: FieldInfo) -> str:
    """Return the alias that pydantic's schema has as the key of a field; "" where it has the name."""
    alias = field.validation_alias
    keys = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((key for key in keys if isinstance(key, str)), "")


def _nest_paths(schema: JsonSchema, cls: type) -> JsonSchema:
    """Return the schema with each field of an `AliasPath` at its path; pydantic shows it under its name."""
    for name, field in getattr(cls, "__pydantic_fields__", {}).items():
        alias = field.validation_alias
        path = alias.choices[0] if isinstance(alias, AliasChoices) else alias
        if not isinstance(path, AliasPath) or _key_of(field) or name not in schema.get("properties", {}):
            continue
        needed = [key for key in schema.get("required", ()) if key != name]
        is_required = schema.pop("required", needed) != needed
        schema |= {"required": needed} if needed else {}
        place = schema["properties"].pop(name)
        node = schema
        for step in path.path:
            node = _enter(node, step, is_required)
        node |= place
    return schema


def _enter(node: JsonSchema, step: str | int, is_required: bool) -> JsonSchema:
    """Return the schema of a key or an index in a node, which is added; a new one where the node has a form already."""
    if not node.keys().isdisjoint(("$ref", "anyOf", "oneOf", "allOf")):
        return {}
    if isinstance(step, str):
        node.setdefault("type", "object")
        if is_required and step not in node.setdefault("required", []):
            node["required"].append(step)
        inside: JsonSchema = node.setdefault("properties", {}).setdefault(step, {})
        return inside
    node.setdefault("type", "array")
    if step < 0:  # counted from the end, which JSON Schema cannot express
        return {}
    places = node.setdefault("prefixItems", [])
    places += [{} for _ in range(step + 1 - len(places))]
    if is_required:
        node["minItems"] = max(node.get("minItems", 0), step + 1)
    return cast("JsonSchema", places[step])


def _add_places(schema: JsonSchema, cls: Any) -> JsonSchema:
    """Return the schema of a NamedTuple with the names and the texts of its fields."""
    texts = texts_of(cls)
    if texts.description:
        schema["description"] = texts.description
    for name, place in zip(cls._fields, schema.get("prefixItems", ()), strict=False):
        text = place.get("description") or texts.fields.get(name, {}).get("description")
        place["description"] = f"{name}: {text}" if text else name
    return schema


def adapt_annotation(annotation: Any) -> Any:
    """Return `annotation` with the types that need it replaced; the same object if nothing changes.

    - `typing.TypedDict` before Python 3.12, which pydantic refuses, becomes the one of typing_extensions.
    - An enum with members that are no JSON scalars, or that `auto()` counts, is read by its members' names, or by
      values as pydantic does.
    - An `Iterable` is a list: pydantic would validate its items inside the function, once.  So is a `Collection`.
    """
    if isinstance(annotation, type):
        if is_typeddict(annotation) and sys.version_info < (3, 12):
            return _convert_typed_dict(annotation)
        if issubclass(annotation, Enum) and _is_read_by_name(annotation):
            return _read_by_name(annotation)
    origin = get_origin(annotation)
    args = get_args(annotation)
    if (origin or annotation) in (Iterable, Collection):
        return list[adapt_annotation(args[0])] if args else list  # type: ignore[misc]
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


_typed_dicts: "WeakKeyDictionary[type, Any]" = WeakKeyDictionary()


def _convert_typed_dict(type_: Any) -> Any:
    """Return the same TypedDict made by typing_extensions; a reference to itself becomes one to the new class."""
    if getattr(type_, "__module__", "") == "typing_extensions" or type(type_).__module__ == "typing_extensions":
        return type_
    if type_ not in _typed_dicts:
        _typed_dicts[type_] = type_  # while it is being made, a reference to itself stays as it is
        hints: Mapping[str, Any] = get_type_hints(type_, include_extras=True)
        fields = {
            name: (Required if is_required_key(type_, name, hint) else NotRequired)[
                adapt_annotation(strip_qualifiers(hint))
            ]
            for name, hint in hints.items()
        }
        new = TypedDict(type_.__name__, fields)  # type: ignore[misc]
        new.__doc__ = type_.__doc__
        new.__module__ = type_.__module__
        new.__qualname__ = type_.__qualname__
        _typed_dicts[type_] = new
    return _typed_dicts[type_]


def _read_by_name(type_: type[Enum]) -> Any:
    members = type_.__members__

    values = [member.value for member in members.values()]
    expected = " or ".join(map(repr, members))

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value in values:
            return value
        if value not in members:
            raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
        return members[value]

    return Annotated[type_, BeforeValidator(read), WithJsonSchema(_show_names(type_))]


def _is_read_by_name(type_: type[Enum]) -> bool:
    return _is_counted(type_) or not all(isinstance(member.value, SCALARS) for member in type_)


def _is_counted(type_: type[Enum]) -> bool:
    """Return whether the values of an enum are the numbers that `auto()` gives: they mean nothing without the names."""
    values = [member.value for member in type_]
    is_plain = not issubclass(type_, int | str | Flag)
    return is_plain and values == [*range(1, len(values) + 1)] and not any(isinstance(value, bool) for value in values)
