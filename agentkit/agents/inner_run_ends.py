"""The runs of agents inside tools: each ends exactly once for the listeners, also when its tool is cancelled."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..core.flow import Event
from ..core.messages import Usage
from ..engine.result import RunEnded, RunStarted, SubRun
from ..tools.execution.turn import ToolFinished

Path = tuple[str, ...]
"""The ids of the enclosing calls, the outermost first."""


@dataclass(slots=True)
class _OpenRun:
    started: SubRun
    """The event with the `RunStarted` of the run."""
    run_id: str
    since: float
    usage: Usage = field(default_factory=Usage)


class InnerRunEnds:
    """The runs inside tools that have started and not ended.

    A cancelled tool is no longer waited for, so the end of a run inside it may arrive late or not at all.  Its end is
    reported when the call or the enclosing run ends, and what arrives afterwards is dropped.
    """

    def __init__(self) -> None:
        self._open: dict[Path, _OpenRun] = {}
        self._ended: set[Path] = set()

    def take(self, event: Event) -> Iterable[Event]:
        """Return the ends of the runs that `event` implies, then `event` itself unless it arrived late."""
        if isinstance(event, SubRun):
            return self._take_inner(event)
        if self._open and isinstance(event, ToolFinished):
            return (*self.end_below((event.result.call.id,)), event)
        return (event,)

    def _take_inner(self, event: SubRun) -> Iterator[Event]:
        path, inner = _unwrap(event)
        if isinstance(inner, RunStarted):
            self._open[path] = _OpenRun(event, inner.run_id, time.perf_counter())
            self._ended.discard(path)
        elif path in self._ended:
            return
        elif isinstance(inner, RunEnded):
            self._ended.add(path)
            self._open.pop(path, None)
            yield from self.end_below(path)
        for length in range(1, len(path) + 1):
            if run := self._open.get(path[:length]):
                run.usage += event.usage
        yield event

    def end_below(self, path: Path = ()) -> Iterator[Event]:
        """Yield the ends of the open runs inside the call at `path`, the innermost first."""
        start = "".join(f"{identity}/" for identity in path)  # "outer/" also begins the ids of calls in the outer one
        inside = [other for other in self._open if "".join(f"{identity}/" for identity in other).startswith(start)]
        for other in sorted(inside, key=len, reverse=True):
            run = self._open.pop(other)
            self._ended.add(other)
            seconds = time.perf_counter() - run.since
            yield _wrap(run.started, RunEnded("cancelled", None, run.usage, seconds, run.run_id))


def _unwrap(event: SubRun) -> tuple[Path, Event]:
    path: Path = ()
    inner: Event = event
    while isinstance(inner, SubRun):
        path, inner = (*path, inner.call.id if inner.call else ""), inner.event
    return path, inner


def _wrap(like: SubRun, event: Event) -> SubRun:
    """Return `event` at the place of the event in `like`."""
    inner = _wrap(like.event, event) if isinstance(like.event, SubRun) else event
    return replace(like, event=inner)
