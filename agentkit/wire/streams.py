"""A stream put together: litellm's chunks become deltas for whoever watches and, at the end, one message.

litellm's own wrapper invents what a cut stream lacks: a finish reason, even the usage; it also costs five to ten times
the rest.  So the provider's own iterator inside of it is read where we know it, and the wrapper elsewhere.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..errors import ModelError
from ..messages import Message
from ..model import Delta, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from .replies import Route, tidy

_DIRECT = {"openai", "anthropic", "gemini", "groq", "ollama_chat"}
"""Providers whose inner iterator is known to yield OpenAI-shaped chunks (and generic dicts, mostly empty)."""


class Source:
    """Where the chunks of one reply come from, and whether the provider said that there will be no more."""

    def __init__(self, wrapper: Any, provider: str, *, timed: Any, observed: bool) -> None:
        """`wrapper` is litellm's stream, `timed` the HTTP client for one that is not open yet.

        `observed` keeps to the wrapper, since it tells the callbacks that the host has registered with litellm.
        """
        self._wrapper = wrapper
        self._timed = timed
        self._direct = provider in _DIRECT and not observed
        self._tap: _Tap | None = None
        self._lines: Any = None

    def chunks(self) -> Iterator[Any]:
        """The chunks of a synchronous stream."""
        wrapper = self._wrapper
        if wrapper.completion_stream is None and wrapper.make_call is not None:
            wrapper.completion_stream = wrapper.make_call(client=self._timed)
        inner = self._tapped(wrapper.completion_stream)
        chosen = iter(inner) if inner is not None else None
        return chosen if self._direct and chosen is not None else iter(wrapper)

    async def achunks(self) -> AsyncIterator[Any]:
        """The chunks of an asynchronous stream."""
        inner = self._tapped(self._wrapper.completion_stream or await self._wrapper.fetch_stream())
        chosen: AsyncIterator[Any] | None = aiter(inner) if hasattr(inner, "__aiter__") else None
        wrapped: AsyncIterator[Any] = aiter(self._wrapper)
        return chosen if self._direct and chosen is not None else wrapped

    def close(self) -> None:
        """Hang up.  Dropping litellm's stream is not enough: on some routes it hangs in a reference cycle."""
        if hasattr(self._lines, "close"):
            self._lines.close()

    async def aclose(self) -> None:
        """Hang up an asynchronous stream."""
        await self._wrapper.aclose()
        if hasattr(self._lines, "aclose"):
            await self._lines.aclose()

    def finished(self, reason: str | None) -> bool:
        """Whether the stream came to its own end; `reason` is the finish reason that its chunks told."""
        if self._tap is not None:
            return self._tap.finished
        told = self._wrapper.received_finish_reason or self._wrapper.intermittent_finish_reason
        return bool(reason if self._direct else told)

    def _tapped(self, inner: Any) -> Any:
        """`inner`, its lines overheard if they are Gemini's: litellm calls each of Gemini's chunks the last one."""
        self._lines = getattr(inner, "streaming_response", inner)
        if "gemini" in type(inner).__module__ and hasattr(inner, "streaming_response"):
            self._tap = inner.streaming_response = _Tap(inner.streaming_response)
        return inner


class TimedClient:
    """litellm's shared HTTP client with a timeout (seconds), which its Gemini route forgets to pass on for streams."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def post(self, *args: Any, **named: Any) -> Any:
        """Send the request, as litellm's own client does."""
        return self._client.post(*args, **{**named, "timeout": self._timeout})


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
        if usage := getattr(chunk, "usage", None):
            if self._usage is not None and not usage.prompt_tokens:  # Anthropic tells the input first, the output last
                usage.prompt_tokens = self._usage.prompt_tokens
                usage.prompt_tokens_details = self._usage.prompt_tokens_details
            self._usage = usage
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
        last: dict[str, Any] = self._blocks[-1] if self._blocks else {"type": None}
        if block["type"] != "thinking" or last["type"] != "thinking" or last.get("signature"):
            self._blocks.append(dict(block))
            return
        text = block.get("thinking") or ""
        whole = block.get("signature") and last["thinking"] and text.startswith(last["thinking"])
        last["thinking"] = text if whole else last["thinking"] + text
        if block.get("signature"):
            last["signature"] = block["signature"]

    def _take_call(self, piece: Any) -> ToolCallDelta:
        function = piece.function
        place = self._place(piece.index, piece.id, function and function.name)
        call = self._calls[place]
        call["id"] = piece.id or call["id"]
        arguments = (function and function.arguments) or ""
        call["function"]["name"] = call["function"]["name"] or (function and function.name) or ""
        call["function"]["arguments"] += arguments
        if extras := getattr(piece, "provider_specific_fields", None):
            call["provider_specific_fields"] = dict(extras)
        return ToolCallDelta(place, call["function"]["name"], arguments)

    def _place(self, index: int | None, identity: str | None, name: str | None) -> int:
        """The call that a piece belongs to.  Ollama gives index 0 to all calls, with ids that differ or none at all."""
        place = None if index is None else self._open.get(index)
        if place is not None:
            known = self._calls[place]
            other = (
                known["id"] not in ("", identity) if identity else name and _is_whole(known["function"]["arguments"])
            )
            if not other:
                return place
        self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        place = len(self._calls) - 1
        if index is not None:
            self._open[index] = place
        return place

    def reply(self, source: Source) -> Reply:
        """The reply; raises `ModelError` when `source` ended without saying that the model had finished."""
        if not source.finished(self._finish_reason):
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


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True
