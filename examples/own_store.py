"""A store of runs of your own: a folder with a file for each conversation.

Each line of a file is one write, a JSON list of records.  A line that a killed process left half-written has no line
feed: readers ignore it, and the next write removes it.  It runs without a key; with model="groq/llama-3.1-8b-instant"
in place of the script, a real model answers.
"""

import fcntl
import json
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentkit import JsonAgent, journal
from agentkit.extend import (
    ALL_RUNS,
    ConversationNamed,
    Lease,
    LeaseLost,
    RunBegun,
    RunEntry,
    Stored,
    fold,
    from_line,
    make_busy_error,
    to_line,
)
from agentkit.testing import ScriptedModel, answer, call, check_store


class FolderStore:
    """Runs in a folder; a lease is a file with the time at which it ends."""

    def __init__(self, folder, lease_seconds=30.0):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.named = f"the folder {str(folder)!r}"
        self.lease_seconds = lease_seconds
        self._thread = threading.Lock()

    def append(self, records, lease=None):
        if not records:
            return
        line = json.dumps([to_line(record) for record in records]).encode() + b"\n"
        with self._alone():
            if lease is not None:
                self._check(lease)
            with open(self._path(records[0].conversation), "a+b") as file:
                file.seek(0)
                whole = file.read().rpartition(b"\n")
                file.truncate(len(whole[0] + whole[1]))  # without what a killed process left half-written
                file.write(line)

    def records(self, *of, kinds=()):  # noqa: ARG002
        for key in dict.fromkeys(one.conversation if isinstance(one, RunEntry) else one for one in of):
            yield from self._read(self._path(key))

    def runs(self, wanted=ALL_RUNS):
        return wanted.choose(self._fold().runs.values())

    def count_messages(self, conversation):
        return len(fold(self.records(conversation)).conversation(conversation).bodies)

    def claim_name(self, name, conversation):
        with self._alone():
            if (found := self._fold().names.get(name)) is not None:
                return found
            with open(self._path(conversation), "ab") as file:
                file.write(json.dumps([to_line(ConversationNamed(name, conversation))]).encode() + b"\n")
        return conversation

    def version(self, conversation):
        path = self._path(conversation)
        return f"{path.stat().st_mtime_ns} {path.stat().st_size}" if path.exists() else ""

    def names(self, *wanted):
        return {name: key for name, key in self._fold().names.items() if not wanted or name in wanted}

    def read_together(self, read):
        return read()

    def take(self, conversation, what="the conversation"):
        with self._alone():
            if holder := self._lease(conversation)["holder"]:
                raise make_busy_error(what, holder)
            lease = Lease(conversation, secrets.randbits(60), self)
            self._write_lease(lease)
        return lease

    def keep(self, lease):
        with self._alone():
            self._check(lease)
            self._write_lease(lease)

    def release(self, lease):
        with self._alone():
            if self._lease(lease.key)["token"] == lease.token:
                self._path(lease.key, "lease").unlink()

    def holder(self, conversation):
        return self._lease(conversation)["holder"]

    def remove(self, runs):
        with self._alone():
            for run in runs:
                path = self._path(run.conversation)
                kept = [record for record in self._read(path) if getattr(record, "run", "") != run.id]
                if any(isinstance(record, RunBegun) for record in kept):
                    new = path.with_suffix(".new")
                    new.write_text(json.dumps([to_line(record) for record in kept]) + "\n")
                    new.replace(path)
                else:
                    path.unlink(missing_ok=True)

    def compact(self):
        """Do nothing: a removal leaves no empty space."""

    def find_damage(self):
        return []

    def close(self):
        """Do nothing: no file stays open."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads and processes from writing."""
        with self._thread, open(self.folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, conversation, kind="jsonl"):
        return self.folder / f"{conversation}.{kind}"

    def _read(self, path):
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return (from_line(line) for written in lines for line in json.loads(written))

    def _fold(self) -> Stored:
        paths = sorted(self.folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return fold(record for path in paths for record in self._read(path))

    def _lease(self, conversation):
        path = self._path(conversation, "lease")
        lease = json.loads(path.read_text()) if path.exists() else {"end": 0}
        return lease if lease["end"] > time.time() else {"token": 0, "holder": ""}

    def _write_lease(self, lease):
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        values = {"token": lease.token, "holder": holder, "end": time.time() + self.lease_seconds}
        new = self._path(lease.key, "new-lease")
        new.write_text(json.dumps(values))
        new.replace(self._path(lease.key, "lease"))

    def _check(self, lease):
        if lease.is_lost or self._lease(lease.key)["token"] != lease.token:
            lease.is_lost = True
            raise LeaseLost(f"{self.named}: the lease of the conversation has ended. Resume the run.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        check_store(lambda: FolderStore(folder, lease_seconds=0.2))
        print("the store keeps its promises")
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(folder)
        agent = JsonAgent(add, model=ScriptedModel(call("add", a=2, b=3), answer("5")), journal=store)
        result = agent.run("2 + 3?")
        print(journal.show(result.run_id, store=store).run.answer)
        print(len(journal.runs(store)), journal.runs(store)[0].state)
