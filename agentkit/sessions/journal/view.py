"""One run of a journal for people: in the terminal, in a notebook, as a page."""

import json
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ...core.lazy_names import display_with
from ...core.messages import Message, ToolCall, assistant, tool_message
from ...tools.results.result_text import render_text
from .connections import opened_store
from .listing import list_runs
from .location import JournalError, Place
from .maintenance import DEFAULT_PATH
from .reader import end_of_run, read_messages
from .run_info import RunInfo, find_run
from .steps import inner_runs
from .store import Store


@dataclass(frozen=True)
class JournaledRun:
    """A run, its messages, and its spans (see `Trace.as_dict`); secrets are masked where they are shown."""

    run: RunInfo
    messages: list[Message] = field(repr=False)
    trace: dict[str, Any] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the run in the form of `Result.as_dict`."""
        run = self.run
        figures = {"steps": run.steps, "stopped": run.stopped or run.state, "model": run.model}
        error = {"error": run.error} if run.error else {}
        data = {"usage": run.usage.as_dict(), "messages": self.messages, "trace": self.trace}
        started = datetime.fromtimestamp(run.begun, UTC).isoformat(timespec="seconds")
        seconds = {"seconds": round(run.seen - run.begun, 3), "started": started}
        return {"answer": run.answer, **figures, **seconds, **error, **data}

    def to_html(self, path: Place | None = None) -> str:
        """Return the run as an HTML page; write it into the file `path`, if given."""
        page = display_with("agentkit.views.html:result_page")(self.as_dict())
        return str(display_with("agentkit.views.html:write_page")(page, path))

    def _repr_html_(self) -> str:
        return str(display_with("agentkit.views.html:result_view")(self.as_dict()))

    def _repr_markdown_(self) -> str:
        return str(display_with("agentkit.views.html:result_markdown")(self.as_dict()))

    def __str__(self) -> str:
        return str(display_with("agentkit.views.history:format_result")(self.as_dict()))


def show(run_id: str, *, store: Place = DEFAULT_PATH) -> JournaledRun:
    """Return a run with its conversation up to its end; print it, show it in a notebook, or write it with `to_html`.

    Of a damaged conversation it has the messages before the damage.
    """
    with opened_store(store, must_exist=True) as opened:
        run = find_run(opened, run_id)
        found, error = _read(opened, run)
        spans = _spans(opened, run, run.begun)
    if error:
        run = replace(run, state="damaged", error=error)
    return JournaledRun(run, found, {"spans": spans})


def show_conversation(key: int, *, store: Place = DEFAULT_PATH) -> list[JournaledRun]:
    """Return the runs of a conversation, the oldest first; its messages are read once.

    Raises:
        JournalError: The conversation is damaged.
    """
    with opened_store(store, must_exist=True) as opened:
        messages = [message for message, _ in read_messages(opened, key)]
        return [
            JournaledRun(
                run, messages[: end_of_run(opened, run, len(messages))], {"spans": _spans(opened, run, run.begun)}
            )
            for run in reversed(list_runs(opened, conversation=key))
        ]


def _read(store: Store, run: RunInfo) -> tuple[list[Message], str]:
    """Return the messages of a run before any damage, and the damage."""
    end, found = end_of_run(store, run, sys.maxsize), list[Message]()
    try:
        found.extend(message for message, _ in islice(read_messages(store, run.conversation), end))
    except JournalError as damage:
        return found, str(damage)
    return found, ""


def _spans(store: Store, run: RunInfo, began: float) -> list[dict[str, Any]]:
    """Return the spans of a run; those of agents inside its calls are under `inner`, as in `Trace.as_dict`."""
    sql = "SELECT call, name, begun, ended, outcome FROM steps WHERE run = ? ORDER BY begun"
    spans = [_span(began, *step) for step in store.read(sql, run.id)]
    calls = {span["call"]: span for span in spans if "call" in span}
    for place, identity in dict(inner_runs(store, run.id)).items():
        inner = find_run(store, identity)
        content = {"spans": _spans(store, inner, began), "notes": [], "messages": _read(store, inner)[0]}
        if place in calls:
            calls[place]["inner"] = content
        elif outer := calls.get(place.rpartition("/")[0]):
            call = ToolCall(place, outer["name"], json.dumps({"query": inner.query}))
            times = {"start": inner.begun - began, "end": inner.seen - began}
            below = outer.setdefault("inner", {"spans": [], "notes": [], "messages": []})
            below["spans"].append({"kind": "tool", "name": call.name, "call": place, **times, "inner": content})
            below["messages"] += [assistant(None, [call]), tool_message(call, render_text(inner.answer))]
    return spans


def _span(began: float, call: str, name: str, begun: float, ended: float | None, outcome: str | None) -> dict[str, Any]:
    result = json.loads(outcome) if outcome else {}
    error = ": ".join(result.get("error", ())) or ("" if ended else "the outcome is unknown")
    span = {
        "kind": "tool" if call else "model",
        "name": name,
        "call": call,
        "error": error,
        "usage": result.get("usage"),
    }
    times = {"start": max(0.0, begun - began), "end": max(0.0, (ended or begun) - began)}
    return {**{key: value for key, value in span.items() if value}, **times}
