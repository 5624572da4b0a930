"""Notes that outlive a conversation, each with the origin of its text: files of a folder, or texts of a journal.

A note is Markdown with its origin in the head.  A text without a readable head is untrusted: anyone may have written
it.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from ..core.errors import ToolError
from ..core.messages import TRUSTED, UNKNOWN, Label
from ..core.private_files import write_atomically
from ..core.values import frozen
from .journal.connections import opened_store
from .journal.store import NOTES_NAME, Place, reading
from .records import TextStored, cut_digest, fold, write_json

MAX_NOTE_CHARS = 10_000
MAX_NOTE_NAME_CHARS = 64
_HEAD = re.compile(r"---\norigin: (.*)\n---\n\n?")


@frozen(slots=False)
class SavedNote:
    """A note: its text, the origin of its text, and when it was changed, in nanoseconds since 1970."""

    name: str
    text: str
    origin: Label
    changed: int = 0

    @property
    def markdown(self) -> str:
        """The text with its origin in the head, as a person reads and edits it."""
        head = json.dumps(self.origin.as_dict(), ensure_ascii=True)
        return f"---\norigin: {head}\n---\n\n{self.text.strip()}\n"

    @classmethod
    def parse(cls, name: str, markdown: str, changed: int = 0) -> "SavedNote":
        """Return the note of a text with a head; without a readable one its origin is unknown."""
        origin = UNKNOWN
        if match := _HEAD.match(markdown):
            markdown = markdown[match.end() :]
            with suppress(ValueError, RecursionError):
                origin = TRUSTED.join(Label.from_dict(json.loads(match[1])))
        return cls(name, markdown.strip(), origin, changed)


class Notes(Protocol):
    """Where notes are kept, those of each owner by themselves; the owner "" has those that all runs share."""

    def read(self, owner: str = "") -> Mapping[str, SavedNote]:
        """Return the notes of an owner, by name."""
        ...

    def write(self, note: SavedNote, owner: str = "") -> None:
        """Add a note, or replace the one of its name."""
        ...

    def remove(self, name: str, owner: str = "") -> None:
        """Remove a note; do nothing without it."""
        ...


@frozen(slots=False)
class FolderNotes:
    """Notes as files of a folder; each owner has a folder in it, whose name no other owner's can have."""

    folder: Path

    def read(self, owner: str = "") -> Mapping[str, SavedNote]:
        """Return the notes of an owner, by name; no links, and nothing that is larger than a note."""
        try:
            with os.scandir(self._find_folder(owner)) as entries:
                found = sorted((entry for entry in entries if entry.name.endswith(".md")), key=lambda entry: entry.name)
        except FileNotFoundError:
            return {}
        notes = {}
        for entry in found:
            name = entry.name.removesuffix(".md")
            with suppress(FileNotFoundError):  # another run has removed it
                if _is_note(entry):
                    text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
                    notes[name] = SavedNote.parse(name, text, entry.stat().st_mtime_ns)
        return notes

    def write(self, note: SavedNote, owner: str = "") -> None:
        """Write the file of a note; make the folder with the first one."""
        path = self._find_folder(owner) / f"{note.name}.md"
        if path.is_symlink():
            raise ToolError(f"the note {note.name!r} is a link, which is not followed. Choose another name.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, note.markdown.encode("utf-8", "replace"))

    def remove(self, name: str, owner: str = "") -> None:
        """Delete the file of a note."""
        (self._find_folder(owner) / f"{name}.md").unlink(missing_ok=True)

    def _find_folder(self, owner: str) -> Path:
        if not owner:
            return self.folder
        shown = re.sub(r"[^a-z0-9]+", "-", owner.lower()).strip("-")[:MAX_NOTE_NAME_CHARS]
        return self.folder / f"{shown}-{sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _is_note(entry: os.DirEntry[str]) -> bool:
    is_small = entry.stat(follow_symlinks=False).st_size <= 8 * MAX_NOTE_CHARS
    return is_small and entry.is_file(follow_symlinks=False) and entry.name[0] != "."


@frozen(slots=False)
class JournalNotes:
    """Notes in a journal: texts of a conversation without runs, one conversation for each owner.

    Args:
        place: The journal; each call opens it, and a call of `write` begins it.
        must_exist: Whether a missing journal is an error, rather than one without notes.
    """

    place: Place
    must_exist: bool = False

    def owners(self) -> list[str]:
        """Return who has notes; "" for those that all runs share."""
        with opened_store(self.place, must_exist=self.must_exist) as store:
            found = [name.removeprefix(NOTES_NAME) for name in store.names() if name.startswith(NOTES_NAME)]
        owners = sorted(json.loads(owner) for owner in found)
        return [owner for owner in owners if self.read(owner)]

    def read(self, owner: str = "") -> Mapping[str, SavedNote]:
        """Return the notes of an owner, by name."""
        name = _conversation_of(owner)
        with opened_store(self.place, must_exist=self.must_exist) as store, reading(store, f"the notes of {owner!r}"):
            if (key := store.names(name).get(name)) is None:
                return {}
            texts = fold(store.records(key, kinds=(TextStored,))).conversation(key).read_texts()
            return {
                note: SavedNote.parse(note, entry["note"], int(entry["changed"]))
                for note, entry in sorted(texts.items())
            }

    def write(self, note: SavedNote, owner: str = "") -> None:
        """Write a note as one record."""
        body = write_json({"note": note.markdown, "changed": time.time_ns()})
        with opened_store(self.place, must_exist=self.must_exist) as store:
            key = store.claim_name(_conversation_of(owner), secrets.randbits(60))
            store.append([TextStored(note.name, body, key, cut_digest(key, note.name, body))])

    def remove(self, name: str, owner: str = "") -> None:
        """Remove a note."""
        with opened_store(self.place, must_exist=self.must_exist) as store:
            store.append([TextStored(name, None, key) for key in store.names(_conversation_of(owner)).values()])


def _conversation_of(owner: str) -> str:
    return f"{NOTES_NAME}{json.dumps(owner)}"
