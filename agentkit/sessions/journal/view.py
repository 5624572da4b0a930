"""One run of a journal for people: in the terminal, in a notebook, as a page."""

import json
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ...core.lazy_names import display_with
from ...core.messages import Message
from .connections import opened_store
from .location import JournalError, Place
from .maintenance import DEFAULT_PATH
from .reader import end_of_run, read_messages
from .run_info import RunInfo, find_run


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
        end = end_of_run(opened, run, sys.maxsize)
        found: list[Message] = []
        error = ""
        try:
            found.extend(message for message, _ in islice(read_messages(opened, run.conversation), end))
        except JournalError as damage:
            error = str(damage)
        sql = "SELECT call, name, begun, ended, outcome FROM steps WHERE run = ? ORDER BY begun"
        steps = opened.read(sql, run.id)
    if error:
        run = replace(run, state="damaged", error=error)
    spans = [_span(run, *step) for step in steps]
    return JournaledRun(run, found, {"spans": spans})


def _span(run: RunInfo, call: str, name: str, begun: float, ended: float | None, outcome: str | None) -> dict[str, Any]:
    result = json.loads(outcome) if outcome else {}
    error = ": ".join(result.get("error", ())) or ("" if ended else "the outcome is unknown")
    span = {
        "kind": "tool" if call else "model",
        "name": name,
        "call": call,
        "error": error,
        "usage": result.get("usage"),
    }
    times = {"start": max(0.0, begun - run.begun), "end": max(0.0, (ended or begun) - run.begun)}
    return {**{key: value for key, value in span.items() if value}, **times}
