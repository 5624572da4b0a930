"""What a server offers beside tools: resources that can be read, and prompts as messages."""

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp_types import METHOD_NOT_FOUND

from ..core.messages import Message
from .connection import MAX_PAGES
from .results import render_blocks


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that a server lets its clients read.

    Attributes:
        uri: Its address; with `{names}` in it, a template.
        name: What the server calls it.
        description: What it is about.
        mime_type: Its media type.
    """

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


async def list_resources(client: Client) -> list[Resource]:
    """Return the resources of a server, then its templates."""
    found: list[Resource] = []
    for fetch in (client.list_resources, client.list_resource_templates):
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page: Any = await fetch(cursor=cursor)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:  # a server may have no templates
                    break
                raise
            entries = getattr(page, "resources", None) or getattr(page, "resource_templates", [])
            found += [_to_resource(entry) for entry in entries]
            cursor = page.next_cursor
            if not cursor:
                break
    return found


def _to_resource(entry: Any) -> Resource:
    uri = getattr(entry, "uri", "") or getattr(entry, "uri_template", "")
    return Resource(str(uri), entry.title or entry.name, entry.description or "", entry.mime_type or "")


def to_message(message: types.PromptMessage) -> Message:
    """Return a message of a prompt in chat format; images and audio are content parts."""
    shown = render_blocks([message.content])
    content: Any = [{"type": "text", "text": shown.text}, *shown.images] if shown.images else shown.text
    return {"role": message.role, "content": content}
