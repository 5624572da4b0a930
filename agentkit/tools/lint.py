"""Check tools as a model and its provider will read them: what is missing, unclear, too large or refused.

There are rules about whole tools (descriptions, tools that a model would confuse, limits of one request), about
parameters at any depth (descriptions, names, types that are too wide), and about what a tool does outside.  A text is
judged by whether it informs, and whether it lists values that the schema does not.

Sources: OpenAI refuses more than 128 tools ("array_above_max_length": openai/openai-openapi#76,
claude-code-router#686); Anthropic's limits for strict tools are in its guide "Structured outputs", per request.
"""

import dis
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import combinations, islice
from typing import Any, Literal, TypeAlias

from ..core.errors import DefinitionError, suggest
from ..core.messages import Content, Destination, Plain
from ..core.values import frozen
from ..schemas.annotations import list_unused_metadata
from ..schemas.formats.anthropic import ANTHROPIC_PROPERTY_NAME
from ..schemas.formats.gemini import GEMINI_PROPERTY_NAME
from ..schemas.formats.openai import MAX_FUNCTION_DESCRIPTION_CHARS, find_exceeded_limit
from ..schemas.formats.structure import types_of
from ..schemas.functions import FunctionSchema
from ..schemas.signature import name_of, unwrap_function
from ..schemas.walk import JsonSchema, follow_reference, is_checkable, iter_children
from .definition import ToolExecutor
from .json_tool import JsonTool
from .registry import ToolRegistry, make_tool
from .roles import list_roles, may_have_effect, sends_outside
from .settings import ORDERED_EFFECTS

MAX_PLACES = 10_000
Severity: TypeAlias = Literal["error", "warning", "hint"]


@frozen(slots=False)
class LintFinding:
    """A problem of a tool.

    Attributes:
        tool: The tool's name; "" for a problem of all tools together.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        rule: The name of the rule: "parameter-description", "enum-in-text" and the like.
        message: What is wrong, and what to write instead.
        severity: "error" (cannot be used), "warning" (a model will do worse) or "hint".
    """

    tool: str
    path: str
    rule: str
    message: str
    severity: Severity


def lint(tools: Any) -> list[LintFinding]:
    """Return the problems of tools: tool by tool, then of all together.

    A function that cannot be a tool is a finding, never an exception.  Rules: definition, duplicate-name,
    tool-description, long-description, no-result, parameter-description, parameter-name, unknown-parameter, untyped,
    omitted-type, unused-metadata, enum-in-text, unchecked-pattern, too-large, not-strict, similar-tools,
    too-many-tools, anthropic-strict, no-effect, no-destination, egress.

    Args:
        tools: A registry, a tool or function, or an iterable of them.
    """
    found: list[LintFinding] = []
    usable: dict[str, JsonTool[..., Any]] = {}
    for entry in _iter_entries(tools):
        try:
            tool = make_tool(entry)
            found += [*check_tool(tool), *check_tool_parameters(tool), *check_consequences(tool)]
        except DefinitionError as error:
            name = name_of(entry) if callable(entry) else type(entry).__name__
            found.append(LintFinding(name, "", "definition", str(error), "error"))
            continue
        if tool.name in usable:
            found.append(LintFinding(tool.name, "", "duplicate-name", "another tool has this name", "error"))
        usable.setdefault(tool.name, tool)
    found += [*check_pairs([*usable.values()]), *check_totals([*usable.values()])]
    found += check_effects([*usable.values()])
    return list(dict.fromkeys(found))


def estimate_tokens(tools: Any) -> dict[str, int]:
    """Return about how many tokens each tool costs in every request: the characters of its compact OpenAI JSON / 4.

    The exact number depends on the provider's tokenizer.  Entries that cannot be a tool are left out.
    """
    costs: dict[str, int] = {}
    for entry in _iter_entries(tools):
        with suppress(DefinitionError):
            tool = make_tool(entry)
            text = json.dumps(tool.schema("openai"), ensure_ascii=False, separators=(",", ":"))
            costs[tool.name] = -(-len(text) // 4)
    return costs


def _iter_entries(tools: Any) -> Iterator[Any]:
    if isinstance(tools, ToolRegistry):
        yield from tools.own_tools
    elif isinstance(tools, Iterable) and not callable(tools) and not isinstance(tools, str | ToolExecutor):
        for entry in tools:
            yield from _iter_entries(entry)
    else:
        yield tools


MIN_DESCRIPTION_WORDS = 3
ADVICE = "say what it does and returns, and when to use it"


def check_tool(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield the problems of the description of `tool`, and of the size or shape of its schema."""
    text = tool.description
    fault = ""
    if repeats(text, tool.name):
        fault = "only repeats the name"
    elif len(normalize_words(text)) < MIN_DESCRIPTION_WORDS:
        fault = "is too short"
    if fault:
        message = f"the description {text!r} {fault}: {ADVICE}"
        yield LintFinding(tool.name, "", "tool-description", message, "warning")
    if len(text) > MAX_FUNCTION_DESCRIPTION_CHARS:
        limit = f"OpenAI takes {MAX_FUNCTION_DESCRIPTION_CHARS}, the rest is sent elsewhere"
        message = f"the description has {len(text)} characters; {limit}"
        yield LintFinding(tool.name, "", "long-description", message, "warning")
    if _only_prints(tool.function):
        message = "prints and returns nothing, so the model gets no result: return the text"
        yield LintFinding(tool.name, "", "no-result", message, "warning")
    if reason := find_exceeded_limit(tool.schema("json")):
        message = f"too large for OpenAI's strict mode: {reason}"
        yield LintFinding(tool.name, "", "too-large", message, "warning")
    obstacles = [loss for loss in tool.losses("openai_strict") if loss.keyword == "strict"]
    reasons = [f"{_shorten_path(loss.path)}{loss.moved_to.removeprefix('dropped: ')}" for loss in obstacles]
    if reasons and not reason:
        message = f"cannot be sent in OpenAI's strict mode: {'; '.join(reasons)}"
        yield LintFinding(tool.name, "", "not-strict", message, "hint")


def _only_prints(function: Any) -> bool:
    """Return whether the code of a function calls `print` and returns None on each of its ways."""
    code = getattr(unwrap_function(function), "__code__", None)
    if code is None or "print" not in code.co_names or code.co_flags & _GENERATORS:
        return False
    returned: list[Any] = []
    loaded: Any = None
    for step in dis.get_instructions(code):
        if step.opname == "RETURN_VALUE":
            returned.append(loaded)
        elif step.opname == "RETURN_CONST":
            returned.append(step.argval)
        loaded = step.argval if step.opname == "LOAD_CONST" else step
    return all(value is None for value in returned)


_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _shorten_path(path: str) -> str:
    """Return `parameters.properties.lines.items` as "lines[]: "."""
    short = re.sub(r"\.(?:anyOf|properties)(?=\.|$)|\.\d+(?=\.|$)", "", path.removeprefix("parameters"))
    short = re.sub(r"\.items(?=\.|$)", "[]", short).lstrip(".")
    return f"{short}: " if short else ""


MAX_OPENAI_TOOLS = 128
MAX_STRICT_TOOLS = 20
MAX_STRICT_OPTIONAL = 24
MAX_STRICT_UNIONS = 16
SAME_RATIO = 0.9
ALIKE_RATIO = 0.8
"""The difflib ratio from which two descriptions are as good as the same, or easily confused."""
MIN_SHARED_RATIO = 0.5
"""The part of their words that two descriptions must share to be compared letter by letter, which is slow."""


def check_pairs(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield the pairs of tools that a model cannot tell apart, as findings of the second."""
    names = {tool.name: sorted(normalize_words(tool.name)) for tool in tools}
    vocabulary = {tool.name: frozenset(normalize_words(tool.description)) for tool in tools}
    for first, second in combinations(tools, 2):
        one = vocabulary[first.name]
        other = vocabulary[second.name]
        is_worth_it = 2 * len(one & other) >= MIN_SHARED_RATIO * (len(one) + len(other))
        ratio = _compare_texts(first.description, second.description) if is_worth_it else 0.0
        if ratio >= SAME_RATIO or names[first.name] == names[second.name]:
            message = f"is nearly the same as {first.name}: merge them, or say in both when to use which"
            yield LintFinding(second.name, "", "similar-tools", message, "warning")
        elif ratio >= ALIKE_RATIO and _compare_texts(first.name, second.name) >= ALIKE_RATIO:
            message = f"is easily mistaken for {first.name}: say in both when to use which"
            yield LintFinding(second.name, "", "similar-tools", message, "hint")


def _compare_texts(one: str, other: str) -> float:
    """Return difflib's ratio without regard to capitals: 1 for equal texts."""
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()


def check_totals(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield what is too much in all tools together for one request."""
    schemas = [schema for tool in tools for _, schema in iter_places(tool.schema("json"))]
    optional = sum(len(set(part.get("properties", ())) - set(part.get("required", ()))) for part in schemas)
    unions = sum("anyOf" in part or "oneOf" in part or isinstance(part.get("type"), list) for part in schemas)
    if len(tools) > MAX_OPENAI_TOOLS:
        message = f"{len(tools)} tools in one request; OpenAI takes {MAX_OPENAI_TOOLS}"
        yield LintFinding("", "", "too-many-tools", message, "error")
    for count, limit, what in (
        (len(tools), MAX_STRICT_TOOLS, "tools"),
        (optional, MAX_STRICT_OPTIONAL, "optional parameters"),
        (unions, MAX_STRICT_UNIONS, "parameters of a union type"),
    ):
        if count > limit:
            message = f"{count} {what}; Anthropic takes {limit} in one request of strict tools"
            yield LintFinding("", "", "anthropic-strict", message, "hint")


PROPERTY_NAMES = {"Anthropic": ANTHROPIC_PROPERTY_NAME, "Gemini": GEMINI_PROPERTY_NAME}
TYPED = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"})
MAX_PARAMETER_DESCRIPTION_CHARS = 1024
UNIONS = ("anyOf", "oneOf", "allOf")


def check_tool_parameters(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield the problems of the parameters of `tool` and of what is inside them."""
    root = tool.schema("json")
    for name, lost in getattr(tool.arguments, "omitted", {}).items():
        what = "models see the rest of it" if name in root["properties"] else "models do not see it"
        message = f"the type {lost} has no JSON Schema, so {what}: remove it, or mark the parameter as Injected"
        yield LintFinding(tool.name, name, "omitted-type", message, "warning")
    for name in _find_unknown(tool):
        hint = suggest(name, root["properties"], then="Rename it, or remove it.")
        message = f"is described, but no parameter has this name, so models do not read the text. {hint}"
        yield LintFinding(tool.name, name, "unknown-parameter", message, "warning")
    for name, annotation in getattr(tool.arguments, "annotations", {}).items():
        for entry in list_unused_metadata(annotation):
            if not isinstance(entry, Destination | Content | Plain):
                message = f"the metadata {entry!r:.60} of the type is not read: for a description, give it as a text"
                yield LintFinding(tool.name, name, "unused-metadata", message, "warning")
    for path, schema in iter_places(root):
        for name, inner in schema.get("properties", {}).items():
            own = f"{path}.{name}".lstrip(".")
            if refusing := [provider for provider, key in PROPERTY_NAMES.items() if not key.fullmatch(name)]:
                message = f"{' and '.join(refusing)} refuse this name: use ASCII letters, digits and _"
                yield LintFinding(tool.name, own, "parameter-name", message, "warning")
            text = _find_text(inner, root) if isinstance(inner, dict) else ""
            if trouble := _check_text(text, name):
                yield LintFinding(tool.name, own, *trouble)
        if path and (message := _check_type(schema)):
            yield LintFinding(tool.name, path, "untyped", message, "warning")
        if (pattern := schema.get("pattern")) and not is_checkable(pattern):
            message = f"the pattern {pattern!r:.60} has look-around or is too large, so it is not checked"
            yield LintFinding(tool.name, path, "unchecked-pattern", message, "hint")
        values = find_listed_values(schema.get("description", "")) if _is_free_string(schema) else []
        if len(values) > 1:
            message = f"the description lists the values, the type does not: Literal[{', '.join(map(repr, values))}]"
            yield LintFinding(tool.name, path, "enum-in-text", message, "warning")


def _find_unknown(tool: JsonTool[..., Any]) -> list[str]:
    """Return the names that the docstring of a function describes and that no parameter of it has."""
    arguments = tool.arguments
    if not isinstance(arguments, FunctionSchema) or tool.schema("json").get("additionalProperties"):  # it has **kwargs
        return []
    return [name for name in arguments.documentation.unknown if name not in arguments.injected]


def _check_text(text: str, name: str) -> tuple[str, str, Severity] | None:
    """Return rule, message and severity of a problem with the description of the parameter `name`."""
    if not text.strip():
        return "parameter-description", "has no description: say what it is, in which unit or form", "warning"
    if repeats(text, name):
        return "parameter-description", f"the description {text!r} only repeats the name", "warning"
    if len(normalize_words(text)) == 1:
        return "parameter-description", f"the description {text!r} is too short", "hint"
    if len(text) > MAX_PARAMETER_DESCRIPTION_CHARS:
        return "long-description", f"the description has {len(text)} characters: every request pays for them", "hint"
    return None


def _find_text(schema: JsonSchema, root: JsonSchema) -> str:
    """Return the description of a schema, of its target, or of its first alternative that has one."""
    if "description" in schema:
        return str(schema["description"])
    if "$ref" in schema:
        return str(follow_reference(schema["$ref"], root).get("description", ""))
    branches = [branch for key in UNIONS for branch in schema.get(key, ()) if isinstance(branch, dict)]
    return next(filter(None, (_find_text(branch, root) for branch in branches)), "")


def _check_type(schema: JsonSchema) -> str:
    """Return what is missing in the type of a schema; "" if nothing is."""
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


def check_effects(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield the tools without a declared effect, if another one returns untrusted text."""
    source = next((tool.name for tool in tools if tool.is_untrusted), "")
    message = (
        f"the effect is not declared: after {source} was called, destinations need a decision, and with "
        'untrusted="context" or "hidden" all calls; declare effect="read", "idempotent", "write" or "danger"'
    )
    undeclared = [tool for tool in tools if tool.effect is None and may_have_effect(tool)] if source else []
    yield from (LintFinding(tool.name, "", "no-effect", message, "hint") for tool in undeclared)


def check_consequences(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield what is not declared of a tool that changes something or sends data out."""
    roles = list_roles(tool)
    if tool.effect in ORDERED_EFFECTS and roles and "destination" not in roles.values():
        message = (
            "no parameter is a destination, so each value from untrusted text needs a decision: mark the one that says "
            "where, Annotated[str, Destination()]"
        )
        yield LintFinding(tool.name, "", "no-destination", message, "hint")
    if tool.egress is None and tool.effect not in ORDERED_EFFECTS and sends_outside(tool):
        message = "takes a web address and counts as sending data outside: declare egress=True, or egress=False"
        yield LintFinding(tool.name, "", "egress", message, "hint")


def iter_places(root: JsonSchema) -> Iterator[tuple[str, JsonSchema]]:
    """Yield the schemas of a tool with their paths, `root` first, at most `MAX_PLACES`.

    `lines[].quantity` is the quantity of each item of the parameter `lines`.  A type that contains itself is visited
    once.
    """
    return islice(_iter_places(root, "", root, frozenset()), MAX_PLACES)


def _iter_places(
    schema: JsonSchema, path: str, root: JsonSchema, within: frozenset[str]
) -> Iterator[tuple[str, JsonSchema]]:
    yield path, schema
    if (reference := schema.get("$ref")) and reference not in within:
        yield from _iter_places(follow_reference(reference, root), path, root, within | {reference})
    for place, inner in iter_children(schema):
        if place[0] != "$defs":
            yield from _iter_places(inner, f"{path}{_format_step(place)}".lstrip("."), root, within)


def _format_step(place: tuple[str | int, ...]) -> str:
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


WORD = re.compile(r"[぀-鿿가-힯]|[^\W_]+")
"""A word; in Chinese, Japanese and Korean, which are written without spaces, a character."""
CASE_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED = r"""(?:'[^'\n]{1,40}'|"[^"\n]{1,40}"|`[^`\n]{1,40}`)"""
_ASIDE = r"(?:\s*\([^)]*\))?"
_OR = r"\s*(?:,?\s*\bor\b|\||/)\s*"
_NEXT = rf"(?:\s*,\s*|{_OR})"
_END = r"(?=\W*(?:\.\s|$|;|\)|\n))"
_BARE = r"[\w.+-]*\w"
_PHRASE = rf"{_BARE}(?: {_BARE}){{0,2}}"
_SET = r"(?:(?:one|any) of|(?:allowed|valid|possible|accepted|supported)(?: values| options)?|options|choices|values)"
_INTRODUCTION = rf"\b(?:{_SET}|either|must be|can be)(?: are)?\s*:?\s*[{{\[(]?"
_LISTS = [
    re.compile(rf"{_QUOTED}(?:{_ASIDE}{_NEXT}{_QUOTED})*{_ASIDE}{_OR}{_QUOTED}"),  # 'asc' or 'desc'
    re.compile(rf"{_INTRODUCTION}{_QUOTED}(?:{_ASIDE}{_NEXT}{_QUOTED})+", re.I),  # must be 'asc', 'desc'
    re.compile(
        rf"\b{_SET}(?: are)?\s*:\s*{_PHRASE}(?:{_NEXT}(?!or\b){_PHRASE})+{_END}", re.I
    ),  # one of: last day, hour
    re.compile(rf"\bone of {_BARE}(?:\s*,\s*(?!or\b){_BARE})*{_OR}{_BARE}{_END}", re.I),  # one of asc or desc
    re.compile(r"(?<![\w|])\w+(?:\s*\|\s*\w+)+(?![\w|])"),  # asc|desc
]
_EXAMPLES = re.compile(r"\b(?:e\.g|for example|for instance|such as|like|examples?)\b[^.;]*$", re.I)
_OPEN_LIST = re.compile(rf"{_ASIDE}\s*,?\s*(?:or\b|etc\b|and so on\b|\.\.\.|…)", re.I)


def normalize_words(text: str) -> list[str]:
    """Return the words of a text or a name in lower case, without the s of a plural or a verb."""
    found = WORD.findall(CASE_BORDER.sub(" ", text))
    return [word[:-1] if len(word) > 2 and word.endswith("s") else word for word in map(str.lower, found)]


FILLER = frozenset(
    normalize_words(
        "a an and arg argument array bool boolean dict field float for function given i in input int integer is it its "
        "list number object of or param parameter str string that the this to tool use used value which your"
    )
)
"""Words that add no information to a name."""


def repeats(text: str, name: str) -> bool:
    """Return whether `text` only repeats `name` in other words: "The user id." of `user_id`."""
    return not set(normalize_words(text)) - set(normalize_words(name)) - FILLER


def find_listed_values(text: str) -> list[str]:
    """Return the values that `text` lists as the only ones: "one of: a, b", "'asc' or 'desc'"; [] without such a list.

    Examples ("such as ...") and lists that continue in words ('"today" or a date') do not count.
    """
    for pattern in _LISTS:
        for match in pattern.finditer(text):
            if not _EXAMPLES.search(text[: match.start()]) and not _OPEN_LIST.match(text[match.end() :]):
                return _split_values(match[0])
    return []


def _split_values(listing: str) -> list[str]:
    if quoted := re.findall(_QUOTED, listing):
        return [value[1:-1] for value in quoted]
    bare = re.split(r"\s*,\s*(?:or\s+)?|\s+or\s+|\s*[|/]\s*", re.sub(_INTRODUCTION, "", listing, flags=re.I))
    return [value.strip() for value in bare if value.strip()]
