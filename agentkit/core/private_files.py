"""Files with conversations: new ones can be read and written by their owner only."""

import os
from contextlib import suppress
from typing import IO, Any

MODE = 0o600


def open_private(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> IO[Any]:
    """Open a file as `open` does; a new file has no permissions for other users, an existing one keeps its own."""
    return open(path, mode, opener=_open_descriptor, **options)


def create_private(path: str | os.PathLike[str]) -> None:
    """Create an empty file unless there is one; a failure is left to the library that opens it next."""
    with suppress(OSError):
        os.close(_open_descriptor(path, os.O_RDWR | os.O_CREAT))


def _open_descriptor(path: str | os.PathLike[str], flags: int) -> int:
    return os.open(path, flags, MODE)
