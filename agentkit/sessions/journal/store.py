"""Where a journal is, and what a store of runs must do there.

A store takes and returns records, and gives the right to continue a conversation to one run.

The stores are `sqlite.py`, `postgres.py` and `lines.py`; a program may give one of its own in the place of a path.
"""

import os
import re
import secrets
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from ...core.errors import DefinitionError, RunError
from ...core.values import frozen
from ..records import DAMAGE, Record, RunEntry, Step, write_json

if sys.platform != "win32":
    import fcntl

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

MISSING_REMEDY = (
    "JsonAgent(..., journal=place), or agentkit run --journal PLACE, begins one with its first run; "
    "check the path or the URL."
)
"""What to do about a place that has no journal."""

RUNS_PER_QUERY = 300
LOCK_TIMEOUT = 10.0
"""Seconds that a write waits for the lock of another process, or for a lost connection."""
DEAD_HOLDER_SECONDS = 2.0
"""How long the lease of a killed process is awaited."""
DEAD_HOLDER_PAUSE = 0.01
NOTES_NAME = "agentkit:notes/"
"""Begins the names of the conversations that hold notes; no session has such a name."""


class JournalError(RunError):
    """A journal cannot be written or read, or lacks the wanted run; the message names the remedy."""


class JournalNotFound(JournalError):
    """No journal exists at the place: no run was recorded there."""


class ConversationBusy(JournalError):
    """Another run has the conversation, or has continued it since it was opened: wait, and open it again."""


class LeaseLost(JournalError):
    """Another process has continued the conversation of this run; the run ends and writes nothing more."""


@frozen
class Journal:
    """The file or the database in which runs are recorded, and its settings.

    `path` is the path of a SQLite file, of a file of lines (`*.jsonl`), or `postgresql://user:password@host/database`.
    `sync="normal"` survives the death of the process; "full" that of the machine too, with an fsync per write
    (PostgreSQL: by its own settings, and "full" whatever they are).  With `errors="warn"` a run continues if nothing
    can be written (a full disk), and reports that once; "raise" ends it before a step that would not be recorded.
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
            raise DefinitionError(f"journal must be the path of a file or a URL, or a store, got {self.path!r:.80}")
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
    """Return the absolute path of a file without links, or the URL: equal for the same journal.

    Raises:
        JournalError: The path is relative, and the working directory was removed.
    """
    if not isinstance(place, str | os.PathLike):
        return f"{place.named} {id(place)}"
    try:
        return str(place) if is_url(place) else os.path.realpath(place)
    except FileNotFoundError as error:
        remedy = "Change to another one, or name an absolute path"
        raise JournalError(f"{os.fspath(place)!r}: the working directory does not exist any more. {remedy}.") from error


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


T = TypeVar("T")


@dataclass(eq=False)
class Lease:
    """The right to continue a conversation; only one run of all processes has it at a time."""

    key: int
    token: int
    store: "Store"
    is_lost: bool = False
    """Whether another process may have had it meanwhile."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def keep(self) -> None:
        """Extend the lease in a thread until it is released, if the store ends leases that nothing keeps."""
        if self.store.lease_seconds is not None:
            wait = self.store.lease_seconds / 3
            threading.Thread(target=self._keep, args=(wait,), daemon=True).start()

    def _keep(self, wait: float) -> None:
        while not self._ended.wait(wait):
            try:
                self.store.keep(self)
            except LeaseLost:
                self.is_lost = True
                return
            except JournalError:  # the store is away: next time
                continue

    def release(self) -> None:
        """End the lease; a second call does nothing."""
        self._ended.set()
        self.store.release(self)


@frozen
class RunFilter:
    """The wanted runs of a store; None and "" match every run.

    Attributes:
        ids: The ids of the runs.
        prefix: The beginning of their ids.
        conversations: The keys of their conversations.
        inside: The run inside whose calls they are.
        is_inner: Whether they are inside calls of other runs.
        is_unfinished: Whether only those that are neither finished nor superseded are wanted.
        before: The time before which they began.
        limit: The greatest number, of the newest.
    """

    ids: Collection[str] | None = None
    prefix: str = ""
    conversations: Collection[int] | None = None
    inside: str = ""
    is_inner: bool | None = None
    is_unfinished: bool = False
    before: float | None = None
    limit: int | None = None

    def choose(self, runs: Iterable[RunEntry]) -> list[RunEntry]:
        """Return the wanted ones of all runs of a store, the newest first."""
        found = sorted(filter(self._accepts, runs), key=lambda run: (run.begun, run.number), reverse=True)
        return found[: self.limit]

    def _accepts(self, run: RunEntry) -> bool:
        origin = run.origin or ""
        return (
            (self.ids is None or run.id in self.ids)
            and run.id.startswith(self.prefix)
            and (self.conversations is None or run.conversation in self.conversations)
            and (not self.inside or origin.startswith(f"{self.inside}/"))
            and (self.is_inner is None or self.is_inner == ("/" in origin))
            and not (self.is_unfinished and run.status in ("finished", "superseded"))
            and (self.before is None or run.begun < self.before)
        )


ALL_RUNS = RunFilter()


class Store(Protocol):
    """An open store of runs, which any thread may use; its errors are `JournalError`s.

    Attributes:
        named: What messages call the store.
    """

    named: str

    @property
    def lease_seconds(self) -> float | None:
        """The time after which a lease ends that nothing keeps; None if leases last until their process ends."""
        ...

    def append(self, records: Sequence[Record], lease: Lease | None = None) -> None:
        """Write the records, all or none of them, so that they are there when the process is killed.

        A write may be repeated, so each record must have the same effect when it is written twice.

        Raises:
            LeaseLost: Another process has had the lease meanwhile; nothing is written.
            JournalError: Nothing could be written.
        """
        ...

    def records(self, *of: int | RunEntry, kinds: Collection[type[Record]] = ()) -> Iterable[Record | Step]:
        """Return the records of conversations (by their keys) and of runs, in an order that `fold` can read.

        With `kinds` only those classes are needed, and what removes theirs: `StepWithdrawn` and `ConversationCut`.  A
        store may return others too, and others that were replaced.  In the place of `StepBegun` and `StepEnded` it may
        return a `Step`, which `fold` reads faster.
        """
        ...

    def runs(self, wanted: RunFilter = ALL_RUNS) -> list[RunEntry]:
        """Return the wanted runs, the newest first."""
        ...

    def count_messages(self, conversation: int) -> int:
        """Return the number of messages of a conversation."""
        ...

    def version(self, conversation: int) -> str:
        """Return a text that changes when a run of a conversation writes something."""
        ...

    def claim_name(self, name: str, conversation: int) -> int:
        """Return the conversation with a name; if no conversation has it, `conversation`, which has it from now on."""
        ...

    def names(self, *wanted: str) -> Mapping[str, int]:
        """Return the named conversations, or those with the wanted names."""
        ...

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, which sees the store at one moment if the store can do that."""
        ...

    def take(self, conversation: int, what: str = "the conversation") -> Lease:
        """Take the lease of a conversation.

        Raises:
            ConversationBusy: Another run has it; `make_busy_error` makes the error, which names `what`.
            JournalError: The lease cannot be written.
        """
        ...

    def keep(self, lease: Lease) -> None:
        """Extend a lease; called each third of `lease_seconds`.

        Raises:
            LeaseLost: Another process may have had the lease.
        """
        ...

    def release(self, lease: Lease) -> None:
        """End a lease; nothing is done, and nothing raised, if it has ended."""
        ...

    def holder(self, conversation: int) -> str:
        """Return who has the lease of a conversation, and since when; "" if it is free."""
        ...

    def remove(self, runs: Sequence[RunEntry]) -> None:
        """Remove runs, and the conversations that have no other run, all or none of them."""
        ...

    def compact(self) -> None:
        """Release the space of what was removed."""
        ...

    def find_damage(self) -> list[str]:
        """Return a line for each problem that the store finds in its own files."""
        ...

    def close(self) -> None:
        """Release the store; nothing uses it afterwards."""
        ...


class SharedStore(Store, ABC):
    """A store at a path or a URL, which the parts of a process share; see `open_store`."""

    lease_seconds: float | None = None
    is_server = False
    """Whether the store is a server's, not a file."""

    def __init__(self, place: Place) -> None:
        self.place = place
        """The path or the URL."""
        self.named = f"the journal {show_place(place)!r}"
        self.users = 0
        """The parts of the process that use the store."""
        self.lock = threading.RLock()
        """Held while the store is used."""

    def has_table(self, name: str) -> bool:  # noqa: ARG002
        """Return whether a database has a table of this name beside those of the journal."""
        return False

    @abstractmethod
    def is_current(self) -> bool:
        """Return whether the place still leads to what is open here; a file may have been deleted or replaced."""

    def can_rest(self) -> bool:
        """Return whether a file may stay open without users."""
        return False

    def can_wake(self) -> bool:
        """Return whether a file that was without users can be used again."""
        return False

    @abstractmethod
    def close(self, *, is_inherited: bool = False) -> None:
        """Release the file or the connection, and the leases.  `close_store` calls it at last.

        With `is_inherited` both stay those of the parent process, from which this one was just forked.
        """


def make_busy_error(what: str, holder: str) -> ConversationBusy:
    """Return the error for a conversation whose lease another run has."""
    return ConversationBusy(f"{what} is in progress: {holder}, is working on it. Wait until it has ended.")


def name_process() -> str:
    """Return what a lease calls the process that has it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


class OwnerFile:
    """A file beside a journal that is locked until its process ends; `owner` is the number in its name.

    By it other processes see that the owner of leases lives.  flock(2): "the lock is released ... when all such file
    descriptors have been closed"; so it survives when another part of the process opens and closes the file.  On
    Windows a file that is open cannot be removed, which needs no lock.
    """

    def __init__(self, journal: str) -> None:
        self.owner = secrets.randbits(60)
        self._path = _path_of(journal, self.owner)
        mode = os.stat(journal).st_mode & 0o777  # all users of the journal must be able to look
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, mode)
        try:
            if sys.platform != "win32":
                os.fchmod(self._file, mode)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise

    def close(self, *, is_inherited: bool = False) -> None:
        """End the life of the owner, unless that is the parent process."""
        with suppress(OSError):
            os.close(self._file)
            if not is_inherited:
                os.unlink(self._path)


def is_alive(journal: str, owner: int) -> bool:
    """Return whether the process of an owner lives; the file of one that was killed is removed."""
    path = _path_of(journal, owner)
    try:
        if sys.platform == "win32":
            os.unlink(path)
        else:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with suppress(OSError):  # the folder may belong to another user, or be read-only
                os.unlink(path)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):
        return True
    return False


def _path_of(journal: str, owner: int) -> str:
    return f"{journal}-lease-{owner:x}"


def check_free(store: Store, conversation: int, what: str = "the conversation") -> None:
    """Raise `ConversationBusy`, which names `what`, if a run of any process has the conversation.

    A child of a killed process has its lock until it begins its own program, so this waits a moment for a dead one.
    """
    end = time.monotonic() + DEAD_HOLDER_SECONDS
    while holder := store.holder(conversation):
        if not _has_died(holder) or time.monotonic() > end:
            raise make_busy_error(what, holder)
        time.sleep(DEAD_HOLDER_PAUSE)


def _has_died(holder: str) -> bool:
    """Return whether the holder of a lease is a process of this machine that does not live any more."""
    found = re.match(r"process (\d+) on (.*), since ", holder)
    if found is None or found[2] != socket.gethostname() or sys.platform == "win32":
        return False
    try:
        os.kill(int(found[1]), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def in_batches(entries: Sequence[T], size: int = RUNS_PER_QUERY) -> Iterator[Sequence[T]]:
    """Yield the entries in parts, by default as many as one query may ask for."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]


@contextmanager
def reading(store: Store, what: str) -> Iterator[None]:
    """Raise `JournalError` with the run or the conversation (`what`) if records that are read are damaged."""
    try:
        yield
    except DAMAGE as error:
        raise damage_error(store, f"{what}: {error}") from error


def damage_error(store: Store, what: str) -> JournalError:
    """Return the error for records that are not as they were written."""
    return JournalError(f"{store.named} is damaged: {what}")


def encode_json(value: Any) -> str:
    """Return `value` as JSON; raise `JournalError` if it is not JSON serialisable."""
    try:
        return write_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"the run cannot be journaled: a message is not JSON serialisable ({error})") from error
