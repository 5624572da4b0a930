"""What a server offers beside tools: resources that can be read, and prompts as messages."""

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import Client

from ..core.labels import Label, with_label
from ..core.messages import Message
from .connection import list_all
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
    found = [(entry.uri, entry) for entry in await list_all(client.list_resources, "resources")]
    templates = await list_all(client.list_resource_templates, "resource_templates")
    found += [(entry.uri_template, entry) for entry in templates]
    return [
        Resource(str(uri), each.title or each.name, each.description or "", each.mime_type or "") for uri, each in found
    ]


def to_message(message: types.PromptMessage, label: Label | None) -> Message:
    """Return a message of a prompt in chat format, with a label if it has one; images and audio are content parts."""
    shown = render_blocks([message.content])
    content: Any = [{"type": "text", "text": shown.text}, *shown.images] if shown.images else shown.text
    plain = {"role": message.role, "content": content}
    return plain if label is None else with_label(plain, label)
