"""Tool schemas in a file, and what changed since: the contract that callers, prompts and saved runs rely on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import DefinitionError
from ..schemas.comparison import ChangeKind, compare_schemas
from .registry import ToolRegistry

LOCK_VERSION = 1


@dataclass(frozen=True)
class Change:
    """What changed in a tool.

    Attributes:
        tool: Its name.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        kind: "breaking" if arguments that were valid may be invalid now, else "compatible".
        message: What changed: "removed", "added, optional", "type integer -> string".
    """

    tool: str
    path: str
    kind: ChangeKind
    message: str


def lock(tools: Any) -> dict[str, Any]:
    """Return the plain schemas of tools as plain JSON: `{"version": 1, "tools": {name: schema}}`, sorted by name.

    Args:
        tools: A registry, a function, a tool, or an iterable of them.  An agent's own answer tool is left out.
    """
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    entries = {tool.name: tool.schema("json") for tool in sorted(registry.own_tools, key=lambda tool: tool.name)}
    return {"version": LOCK_VERSION, "tools": json.loads(json.dumps(entries))}


def format_lock(locked: Mapping[str, Any]) -> str:
    """Return the text of a lock file: keys are sorted, so that a diff shows changes only."""
    return json.dumps(locked, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_lock(text: str, key: str = "tools") -> dict[str, Any]:
    """Parse the text of a lock file.

    Args:
        text: The text.
        key: What is locked.

    Raises:
        DefinitionError: The text is no lock file, or has another version.
    """
    try:
        locked = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"not a lock file: invalid JSON ({error}). Write it with `agentkit lock`.") from error
    if not isinstance(locked, dict) or not isinstance(locked.get(key), dict):
        raise DefinitionError(f'not a lock file: it has no object "{key}". Write it with `agentkit lock`.')
    if locked.get("version") != LOCK_VERSION:
        found = locked.get("version")
        raise DefinitionError(
            f"the lock file has version {found!r}, not {LOCK_VERSION}. Write it again with `agentkit lock`."
        )
    return locked


def compare_locks(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return what was added, removed or changed in the tools of two locks, sorted by tool, breaking changes first.

    Compatible are: other texts and defaults, an added tool, an added optional parameter, an added enum value or
    alternative, and a parameter that is no longer required.  Every other change is breaking, a wider type or bound
    included: review it, and write the lock again.

    Args:
        old: The lock of before, as `lock` or `read_lock` returns it.
        new: The lock of now.
    """
    before = old["tools"]
    after = new["tools"]
    changes: list[Change] = []
    for name in sorted({*before, *after}):
        if name not in after:
            changes.append(Change(name, "", "breaking", "removed"))
        elif name not in before:
            changes.append(Change(name, "", "compatible", "added"))
        else:
            try:
                changes += [Change(name, *difference) for difference in compare_schemas(before[name], after[name])]
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise DefinitionError(f"the lock of the tool {name!r} is damaged: {error}. Write it again.") from error
    return changes
