"""Memory: notes that outlive a conversation, in a folder or a journal, which a person can read and edit.

A note keeps the label of what was written (see `sessions.notes`).  So what came from untrusted text is untrusted again
when a later run reads it.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError, ToolError, suggest
from ..sessions.journal.store import Journal, Place
from ..sessions.notes import MAX_NOTE_CHARS, MAX_NOTE_NAME_CHARS, FolderNotes, JournalNotes, Notes, SavedNote
from ..tools.json_tool import JsonTool
from ..tools.ranking import MAX_SEARCH_CHARS, WordIndex, count_words

MAX_SAVED_NOTES = 1_000
MAX_FOUND_NOTES = 10
MAX_EXCERPT_CHARS = 200
MAX_NOTE_NAME_BYTES = 220
"""A file system has names of 255 bytes, and a draft of a note has a longer name."""
_INSTRUCTION = (
    "You keep notes that outlive this conversation. Look with find_notes for what earlier conversations may tell, "
    "and save with save_note what later ones will need."
)


class Memory(Extension):
    """Give an agent notes that outlive its conversations: `extensions=[Memory("notes")]`.

    Args:
        folder: The folder of the notes, which is made when the first one is saved.
        journal: The journal that has the notes instead: a file, a PostgreSQL database or a store.
        owner: A function of the run that returns the owner of its notes, such as `lambda run: run.deps.user`, who
            alone can read them.  Default: all runs share the notes.

    Raises:
        DefinitionError: There are both a folder and a journal, or neither; `folder` is a file, or `owner` is no
            function; when a run begins: it has no owner.
    """

    name = "Memory"

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        journal: Place | Journal | None = None,
        owner: Callable[[RunContext[Any]], str] | None = None,
    ) -> None:
        if (folder is None) == (journal is None):
            raise DefinitionError('Memory: name where the notes are. Memory("folder") or Memory(journal="runs.db")')
        self.notes: Notes = _in_folder(folder) if journal is None else JournalNotes(Journal.of(journal).path)
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
        self._find_owner(context)

    def save_note(self, name: str, text: str, run: RunContext[Any]) -> str:
        """Save a note for later conversations; a note with that name is replaced.

        Args:
            name: A few words that name the note.
            text: The note, in Markdown.
        """
        name = _to_name(name)
        if len(text) > MAX_NOTE_CHARS:
            raise ToolError(f"the text has {len(text)} characters. Write at most {MAX_NOTE_CHARS}, or several notes.")
        owner = self._find_owner(run)
        notes = self.notes.read(owner)
        origin = run.origin.inputs
        if name not in notes and len(notes) >= MAX_SAVED_NOTES:
            raise ToolError(f"there are {len(notes)} notes, at most {MAX_SAVED_NOTES} are kept. Forget one first.")
        if name in notes and origin.is_untrusted and not notes[name].origin.is_untrusted:
            raise ToolError(f"text from outside cannot replace the trusted note {name!r}. Choose another name.")
        self.notes.write(SavedNote(name, text, origin), owner)
        return f"saved as {name}"

    def find_notes(self, query: str, run: RunContext[Any]) -> str:
        """Find notes by their words, the best first; return their names and how they begin.

        Args:
            query: What the note is about; "" for the latest notes.
        """
        notes = [*self.notes.read(self._find_owner(run)).values()]
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
        self.notes.remove(note.name, self._find_owner(run))
        return "forgotten"

    def _find_owner(self, run: RunContext[Any]) -> str:
        if self.owner is None:
            return ""
        owner = self.owner(run)
        if not isinstance(owner, str) or not owner:
            raise DefinitionError(f"Memory(owner=...) must return a text that is not empty, got {owner!r:.80}")
        return owner

    def _get(self, name: str, run: RunContext[Any]) -> SavedNote:
        notes = self.notes.read(self._find_owner(run))
        if (note := notes.get(name) or notes.get(_to_name(name))) is None:
            trusted = [note.name for note in notes.values() if not note.origin.is_untrusted]
            raise ToolError(f"there is no note {name[:80]!r}. {suggest(name, trusted, then='Look with find_notes.')}")
        return note


def _in_folder(folder: Any) -> FolderNotes:
    path = Path(folder)
    if path.exists() and not path.is_dir():
        remedy = f"Name the folder of the notes, or write Memory(journal={os.fspath(folder)!r})."
        raise DefinitionError(f"Memory: {folder} is no folder. {remedy}")
    return FolderNotes(path)


def _excerpt(text: str) -> str:
    """Return the beginning of a text in whole words, since a part of an address is another address."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_EXCERPT_CHARS else f"{words[:MAX_EXCERPT_CHARS].rpartition(' ')[0]} ..."


def _is_of_word(letter: str) -> bool:
    """Return whether a character is a letter, a digit, or the mark of one, such as a vowel in Hindi."""
    return letter.isalnum() or unicodedata.category(letter)[0] == "M"


def _to_name(name: str) -> str:
    """Return the name of a note's file: lowercase words and hyphens."""
    composed = unicodedata.normalize("NFC", name.lower().removesuffix(".md"))
    words = "".join(letter if _is_of_word(letter) else " " for letter in composed).split()
    found = "-".join(word for word in words if any(map(str.isalnum, word)))[:MAX_NOTE_NAME_CHARS]
    found = found.encode()[:MAX_NOTE_NAME_BYTES].decode(errors="ignore").strip("-")
    if not found:
        raise ToolError(f"the name {name[:80]!r} has no letters. Write a few words.")
    return found
