"""A stream put together: litellm's chunks become deltas for whoever watches and, at the end, one message.

litellm's own wrapper invents what a cut stream lacks: a finish reason, even the usage; it also costs five to ten times
the rest.  So the provider's own iterator inside of it is read where we know it, and the wrapper elsewhere.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from .errors import ModelError
from .litellm_replies import Route, tidy
from .messages import Message
from .model import Delta, Reply, TextDelta, ThinkingDelta, ToolCallDelta

_DIRECT = {"openai", "anthropic", "gemini", "groq", "ollama_chat"}
"""Providers whose inner iterator yields OpenAI-shaped chunks (and empty dicts between them)."""


def chunks(stream: Any, route: Route, *, observed: bool) -> Iterator[Any]:
    """The chunks of a synchronous stream; `observed` keeps to the wrapper, which tells the host's litellm callbacks."""
    if observed or route.provider not in _DIRECT:
        return iter(stream)
    inner = stream.completion_stream or stream.fetch_sync_stream()
    return iter(_tapped(inner, stream, route))


async def achunks(stream: Any, route: Route, *, observed: bool) -> AsyncIterator[Any]:
    """The chunks of an asynchronous stream, as an async iterator to be awaited first."""
    if observed or route.provider not in _DIRECT:
        found: AsyncIterator[Any] = aiter(stream)
        return found
    inner = stream.completion_stream or await stream.fetch_stream()
    tapped: AsyncIterator[Any] = aiter(_tapped(inner, stream, route))
    return tapped


def _tapped(inner: Any, stream: Any, route: Route) -> Any:
    """`inner`, listening in on Gemini's lines: litellm calls every one of its chunks "stop"."""
    if route.provider == "gemini":
        stream.end = inner.streaming_response = _Tap(inner.streaming_response)
    return inner


class _Tap:
    """An iterator of lines that remembers whether one of them said why the model stopped."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines
        self.finished = False

    def __iter__(self) -> "_Tap":
        self._lines = iter(self._lines)
        return self

    def __aiter__(self) -> "_Tap":
        self._lines = aiter(self._lines)
        return self

    def __next__(self) -> str:
        return self._seen(next(self._lines))

    async def __anext__(self) -> str:
        return self._seen(await anext(self._lines))

    def _seen(self, line: str) -> str:
        if '"finishReason"' in line or '"blockReason"' in line:
            self.finished = True
        return line


class Assembler:
    """Collects the chunks of one reply."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._open: dict[int, int] = {}
        self._extras: dict[str, Any] = {}
        self._usage: Any = None
        self._finish_reason: str | None = None
        self._model: str | None = None

    def take(self, chunk: Any) -> Iterator[Delta]:
        """Add a chunk; yields what it brought."""
        if chunk is None:
            return
        if isinstance(chunk, dict):  # litellm's generic chunk, here only noise or the end of the stream
            if chunk.get("is_finished"):
                self._finish_reason = self._finish_reason or chunk.get("finish_reason") or "stop"
            return
        self._usage = getattr(chunk, "usage", None) or self._usage
        self._model = self._model or chunk.model
        for choice in chunk.choices[:1]:
            self._finish_reason = choice.finish_reason or self._finish_reason
            if choice.delta is not None:
                yield from self._take_delta(choice.delta)

    def _take_delta(self, delta: Any) -> Iterator[Delta]:
        if thought := getattr(delta, "reasoning_content", None):
            self._thoughts.append(thought)
            yield ThinkingDelta(thought)
        if delta.content:
            self._text.append(delta.content)
            yield TextDelta(delta.content)
        if refusal := getattr(delta, "refusal", None):
            self._refusal.append(refusal)
        for block in getattr(delta, "thinking_blocks", None) or ():
            self._take_block(block)
        for key, value in (getattr(delta, "provider_specific_fields", None) or {}).items():
            if key != "thinking_blocks":
                self._extras[key] = self._extras.get(key, []) + value if isinstance(value, list) else value
        for piece in getattr(delta, "tool_calls", None) or ():
            yield self._take_call(piece)

    def _take_block(self, block: dict[str, Any]) -> None:
        """Thinking comes in pieces; the last one brings the signature, and in some versions the whole text again."""
        last = self._blocks[-1] if self._blocks else {"type": None}
        if block["type"] != "thinking" or last["type"] != "thinking" or last.get("signature"):
            self._blocks.append(dict(block))
            return
        text = block.get("thinking") or ""
        whole = block.get("signature") and last["thinking"] and text.startswith(last["thinking"])
        last["thinking"] = text if whole else last["thinking"] + text
        if block.get("signature"):
            last["signature"] = block["signature"]

    def _take_call(self, piece: Any) -> ToolCallDelta:
        """A new id on a used index is a new call: Ollama gives index 0 to all of them."""
        index = piece.index if piece.index is not None else len(self._calls)
        place = self._open.get(index)
        if place is None or (piece.id and self._calls[place]["id"] not in ("", piece.id)):
            place = self._open[index] = len(self._calls)
            self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call, function = self._calls[place], piece.function
        call["id"] = piece.id or call["id"]
        arguments = (function and function.arguments) or ""
        call["function"]["name"] = call["function"]["name"] or (function and function.name) or ""
        call["function"]["arguments"] += arguments
        if extras := getattr(piece, "provider_specific_fields", None):
            call["provider_specific_fields"] = dict(extras)
        return ToolCallDelta(place, call["function"]["name"], arguments)

    def reply(self, stream: Any) -> Reply:
        """The reply; raises `ModelError` when `stream` ended without saying that the model had finished."""
        tap = getattr(stream, "end", None)
        direct = stream.received_finish_reason is None and self._finish_reason is not None
        if not (tap.finished if isinstance(tap, _Tap) else direct or stream.received_finish_reason):
            text = f"{self._route.shown}: the stream was cut before the model had finished"
            raise ModelError(text, kind="connection", transient=True)
        return self._route.reply(self._message(), self._finish_reason, self._usage, self._model)

    def _message(self) -> Message:
        message: Message = {"role": "assistant", "content": "".join(self._text)}
        parts = {
            "tool_calls": self._calls,
            "refusal": "".join(self._refusal),
            "reasoning_content": "".join(self._thoughts),
            "thinking_blocks": self._blocks,
            "provider_specific_fields": self._extras,
        }
        return tidy(message | {key: value for key, value in parts.items() if value})
