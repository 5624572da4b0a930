"""A journaled run as the lines of a recording, with the conversation in place of its requests."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core.masking import mask_data
from ...core.messages import Message, calls_of, system
from ..journal.connections import opened_store
from ..journal.encoding import reading
from ..journal.location import Journal, Place, show_place
from ..journal.maintenance import DEFAULT_PATH
from ..journal.reader import closed_state, end_of_run, read_conversation, usage_before
from ..journal.run_info import RunInfo, find_run
from ..journal.setup import read_setup
from ..journal.steps import read_steps
from ..journal.store import Store
from ..journal.tables import END_RUN, END_STEP, INSERT_STEP
from .file import Recording
from .lines import FIRST_LINE, Line, lines_of, write_lines


def read_journaled(run_id: str, place: Place) -> Recording:
    """Return the recording of a journaled run.

    Raises:
        JournalError: No run has the id, or it is damaged.
    """
    recording = Recording(f"run {run_id} of {show_place(place)!r}")
    return recording.read(map(mask_data, _read_lines(run_id, place)))


def export(run_id: str, path: str | os.PathLike[str], *, store: Place = DEFAULT_PATH) -> None:
    """Write a journaled run into a file that `JsonAgent.replay` and `Session.load` read; secrets are masked.

    Raises:
        JournalError: No run has the id, or it is damaged.
        OSError: The file cannot be written.
    """
    write_lines(path, _read_lines(run_id, store))


def _read_lines(run_id: str, place: Place) -> list[Line]:
    with opened_store(place, must_exist=True) as store, store.snapshot():
        run = find_run(store, run_id)
        kept, state = read_conversation(store, Journal(place), run.conversation)
        messages, cut = kept.written[: end_of_run(store, run)], state.pop("cut")
        if len(messages) < len(kept.written):
            state |= closed_state(messages[run.first :])
        ended = "SELECT status, ended, outcome, last, id FROM runs WHERE id = ? AND outcome IS NOT NULL"
        with reading(store, f"setups and steps, run {run.id}"):
            return [
                {**FIRST_LINE, "usage": usage_before(store, run.conversation, run.id).as_dict()},
                {"kind": "run", "id": run.id, "query": run.query, "model": run.model, "first": run.first},
                *_conversation_lines(store, run, messages),
                *({"kind": "cut", "key": key, "text": text} for key, text in cut.items()),
                {"kind": "state", "state": state},
                *lines_of((END_RUN, row) for row in store.read(ended, run.id)),
            ]


def _conversation_lines(store: Store, run: RunInfo, messages: Sequence[Message]) -> Iterator[Line]:
    """Yield the messages, each reply after its request, and the calls with their results after the reply."""
    setup = read_setup(store, run.id)
    first = system(setup.instruction) if setup else messages[0]
    steps = {(row.step, row.call): row for row in read_steps(store, [run.id])[run.id]}
    number, before = 0, dict[str, Any]()
    for place, message in enumerate([first, *messages[1:]]):
        if message["role"] == "assistant" and place >= run.first:
            number += 1
            asked = steps.get((number, ""))
            model, outcome = (asked.name, json.loads(asked.outcome or "{}")) if asked else (run.model, {})
            usage = outcome.get("usage", before)
            yield {"kind": "request", "model": model} | ({"tools": setup.tools} if setup and number == 1 else {})
            figures = {"finish_reason": outcome.get("finish_reason"), "usage": _subtract(usage, before)}
            yield {"kind": "reply", "message": message, **figures, "model": model}
            before = usage
        yield {"kind": "message", "place": place, "message": message}
        for call in calls_of(message):
            if row := steps.get((number, call.id)):
                end = (END_STEP, (row.ended, row.outcome, row.digest, row.run, row.step, row.call))
                yield from lines_of([(INSERT_STEP, row), *([end] if row.outcome else [])])
    yield {"kind": "message", "place": 0, "message": messages[0]}  # a hand-over changes the instruction


def _subtract(usage: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [(name, value, before.get(name, 0)) for name, value in usage.items()]
    return {name: None if value is None or old is None else value - old for name, value, old in pairs}
