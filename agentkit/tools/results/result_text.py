"""Convert a tool's return value to what the model reads: text, and images as content parts; and find values in it."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ...core.parts import ContentPart, Part, describe_part, detect_media_type
from ...core.portable import to_valid_text
from ...core.values import frozen
from .jsonable import MAX_IMAGE_BYTES, describe_object, to_json_data
from .tables import Table, format_table

_write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
MAX_IMAGES = 10
"""Content parts of one result; more are only described."""

_DATA_CLASSES = ("_fields", "__attrs_attrs__", "__struct_fields__", "__mapper__")
"""Attributes of classes that hold data: named tuples, and those of attrs, msgspec and SQLAlchemy."""


_NOT_OWN = frozenset({"builtins", "pydantic", "enum", "msgspec", "sqlalchemy", "attr", "attrs"})


@frozen
class RenderedResult:
    """The text of a value, with a note in the place of each image, document and sound, and `images`: their parts.

    `is_json` tells whether the text is the value as JSON; else it is the value itself, or a text in its place.
    `has_tables` tells whether the value is a data frame or has one in it, which the text shows as a table.
    """

    text: str
    images: Sequence[Part] = ()
    is_json: bool = False
    has_tables: bool = False

    @classmethod
    def with_parts(cls, text: str, parts: Sequence[Part]) -> "RenderedResult":
        """Return a text with the parts that a model is shown of `parts`, which are the first ones."""
        return cls(text, parts[:MAX_IMAGES])


@frozen
class StoredResult:
    """The result of a tool that ran before or in another process: the value for callers, and what the model reads."""

    value: Any
    rendered: RenderedResult


def render_text(value: Any) -> str:
    """Return `value` as text for the model.  Never raises.

    A string is unchanged.  Data (dataclasses, pydantic models, sets and the like) is compact JSON, a data frame is a
    table with the types of its columns and the number of its rows.  Other objects, and data classes that define
    `__str__`, are shown by their `__str__`.  None is `null`, bytes are described by type and size.
    """
    return render_result(value).text


def render_result(value: Any) -> RenderedResult:
    """Return the text of `value`, and its PNG, JPEG, GIF and WebP images and `ContentPart`s as content parts."""
    if type(value) is str:
        return RenderedResult(to_valid_text(value))
    if isinstance(value, StoredResult):
        return value.rendered
    if has_own_text(value):
        return RenderedResult(describe_object(value))
    images: list[Part] = []
    tables: list[Table] = []

    def shown(content: bytes | ContentPart | Table) -> str:
        if isinstance(content, Table):
            tables.append(content)
            return format_table(content)
        if isinstance(content, ContentPart):
            part = content.as_part()
            if len(images) < MAX_IMAGES:
                images.append(part)
            return describe_part(part, content.name)
        if len(images) < MAX_IMAGES and (image := read_image(content)):
            images.append(image)
        return _describe_bytes(content)

    data = to_json_data(value, shown)
    if isinstance(data, str):
        return RenderedResult(data, images, has_tables=bool(tables))
    return RenderedResult(_write_json(data), images, is_json=not tables, has_tables=bool(tables))


def read_image(content: bytes) -> Part | None:
    """Return an image as a content part; None for other bytes, and for an image that is too large for a model."""
    kind = detect_media_type(content)  # whatever its source states
    if not kind.startswith("image/") or len(content) > MAX_IMAGE_BYTES:
        return None
    # a data URL, which every provider's format supports
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{b64encode(content).decode()}"}}


def _describe_bytes(content: bytes) -> str:
    kind = detect_media_type(content)
    if not kind and content:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if all(letter.isprintable() or letter in "\n\r\t" for letter in text):
            return text
    return f"[{kind or 'binary data'}, {len(content):,} bytes]"


def has_own_text(value: Any) -> bool:
    """Return whether a data class defines its own `__str__`, other than those of pydantic, Python and enums."""
    cls = type(value)
    if (
        cls.__module__ == "builtins"
        or isinstance(value, Enum)
        or not (isinstance(value, BaseModel) or is_dataclass(cls) or any(hasattr(cls, name) for name in _DATA_CLASSES))
    ):
        return False
    return any("__str__" in vars(base) for base in cls.__mro__ if base.__module__.partition(".")[0] not in _NOT_OWN)


MAX_RESULT_VALUES = 1_000
MAX_REPEATED_VALUE_CHARS = 1_000
"""A longer text is no value that a call repeats."""


def find_values(value: Any, paths: Iterable[str]) -> tuple[str | int | float, ...]:
    """Return the texts and numbers in the fields at these paths, such as `sender.email`; lists are transparent.

    The path "" is the result itself, or each entry of a list.
    """
    data = to_json_data(value)
    found = (entry for path in paths for entry in _walk(data, path.split(".") if path else []))
    return tuple(dict.fromkeys(entry for entry, _ in zip(found, range(MAX_RESULT_VALUES), strict=False)))


def _walk(data: Any, path: list[str]) -> Iterator[str | int | float]:
    if isinstance(data, list):
        for entry in data:
            yield from _walk(entry, path)
    elif path:
        if isinstance(data, dict) and path[0] in data:
            yield from _walk(data[path[0]], path[1:])
    elif (isinstance(data, int | float) and not isinstance(data, bool)) or (
        isinstance(data, str) and 0 < len(data) <= MAX_REPEATED_VALUE_CHARS
    ):
        yield data
