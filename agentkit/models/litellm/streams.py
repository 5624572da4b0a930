"""Where the chunks of a stream come from, and whether it came to its own end.

litellm's own wrapper invents what a cut stream lacks: a finish reason, even the usage; it also costs five to ten times
the rest.  So the provider's own iterator inside of it is read where we know it, and the wrapper elsewhere.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from .replies import read_native_reason

_DIRECT_PROVIDERS = {"openai", "anthropic", "gemini", "groq", "ollama_chat"}
"""Providers whose inner iterator is known to yield OpenAI-shaped chunks (and generic dicts, mostly empty)."""
_TAPPED_PROVIDERS = {"anthropic", "ollama_chat"}
"""Providers whose reason to stop litellm reads wrongly; Gemini's is one too, on whichever route it is asked."""
_OPENAI_HANDLER = "OpenAIChatCompletionStreamingHandler"
"""litellm's reader of OpenAI's own stream; those of its kin have rules of their own."""
_REASON_MARKS = ('"stop_reason"', '"finishReason"', '"blockReason"', '"done_reason"')


class _AttributeDict(dict[str, Any]):
    """An object of JSON whose members are attributes, None where there is none, as litellm's chunks have them."""

    __getattr__ = dict.get


_decode_json = json.JSONDecoder(object_hook=_AttributeDict).decode


def _parse_line(otherwise: Callable[[str], Any], str_line: str) -> Any:
    """What a line of OpenAI's stream says, for a fourth of what litellm's objects cost; errors are left to litellm."""
    if str_line.startswith("data: {") and '"error"' not in str_line:
        with suppress(ValueError):
            return _decode_json(str_line[6:])
    return otherwise(str_line)


class ChunkSource:
    """Where the chunks of one reply come from, and whether the provider said that there will be no more."""

    def __init__(self, wrapper: Any, provider: str, *, timed_client: Any, has_observers: bool) -> None:
        """`wrapper` is litellm's stream, `timed_client` the HTTP client for one that is not open yet.

        `has_observers` keeps to the wrapper, since it tells the callbacks that the host has registered with litellm.
        """
        self._wrapper = wrapper
        self._timed_client = timed_client
        self._provider = provider
        self._is_direct = provider in _DIRECT_PROVIDERS and not has_observers
        self._tap: _LineTap | None = None
        self._is_gemini = False
        self._lines: Any = None

    def chunks(self) -> Iterator[Any]:
        """The chunks of a synchronous stream."""
        wrapper = self._wrapper
        if wrapper.completion_stream is None and wrapper.make_call is not None:
            wrapper.completion_stream = wrapper.make_call(client=self._timed_client)
        inner = self._attach_tap(wrapper.completion_stream)
        chosen = iter(inner) if inner is not None else None
        return chosen if self._is_direct and chosen is not None else iter(wrapper)

    async def achunks(self) -> AsyncIterator[Any]:
        """The chunks of an asynchronous stream."""
        inner = self._attach_tap(self._wrapper.completion_stream or await self._wrapper.fetch_stream())
        chosen: AsyncIterator[Any] | None = aiter(inner) if hasattr(inner, "__aiter__") else None
        wrapped: AsyncIterator[Any] = aiter(self._wrapper)
        return chosen if self._is_direct and chosen is not None else wrapped

    def close(self) -> None:
        """Hang up.  Dropping litellm's stream is not enough: on some routes it hangs in a reference cycle."""
        if hasattr(self._lines, "close"):
            self._lines.close()

    async def aclose(self) -> None:
        """Hang up an asynchronous stream."""
        await self._wrapper.aclose()
        if hasattr(self._lines, "aclose"):
            await self._lines.aclose()

    def is_finished(self, reason: str | None) -> bool:
        """Whether the stream came to its own end; `reason` is the finish reason that its chunks reported."""
        if self._is_gemini and self._tap is not None:  # litellm calls each of Gemini's chunks the last one
            return self._tap.finished
        reported = self._wrapper.received_finish_reason or self._wrapper.intermittent_finish_reason
        return bool(reason if self._is_direct else reported)

    @property
    def native_reason(self) -> str | None:
        """Why the model stopped, in the provider's own words, if they were heard."""
        return None if self._tap is None else self._tap.reason

    def _attach_tap(self, inner: Any) -> Any:
        """`inner`, its lines overheard where litellm does not pass on all that they say."""
        self._lines = getattr(inner, "streaming_response", inner)
        if self._is_direct and type(inner).__name__ == _OPENAI_HANDLER:
            inner._handle_string_chunk = partial(_parse_line, inner._handle_string_chunk)
        self._is_gemini = "gemini" in type(inner).__module__ and self._lines is not inner
        if self._is_gemini or (self._provider in _TAPPED_PROVIDERS and self._lines is not inner):
            self._tap = inner.streaming_response = _LineTap(self._lines)
            if hasattr(inner, "response_iterator"):  # some read from there what is not asynchronous
                inner.response_iterator = self._tap
        return inner


class TimedClient:
    """litellm's shared HTTP client with a timeout (seconds), which its Gemini route forgets to pass on for streams."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def post(self, *args: Any, **named: Any) -> Any:
        """Send the request, as litellm's own client does."""
        return self._client.post(*args, **{**named, "timeout": self._timeout})


class _LineTap:
    """An iterator of lines that remembers why the model stopped, if one of them says so."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines
        self.reason: str | None = None
        self.finished = False

    def __iter__(self) -> "_LineTap":
        self._lines = iter(self._lines)
        return self

    def __aiter__(self) -> "_LineTap":
        self._lines = aiter(self._lines)
        return self

    def __next__(self) -> Any:
        return self._inspect(next(self._lines))

    async def __anext__(self) -> Any:
        return self._inspect(await anext(self._lines))

    def _inspect(self, line: Any) -> Any:
        text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        if any(word in text for word in _REASON_MARKS):
            self.finished = True
            self.reason = read_native_reason(text.removeprefix("data:")) or self.reason
        return line
