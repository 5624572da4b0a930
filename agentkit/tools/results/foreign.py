"""The content of values from other libraries, recognised by their class; none of the libraries is imported.

Supported: PIL images, matplotlib figures, `BytesIO`, paths of image files, SQLAlchemy rows and mapped objects, Polars
frames and series, responses of httpx and requests, attrs and msgspec objects.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
MAX_IMAGE_FILE_BYTES = 50_000_000
"""A larger file is not read, and its path is shown."""
MAX_FRAME_ROWS = 100_000
"""Rows of a Polars frame that are shown; a lazy frame collects no more either."""


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
    return _save(lambda file: (value if value.mode in _PNG_MODES else value.convert("RGB")).save(file, format="PNG"))


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


def _split_sqlalchemy(value: Any, _: bool) -> Any:
    row = getattr(value, "_mapping", None)
    return None if row is None else dict(row)


def _split_polars(value: Any, _: bool) -> Any:
    if hasattr(value, "collect") and hasattr(value, "head"):
        value = value.head(MAX_FRAME_ROWS).collect()
    if hasattr(value, "to_dicts"):
        rows = value.head(MAX_FRAME_ROWS).to_dicts()
        rest = value.height - len(rows)
        return [*rows, f"... {rest:,} more"] if rest else rows
    return value.to_list() if hasattr(value, "to_list") else None


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
    "sqlalchemy": _split_sqlalchemy,
    "polars": _split_polars,
    "httpx": _split_response,
    "requests": _split_response,
}
