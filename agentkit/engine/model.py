"""The interface to language models: the request, the reply and its deltas, and the effect that sends a request.

`PartialAnswerReader` reads from the deltas the answer while the model still writes it: the text or the data so far.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from types import AsyncGeneratorType, GeneratorType
from typing import Any, ClassVar, Protocol, TypeAlias

from pydantic_core import from_json

from ..core.errors import AgentkitError, DefinitionError, ModelError, ModelErrorKind
from ..core.flow import Done, Event
from ..core.masking import mask, mask_exception
from ..core.messages import Message, Usage
from ..core.portable import split_words
from ..core.threads import raise_outside_error
from ..core.values import frozen
from ..schemas.models import ModelSchema
from ..schemas.walk import JsonSchema
from ..tools.final_answer import ANSWER_KEY
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry


@frozen(slots=False)  # for `copy_with`
class Request:
    """One request to a model.

    Attributes:
        messages: The conversation, system message first; it is the run's own list: read it, never change it.
        tools: The tools to offer.  `tools.schemas("openai")` returns the list of their dicts, which is built once and
            shared: copy it before changing it.
        tool_choice: "auto", "required", "none" or the name of the one tool to call; many models ignore it.
        stream: Whether to yield deltas before the reply.
        timeout: Seconds for this request, if less than the backend's own timeout.
        max_tokens: The limit for the reply, if less than the backend's own.
        headers: HTTP headers to send with the request, the context of a trace, say.
        reply_schema: A JSON Schema for the text of the reply, which a backend enforces if it can; it is shared.
    """

    messages: Sequence[Message]
    tools: ToolRegistry
    tool_choice: str = "auto"
    stream: bool = False
    timeout: float | None = None
    max_tokens: int | None = None
    headers: Mapping[str, str] | None = None
    reply_schema: JsonSchema | None = None


@frozen
class Reply:
    """A model's reply.

    Attributes:
        message: The assistant message as it came.
        usage: What the request used.
        finish_reason: Why the model stopped, in the provider's word.
        model: The name of the model that replied.
        id: The provider's id of the reply, "" without one.
    """

    message: Message
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    finish_reason: str | None = None
    model: str = ""
    id: str = ""


@frozen
class TextDelta(Event):
    """A piece of the reply's text."""

    is_piece: ClassVar[bool] = True

    text: str


@frozen
class ThinkingDelta(Event):
    """A piece of the reasoning that precedes the reply."""

    is_piece: ClassVar[bool] = True

    text: str


@frozen
class ToolCallDelta(Event):
    """A piece of a tool call: the index of the call in the reply, its name so far, a piece of its arguments."""

    is_piece: ClassVar[bool] = True

    index: int
    name: str
    arguments: str


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta


def split_deltas(message: Message) -> Iterator[Delta]:
    """Yield a message that is there at once as the deltas of a stream, word by word."""
    for word in split_words(message["content"] or ""):
        yield TextDelta(word)
    for index, call in enumerate(message.get("tool_calls") or ()):
        for piece in split_words(call["function"]["arguments"]) or [""]:
            yield ToolCallDelta(index, call["function"]["name"], piece)


class Model(Protocol):
    """A backend: any object with a name and these two methods.

    Both methods are generators.  They yield the deltas, if the request asks for a stream and the backend supports it,
    and the `Reply` last; they are closed when the stream is no longer read.  They raise `ModelError`, whose `transient`
    tells whether a retry can help; any other exception is converted to one.  The backend enforces `Request.timeout` and
    `max_tokens`; on an event loop the timeout is enforced from outside as well.

    A backend that knows its prices may also have a method `worst_case(request) -> float | None`: the most dollars that
    the request can cost, or None if unknown.  One that sends the `provider_tools` of a request's tools has an attribute
    `takes_provider_tools`, which is True.  One whose model may lack tool calling may have an attribute
    `tool_calling`: "none" or "unknown" (see `choose_tool_mode`).
    `context_window` is the number of tokens that fit, or None.  `caches_prompts` is whether its provider reads the
    begin of a request from a cache (see `watch_cache`).  `finds_tools = False` says that of many tools it is offered
    the best ones for the question, because it cannot search for them (see `ToolSearch`).
    """

    @property
    def name(self) -> str:
        """The model's name in logs and results."""
        ...

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`, blocking."""
        ...

    def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` on the running event loop."""
        ...


@frozen
class ModelAsked(Event):
    """A request is sent to a model."""

    model: str
    request: Request


@frozen
class ModelReplied(Event):
    """A reply is complete."""

    reply: Reply


MAX_NOTICED_CHARS = 200
"""Characters of the arguments of a provider's tool in a notice."""


@frozen
class ProviderToolCalled(Event):
    """The provider of the model has run a tool for the reply that precedes this event.

    Attributes:
        name: The tool.
        arguments: Its arguments, JSON text.
        sources: The addresses of what it found.
        error: The provider's code of its failure, "" without one.
    """

    name: str
    arguments: str
    sources: tuple[str, ...] = ()
    error: str = ""

    @property
    def notice(self) -> str:
        sources = f", {len(self.sources)} sources" if self.sources else ""
        failed = f", failed: {self.error}" if self.error else ""
        return f"{self.name} {self.arguments[:MAX_NOTICED_CHARS]}, run by the provider{sources}{failed}"


def _describe_provider_call(step: Mapping[str, Any]) -> ProviderToolCalled:
    sources = tuple(source["url"] for source in step.get("sources", ()))
    return ProviderToolCalled(step["name"], step["arguments"], sources, step.get("error", ""))


@frozen
class AskModel:
    """The effect that asks a model; its outcome is the `Reply`."""

    model: Model
    request: Request

    def perform(self) -> Generator[Event, None, Reply]:
        _check_provider_tools(self.model, self.request)
        yield ModelAsked(self.model.name, self.request)
        reply: Reply | None = None
        try:
            asked = self.model.ask(self.request)
            _check_pieces(asked, _STREAMS, f"{self.model.name}.ask")
            try:
                for piece in asked:
                    if isinstance(piece, Reply):
                        reply = piece
                    elif isinstance(piece, Event):
                        yield piece
                    else:
                        raise _explain_piece(self.model, piece)
            finally:
                asked.close()
        except Exception as error:
            raise_outside_error(error)
            if isinstance(error, AgentkitError):
                raise
            raise _to_model_error(self.model, error) from error
        yield ModelReplied(reply := _require_reply(reply, self.model))
        for step in reply.message.get("provider_calls") or ():
            yield _describe_provider_call(step)
        return reply

    async def aperform(self) -> AsyncGenerator[Event | Done[Reply], None]:
        _check_provider_tools(self.model, self.request)
        yield ModelAsked(self.model.name, self.request)
        reply: Reply | None = None
        try:
            seconds = self.request.timeout
            end = None if seconds is None else asyncio.get_running_loop().time() + seconds
            if not hasattr(self.model, "aask"):
                raise DefinitionError(f"the model {self.model.name!r} has no method aask, which async runs need")
            asked = self.model.aask(self.request)
            _check_pieces(asked, _ASYNC_STREAMS, f"{self.model.name}.aask")
            async with aclosing(asked) as pieces:
                while (piece := await _next(pieces, end)) is not None:
                    if isinstance(piece, Reply):
                        reply = piece
                    elif isinstance(piece, Event):
                        yield piece
                    else:
                        raise _explain_piece(self.model, piece)
        except Exception as error:
            raise_outside_error(error)
            if isinstance(error, AgentkitError):
                raise
            raise _to_model_error(self.model, error) from error
        yield ModelReplied(reply := _require_reply(reply, self.model))
        for step in reply.message.get("provider_calls") or ():
            yield _describe_provider_call(step)
        yield Done(reply)


_STREAMS = GeneratorType, Iterator
_ASYNC_STREAMS = AsyncGeneratorType, AsyncIterator
"""What a backend may return, the usual type first: an abstract class takes longer to ask."""


def _check_provider_tools(model: Model, request: Request) -> None:
    """Raise `DefinitionError` for tools that the provider runs where the model has no provider."""
    if (tools := request.tools.provider_tools) and not getattr(model, "takes_provider_tools", False):
        names = ", ".join(repr(tool.name) for tool in tools)
        raise DefinitionError(
            f"{model.name}: the model has no provider that could run {names}. Name a model of Anthropic, of OpenAI's "
            "Responses API or of Gemini, or give a tool of your own."
        )


async def _next(pieces: AsyncGenerator[Delta | Reply, None], end: float | None) -> Delta | Reply | None:
    """Return the next piece, or None after the last; raise `TimeoutError` at `end` (the event loop's time)."""
    if end is None:
        return await anext(pieces, None)
    async with asyncio.timeout_at(end):
        return await anext(pieces, None)


def _check_pieces(pieces: object, kinds: tuple[type, ...], method: str) -> None:
    """Raise `DefinitionError` if the method of a backend is no generator function."""
    if not isinstance(pieces, kinds):
        if isinstance(pieces, Coroutine):
            pieces.close()
        raise DefinitionError(
            f"the model's {method} must be a generator function, it returned a {type(pieces).__name__}. Do not return "
            "the reply, yield it: yield Reply(message)"
        )


def _require_reply(reply: Reply | None, model: Model) -> Reply:
    if reply is None:
        raise ModelError(f"model {model.name!r}: its backend ended without a reply. It must yield a Reply, last.")
    if not isinstance(reply.message, (dict, Mapping)):  # an abstract class is slow to ask
        raise _explain_piece(model, reply.message)
    return reply


def _explain_piece(model: Model, piece: object) -> DefinitionError:
    """Return the error for what a backend yields in the place of a delta or a reply."""
    return DefinitionError(
        f"the model {model.name!r} must yield deltas and last a Reply, it yielded {piece!r:.80}. For a text: "
        'yield Reply(assistant("..."))'
    )


def _to_model_error(model: Model, error: Exception) -> ModelError:
    """Convert a backend's own exception to a `ModelError`, with secrets masked."""
    kind: ModelErrorKind = "internal"
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, ConnectionError):
        kind = "connection"
    elif isinstance(error, TimeoutError):
        kind = "timeout"
        what = str(error) or "no answer in time"
    mask_exception(error)
    return ModelError(f"the model {model.name!r} failed: {mask(what)}", kind=kind, transient=kind != "internal")


REPARSE_FACTOR = 1.05
"""Data are parsed again when their text has grown by this factor, so the total work is linear in its length."""


@frozen
class AnswerForming(Event):
    """The answer so far; `added` is the new part of a text.  A repeated request starts the answer again."""

    is_piece: ClassVar[bool] = True

    parts: Sequence[Any] = field(repr=False)
    count: int = field(repr=False)
    added: str = ""

    @property
    def value(self) -> Any:
        """The text so far, or the data so far, plain and not validated."""
        return "".join(self.parts[: self.count]) if self.added else self.parts[0]


class PartialAnswerReader:
    """Read the answer of a streamed run from its events; `tool` is the answer tool."""

    def __init__(self, tool: JsonTool[..., Any]) -> None:
        self._name = tool.name
        fields = list(tool.parameters["properties"].items())
        is_whole = len(fields) == 1 and not isinstance(tool.arguments, ModelSchema)
        self._key = fields[0][0] if is_whole else None
        self._wrapping = None if is_whole or ANSWER_KEY in dict(fields) else ANSWER_KEY
        self._is_text = is_whole and fields[0][1].get("type") == "string"
        self._index: int | None = None
        self._reader: _TextReader | _DataReader = _DataReader(None, None)

    def read(self, event: Event) -> Iterator[AnswerForming]:
        """Yield the part of the answer that `event` brings, if any."""
        if isinstance(event, ModelAsked):
            self._index = None
        elif isinstance(event, ToolCallDelta):
            if self._index is None and event.name == self._name:
                self._index = event.index
                self._reader = _TextReader() if self._is_text else _DataReader(self._key, self._wrapping)
            if event.index == self._index:
                yield from self._reader.take(event.arguments)
        elif isinstance(event, ModelReplied) and self._index is not None:
            yield from self._reader.rest()


class _TextReader:
    """A text inside an object: its characters are decoded as they arrive."""

    def __init__(self) -> None:
        self._raw = ""
        self._parts: list[str] = []  # shared by all events: copies would be quadratic in the length of the text
        self._is_open = False
        self._is_over = False

    def take(self, piece: str) -> Iterator[AnswerForming]:
        if self._is_over:
            return
        self._raw += piece
        if not self._is_open:
            if (opening := _OPENING.match(self._raw)) is None:
                self._is_over = len(self._raw) > MAX_OPENING_CHARS
                return
            self._raw = self._raw[opening.end() :]
            self._is_open = True
        complete = _CHARACTERS.match(self._raw)
        if complete and complete[0]:
            added = json.loads(f'"{complete[0]}"', strict=False)
            self._raw = self._raw[complete.end() :]
            self._parts.append(added)
            yield AnswerForming(self._parts, len(self._parts), added)
        self._is_over = self._raw[:1] == '"' or len(self._raw) > MAX_ESCAPE_CHARS

    def rest(self) -> Iterator[AnswerForming]:
        """Yield nothing: each piece was read when it arrived."""
        yield from ()


MAX_OPENING_CHARS = 1_000
"""Characters in front of the text; with more, the text is not shown before it is complete."""
MAX_ESCAPE_CHARS = 12
"""Characters of the longest escape, a pair of surrogates; what is longer and cannot be decoded never can."""
_OPENING = re.compile(r'\s*\{\s*"[^"\\]*"\s*:\s*"')
_CHARACTERS = re.compile(
    r'(?:[^"\\]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+'
)
"""Characters that can be decoded on their own: not the first half of an escape or of a surrogate pair."""


class _DataReader:
    """Data: the text is parsed from its beginning, less often as it grows.

    The data are the value of `key`.  Without a key they are the whole object, which some models nevertheless wrap in an
    object under `wrapping`.
    """

    def __init__(self, key: str | None, wrapping: str | None) -> None:
        self._key = key
        self._wrapping = wrapping
        self._pieces: list[str] = []
        self._length = 0
        self._read = 0
        self._last: Any = None

    def take(self, piece: str) -> Iterator[AnswerForming]:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length >= self._read * REPARSE_FACTOR:
            yield from self.rest()

    def rest(self) -> Iterator[AnswerForming]:
        if self._length == self._read:
            return
        self._read = self._length
        self._pieces = ["".join(self._pieces)]
        try:
            value = from_json(self._pieces[0], allow_partial="trailing-strings")
        except (ValueError, TypeError):  # TypeError: half of a surrogate pair
            return
        if self._key is not None and isinstance(value, dict):
            value = value.get(self._key)
        elif isinstance(value, dict) and [*value] == [self._wrapping]:
            value = value[self._wrapping]
        if value is not None and value != self._last:
            self._last = value
            yield AnswerForming([value], 1)
