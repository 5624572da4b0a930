"""Tools for the files of one folder: list, find, search, read, write, edit, move, delete."""

import codecs
import difflib
import io
import mimetypes
import os
import re
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import islice
from math import prod
from typing import Any, Literal

import agentkit
from agentkit import ToolError
from agentkit.tools import truncate

from .folder import EXCLUDED, Entry, Folder
from .pdf import is_pdf, read_pdf

MAX_LISTED = 300
"""Files and folders of one result."""
MAX_MATCHES = 100
MAX_MATCH_CHARS = 300
"""Characters of a line that is shown as a match."""
MAX_LINE_CHARS = 2_000
"""A longer line is read as several."""
MAX_READ_LINES = 1_000
MAX_READ_CHARS = 16_000
MAX_TEXT_BYTES = 10_000_000
"""Size of a file that is searched or edited."""
MAX_COUNTED_BYTES = 200_000_000
"""Size of a file whose lines are counted."""
MAX_PDF_BYTES = 50_000_000
MAX_PATTERN_CHARS = 1_000
MAX_DIFF_CHARS = 4_000
MAX_DIFF_LINES = 2_000
"""Lines from the first change to the last; more are counted, not compared."""
MAX_REPEATS = 10_000
"""The product of the counts in a regular expression; its compiled form grows with it."""
SEARCH_SECONDS = 10.0
PDF_SECONDS = 20.0
SNIFFED_BYTES = 8_192

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HUNK = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


def files_tools(
    root: str | os.PathLike[str],
    *,
    write: bool = True,
    trust: Literal["trusted", "untrusted"] | None = "untrusted",
    exclude: Collection[str] = EXCLUDED,
) -> "list[agentkit.JsonTool[..., Any]]":
    """Return tools for the files below one folder, which they never leave.

    Args:
        root: The folder.
        write: Whether there are tools that change files, or only those that read.
        trust: Who may have written the files and their names: "untrusted" for anyone.  None where you trust them: what
            the model writes after it read them then does not wait for approval.
        exclude: Patterns of names of files and folders that the tools neither show nor open.

    Returns:
        `list_files`, `find_files`, `search_files` and `read_file`; with `write` also `write_file`, `edit_file`,
        `move_file` and, with `effect="danger"`, `delete_file`.

    Raises:
        DefinitionError: The folder does not exist.
    """
    files = Files(Folder(root, exclude))
    reading = (files.list_files, files.find_files, files.search_files, files.read_file)
    tools: list[agentkit.JsonTool[..., Any]] = [
        agentkit.JsonTool(method, effect="read", trust=trust) for method in reading
    ]
    if write:
        changing = (files.write_file, files.edit_file, files.move_file)
        tools += [agentkit.JsonTool(method, effect="write", trust=trust) for method in changing]
        tools.append(agentkit.JsonTool(files.delete_file, effect="danger"))
    return tools


@dataclass(frozen=True, slots=True)
class Files:
    """The methods that are tools; paths are relative to the root of the folder."""

    folder: Folder
    search_seconds: float = SEARCH_SECONDS

    def list_files(self, folder: str = ".") -> str:
        """List the files and folders in a folder.

        Args:
            folder: Path from the root.
        """
        entries = self.folder.list_entries(folder)
        lines = [_describe_entry(entry) for entry in entries[:MAX_LISTED]]
        if len(entries) > MAX_LISTED:
            lines.append(f"[{MAX_LISTED} of {len(entries):,}; find_files with a pattern finds the others]")
        return "\n".join(lines) or "[the folder is empty]"

    def find_files(self, pattern: str, folder: str = ".") -> str:
        """Find files by name.

        Args:
            pattern: "*.py" in any folder; with a slash a path from the folder, such as "src/**/test_*.py".
            folder: Where to search.
        """
        found = [entry for entry in self.folder.walk(folder) if _matches(entry.path, pattern, folder)]
        lines = [_describe_entry(entry) for entry in found[:MAX_LISTED]]
        if len(found) > MAX_LISTED:
            lines.append(f"[{MAX_LISTED} of {len(found):,}; a narrower pattern or a folder finds the others]")
        return "\n".join(lines) or f"[no file matches {truncate(pattern)!r}]"

    def search_files(self, text: str, pattern: str = "*", folder: str = ".", regex: bool = False) -> str:
        """Find lines that contain a text, in any case.

        Args:
            text: What to find.
            pattern: Only in files with such names, such as "*.md".
            folder: Where to search.
            regex: Whether the text is a regular expression.
        """
        search = _Search(text, regex, self.search_seconds)
        entries = [entry for entry in self.folder.walk(folder) if _matches(entry.path, pattern, folder)]
        for number, entry in enumerate(entries):
            if search.is_over:
                search.notes.append(f"{len(entries) - number:,} files were not searched; name a folder or a pattern")
                break
            if entry.bytes > MAX_TEXT_BYTES:
                search.too_large.append(entry.path)
                continue
            try:
                content, _ = self.folder.read(entry.path, MAX_TEXT_BYTES)
            except ToolError:  # it is gone, or may not be read
                search.unread += 1
                continue
            if not _is_binary(content):
                text_of_file = _decode(content)[0]
                search.find_in(entry.path, text_of_file.replace("\r\n", "\n").replace("\r", "\n"))
        return search.render()

    def read_file(self, path: str, start_line: int = 1, max_lines: int = 400) -> str:
        """Read a text file or the text of a PDF, with line numbers.

        Args:
            path: Path from the root.
            start_line: The first line; -50 begins 50 lines before the end.
            max_lines: At most 1000.
        """
        shown = truncate(path)
        with self.folder.open_file(path) as (file, status):
            head = os.read(file, SNIFFED_BYTES)
            if not head:
                return "[the file is empty]"
            if not is_pdf(head):
                if _is_binary(head):
                    kind = mimetypes.guess_type(path)[0] or "binary data"
                    raise ToolError(f"{shown!r} is not text but {kind}, {status.st_size:,} bytes.")
                mark, encoding = _guess_encoding(head)
                os.lseek(file, len(mark), os.SEEK_SET)
                with open(file, encoding=encoding, errors="replace", closefd=False) as stream:
                    return _render_lines(stream, shown, status.st_size, start_line, max_lines)
        content, _ = self.folder.read(path, MAX_PDF_BYTES)
        text = read_pdf(content, shown, PDF_SECONDS, "read_file")
        if not text:
            raise ToolError(f"{shown!r} is a PDF without text, such as a scan.")
        return _render_lines(io.StringIO(text), shown, len(text), start_line, max_lines)

    def write_file(self, path: str, text: str, replace: bool = False) -> str:
        """Write a text file.

        Args:
            path: Path from the root; missing folders are created.
            text: The whole content.
            replace: Whether a file that exists is replaced.
        """
        content = _encode(text, "utf-8", path)
        there = self.folder.stat(path)
        if there is None:
            self.folder.write(path, content, replaces=None)
            return f"Created {truncate(path)}, {_count_lines(text)}."
        if there.kind == "file" and not replace:
            raise ToolError(f"{truncate(path)!r} exists already. Use edit_file to change it, or replace=true.")
        before, stamp = self.folder.read(path, MAX_TEXT_BYTES)
        self.folder.write(path, content, replaces=stamp)
        if _is_binary(before):
            return f"Replaced {truncate(path)}, {_count_lines(text)}."
        return _render_diff(path, _decode(before)[0], text)

    def edit_file(self, path: str, old: str, new: str, all: bool = False) -> str:
        """Replace a text in a file. Returns the difference.

        Args:
            path: Path from the root.
            old: The exact text, without line numbers; long enough to occur once.
            new: What replaces it.
            all: Whether each occurrence is replaced.
        """
        shown = truncate(path)
        content, stamp = self.folder.read(path, MAX_TEXT_BYTES)
        if _is_binary(content):
            raise ToolError(f"{shown!r} is not a text file.")
        if not old:
            raise ToolError("old is empty. Give the text to replace; write_file writes a whole file.")
        before, mark, encoding = _decode(content)
        is_windows = "\r" not in old + new and before.count("\n") == before.count("\r\n") > 0
        if is_windows or (old not in before and old.replace("\n", "\r\n") in before):
            old = old.replace("\n", "\r\n")
            new = new.replace("\r\n", "\n").replace("\n", "\r\n")
        count = before.count(old)
        if count == 0:
            raise ToolError(f"{shown!r} does not contain this text. {_hint_closest(before, old)}")
        if count > 1 and not all:
            lines = ", ".join(map(str, islice(_find_lines(before, old), 10)))
            raise ToolError(
                f"{shown!r} contains this text {count:,} times (lines {lines}). "
                "Give more of the text around it, or all=true."
            )
        after = before.replace(old, new)
        if after == before:
            raise ToolError("old and new are the same text.")
        self.folder.write(path, mark + _encode(after, encoding, path), replaces=stamp)
        return _render_diff(path, before, after)

    def move_file(self, path: str, new_path: str) -> str:
        """Move or rename a file or a folder.

        Args:
            path: Path from the root.
            new_path: Where nothing is yet.
        """
        self.folder.move(path, new_path)
        return f"Moved {truncate(path)} to {truncate(new_path)}."

    def delete_file(self, path: str) -> str:
        """Delete a file or an empty folder permanently.

        Args:
            path: Path from the root.
        """
        return f"Deleted the {self.folder.delete(path)} {truncate(path)}."


class _Search:
    """The matches of a text in one file after the other."""

    def __init__(self, text: str, is_regex: bool, seconds: float) -> None:
        if not text or len(text) > MAX_PATTERN_CHARS:
            raise ToolError(f"text must have 1 to {MAX_PATTERN_CHARS:,} characters, got {len(text):,}.")
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.too_large: list[str] = []
        self.unread = 0
        self._end = time.monotonic() + seconds
        self._options: dict[str, Any] = {}
        if not is_regex:
            self._pattern: Any = re.compile(re.escape(text), re.IGNORECASE)
            return
        try:
            import regex  # unlike `re`, it has a time limit, and others run meanwhile
        except ImportError:
            raise ImportError("search_files needs the package regex for regex=true: pip install regex") from None
        if prod(max(int(least), 1) for least in re.findall(r"\{(\d{1,9})", text)) > MAX_REPEATS:
            raise ToolError("text repeats too much: counts such as {1000} inside of each other. Use * or + instead.")
        try:
            self._pattern = regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ToolError(f"text is not a regular expression: {error}.") from None
        self._options = {"concurrent": True}

    @property
    def is_over(self) -> bool:
        return len(self.lines) >= MAX_MATCHES or time.monotonic() > self._end

    def find_in(self, path: str, text: str) -> None:
        if self._options:
            self._options["timeout"] = max(self._end - time.monotonic(), 0.01)
        line = 1
        counted = 0
        shown = 0
        try:
            for match in self._pattern.finditer(text, **self._options):
                line += text.count("\n", counted, match.start())
                counted = match.start()
                if line == shown:
                    continue
                if len(self.lines) == MAX_MATCHES:
                    self.notes.append(f"more than {MAX_MATCHES} lines match; use a longer text, a pattern or a folder")
                    return
                begin = max(text.rfind("\n", 0, counted) + 1, counted - MAX_MATCH_CHARS // 2)
                end = text.find("\n", counted)
                part = text[begin : end if end >= 0 else None][: MAX_MATCH_CHARS + 1].strip()
                self.lines.append(f"{_printable(path)}:{line}: {truncate(part, MAX_MATCH_CHARS)}")
                shown = line
        except TimeoutError:
            self.notes.append(f"{_printable(path)}: the regular expression takes too long; use a simpler one")

    def render(self) -> str:
        if self.too_large:
            names = ", ".join(map(_printable, self.too_large[:5]))
            self.notes.append(f"{len(self.too_large):,} files are too large to search: {names}")
        if self.unread:
            self.notes.append(f"{self.unread:,} files could not be read")
        lines = self.lines or ["[nothing was found]"]
        return "\n".join([*lines, *(f"[{note}]" for note in self.notes)])


def _describe_entry(entry: Entry) -> str:
    path = _printable(entry.path)
    if entry.kind == "folder":
        return f"{path}/"
    return f"{path} ({entry.bytes:,} bytes)" if entry.kind == "file" else f"{path} ({entry.kind}, not accessible)"


def _printable(path: str) -> str:
    return path if path.isprintable() else ascii(path)


def _matches(path: str, pattern: str, folder: str) -> bool:
    """Return whether a path matches a pattern: one without a slash its name, else its names below the folder."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ToolError(f"pattern must have at most {MAX_PATTERN_CHARS:,} characters, got {len(pattern):,}.")
    names = path.split("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern:
        return bool(parts) and _matches_name(names[-1], parts[0])
    base = len([part for part in folder.split("/") if part not in ("", ".")])
    return _matches_names(names[base:], parts) or _matches_names(names, parts)


def _matches_name(name: str, pattern: str) -> bool:
    return re.match(translate(pattern.casefold()), name.casefold()) is not None


def _matches_names(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Match names one by one; `**` stands for any number of them.  The last `**` alone is tried again."""
    at = part = 0
    again: tuple[int, int] | None = None
    while at < len(names):
        if part < len(parts) and parts[part] == "**":
            part += 1
            again = (at, part)
        elif part < len(parts) and _matches_name(names[at], parts[part]):
            at += 1
            part += 1
        elif again is not None:
            again = (again[0] + 1, again[1])
            at, part = again
        else:
            return False
    return all(rest == "**" for rest in parts[part:])


def _is_binary(content: bytes) -> bool:
    head = content[:SNIFFED_BYTES]
    return b"\0" in head and not any(head.startswith(mark) for mark, _ in _BOMS)


def _guess_encoding(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and the encoding by it, else UTF-8 or, where the head is not that, Windows-1252."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return mark, encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < SNIFFED_BYTES)
    except UnicodeDecodeError:
        return b"", "cp1252"
    return b"", "utf-8"


def _decode(content: bytes) -> tuple[str, bytes, str]:
    """Return the text of a whole file, its byte order mark, and an encoding that gives the other bytes again."""
    guessed = next((pair for pair in _BOMS if content.startswith(pair[0])), (b"", "utf-8"))
    for mark, encoding in (guessed, (b"", "cp1252")):
        try:
            return content[len(mark) :].decode(encoding), mark, encoding
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), b"", "latin-1"


def _encode(text: str, encoding: str, path: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise ToolError(f"{truncate(path)!r} is encoded as {encoding}, which does not have {letter!a}.") from None


def _render_lines(stream: Any, shown: str, size: int, start_line: int, max_lines: int) -> str:
    """Return numbered lines with a note that states what is left."""
    lines = iter(lambda: stream.readline(MAX_LINE_CHARS), "")
    numbered: Iterator[tuple[int, str]] = enumerate(lines, 1)
    total: int | None = None
    start_line = max(min(start_line, sys.maxsize), -sys.maxsize)
    wanted = min(max(max_lines, 1), MAX_READ_LINES)
    if start_line < 0:
        if size > MAX_COUNTED_BYTES:
            raise ToolError(f"{shown!r} is too large to read from its end: {size:,} bytes. Use search_files, or lines.")
        last = deque(numbered, -start_line)
        total = last[-1][0] if last else None
        numbered = iter(last)
    elif start_line > 1:
        numbered = islice(numbered, start_line - 1, None)
    parts: list[str] = []
    chars = 0
    first = number = 0
    rest = None
    for number, line in numbered:
        part = f"{number:>6}\t{line.rstrip(chr(10))}"
        if len(parts) == wanted or chars + len(part) > MAX_READ_CHARS:
            rest = number
            break
        first = first or number
        chars += len(part) + 1
        parts.append(part)
    if not parts and start_line <= 1:
        return "[the file is empty]"
    if not parts:
        raise ToolError(f"{shown!r} ends before line {start_line:,}.")
    if rest is None and first == 1:
        return "\n".join(parts)
    if rest is None:
        total = number
    elif total is None and size <= MAX_COUNTED_BYTES:
        total = rest + sum(1 for _ in numbered)
    of = f"of {total:,}" if total is not None else f"of a file of {size:,} bytes"
    reads_on = "" if rest is None else f"; start_line={rest} reads on"
    end = number if rest is None else rest - 1
    return "\n".join([*parts, f"[lines {first:,} to {end:,} {of}{reads_on}]"])


def _count_lines(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n") and text != "")
    return "1 line" if count == 1 else f"{count:,} lines"


def _find_lines(text: str, part: str) -> Iterator[int]:
    """Yield the number of the line of each occurrence."""
    line = 1
    counted = 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        yield line
        at = text.find(part, at + len(part))


def _hint_closest(text: str, old: str) -> str:
    """Return the line of a text that is most like the first line of another."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")[:MAX_MATCH_CHARS]
    lines = {
        line.strip()[:MAX_MATCH_CHARS]: number for number, line in enumerate(text.splitlines()[:MAX_DIFF_LINES], 1)
    }
    if first in lines:
        return f"Line {lines[first]} begins like it, but spaces or later lines differ. Read the lines around it again."
    if close := difflib.get_close_matches(first, lines, 1, 0.6):
        return f"Line {lines[close[0]]} is similar: {truncate(close[0])!r}."
    return "Read the file again."


def _render_diff(path: str, before: str, after: str) -> str:
    """Return a unified difference; of the lines before the first change and after the last, three each."""
    if before == after:
        return f"{truncate(path)} has this text already."
    old = before.splitlines()
    new = after.splitlines()
    shortest = min(len(old), len(new))
    head = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    tail = next((at for at in range(shortest - head) if old[-1 - at] != new[-1 - at]), shortest - head)
    skipped = max(head - 3, 0)
    ends = (len(old) - max(tail - 3, 0), len(new) - max(tail - 3, 0))
    if max(ends) - skipped > MAX_DIFF_LINES:
        return f"Changed {truncate(path)}: {len(old) - head - tail:,} lines became {len(new) - head - tail:,}."
    lines = difflib.unified_diff(old[skipped : ends[0]], new[skipped : ends[1]], lineterm="")
    shifted = [
        _HUNK.sub(lambda at: f"@@ -{int(at[1]) + skipped}{at[2]} +{int(at[3]) + skipped}{at[4]} @@", line, count=1)
        if line.startswith("@@ ")
        else line
        for line in islice(lines, 2, None)
    ]
    text = "\n".join([f"Changed {truncate(path)}:", *(shifted or ["[the ends of lines alone]"])])
    return text if len(text) <= MAX_DIFF_CHARS else f"{text[:MAX_DIFF_CHARS]}\n[the rest of the difference is left out]"
