"""A tool that reads JSON from the HTTP APIs of declared hosts."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import agentkit
from agentkit import DefinitionError, ToolError
from agentkit.http import download, settings
from agentkit.tools import truncate

MAX_JSON_CHARS = 12_000
"""Characters of JSON that are shown at once."""
MAX_KEYS = 30
MAX_KEY_PARTS = 8
"""Parts of a key with dots, in a path."""
_ORIGIN = re.compile(r"(https?)://([\w.-]+|\[[0-9a-fA-F:.]+\])(:[1-9]\d{0,4})?/?")


def http_json_tool(
    hosts: Collection[str],
    *,
    headers: Mapping[str, str] | None = None,
    trust: Literal["trusted", "untrusted"] | None = "untrusted",
) -> "agentkit.JsonTool[..., Any]":
    """Return the tool `http_get_json`, which reads JSON from these hosts alone.

    The hosts may receive what the conversation contains, so calls do not wait as those of `fetch_page` do.  An address
    in the network of this machine needs a place in `agentkit.http.settings(hosts=...)`, too.

    Args:
        hosts: Names such as "api.example.com", reached by https; "http://localhost:8000" for another port or scheme.
        headers: Sent with each request, such as a key.  The model does not see them.
        trust: Who may have written the answers: "untrusted" for anyone, None where you trust the hosts.

    Raises:
        DefinitionError: A host is not valid.
    """
    if isinstance(hosts, str) or not hosts:
        raise DefinitionError(f'hosts: expected a list of names such as ["api.example.com"], got {hosts!r}')
    declared = frozenset(map(_to_origin, hosts))
    client = JsonClient(declared, dict(headers or {}))
    names = ", ".join(sorted(origin.removeprefix("https://") for origin in declared))
    description = f"Read JSON by a GET request from: {names}."
    return agentkit.JsonTool(client.http_get_json, description=description, effect="read", trust=trust, egress=False)


@dataclass(frozen=True, slots=True)
class JsonClient:
    """The declared hosts and the headers for them."""

    origins: frozenset[str]
    headers: Mapping[str, str] = field(repr=False)

    def http_get_json(self, url: str, pick: str = "") -> Any:
        """Read JSON by a GET request.

        Args:
            url: The address with its query.
            pick: A part of the answer, such as "items.0.name".
        """
        limits = settings()
        answer = download(url, limits, headers={"Accept": "application/json", **self.headers}, origins=self.origins)
        shown = truncate(answer.url)
        if answer.is_cut:
            raise ToolError(f"{shown} has more than {limits.max_bytes:,} bytes. Ask for less by the query.")
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise ToolError(f"{shown} did not answer with JSON.") from None
        value = _pick(value, pick)
        whole = json.dumps(value, ensure_ascii=False)
        if len(whole) <= MAX_JSON_CHARS:
            return value
        return (
            f"{whole[:MAX_JSON_CHARS]}\n[{MAX_JSON_CHARS:,} of {len(whole):,} characters; pick= reads a part: "
            f"{_describe_parts(value)}]"
        )


def _to_origin(host: str) -> str:
    origin = host if "://" in host else f"https://{host}"
    if not _ORIGIN.fullmatch(origin):
        raise DefinitionError(f'hosts: expected a name such as "api.example.com" without a path, got {host!r}')
    return origin.rstrip("/")


def _pick(value: Any, path: str) -> Any:
    """Return the part of a value at a path of keys and indexes; a key may have dots in it, as a version does."""
    names = [name for name in path.split(".") if name]
    at = 0
    while at < len(names):
        name = names[at]
        end = at + 1
        if isinstance(value, dict):
            ends = range(min(at + MAX_KEY_PARTS, len(names)), at, -1)
            end = next((other for other in ends if ".".join(names[at:other]) in value), end)
            name = ".".join(names[at:end])
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            where = ".".join(names[:at]) or "the answer"
            raise ToolError(f"pick: {truncate(where)} has no {truncate(name)!r}. It has {_describe_parts(value)}.")
        at = end
    return value


def _describe_parts(value: Any) -> str:
    if isinstance(value, dict):
        more = ", ..." if len(value) > MAX_KEYS else ""
        return f"the keys {', '.join(truncate(key, 80) for key in list(value)[:MAX_KEYS])}{more}"
    return f"the items 0 to {len(value) - 1:,}" if isinstance(value, list) and value else "no parts"
