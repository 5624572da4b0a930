"""The tools' schemas in a file, and what changed since: the contract that callers, prompts and saved runs rely on."""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ..core.errors import DefinitionError
from ..schemas.compatibility.changes import Change, Kind, joined
from ..schemas.compatibility.schemas import schema_changes
from .registry import ToolRegistry

__all__ = ["Change", "Kind", "compare_locks", "format_lock", "lock", "read_lock"]

VERSION = 1


def lock(tools: Any) -> dict[str, Any]:
    """The plain schemas of a registry (or of a function, a tool, an iterable of them), as plain JSON.

    `{"version": 1, "tools": {name: schema}}`, sorted by name; an agent's own answer tool is left out.
    """
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    entries = sorted((name, tool.schema("json")) for name, tool in registry.items() if tool is not registry.answer)
    return {"version": VERSION, "tools": json.loads(json.dumps(dict(entries)))}


def format_lock(locked: Mapping[str, Any]) -> str:
    """A lock as the text of its file: keys sorted, so that a diff shows changes only."""
    return json.dumps(locked, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_lock(text: str) -> dict[str, Any]:
    """The lock in the text of a file; `DefinitionError` if it is none, or one that a newer agentkit wrote."""
    try:
        locked = json.loads(text)
    except ValueError as error:
        raise DefinitionError(f"not a lock file, not even JSON: {error}") from error
    if not isinstance(locked, dict) or not isinstance(locked.get("tools"), dict):
        raise DefinitionError('not a lock file: it has no "tools"')
    if locked.get("version") != VERSION:
        raise DefinitionError(f"a lock file of version {locked.get('version')!r}; this agentkit reads {VERSION}")
    return locked


def compare_locks(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """What became of the tools, sorted by tool; both as `lock` gives them.

    A change is breaking if arguments that were valid before may not be any more: a tool or parameter removed or
    renamed, a type, enum or bound narrowed, a new required parameter.  All else is compatible: tools or optional
    parameters added, wider types, other texts and defaults.  What cannot be decided (another `pattern`, say) counts as
    breaking.
    """
    before, after = old["tools"], new["tools"]
    changes: list[Change] = []
    renamed = _renamed(before, after)
    for name in sorted({*before, *after}):
        if name in renamed:
            changes.append(Change(name, "", "breaking", f"renamed to {renamed[name]}"))
        elif name not in after:
            changes.append(Change(name, "", "breaking", "removed"))
        elif name not in before and name not in renamed.values():
            changes.append(Change(name, "", "compatible", "added"))
        elif name in before:
            changes += _tool_changes(name, before[name], after[name])
    return changes


def _renamed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Old name -> new name, for tools that are the same but for their name."""
    added = {name: _nameless(after[name]) for name in after if name not in before}
    renamed: dict[str, str] = {}
    for name in sorted(set(before) - set(after)):
        same = [new for new in added if added[new] == _nameless(before[name]) and new not in renamed.values()]
        if same:
            renamed[name] = (get_close_matches(name, same, 1, 0) or same)[0]
    return renamed


def _nameless(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


def _tool_changes(tool: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    """The changes of one tool, each said once, breaking ones first."""
    found = dict.fromkeys(schema_changes(old, new))
    for difference in sorted(found, key=lambda difference: difference.kind):
        yield Change(tool, joined(difference.at), difference.kind, difference.message)
