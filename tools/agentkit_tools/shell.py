"""A tool that runs shell scripts over the files of one folder, in an interpreter without a machine behind it.

bashkit interprets Bash with its own versions of the usual commands, in this process: no program is started, and there
is no network.  The script works on a copy of the files in memory; with `write`, its changes are then written to the
folder.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import agentkit
from agentkit import ToolError
from agentkit.extend import missing_package
from agentkit.tools import truncate

from .folder import EXCLUDED, Folder, Stamp

MAX_FILES = 2_000
"""Files that are copied; a folder with more is for other tools."""
MAX_FILE_BYTES = 5_000_000
MAX_BYTES = 40_000_000
"""All files together."""
SHELL_SECONDS = 10.0
MAX_COMMANDS = 20_000
MAX_ITERATIONS = 100_000
MAX_OUTPUT_CHARS = 12_000
MAX_SCRIPT_CHARS = 20_000
MAX_NAMED = 10
"""Names of files in a note."""
_WORK = "/work"


def shell_tool(
    root: str | os.PathLike[str],
    *,
    write: bool = False,
    trust: Literal["trusted", "untrusted"] | None = "untrusted",
    exclude: Collection[str] = EXCLUDED,
) -> "agentkit.JsonTool[..., Any]":
    """Return the tool `run_shell`, which runs Bash scripts over the files below one folder.

    Args:
        root: The folder.
        write: Whether changes are kept.  The tool then has `effect="danger"`, because a script can delete every file;
            without it, a script may change its copy, which is dropped.
        trust: Who may have written the files: "untrusted" for anyone, None where you trust them.
        exclude: Patterns of names of files and folders that the script neither sees nor writes.

    Raises:
        DefinitionError: The folder does not exist, or bashkit is not installed.
    """
    shell = Shell(Folder(root, exclude), write)
    try:
        is_installed = find_spec("bashkit") is not None
    except ValueError:  # it is hidden
        is_installed = False
    if not is_installed:
        raise missing_package("shell_tool", "bashkit>=0.20,<0.21")
    return agentkit.JsonTool(shell.run_shell, effect="danger" if write else "read", trust=trust)


@dataclass(frozen=True, slots=True)
class Shell:
    """The folder of the scripts, and whether their changes are kept."""

    folder: Folder
    write: bool = False
    seconds: float = SHELL_SECONDS

    def run_shell(self, script: str) -> str:
        """Run a Bash script in the folder, with grep, sed, awk, sort, jq and the like; without network and programs.

        Args:
            script: The script; each begins in the root of the folder, with nothing left of earlier ones.
        """
        from bashkit import Bash

        if not script.strip() or len(script) > MAX_SCRIPT_CHARS:
            raise ToolError(f"script must have 1 to {MAX_SCRIPT_CHARS:,} characters, got {len(script):,}.")
        bash = Bash(
            cwd=_WORK,
            max_commands=MAX_COMMANDS,
            max_loop_iterations=MAX_ITERATIONS,
            max_memory=2 * MAX_BYTES,
            timeout_seconds=self.seconds,
        )
        copy = _Copy(self.folder, bash.fs())
        copy.fill()
        result = bash.execute_sync(script)
        parts = [_shorten(result.stdout), _shorten(result.stderr)]
        if result.exit_code:
            parts.append(f"[exit code {result.exit_code}]")
        if copy.left_out:
            parts.append(f"[left out, as they are too large or too many: {_list_names(copy.left_out)}]")
        parts += copy.keep_changes() if self.write else copy.note_changes()
        return "\n".join(filter(None, parts)) or "[no output]"


@dataclass(slots=True)
class _Copy:
    """A copy of a folder in the memory of the interpreter."""

    folder: Folder
    files: Any
    contents: dict[str, bytes] = field(default_factory=dict)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def fill(self) -> None:
        self.files.mkdir(_WORK, recursive=True)
        free = MAX_BYTES
        for entry in self.folder.walk_all():
            if entry.kind == "folder" and len(self.folders) < MAX_FILES:
                self.files.mkdir(f"{_WORK}/{entry.path}", recursive=True)
                self.folders.append(entry.path)
            if entry.kind != "file":
                continue
            if entry.bytes > min(free, MAX_FILE_BYTES) or len(self.contents) == MAX_FILES:
                self.left_out.append(entry.path)
                continue
            with suppress(ToolError):  # it is gone, or may not be read
                content, stamp = self.folder.read(entry.path, MAX_FILE_BYTES)
                free -= len(content)
                if "/" in entry.path:
                    self.files.mkdir(f"{_WORK}/{entry.path.rpartition('/')[0]}", recursive=True)
                self.files.write_file(f"{_WORK}/{entry.path}", content)
                self.contents[entry.path] = content
                self.stamps[entry.path] = stamp

    def note_changes(self) -> list[str]:
        """Return a note that names what the script changed."""
        changed, made, removed, _ = self._compare()
        names = [*changed, *(f"{path}/" for path in made), *removed]
        return [f"[changes are not kept: {_list_names(names)}]"] if names else []

    def keep_changes(self) -> list[str]:
        """Write what the script changed, and return what was done and what was not possible."""
        changed, made, removed, problems = self._compare()
        written: list[str] = []
        deleted: list[str] = []
        for path, content in changed.items():
            try:
                if path not in self.stamps and self.folder.stat(path) is not None:
                    raise ToolError(f"{truncate(path)!r} was left out, so it cannot be replaced.")
                self.folder.write(path, content, replaces=self.stamps.get(path))
                written.append(path)
            except ToolError as error:
                problems.append(str(error))
        for path in made:
            try:
                with self.folder.open_folder(path, create=True):
                    written.append(f"{path}/")
            except ToolError as error:
                problems.append(str(error))
        for path in removed:
            try:
                self._delete(path)
                deleted.append(path if path in self.stamps else f"{path}/")
            except ToolError as error:
                problems.append(str(error))
        notes = [f"[written: {_list_names(written)}]"] if written else []
        notes += [f"[deleted: {_list_names(deleted)}]"] if deleted else []
        return notes + [f"[not kept: {problem}]" for problem in problems[:MAX_NAMED]]

    def _delete(self, path: str) -> None:
        """Delete a folder, or a file that is as it was copied."""
        if path in self.stamps and self.folder.read(path, MAX_FILE_BYTES)[1] != self.stamps[path]:
            raise ToolError(f"{truncate(path)!r} was changed by others in the meantime.")
        self.folder.delete(path)

    def _compare(self) -> tuple[dict[str, bytes], list[str], list[str], list[str]]:
        """Return the files that are new or changed, new folders without files, what is gone, and what cannot be kept.

        Of what is gone, a folder comes behind the files and folders in it.
        """
        changed: dict[str, bytes] = {}
        made: list[str] = []
        problems: list[str] = []
        seen: set[str] = set()
        free = MAX_BYTES
        for path, kind, size in self._walk():
            seen.add(path)
            if kind == "directory":
                made += [path] if path not in self.folders else []
            elif kind != "file":
                problems.append(f"{truncate(path)!r} is a {kind}.")
            elif size > min(MAX_FILE_BYTES, free):
                problems.append(f"{truncate(path)!r} is too large: {size:,} bytes.")
            else:
                content = self.files.read_file(f"{_WORK}/{path}")
                if content != self.contents.get(path):
                    changed[path] = content
                    free -= len(content)
        parents = {path.rpartition("/")[0] for path in seen}
        empty = [folder for folder in made if folder not in parents]
        removed = [path for path in (*self.contents, *reversed(self.folders)) if path not in seen]
        return changed, empty, removed, problems

    def _walk(self) -> Iterator[tuple[str, str, int]]:
        """Yield path, type and size of what is in the copy, folders among it; links are not followed."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            if not self.files.exists(f"{_WORK}/{folder}"):
                continue
            for entry in self.files.read_dir(f"{_WORK}/{folder}"):
                path = f"{folder}{entry['name']}"
                kind = entry["metadata"]["file_type"]
                if kind == "directory":
                    waiting.append(f"{path}/")
                yield path, kind, entry["metadata"]["size"]


def _shorten(text: str) -> str:
    text = text.rstrip("\n")
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return (
        f"{text[:MAX_OUTPUT_CHARS]}\n[{MAX_OUTPUT_CHARS:,} of {len(text):,} characters; "
        "sed -n '100,200p', head or tail show a part]"
    )


def _list_names(paths: Collection[str]) -> str:
    names = ", ".join(truncate(path) for path in list(paths)[:MAX_NAMED])
    return names if len(paths) <= MAX_NAMED else f"{names} and {len(paths) - MAX_NAMED:,} more"
