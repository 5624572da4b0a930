"""The store in a file of text: each line is one write, a JSON list of records as `to_line` writes them.

The first line names the version of the format.  A line that a killed process left half-written has no line feed:
readers ignore it, and the next write removes it.  Only a removal changes what was written; it replaces the file.

A write locks the file with flock(2).  A lease is a file beside it that names its owner; see `OwnerFile`.
"""

import errno
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ...core.private_files import create_private, open_private, write_atomically
from ..records import (
    DAMAGE,
    FILE_VERSION,
    KINDS,
    ConversationCut,
    ConversationNamed,
    FileBegun,
    MessageWritten,
    Record,
    RunBegun,
    RunConcluded,
    RunEntry,
    RunReopened,
    StepBegun,
    StepEnded,
    StepWithdrawn,
    Stored,
    digest,
    fold,
    from_line,
    to_line,
    write_json,
)
from .search import SearchHit, has_words, searchable_text
from .store import (
    ALL_RUNS,
    LOCK_TIMEOUT,
    MISSING_REMEDY,
    JournalError,
    JournalNotFound,
    Lease,
    OwnerFile,
    RunFilter,
    SharedStore,
    Sync,
    check_free,
    damage_error,
    encode_json,
    is_alive,
    name_process,
)

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")
LINES_SUFFIX = ".jsonl"
"""The end of the name of a file of lines."""
LOCK_PAUSE = 0.002
SQLITE_HEAD = b"SQLite format 3\0"
HEAD_OF_ANY_VERSION = b'[{"kind":"record","version":'
HEAD = encode_json([to_line(FileBegun(FILE_VERSION, "{}"))]).encode() + b"\n"
LISTED_RECORDS = (RunReopened, RunConcluded, ConversationNamed)
"""The records by which runs and names are listed, beside `RunBegun`; they stay in memory."""
RUN_KINDS = {KINDS[kind][0] for kind in (RunBegun, RunReopened, RunConcluded, StepBegun, StepEnded, StepWithdrawn)}
"""The kinds of records that have a run."""

REMOVING = (StepWithdrawn, ConversationCut)
"""The records that remove others, without which these would be read."""


def _write_line(records: Iterable[Record]) -> bytes:
    """Return the line of one write; each message has the digest by which a changed one is found."""
    entries = []
    for record in records:
        line = to_line(record)
        if isinstance(record, MessageWritten) and record.digest is None:
            line["digest"] = digest(record.place, write_json(line["message"]))
        entries.append(line)
    return encode_json(entries).encode() + b"\n"


class LinesStore(SharedStore):
    """An open file of lines, usable from any thread; all its errors are `JournalError`s.

    It is read whole when it is opened; afterwards only what was added is read.
    """

    runs_removed_together = 10_000
    """The most runs that `prune` removes at once; each removal writes the file and reads it."""

    def __init__(self, path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> None:
        super().__init__(path)
        if sys.platform == "win32":
            raise JournalError(f"{self.named}: a file of lines needs flock(2), which Windows lacks. Name a file *.db.")
        self._path = os.path.realpath(path)
        self._is_full_sync = sync == "full"
        self._owner: OwnerFile | None = None
        """By it others see that the leases of this process live."""
        self._held: dict[int, int] = {}
        """The tokens of the leases of this process, by their conversations."""
        self._patience = LOCK_TIMEOUT
        """Seconds for which a locked file is waited for: once, not at each write again."""
        self._depth = 0
        """How many calls that need the file for themselves are being made, one inside the other."""
        if must_exist and not Path(path).exists():
            raise JournalNotFound(f"{self.named} does not exist. {MISSING_REMEDY}")
        create_private(path)
        self._file = -1
        self._at_rest: tuple[int, int, int] | None = None
        """The size, the time and the mode of the file when the last user left."""
        self._open()
        try:
            self._read_new()
        except BaseException:
            os.close(self._file)
            raise

    def _open(self) -> None:
        """Open the file at the path, and forget what was read of a former one."""
        with self._errors():
            try:
                new = os.open(self._path, os.O_RDWR | os.O_APPEND)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                new = os.open(self._path, os.O_RDONLY)
        if self._file >= 0:
            os.close(self._file)
        self._file = new
        self._end = 0
        """The end of what was read."""
        self._spans: dict[int | str, list[list[int]]] = {}
        """Where the lines of each conversation, and of each run, begin and end; adjacent ones are one span."""
        self._groups: dict[int | str, dict[str, None]] = {}
        """The runs of each conversation, and those inside each run."""
        self._lengths: dict[int, int] = {}
        """The number of messages of each conversation."""
        self._listed = Stored()
        self._damage: list[str] = []
        self._count = 0
        """Lines so far."""

    def append(self, records: Sequence[Record], lease: Lease | None = None) -> None:  # noqa: ARG002
        """Write the records, all or none of them; a lease lives as long as the process."""
        if records:
            with self._alone():
                self._append(records)

    def _append(self, records: Sequence[Record]) -> None:
        self._check_sound()
        line = _write_line(records)
        head = b"" if self._end else HEAD
        with self._errors():
            if os.fstat(self._file).st_size > self._end:
                os.ftruncate(self._file, self._end)  # what a killed process left half-written
            try:
                self._write(head + line)
            except BaseException:
                with suppress(OSError):  # nothing was written to a file that can only be read
                    os.ftruncate(self._file, self._end)
                raise
        self._count += bool(head) + 1
        self._index(records, self._end + len(head), len(line))
        self._end += len(head) + len(line)

    def _check_sound(self) -> None:
        if self._damage:
            raise damage_error(self, f"{self._damage[0]}. `agentkit runs --salvage FILE` copies what can be read")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        if self._is_full_sync:
            os.fsync(self._file)

    def records(self, *of: int | RunEntry, kinds: Collection[type[Record]] = ()) -> list[Record]:
        """Return the records of conversations (by their keys), and of those of runs; see `Store.records`."""
        wanted = {KINDS[kind][0] for kind in ((*kinds, *REMOVING) if kinds else KINDS)}
        keys = dict.fromkeys(one for one in of if not isinstance(one, RunEntry))
        runs = dict.fromkeys(one.id for one in of if isinstance(one, RunEntry) and one.conversation not in keys)
        with self.lock:
            self._read_new()
            of_conversations = [record for key in keys for record in self._read(key, wanted)]
            return [*of_conversations, *(record for run in runs for record in self._read(run, wanted & RUN_KINDS))]

    def _read(self, key: int | str, wanted: Collection[str]) -> Iterator[Record]:
        for start, end in self._spans.get(key, ()):
            with self._errors():
                lines = os.pread(self._file, end - start, start)
            for line in lines.split(b"\n")[:-1]:
                yield from (from_line(entry) for entry in json.loads(line) if entry["kind"] in wanted)

    def runs(self, wanted: RunFilter = ALL_RUNS) -> list[RunEntry]:
        """Return the wanted runs, the newest first."""
        with self.lock:
            self._read_new()
            known = self._listed.runs
            if wanted.ids is not None:
                return wanted.choose(known[run] for run in wanted.ids if run in known)
            groups = wanted.conversations if not wanted.inside else [wanted.inside]
            if groups is not None:
                return wanted.choose(known[run] for group in {*groups} for run in self._groups.get(group, ()))
            return wanted.choose(known.values())

    def count_messages(self, conversation: int) -> int:
        """Return the number of messages of a conversation."""
        with self.lock:
            self._read_new()
            return self._lengths.get(conversation, 0)

    def search(self, words: Sequence[str], limit: int) -> list[SearchHit]:
        """Return the messages that have all words, those of the newest runs first; see `SearchStore.search`."""
        outer = (run.conversation for run in self.runs(RunFilter(is_inner=False)))
        hits = (
            SearchHit(key, place, body)
            for key in dict.fromkeys(outer)
            for place, body in enumerate(fold(self.records(key, kinds=(MessageWritten,))).conversation(key).bodies)
            if has_words(searchable_text(body), words)
        )
        return [*islice(hits, limit)]

    def version(self, conversation: int) -> str:
        """Return a text that changes when a run of a conversation writes something."""
        with self.lock:
            self._read_new()
            spans = self._spans.get(conversation)
            return f"{os.fstat(self._file).st_ino} {spans[-1][1]}" if spans else ""

    def claim_name(self, name: str, conversation: int) -> int:
        """Return the conversation with a name; if no conversation has it, `conversation`, which has it from now on."""
        with self._alone():
            if name not in self._listed.names:
                self._append([ConversationNamed(name, conversation)])
            return self._listed.names[name]

    def names(self, *wanted: str) -> dict[str, int]:
        """Return the named conversations, or those with the wanted names."""
        with self.lock:
            self._read_new()
            return {name: key for name, key in self._listed.names.items() if not wanted or name in wanted}

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, while nothing is written."""
        with self._alone():
            return read()

    def take(self, conversation: int, what: str = "the conversation") -> Lease:
        """Take the lease of a conversation; see `Store.take`."""
        while True:
            check_free(self, conversation, what)
            with self._alone(), self._errors():
                if not self._find_holder(conversation):
                    return self._take(conversation)

    def _take(self, conversation: int) -> Lease:
        if self._owner is None:
            self._owner = OwnerFile(self._path)
        lease = Lease(conversation, secrets.randbits(60), self)
        holder = f"{name_process()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        path = self._lease_path(conversation)
        try:
            self._held[conversation] = lease.token
            with open_private(f"{path}-new") as file:
                os.fchmod(file.fileno(), os.fstat(self._file).st_mode & 0o777)  # all users of the journal read it
                file.write(f"{self._owner.owner:x} {holder}")
            os.replace(f"{path}-new", path)  # others see none or the whole
        except BaseException:  # also an interrupt, after which nothing would release it
            with suppress(OSError):
                os.unlink(f"{path}-new")
            self.release(lease)
            raise
        return lease

    def keep(self, lease: Lease) -> None:
        """Do nothing: a lease lasts as long as its process."""

    def release(self, lease: Lease) -> None:
        """End a lease; nothing is done if it has ended."""
        with self.lock:
            if self._held.get(lease.key) == lease.token:
                del self._held[lease.key]  # from now on its file says nothing
                with suppress(OSError):
                    os.unlink(self._lease_path(lease.key))

    def holder(self, conversation: int) -> str:
        """Return who has the lease of a conversation, and since when; "" if it is free."""
        with self.lock, self._errors():
            found = self._find_holder(conversation)
        path = self._lease_path(conversation)
        if not found and os.path.exists(path):  # of a process that was killed
            with suppress(OSError, JournalError), self._alone():
                if not self._find_holder(conversation):
                    os.unlink(path)
        return found

    def _find_holder(self, conversation: int) -> str:
        try:
            owner, _, holder = Path(self._lease_path(conversation)).read_text().partition(" ")
            number = int(owner, 16)
        except (FileNotFoundError, ValueError):
            return ""
        if self._owner is not None and number == self._owner.owner:
            is_held = conversation in self._held
            return holder.replace(name_process(), "this process", 1) if is_held else ""
        return holder if is_alive(self._path, number) else ""

    def _lease_path(self, conversation: int) -> str:
        return f"{self._path}-taken-{conversation:x}"

    def remove(self, runs: Sequence[RunEntry]) -> None:
        """Remove runs, and the conversations that have no other run: the file is replaced."""
        with self._alone():
            self._check_sound()
            lost = {run.id for run in runs}
            of = {run.conversation for run in runs}
            kept = [run for run in self._listed.runs.values() if run.conversation in of and run.id not in lost]
            left = {run.conversation for run in kept}
            with self._errors():
                lines = os.pread(self._file, self._end, 0).split(b"\n")[1:-1]
            new = [HEAD]
            for line in lines:  # in their order: a name is that of the conversation that got it last
                entries = json.loads(line)
                own = entries[0].get("conversation", 0)
                records = [one for one in map(from_line, entries) if getattr(one, "run", "") not in lost]
                if own not in of:
                    new.append(line + b"\n")
                elif own in left and records:
                    new.append(_write_line(records))
            for run in kept:
                if run.status == "superseded":  # by a run that is removed
                    ended = RunConcluded(run.status, run.outcome, run.ended, run.last, run.id, run.conversation)
                    new.append(_write_line([ended]))
            with self._errors():
                write_atomically(Path(self._path), b"".join(new))
            self._open()
            self._read_new()

    def compact(self) -> None:
        """Do nothing: a removal leaves no empty space."""

    def find_damage(self) -> list[str]:
        """Return a line for each line of the file that cannot be read."""
        with self.lock:
            self._read_new()
            return [*self._damage]

    def is_current(self) -> bool:
        """Return whether the open file is still the one at this path."""
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(self._file))

    def can_rest(self) -> bool:
        """Return whether the file may stay open without users."""
        self._at_rest = self._mark()
        return not self._held

    def can_wake(self) -> bool:
        """Return whether this is still the file, with the same mode, and nothing was written meanwhile."""
        return self.is_current() and self._at_rest == self._mark()

    def _mark(self) -> tuple[int, int, int]:
        found = os.fstat(self._file)
        return found.st_size, found.st_mtime_ns, found.st_mode

    def close(self, *, is_inherited: bool = False) -> None:
        """Release the file and the leases."""
        with self.lock:
            if self._file < 0:
                return
            if not is_inherited:
                for conversation in self._held:
                    with suppress(OSError):
                        os.unlink(self._lease_path(conversation))
            self._held.clear()
            if self._owner is not None:
                self._owner.close(is_inherited=is_inherited)
                self._owner = None
            os.close(self._file)
            self._file = -1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads and processes from writing; what they wrote before has been read."""
        with self.lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._lock_file()
                yield
            finally:
                self._depth -= 1
                if not self._depth and self._file >= 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock_file(self) -> None:
        self._read_new()
        end = time.monotonic() + self._patience
        while True:
            with self._errors():
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > end:
                        self._patience = 0.0
                        raise JournalError(f"{self.named} is locked by another process. End it, or wait.") from None
                    time.sleep(LOCK_PAUSE)
                    continue
            locked = self._file
            if self.is_current():
                self._patience = LOCK_TIMEOUT
                self._read_new()
                return
            fcntl.flock(locked, fcntl.LOCK_UN)
            self._open()  # a removal has replaced it

    def _read_new(self) -> None:
        """Read what was added since the last time, from the new file if a removal has replaced it."""
        if self._file < 0:
            raise JournalError(f"{self.named} is closed. Open it again.")
        if not self.is_current() and os.path.exists(self._path):
            self._open()
        with self._errors():
            size = os.fstat(self._file).st_size
            if size < self._end:  # another program has changed it
                self._open()
            added = os.pread(self._file, size - self._end, self._end) if size > self._end else b""
        if not self._end:
            self._check_head(added)
        for line in added.split(b"\n")[:-1]:
            length = len(line) + 1
            self._count += 1
            if self._end:
                try:
                    self._index([from_line(entry) for entry in json.loads(line)], self._end, length)
                except DAMAGE as error:
                    self._damage.append(f"line {self._count}: {type(error).__name__}: {error}")
            self._end += length

    def _index(self, records: Sequence[Record], start: int, length: int) -> None:
        keys = {getattr(record, name, 0) for record in records for name in ("conversation", "run")}
        for key in keys - {0, ""}:
            spans = self._spans.setdefault(key, [])
            if spans and spans[-1][1] == start:
                spans[-1][1] = start + length
            else:
                spans.append([start, start + length])
        for record in records:
            if isinstance(record, MessageWritten | ConversationCut):
                key = record.conversation
                before = self._lengths.get(key, 0)
                is_cut = isinstance(record, ConversationCut)
                self._lengths[key] = min(before, record.place) if is_cut else max(before, record.place + 1)
            elif isinstance(record, RunBegun):
                outer, is_inner, _ = (record.origin or "").partition("/")
                for group in (record.conversation, *([outer] if is_inner else ())):
                    self._groups.setdefault(group, {})[record.run] = None
                self._listed.add(record._replace(setup=None))
            elif isinstance(record, LISTED_RECORDS):
                self._listed.add(record)

    def _check_head(self, content: bytes) -> None:
        """Raise `JournalError` unless a file begins as a journal does; its first line may be half-written."""
        line = content.partition(b"\n")[0]
        if HEAD.startswith(content[: len(HEAD)]) or line.rstrip(b"\r") == HEAD.rstrip():  # git may write CRLF
            return
        remedy = "Give the journal a file of its own."
        if line.startswith(SQLITE_HEAD):
            reason = f"is a SQLite file. Give it a name that does not end with {LINES_SUFFIX}."
        elif line.startswith(b'{"kind": "record'):
            reason = f"is the file of one recorded run, for `agentkit show` and agent.replay(path). {remedy}"
        elif line.startswith(HEAD_OF_ANY_VERSION):
            version = line.removeprefix(HEAD_OF_ANY_VERSION)[:9].rstrip(b"}]").decode(errors="replace")
            reason = f"has version {version} of the format, expected {FILE_VERSION}. Update agentkit."
        else:
            reason = f"is not a journal. {remedy}"
        raise JournalError(f"{self.named} {reason}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeError) as error:
            is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            remedy = "Make room on the disk." if is_full else "The folder must exist and be writable, the file too."
            raise JournalError(f"{self.named}: {error}. {remedy}") from error
