"""Files with conversations: new ones can be read and written by their owner only."""

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

MODE = 0o600


def open_private(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> IO[Any]:
    """Open a file as `open` does; a new file has no permissions for other users, an existing one keeps its own."""
    return open(path, mode, opener=_open_descriptor, **options)


def create_private(path: str | os.PathLike[str]) -> None:
    """Create an empty file unless there is one; a failure is left to the library that opens it next.

    A file that exists is not opened: to close it would end the locks that SQLite has on it in this process (fcntl(2)).
    """
    with suppress(OSError):
        os.close(_open_descriptor(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file, so that it has the whole old or the whole new content, even if the process dies.

    A new file is readable by its owner only; an existing one keeps its permissions.  A device or a pipe is written to.

    Raises:
        OSError: The file cannot be written; the error names it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe: a file must not replace it
        try:
            path.write_bytes(data)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        return
    path = path.resolve()  # replace the target of a link, not the link
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder. Name a file in it", str(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except FileNotFoundError as error:
        remedy = f"the folder {path.parent} does not exist. Create it, or name another file"
        raise FileNotFoundError(error.errno, remedy, str(path)) from None
    except OSError as error:  # it names the temporary file
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _open_descriptor(path: str | os.PathLike[str], flags: int) -> int:
    return os.open(path, flags, MODE)
