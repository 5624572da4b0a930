"""The images, documents and sounds of a message as HTML; nothing is loaded from an address."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.parts import Audio, Document, Image, data_url_of, describe_part, parts_of, read_part
from .markup import Html, tag

MAX_SHOWN_BYTES = 1_000_000
"""Bytes of an image, a document or a sound that a page holds; of a larger one it shows type and size."""
_AUDIO_TYPES = {*Audio.media_types, "audio/mp3"}


def render_parts(message: Mapping[str, Any]) -> Iterator[Html]:
    """Yield the parts of a message that are not text."""
    for part in parts_of(message):
        media, size, _ = read_part(part)
        label, address = describe_part(part), data_url_of(part)
        shown: Html | str = label
        if address and size <= MAX_SHOWN_BYTES:
            if media in Image.media_types:
                shown = Html(tag("img", src=address, alt=label).removesuffix("</img>"))
            elif media in _AUDIO_TYPES:
                shown = tag("audio", src=address, controls=True, title=label)
            elif media in Document.media_types:
                shown = tag("a", label, href=address, download=str(part["file"].get("filename") or "document.pdf"))
        yield tag("div", shown, class_="part")
