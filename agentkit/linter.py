"""Reading tools as a model and its provider will: what is missing, unclear, too large or refused.

Sources of the providers' limits: facts/schema.md section 3 (OpenAI guide "Structured model outputs"; Anthropic docs,
structured outputs, limits per request; OpenAI API reference, `tools`: at most 128 functions).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any, Literal, TypeAlias

from .errors import DefinitionError
from .executor import ToolExecutor
from .formats.anthropic import KEY as ANTHROPIC_KEY
from .formats.gemini import KEY as GEMINI_KEY
from .formats.limits import excess
from .json_tool import JsonTool, as_tool
from .lint_texts import listed_values, repeats, words
from .registry import ToolRegistry
from .schemas import JsonSchema, children, name_of

Severity: TypeAlias = Literal["error", "warning", "hint"]
Tool: TypeAlias = JsonTool[..., Any]

LONGEST_DESCRIPTION = 1024
OPENAI_TOOLS = 128
ANTHROPIC_STRICT_TOOLS, ANTHROPIC_STRICT_OPTIONAL, ANTHROPIC_STRICT_UNIONS = 20, 24, 16
SAME, ALIKE = 0.9, 0.8
"""From which ratio (difflib) on two descriptions are as good as one, or easily mistaken."""
TYPED = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"})


@dataclass(frozen=True)
class Finding:
    """Something to mend in a tool.

    Attributes:
        tool: Its name; "" for what concerns all tools together.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        rule: The name of the rule: "parameter-description", "enum-in-text", ...
        message: What is wrong and what to write instead.
        severity: "error" (cannot be used), "warning" (a model will do worse) or "hint".
    """

    tool: str
    path: str
    rule: str
    message: str
    severity: Severity


@dataclass(frozen=True)
class _Place:
    path: str
    schema: JsonSchema


def lint(tools: Any) -> list[Finding]:
    """What is wrong with a registry, a tool or function, or an iterable of them; tool by tool, then all together.

    A function that cannot be a tool is a finding like others, never an exception.
    """
    found: dict[Finding, None] = {}
    usable: dict[str, Tool] = {}
    for entry in _entries(tools):
        try:
            tool = as_tool(entry)
            schema = tool.schema("json")
        except DefinitionError as error:
            found[Finding(_own_name(entry), "", "definition", str(error), "error")] = None
            continue
        if tool.name in usable:
            found[Finding(tool.name, "", "duplicate-name", "another tool has this name", "error")] = None
            continue
        usable[tool.name] = tool
        found |= dict.fromkeys(_tool_findings(tool, schema))
        for place in _places(schema, "", schema.get("$defs", {})):
            found |= dict.fromkeys(_place_findings(tool.name, place, schema.get("$defs", {})))
    found |= dict.fromkeys(_pair_findings(usable))
    return [*found, *_sum_findings(usable)]


def tokens(tool: Tool) -> int:
    """About how many tokens `tool` costs in every request: the characters of its compact OpenAI JSON / 4.

    An approximation, right to about a quarter for English text: the real number is the provider's tokenizer's.
    """
    text = json.dumps(tool.schema("openai"), ensure_ascii=False, separators=(",", ":"))
    return -(-len(text) // 4)


def _entries(tools: Any) -> Iterator[Any]:
    if isinstance(tools, ToolRegistry):
        yield from (tool for tool in tools.values() if tool is not tools.answer)
    elif isinstance(tools, Iterable) and not callable(tools) and not isinstance(tools, str | ToolExecutor):
        for entry in tools:
            yield from _entries(entry)
    else:
        yield tools


def _own_name(entry: Any) -> str:
    return name_of(entry) if callable(entry) else type(entry).__name__


def _tool_findings(tool: Tool, schema: JsonSchema) -> Iterator[Finding]:
    summary = tool.description.splitlines()[0]
    if repeats(tool.description, tool.name):
        text = f"the description {summary!r} only repeats the name: say what it does and returns, and when to use it"
        yield Finding(tool.name, "", "tool-description", text, "warning")
    elif len(words(tool.description)) < 3:
        text = f"the description {summary!r} is too short: say what it does and returns, and when to use it"
        yield Finding(tool.name, "", "tool-description", text, "warning")
    if (length := len(tool.description)) > LONGEST_DESCRIPTION:
        text = f"the description has {length} characters; OpenAI takes {LONGEST_DESCRIPTION}"
        yield Finding(tool.name, "", "long-description", text, "warning")
    if reason := excess(schema):
        yield Finding(tool.name, "", "too-large", f"too large for OpenAI's strict mode: {reason}", "warning")
    for loss in tool.losses("openai_strict"):
        if loss.keyword == "strict" and not reason:
            path = loss.path.removeprefix("parameters").replace(".properties", "").replace(".items", "[]").lstrip(".")
            text = f"OpenAI's strict mode cannot be used: {loss.moved_to.removeprefix('dropped: ')}"
            yield Finding(tool.name, path, "not-strict", text, "hint")


def _places(schema: JsonSchema, path: str, definitions: JsonSchema, within: frozenset[str] = frozenset()) -> Iterator[_Place]:
    """All schemas of a tool; a type that contains itself is gone through once."""
    yield _Place(path, schema)
    if isinstance(reference := schema.get("$ref"), str) and reference not in within:
        yield from _places(_target(reference, definitions), path, definitions, within | {reference})
    for place, inner in children(schema):
        if place[0] != "$defs":
            yield from _places(inner, f"{path}{_step(place)}".lstrip("."), definitions, within)


def _step(place: tuple[str | int, ...]) -> str:
    match place:
        case ("properties", name):
            return f".{name}"
        case ("prefixItems", index):
            return f"[{index}]"
        case ("items",) | ("contains",):
            return "[]"
        case ("additionalProperties",) | ("patternProperties", _):
            return ".*"
    return ""


def _target(reference: str, definitions: JsonSchema) -> JsonSchema:
    target: JsonSchema = definitions.get(reference.removeprefix("#/$defs/"), {})
    return target


def _place_findings(tool: str, place: _Place, definitions: JsonSchema) -> Iterator[Finding]:
    schema = place.schema
    for name, inner in schema.get("properties", {}).items():
        path = f"{place.path}.{name}".lstrip(".")
        if isinstance(inner, dict):
            yield from _text_findings(tool, path, name, _text(inner, definitions))
        if refusing := [who for who, key in _KEYS.items() if not key.fullmatch(name)]:
            text = f"{' and '.join(refusing)} refuse this name: there it is sent under another (letters, digits, _)"
            yield Finding(tool, path, "parameter-name", text, "warning")
    if place.path and not TYPED & set(schema):
        yield Finding(tool, place.path, "untyped", "takes anything: give it a type", "warning")
    if place.path and schema.get("type") == "object" and _is_shapeless(schema):
        text = "an object with any keys and values: give it a dataclass, a TypedDict or dict[str, T]"
        yield Finding(tool, place.path, "untyped", text, "warning")
    if schema.get("type") == "array" and not {"items", "prefixItems"} & set(schema):
        yield Finding(tool, place.path, "untyped", "a list of anything: give its items a type", "warning")
    if _is_free_string(schema) and len(values := listed_values(schema.get("description", ""))) > 1:
        text = f"the description lists the values, the type does not: Literal[{', '.join(map(repr, values))}]"
        yield Finding(tool, place.path, "enum-in-text", text, "warning")


_KEYS = {"Anthropic": ANTHROPIC_KEY, "Gemini": GEMINI_KEY}


def _text_findings(tool: str, path: str, name: str, text: str) -> Iterator[Finding]:
    rule = "parameter-description"
    if not text.strip():
        yield Finding(tool, path, rule, "has no description: say what it is, in which unit or form", "warning")
    elif repeats(text, name):
        yield Finding(tool, path, rule, f"the description {text!r} only repeats the name", "warning")
    elif len(words(text)) < 2:
        yield Finding(tool, path, rule, f"the description {text!r} is too short", "hint")
    elif len(text) > LONGEST_DESCRIPTION:
        message = f"the description has {len(text)} characters: every request pays for them"
        yield Finding(tool, path, "long-description", message, "hint")


def _text(schema: JsonSchema, definitions: JsonSchema) -> str:
    """The description of a schema, or of what it refers to, or of the first of its alternatives that has one."""
    if "description" in schema:
        return str(schema["description"])
    if isinstance(reference := schema.get("$ref"), str):
        return str(_target(reference, definitions).get("description", ""))
    branches = [branch for key in ("anyOf", "oneOf", "allOf") for branch in schema.get(key, ())]
    return next(filter(None, (_text(branch, definitions) for branch in branches)), "")


def _is_shapeless(schema: JsonSchema) -> bool:
    values = schema.get("additionalProperties", True)
    return not schema.get("properties") and (values is True or values == {}) and "patternProperties" not in schema


def _is_free_string(schema: JsonSchema) -> bool:
    """Whether it is a string (or null, or an array of strings) of any content."""
    branches = [schema, *schema.get("anyOf", ())]
    branches += [inner for branch in branches if isinstance(inner := branch.get("items"), dict)]
    strings = [branch for branch in branches if branch.get("type") == "string" or "string" in branch.get("type", ())]
    return bool(strings) and not any({"enum", "const", "pattern", "format"} & set(branch) for branch in branches)


def _pair_findings(tools: Mapping[str, Tool]) -> Iterator[Finding]:
    for first, second in combinations(tools.values(), 2):
        ratio = _likeness(first.description.lower(), second.description.lower())
        same_name = sorted(words(first.name)) == sorted(words(second.name))
        if same_name or ratio >= SAME:
            text = f"is nearly the same as {first.name}: merge them, or say in both when to use which"
            yield Finding(second.name, "", "similar-tools", text, "warning")
        elif ratio >= ALIKE and _likeness(first.name, second.name) >= ALIKE:
            text = f"is easily mistaken for {first.name}: say in both when to use which"
            yield Finding(second.name, "", "similar-tools", text, "hint")


def _likeness(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE else 0.0


def _sum_findings(tools: Mapping[str, Tool]) -> Iterator[Finding]:
    schemas = [tool.schema("json") for tool in tools.values()]
    properties = [place.schema for schema in schemas for place in _places(schema, "", schema.get("$defs", {}))]
    optional = sum(len(set(part.get("properties", ())) - set(part.get("required", ()))) for part in properties)
    unions = sum("anyOf" in part or "oneOf" in part or isinstance(part.get("type"), list) for part in properties)
    if len(tools) > OPENAI_TOOLS:
        text = f"{len(tools)} tools in one request; OpenAI takes {OPENAI_TOOLS}"
        yield Finding("", "", "too-many-tools", text, "error")
    for count, limit, what in (
        (len(tools), ANTHROPIC_STRICT_TOOLS, "tools"),
        (optional, ANTHROPIC_STRICT_OPTIONAL, "optional parameters"),
        (unions, ANTHROPIC_STRICT_UNIONS, "parameters with a union type"),
    ):
        if count > limit:
            text = f"{count} {what}; Anthropic takes {limit} in one request with strict tools"
            yield Finding("", "", "anthropic-strict", text, "hint")
