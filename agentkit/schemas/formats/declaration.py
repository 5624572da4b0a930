"""What formats share: a tool in plain form, the tool as one provider takes it, and how one becomes the other.

A format rewrites a schema from the inside out, records what each part lost, and renames properties that a provider
refuses.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import field
from math import isfinite
from typing import Any, TypeAlias

from ...core.portable import copy_value, find_free_name
from ...core.values import frozen
from ..walk import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, JsonSchema, iter_schemas


@frozen(slots=False)
class Declaration:
    """A tool (or the form of an answer) in plain form; `parameters` is JSON Schema, draft 2020-12.

    `output` returns the JSON Schema of what the tool returns, or None; the dialects that state it call it.
    """

    name: str
    description: str
    parameters: JsonSchema
    output: Callable[[], JsonSchema | None] = lambda: None


@frozen(slots=False)
class Loss:
    """A keyword that a dialect cannot express.

    Attributes:
        path: The schema with the keyword, from the root, with references inlined: `parameters.properties.n.items`.
        keyword: The JSON Schema keyword, or "strict" for a tool that cannot be strict.
        value: The keyword's value.
        moved_to: Where it went: "description" (written into that schema's description), "replaced by ...",
            "dropped: ..." with the reason, or "renamed to ...".
    """

    path: str
    keyword: str
    value: Any
    moved_to: str


@frozen(slots=False)
class RenderedTool:
    """A tool in one dialect.

    Attributes:
        schema: The tool as the provider takes it; plain JSON, no two parts of it the same object.
        losses: What the dialect cannot express, and where it went.
        aliases: Replacements of property names that the provider refuses: alias -> real name, at any depth.  No alias
            is the real name of another property of the tool.
    """

    schema: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def restore_names(self, arguments: Any) -> Any:
        """Return `arguments` as the model wrote them, with the real names in place of the aliases."""
        if not self.aliases:
            return arguments
        if isinstance(arguments, dict):
            return {self.aliases.get(key, key): self.restore_names(value) for key, value in arguments.items()}
        return [self.restore_names(item) for item in arguments] if isinstance(arguments, list) else arguments


Format: TypeAlias = Callable[[Declaration], RenderedTool]
"""A pure function from a tool in plain form to the tool as one provider takes it."""


ROOT = "parameters"
VALIDATED = "dropped: validated by agentkit all the same"
LISTED = "dropped: the enum says it"
SILENT = "dropped: says nothing to a model"
CONDITIONS = frozenset({
    "not", "if", "then", "else", "contains", "propertyNames", "patternProperties", "dependentSchemas",
    "unevaluatedProperties", "unevaluatedItems", "prefixItems",
})  # fmt: skip
"""Keywords whose schemas narrow what stands beside them; described in words where a dialect has no such keywords."""


class Node:
    """One schema while it is rewritten in place; the schemas inside it are finished."""

    def __init__(self, original: JsonSchema, schema: JsonSchema, path: str, losses: list[Loss]) -> None:
        self.schema = schema
        self.path = path
        self.original = original
        self._losses = losses
        self._text: str = schema.get("description") or ""
        self._notes: list[str] = []

    def lose(self, keyword: str, moved_to: str) -> Any:
        """Remove the keyword, record where it went, and return its value."""
        held = self.schema.pop(keyword)
        self.report(keyword, copy_value(self.original.get(keyword, held)), moved_to)
        return held

    def report(self, keyword: str, value: Any, moved_to: str) -> None:
        """Record a loss."""
        self._losses.append(Loss(self.path, keyword, value, moved_to))

    def describe(self, keyword: str) -> None:
        """Move the keyword into the description, in words; drop it if that would be too long."""
        text = describe_keyword(keyword, self.original.get(keyword, self.schema[keyword]))
        if not text:
            self.lose(keyword, SILENT)
        elif len(text) > MAX_KEYWORD_CHARS:
            self.lose(keyword, VALIDATED)
        else:
            self.lose(keyword, "description")
            self.add_note(text)

    def add_note(self, text: str) -> None:
        """Add a few words to the description, once."""
        if text not in self._notes and text not in self._text:
            self._notes.append(text)
        if self._notes:
            notes = "; ".join(self._notes)
            self.schema["description"] = f"{self._text} ({notes})" if self._text else notes


def map_schemas(
    schema: JsonSchema, path: str, inner: Callable[[JsonSchema, str], Any], sealed: frozenset[str] = frozenset()
) -> JsonSchema:
    """Return a copy of `schema` with `inner(schema, path)` in place of every schema directly inside it.

    Values of the keywords `sealed` are copied unchanged.  The schemas `true` and `false` are written as `{}` and
    `{"not": {}}` where they stand for a value.
    """

    def entry(value: Any, at: str) -> Any:
        return inner(({} if value else {"not": {}}) if isinstance(value, bool) else value, at)

    copy: JsonSchema = {}
    for key, value in schema.items():
        if isinstance(value, str):
            copy[key] = value
        elif key in sealed:
            copy[key] = copy_value(value)
        elif key in SCHEMA_MAPS and isinstance(value, dict):
            copy[key] = {name: entry(item, f"{path}.{key}.{name}") for name, item in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            copy[key] = [entry(item, f"{path}.{key}.{place}") for place, item in enumerate(value)]
        elif key in SCHEMAS and isinstance(value, dict):
            copy[key] = inner(value, f"{path}.{key}")
        else:
            copy[key] = copy_value(value)
    return copy


def rewrite(
    schema: JsonSchema,
    losses: list[Loss],
    *changes: Callable[[Node], None],
    sealed: frozenset[str] = frozenset(),
    path: str = ROOT,
) -> JsonSchema:
    """Return a copy of `schema` in which every schema, innermost first, went through all `changes`.

    Losses are appended to `losses`.  Values of the keywords `sealed` are left unchanged.
    """

    def inner(part: JsonSchema, at: str) -> JsonSchema:
        return rewrite(part, losses, *changes, sealed=sealed, path=at)

    node = Node(schema, map_schemas(schema, path, inner, sealed), path, losses)
    for change in changes:
        change(node)
    return node.schema


def tidy(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return `schema` without titles and without values that JSON cannot represent; these are losses."""
    return schema if _is_tidy(schema) else rewrite(schema, losses, _tidy_node)


def _is_tidy(schema: JsonSchema) -> bool:
    """Return whether `tidy` has nothing to change in a schema."""
    if isinstance(schema.get("title"), str):
        return False
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            is_tidy = all(isinstance(inner, dict) and _is_tidy(inner) for inner in value.values())
        elif key in SCHEMA_LISTS and isinstance(value, list):
            is_tidy = all(isinstance(inner, dict) and _is_tidy(inner) for inner in value)
        else:
            is_tidy = _is_tidy(value) if key in SCHEMAS and isinstance(value, dict) else _is_json(value)
        if not is_tidy:
            return False
    return True


def _tidy_node(node: Node) -> None:
    if isinstance(node.schema.get("title"), str):
        del node.schema["title"]
    for keyword in [keyword for keyword, value in node.schema.items() if not _is_json(value)]:
        node.lose(keyword, "dropped: JSON has no such number")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return not isinstance(value, float) or isfinite(value)


MAX_KEYWORD_CHARS = 1000
"""How many characters of JSON a description may receive for one keyword."""


def as_json(value: Any) -> str:
    """Return `value` as JSON text without escapes of non-ASCII letters."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _join_values(values: Any) -> str:
    return ", ".join(map(as_json, values)) if isinstance(values, list) else as_json(values)


_WORDS: dict[str, Callable[[Any], str]] = {
    "minimum": lambda bound: f"at least {bound}",
    "maximum": lambda bound: f"at most {bound}",
    "exclusiveMinimum": lambda bound: f"more than {bound}",
    "exclusiveMaximum": lambda bound: f"less than {bound}",
    "multipleOf": lambda step: f"a multiple of {step}",
    "minLength": lambda count: f"at least {count} characters",
    "maxLength": lambda count: f"at most {count} characters",
    "minItems": lambda count: f"at least {count} items",
    "maxItems": lambda count: f"at most {count} items",
    "minProperties": lambda count: f"at least {count} keys",
    "maxProperties": lambda count: f"at most {count} keys",
    "uniqueItems": lambda unique: "each item once" if unique else "",
    "deprecated": lambda old: "deprecated" if old else "",
    "readOnly": lambda fixed: "read-only" if fixed else "",
    "writeOnly": lambda secret: "write-only" if secret else "",
    "pattern": lambda pattern: f"pattern: {pattern}",
    "format": lambda name: f"format: {name}",
    "contentEncoding": lambda name: f"encoding: {name}",
    "contentMediaType": lambda name: f"media type: {name}",
    "enum": lambda values: f"one of: {_join_values(values)}",
    "const": lambda value: f"always {as_json(value)}",
    "examples": lambda values: f"for example: {_join_values(values)}",
    "prefixItems": lambda places: f"in this order: {', '.join(map(summarize_schema, places))}",
    "additionalProperties": lambda values: f"any keys{_describe_values(values)}",
    "patternProperties": lambda keys: "; ".join(
        f"keys like {key}{_describe_values(value)}" for key, value in keys.items()
    ),
}


def describe_keyword(keyword: str, value: Any) -> str:
    """Return the keyword in words, "" if it has no meaning for a model: `minLength`, 3 -> "at least 3 characters"."""
    return _WORDS[keyword](value) if keyword in _WORDS else f"{keyword}: {as_json(value)}"


def summarize_schema(schema: Any) -> str:
    """Return a schema in a few words: "integer", "one of: 1, 2", or its JSON."""
    if schema is True or schema == {}:
        return "anything"
    if isinstance(schema, dict) and set(schema) == {"type"} and isinstance(schema["type"], str):
        return schema["type"]
    return as_json(schema)


def _describe_values(values: Any) -> str:
    return "" if values is True or values == {} else f", each value: {summarize_schema(values)}"


MAX_ALIAS_CHARS = 64


def alias_names(schema: JsonSchema, pattern: re.Pattern[str], losses: list[Loss]) -> tuple[JsonSchema, dict[str, str]]:
    """Return `schema` with property names that fit `pattern`, and the aliases: new name -> real name.

    The real name is added to the property's description.  A real name has the same alias throughout.
    """
    names = list(dict.fromkeys(name for node in iter_schemas(schema) for name in node.get("properties", ())))
    refused = [name for name in names if not pattern.fullmatch(name)]
    if not refused:
        return schema, {}
    taken = set(names)
    aliases: dict[str, str] = {}
    for name in refused:
        aliases[name] = _choose_alias(name, pattern, taken)
        taken.add(aliases[name])
    return _rename(schema, ROOT, aliases, losses), {alias: name for name, alias in aliases.items()}


def _choose_alias(name: str, pattern: re.Pattern[str], taken: set[str]) -> str:
    """Return ASCII letters as near to the name as possible, and not in `taken`."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", letters).strip("_")[: MAX_ALIAS_CHARS - 6]
    stem = stem if pattern.fullmatch(stem) else f"p_{stem}".rstrip("_")
    return find_free_name(stem, taken)


def _rename(schema: JsonSchema, path: str, aliases: dict[str, str], losses: list[Loss]) -> JsonSchema:
    copy = map_schemas(schema, path, lambda inner, at: _rename(inner, at, aliases, losses))
    for name in [name for name in copy.get("properties", ()) if name in aliases]:
        losses.append(Loss(path, "properties", name, f"renamed to {aliases[name]}"))
        inner = copy["properties"][name]
        text = inner.get("description")
        inner["description"] = f"{text} (named {as_json(name)})" if text else f"named {as_json(name)}"
    if "properties" in copy:
        copy["properties"] = {aliases.get(name, name): inner for name, inner in copy["properties"].items()}
    if "required" in copy:
        copy["required"] = [aliases.get(name, name) for name in copy["required"]]
    return copy
