"""Memory: notes that outlive a conversation, as Markdown files that a person can read and edit.

A note keeps the label of what was written, in the head of its file.  So what came from untrusted text is untrusted
again when a later run reads it.  A file without a head is untrusted as well: anyone may have put it there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError, ToolError, suggest
from ..core.messages import TRUSTED, UNKNOWN, Label
from ..core.private_files import write_atomically
from ..tools.json_tool import JsonTool
from ..tools.ranking import MAX_SEARCH_CHARS, WordIndex, count_words

MAX_SAVED_NOTES = 1_000
MAX_NOTE_CHARS = 10_000
MAX_NOTE_NAME_CHARS = 64
MAX_FOUND_NOTES = 10
MAX_EXCERPT_CHARS = 200
_HEAD = re.compile(r"---\norigin: (.*)\n---\n\n?")
_WORD = re.compile(r"\w+")
_INSTRUCTION = (
    "You keep notes that outlive this conversation. Look with find_notes for what earlier conversations may tell, "
    "and save with save_note what later ones will need."
)


@dataclass(frozen=True)
class SavedNote:
    """A note: its text, the origin of its text, and when it was changed, in nanoseconds."""

    name: str
    text: str
    origin: Label
    changed: int


class Memory(Extension):
    """Give an agent notes that outlive its conversations: `extensions=[Memory("notes")]`.

    Args:
        folder: The folder of the notes, which is made when the first one is saved.
        owner: A function of the run that returns the owner of its notes, such as `lambda run: run.deps.user`.  Each
            owner has a folder of his own.  Default: all runs share the notes.

    Raises:
        DefinitionError: `folder` is a file, or `owner` is no function; when a run begins: it has no owner.
    """

    name = "Memory"

    def __init__(
        self, folder: str | os.PathLike[str], *, owner: Callable[[RunContext[Any]], str] | None = None
    ) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise DefinitionError(f"Memory: {folder} is no folder. Name the folder of the notes.")
        if owner is not None and not callable(owner):
            raise DefinitionError(f"Memory(owner=...) must be a function of the run, got {owner!r:.80}")
        self.owner = owner
        self.tools = [
            JsonTool(self.save_note, trust="trusted"),
            JsonTool(self.find_notes, effect="read", trust="trusted"),
            JsonTool(self.read_note, effect="read", trust="trusted"),
            JsonTool(self.forget_note, effect="write", trust="trusted"),
        ]

    def instruction(self, context: RunContext[Any]) -> str:  # noqa: ARG002
        """Return what the notes are for, the same text in each run."""
        return _INSTRUCTION

    async def open(self, context: RunContext[Any]) -> None:
        """Check that the run has an owner."""
        self._find_folder(context)

    def save_note(self, name: str, text: str, run: RunContext[Any]) -> str:
        """Save a note for later conversations; a note with that name is replaced.

        Args:
            name: A few words that name the note.
            text: The note, in Markdown.
        """
        name = _to_name(name)
        if len(text) > MAX_NOTE_CHARS:
            raise ToolError(f"the text has {len(text)} characters. Write at most {MAX_NOTE_CHARS}, or several notes.")
        path = self._find_folder(run) / f"{name}.md"
        notes = self._read_notes(run)
        if path.is_symlink():
            raise ToolError(f"the note {name!r} is a link, which is not followed. Choose another name.")
        origin = run.origin.inputs
        if name not in notes and len(notes) >= MAX_SAVED_NOTES:
            raise ToolError(f"there are {len(notes)} notes, at most {MAX_SAVED_NOTES} are kept. Forget one first.")
        if name in notes and origin.is_untrusted and not notes[name].origin.is_untrusted:
            raise ToolError(f"text from outside cannot replace the trusted note {name!r}. Choose another name.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = json.dumps(origin.as_dict(), ensure_ascii=True)
        write_atomically(path, f"---\norigin: {head}\n---\n\n{text.strip()}\n".encode("utf-8", "replace"))
        return f"saved as {name}"

    def find_notes(self, query: str, run: RunContext[Any]) -> str:
        """Find notes by their words, the best first; return their names and how they begin.

        Args:
            query: What the note is about; "" for the latest notes.
        """
        notes = [*self._read_notes(run).values()]
        places: Iterable[int] = range(len(notes))
        scores: Mapping[int, float] = {}
        if query.strip():
            scores = WordIndex([count_words(note.name, note.text) for note in notes]).score(query[:MAX_SEARCH_CHARS])
            places = scores
        found = sorted(places, key=lambda place: (scores.get(place, 0.0), notes[place].changed), reverse=True)
        shown = [notes[place] for place in found[:MAX_FOUND_NOTES]]
        for note in shown:
            run.origin.add(note.origin)
        lines = [f"- {note.name}: {_excerpt(note.text)}" for note in shown]
        return "\n".join(lines) or f"No note was found. There are {len(notes)} notes."

    def read_note(self, name: str, run: RunContext[Any]) -> str:
        """Read a note.

        Args:
            name: The name of the note.
        """
        note = self._get(name, run)
        run.origin.add(note.origin)
        return note.text

    def forget_note(self, name: str, run: RunContext[Any]) -> str:
        """Delete a note.

        Args:
            name: The name of the note.
        """
        note = self._get(name, run)
        (self._find_folder(run) / f"{note.name}.md").unlink(missing_ok=True)
        return "forgotten"

    def _find_folder(self, run: RunContext[Any]) -> Path:
        """Return the folder of the run's owner, whose name no other owner's folder can have."""
        if self.owner is None:
            return self.folder
        owner = self.owner(run)
        if not isinstance(owner, str) or not owner:
            raise DefinitionError(f"Memory(owner=...) must return a text that is not empty, got {owner!r:.80}")
        shown = re.sub(r"[^a-z0-9]+", "-", owner.lower()).strip("-")[:MAX_NOTE_NAME_CHARS]
        return self.folder / f"{shown}-{sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    def _get(self, name: str, run: RunContext[Any]) -> SavedNote:
        notes = self._read_notes(run)
        if (note := notes.get(name) or notes.get(_to_name(name))) is None:
            trusted = [note.name for note in notes.values() if not note.origin.is_untrusted]
            raise ToolError(f"there is no note {name[:80]!r}. {suggest(name, trusted, then='Look with find_notes.')}")
        return note

    def _read_notes(self, run: RunContext[Any]) -> Mapping[str, SavedNote]:
        """Return the notes of the run's owner, by name; no links, and nothing that is larger than a note."""
        try:
            with os.scandir(self._find_folder(run)) as entries:
                found = [entry for entry in entries if entry.name.endswith(".md") and _is_note(entry)]
        except FileNotFoundError:
            return {}
        return {note.name: note for note in map(_read, sorted(found, key=lambda entry: entry.name))}


def _is_note(entry: os.DirEntry[str]) -> bool:
    is_small = entry.stat(follow_symlinks=False).st_size <= 8 * MAX_NOTE_CHARS
    return is_small and entry.is_file(follow_symlinks=False) and entry.name[0] != "."


def _read(entry: os.DirEntry[str]) -> SavedNote:
    text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
    origin = UNKNOWN
    if match := _HEAD.match(text):
        text = text[match.end() :]
        try:
            origin = TRUSTED.join(Label.from_dict(json.loads(match[1])))
        except (ValueError, RecursionError):
            origin = UNKNOWN
    return SavedNote(entry.name.removesuffix(".md"), text.strip(), origin, entry.stat().st_mtime_ns)


def _excerpt(text: str) -> str:
    """Return the beginning of a text in whole words, since a part of an address is another address."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_EXCERPT_CHARS else f"{words[:MAX_EXCERPT_CHARS].rpartition(' ')[0]} ..."


def _to_name(name: str) -> str:
    """Return the name of a note's file: lowercase words and hyphens."""
    found = "-".join(_WORD.findall(name.lower().replace("_", " ").removesuffix(".md")))[:MAX_NOTE_NAME_CHARS].strip("-")
    if not found:
        raise ToolError(f"the name {name[:80]!r} has no letters. Write a few words.")
    return found
