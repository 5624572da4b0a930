"""Texts and enum values of types: those in the type's own source, and those that a developer adds with `annotate`.

The values of an enum stand as JSON in the schema, and the validation accepts them.  A docstring is parsed into the
description of the whole, and that of each parameter or attribute.
"""

import ast
import dataclasses
import inspect
import linecache
import re
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cache
from itertools import pairwise
from textwrap import dedent, indent
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from annotated_types import BaseMetadata, GroupedMetadata
from docstring_parser import DocstringStyle, ParseError, parse
from pydantic import BaseModel, Discriminator, Strict
from pydantic.fields import FieldInfo
from typing_extensions import Doc, get_type_hints, is_typeddict

from ..core.context import is_injected, is_injected_inside
from ..core.errors import DefinitionError, suggest
from ..core.threads import parse_python
from ..core.values import frozen
from .walk import JsonSchema

OTHER_STYLES = (DocstringStyle.NUMPYDOC, DocstringStyle.REST, DocstringStyle.EPYDOC)
SECTION_TITLES = "Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes"
SECTION = re.compile(rf"(?P<title>{SECTION_TITLES}|Returns?|Yields?|Raises|Except(?:ions)?)[ \t]*:[ \t]*")
ENTRY = re.compile(
    r"(?P<bullet>[-+*][ \t]+)?(?P<names>[`*]*\w+[`*]*(?:[ \t]*,[ \t]*[`*]*\w+[`*]*)*)[ \t]*(?:\([^)]*\)+)?"
    r"[ \t]*(?:(?P<colon>:(?!:))|(?<=[ \t])--?[ \t])(?P<text>.*)"
)
"""`name (type): text` or `name -- text`, also as an item of a list."""
RETURN_TYPE = re.compile(r"^[A-Za-z_][\w.]*(?:\[[^\]]*\]+)?: (?=\S)")
"""A type before the text: `dict[str, int]: The count of each word.`"""
UNDERLINED = re.compile(r"(?m)^[ \t]*-{3,}[ \t]*$")
ATTRIBUTE = re.compile(r"""(?m)^[ \t]+\w+[ \t]*[:=][^\n]*\n[ \t]+[rR]?["']""")


@frozen
class Documentation:
    """A parsed docstring: the text about the whole, about each parameter by its name, and about the return value.

    `unknown` are the names that are described as parameters and that no parameter has.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""
    unknown: tuple[str, ...] = ()


def read_docstring(text: str | None, names: Collection[str]) -> Documentation:
    """Parse a docstring in Google, NumPy, Sphinx or Epydoc style, whichever documents most of `names`."""
    if not text or not text.strip():
        return Documentation()
    return max(_parse_styles(text, names), key=lambda reading: len(reading.parameters))


def read_returns(text: str | None) -> str:
    """Return what a docstring documents about the return value, in any of these styles; "" without it."""
    readings = _parse_styles(text, ()) if text and text.strip() else []
    return next((reading.returns for reading in readings if reading.returns), "")


def _parse_styles(text: str, names: Collection[str]) -> list[Documentation]:
    readings = [_parse_google(text, names)]
    if UNDERLINED.search(text) or re.search(r"(?m)^[ \t]*[:@]\w+", text):
        readings += [reading for style in OTHER_STYLES if (reading := _parse_style(text, style, names)) is not None]
    return readings


def _parse_style(text: str, style: DocstringStyle, names: Collection[str]) -> Documentation | None:
    try:
        parsed = parse(text, style=style)
    except ParseError:
        return None
    described = {
        name: _join_lines(entry.description)
        for entry in parsed.params
        if entry.description
        for name in re.findall(r"\w+", entry.arg_name)
        if name in names or entry.args[0] != "attribute"
    }
    parameters = {name: text for name, text in described.items() if name in names}
    returns = _join_lines(parsed.returns.description or "") if parsed.returns else ""
    unknown = tuple(name for name in described if name not in names)
    return Documentation((parsed.description or "").strip(), parameters, returns, unknown)


def _parse_google(text: str, names: Collection[str]) -> Documentation:
    """Parse Google style; docstring-parser skips a whole section for one line without a colon, this does not."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    unknown: list[str] = []
    returns = ""
    lines = text.expandtabs().splitlines()
    while lines:
        line = lines.pop(0)
        section = SECTION.fullmatch(line.strip())
        at_start = not kept and not parameters and bool(lines) and not _count_indent(lines[0])
        block = _take_block(lines, -1 if at_start else _count_indent(line)) if section else []
        if section is None or not block:
            kept.append(line)
        elif section["title"] in SECTION_TITLES.split("|"):
            found, others = _read_entries(block, names)
            if names and not found and not others:  # its form is another one, so it stays readable
                kept += [line, *indent("\n".join(block), "    ").splitlines()]
            parameters |= found
            unknown += others if section["title"] != "Attributes" else []
        elif section["title"] in ("Return", "Returns"):
            returns = RETURN_TYPE.sub("", _join_lines(" ".join(block)))
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Documentation(description, parameters, returns, tuple(unknown))


def _take_block(lines: list[str], indent: int) -> list[str]:
    """Remove from `lines` those that belong to a section whose title has the indentation `indent`, and return them.

    -1 stands for a title that opens the docstring, whose lines are not indented: they end at the first empty one.
    """
    block: list[str] = []
    while lines and (_count_indent(lines[0]) > indent if lines[0].strip() else indent >= 0):
        block.append(lines.pop(0))
    return dedent("\n".join(block)).splitlines() if any(line.strip() for line in block) else []


def _read_entries(block: list[str], names: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Read the lines of entries with their continuation lines; other lines belong to the entry above.

    Returns:
        The texts by the names in `names`, and the other names.
    """
    texts: dict[str, list[str]] = {}
    unknown: list[str] = []
    current: list[str] = []
    base = min(_count_indent(line) for line in block if line.strip())
    for line in block:
        entry = ENTRY.fullmatch(line.strip()) if _count_indent(line) == base else None
        found = re.findall(r"\w+", entry["names"]) if entry else []
        if entry and any(name in names for name in found):
            current = [entry["text"]]
            texts |= {name: current for name in found if name in names}
        elif entry and entry["colon"] and not entry["bullet"] and len(found) == 1 and " " not in entry["names"]:
            current = []
            unknown += found
        else:
            current.append(line)
    return {name: joined for name, parts in texts.items() if (joined := _join_lines(" ".join(parts)))}, unknown


def read_attribute_texts(cls: type) -> dict[str, str]:
    """Return the strings under a class's attributes in its source, if the source is available."""
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    return dict(_read_file(path).get(cls.__qualname__, {})) if path else {}


@cache
def _read_file(path: str) -> dict[str, dict[str, str]]:
    """Return the attribute texts of all classes of a file by qualified name; parse only a file with candidates."""
    source = "".join(linecache.getlines(path))
    if not ATTRIBUTE.search(source):
        return {}
    found: dict[str, dict[str, str]] = {}
    try:
        _collect(parse_python(source), "", found)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return found


def _collect(node: ast.AST, prefix: str, found: dict[str, dict[str, str]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            found[name] = _read_attributes(child.body)
            _collect(child, f"{name}.", found)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(child, f"{prefix}{child.name}.<locals>.", found)


def _read_attributes(body: list[ast.stmt]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for statement, following in pairwise(body):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = following.value if isinstance(following, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            texts[target.id] = _join_lines(inspect.cleandoc(value.value))
    return texts


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_lines(text: str) -> str:
    return " ".join(text.split())


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


@frozen
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


def annotated_fields(type_: type) -> set[str]:
    """Return the names of the fields for which `annotate` has a text, which precedes the type's own schema."""
    given = _annotated.get(type_)
    return {name for name, text in given.fields.items() if text.keys() - {"required"}} if given else set()


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
    return strip_qualifiers(get_args(hint)[0]) if _qualifier_of(hint) else hint


def is_required_key(keys: Any, name: str, hint: Any) -> bool:
    """Return whether the key `name` of the TypedDict `keys` is required.

    Python reads no `Required` or `NotRequired` in annotations that are strings, as under `from __future__ import
    annotations`, so the evaluated hint decides before `__required_keys__`.
    """
    qualifier = _qualifier_of(hint)
    if qualifier == "ReadOnly":
        return is_required_key(keys, name, get_args(hint)[0])
    return qualifier == "Required" if qualifier else name in keys.__required_keys__


def _qualifier_of(hint: Any) -> str:
    name = getattr(get_origin(hint), "_name", None) or getattr(get_origin(hint), "__name__", "")
    return name if name in ("Required", "NotRequired", "ReadOnly") else ""


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
