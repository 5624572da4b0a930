"""Convert any Python value to JSON data: dicts with text keys, lists, text, numbers, booleans and null.

Nothing raises: cycles are marked, depth and size are limited, and an object without text of its own is described by its
class, never by an address.

Values of other libraries are recognised by their class; none of the libraries is imported.  Supported: PIL images,
figures with `savefig`, `BytesIO`, paths of image files, SQLAlchemy rows and mapped objects, data frames, Polars series,
responses of httpx and requests, attrs and msgspec objects.
"""

import dataclasses
import inspect
import io
import itertools
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Set, ValuesView
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

from ...core.background import MAX_ITEMS, collect_items, is_lazy
from ...core.errors import ExceptionInfo
from ...core.masking import mask
from ...core.parts import ContentPart, describe_part
from ...core.portable import find_flaw, to_valid_text, truncate
from ...schemas.annotations import SCALARS
from .tables import MAX_CELL_CHARS_READ, MAX_COLUMNS_READ, MAX_ROWS_READ, Table, format_table, is_frame, read_frame

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
MAX_IMAGE_BYTES = 3_750_000
"""5 MB of base64, Anthropic's limit ("Vision", limits); a larger image is only described."""
MAX_IMAGE_FILE_BYTES = 50_000_000
"""A larger file is not read, and its path is shown."""
MAX_FRAME_ROWS = 100_000
"""Rows of a data frame as JSON; a lazy frame collects no more either."""


def split_foreign(value: Any, *, with_images: bool) -> Any:
    """Return the content of a value one level deep; None if the value is of no supported class.

    Images are bytes, with `with_images`; else they are not read or rendered.
    """
    if isinstance(value, io.BytesIO):
        return value.getvalue()
    if isinstance(value, Path):
        return _read_image_file(value) if with_images else None
    cls = type(value)
    if hasattr(cls, "__attrs_attrs__"):
        return _get_fields(value, [field.name for field in cls.__attrs_attrs__])
    if hasattr(cls, "__struct_fields__"):
        return _get_fields(value, cls.__struct_fields__)
    if hasattr(cls, "__mapper__") and hasattr(value, "_sa_instance_state"):
        return _get_fields(value, [column.key for column in cls.__mapper__.column_attrs])
    libraries = {base.__module__.partition(".")[0] for base in cls.__mro__}
    for library, split in _BY_LIBRARY.items():
        if library in libraries:
            return split(value, with_images)
    if with_images and hasattr(cls, "savefig"):
        return _save(partial(value.savefig, format="png"))
    return None


def _get_fields(value: Any, names: Any) -> dict[str, Any]:
    """Return attributes by name; without those that cannot be read, like columns of a detached SQLAlchemy object."""
    found = {}
    for name in names:
        with suppress(Exception):
            found[name] = getattr(value, name)
    return found


def _read_image_file(path: Path) -> Any:
    try:
        if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() and path.stat().st_size <= MAX_IMAGE_FILE_BYTES:
            return {"path": str(path), "image": path.read_bytes()}
    except OSError:
        pass
    return None


def _split_pillow(value: Any, with_images: bool) -> Any:
    if not (with_images and callable(getattr(value, "save", None)) and hasattr(value, "mode")):
        return None
    content = _save(partial((value if value.mode in _PNG_MODES else value.convert("RGB")).save, format="PNG"))
    return content if len(content) <= MAX_IMAGE_BYTES else _compress(value.convert("RGB"))


def _compress(image: Any) -> bytes:
    """Return a Pillow image as a JPEG that a model takes, at half the size as often as that needs."""
    while len(content := _save(partial(image.save, format="JPEG", quality=_JPEG_QUALITY))) > MAX_IMAGE_BYTES:
        image = image.reduce(2)
    return content


_JPEG_QUALITY = 85
_PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})


def _split_matplotlib(value: Any, with_images: bool) -> Any:
    figure: Any = value if hasattr(value, "savefig") else getattr(value, "figure", None)
    if not (with_images and hasattr(figure, "savefig")):
        return None
    return _save(lambda file: figure.savefig(file, format="png", bbox_inches="tight"))


def _save(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def _split_response(value: Any, _: bool) -> Any:
    """Return status, media type and body of a response; the body as JSON, text or an image."""
    if not (hasattr(value, "status_code") and hasattr(value, "headers")):
        return None
    kind = str(value.headers.get("content-type", "")).partition(";")[0].strip().lower()
    found: dict[str, Any] = {"status": value.status_code, "type": kind}
    try:
        if kind == "application/json" or kind.endswith("+json"):
            with suppress(ValueError):
                return {**found, "json": value.json()}
        if kind.startswith("image/"):
            return {**found, "image": value.content}
        return {**found, "text": value.text}
    except Exception as error:  # the body of a stream was not read
        return {**found, "text": f"<not read: {type(error).__name__}>"}


_BY_LIBRARY: dict[str, Callable[[Any, bool], Any]] = {
    "PIL": _split_pillow,
    "matplotlib": _split_matplotlib,
    "sqlalchemy": lambda value, _: dict(value._mapping) if hasattr(value, "_mapping") else None,
    "polars": lambda value, _: value.to_list() if hasattr(value, "to_list") else None,
    "httpx": _split_response,
    "requests": _split_response,
}


MAX_DATA_NESTING = 60
"""Levels of nesting."""
MAX_ENTRIES = 500_000
"""Entries of all lists and dicts together, which also bounds structures with shared parts."""
MAX_PROBED = 20
"""Entries of a collection inside a model that are searched for images."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_SEQUENCES = (list, tuple, Set, range, deque, KeysView, ValuesView)


def to_json_data(value: Any, show: "Callable[[bytes | ContentPart | Table], str] | None" = None) -> Any:
    """Return `value` as data that `json.dumps` accepts.

    Dataclasses, pydantic models, mappings, sequences, sets, iterators, numpy arrays and the values that `split_foreign`
    supports become data.  Dates become ISO text, decimals and paths text, enums their values, NaN and infinity text;
    other objects become text.

    Args:
        value: Any value.
        show: Returns the text for bytes, images, and data frames as tables whose cells are JSON data.  Without it bytes
            are their size, images are not rendered, and a data frame is a list of its rows as objects.
    """
    return _Conversion(show).plain(value, ())


def to_answer_data(value: Any) -> Any:
    """Return an answer as JSON data in pydantic's form, from which its type reads it again.

    A value that has no such form, such as an image, a NaN or a list in itself, has that of `to_json_data`.
    """
    try:
        data = to_jsonable_python(value, fallback=str)
    except Exception:
        return to_json_data(value)
    return data if find_flaw(data) is None else to_json_data(value)


def describe_object(value: Any) -> str:
    """Return an object's own text; its class if it has none or its `__str__` raises."""
    if isinstance(value, type | ModuleType) or inspect.isroutine(value):
        return value.__name__
    if isinstance(value, BaseException):
        return str(ExceptionInfo.of(value))
    if inspect.iscoroutine(value):
        value.close()
        return "(a coroutine that was not awaited)"
    cls = type(value)
    own = any("__str__" in vars(base) or "__repr__" in vars(base) for base in cls.__mro__ if base is not object)
    try:
        return to_valid_text(_ADDRESS.sub("", str(value))) if own else f"<{cls.__name__}>"
    except Exception as error:
        return f"<{cls.__name__}: its __str__ raised {type(error).__name__}>"


class _Conversion:
    """One conversion: the entries that it may still show, and the objects that enclose the current one."""

    def __init__(self, show: Callable[[bytes | ContentPart | Table], str] | None) -> None:
        self._is_shown = show is not None
        self._show = show or _describe_content
        self._left = MAX_ENTRIES
        self._without_parts: dict[int, Any] = {}
        self._sizes: dict[int, tuple[Any, int]] = {}

    def plain(self, value: Any, inside: tuple[int, ...]) -> Any:
        """Return `value` as JSON data; `inside` holds the ids of the enclosing objects."""
        if value is None or value is True or value is False:
            return value
        if type(value) is str:
            return to_valid_text(value)
        try:
            return self._number(value) if isinstance(value, int | float) else self._other(value, inside)
        except RecursionError:
            return f"<{type(value).__name__}: nested too deeply>"
        except Exception as error:  # a property, a serializer or an iterator raised
            if is_lazy(value):  # as the error of a tool, which would be this one
                return to_valid_text(f"<{type(value).__name__}: {mask(str(ExceptionInfo.of(error)))}>")
            return describe_object(value)

    def _number(self, value: int | float) -> Any:
        if isinstance(value, Enum):
            return self.plain(value.value, ())
        if isinstance(value, float):
            number = float(value)
            return number if math.isfinite(number) else _NOT_FINITE.get(number, "NaN")
        number = int(value)
        return number if number.bit_length() < 10_000 else hex(number)  # longer ones do not go into decimal text

    def _other(self, value: Any, inside: tuple[int, ...]) -> Any:
        if isinstance(value, str):
            return to_valid_text(value.value if isinstance(value, Enum) else str.__str__(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._show(bytes(value))
        if isinstance(value, ContentPart):
            return self._show(value)
        if isinstance(value, Enum):
            return self.plain(value.value, inside)
        if self._is_shown and is_frame(value):
            parts: Any = read_frame(value, MAX_ROWS_READ, MAX_COLUMNS_READ)
        else:
            parts = _split(value, self._without_parts, self._sizes, with_images=self._is_shown)
        if parts is None:
            return describe_object(value)
        if id(value) in inside:
            return f"<{type(value).__name__} again: a cycle>"
        if len(inside) >= MAX_DATA_NESTING:
            return f"<{type(value).__name__}: nested too deeply>"
        inside = (*inside, id(value))
        if isinstance(parts, Table):
            rows = [[self._cell(cell, inside) for cell in row] for row in parts.rows]
            return self._show(dataclasses.replace(parts, rows=rows))
        if isinstance(parts, Mapping):
            entries, missing = self._affordable(parts.items(), len(parts))
            pairs = [(self._key(key), self.plain(entry, inside)) for key, entry in entries]
            shown: dict[str, Any] = dict(pairs)
            if len(shown) < len(pairs):  # keys of one text, such as 1 and "1"
                return [*map(list, pairs), *([f"... {missing:,} more"] if missing else [])]
            return {**shown, "...": f"{missing:,} more"} if missing else shown
        if isinstance(parts, _SEQUENCES):
            members, missing = self._affordable(parts, len(parts))
            listed = [self.plain(member, inside) for member in members]
            return [*listed, f"... {missing:,} more"] if missing else listed
        return self.plain(parts, inside)

    def _affordable(self, entries: Iterable[Any], size: int) -> tuple[Iterator[Any], int]:
        """Return the entries within the limit, and the number of the others."""
        shown = min(size, self._left)
        self._left -= shown
        return itertools.islice(entries, shown), size - shown

    def _cell(self, value: Any, inside: tuple[int, ...]) -> Any:
        """Return a cell of a table as JSON data, truncated."""
        plain = self.plain(value, inside)
        if isinstance(plain, dict | list):
            text = to_json(plain).decode()
            return plain if len(text) <= MAX_CELL_CHARS_READ else truncate(text, MAX_CELL_CHARS_READ)
        return truncate(plain, MAX_CELL_CHARS_READ) if isinstance(plain, str) else plain

    def _key(self, key: Any) -> str:
        plain = key if type(key) is str else self.plain(key, ())
        return to_valid_text(plain) if isinstance(plain, str) else to_json(plain).decode()


def _describe_content(content: bytes | ContentPart | Table) -> str:
    if isinstance(content, ContentPart):
        return describe_part(content.as_part(), content.name)
    return f"[{len(content)} bytes]" if isinstance(content, bytes) else format_table(content)


def _split(value: Any, without: dict[int, Any], sizes: dict[int, tuple[Any, int]], *, with_images: bool) -> Any:
    """Return the content of a value one level deep: a mapping, a sequence or a simpler value; None if it has none."""
    if isinstance(value, BaseModel):
        return _split_model(value, without, sizes)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (entry.name for entry in dataclasses.fields(value))
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    if isinstance(value, (Mapping, *_SEQUENCES)):
        return value
    if is_frame(value):
        return _list_rows(value)
    if (parts := split_foreign(value, with_images=with_images)) is not None:
        return parts
    if is_lazy(value):
        return collect_items(value, MAX_ITEMS)
    if (parts := _split_array_or_frame(value)) is not None:
        return parts
    try:
        return None if isinstance(value, io.IOBase) else to_jsonable_python(value)  # dates, decimals, paths, ...
    except Exception:
        return None


def _split_model(value: BaseModel, without: dict[int, Any], sizes: dict[int, tuple[Any, int]]) -> Any:
    if not _has_part(value, without) and _count_entries(value, sizes) <= MAX_ENTRIES:
        with suppress(Exception):  # binary data, a cycle, or an object without a JSON form
            return value.model_dump(mode="json", by_alias=True, warnings=False)
    return dict(value)


_SCALAR_TYPES = frozenset(SCALARS)


def _count_entries(value: Any, sizes: dict[int, tuple[Any, int]], depth: int = 0) -> int:
    """Return how many entries a value has as JSON data, which has a shared part once for each of its places.

    `sizes` are the objects by their ids whose entries are counted already, with their numbers.
    """
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        value = getattr(value, "__dict__", None)
    if not isinstance(value, dict | list | tuple):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = value, 1  # for a cycle, which pydantic refuses
        inner = value.values() if isinstance(value, dict) else value
        if depth > MAX_DATA_NESTING:
            size = MAX_ENTRIES
        elif _SCALAR_TYPES.issuperset(map(type, inner)):  # most data, without a call for each entry
            size = len(inner)
        else:
            size = sum(_count_entries(one, sizes, depth + 1) for one in inner)
        sizes[id(value)] = value, 1 + size
    return sizes[id(value)][1]


def _has_part(value: BaseModel, without: dict[int, Any]) -> bool:
    """Return whether a model has an image, a document or a sound in it; of a list the first entries are looked at.

    `without` are the objects by their ids that are known to have none: objects may all refer to each other.
    """
    waiting: list[Any] = [value]
    seen: dict[int, Any] = {}
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, ContentPart):
            return True
        if isinstance(entry, BaseModel):
            entry = vars(entry)
        if isinstance(entry, dict | list | tuple) and id(entry) not in seen and id(entry) not in without:
            seen[id(entry)] = entry
            waiting += itertools.islice(entry.values() if isinstance(entry, dict) else entry, MAX_PROBED)
    without |= seen
    return False


def _split_array_or_frame(value: Any) -> Any:
    """Return the content of numpy and pandas values; they exist only where the library is imported."""
    if (numpy := sys.modules.get("numpy")) is not None:
        if isinstance(value, numpy.datetime64 | numpy.timedelta64):
            return str(value)
        if isinstance(value, numpy.generic):
            return value.item()
        if isinstance(value, numpy.ndarray):
            return _convert_array(value)
    if (pandas := sys.modules.get("pandas")) is not None:
        if isinstance(value, pandas.Series):
            return _convert_series(value, plain=isinstance(value.index, pandas.RangeIndex))
        if isinstance(value, pandas.Index | pandas.api.extensions.ExtensionArray):
            return value.tolist()
    return None


def _convert_array(value: Any) -> Any:
    if value.size > MAX_ENTRIES:
        first = value.reshape(-1)[:MAX_ITEMS]
        return {"shape": list(value.shape), "dtype": str(value.dtype), "first": _convert_array(first)}
    return value.astype(str).tolist() if value.dtype.kind in "mM" else value.tolist()


def _list_rows(frame: Any) -> list[Any]:
    """Return the rows of a data frame as objects, and how many are left out."""
    table = read_frame(frame, MAX_FRAME_ROWS)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    if len(rows) == table.row_count:
        return rows
    return [*rows, "... more" if table.row_count is None else f"... {table.row_count - len(rows):,} more"]


def _convert_series(series: Any, *, plain: bool) -> Any:
    values = series.astype(object).where(series.notna(), None).tolist()  # None for NaN, NaT and NA
    if plain:
        return values
    pairs = list(zip(series.index.tolist(), values, strict=True))
    return dict(pairs) if series.index.is_unique else pairs
