"""A journaled run as a recording: its replies and results, with the conversation in which it had them.

The journal has the last request of each step, so requests of policies (a summary) and failed attempts are not in it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.masking import mask, mask_data
from ...core.messages import Message, Usage, calls_of, system
from ..journal.connections import opened_store
from ..journal.encoding import reading
from ..journal.location import Place, show_place
from ..journal.maintenance import DEFAULT_PATH
from ..journal.reader import end_of_run, read_messages
from ..journal.run_info import RunInfo, find_run
from ..journal.store import Store
from .file import Exchange, Recording, write_recording


def read_journaled(run_id: str, place: Place) -> Recording:
    """Return the recording of a journaled run.

    Raises:
        JournalError: No run has the id, or it is damaged.
    """
    with opened_store(place, must_exist=True) as store, store.snapshot():
        run = find_run(store, run_id)
        messages = [message for message, _ in read_messages(store, run.conversation)]
        messages = messages[: end_of_run(store, run, len(messages))]
        with reading(store, f"setups and steps, run {run.id}"):
            sql = "SELECT body FROM setups WHERE id = (SELECT setup FROM runs WHERE id = ?)"
            setup = [json.loads(body) for (body,) in store.read(sql, run.id)]
            instruction, tools = setup[0] if setup else (messages[0]["content"], None)
            steps = _read_steps(store, run)
    content = messages[run.first].get("content")
    begin = {
        "query": run.query,
        "model": run.model,
        "stream": False,
        "history": messages[: run.first],
        "content": content if isinstance(content, list) else None,
    }
    recording = Recording(f"run {run.id} of {show_place(place)!r}", mask_data(begin), is_journaled=True)
    messages = [system(instruction), *messages[1:]]
    recording.exchanges += _exchanges(run, messages, tools, steps)
    _add_results(recording, messages[run.first :], steps)
    if run.state == "finished":
        recording.end = mask_data({"answer": run.answer, "stopped": run.stopped})
    return recording


def _read_steps(store: Store, run: RunInfo) -> dict[tuple[int, str], tuple[str, str | None, dict[str, Any]]]:
    """Return name, changed arguments and outcome of the steps, by number and call."""
    rows = store.read("SELECT step, call, name, arguments, outcome FROM steps WHERE run = ? ORDER BY step", run.id)
    return {
        (step, call): (name, arguments, json.loads(outcome) if outcome else {})
        for step, call, name, arguments, outcome in rows
    }


def _exchanges(
    run: RunInfo, messages: Sequence[Message], tools: Mapping[str, Any] | None, steps: Mapping[tuple[int, str], Any]
) -> list[Exchange]:
    places = [place for place in range(run.first, len(messages)) if messages[place]["role"] == "assistant"]
    found, before = [], Usage()
    for number, place in enumerate(places, 1):
        model, _, outcome = steps.get((number, ""), (run.model, None, {}))
        usage = Usage(**outcome["usage"]) if "usage" in outcome else before
        reply = {
            "kind": "reply",
            "message": mask_data(messages[place]),
            "usage": _difference(usage, before),
            "finish_reason": outcome.get("finish_reason"),
            "model": model,
        }
        earlier = mask_data([*messages[:place]])
        found.append(Exchange(number, model, earlier, mask_data(tools) if number == 1 else None, "", reply))
        before = usage
    return found


def _difference(usage: Usage, before: Usage) -> dict[str, Any]:
    old = before.as_dict()
    return {
        name: None if value is None or old[name] is None else value - old[name]
        for name, value in usage.as_dict().items()
    }


def _add_results(recording: Recording, messages: Sequence[Message], steps: Mapping[tuple[int, str], Any]) -> None:
    """Add the results of calls and the decisions that led to them: a call with an outcome was approved."""
    texts = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    number = 0
    for message in messages:
        number += message["role"] == "assistant"
        for call in calls_of(message):
            _, changed, outcome = steps.get((number, call.id), (call.name, None, {}))
            if not outcome and call.id not in texts:
                continue
            line = {"name": call.name, "arguments": mask(changed or call.arguments)}
            recording.results[call.id] = {**line, **(outcome or {"text": texts[call.id]})}
            if outcome:
                recording.decisions[call.id] = json.loads(changed) if changed else True


def export(run_id: str, path: str | os.PathLike[str], *, store: Place = DEFAULT_PATH) -> None:
    """Write a journaled run into a file that `JsonAgent.replay` reads; secrets are masked.

    Raises:
        JournalError: No run has the id, or it is damaged.
        OSError: The file cannot be written.
    """
    write_recording(read_journaled(run_id, store), path)
