"""Skills: folders with instructions for a task, in the public format of `SKILL.md`.

The instruction lists names and descriptions, and `load_skill` returns the body of a skill or one of its files.  Nothing
is run: a script is a text.  A skill that has changed since `agentkit lock --skills` is refused.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError, ToolError, suggest
from ..core.private_files import write_atomically
from ..core.values import frozen
from ..tools.json_tool import JsonTool
from ..tools.lock import LOCK_VERSION, compare_digests, format_lock, read_lock

MAX_SKILLS = 200
MAX_SKILL_FILES = 1_000
MAX_SKILL_FILE_BYTES = 10_000_000
MAX_SKILL_CHARS = 100_000
MAX_SKILL_NAME_CHARS = 64
MAX_SKILL_DESCRIPTION_CHARS = 1_024
FilePath: TypeAlias = str | os.PathLike[str]
_BODY = "SKILL.md"
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|$)", re.DOTALL)
_FIELD = re.compile(r"^(name|description):[ \t]+(.+)$", re.MULTILINE)
_NAME = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_NAME_RULE = f"Write at most {MAX_SKILL_NAME_CHARS} lowercase letters, digits and single hyphens."
_HEAD = "Skills are instructions for tasks. Where one fits, read it with load_skill before you begin:"


@frozen(slots=False)
class Skill:
    """A skill as its folder holds it; with a lock, the description and the digests of its files are those locked."""

    name: str
    description: str
    folder: Path
    locked: Mapping[str, str] | None = None


class Skills(Extension):
    """Offer skills: `extensions=[Skills("skills")]`.

    A skill is as trusted as the instruction: give folders that you have read.

    Args:
        folder: A folder that holds a folder for each skill, or the folder of a single skill.
        *more: Other folders.
        lock: A file that `agentkit lock --skills` wrote: skills that are not in it are left out, and changed ones
            refused.  Default: `skills.lock.json` beside the first folder `skills`, if it exists; False for no lock.

    Attributes:
        skills: The skills, by name.

    Raises:
        DefinitionError: A folder, a `SKILL.md` or the lock is missing or wrong, or two skills have one name.
    """

    name = "Skills"

    def __init__(self, folder: FilePath, *more: FilePath, lock: FilePath | Literal[False] | None = None) -> None:
        self.skills: dict[str, Skill] = {}
        for skill in (skill for place in (folder, *more) for skill in _find_skills(Path(place))):
            if (other := self.skills.get(skill.name)) is not None:
                raise DefinitionError(f"Skills: {other.folder} and {skill.folder} have one name. Rename one.")
            self.skills[skill.name] = skill
        if len(self.skills) > MAX_SKILLS:
            raise DefinitionError(f"Skills: {len(self.skills)} skills, at most {MAX_SKILLS} can be offered. Move some.")
        self._found = {**self.skills}
        self.lock_path = Path(lock or f"{Path(folder).resolve()}.lock.json")
        if lock or (lock is None and self.lock_path.exists()):
            locked = _read_lock(self.lock_path)
            for left_out in self._found.keys() - locked.keys():
                warnings.warn(f"the skill {left_out!r} is left out: it is not in {self.lock_path}", stacklevel=2)
            self.skills = {
                name: replace(skill, description=locked[name]["description"], locked=locked[name]["files"])
                for name, skill in self._found.items()
                if name in locked
            }
        self.tools = [JsonTool(self.load_skill, effect="read", trust="trusted", max_result=MAX_SKILL_CHARS)]

    def instruction(self, context: RunContext[Any]) -> str:  # noqa: ARG002
        """Return the names and descriptions of the skills."""
        lines = (f"\n- {skill.name}: {skill.description}" for skill in self.skills.values())
        return f"{_HEAD}{''.join(lines)}" if self.skills else ""

    def load_skill(self, name: str, file: str | None = None) -> str:
        """Load the instructions of a skill, or one of its files.

        Args:
            name: The name of the skill.
            file: The path of a file of the skill, as its instructions name it; default: the instructions.
        """
        if (skill := self.skills.get(name)) is None:
            hint = suggest(name, self.skills, then=f"Skills: {', '.join(self.skills) or 'none'}.")
            raise ToolError(f"there is no skill {name[:MAX_SKILL_NAME_CHARS]!r}. {hint}")
        path = posixpath.normpath(file) if file else _BODY
        try:
            paths = _list_files(skill.folder)
            contents = _read_files(skill.folder, [one for one in paths if one == path or skill.locked is not None])
            text = contents.get(path, b"").decode("utf-8-sig")
        except (OSError, DefinitionError, UnicodeDecodeError) as error:
            raise ToolError(f"{path[:200]!r} of the skill {name!r} cannot be read: {error}") from None
        if skill.locked is not None and (changes := "; ".join(compare_digests(skill.locked, _digest(contents)))):
            remedy = "A person must review it, and run: agentkit lock --skills"
            raise ToolError(f"refused: the skill {name!r} has changed since it was locked: {changes}. {remedy}")
        if path not in contents:
            hint = suggest(path, paths, then=f"Files: {', '.join(paths)}")
            raise ToolError(f"the skill {name!r} has no file {path[:200]!r}. {hint}")
        if file:
            return text
        others = ", ".join(other for other in paths if other != path)
        return _split(text)[1] + (f"\n\nFiles of this skill: {others}" if others else "")

    def write_lock(self, file: FilePath | None = None) -> Path:
        """Write the descriptions of the skills and the digests of their files; return the file, default `lock_path`."""
        place = Path(file or self.lock_path)
        write_atomically(place, format_lock({"version": LOCK_VERSION, "skills": self._describe()}).encode())
        return place

    def find_changes(self, file: FilePath | None = None) -> list[str]:
        """Return what has changed since the skills were locked, a line for each file.

        Raises:
            DefinitionError: The lock does not exist, or cannot be read.
        """
        locks = (_read_lock(Path(file or self.lock_path)), self._describe())
        names = locks[0].keys() | locks[1].keys()
        pairs = [(name, *(lock.get(name, {"files": {}})["files"] for lock in locks)) for name in names]
        return sorted(f"{name}: {change}" for name, before, after in pairs for change in compare_digests(before, after))

    def _describe(self) -> dict[str, Any]:
        return {
            name: {"description": skill.description, "files": _digest(_read_files(skill.folder))}
            for name, skill in self._found.items()
        }


def _find_skills(given: Path) -> Iterator[Skill]:
    if not given.is_dir():
        raise DefinitionError(f"Skills: there is no folder {given}. Name the folder that holds the skills.")
    folder = given.resolve()
    places = [place for place in sorted(folder.iterdir()) if place.is_dir() and place.name[0] not in "._"]
    if (folder / _BODY).exists():
        places = [folder]
    if not places:
        raise DefinitionError(f"Skills: the folder {given} holds no skill. Write {given / 'NAME' / 'SKILL.md'}.")
    for place in places:
        if place.is_symlink():
            raise DefinitionError(f"Skills: {place} is a link, which is not followed. Give the folder that it names.")
        yield _read_skill(place)


def _read_skill(folder: Path) -> Skill:
    """Return the skill of a folder; a fault of its frontmatter, with which other agents load it, is a warning."""
    place = folder / _BODY
    faults = []
    if _BODY not in _list_files(folder):
        raise DefinitionError(f"Skills: {folder} has no file {_BODY}. Write it, or move the folder away.")
    try:
        head = _split(_read_files(folder, [_BODY])[_BODY].decode("utf-8-sig"))[0]
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{place} cannot be read: {error}") from error
    if head is None:
        raise DefinitionError(f"{place}: no frontmatter. Begin with the lines ---, name: ..., description: ..., ---")
    yaml = import_module("yaml")
    try:
        fields = yaml.load(head, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        fields = dict(_FIELD.findall(head))
        faults.append(f"the frontmatter is no YAML: {error}. Quote a text with a colon.")
    pairs = fields.items() if isinstance(fields, dict) else ()
    texts = {field: " ".join(text.split()) for field, text in pairs if isinstance(text, str)}
    if not (description := texts.get("description")):
        faults.append("the frontmatter has no text 'description'. Add the line description: ...")
        raise DefinitionError(f"{place}: {' '.join(faults)}")
    name, folder_name = (unicodedata.normalize("NFKC", text) for text in (texts.get("name", ""), folder.name))
    if len(name) > MAX_SKILL_NAME_CHARS or name != name.lower() or not _NAME.fullmatch(name):
        faults.append(f"the name {name[:80]!r} is wrong, so that of the folder is used. {_NAME_RULE}")
        name = folder_name
    elif name != folder_name:
        faults.append(f"the name {name!r} is not that of the folder, {folder_name!r}. Rename one.")
    if (size := len(description)) > MAX_SKILL_DESCRIPTION_CHARS:
        faults.append(f"the description has {size} characters. Write at most {MAX_SKILL_DESCRIPTION_CHARS}.")
    for fault in faults:
        warnings.warn(f"{place}: {fault}", stacklevel=5)
    return Skill(name, description, folder)


def _split(text: str) -> tuple[str | None, str]:
    """Return the frontmatter, None without any, and the body."""
    text = text.replace("\r\n", "\n")
    match = _FRONTMATTER.match(text)
    return (match[1] or "", text[match.end() :].strip()) if match else (None, text.strip())


def _list_files(folder: Path, inside: str = "") -> list[str]:
    """Return the paths of the files of a skill, sorted, without links and hidden ones."""
    found: list[str] = []
    with os.scandir(folder / inside) as entries:
        for entry in entries:
            path = posixpath.join(inside, entry.name)
            if entry.is_dir(follow_symlinks=False) and entry.name[0] != "." and entry.name != "__pycache__":
                found += _list_files(folder, path)
            elif entry.is_file(follow_symlinks=False) and entry.name[0] != ".":
                found.append(path)
    if len(found) > MAX_SKILL_FILES:
        raise DefinitionError(f"Skills: {folder} has more than {MAX_SKILL_FILES} files. Move some away.")
    return sorted(found)


def _read_files(folder: Path, paths: list[str] | None = None) -> dict[str, bytes]:
    """Return the contents of files of a skill, all by default; none that a link leads to."""
    found = {}
    for path in _list_files(folder) if paths is None else paths:
        place = folder / path
        if os.path.realpath(place) != str(place):
            raise DefinitionError(f"{place} is a link, which is not followed.")
        with open(place, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))) as file:
            found[path] = file.read(MAX_SKILL_FILE_BYTES + 1)
        if len(found[path]) > MAX_SKILL_FILE_BYTES:
            raise DefinitionError(f"{place} has more than {MAX_SKILL_FILE_BYTES:,} bytes. Split it.")
    return found


def _digest(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {path: sha256(data).hexdigest() for path, data in contents.items()}


def _read_lock(place: Path) -> dict[str, Any]:
    try:
        skills: dict[str, Any] = read_lock(place.read_text(encoding="utf-8"), "skills")["skills"]
        if not all(isinstance(one["description"], str) and isinstance(one["files"], dict) for one in skills.values()):
            raise TypeError("no lock of skills")
    except (OSError, ValueError, LookupError, TypeError, DefinitionError) as error:
        remedy = "" if isinstance(error, DefinitionError) else ". Write it with agentkit lock --skills"
        raise DefinitionError(f"{place}: {error}{remedy}") from error
    return skills
