"""From frames to events of the AG-UI protocol, version 1.0, as JSON objects.

What the protocol has no field for lies in `metadata` under `agentkit`, or in a CUSTOM event whose name begins with
"agentkit.".  Source: the schemas of the npm package @ag-ui/core.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from .. import Pending
from ..extend import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    CallProgress,
    Frame,
    Json,
    MarkdownStream,
    PlanShown,
    Remark,
    ReplyPiece,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunNotice,
    RunOpened,
    ThoughtPiece,
)
from .run_input import interrupt_id

PROTOCOL_VERSION = "1.0"
"""The version of AG-UI whose events these are."""
APPROVAL = "agentkit:approval"
QUESTION_REASON = "agentkit:question"


class AguiEncoder:
    """Encodes the frames of one run.

    Args:
        thread: The id of the conversation.
        run: The id of the run, as the client named it.
        given: The client's `RunAgentInput`, which RUN_STARTED repeats.
        draws: Whether the events of texts have their Markdown as trees in `metadata` (see `MarkdownStream`): `nodes`,
            and how many `chars` of the text so far became nodes.
        answered: The ids of the calls whose results the client has sent, so that these have no events.
        opened: The ids of the calls that an earlier run began: they run again, with an answer, and begin once.

    Attributes:
        is_open: Whether the begin of the run is encoded.
        is_closed: Whether the end of the run is encoded.
    """

    def __init__(
        self,
        thread: str,
        run: str,
        given: Mapping[str, Any] | None = None,
        *,
        draws: bool = False,
        answered: Collection[str] = (),
        opened: Collection[str] = (),
    ) -> None:
        self._ids = {"threadId": thread, "runId": run}
        self._run = run
        self._given = given
        self._markdown = MarkdownStream() if draws else None
        self._texts = 0
        self._open_text = ""
        self._open_thoughts: dict[str, str] = {}
        """By the paths of the agents that think: agents of one turn think side by side."""
        self._answered = answered
        self._opened = {*opened}
        self._agents: dict[str, RunOpened] = {}
        """The agents inside tools that work, by their paths, the outer ones first."""
        self._requests: dict[str, RequestOpened] = {}
        """The requests that have no reply yet, by the paths of their agents."""
        self.is_open = False
        self.is_closed = False

    def encode(self, frame: Frame, at: float | None = None) -> Iterator[Json]:
        """Yield the events of a frame; `at` is its time in seconds since 1970, default: now."""
        yield from _stamp(self._events(frame), at)

    def fail(self, message: str, code: str) -> Iterator[Json]:
        """Yield the events of a run that ended before or without its `RunClosed`."""
        self.is_closed = True
        error = {"type": "RUN_ERROR", "message": message, "code": code}
        yield from _stamp((*self._begin(None), *self._end_thoughts(), *self._end_texts(), error))

    def cancel(self) -> Iterator[Json]:
        """Yield the events of a run that a client has abandoned before it began."""
        finished = {"type": "RUN_FINISHED", **self._ids, "outcome": {"type": "cancelled"}}
        yield from _stamp((*self._begin(None), finished))

    def interrupt(self, pending: Pending) -> Iterator[Json]:
        """Yield the events that end the client's run while the agent's waits, in the middle of a call.

        A client accepts no end while an agent or a request beside the call is open: those are suspended.
        """
        self.is_open = False
        requests = [{**_step(frame), "type": "STEP_FINISHED", "metadata": None} for frame in self._requests.values()]
        suspended = {"type": "SUBAGENT_FINISHED", "outcome": {"type": "suspended"}}
        agents = [{**suspended, "subagentRunId": agent} for agent in reversed(self._agents)]
        finished = {"type": "RUN_FINISHED", **self._ids, "outcome": _interrupts([pending])}
        yield from _stamp((*self._end_thoughts(), *self._end_texts(), *requests, *agents, finished))

    def resume(self, run: str, given: Mapping[str, Any] | None) -> Iterator[Json]:
        """Yield the events that begin the client's next run, in which the same run of the agent continues."""
        self._ids["runId"] = self._run = run
        self._given = given
        agents = [event for frame in self._agents.values() for event in self._begin(frame)]
        yield from _stamp((*self._begin(None), *agents, *map(_step, self._requests.values())))

    def _events(self, frame: Frame) -> Iterator[Json]:
        if not isinstance(frame, ThoughtPiece | ReplyPiece | RunOpened | CallProgress):
            yield from self._end_thought(frame.agent)
        match frame:
            case RunOpened():
                yield from self._begin(frame)
            case AnswerPiece(text, ""):
                yield from self._add_text(text)
            case AnswerWithdrawn(""):
                void = self._open_text
                yield from self._end_texts()
                yield _custom("withdrawn", {"messageId": void or f"{self._run}-text-{self._texts}"})
            case ThoughtPiece(agent, text):
                yield from self._think(agent, text)
            case Remark(agent, text):
                if not agent:
                    yield from self._end_texts()
                    yield from self._add_text(text)
                    yield from self._end_texts()
                else:
                    yield _custom("remark", {"agent": agent, "text": text})
            case RequestOpened() | RequestClosed():
                if isinstance(frame, RequestOpened):
                    self._requests[frame.agent] = frame
                else:
                    self._requests.pop(frame.agent, None)
                yield _step(frame)
            case CallOpened() | CallClosed():
                yield from self._call(frame)
            case CallProgress(identity, text):
                yield _custom("progress", {"toolCallId": identity, "text": text})
            case PlanShown(agent, steps):
                yield _custom("plan", {"agent": agent, "steps": [*map(asdict, steps)]})
            case RunNotice(agent, text, is_warning):
                yield _custom("notice", {"agent": agent, "text": text, "isWarning": is_warning})
            case RunClosed():
                yield from self._close(frame)

    def _begin(self, frame: RunOpened | None) -> Iterator[Json]:
        if frame is not None and frame.agent:
            own = frame.agent
            outer = own.rpartition("/")[0]
            yield {
                "type": "SUBAGENT_STARTED",
                "subagentRunId": own,
                "name": frame.name or "agent",
                "parentToolCallId": _find_innermost(own, self._opened),
                "parentSubagentRunId": _find_innermost(outer, self._agents),
                "metadata": _own(query=frame.query, model=frame.model),
            }
            self._agents[own] = frame
        elif not self.is_open:
            self.is_open = True
            shown = _own(run=frame.run_id, query=frame.query, model=frame.model) if frame else None
            begun = {"type": "RUN_STARTED", **self._ids, "protocolVersion": PROTOCOL_VERSION, "input": self._given}
            yield {**begun, "metadata": shown}

    def _add_text(self, text: str) -> Iterator[Json]:
        if not self._open_text:
            self._texts += 1
            self._open_text = f"{self._run}-text-{self._texts}"
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._open_text, "role": "assistant"}
        chars, nodes = self._markdown.feed(text) if self._markdown else (0, [])
        drawn = _own(chars=chars, nodes=nodes) if chars else None
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._open_text, "delta": text, "metadata": drawn}

    def _end_texts(self) -> Iterator[Json]:
        yield from self._end_thought("")
        if self._open_text:
            drawn = _own(nodes=self._markdown.flush()) if self._markdown else None
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._open_text, "metadata": drawn}
            self._open_text = ""

    def _think(self, agent: str, text: str) -> Iterator[Json]:
        where = {"subagentRunId": agent or None}
        if agent not in self._open_thoughts:
            self._texts += 1
            self._open_thoughts[agent] = f"{self._run}-thought-{self._texts}"
            shared = {"messageId": self._open_thoughts[agent], **where}
            yield {"type": "REASONING_START", **shared}
            yield {"type": "REASONING_MESSAGE_START", **shared, "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._open_thoughts[agent], "delta": text, **where}

    def _end_thought(self, agent: str) -> Iterator[Json]:
        if thought := self._open_thoughts.pop(agent, ""):
            yield {"type": "REASONING_MESSAGE_END", "messageId": thought}
            yield {"type": "REASONING_END", "messageId": thought}

    def _end_thoughts(self) -> Iterator[Json]:
        for agent in [*self._open_thoughts]:
            yield from self._end_thought(agent)

    def _call(self, frame: CallOpened | CallClosed) -> Iterator[Json]:
        shared = {"toolCallId": frame.id, "subagentRunId": frame.agent or None}
        if isinstance(frame, CallOpened):
            if frame.id in self._opened:
                return
            self._opened.add(frame.id)
            yield from self._end_texts()
            yield {"type": "TOOL_CALL_START", **shared, "toolCallName": frame.name}
            yield {"type": "TOOL_CALL_ARGS", **shared, "delta": frame.arguments}
            yield {"type": "TOOL_CALL_END", **shared}
        elif not frame.waits:
            self._opened.discard(frame.id)
            if frame.id in self._answered:
                return
            shown = _own(seconds=round(frame.seconds, 4), isError=frame.is_error, isRefused=frame.is_refused)
            content: Any = frame.content
            if frame.images:
                content = [{"type": "text", "text": frame.content}, *map(_image_part, frame.images)]
            result = {"messageId": f"{self._run}-{frame.id}", "content": content, "role": "tool"}
            yield {"type": "TOOL_CALL_RESULT", **shared, **result, "metadata": shown}

    def _close(self, frame: RunClosed) -> Iterator[Json]:
        usage = _usage(frame.usage)
        shown = _own(outcome=frame.outcome, seconds=frame.seconds, **frame.usage)
        if frame.agent:
            self._agents.pop(frame.agent, None)
            shared = {"subagentRunId": frame.agent, "metadata": shown}
            if frame.outcome in ("answer", "paused"):
                ended = "success" if frame.outcome == "answer" else "suspended"
                yield {"type": "SUBAGENT_FINISHED", **shared, "outcome": {"type": ended}}
            else:
                yield {"type": "SUBAGENT_ERROR", **shared, "message": frame.error or frame.outcome}
            return
        yield from self._end_thoughts()
        yield from self._end_texts()
        self.is_closed = True
        if frame.outcome in ("limit", "error"):
            yield {"type": "RUN_ERROR", "message": frame.error, "code": frame.kind, "usage": usage, "metadata": shown}
            return
        outcome: Json = {"type": "success" if frame.outcome == "answer" else "cancelled"}
        if asked := [entry for entry in frame.pending if entry.is_for_person]:
            outcome = _interrupts(asked)
        elif frame.pending:  # the client runs its calls, also those that an earlier run of it began
            outcome = {"type": "success", "pendingToolCallIds": [entry.call.id for entry in frame.pending]}
        finished = {"type": "RUN_FINISHED", **self._ids, "outcome": outcome, "usage": usage, "metadata": shown}
        yield {**finished, "result": frame.answer or None}


def to_older(event: Json) -> Json:
    """Return an event as clients from before AG-UI 1.0 accept it.

    They refuse lists of parts, pending calls, and the outcome of a run that was stopped.
    """
    if event["type"] == "TOOL_CALL_RESULT" and isinstance(event["content"], list):
        texts = [part["text"] for part in event["content"] if part["type"] == "text"]
        return {**event, "content": "\n".join(texts)}
    if event["type"] != "RUN_FINISHED":
        return event
    outcome = {key: value for key, value in event["outcome"].items() if key != "pendingToolCallIds"}
    others = {key: value for key, value in event.items() if key != "outcome"}
    return others if outcome["type"] == "cancelled" else {**others, "outcome": outcome}


def _stamp(events: Iterable[Json], at: float | None = None) -> Iterator[Json]:
    """Yield the events with their time, in seconds since 1970, and without empty fields."""
    stamp = int((time.time() if at is None else at) * 1000)
    for event in events:
        yield {key: value for key, value in event.items() if value is not None} | {"timestamp": stamp}


def _image_part(url: str) -> Json:
    """Return the part of an image, with its bytes if its address has them."""
    kind, mark, data = url.removeprefix("data:").partition(";base64,")
    source = {"type": "data", "value": data, "mimeType": kind} if mark else {"type": "url", "value": url}
    return {"type": "image", "source": source}


def _own(**values: Any) -> Json:
    return {"agentkit": values}


def _find_innermost(path: str, known: Collection[str]) -> str | None:
    """Return the longest part from the begin of a path that is known; the path of an agent that a tool's function
    calls has a step of its own between the call and the agent."""
    while path and path not in known:
        path = path.rpartition("/")[0]
    return path or None


def _custom(name: str, value: Json) -> Json:
    return {"type": "CUSTOM", "name": f"agentkit.{name}", "value": value}


_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "reasoningTokens": "reasoning_tokens",
    "cachedInputTokens": "cached_tokens",
}


def _usage(usage: Mapping[str, Any]) -> list[Json] | None:
    """Return the counts that are known: 0 stands for an unknown one here, and in the protocol for a reported zero."""
    counts = {name: usage[key] for name, key in _COUNTS.items() if usage.get(key)}
    return [counts] if counts else None


def _step(frame: RequestOpened | RequestClosed) -> Json:
    shared = {"stepName": f"request {frame.number}", "subagentRunId": frame.agent or None}
    if isinstance(frame, RequestOpened):
        shown = _own(number=frame.number, model=frame.model, messages=frame.messages, tools=[*frame.tools])
        return {"type": "STEP_STARTED", **shared, "metadata": shown}
    shown = _own(number=frame.number, seconds=round(frame.seconds, 4), error=frame.error, **frame.usage)
    return {"type": "STEP_FINISHED", **shared, "metadata": shown}


def _interrupts(pending: Iterable[Pending]) -> Json:
    return {"type": "interrupt", "interrupts": [*map(_interrupt, pending)]}


def _interrupt(pending: Pending) -> Json:
    call = pending.call
    asked = {"id": interrupt_id(pending), "toolCallId": call.id, "responseSchema": pending.schema}
    if not pending.is_approval:
        return {**asked, "reason": QUESTION_REASON, "message": pending.text}
    shown = _own(tool=call.name, arguments=call.arguments, reason=pending.reason)
    if pending.references:
        shown["agentkit"] |= {"written": call.written or call.arguments, "references": [*pending.references]}
    text = f"{call.name} waits for a decision: {pending.reason}"
    if pending.problem:
        shown["agentkit"]["problem"] = pending.problem
        text += f". The arguments given are not valid: {pending.problem}"
    return {**asked, "reason": APPROVAL, "message": text, "metadata": shown}
