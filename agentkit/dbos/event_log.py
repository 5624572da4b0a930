"""The events of running runs, written into the database in batches so that clients can follow."""

import json
import threading
from collections.abc import Iterator
from typing import Any

from ..core.flow import Event
from ..engine.result import RunEnded, RunFinished
from ..sessions.journal.location import JournalError
from ..sessions.journal.store import Lease, Statement
from ..views.json_lines import EventEncoder
from .database import Database, event_statement

WRITE_SECONDS = 0.1
"""Seconds between two writes of new events."""
MAX_UNWRITTEN_EVENTS = 10_000
"""Events of a run that wait for a database that is away; later ones are dropped until it is back."""


class RunEvents:
    """The events of one run that are not written yet."""

    def __init__(self, run: str, number: int) -> None:
        self._run, self._number = run, number
        self._encoder, self._entries = EventEncoder(), list[dict[str, Any]]()

    def listen(self, event: Event) -> None:
        """Add an event, as a listener of the run."""
        if isinstance(event, RunEnded) or len(self._entries) > MAX_UNWRITTEN_EVENTS:
            return
        for entry in self._encoder.encode(event):
            if isinstance(event, RunFinished):  # the journal has the messages
                figures = {key: value for key, value in entry["result"].items() if key not in ("messages", "trace")}
                entry = {**entry, "result": figures}
            self._entries.append(entry)

    def take(self) -> Iterator[Statement]:
        """Yield the statement that writes the new events, if there are any."""
        if entries := self._entries:
            self._entries = []
            self._number += 1
            yield event_statement(self._run, self._number, json.dumps(entries, default=str))


class EventLog:
    """Writes the events of all runs of a worker; one whose lease is lost writes nothing."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database, self._lease = database, lease
        self._open: set[RunEvents] = set()
        self._guard = threading.Lock()

    def open(self, run: str) -> RunEvents:
        """Return the events of a run that begins or continues."""
        sql = "SELECT coalesce(max(number), 0) FROM run_events WHERE run = ?"
        events = RunEvents(run, self._database.store.read(sql, run)[0][0])
        with self._guard:
            self._open.add(events)
        return events

    def close(self, events: RunEvents) -> None:
        """Write the last events of a run."""
        with self._guard:
            self._open.discard(events)
        self._write([*events.take()])

    def write(self) -> None:
        """Write the new events of all runs."""
        with self._guard:
            rows = [row for events in self._open for row in events.take()]
        self._write(rows)

    def _write(self, rows: list[Statement]) -> None:
        if rows:
            try:
                self._database.store.append(rows, self._lease)
            except JournalError:  # the run is in the journal; only a client that is watching misses these events
                return
