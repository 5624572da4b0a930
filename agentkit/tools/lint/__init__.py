"""Check tools as a model and its provider will read them: what is missing, unclear, too large or refused."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from ...core.errors import DefinitionError
from ...schemas import name_of
from ..class_tool import ToolExecutor
from ..json_tool import JsonTool
from ..registry import ToolRegistry, make_tool
from .consequences import check_consequences, check_effects
from .finding import LintFinding, Severity
from .parameters import check_parameters
from .whole_tools import check_pairs, check_tool, check_totals

__all__ = ["LintFinding", "Severity", "estimate_tokens", "lint"]


def lint(tools: Any) -> list[LintFinding]:
    """Return the problems of tools: tool by tool, then of all together.

    A function that cannot be a tool is a finding, never an exception.  Rules: definition, duplicate-name,
    tool-description, long-description, parameter-description, parameter-name, untyped, omitted-type, enum-in-text,
    unchecked-pattern, too-large, not-strict, similar-tools, too-many-tools, anthropic-strict, no-effect,
    no-destination, egress.

    Args:
        tools: A registry, a tool or function, or an iterable of them.
    """
    found: list[LintFinding] = []
    usable: dict[str, JsonTool[..., Any]] = {}
    for entry in _iter_entries(tools):
        try:
            tool = make_tool(entry)
            found += [*check_tool(tool), *check_parameters(tool), *check_consequences(tool)]
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
