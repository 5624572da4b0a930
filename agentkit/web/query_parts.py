"""From the content of a message of AG-UI to a query: a text, or texts with images, documents and audio."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

from ..core.errors import DefinitionError
from ..core.parts import Audio, ContentPart, Document, Image, Query
from .run_input import InputError

Json = dict[str, Any]
KINDS: Mapping[str, type[ContentPart]] = {"image": Image, "audio": Audio, "document": Document}
"""For each type of a content part of AG-UI: what it becomes."""


def query_of(content: Any) -> Query | None:
    """Return the query in the content of a user message, None without one.

    Raises:
        InputError: A part has another type, or its content is not what its type says.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InputError("messages: the content must be a text or a list of parts")
    parts = [_part(part, place) for place, part in enumerate(content)]
    return parts if any(isinstance(part, ContentPart) for part in parts) else "\n".join(map(str, parts))


def _part(part: Json, place: int) -> str | ContentPart:
    kind, source = part.get("type"), part.get("source")
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(source, dict):
        raise InputError(f"content[{place}]: expected text, image, audio or document with a source, got {kind!r:.40}")
    if kind == "image" and source.get("type") == "url":
        return Image.from_url(source.get("value") or source.get("url", ""))
    metadata = part.get("metadata")
    name = metadata.get("filename") if isinstance(metadata, dict) else ""
    try:
        data = b64decode(source.get("value", ""), validate=True)
        return KINDS[kind].from_bytes(data, name=name if isinstance(name, str) else "")
    except (Base64Error, TypeError, ValueError) as error:
        raise InputError(f"content[{place}]: the source must be base64 data: {error}") from error
    except DefinitionError as error:
        raise InputError(f"content[{place}]: {error}") from error
