"""A folder whose files a model may name: every path is opened name by name from the folder, and no link is followed.

Each name is opened relative to the descriptor of its parent (`openat`) with `O_NOFOLLOW`, so that a link never leads
out, also if it is put there between two steps.  This needs POSIX, as on Linux and macOS.
"""

import errno
import os
import stat
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from agentkit import DefinitionError, ToolError
from agentkit.tools import truncate

EXCLUDED = (".git", ".hg", ".svn", ".env", ".env.*", ".venv", "node_modules", "__pycache__")
"""Patterns of names that a model neither sees nor reaches: what runs by itself, secrets, and what others installed."""
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
"""Folders in folders."""
MAX_WALK_ENTRIES = 100_000
"""Files and folders that one walk visits."""

Kind: TypeAlias = Literal["file", "folder", "link", "other"]
_CHUNK_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "the permission is missing",
    errno.EPERM: "the permission is missing",
    errno.EROFS: "the disk is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EEXIST: "it exists already",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EINVAL: "this is not possible with these paths",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder: its path from the root with `/`, and the size of a file."""

    path: str
    kind: Kind
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes with a file, so that a change between reading and writing is noticed."""

    device: int
    inode: int
    changed: int
    size: int


class Folder:
    """The files below one folder.

    Args:
        root: The folder; it must exist.  Links in its own path are followed once, now.
        exclude: Patterns of names (`fnmatch`, any case) of files and folders that do not exist for the model.

    Raises:
        DefinitionError: The root is not a folder, or the system cannot open files relative to a folder.
    """

    def __init__(self, root: str | os.PathLike[str], exclude: Collection[str] = EXCLUDED) -> None:
        if not {os.open, os.stat, os.rename, os.unlink, os.mkdir, os.rmdir} <= os.supports_dir_fd:
            raise DefinitionError("files: this system cannot open files relative to a folder. Linux and macOS can.")
        if isinstance(exclude, str):
            raise DefinitionError(f"exclude: expected a list of patterns, got the text {exclude!r}")
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise DefinitionError(f"root: {str(root)!r} is not a folder. Create it first.")
        self._exclude = tuple(_fold(pattern) for pattern in exclude)

    def is_excluded(self, name: str) -> bool:
        """Return whether a name is kept from the model, however it is written."""
        folded = _fold(name)
        return any(fnmatchcase(folded, pattern) for pattern in self._exclude)

    def split(self, path: str) -> tuple[str, ...]:
        """Return the names on the way from the root.

        Raises:
            ToolError: The path leads out of the root, is excluded, or cannot be a path.
        """
        shown = truncate(path)
        if "\0" in path or any(0xD800 <= ord(letter) <= 0xDFFF for letter in path):
            raise ToolError(f"{shown!r} is not a path.")
        inner = path
        if path.startswith("/"):
            inner = path.removeprefix(str(self.root))
            if inner == path or (inner and not inner.startswith("/")):
                raise ToolError(f"{shown!r} is outside of the folder. Write paths from its root, without a leading /.")
        names: list[str] = []
        for name in inner.split("/"):
            if name == "..":
                if not names:
                    raise ToolError(f"{shown!r} is outside of the folder.")
                names.pop()
            elif name not in ("", "."):
                names.append(name)
        if len(names) > MAX_DEPTH or any(len(name.encode()) > MAX_NAME_BYTES for name in names):
            raise ToolError(f"{shown!r} is too long for a path.")
        if any(self.is_excluded(name) for name in names):
            raise ToolError(f"{shown!r} is not accessible with this tool.")
        return tuple(names)

    @contextmanager
    def open_folder(self, path: str | Sequence[str], *, create: bool = False) -> Iterator[int]:
        """Open a folder below the root; `create` makes the folders on the way."""
        names = self.split(path) if isinstance(path, str) else path
        shown = "/".join(names) or "."
        with _explain(shown):
            at = os.open(self.root, _DIRECTORY)
        try:
            for depth, name in enumerate(names):
                found = _find_name(at, name)
                if create:
                    with _explain(shown), suppress(FileExistsError):
                        os.mkdir(found, dir_fd=at)
                with self._explain_missing(at, names[: depth + 1]):
                    inner = os.open(found, _DIRECTORY, dir_fd=at)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    @contextmanager
    def open_parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that holds a path; yield its descriptor and the name in it."""
        names = self.split(path)
        if not names:
            raise ToolError(f"{truncate(path)!r} is the root of the folder. Name a file in it.")
        with self.open_folder(names[:-1], create=create) as parent:
            yield parent, _find_name(parent, names[-1])

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a regular file for reading; yield its descriptor and its status."""
        with self.open_parent(path) as (parent, name):
            with self._explain_missing(parent, self.split(path)):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                _check_regular(found, path)
                file = os.open(name, _READ, dir_fd=parent)
            try:
                status = os.fstat(file)
                _check_regular(status, path)
                yield file, status
            finally:
                os.close(file)

    def read(self, path: str, max_bytes: int) -> tuple[bytes, Stamp]:
        """Return a file's content and its stamp.

        Raises:
            ToolError: The file does not exist, is a link, a device or a folder, or is longer than `max_bytes`.
        """
        with self.open_file(path) as (file, status):
            content = bytearray()
            while len(content) <= max_bytes and (chunk := os.read(file, _CHUNK_BYTES)):
                content += chunk
            if len(content) > max_bytes:
                raise ToolError(f"{truncate(path)!r} is too large: {status.st_size:,} bytes, at most {max_bytes:,}.")
            return bytes(content), _stamp(status)

    def stat(self, path: str) -> Entry | None:
        """Return the kind and the size of a path, or None if nothing is there."""
        if not self.split(path):
            return Entry(".", "folder")
        try:
            with self.open_parent(path) as (parent, name), self._explain_missing(parent, self.split(path)):
                return _describe("/".join(self.split(path)), os.stat(name, dir_fd=parent, follow_symlinks=False))
        except NotFound:
            return None

    def write(self, path: str, content: bytes, *, replaces: Stamp | None) -> None:
        """Write a file as a whole: others see the old content or the new one, never a part.

        Args:
            path: The file; the folders on the way to a new file are created.
            content: All of the file.
            replaces: The file that is replaced, as it was read; None for a new file.

        Raises:
            ToolError: Something is at the path that is not the file which is replaced.
        """
        shown = truncate(path)
        with self.open_parent(path, create=replaces is None) as (parent, name), _explain(shown):
            mode = 0o666
            if replaces is not None:
                with self._explain_missing(parent, self.split(path)):
                    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                _check_regular(status, path)
                if _stamp(status) != replaces:
                    raise ToolError(f"{shown!r} was changed by others in the meantime. Read it again.")
                mode = stat.S_IMODE(status.st_mode) & 0o777
            elif _exists(parent, name):
                raise ToolError(f"{shown!r} exists already.")
            draft = f".{uuid4().hex}.draft"
            file = os.open(draft, _CREATE, mode, dir_fd=parent)
            try:
                with open(file, "wb") as stream:
                    if replaces is not None:
                        os.fchmod(file, mode)
                    stream.write(content)
                if replaces is None:
                    _rename_to_new(parent, draft, parent, name)
                else:
                    os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=parent)
                raise

    def move(self, path: str, new_path: str) -> None:
        """Move a file or a folder to a path where nothing is; the folders on the way are created."""
        with self.open_parent(path) as (parent, name):
            with self._explain_missing(parent, self.split(path)):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                _check_regular(status, path)
            target = self.split(new_path)
            if self.split(path) == target[: len(self.split(path))]:
                raise ToolError(f"{truncate(path)!r} cannot be moved into itself.")
            with self.open_parent(new_path, create=True) as (new_parent, new_name), _explain(truncate(new_path)):
                if _exists(new_parent, new_name):
                    raise ToolError(f"{truncate(new_path)!r} exists already. Choose another path.")
                if stat.S_ISDIR(status.st_mode):
                    os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent)
                else:
                    _rename_to_new(parent, name, new_parent, new_name)

    def delete(self, path: str) -> Kind:
        """Delete a file, a link (not its target) or an empty folder, and return which."""
        with self.open_parent(path) as (parent, name):
            with self._explain_missing(parent, self.split(path)):
                kind = _kind(os.stat(name, dir_fd=parent, follow_symlinks=False))
            with _explain(truncate(path)):
                if kind == "folder":
                    os.rmdir(name, dir_fd=parent)
                else:
                    os.unlink(name, dir_fd=parent)
        return kind

    def list_entries(self, path: str = ".") -> list[Entry]:
        """Return what is in a folder, by name, folders first."""
        names = self.split(path)
        with self.open_folder(names) as at:
            return sorted(self._scan(at, names), key=lambda entry: (entry.kind != "folder", entry.path))

    def walk(self, path: str = ".", max_entries: int = MAX_WALK_ENTRIES) -> Iterator[Entry]:
        """Yield the files below a folder, as `walk_all` does."""
        return (entry for entry in self.walk_all(path, max_entries) if entry.kind == "file")

    def walk_all(self, path: str = ".", max_entries: int = MAX_WALK_ENTRIES) -> Iterator[Entry]:
        """Yield what is below a folder, folder by folder, each by name; links are not followed.

        Raises:
            ToolError: There are more than `max_entries` files and folders.
        """
        waiting = [self.split(path)]
        seen = 0
        while waiting:
            names = waiting.pop()
            with self.open_folder(names) as at:
                entries = sorted(self._scan(at, names), key=lambda entry: entry.path)
            seen += len(entries)
            if seen > max_entries:
                raise ToolError(f"The folder has more than {max_entries:,} files. Name a folder in it.")
            yield from entries
            folders = [tuple(entry.path.split("/")) for entry in entries if entry.kind == "folder"]
            waiting.extend(folder for folder in reversed(folders) if len(folder) <= MAX_DEPTH)

    def _scan(self, at: int, names: Sequence[str]) -> Iterator[Entry]:
        for name in os.listdir(at):
            if not self.is_excluded(name):
                with suppress(FileNotFoundError):
                    yield _describe("/".join((*names, name)), os.stat(name, dir_fd=at, follow_symlinks=False))

    @contextmanager
    def _explain_missing(self, parent: int, names: Sequence[str]) -> Iterator[None]:
        """Raise an OS error as `ToolError`; that of a missing name with the names that are similar."""
        shown = "/".join(names)
        try:
            yield
        except FileNotFoundError:
            known = {_fold(name): name for name in os.listdir(parent) if not self.is_excluded(name)}
            close = [known[name] for name in get_close_matches(_fold(names[-1]), known, 3, 0.6)]
            similar = " or ".join(repr("/".join((*names[:-1], name))) for name in close)
            hint = f"Did you mean {similar}?" if similar else "List the folder to see what is there."
            raise NotFound(f"{truncate(shown)!r} does not exist. {hint}") from None
        except OSError as error:
            raise _to_tool_error(error, shown) from None


class NotFound(ToolError):
    """A path at which nothing is."""


def _fold(name: str) -> str:
    """Return a name as file systems compare it that ignore case, accents' composition and invisible characters."""
    visible = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", visible.casefold()).rstrip(". ") or name


def _find_name(parent: int, name: str) -> str:
    """Return the name as it is stored, if that is another composition of the same letters."""
    if name.isascii() or _exists(parent, name):
        return name
    wanted = unicodedata.normalize("NFC", name)
    same = [known for known in os.listdir(parent) if unicodedata.normalize("NFC", known) == wanted]
    return same[0] if len(same) == 1 else name


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _rename_to_new(parent: int, name: str, new_parent: int, new_name: str) -> None:
    """Rename a file to a name that nothing has; unlike `rename`, a hard link never replaces what is there."""
    try:
        os.link(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent)
    else:
        os.unlink(name, dir_fd=parent)


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def _describe(path: str, status: os.stat_result) -> Entry:
    kind = _kind(status)
    return Entry(path, kind, status.st_size if kind == "file" else 0)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _check_regular(status: os.stat_result, path: str) -> None:
    kind = _kind(status)
    if kind == "folder":
        raise ToolError(f"{truncate(path)!r} is a folder, not a file.")
    if kind == "link":
        raise ToolError(f"{truncate(path)!r} is a link. Links are not followed.")
    if kind == "other":
        raise ToolError(f"{truncate(path)!r} is not a regular file.")


@contextmanager
def _explain(shown: str) -> Iterator[None]:
    """Raise an OS error as `ToolError`."""
    try:
        yield
    except OSError as error:
        raise _to_tool_error(error, shown) from None


def _to_tool_error(error: OSError, shown: str) -> ToolError:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        reason = "it is a link, or below one. Links are not followed"
    elif error.errno == errno.ENOTDIR:
        reason = "it is not a folder, or below a file or a link. Links are not followed"
    else:
        reason = _REASONS.get(error.errno or 0, type(error).__name__)
    return ToolError(f"{truncate(shown)!r}: {reason}.")
