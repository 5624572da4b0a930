"""Where a journal is: the path of a file, or the URL of a PostgreSQL database; and its settings."""

import os
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from ...core.errors import DefinitionError, RunError

Sync: TypeAlias = Literal["normal", "full"]
JournalErrors: TypeAlias = Literal["warn", "raise"]


class OpenedStore(Protocol):
    """A store of the program's own, which has the methods of `Store` in `store.py`."""

    @property
    def named(self) -> str: ...


Place: TypeAlias = str | os.PathLike[str] | OpenedStore
"""The path of a file, a URL, or a store."""
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
SQLITE_SCHEME = "sqlite:///"
"""Begins the URL of a file, which workers use; the rest is its path."""

MISSING_REMEDY = "JsonAgent(..., journal=place) begins one with its first run; check the path or the URL."
"""What to do about a place that has no journal."""


class JournalError(RunError):
    """A journal cannot be written or read, or lacks the wanted run; the message names the remedy."""


class ConversationBusy(JournalError):
    """Another run has the conversation, or has continued it since it was opened: wait, and open it again."""


class LeaseLost(JournalError):
    """Another process has continued the conversation of this run; the run ends and writes nothing more."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The file or the database in which runs are recorded, and its settings.

    `path` is the path of a SQLite file, or `postgresql://user:password@host/database`.  `sync="normal"` survives the
    death of the process; "full" that of the machine too, with an fsync per write (PostgreSQL: by its own settings, and
    "full" whatever they are).  With `errors="warn"` a run continues if nothing can be written (a full disk), and
    reports that once; "raise" ends it before a step that would not be recorded.
    """

    path: Place
    sync: Sync = "normal"
    errors: JournalErrors = "warn"

    def __post_init__(self) -> None:
        if self.sync not in ("normal", "full"):
            raise DefinitionError(f'Journal(sync={self.sync!r}): sync must be "normal" or "full"')
        if self.errors not in ("warn", "raise"):
            raise DefinitionError(f'Journal(errors={self.errors!r}): errors must be "warn" or "raise"')
        if callable(getattr(self.path, "records", None)):  # a store of the program's own
            return
        if not isinstance(self.path, str | os.PathLike) or not without_scheme(self.path):
            raise DefinitionError(f"journal must be the path of a file or a URL, got {self.path!r:.80}")
        object.__setattr__(self, "path", without_scheme(self.path))
        if isinstance(self.path, str) and "://" in self.path and not is_url(self.path):
            scheme = self.path.partition("://")[0]
            raise DefinitionError(
                f"Journal({scheme}://...): the scheme {scheme!r} is unknown. Give the path of a file, or a URL that "
                f"begins with {POSTGRES_SCHEMES[0]}"
            )

    @staticmethod
    def of(place: "Place | Journal") -> "Journal":
        """Return the journal of a path or a URL, or the journal itself."""
        return place if isinstance(place, Journal) else Journal(place)


JournalLocation: TypeAlias = Place | Journal | None
"""The path or the URL of a journal, or a `Journal` with settings."""


def resolve_journal(place: JournalLocation, errors: JournalErrors | None) -> JournalLocation:
    """Return the journal, with `errors` if that is given beside it."""
    if errors is None:
        return None if place is None else Journal.of(place)
    if place is None:
        raise DefinitionError(f'journal_errors={errors!r} needs a journal: give journal="runs.db" too')
    return replace(Journal.of(place), errors=errors)


def is_url(place: Place) -> bool:
    """Return whether a journal is in a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(POSTGRES_SCHEMES)


def without_scheme(place: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a file that is named by a URL, else the place itself."""
    return place.removeprefix(SQLITE_SCHEME) if isinstance(place, str) else place


def absolute_place(place: Place) -> str:
    """Return the absolute path of a file without links, or the URL: equal for the same journal."""
    if not isinstance(place, str | os.PathLike):
        return f"{place.named} {id(place)}"
    return str(place) if is_url(place) else os.path.realpath(place)


def is_same_place(one: Place, other: Place) -> bool:
    """Return whether two places are those of the same journal."""
    return one == other or absolute_place(one) == absolute_place(other)


def show_place(place: Place) -> str:
    """Return the path, or the URL without its password, for messages."""
    if not isinstance(place, str | os.PathLike):
        return place.named
    text = os.fspath(place)
    if not is_url(text):
        return text
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return f"{POSTGRES_SCHEMES[0]}..."
    shown = text.replace(f":{password}@", ":***@", 1) if password else text
    return shown.partition("?")[0] if "password" in parts.query.casefold() else shown
