"""From the blocks of a prompt to a query: texts with images, documents and audio."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from typing import Any

from ..core.errors import DefinitionError
from ..core.parts import Audio, ContentPart, Document, Image, Query, detect_media_type
from .api import RequestError, schema

TYPES: Sequence[type[ContentPart]] = (Image, Document, Audio)


def query_of(prompt: Sequence[Any]) -> Query:
    """Return the query in the blocks of a prompt.

    Raises:
        RequestError: A block has a content that no model can read.
    """
    parts = [_part(block) for block in prompt]
    return parts if any(isinstance(part, ContentPart) for part in parts) else "\n".join(map(str, parts))


def _part(block: Any) -> str | ContentPart:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ImageContentBlock() | schema.AudioContentBlock():
            return _binary(block.data, block.type)
        case schema.ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as file):
            return f"The file {file.uri}:\n{file.text}\n"
        case schema.EmbeddedResourceContentBlock():
            return _binary(block.resource.blob, block.resource.uri)
    raise RequestError(-32602, f"prompt: no block of the type {type(block).__name__} can be read")


def _binary(text: str, place: str) -> ContentPart:
    try:
        data = b64decode(text, validate=True)
        kind = next((kind for kind in TYPES if detect_media_type(data) in kind.media_types), Image)
        return kind.from_bytes(data, name=place.rpartition("/")[2])
    except (Base64Error, ValueError, DefinitionError) as error:
        raise RequestError(-32602, f"prompt: {place}: {error}") from error
