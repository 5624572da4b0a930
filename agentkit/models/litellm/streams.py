"""Read the chunks of a stream, and detect whether it ended or was cut.

litellm's stream wrapper invents the missing parts of a cut stream, a finish reason and even the usage. It also takes
five to ten times the CPU of the rest. Therefore the provider's own iterator inside the wrapper is read for known
providers, and the wrapper for all others.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from .importing import report_difference
from .stream_lines import ChunkTap, LineTap, check_line, decode_json, parse_line

_DIRECT_PROVIDERS = {"openai", "anthropic", "gemini", "groq", "ollama_chat"}
"""Providers whose inner iterator yields OpenAI-shaped chunks (and generic dicts, mostly empty)."""
_TAPPED_PROVIDERS = {"anthropic", "ollama_chat"}
"""Providers whose stop reason litellm misreads; so it does for Gemini, on every route."""
_OPENAI_HANDLER = "OpenAIChatCompletionStreamingHandler"
"""litellm's reader of OpenAI's stream. Its subclasses have rules of their own."""
_WRAPPER_ATTRIBUTES = (
    "completion_stream", "make_call", "fetch_stream", "received_finish_reason", "intermittent_finish_reason"
)  # fmt: skip
"""What is read of litellm's stream wrapper."""
_EXTRA_MARKS = ('"refusal"', '"usage"')
NO_STREAM_OPTIONS = {"groq"}
"""Providers whose API has no `stream_options`; Groq sends the usage in the field `x_groq` of the last chunk."""


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
        self._tap: LineTap | None = None
        self._is_gemini = self._is_truncated = False
        self._lines: Any = None
        self.refusal = ""
        self.usage: Any = None
        self.cost: Any = None

    def chunks(self) -> Iterator[Any]:
        """Return the chunks of a synchronous stream."""
        wrapper = self._wrapper
        if not self._has_known_wrapper():
            return iter(wrapper)
        if wrapper.completion_stream is None and wrapper.make_call is not None:
            wrapper.completion_stream = wrapper.make_call(client=self._timed_client)
        inner = self._attach_tap(wrapper.completion_stream)
        chosen = iter(inner) if inner is not None else None
        return chosen if self._is_direct and chosen is not None else iter(wrapper)

    async def achunks(self) -> AsyncIterator[Any]:
        """Return the chunks of an asynchronous stream."""
        if not self._has_known_wrapper():
            return aiter(self._wrapper)
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
        if hasattr(self._wrapper, "aclose"):
            await self._wrapper.aclose()
        if hasattr(self._lines, "aclose"):
            await self._lines.aclose()

    def is_finished(self, reason: str | None) -> bool:
        """Return whether the provider finished the stream; `reason` is the finish reason of its chunks."""
        if self._is_gemini and self._tap is not None:  # litellm marks each of Gemini's chunks as the last one
            return self._tap.finished
        if self._is_direct:
            return bool(reason)
        return bool(self._wrapper.received_finish_reason or self._wrapper.intermittent_finish_reason)

    @property
    def native_reason(self) -> str | None:
        """The provider's own stop reason, if one was read from the lines."""
        if self._is_truncated:
            return "length"
        return None if self._tap is None else self._tap.reason

    def _has_known_wrapper(self) -> bool:
        """Return whether litellm's wrapper has the attributes that are read here; else it is read as a plain iterator.

        Then its finish reason has to be believed, which it invents for a cut stream.
        """
        missing = [name for name in _WRAPPER_ATTRIBUTES if not hasattr(self._wrapper, name)]
        if missing:
            self._is_direct = True
            report_difference(f"its stream wrapper has no {' and no '.join(missing)}; cut streams are not noticed")
        return not missing

    def _attach_tap(self, inner: Any) -> Any:
        """Return `inner`, with a tap on its lines where litellm drops information from them."""
        self._lines = getattr(inner, "streaming_response", inner)
        if self._is_direct and type(inner).__name__ == _OPENAI_HANDLER:
            inner._handle_string_chunk = partial(parse_line, inner._handle_string_chunk)
        elif hasattr(inner, "_handle_string_chunk"):
            inner._handle_string_chunk = partial(self._read_extras, inner._handle_string_chunk)
        elif not self._is_direct and type(inner).__module__.partition(".")[0] == "openai":  # the SDK's own stream
            inner = self._wrapper.completion_stream = ChunkTap(inner, self._read_refusal)
        self._is_gemini = "gemini" in type(inner).__module__ and self._lines is not inner
        if self._is_gemini or (self._provider in _TAPPED_PROVIDERS and self._lines is not inner):
            self._tap = inner.streaming_response = LineTap(self._lines)
            if hasattr(inner, "response_iterator"):  # some read synchronous lines from here
                inner.response_iterator = self._tap
        return inner

    def _read_extras(self, otherwise: Callable[[str], Any], str_line: str) -> Any:
        """Store what litellm drops of a line of OpenAI's stream: the refusal, the cost, Groq's usage. Then parse it."""
        check_line(str_line)
        if any(mark in str_line for mark in _EXTRA_MARKS):
            with suppress(ValueError, AttributeError):
                data = decode_json(str_line.removeprefix("data:").strip())
                usage = data.usage or (data.x_groq and data.x_groq.usage)
                self.cost = (usage and usage.cost) or self.cost
                self.usage = (self._provider in NO_STREAM_OPTIONS and usage) or self.usage
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

    def __init__(self, litellm: Any, timeout: float) -> None:
        self._litellm = litellm
        self._timeout = timeout

    def post(self, *args: Any, **named: Any) -> Any:
        """Send the request with the timeout."""
        return self._litellm.module_level_client.post(*args, **{**named, "timeout": self._timeout})
