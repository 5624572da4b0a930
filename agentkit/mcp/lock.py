"""What servers offered when a person reviewed it, in a file: a tool that differs from it is refused.

A server that was harmless when it was added can change a description or a schema later, and so what a model does.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_types as types

from .. import DefinitionError
from ..extend import compare_schemas, format_lock, run_coroutine
from .config import read_json

MCP_LOCK_VERSION = 1
LOCKED_FIELDS = {"title", "description", "input_schema", "output_schema", "annotations"}
MAX_CHANGE_CHARS = 60
"""Characters of a text that are shown after its first change."""
_SCHEMAS = {"inputSchema": "input", "outputSchema": "output"}

Locked = Mapping[str, Mapping[str, Any]]
"""The reviewed tools of one server by name: title, description, schemas and annotations."""


def lock_path(config: str | os.PathLike[str]) -> Path:
    """Return the file that holds the lock of a configuration: `mcp.lock.json` beside `mcp.json`."""
    return Path(config).with_suffix(".lock.json")


def describe_tools(tools: Sequence[types.Tool]) -> dict[str, Any]:
    """Return what a lock holds of a server's tools."""
    shown = {
        tool.name: tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=LOCKED_FIELDS)
        for tool in tools
    }
    return dict(sorted(shown.items()))


def format_servers(servers: Mapping[str, Locked]) -> str:
    """Return the text of a lock file."""
    return format_lock({"version": MCP_LOCK_VERSION, "servers": servers})


def read_servers(path: str | os.PathLike[str]) -> dict[str, Locked]:
    """Return the tools of each server in a lock file.

    Raises:
        DefinitionError: The file cannot be read, or is no lock of servers.
    """
    place = os.fspath(path)
    content = read_json(path, "Write it: agentkit lock --mcp")
    servers = content.get("servers") if isinstance(content, dict) else None
    if not isinstance(servers, dict) or content.get("version") != MCP_LOCK_VERSION:
        raise DefinitionError(
            f"{place}: no lock of MCP servers, version {MCP_LOCK_VERSION}. Write it: agentkit lock --mcp"
        )
    listed = [tools.values() if isinstance(tools, dict) else [None] for tools in servers.values()]
    if not all(isinstance(tool, dict) for tools in listed for tool in tools):
        raise DefinitionError(f"{place}: the tools of a server must be objects. Write it again: agentkit lock --mcp")
    return servers


def find_locked(path: str | os.PathLike[str], server: str) -> Locked:
    """Return the reviewed tools of one server; raise `DefinitionError` if the lock has no such server."""
    servers = read_servers(path)
    if server not in servers:
        raise DefinitionError(
            f"{os.fspath(path)}: the server {server!r} is not locked. Review it, and write the lock again."
        )
    return servers[server]


def compare_tool(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what changed in a tool since it was locked; nothing if it is the same."""
    found: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        before = old.get(name)
        after = new.get(name)
        if before == after:
            continue
        if name in _SCHEMAS and isinstance(before, dict) and isinstance(after, dict):
            try:
                places = [
                    f"{_SCHEMAS[name]}{'.' if path else ''}{path}: {message}"
                    for path, _, message in compare_schemas(before, after)
                ]
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                places = [f"{_SCHEMAS[name]} schema: not a schema ({error})"]
            found += places or [f"{_SCHEMAS[name]} schema: changed"]
        elif isinstance(before, str) and isinstance(after, str):
            found.append(_compare_texts(name, before, after))
        else:
            found.append(f"{name}: {_show(before)} became {_show(after)}")
    return found


def compare_servers(old: Mapping[str, Locked], new: Mapping[str, Locked]) -> list[str]:
    """Return what changed in the servers of two locks, a line for each change."""
    lines = []
    for server in sorted(old.keys() | new.keys()):
        before = old.get(server, {})
        after = new.get(server, {})
        for tool in sorted(before.keys() | after.keys()):
            if tool not in after or tool not in before:
                lines.append(f"{server} {tool}: {'added' if tool in after else 'removed'}")
            else:
                lines += [f"{server} {tool} {change}" for change in compare_tool(before[tool], after[tool])]
    return lines


def lock_servers(servers: Sequence[Any]) -> dict[str, Locked]:
    """Open servers at the same time, and return what each of them offers."""

    async def describe(server: Any) -> tuple[str, Locked]:
        async with server:
            return server.name, describe_tools(server.offered)

    async def describe_all() -> list[tuple[str, Locked]]:
        return await asyncio.gather(*map(describe, servers))

    return dict(run_coroutine(describe_all()))


def _compare_texts(name: str, before: str, after: str) -> str:
    shorter = min(len(before), len(after))
    pairs = zip(before, after, strict=False)
    place = next((place for place, (old, new) in enumerate(pairs) if old != new), shorter)
    shown = [_show(text[place : place + MAX_CHANGE_CHARS]) for text in (before, after)]
    return f"{name}, at character {place}: {shown[0]} became {shown[1]}"


def _show(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= MAX_CHANGE_CHARS + 2 else f"{text[:MAX_CHANGE_CHARS]}..."
