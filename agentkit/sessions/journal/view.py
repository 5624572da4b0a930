"""One run of a journal for people: in the terminal, in a notebook, as a page."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ...core.lazy_names import display_with
from ...core.messages import Message, ToolCall, Usage, assistant, tool_message
from ...engine.trace import Span, Trace
from ...tools.results.result_text import render_text
from .connections import opened_store
from .location import JournalError, Place
from .maintenance import DEFAULT_PATH
from .reader import end_of_run, read_messages
from .run_info import RunInfo, find_run, list_runs
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

    _repr_html_ = display_with("agentkit.views.html:result_view", as_dict)
    _repr_markdown_ = display_with("agentkit.views.html:result_markdown", as_dict)
    __str__ = display_with("agentkit.views.history:format_result", as_dict)


def show(run_id: str, *, store: Place = DEFAULT_PATH) -> JournaledRun:
    """Return a run with its conversation up to its end; print it, show it in a notebook, or write it with `to_html`.

    Of a damaged conversation it has the messages before the damage.
    """
    with opened_store(store, must_exist=True) as opened:
        run = find_run(opened, run_id)
        found, error = _read_messages(opened, run)
        trace = _read_trace(opened, run, run.begun)
    if error:
        run = replace(run, state="damaged", error=error)
    return JournaledRun(run, found, trace.as_dict())


def show_conversation(key: int, *, store: Place = DEFAULT_PATH) -> list[JournaledRun]:
    """Return the runs of a conversation, the oldest first; its messages are read once.

    Raises:
        JournalError: The conversation is damaged.
    """
    with opened_store(store, must_exist=True) as opened:
        messages = [message for message, _ in read_messages(opened, key)]
        return [
            JournaledRun(run, messages[: end_of_run(opened, run)], _read_trace(opened, run, run.begun).as_dict())
            for run in reversed(list_runs(opened, "conversation = ?", key))
        ]


def _read_messages(store: Store, run: RunInfo) -> tuple[list[Message], str]:
    """Return the messages of a run before any damage, and the damage."""
    end, found = end_of_run(store, run), list[Message]()
    try:
        found.extend(message for message, _ in islice(read_messages(store, run.conversation), end))
    except JournalError as damage:
        return found, str(damage)
    return found, ""


def _read_trace(store: Store, run: RunInfo, began: float) -> Trace:
    """Return the requests and calls of a run; those of agents inside its calls are in `inner`."""
    trace = Trace(began=began)
    sql = "SELECT call, name, begun, ended, outcome FROM steps WHERE run = ? ORDER BY begun"
    for call, name, begun, ended, outcome in store.read(sql, run.id):
        result = json.loads(outcome) if outcome else {}
        error = ": ".join(result.get("error", ())) or ("" if ended else "the outcome is unknown")
        usage = Usage(**result["usage"]) if "usage" in result else None
        start, end = max(began, begun), max(began, ended or begun)
        trace.spans.append(Span("tool" if call else "model", name, start, end, call, error, usage))
    names = {span.call: span.name for span in trace.spans if span.call}
    for place, identity in dict(inner_runs(store, run.id)).items():
        inner, outer = find_run(store, identity), place.rpartition("/")[0]
        below = _read_trace(store, inner, began)
        below.messages = _read_messages(store, inner)[0]
        if place in names:
            trace.inner[place] = below
        elif outer in names:  # a function that calls agents
            call, between = ToolCall(place, names[outer], json.dumps({"query": inner.query})), trace.within(outer)
            between.spans.append(Span("tool", call.name, inner.begun, inner.seen, place))
            between.inner[place] = below
            answer = tool_message(call, render_text(inner.answer))
            between.messages = [*between.messages, assistant(None, [call]), answer]
    return trace
