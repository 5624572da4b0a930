"""The seam to language models: what a backend is asked, what it yields, and the effect that asks it."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

from ..core.errors import AgentkitError, ModelError, ModelErrorKind
from ..core.flow import Done, Event
from ..core.masking import mask, mask_exception
from ..core.messages import Message, Usage
from ..tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model.

    `messages` is the conversation, system message first; it is the run's own list: read it, never change it.
    `tools` are the tools on offer (`tools.schemas("openai")` is the list of their dicts, built once and shared: copy it
    before changing it).  `tool_choice` is "auto", "required", "none" or the name of the one tool to call; many models
    ignore it.  `stream` asks for deltas before the reply.  `timeout` (seconds) and `max_tokens` (of the reply) are for
    this request, where they are less than the backend's own.
    """

    messages: Sequence[Message]
    tools: ToolRegistry
    tool_choice: str = "auto"
    stream: bool = False
    timeout: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered: the assistant message as it came, what it took, and why the model stopped."""

    message: Message
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    finish_reason: str | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of the reply's text."""

    is_piece: ClassVar[bool] = True

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta(Event):
    """A piece of what the model thinks aloud before it replies."""

    is_piece: ClassVar[bool] = True

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Event):
    """A piece of a tool call: which call of the reply, the tool's name as far as known, a piece of its arguments."""

    is_piece: ClassVar[bool] = True

    index: int
    name: str
    arguments: str


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta


class Model(Protocol):
    """A backend: whoever has a name and these two methods is a model.

    Both are generators: they yield the deltas, if the request asks for a stream and the backend has them, and then,
    last, the `Reply`; they are closed when nobody reads on.  A failure is raised as `ModelError`, which says whether
    another try can help; any other exception becomes one.  `Request.timeout` and `max_tokens` are the backend's to
    keep; the timeout is enforced from outside as well where that can be done, on an event loop.  A backend that knows
    its prices may also have a method `worst_case(request) -> float | None`: the dollars that the request can cost at
    most, None where that is not known.
    """

    @property
    def name(self) -> str:
        """What logs and results call the model."""
        ...

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`, blocking."""
        ...

    def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` on the running event loop."""
        ...


@dataclass(frozen=True, slots=True)
class ModelAsked(Event):
    """A request goes out to a model."""

    model: str
    request: Request


@dataclass(frozen=True, slots=True)
class ModelReplied(Event):
    """A reply is complete."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class AskModel:
    """The effect that asks a model; its outcome is the `Reply`."""

    model: Model
    request: Request

    variables: tuple[tuple[ContextVar[Any], Any], ...] = ()
    """Context variables, and their values, for calls that begin while the reply streams in."""

    def perform(self) -> Generator[Event, None, Reply]:
        yield ModelAsked(self.model.name, self.request)
        reply: Reply | None = None
        try:
            with closing(self.model.ask(self.request)) as pieces:
                for piece in pieces:
                    if isinstance(piece, Reply):
                        reply = piece
                    else:
                        yield piece
        except AgentkitError:
            raise
        except Exception as error:
            raise _to_model_error(self.model, error) from error
        yield ModelReplied(reply := _require_reply(reply, self.model))
        return reply

    async def aperform(self) -> AsyncGenerator[Event | Done[Reply], None]:
        yield ModelAsked(self.model.name, self.request)
        reply: Reply | None = None
        try:
            seconds = self.request.timeout
            end = None if seconds is None else asyncio.get_running_loop().time() + seconds
            async with aclosing(self.model.aask(self.request)) as pieces:
                while (piece := await _next(pieces, end)) is not None:
                    if isinstance(piece, Reply):
                        reply = piece
                    else:
                        yield piece
        except AgentkitError:
            raise
        except Exception as error:
            raise _to_model_error(self.model, error) from error
        yield ModelReplied(reply := _require_reply(reply, self.model))
        yield Done(reply)


async def _next(pieces: AsyncGenerator[Delta | Reply, None], end: float | None) -> Delta | Reply | None:
    """The next piece, None after the last; raises `TimeoutError` at `end` (in the event loop's time)."""
    if end is None:
        return await anext(pieces, None)
    async with asyncio.timeout_at(end):
        return await anext(pieces, None)


def _require_reply(reply: Reply | None, model: Model) -> Reply:
    if reply is None:
        raise ModelError(f"the model {model.name!r} ended without a reply: its backend must yield a Reply, last")
    return reply


def _to_model_error(model: Model, error: Exception) -> ModelError:
    """A backend's own exception, as the error that operators know."""
    kind: ModelErrorKind = "internal"
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, ConnectionError):
        kind = "connection"
    elif isinstance(error, TimeoutError):
        kind, what = "timeout", str(error) or "no answer in time"
    mask_exception(error)
    return ModelError(f"the model {model.name!r} failed: {mask(what)}", kind=kind, transient=kind != "internal")
