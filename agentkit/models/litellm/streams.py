"""Read the chunks of a stream, and detect whether it ended or was cut.

litellm's stream wrapper invents the missing parts of a cut stream, a finish reason and even the usage. It also takes
five to ten times the CPU of the rest. Therefore the provider's own iterator inside the wrapper is read for known
providers, and the wrapper for all others.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from .replies import read_native_reason

_DIRECT_PROVIDERS = {"openai", "anthropic", "gemini", "groq", "ollama_chat"}
"""Providers whose inner iterator yields OpenAI-shaped chunks (and generic dicts, mostly empty)."""
_TAPPED_PROVIDERS = {"anthropic", "ollama_chat"}
"""Providers whose stop reason litellm misreads; so it does for Gemini, on every route."""
_OPENAI_HANDLER = "OpenAIChatCompletionStreamingHandler"
"""litellm's reader of OpenAI's stream. Its subclasses have rules of their own."""
_MAX_ENDS = 100
"""How often the end of a stream can be read; litellm's wrapper does it a few times."""
_REASON_MARKS = ('"stop_reason"', '"finishReason"', '"blockReason"', '"done_reason"')


NO_STREAM_OPTIONS = {"groq"}
"""Providers whose API has no `stream_options`; Groq sends the usage in the field `x_groq` of the last chunk."""


class _AttributeDict(dict[str, Any]):
    """A JSON object with attribute access, None for a missing key, like litellm's chunks."""

    __getattr__ = dict.get


_decode_json = json.JSONDecoder(object_hook=_AttributeDict).decode


class ErrorInStream(Exception):
    """An error that a provider sent within a stream; some versions of litellm skip it."""

    def __init__(self, line: str, status_code: Any) -> None:
        super().__init__(line)
        self.status_code = status_code


def _check_line(line: str) -> None:
    """Raise the error that a line of a stream holds, if any."""
    if '"error"' in line:
        error: Any = None
        with suppress(ValueError, AttributeError):
            error = _decode_json(line.removeprefix("data:").strip()).error
        if error:
            raise ErrorInStream(line, getattr(error, "code", None))


def _parse_line(otherwise: Callable[[str], Any], str_line: str) -> Any:
    """Parse a line of OpenAI's stream at a fourth of the CPU of litellm's objects; other lines go to `otherwise`."""
    _check_line(str_line)
    if str_line.startswith("data: {"):
        with suppress(ValueError):
            return _decode_json(str_line[6:])
    return otherwise(str_line)


class ChunkSource:
    """The chunks of one reply, and whether the provider finished it."""

    def __init__(self, wrapper: Any, provider: str, *, timed_client: Any, has_observers: bool) -> None:
        """Wrap a stream of litellm; `timed_client` is the HTTP client for a stream that is not open yet.

        If the host has registered callbacks with litellm, the wrapper is read, because it calls them.
        """
        self._wrapper = wrapper
        self._timed_client = timed_client
        self._provider = provider
        self._is_direct = provider in _DIRECT_PROVIDERS and not has_observers
        self._tap: _LineTap | None = None
        self._is_gemini = self._is_truncated = False
        self._lines: Any = None
        self.refusal = ""
        self.usage: Any = None

    def chunks(self) -> Iterator[Any]:
        """Return the chunks of a synchronous stream."""
        wrapper = self._wrapper
        if wrapper.completion_stream is None and wrapper.make_call is not None:
            wrapper.completion_stream = wrapper.make_call(client=self._timed_client)
        inner = self._attach_tap(wrapper.completion_stream)
        chosen = iter(inner) if inner is not None else None
        return chosen if self._is_direct and chosen is not None else iter(wrapper)

    async def achunks(self) -> AsyncIterator[Any]:
        """Return the chunks of an asynchronous stream."""
        inner = self._attach_tap(self._wrapper.completion_stream or await self._wrapper.fetch_stream())
        chosen: AsyncIterator[Any] | None = aiter(inner) if hasattr(inner, "__aiter__") else None
        wrapped: AsyncIterator[Any] = aiter(self._wrapper)
        return chosen if self._is_direct and chosen is not None else wrapped

    def close(self) -> None:
        """Close the connection. Dropping litellm's stream is not enough: on some routes it is in a reference cycle."""
        if hasattr(self._lines, "close"):
            self._lines.close()

    async def aclose(self) -> None:
        """Close the connection of an asynchronous stream."""
        await self._wrapper.aclose()
        if hasattr(self._lines, "aclose"):
            await self._lines.aclose()

    def is_finished(self, reason: str | None) -> bool:
        """Return whether the provider finished the stream; `reason` is the finish reason of its chunks."""
        if self._is_gemini and self._tap is not None:  # litellm marks each of Gemini's chunks as the last one
            return self._tap.finished
        reported = self._wrapper.received_finish_reason or self._wrapper.intermittent_finish_reason
        return bool(reason if self._is_direct else reported)

    @property
    def native_reason(self) -> str | None:
        """The provider's own stop reason, if one was read from the lines."""
        if self._is_truncated:
            return "length"
        return None if self._tap is None else self._tap.reason

    def _attach_tap(self, inner: Any) -> Any:
        """Return `inner`, with a tap on its lines where litellm drops information from them."""
        self._lines = getattr(inner, "streaming_response", inner)
        if self._is_direct and type(inner).__name__ == _OPENAI_HANDLER:
            inner._handle_string_chunk = partial(_parse_line, inner._handle_string_chunk)
        elif hasattr(inner, "_handle_string_chunk"):
            inner._handle_string_chunk = partial(self._read_extras, inner._handle_string_chunk)
        elif not self._is_direct and type(inner).__module__.partition(".")[0] == "openai":  # the SDK's own stream
            inner = self._wrapper.completion_stream = _ChunkTap(inner, self._read_refusal)
        self._is_gemini = "gemini" in type(inner).__module__ and self._lines is not inner
        if self._is_gemini or (self._provider in _TAPPED_PROVIDERS and self._lines is not inner):
            self._tap = inner.streaming_response = _LineTap(self._lines)
            if hasattr(inner, "response_iterator"):  # some read synchronous lines from here
                inner.response_iterator = self._tap
        return inner

    def _read_extras(self, otherwise: Callable[[str], Any], str_line: str) -> Any:
        """Store the refusal and Groq's usage in a line of OpenAI's stream, which litellm drops; then parse the line."""
        _check_line(str_line)
        has_usage = self._provider in NO_STREAM_OPTIONS and '"usage"' in str_line
        if has_usage or '"refusal"' in str_line:
            with suppress(ValueError, AttributeError):
                data = _decode_json(str_line.removeprefix("data:").strip())
                self.usage = data.usage or (data.x_groq and data.x_groq.usage) or self.usage
                self._read_refusal(data)
        return otherwise(self._complete(str_line))

    def _complete(self, event: Any) -> Any:
        """Return the end of a truncated reply of the Responses API as a regular end, which old versions know."""
        if getattr(event, "type", None) != "response.incomplete":
            return event
        text: str = event.model_dump_json()
        if '"max_output_tokens"' not in text:
            return event
        self._is_truncated = True
        return text.replace('"response.incomplete"', '"response.completed"', 1)

    def _read_refusal(self, chunk: Any) -> None:
        for choice in chunk.choices or ():
            self.refusal += (choice.delta and getattr(choice.delta, "refusal", None)) or ""


class TimedClient:
    """litellm's shared HTTP client with a timeout in seconds, which its Gemini route omits for streams."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def post(self, *args: Any, **named: Any) -> Any:
        """Send the request with the timeout."""
        return self._client.post(*args, **{**named, "timeout": self._timeout})


class _ChunkTap:
    """A stream of the OpenAI SDK that passes each chunk to `note` as well."""

    def __init__(self, stream: Any, note: Callable[[Any], None]) -> None:
        self._stream = stream
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> "_ChunkTap":
        return self

    def __aiter__(self) -> "_ChunkTap":
        return self

    def __next__(self) -> Any:
        return self._inspect(next(self._stream))

    async def __anext__(self) -> Any:
        return self._inspect(await anext(self._stream))

    def _inspect(self, chunk: Any) -> Any:
        self._note(chunk)
        return chunk


class _LineTap:
    """An iterator of lines that stores the stop reason when a line contains one."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines
        self.reason: str | None = None
        self.finished = False
        self._ends = 0

    def __iter__(self) -> "_LineTap":
        self._lines = iter(self._lines)
        return self

    def __aiter__(self) -> "_LineTap":
        self._lines = aiter(self._lines)
        return self

    def __next__(self) -> Any:
        try:
            return self._inspect(next(self._lines))
        except StopIteration:
            self._end()
            raise

    async def __anext__(self) -> Any:
        try:
            return self._inspect(await anext(self._lines))
        except StopAsyncIteration:
            self._end()
            raise

    def _end(self) -> None:
        """Count the calls after the last line; some versions of litellm repeat them without end if it is no JSON."""
        self._ends += 1
        if self._ends > _MAX_ENDS:
            raise json.JSONDecodeError("the stream held no JSON", "", 0)

    def _inspect(self, line: Any) -> Any:
        text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        _check_line(text)
        if any(word in text for word in _REASON_MARKS):
            self.finished = True
            self.reason = read_native_reason(text.removeprefix("data:")) or self.reason
        return line
