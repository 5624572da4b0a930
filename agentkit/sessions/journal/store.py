"""The store of a journal: what a database must do so that runs can be recorded in it, and the leases in it.

A store keeps the rows of the tables in `tables.py`, as JSON with digests, by which damaged rows are recognised.  All
stores understand the same SQL: `?` for a value, `ON CONFLICT`, a `rowid` in `runs` that increases with each new run,
and texts that are compared byte by byte.  A lease is a row that names its owner, by which others see whether the
process that has it still lives.
"""

import json
import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

from .location import ConversationBusy, JournalError, Place, show_place
from .tables import COMPATIBILITY, END_LEASE, SCHEMA_VERSION, TAKE_LEASE

LOCK_TIMEOUT = 10.0
"""Seconds that a write waits for the lock of another process, or for a lost connection."""
T = TypeVar("T")
Statement: TypeAlias = tuple[str, Sequence[Any]]


@dataclass(eq=False)
class Lease:
    """The right to continue a conversation; only one run of all processes has it at a time."""

    key: int
    token: int
    store: "Store"
    is_lost: bool = False
    """Whether another process has had it since the connection was lost."""

    def release(self) -> None:
        """End the lease; a second call does nothing."""
        self.store.end_lease(self)


class Store(ABC):
    """An open journal, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, place: Place) -> None:
        self.place = place
        """The path or the URL."""
        self.named = f"the journal {show_place(place)!r}"
        self.users = 0
        """The parts of the process that use the store, see `open_store`."""
        self.lock = threading.RLock()
        """Held while the store is used."""
        self._owner = 0
        """The number in the leases of this process, by which others see whether it lives."""
        self._held: dict[int, Lease] = {}
        """The leases of this process, by their tokens."""
        self._is_read_only = False
        """Whether a later version has made the tables, which this version can only read."""
        self._ended: list[Statement] = []
        """The statements that remove leases, and could not be run yet."""

    @abstractmethod
    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them.

        With a lease nothing is written after another process has taken the lease over.  A write may be repeated when
        the connection is lost in it, so each statement must have the same effect when it runs twice.

        Raises:
            LeaseLost: Another process has had the lease meanwhile.
            JournalError: Nothing could be written.
        """

    @abstractmethod
    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return whether there is a table of this name beside those of the journal."""

    @abstractmethod
    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, all of whose queries see the same state; other threads wait."""

    @abstractmethod
    def remove(self, statements: Sequence[Statement]) -> None:
        """Run statements that delete runs, while no run begins; release the space."""

    @abstractmethod
    def find_damage(self) -> list[str]:
        """Return a line for each problem that the database finds in its own files."""

    @abstractmethod
    def is_current(self) -> bool:
        """Return whether the place still leads to what is open here; a file may have been deleted or replaced."""

    @abstractmethod
    def shut(self, *, is_inherited: bool = False) -> None:
        """Release the file or the connection, and the leases.  `close_store` calls it at last.

        With `is_inherited` both stay those of the parent process, from which this one was just forked.
        """

    @abstractmethod
    def _is_alive(self, owner: int) -> bool:
        """Return whether the owner of leases, which is not this process, still lives."""

    @abstractmethod
    def _own(self) -> int:
        """Return the number of this process, after others can see by it that the process lives."""

    def _check_version(self, version: int) -> None:
        """Raise `JournalError` for tables of a later version that this one cannot read.

        Tables that it can only read are not written.
        """
        if version <= SCHEMA_VERSION:
            return
        found = self.read(COMPATIBILITY, version)
        readable_by, writable_by = found[0] if found else (version, version)
        if readable_by > SCHEMA_VERSION:
            raise JournalError(f"{self.named} has version {version}, expected {SCHEMA_VERSION}. Update agentkit.")
        self._is_read_only = writable_by > SCHEMA_VERSION

    def _check_writable(self) -> None:
        if self._is_read_only:
            raise JournalError(f"{self.named} has a later version, which this agentkit can only read. Update agentkit.")

    def _refuse_migration(self, holders: Sequence[str]) -> None:
        """Raise `JournalError` if programs of an older version, with these names, use the journal now."""
        if holders:
            raise JournalError(
                f"{self.named} is in use by an older version of agentkit: {', '.join(holders)}. Its tables are not "
                f"changed meanwhile, because its runs would be repeated. Stop {'it' if len(holders) == 1 else 'them'} "
                "first, then open the journal again."
            )

    def lease(self, key: int, what: str = "the conversation") -> Lease:
        """Take the lease of the conversation `key`.

        Raises:
            ConversationBusy: Another run has it; the message names `what`, the process and the time.
            JournalError: The lease cannot be written.
        """
        lease = Lease(key, secrets.randbits(60), self)
        is_written = False
        with self.lock:
            try:
                while (old := self.check_free(key, what)) != (lease.token, self._owner):
                    values = key, lease.token, self._own(), _name_process(), time.strftime("%Y-%m-%d %H:%M:%S")
                    self._write_ended((TAKE_LEASE, (*values, *old)))
                    is_written = True
                self._held[lease.token] = lease
            except BaseException as error:
                if is_written or not isinstance(error, JournalError):  # an interrupt may come after the write
                    self._held[lease.token] = lease
                    self.end_lease(lease)
                raise
        return lease

    def check_free(self, key: int, what: str = "the conversation") -> tuple[int, int]:
        """Return the token and the owner of the last lease of a conversation, if it was not ended; else zeros.

        Raises:
            ConversationBusy: A run of any process has the conversation; the message names `what`.
        """
        with self.lock:
            found = self.read("SELECT token, owner, holder, since FROM leases WHERE conversation = ?", key)
            token, owner, holder, since = found[0] if found else (0, 0, "", "")
            if token in self._held if owner == self._owner else owner and self._is_alive(owner):
                named = "this process" if holder == _name_process() else holder
                raise ConversationBusy(
                    f"{what} is in progress: {named}, since {since}, is working on it. Wait until it has ended."
                )
        return token, owner

    def is_leased(self, key: int) -> bool:
        """Return whether a run of any process has the conversation."""
        try:
            self.check_free(key)
        except ConversationBusy:
            return True
        return False

    def end_lease(self, lease: Lease) -> None:
        """Remove a lease; if that cannot be written now, it is with the next one."""
        with self.lock, suppress(JournalError):
            if self._held.pop(lease.token, None) is not None:
                self._ended.append((END_LEASE, (lease.key, lease.token)))
                self._write_ended()

    def _write_ended(self, *statements: Statement) -> None:
        """Remove the leases that have ended, and run `statements`."""
        ended = [*self._ended]
        self.append([*ended, *statements])
        del self._ended[: len(ended)]


def _name_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


_write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest(place: object, text: str) -> int:
    """Return a number that changes with every bit of `text` and with its place."""
    data = f"{place}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest()) >> 1


def cut_digest(conversation: int, key: str, body: str) -> int:
    """Return the digest of a row of `cut`: the whole text of a result, with its key."""
    return digest(f"{conversation}/{key}", body)


def digest_texts(rows: Iterable[Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the values of `CHECK_CUT` for rows of `SELECT_UNCHECKED`."""
    for conversation, key, body in rows:
        yield cut_digest(conversation, key, body), conversation, key


def read_texts(store: Store, conversation: int) -> dict[str, Any]:
    """Return the whole texts of results of a conversation by their keys; raise `JournalError` for a damaged one."""
    texts = {}
    rows = store.read("SELECT key, body, digest FROM cut WHERE conversation = ?", conversation)
    with reading(store, f"cut, conversation {conversation}"):
        for key, body, number in rows:
            if cut_digest(conversation, key, body) != number:
                raise damage_error(store, f"table cut, conversation {conversation}: the text {key} was changed")
            texts[key] = json.loads(body)
    return texts


def step_digest(run: str, step: int, call: str, *values: Any) -> int:
    """Return the digest of a row of `steps`: of its name, input, arguments and outcome."""
    return digest(f"{run}/{step}/{call}", repr(values))


DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a value raises that is not what was written."""


@contextmanager
def reading(store: Store, what: str) -> Iterator[None]:
    """Raise `JournalError` with the table and the run (`what`) if rows that are read in the block are damaged."""
    try:
        yield
    except DAMAGE as error:
        raise damage_error(store, f"table {what}: {error}") from error


def damage_error(store: Store, what: str) -> JournalError:
    """Return the error for rows that are not as they were written."""
    return JournalError(f"the journal {show_place(store.place)!r} is damaged: {what}")


def read_checked_messages(store: Store, *keys: int) -> Iterator[tuple[int, str, int, str]]:
    """Yield the messages of conversations: the key, the text, its digest, and the damage, "" for a sound message."""
    places = dict.fromkeys(keys, 0)
    where = f"conversation IN ({', '.join('?' * len(keys))}) ORDER BY conversation, place"
    rows = store.read(f"SELECT conversation, place, body, digest FROM messages WHERE {where}", *keys) if keys else ()
    for key, place, body, number in rows:
        expected = places.setdefault(key, 0)
        is_sound = isinstance(body, str) and place == expected and digest(place, body) == number
        error = "" if is_sound else str(damage_error(store, f"message {expected} of a run is incomplete"))
        yield key, body, number, error
        places[key] = expected + 1


def encode_json(value: Any) -> str:
    """Return `value` as JSON; raise `JournalError` if it is not JSON serialisable."""
    try:
        text = _write_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"the run cannot be journaled: a message is not JSON serialisable ({error})") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
