"""What a store of runs must do: take and return records, and give the right to continue a conversation to one run.

The stores are `sqlite.py` and `postgres.py`; a program may give one of its own in the place of a journal's path.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ..records import Record, RunEntry, Step, write_json
from .location import ConversationBusy, JournalError, LeaseLost

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


@dataclass(frozen=True, slots=True)
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
        lease_seconds: The time after which a lease ends that nothing keeps; None if leases last until their process
            ends.
    """

    named: str
    lease_seconds: float | None

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

        With `kinds` only those classes are needed; a store may return others too, and others that were replaced.  In
        the place of `StepBegun` and `StepEnded` it may return a `Step`, which `fold` reads faster.
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


def make_busy_error(what: str, holder: str) -> ConversationBusy:
    """Return the error for a conversation whose lease another run has."""
    return ConversationBusy(f"{what} is in progress: {holder}, is working on it. Wait until it has ended.")


def check_free(store: Store, conversation: int, what: str = "the conversation") -> None:
    """Raise `ConversationBusy`, which names `what`, if a run of any process has the conversation."""
    if holder := store.holder(conversation):
        raise make_busy_error(what, holder)


DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a value raises that is not what was written."""


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
