"""What a front door shows of a run: a page, an editor or any other client gets these frames, whatever its protocol.

`FrameReader` turns the events of a run into frames, `frames_of_stored_run` a run that was stored, with the seconds
after its begin.  Frames are plain and masked.  The call of the answer tool is the answer's text, not a call.  Ids of
calls inside an agent of a tool are paths: "outer/inner", as in `Session.waiting`.  What a paused run waits for is a
pending input, as a front door asks for it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, TypeAlias, TypeVar

from ..core.context import PlanChanged, PlanStep, Progress
from ..core.errors import LimitExceeded, Paused
from ..core.flow import Event, Listener
from ..core.masking import MaskedStream, mask
from ..core.messages import Message, calls_of, text_of
from ..core.parts import Part, parts_of
from ..core.pending import Pending
from ..core.values import frozen
from ..engine.model import AnswerForming, ModelAsked, ModelReplied, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.result import RunEnded, RunFinished, RunOutcome, RunStarted, SubRun
from ..tools.execution.call import ANSWER_RESULT
from ..tools.execution.turn import ToolFinished, ToolStarted
from ..tools.results.result_text import render_text

T = TypeVar("T")


@frozen
class RunOpened:
    """A run began; `agent` is the path of the call that it runs in, "" for the run itself."""

    agent: str
    run_id: str
    query: str
    model: str
    name: str = ""


@frozen
class RequestOpened:
    """A request was sent; its number in the run, and how many messages and which tools it has."""

    agent: str
    number: int
    model: str
    messages: int = 0
    tools: tuple[str, ...] = ()


@frozen
class RequestClosed:
    """The request has its reply, or failed with `error`; `usage` as in `Usage.as_dict`."""

    agent: str
    number: int
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


@frozen
class AnswerPiece:
    """A piece of the answer's text; `agent` is "" for the run itself."""

    text: str
    agent: str = ""


@frozen
class AnswerWithdrawn:
    """The pieces of the answer so far are void: the request is repeated, or the answer is another one."""

    agent: str = ""


@frozen
class ReplyPiece:
    """A piece of what the model writes and is no answer yet: a text, or the name and the arguments of a call."""

    agent: str
    text: str


@frozen
class ThoughtPiece:
    """A piece of the model's reasoning."""

    agent: str
    text: str


@frozen
class Remark:
    """A text of the model beside its calls."""

    agent: str
    text: str


@frozen
class CallOpened:
    """A tool call began; `arguments` is the JSON text, `effect` that of its tool, "" if it has none."""

    agent: str
    id: str
    name: str
    arguments: str
    effect: str = ""


@frozen
class CallProgress:
    """A tool reported something while it runs."""

    id: str
    text: str


@frozen
class CallClosed:
    """A tool call has its result: the text that the model reads.

    One that `waits` has none: it asks a person.  A refused one did not run.  `images` are addresses, mostly of the kind
    "data:image/png;base64,...".
    """

    agent: str
    id: str
    content: str
    seconds: float = 0.0
    is_error: bool = False
    waits: bool = False
    is_refused: bool = False
    images: tuple[str, ...] = ()


@frozen
class PlanShown:
    """The plan of an agent changed; `steps` is the whole plan."""

    agent: str
    steps: tuple[PlanStep, ...]


@frozen
class RunNotice:
    """A sentence for the person."""

    agent: str
    text: str
    is_warning: bool = False


@frozen
class RunClosed:
    """A run ended; `outcome` as in `RunEnded`, `answer` as text, `pending` is what a paused run waits for, masked."""

    agent: str
    outcome: str
    answer: str = ""
    error: str = ""
    kind: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    pending: tuple[Pending, ...] = ()


Frame: TypeAlias = (
    RunOpened | RequestOpened | RequestClosed | AnswerPiece | AnswerWithdrawn | ReplyPiece | ThoughtPiece | Remark
    | CallOpened | CallProgress | CallClosed | PlanShown | RunNotice | RunClosed
)  # fmt: skip


def join_path(agent: str, identity: str) -> str:
    """Return the path of a call of an agent; `agent` is the path of the call that the agent works for."""
    return f"{agent}/{identity}" if agent else identity


OUTCOMES: Mapping[str, RunOutcome] = {
    "finished": "answer",
    "paused": "paused",
    "superseded": "stopped",
    "failed": "error",
}
"""For each state of a stored run: the outcome that its end is shown with; "cancelled" for others."""


def frames_of_stored_run(
    run: Mapping[str, Any], *, run_id: str, query: str, state: str, first: int = 0, pending: Sequence[Pending] = ()
) -> list[tuple[float, Frame]]:
    """Return the frames of a run with their times, those of agents inside its calls included, in the order of times.

    Args:
        run: The run, in the form of `Result.as_dict`.
        run_id: Its id.
        query: Its query.
        state: Its state, as in `RunInfo`; an interrupted or running one has no end.
        first: The index of its first message.
        pending: What it waits for.
    """
    frames: list[tuple[float, Frame]] = [(0.0, RunOpened("", run_id, mask(query), run["model"]))]
    frames += _steps("", run["messages"][first:], run["trace"].get("spans", ()), run["model"], 0.0, first)
    frames.sort(key=lambda timed: timed[0])  # stable: calls of one turn ran side by side
    frames += _end(run, state, max(frames[-1][0], run.get("seconds", 0.0)), pending)
    return frames


def _steps(
    agent: str, messages: Sequence[Message], spans: Sequence[Mapping[str, Any]], model: str, now: float, first: int
) -> Iterator[tuple[float, Frame]]:
    """Yield the requests and calls of an agent; `first` is the index of the first message in its requests."""
    requests = [span for span in spans if span["kind"] == "model"]
    calls = {span.get("call"): span for span in spans if span["kind"] == "tool"}
    answers = {message["tool_call_id"] for message in messages if message.get("content") == ANSWER_RESULT}
    number = 0
    for place, message in enumerate(messages, first):
        if message["role"] == "assistant":
            span = requests[number] if number < len(requests) else {}
            number += 1
            now = max(now, span.get("start", now))
            yield now, RequestOpened(agent, number, span.get("name", model), place)
            end = max(now, span.get("end", now))
            yield end, RequestClosed(agent, number, span.get("usage") or {}, end - now)
            now = end
            yield from _reply(agent, message, answers, calls, now, is_last=place == first + len(messages) - 1)
        elif message["role"] == "tool" and message["tool_call_id"] not in answers:
            span = calls.get(message["tool_call_id"], {})
            now = max(now, span.get("end", now))
            yield now, _result(agent, message, span)


def _reply(
    agent: str, message: Message, answers: set[str], calls: Mapping[Any, Any], now: float, *, is_last: bool
) -> Iterator[tuple[float, Frame]]:
    if (calls_of(message) or not is_last) and (text := text_of(message)):
        yield now, Remark(agent, mask(text))
    for call in calls_of(message):
        if call.id not in answers:
            span = calls.get(call.id, {})
            begun = max(now, span.get("start", now))
            path = _join_stored(agent, call.id)
            yield begun, CallOpened(agent, path, call.name, mask(call.arguments))
            if inner := span.get("inner"):
                error = mask(span.get("error", ""))
                yield from _inner(path, call.name, inner, begun, max(begun, span.get("end", begun)), error)


def _join_stored(agent: str, identity: str) -> str:
    """Return the path of a call; the id of an agent that a function calls begins with that of the function's call."""
    return join_path(agent, identity.removeprefix(f"{agent.rpartition('/')[2]}/"))


def _inner(
    path: str, name: str, inner: Mapping[str, Any], begun: float, end: float, error: str
) -> Iterator[tuple[float, Frame]]:
    """Yield the frames of an agent inside a call; `error` is that of the call."""
    messages = inner.get("messages", ())
    query = next((text_of(message) for message in messages if message["role"] == "user"), "")
    yield begun, RunOpened(path, "", mask(query), "", name)
    yield from _steps(path, messages, inner.get("spans", ()), name, begun, 0)
    text = error.removeprefix(f"{Paused.__name__}: ")
    yield end, RunClosed(path, "answer" if not error else "error" if text == error else "paused", error=text)


def _result(agent: str, message: Message, span: Mapping[str, Any]) -> CallClosed:
    seconds = span.get("end", 0.0) - span.get("start", 0.0)
    path = _join_stored(agent, message["tool_call_id"])
    is_refused = bool(message.get("refused"))
    is_error = bool(span.get("error")) or is_refused
    content = mask(text_of(message))
    images = _images(parts_of(message))
    return CallClosed(agent, path, content, seconds, is_error, is_refused=is_refused, images=images)


def _images(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return the addresses of the images among the parts of a result."""
    return tuple(part["image_url"]["url"] for part in parts if part.get("type") == "image_url")


def _end(run: Mapping[str, Any], state: str, now: float, pending: Sequence[Pending]) -> Iterator[tuple[float, Frame]]:
    if state in ("running", "interrupted"):
        return
    outcome = OUTCOMES.get(state, "cancelled")
    kind = ""
    error = mask(run.get("error", ""))
    if state in ("paused", "failed"):  # the error with the name of its class
        name, _, text = error.partition(": ")
        if name.isidentifier():
            kind = name
            error = text
    if kind == LimitExceeded.__name__:
        outcome = "limit"
    if run.get("stopped") == "stopped":
        outcome = "stopped"
    answer = mask(render_text(run["answer"])) if outcome == "answer" else ""
    if answer:
        yield now, AnswerPiece(answer)
    usage = run["usage"]
    yield now, RunClosed("", outcome, answer, error, kind, usage, run.get("seconds", 0.0), tuple(pending))


class InnerRuns(Generic[T]):
    """What a view keeps of each run inside the calls of one; `make` makes it for a path and the name of the tool."""

    def __init__(self, make: Callable[[str, str], T]) -> None:
        self._make = make
        self._kept: dict[str, T] = {}

    def find(self, event: SubRun, agent: str = "") -> T:
        """Return what is kept of the run of an event; a call that runs again begins anew."""
        path = join_path(agent, event.call.id if event.call else event.name)
        if isinstance(event.event, RunStarted) or path not in self._kept:
            self._kept[path] = self._make(path, event.name)
        return self._kept[path]


class MaskedPieces:
    """The texts of one reply, which arrive in pieces; what is returned is cut so that no secret is split."""

    def __init__(self) -> None:
        self._streams: dict[Any, MaskedStream] = {}

    def feed(self, key: Any, text: str) -> str:
        """Add a piece of a text; return what can be shown now."""
        return self._streams.setdefault(key, MaskedStream()).feed(text)

    def flush(self, *keys: Any) -> str:
        """Return the rest of texts, which end here."""
        return "".join(self._streams.pop(key).flush() for key in keys if key in self._streams)

    def clear(self) -> None:
        """Forget the texts: the reply is withdrawn."""
        self._streams.clear()


class FrameReader:
    """Reads the events of one run, as a listener gets them, `RunEnded` included.

    Args:
        agent: The path of the call that the run is in; "" for the run itself.
        name: The name of the tool that the run is in.
    """

    def __init__(self, agent: str = "", name: str = "") -> None:
        self._agent = agent
        self._name = name
        self._inner = InnerRuns(FrameReader)
        self._number = 0
        self._asked_at: float | None = None
        self._pieces = MaskedPieces()
        self._call: int | None = None
        self._remark = ""
        self._is_answering = False
        self._shown: list[str] = []
        self._final: str | None = None

    def read(self, event: Event) -> Iterator[Frame]:
        """Yield the frames of an event, in their order."""
        match event:
            case SubRun():
                yield from self._inner.find(event, self._agent).read(event.event)
            case AnswerForming():
                if event.added:
                    self._is_answering = True
                    yield from self._show(self._pieces.feed("answer", event.added))
            case TextDelta():
                yield from self._add(event.text)
            case ToolCallDelta():
                if not self._is_answering:
                    begun = "" if event.index == self._call else f"\n{event.name} "
                    self._call = event.index
                    yield from self._add(f"{begun}{event.arguments}")
            case ThinkingDelta():
                if text := self._pieces.feed("thoughts", event.text):
                    yield ThoughtPiece(self._agent, text)
            case _ if event.is_piece:
                return
            case ModelAsked():
                yield from self._withdraw()
                if self._remark:  # it was no answer
                    yield Remark(self._agent, self._remark)
                self._remark = ""
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
                    path = join_path(self._agent, result.call.id)
                    error = result.error
                    is_refused = error is not None and error.is_refusal
                    about = (result.seconds, error is not None, result.is_open, is_refused, _images(result.images))
                    yield CallClosed(self._agent, path, mask(result.content), *about)
            case Progress():
                identity = event.call.id if event.call else ""
                yield CallProgress(join_path(self._agent, identity), mask(render_text(event.value)))
            case PlanChanged():
                yield PlanShown(self._agent, tuple(PlanStep(mask(step.text), step.done) for step in event.steps))
            case RunStarted():
                query = mask(event.query)
                yield RunOpened(self._agent, event.run_id, query, event.model, self._name)
                yield from self._notice(event)
            case RunFinished(result):
                self._final = mask(result.text)
            case RunEnded():
                yield from self._close_run(event)
            case _:
                if event.ends_request is not None and self._asked_at is not None:
                    yield RequestClosed(self._agent, self._number, {}, self._seconds(), mask(str(event.ends_request)))
                    yield from self._withdraw()
                yield from self._notice(event)

    def _notice(self, event: Event) -> Iterator[Frame]:
        if event.notice:
            yield RunNotice(self._agent, mask(event.notice), event.level == "WARNING")

    def _seconds(self) -> float:
        began = self._asked_at
        self._asked_at = None
        return 0.0 if began is None else time.perf_counter() - began

    def _add(self, text: str) -> Iterator[Frame]:
        if shown := self._pieces.feed("reply", text):
            yield ReplyPiece(self._agent, shown)

    def _show(self, text: str) -> Iterator[Frame]:
        if text:
            self._shown.append(text)
            yield AnswerPiece(text, self._agent)

    def _withdraw(self) -> Iterator[Frame]:
        self._pieces.clear()
        self._call = None
        self._is_answering = False
        if self._shown:
            self._shown.clear()
            yield AnswerWithdrawn(self._agent)

    def _close_request(self, event: ModelReplied) -> Iterator[Frame]:
        if text := self._pieces.flush("thoughts"):
            yield ThoughtPiece(self._agent, text)
        if (text := self._pieces.flush("reply")) and not self._is_answering:
            yield ReplyPiece(self._agent, text)
        yield from self._show(self._pieces.flush("answer"))
        yield RequestClosed(self._agent, self._number, event.reply.usage.as_dict(), self._seconds())
        self._remark = mask(text_of(event.reply.message))
        if self._remark and event.reply.message.get("tool_calls"):
            yield Remark(self._agent, self._remark)
            self._remark = ""

    def _open_call(self, event: ToolStarted) -> Iterator[Frame]:
        bound = event.call
        if bound.is_answer:
            return
        written = bound.as_written
        effect = (bound.tool.effect if bound.tool is not None else None) or ""
        yield CallOpened(self._agent, join_path(self._agent, written.id), written.name, mask(written.arguments), effect)
        yield from self._notice(event)

    def _close_run(self, event: RunEnded) -> Iterator[Frame]:
        final = self._final
        if final is not None and "".join(self._shown) != final:
            yield from self._withdraw()
            yield from self._show(final)
        if self._asked_at is not None:
            yield RequestClosed(self._agent, self._number, {}, self._seconds(), event.outcome)
        error = "" if event.error is None else mask(str(event.error))
        kind = "" if event.error is None else type(event.error).__name__
        waiting = event.error.pending if isinstance(event.error, Paused) else ()
        pending = tuple(entry.masked() for entry in waiting)
        usage = event.usage.as_dict()
        yield RunClosed(self._agent, event.outcome, final or "", error, kind, usage, event.seconds, pending)


def draw_frames(draw: Callable[[Frame], object]) -> Listener:
    """Return a listener that passes the frames of a run to `draw`, then those of the next run."""
    reader = FrameReader()

    def listen(event: Event) -> None:
        nonlocal reader
        if isinstance(event, RunStarted):
            reader = FrameReader()
        for frame in reader.read(event):
            draw(frame)

    return listen
