"""Record a run: the policy next to the driver sees the requests and calls that are really made."""

import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ...core.errors import ModelError, RunError
from ...core.flow import Done, Effect, Emit, Event, Flow, ask, interpret
from ...core.masking import mask_data, mask_pieces
from ...core.messages import Message
from ...core.private_files import open_private
from ...core.versions import find_versions
from ...engine.loop import Answer
from ...engine.model import AskModel, ModelReplied, TextDelta, ThinkingDelta, ToolCallDelta
from ...policies.approval import ApprovalGiven
from ...tools.execution.call_tools import CallTools, ToolFinished
from ..journal.setup import schemas_of
from ..journal.steps import outcome_of
from .file import FORMAT


class RunRecorder:
    """Write one run into a file, line by line; `policy` observes the run."""

    def __init__(self, path: str | os.PathLike[str], begin: Mapping[str, Any]) -> None:
        self._path = Path(path)
        self._messages: Sequence[Message] = ()
        self._hashes: list[str] = []
        self._tools: Mapping[str, Any] = {}
        self._asked = time.perf_counter()
        self._deltas: list[list[Any]] = []
        with self._errors():
            self._file = open_private(self._path, encoding="utf-8", errors="backslashreplace")
        self._write("recording", version=FORMAT, versions=find_versions(), **begin)

    def policy(self, flow: Flow[Any]) -> Flow[Any]:
        """Return the flow that is recorded."""

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, AskModel):
                return (yield from ask(ObservedEffect(effect, self._note, lambda: self._request(effect))))
            if isinstance(effect, CallTools):
                return (yield from ask(ObservedEffect(effect, self._note)))
            if isinstance(effect, Emit) and isinstance(event := effect.event, ApprovalGiven):
                call = {"call": event.call.id, "name": event.call.name}
                yield from ask(WriteLine(partial(self._write, "decision", **call, decision=event.decision)))
            return (yield from ask(effect))

        try:
            answer: Answer = yield from interpret(flow, handle)
        except Exception as error:
            yield from ask(WriteLine(partial(self._write, "end", error=f"{type(error).__name__}: {error}")))
            raise
        yield from ask(WriteLine(partial(self._write, "end", answer=answer.value, stopped=answer.stopped)))
        return answer

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _request(self, effect: AskModel) -> None:
        request, same = effect.request, 0
        for old, new in zip(self._messages, request.messages, strict=False):
            if old is not new:
                break
            same += 1
        self._messages = [*request.messages]
        del self._hashes[same:]
        for message in self._messages[same:]:
            self._hashes.append(_hash(self._hashes[-1:], message))
        tools = schemas_of(request.tools)
        changed = {"tools": tools} if tools != self._tools else {}
        self._tools, self._asked, self._deltas = tools, time.perf_counter(), []
        number = _hash(self._hashes[-1:], tools, request.tool_choice)
        self._write(
            "request", model=effect.model.name, hash=number, **{"from": same},
            messages=self._messages[same:], tool_choice=request.tool_choice, **changed,
        )  # fmt: skip

    def _note(self, event: Event | ModelError) -> None:
        at = round(time.perf_counter() - self._asked, 4)
        match event:
            case TextDelta(text):
                self._deltas.append([at, "text", text])
            case ThinkingDelta(text):
                self._deltas.append([at, "thinking", text])
            case ToolCallDelta(index, name, arguments):
                self._deltas.append([at, "call", index, name, arguments])
            case ModelReplied(reply):
                figures = {"finish_reason": reply.finish_reason, "usage": reply.usage.as_dict(), "model": reply.model}
                deltas = {"deltas": _mask_deltas(self._deltas)} if self._deltas else {}
                self._write("reply", seconds=at, message=reply.message, **figures, **deltas)
            case ModelError():
                kind: dict[str, Any] = {"error_kind": event.kind, "status": event.status, "transient": event.transient}
                self._write("error", seconds=at, message=str(event), retry_after=event.retry_after, **kind)
            case ToolFinished(result) if not result.is_open:
                call = result.call
                self._write("result", call=call.id, name=call.name, arguments=call.arguments, **outcome_of(result))

    def _write(self, kind: str, **data: Any) -> None:
        line = mask_data(to_jsonable_python({"kind": kind, **data}, fallback=str))
        with self._errors():
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"record={os.fspath(self._path)!r}: the file cannot be written: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class WriteLine:
    """An effect that writes a line."""

    write: Callable[[], None]

    def perform(self) -> Generator[Event, None, None]:
        self.write()
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        self.write()
        yield Done(None)


@dataclass(frozen=True, slots=True)
class ObservedEffect:
    """An effect whose events, and model errors, are passed to `note`; `begin` is called before it is performed."""

    effect: Effect[Any]
    note: Callable[[Any], None]
    begin: Callable[[], None] | None = None

    def perform(self) -> Generator[Event, None, Any]:
        if self.begin is not None:
            self.begin()
        try:
            return (yield from interpret(self.effect.perform(), self._observe))
        except ModelError as error:
            self.note(error)
            raise

    async def aperform(self) -> AsyncGenerator[Event | Done[Any], None]:
        if self.begin is not None:
            self.begin()
        try:
            async with aclosing(self.effect.aperform()) as events:
                async for event in events:
                    self.note(event)
                    yield event
        except ModelError as error:
            self.note(error)
            raise

    def _observe(self, event: Event) -> Generator[Event, None, None]:
        self.note(event)
        yield event


def _mask_deltas(deltas: Sequence[list[Any]]) -> list[list[Any]]:
    """Mask the pieces of each text together: a secret may be spread over several of them."""
    masked = [[*delta] for delta in deltas]
    texts: dict[Any, list[list[Any]]] = {}
    for delta in masked:
        texts.setdefault(tuple(delta[1:-1]) if delta[1] == "call" else delta[1], []).append(delta)
    for pieces in texts.values():
        for delta, text in zip(pieces, mask_pieces([delta[-1] for delta in pieces]), strict=True):
            delta[-1] = text
    return masked


def _hash(*data: Any) -> str:
    """Return a hash by which two requests can be compared at a glance."""
    text = json.dumps(mask_data(data), default=str, sort_keys=True)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
