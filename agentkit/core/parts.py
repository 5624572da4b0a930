"""Images, documents and audio in a query or a result: values for callers, and parts of a message in OpenAI's format."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from pydantic_core import CoreSchema, core_schema

from .errors import DefinitionError
from .values import frozen

Part: TypeAlias = dict[str, Any]
"""A content part as OpenAI's Chat Completions accept it (`{"type": "text" | "image_url" | "file" | "input_audio"}`)."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?;base64,")
_URL = re.compile(r"(?:https?|gs)://\S+")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
)
_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def detect_media_type(content: bytes) -> str:
    """Return the type of a file by its first bytes: PNG, JPEG, GIF, WebP, PDF, WAV or MP3; `""` for any other."""
    if content[:4] == b"RIFF":
        return _IN_RIFF.get(content[8:12], "")
    return next((kind for magic, kind in _MAGIC if content.startswith(magic)), "")


@frozen(repr=False)
class ContentPart:
    """A part of a query or of a tool's result; make an `Image`, `Document` or `Audio` with `from_path` and the like.

    Attributes:
        data: The content; b"" for a URL.
        media_type: The type of the content, detected from its first bytes.
        url: The address that the provider reads.
        name: The name of the file.
    """

    data: bytes = b""
    media_type: str = ""
    url: str = ""
    name: str = ""

    media_types: ClassVar[tuple[str, ...]] = ()
    formats: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Detect the type of the content; raise `DefinitionError` without any, or if it has another type."""
        if not self.url and not (self.media_type and isinstance(self.data, bytes) and self.data):
            object.__setattr__(self, "media_type", self._detect(self.data, type(self).__name__))

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Self:
        """Read a file; raise `OSError` if it cannot be read, `DefinitionError` if it has another type."""
        data = Path(path).read_bytes()
        return cls(data, cls._detect(data, f"{cls.__name__}.from_path({str(path)!r})"), name=Path(path).name)

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "") -> Self:
        """Take the content of a file; raise `DefinitionError` if it has another type."""
        what = f"{cls.__name__}.from_bytes"
        if isinstance(data, str):
            raise DefinitionError(f"{what}: expected bytes, got str. For base64: base64.b64decode(text).")
        return cls(bytes(data), cls._detect(bytes(data), what), name=name)

    @classmethod
    def _detect(cls, data: Any, what: str) -> str:
        if not isinstance(data, bytes):
            remedy = f"Use {cls.__name__}.from_path for a file, {cls.__name__}.from_bytes for other bytes."
            raise DefinitionError(f"{what}: expected bytes, got {type(data).__name__}. {remedy}")
        kind = detect_media_type(data)
        if kind not in cls.media_types:
            other = next((part.__name__ for part in (Image, Document, Audio) if kind in part.media_types), "")
            remedy = f" Use {other}." if other else ""
            found = kind or f"{len(data):,} bytes of another type"
            raise DefinitionError(f"{what}: expected {cls.formats}, got {found}.{remedy}")
        return kind

    def as_part(self) -> Part:
        """Return the part of a message."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: Any) -> CoreSchema:
        """Return the schema of an instance, which is its short text in JSON."""
        text = core_schema.plain_serializer_function_ser_schema(_describe, return_schema=core_schema.str_schema())
        return core_schema.is_instance_schema(cls, serialization=text)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe_part(self.as_part(), self.name)}>"

    @property
    def _data_url(self) -> str:
        return f"data:{self.media_type};base64,{b64encode(self.data).decode()}"


def _describe(part: ContentPart) -> str:
    return describe_part(part.as_part(), part.name)


class Image(ContentPart):
    """A picture: PNG, JPEG, GIF or WebP, from a file, bytes or a URL."""

    __slots__ = ()
    media_types = ("image/png", "image/jpeg", "image/gif", "image/webp")
    formats = "PNG, JPEG, GIF or WebP"

    @classmethod
    def from_url(cls, url: str) -> "Image":
        """Take the address of a picture, which the provider reads; raise `DefinitionError` for another text."""
        if not isinstance(url, str) or not _URL.fullmatch(url):
            text = "expected an http(s) URL. Use Image.from_path for a file."
            raise DefinitionError(f"Image.from_url({url!r:.80}): {text}")
        return cls(url=url)

    def as_part(self) -> Part:
        """Return the part of a message."""
        return {"type": "image_url", "image_url": {"url": self.url or self._data_url}}


class Document(ContentPart):
    """A PDF, from a file or bytes."""

    __slots__ = ()
    media_types = ("application/pdf",)
    formats = "PDF"

    def as_part(self) -> Part:
        """Return the part of a message."""
        return {"type": "file", "file": {"filename": self.name or "document.pdf", "file_data": self._data_url}}


class Audio(ContentPart):
    """Speech or other sound: WAV or MP3, from a file or bytes."""

    __slots__ = ()
    media_types = ("audio/wav", "audio/mpeg")
    formats = "WAV or MP3"

    def as_part(self) -> Part:
        """Return the part of a message."""
        data = b64encode(self.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[self.media_type]}}


Content: TypeAlias = str | list[Part] | None
"""The content of a message."""


class DataFrame(Protocol):
    """What the data frames of pandas and Polars have in common."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""

    @property
    def dtypes(self) -> Any:
        """Their types."""

    def head(self, n: int = 5) -> Any:
        """Return the first rows."""


Query: TypeAlias = str | ContentPart | Sequence[str | ContentPart | DataFrame]
"""A query: a text, or a list of texts, images, documents, audio and data frames."""


def read_file(path: str | PathLike[str]) -> ContentPart:
    """Return a file as the part that its content makes it; raise `DefinitionError` for another type, or `OSError`."""
    kind = detect_media_type(Path(path).read_bytes()[:16])
    for part in (Image, Document, Audio):
        if kind in part.media_types:
            return part.from_path(path)
    known = ", ".join((Image.formats, Document.formats, Audio.formats)).replace(" or ", ", ")
    raise DefinitionError(f"{str(path)!r}: expected one of {known}. Put a text into the question itself.")


def read_query(query: Any) -> tuple[Any, list[Part] | None]:
    """Return a query as text and, if it has parts beside text, as the content of a message; else the query itself.

    Raises:
        DefinitionError: An entry of the list is neither a text nor a part.
    """
    entries = [query] if isinstance(query, ContentPart) else query
    if not isinstance(entries, list | tuple) or not any(isinstance(entry, ContentPart) for entry in entries):
        return query, None
    content = []
    labels = []
    for place, entry in enumerate(entries):
        if isinstance(entry, ContentPart):
            content.append(entry.as_part())
            labels.append(describe_part(content[-1], entry.name))
        elif not isinstance(entry, str):
            remedy = "Wrap it: Image.from_bytes(...), Document.from_path(...), Audio.from_path(...)."
            raise DefinitionError(f"query[{place}]: expected a text or a part, got {type(entry).__name__}. {remedy}")
        elif entry.strip():
            content.append({"type": "text", "text": entry.strip()})
            labels.append(entry.strip())
    return " ".join(labels), content


def describe_part(part: Mapping[str, Any], name: str = "") -> str:
    """Return a part of a message as a short text: a text itself, of another part its type, name and size."""
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    media, size, address = read_part(part)
    shown = [media or str(kind), name or address or str((part.get("file") or {}).get("filename") or "")]
    return f"[{', '.join(filter(None, [' '.join(filter(None, shown)), f'{size:,} bytes' if size else '']))}]"


def describe_unseen(part: Mapping[str, Any]) -> str:
    """Return the note that stands in the place of a part which the model does not take."""
    return f"{describe_part(part)[:-1]}: this model cannot see it]"


def read_part(part: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return the media type, the size in bytes and the URL of a part; "" and 0 for what it does not have."""
    kind = part.get("type")
    inner = part.get(str(part.get("type")))
    inner = inner if isinstance(inner, Mapping) else {"url": inner}
    if kind == "input_audio":
        return f"audio/{inner.get('format')}", _count_bytes(str(inner.get("data", ""))), ""
    text = str(inner.get("url") or inner.get("file_data") or "")
    if found := _DATA_URL.match(text):
        return found[1] or "", _count_bytes(text, found.end()), ""
    return {"image_url": "image"}.get(str(kind), ""), 0, text if _URL.fullmatch(text) else ""


def data_url_of(part: Mapping[str, Any]) -> str:
    """Return the data URL of a part, "" without data."""
    inner = part.get(str(part.get("type")))
    inner = inner if isinstance(inner, Mapping) else {}
    if part.get("type") == "input_audio":
        return f"data:audio/{inner.get('format')};base64,{inner.get('data', '')}"
    text = str(inner.get("url") or inner.get("file_data") or "")
    return text if _DATA_URL.match(text) else ""


def parts_of(message: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of a message that are not text."""
    content = message.get("content")
    if isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict) and part.get("type") != "text")


def join_contents(first: Content, second: Content) -> str | list[Part]:
    """Return the contents of two messages as one, without empty ones: a text, or parts if one of them has parts."""
    if not isinstance(first, list) and not isinstance(second, list):
        return "\n\n".join(filter(None, (first, second)))
    return [part for content in (first, second) for part in _list_parts(content)]


def _list_parts(content: Content) -> list[Part]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []


def _count_bytes(text: str, start: int = 0) -> int:
    """Return how many bytes base64 text stands for."""
    return (len(text) - start) * 3 // 4 - text.count("=", -2)


_LONG_DATA = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{400,}={0,2}")


def shorten_data(text: str) -> str:
    """Return a text for logs and errors in which long base64 data is replaced by its length."""
    return _LONG_DATA.sub(lambda found: f"({len(found[0]):,} characters of data)", text)
