"""Rules about parameters at any depth: descriptions, names, and types that are too wide."""

from collections.abc import Iterator
from typing import Any

from ...schemas import JsonSchema
from ...schemas.formats.anthropic import KEY as ANTHROPIC_KEY
from ...schemas.formats.common_subset import types_of
from ...schemas.formats.gemini import KEY as GEMINI_KEY
from ...schemas.patterns import is_checkable
from ..json_tool import JsonTool
from .finding import LintFinding, SchemaPlace, Severity, iter_places, resolve_reference
from .texts import find_listed_values, repeats, split_words

PROPERTY_NAMES = {"Anthropic": ANTHROPIC_KEY, "Gemini": GEMINI_KEY}
TYPED = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"})
MAX_PARAMETER_DESCRIPTION_CHARS = 1024
UNIONS = ("anyOf", "oneOf", "allOf")


def check_parameters(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield the problems of the parameters of `tool` and of what is inside them."""
    root = tool.schema("json")
    for name, lost in getattr(tool.arguments, "omitted", {}).items():
        what = "models see the rest of it" if name in root["properties"] else "models do not see it"
        message = f"the type {lost} has no JSON Schema, so {what}: remove it, or mark the parameter as Injected"
        yield LintFinding(tool.name, name, "omitted-type", message, "warning")
    for place in iter_places(root):
        for name, inner in place.schema.get("properties", {}).items():
            path = f"{place.path}.{name}".lstrip(".")
            if refusing := [provider for provider, key in PROPERTY_NAMES.items() if not key.fullmatch(name)]:
                message = f"{' and '.join(refusing)} refuse this name: use ASCII letters, digits and _"
                yield LintFinding(tool.name, path, "parameter-name", message, "warning")
            text = _find_text(inner, root.get("$defs", {})) if isinstance(inner, dict) else ""
            if trouble := _check_text(text, name):
                yield LintFinding(tool.name, path, *trouble)
        if place.path and (message := _check_type(place)):
            yield LintFinding(tool.name, place.path, "untyped", message, "warning")
        if (pattern := place.schema.get("pattern")) and not is_checkable(pattern):
            message = f"the pattern {pattern!r:.60} has look-around or is too large, so it is not checked"
            yield LintFinding(tool.name, place.path, "unchecked-pattern", message, "hint")
        values = find_listed_values(place.schema.get("description", "")) if _is_free_string(place.schema) else []
        if len(values) > 1:
            message = f"the description lists the values, the type does not: Literal[{', '.join(map(repr, values))}]"
            yield LintFinding(tool.name, place.path, "enum-in-text", message, "warning")


def _check_text(text: str, name: str) -> tuple[str, str, Severity] | None:
    """Return rule, message and severity of a problem with the description of the parameter `name`."""
    if not text.strip():
        return "parameter-description", "has no description: say what it is, in which unit or form", "warning"
    if repeats(text, name):
        return "parameter-description", f"the description {text!r} only repeats the name", "warning"
    if len(split_words(text)) == 1:
        return "parameter-description", f"the description {text!r} is too short", "hint"
    if len(text) > MAX_PARAMETER_DESCRIPTION_CHARS:
        return "long-description", f"the description has {len(text)} characters: every request pays for them", "hint"
    return None


def _find_text(schema: JsonSchema, definitions: JsonSchema) -> str:
    """Return the description of a schema, of its target, or of its first alternative that has one."""
    if "description" in schema:
        return str(schema["description"])
    if "$ref" in schema:
        return str(resolve_reference(schema, definitions).get("description", ""))
    branches = [branch for key in UNIONS for branch in schema.get(key, ()) if isinstance(branch, dict)]
    return next(filter(None, (_find_text(branch, definitions) for branch in branches)), "")


def _check_type(place: SchemaPlace) -> str:
    """Return what is missing in the type at `place`; "" if nothing is."""
    schema = place.schema
    values = schema.get("additionalProperties", True)
    if not TYPED & set(schema):
        return "takes anything: give it a type"
    if schema.get("type") == "array" and not {"items", "prefixItems"} & set(schema):
        return "a list of anything: give its items a type"
    if (
        schema.get("type") == "object"
        and not {"patternProperties", *UNIONS} & set(schema)
        and not schema.get("properties")
        and values is True
    ):
        return "an object of any shape: give it a dataclass, a TypedDict or dict[str, T]"
    return ""


def _is_free_string(schema: JsonSchema) -> bool:
    """Return whether the schema takes any string, any string or null, or a list of any strings."""
    branches = [schema, *schema.get("anyOf", ())]
    branches += [inner for branch in branches if isinstance(inner := branch.get("items"), dict)]
    strings = [branch for branch in branches if "string" in types_of(branch)]
    return bool(strings) and not any({"enum", "const", "pattern", "format"} & set(branch) for branch in branches)
