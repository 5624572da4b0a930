"""The result of a server's tool as the value of a tool: data, text, and parts of images and audio."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any

import mcp_types as types

from ..core.errors import ToolError
from ..core.parts import Part, detect_media_type
from ..tools.results.result_text import MAX_IMAGE_BYTES, MAX_IMAGES, RenderedResult, StoredResult, make_image_part

AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""Media types of audio that chat completions accept, and their names there."""
MAX_AUDIO_BYTES = 10_000_000


def read_result(result: types.CallToolResult) -> Any:
    """Return what a call returned: its structured content, or its text.

    It is a `StoredResult` where the model reads more than that: images, audio, or a text beside the structured content.

    Raises:
        ToolError: The server reports that the call failed.
    """
    shown = render_blocks(result.content)
    if result.is_error:
        raise ToolError(shown.text or "the call failed, and the server gives no reason")
    data = result.structured_content
    if data is None:
        return StoredResult(shown.text, shown) if shown.images else shown.text
    rest = [text for text in map(_render_block, result.content) if not _repeats(text, data)]
    if not rest:
        return data
    text = "\n".join([json.dumps(data, ensure_ascii=False, separators=(",", ":")), *rest])
    return StoredResult(data, RenderedResult(text, shown.images))


def render_blocks(blocks: Sequence[Any]) -> RenderedResult:
    """Return the text of content blocks, a note in the place of each image and audio, and these as content parts."""
    parts = [part for block in blocks for part in _list_parts(block)]
    return RenderedResult("\n".join(map(_render_block, blocks)), parts[:MAX_IMAGES])


def read_contents(contents: Iterable[Any]) -> Any:
    """Return the contents of a resource: text, or its images as parts."""
    blocks = [types.EmbeddedResource(resource=entry) for entry in contents]
    if len(blocks) == 1 and isinstance(blocks[0].resource, types.TextResourceContents):
        return blocks[0].resource.text
    shown = render_blocks(blocks)
    return StoredResult(shown.text, shown) if shown.images else shown.text


def _render_block(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        return f"[{block.mime_type}, {len(_decode(block.data)):,} bytes]"
    if isinstance(block, types.ResourceLink):
        about = ": ".join(filter(None, [block.title or block.name, block.description]))
        return f"[resource {block.uri} ({about}); read_resource reads it]"
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "binary data"
    return f"[resource {resource.uri}: {kind}, {len(_decode(resource.blob)):,} bytes]"


def _list_parts(block: Any) -> Iterable[Part]:
    if isinstance(block, types.AudioContent):
        name = AUDIO_FORMATS.get(block.mime_type)
        if name and len(_decode(block.data)) <= MAX_AUDIO_BYTES:
            yield {"type": "input_audio", "input_audio": {"data": block.data, "format": name}}
        return
    resource = getattr(block, "resource", None)
    text = block.data if isinstance(block, types.ImageContent) else getattr(resource, "blob", "")
    content = _decode(text)
    kind = detect_media_type(content)  # whatever the server states
    if kind.startswith("image/") and len(content) <= MAX_IMAGE_BYTES:
        yield make_image_part(content, kind)


def _decode(text: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _repeats(text: str, data: Any) -> bool:
    """Return whether a text is the structured content again, as servers add it for older clients."""
    wrapped = data["result"] if isinstance(data, dict) and data.keys() == {"result"} else data
    if text == wrapped:
        return True
    try:
        return json.loads(text) in (data, wrapped)
    except (ValueError, RecursionError):
        return False
