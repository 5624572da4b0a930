"""From the events of a run to the frames that a front door shows."""

import time
from collections.abc import Iterator

from ..core.context import Progress
from ..core.errors import Paused
from ..core.flow import Event
from ..core.masking import mask
from ..core.messages import text_of
from ..engine.model import ModelAsked, ModelReplied, ThinkingDelta
from ..engine.partial_answer import AnswerForming
from ..engine.result import RunEnded, RunFinished, RunStarted, SubRun
from ..tools.execution.turn import ToolFinished, ToolStarted
from .frames import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    CallProgress,
    Frame,
    Remark,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunNotice,
    RunOpened,
    ThoughtPiece,
    join_path,
)
from .pending_inputs import AskedFor, list_pending
from .streamed_text import MaskedStream


class FrameReader:
    """Reads the events of one run, as a listener gets them, `RunEnded` included.

    Args:
        agent: The path of the call that the run is in; "" for the run itself.
        name: The name of the tool that the run is in.
        asked: Filled with why calls wait for a decision, by their paths.
    """

    def __init__(self, agent: str = "", name: str = "", asked: dict[str, AskedFor] | None = None) -> None:
        self._agent, self._name = agent, name
        self._inner: dict[str, FrameReader] = {}
        self._number = 0
        self._asked_at: float | None = None
        self._answer, self._thoughts = MaskedStream(), MaskedStream()
        self._shown: list[str] = []
        self._final: str | None = None
        self._asked = {} if asked is None else asked

    def read(self, event: Event) -> Iterator[Frame]:
        """Yield the frames of an event, in their order."""
        match event:
            case SubRun():
                yield from self._read_inner(event)
            case AnswerForming():
                if not self._agent and event.added:
                    yield from self._show(self._answer.feed(event.added))
            case ThinkingDelta():
                if text := self._thoughts.feed(event.text):
                    yield ThoughtPiece(self._agent, text)
            case _ if event.is_piece:
                return
            case ModelAsked():
                yield from self._withdraw()
                self._number += 1
                self._asked_at = time.perf_counter()
                request = event.request
                yield RequestOpened(self._agent, self._number, event.model, len(request.messages), tuple(request.tools))
            case ModelReplied():
                yield from self._close_request(event)
            case ToolStarted():
                yield from self._open_call(event)
            case ToolFinished(result):
                if not result.is_answer:
                    path, content = join_path(self._agent, result.call.id), mask(result.content)
                    yield CallClosed(self._agent, path, content, result.seconds, result.error is not None)
            case Progress():
                identity = event.call.id if event.call else ""
                yield CallProgress(join_path(self._agent, identity), mask(str(event.value)))
            case RunStarted():
                query = mask(event.query)
                yield RunOpened(self._agent, event.run_id, query, event.model, self._name)
                yield from self._notice(event)
            case RunFinished(result):
                self._final = mask(result.text)
            case RunEnded():
                yield from self._close_run(event)
            case _:
                yield from self._read_other(event)

    def _read_inner(self, event: SubRun) -> Iterator[Frame]:
        path = join_path(self._agent, event.call.id if event.call else event.name)
        if isinstance(event.event, RunStarted) or path not in self._inner:
            self._inner[path] = FrameReader(path, event.name, self._asked)
        yield from self._inner[path].read(event.event)

    def _read_other(self, event: Event) -> Iterator[Frame]:
        if event.ends_request is not None and self._asked_at is not None:
            yield RequestClosed(self._agent, self._number, {}, self._seconds(), mask(str(event.ends_request)))
            yield from self._withdraw()
        reason, call = getattr(event, "reason", ""), getattr(event, "call", None)
        if event.waits_for and reason and call is not None:
            values = [f"{entry.where} = {entry.value}" for entry in getattr(event, "allowable", ())]
            self._asked[join_path(self._agent, call.id)] = AskedFor(mask(str(reason)), mask(", ".join(values)))
        yield from self._notice(event)

    def _notice(self, event: Event) -> Iterator[Frame]:
        if event.notice:
            yield RunNotice(self._agent, mask(event.notice), event.level == "WARNING")

    def _seconds(self) -> float:
        began, self._asked_at = self._asked_at, None
        return 0.0 if began is None else time.perf_counter() - began

    def _show(self, text: str) -> Iterator[Frame]:
        if text:
            self._shown.append(text)
            yield AnswerPiece(text)

    def _withdraw(self) -> Iterator[Frame]:
        self._answer = MaskedStream()
        if self._shown:
            self._shown.clear()
            yield AnswerWithdrawn()

    def _close_request(self, event: ModelReplied) -> Iterator[Frame]:
        if text := self._thoughts.flush():
            yield ThoughtPiece(self._agent, text)
        yield from self._show(self._answer.flush())
        yield RequestClosed(self._agent, self._number, event.reply.usage.as_dict(), self._seconds())
        if (remark := text_of(event.reply.message)) and event.reply.message.get("tool_calls"):
            yield Remark(self._agent, mask(remark))

    def _open_call(self, event: ToolStarted) -> Iterator[Frame]:
        bound = event.call
        if bound.is_answer:
            return
        written = bound.as_written
        effect = (bound.tool.effect if bound.tool is not None else None) or ""
        yield CallOpened(self._agent, join_path(self._agent, written.id), written.name, mask(written.arguments), effect)
        yield from self._notice(event)

    def _close_run(self, event: RunEnded) -> Iterator[Frame]:
        final = self._final if not self._agent else None
        if final is not None and "".join(self._shown) != final:
            yield from self._withdraw()
            yield from self._show(final)
        if self._asked_at is not None:
            yield RequestClosed(self._agent, self._number, {}, self._seconds(), event.outcome)
        error = "" if event.error is None else mask(str(event.error))
        kind = "" if event.error is None else type(event.error).__name__
        pause = event.error if isinstance(event.error, Paused) else None
        pending = list_pending(pause.calls, pause.questions, self._asked) if pause else ()
        usage = event.usage.as_dict()
        yield RunClosed(self._agent, event.outcome, final or "", error, kind, usage, event.seconds, pending)
