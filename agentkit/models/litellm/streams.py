"""A streamed reply: its lines, its chunks, and the deltas and the one message that are made of them.

litellm's stream wrapper invents the missing parts of a cut stream, a finish reason and even the usage.  It also takes
five to ten times the CPU of the rest.  Therefore the provider's own iterator inside the wrapper is read for known
providers, and the wrapper for all others.  Taps read what litellm drops: errors in lines, refusals, and how a stream
ended.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...core.errors import ModelError
from ...core.messages import Message
from ...core.portable import Json
from ...engine.history.tool_calls import normalize_id
from ...engine.model import Delta, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from .errors import ErrorInReply, find_error
from .importing import report_difference
from .limits import Signal
from .parameters import fill_arguments, read_items, restore_items
from .provider_tools import GROWING_FIELDS, Grounding
from .replies import Route, clean_reply, read_identity, read_native_reason, read_object

_IDENTITY_MARKS = re.compile('"(?:message_start|responseId)"')
_END_MARKS = re.compile('"(?:stop_reason|finishReason|blockReason|done_reason)"')
_OTHER_MARKS = re.compile('"(?:groundingMetadata|urlContextMetadata|tool_use)"')
"""What a tapped line has that is read."""


class _AttributeDict(dict[str, Any]):
    """A JSON object with attribute access, None for a missing key, like litellm's chunks."""

    __getattr__ = dict.get


decode_json = json.JSONDecoder(object_hook=_AttributeDict).decode


def check_line(line: Any) -> None:
    """Raise the error that a line of a stream holds, if any."""
    if isinstance(line, str) and (error := find_error(line)) is not None:
        raise error


def _check_event(otherwise: Callable[[Any], Any], event: Any) -> Any:
    """Raise the error that an event of the Responses API holds, if any; else process it."""
    check_line(event)
    return otherwise(event)


def to_event(line: Any) -> Any:
    """Return a line that is a whole reply, which some servers send for a streamed request, as the event of a stream."""
    if isinstance(line, str) and line.startswith("{"):
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            reply = json.loads(line)
            for choice in reply["choices"]:
                choice["delta"] = delta = choice.pop("message")
                for place, call in enumerate(delta.get("tool_calls") or ()):
                    call.setdefault("index", place)
            return f"data: {json.dumps(reply)}"
    return line


_MAX_DIGITS = 15


def read_counts(usage: Any) -> None:
    """Replace tokens that are texts in the usage of a chunk; some servers send "12". Another text counts nothing."""
    for key, value in usage.items() if isinstance(usage, dict) else ():
        if isinstance(value, str) and key.endswith(("_tokens", "_count")):
            usage[key] = int(value) if value.isdecimal() and len(value) <= _MAX_DIGITS else None
        read_counts(value)


_TEXT_COUNT = re.compile(r'(?:put_tokens|eval_count)"\s*:\s*"')
"""What a line with tokens of Anthropic or Ollama that are a text has."""


def _read_line_counts(line: str) -> str:
    """Return the line of Anthropic or Ollama with its tokens that are texts as numbers."""
    if not _TEXT_COUNT.search(line):
        return line
    head, brace, rest = line.partition("{")
    try:
        data = json.loads(brace + rest)
        read_counts({"message": data.get("message") and data["message"].get("usage"), "delta": data.get("usage")})
    except (ValueError, AttributeError, RecursionError):
        return line
    counts = {key: data[key] for key in ("prompt_eval_count", "eval_count") if key in data}
    read_counts(counts)
    return head + json.dumps({**data, **counts}, ensure_ascii=False)


def join_pieces(content: Any) -> str:
    """Return a piece of text that may be a list of content parts, as some servers send it."""
    if isinstance(content, list):
        return "".join(join_pieces(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def parse_line(otherwise: Callable[[str], Any], str_line: str) -> Any:
    """Parse a line of OpenAI's stream at a fourth of the CPU of litellm's objects; other lines go to `otherwise`."""
    check_line(str_line)
    str_line = to_event(str_line)
    if str_line.startswith("data: {"):
        with suppress(ValueError):
            return decode_json(str_line[6:])
    return otherwise(str_line)


class Tap:
    """A stream of lines or chunks, each of which passes through `inspect`."""

    def __init__(self, stream: Any, inspect: Callable[[Any], Any]) -> None:
        self._stream = stream
        self._inspect = inspect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> "Tap":
        return self

    def __aiter__(self) -> "Tap":
        return self

    def __next__(self) -> Any:
        return self._inspect(next(self._stream))

    async def __anext__(self) -> Any:
        return self._inspect(await anext(self._stream))


class TappedLines:
    """What lines of a stream have that litellm drops.

    Attributes:
        reason: The provider's own stop reason.
        identity: The provider's own id of the reply.
        finished: Whether a line had a stop reason.
        grounding: What the lines say that the reply is grounded on.
        inputs: The arguments, by the ids of their calls, that some servers send at the start of Anthropic's block.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.identity: str | None = None
        self.finished = False
        self.grounding = Grounding()
        self.inputs: dict[str, Any] = {}

    def read(self, line: Any) -> Any:
        """Take a line; return it as litellm reads it, and raise the error that it holds, if any."""
        text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        check_line(text)
        is_end = _END_MARKS.search(text) is not None
        self.finished = self.finished or is_end
        if is_end or _OTHER_MARKS.search(text) or (self.identity is None and _IDENTITY_MARKS.search(text)):
            self._read_data(read_object(text.removeprefix("data:")))
        if text.startswith(_NO_DATA):  # litellm would read Gemini's as a part of a chunk
            return ""
        return _read_line_counts(line) if isinstance(line, str) else line

    def _read_data(self, data: Json) -> None:
        self.reason = read_native_reason(data) or self.reason
        self.identity = self.identity or read_identity(data)
        self.grounding.add_chunk(data)
        block = data.get("content_block")
        if isinstance(block, dict) and block.get("type") == "tool_use":
            self.inputs[block.get("id", "")] = block.get("input")


_NO_DATA = (":", "event:", "id:", "retry:")
"""The begins of lines of an event stream that hold no data."""
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
_EXTRA_MARKS = ('"refusal"', '"usage"', '"reasoning_details"')
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
        self.tapped = TappedLines()
        """What was read of the lines; nothing where they need no tap."""
        self._is_gemini = False
        self._lines: Any = None
        self.refusal = ""
        self.reasoning = ReasoningDetails()
        self.items: list[dict[str, Any]] = []
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
        if hasattr(self._connection, "close"):
            self._connection.close()

    async def aclose(self) -> None:
        """Close the connection of an asynchronous stream."""
        if hasattr(self._wrapper, "aclose"):
            await self._wrapper.aclose()
        if hasattr(self._connection, "aclose"):
            await self._connection.aclose()

    @property
    def _connection(self) -> Any:
        """What closes the connection: the lines, or their response where they cannot (the Responses API)."""
        can_close = hasattr(self._lines, "close") or hasattr(self._lines, "aclose")
        return self._lines if can_close else getattr(self._lines, "response", None)

    def is_finished(self, reason: str | None) -> bool:
        """Return whether the provider finished the stream; `reason` is the finish reason of its chunks."""
        if self._is_gemini:  # litellm marks each of Gemini's chunks as the last one
            return self.tapped.finished
        if self._is_direct:
            return bool(reason)
        return bool(self._wrapper.received_finish_reason or self._wrapper.intermittent_finish_reason)

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
            inner = self._wrapper.completion_stream = Tap(inner, self._read_deltas)
        if hasattr(self._lines, "_process_chunk"):  # of the Responses API, where litellm loses the text of an error
            self._lines._process_chunk = partial(_check_event, self._lines._process_chunk)
        self._is_gemini = "gemini" in type(inner).__module__ and self._lines is not inner
        if self._is_gemini or (self._provider in _TAPPED_PROVIDERS and self._lines is not inner):
            tap = inner.streaming_response = Tap(self._lines, self.tapped.read)
            if hasattr(inner, "response_iterator"):  # some read synchronous lines from here
                inner.response_iterator = tap
        return inner

    def _read_extras(self, otherwise: Callable[[Any], Any], str_line: Any) -> Any:
        """Store what litellm drops of a line of OpenAI's stream, such as its refusal and its cost. Then parse it."""
        check_line(str_line)
        str_line = to_event(str_line)
        if any(mark in str_line for mark in _EXTRA_MARKS):
            with suppress(ValueError, AttributeError):
                data = decode_json(str_line.removeprefix("data:").strip())
                usage = data.usage or (data.x_groq and data.x_groq.usage)
                self.cost = (usage and usage.cost) or self.cost
                self.usage = (self._provider in NO_STREAM_OPTIONS and usage) or self.usage
                read_counts(self.usage)
                self._read_deltas(data)
        if getattr(str_line, "type", None) in ("response.completed", "response.incomplete"):
            self.items = read_items(getattr(str_line.response, "output", None))
        return otherwise(str_line)

    def _read_deltas(self, chunk: Any) -> Any:
        """Store what litellm drops of a chunk, and return the chunk."""
        for choice in chunk.choices or ():
            if choice.delta:
                self.refusal += getattr(choice.delta, "refusal", None) or ""
                self.reasoning.add(getattr(choice.delta, "reasoning_details", None))
        return chunk


class ReasoningDetails:
    """OpenRouter's `reasoning_details` of a stream: pieces of a thought are one entry, as in a whole reply.

    They must come back unchanged (OpenRouter, "Reasoning tokens", preserving reasoning).
    """

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []

    def add(self, pieces: Any) -> None:
        """Add the entries of one chunk."""
        for piece in pieces if isinstance(pieces, list) else ():
            kind = piece.get("type")
            last = self._entries[-1] if self._entries else {}
            if kind not in _DETAIL_TEXTS or kind != last.get("type") or piece.get("index") != last.get("index"):
                self._entries.append({})
                self._texts.append([])
            self._entries[-1].update((key, value) for key, value in piece.items() if value is not None)
            self._texts[-1].append(piece.get(_DETAIL_TEXTS.get(kind, "")) or "")

    def build(self) -> list[dict[str, Any]]:
        """Return the whole entries."""
        texts = map("".join, self._texts)
        return [
            {**entry, key: text} if (key := _DETAIL_TEXTS.get(entry.get("type", ""))) and text else entry
            for entry, text in zip(self._entries, texts, strict=True)
        ]


_DETAIL_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of entries that are streamed in pieces, and where their text is."""


def read_to_end(chunks: Iterator[Any], is_complete: Callable[[], bool]) -> Iterator[Any]:
    """Yield the chunks; a connection that fails behind the last one of a complete reply has ended."""
    try:
        yield from chunks
    except Exception as error:
        if isinstance(error, ErrorInReply) or not is_complete():
            raise


async def aread_to_end(chunks: AsyncIterator[Any], is_complete: Callable[[], bool]) -> AsyncIterator[Any]:
    """Yield the chunks as `read_to_end` does."""
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        if isinstance(error, ErrorInReply) or not is_complete():
            raise


class TimedClient:
    """litellm's shared HTTP client with a timeout in seconds, which its Gemini route omits for streams."""

    def __init__(self, litellm: Any, timeout: float) -> None:
        self._litellm = litellm
        self._timeout = timeout

    def post(self, *args: Any, **named: Any) -> Any:
        """Send the request with the timeout."""
        return self._litellm.module_level_client.post(*args, **{**named, "timeout": self._timeout})


_PROGRESS = (Signal.PROGRESS,)
_KEEPALIVE = (Signal.KEEPALIVE,)


class StreamAssembler:
    """Collect the chunks of one reply."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[ArgumentPieces] = []
        self._open: dict[int | None, int] = {}
        self._named: dict[tuple[int | None, str], int] = {}
        self._reasoning_items: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._reasoning = ReasoningDetails()
        self._extras: dict[str, Any] = {}
        self._usage: Any = None
        self._service_tier: str | None = None
        self._finish_reason: str | None = None
        self._model: str | None = None
        self._id: str | None = None
        self._has_choices = False

    def add(self, chunk: Any) -> Sequence[Delta | Signal]:
        """Add a chunk; return its deltas, or without any a `Signal` that tells whether it was empty."""
        moved = False
        deltas: list[Delta] = []
        if isinstance(chunk, dict) and "choices" not in chunk:  # litellm's own dict: empty, or the end of the stream
            if chunk.get("is_finished"):
                self._finish_reason = self._finish_reason or chunk.get("finish_reason") or "stop"
                moved = True
        elif chunk is not None:
            if (usage := getattr(chunk, "usage", None)) and not isinstance(usage, str | list):
                self._add_usage(usage)
                moved = True
            self._model = self._model or chunk.model
            self._id = self._id or chunk.id
            self._service_tier = getattr(chunk, "service_tier", None) or self._service_tier
            for choice in (chunk.choices or ())[:1]:
                moved = moved or not self._has_choices or bool(choice.finish_reason)
                self._has_choices = True
                self._finish_reason = choice.finish_reason or self._finish_reason
                if choice.delta is not None:
                    deltas += self._add_delta(choice.delta)
        return deltas or (_PROGRESS if moved else _KEEPALIVE)

    def _add_usage(self, usage: Any) -> None:
        read_counts(usage)
        if self._usage is not None and not (usage.prompt_tokens or usage.completion_tokens):
            return  # zeros at the end of a stream report nothing
        if self._usage is not None and not usage.prompt_tokens:  # Anthropic sends the input first, the output last
            usage.prompt_tokens = self._usage.prompt_tokens
            usage.prompt_tokens_details = self._usage.prompt_tokens_details
        self._usage = usage

    def _add_delta(self, delta: Any) -> Iterator[Delta]:
        if thought := join_pieces(getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)):
            self._thoughts.append(thought)
            yield ThinkingDelta(thought)
        if text := join_pieces(delta.content):
            self._text.append(text)
            yield TextDelta(text)
        if refusal := join_pieces(getattr(delta, "refusal", None)):
            self._refusal.append(refusal)
        self._reasoning_items += getattr(delta, "reasoning_items", None) or ()
        self._annotations += getattr(delta, "annotations", None) or ()
        self._reasoning.add(getattr(delta, "reasoning_details", None))
        for block in getattr(delta, "thinking_blocks", None) or ():
            self._add_block(block)
        for key, value in (getattr(delta, "provider_specific_fields", None) or {}).items():
            if key == "citation":
                self._extras.setdefault("citations", []).append(value)
            elif key != "thinking_blocks":
                is_part = isinstance(value, list) and key not in GROWING_FIELDS
                self._extras[key] = self._extras.get(key, []) + value if is_part else value
        pieces = getattr(delta, "tool_calls", None) or ()
        if not pieces and (legacy := getattr(delta, "function_call", None)):
            pieces = [_AttributeDict(index=0, function=legacy)]
        for piece in pieces:
            yield self._add_call(piece)

    def _add_block(self, block: dict[str, Any]) -> None:
        """Add a piece of thinking; the last one has the signature, and in some versions the whole text again."""
        last: dict[str, Any] = self._blocks[-1] if self._blocks else {"type": None}
        if block["type"] != "thinking" or last["type"] != "thinking" or last.get("signature"):
            self._blocks.append(dict(block))
            return
        text = block.get("thinking") or ""
        whole = block.get("signature") and last["thinking"] and text.startswith(last["thinking"])
        last["thinking"] = text if whole else last["thinking"] + text
        if block.get("signature"):
            last["signature"] = block["signature"]

    def _add_call(self, piece: Any) -> ToolCallDelta:
        function = piece.function
        identity = normalize_id(piece.id)
        place = self._find_call(piece.index, identity, function and function.name)
        call = self._calls[place]
        call["id"] = call["id"] or identity
        arguments = (function and function.arguments) or ""
        if not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        call["function"]["name"] = call["function"]["name"] or (function and function.name) or ""
        self._arguments[place].add(arguments)
        if extras := getattr(piece, "provider_specific_fields", None):
            call["provider_specific_fields"] = dict(extras)
        return ToolCallDelta(place, call["function"]["name"], arguments)

    def _find_call(self, index: int | None, identity: str, name: str | None) -> int:
        """Return the position of the piece's call. Ollama gives all calls index 0, with or without different ids.

        Other servers send no index, and the id of the call with each piece, or a new id with each.
        """
        place = self._named.get((index, identity)) if identity else None
        if place is None:
            place = self._open.get(index)
            if place is not None and self._is_other(place, index, identity, name):
                place = None
        if place is None:
            self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            self._arguments.append(ArgumentPieces())
            place = len(self._calls) - 1
        self._open[index] = place
        if identity:
            self._named[index, identity] = place
        return place

    def _is_other(self, place: int, index: int | None, identity: str, name: str | None) -> bool:
        """Return whether a piece belongs to another call than the one at `place`, the last one of its index."""
        known = self._calls[place]
        is_complete = self._arguments[place].is_complete
        if identity and known["id"]:  # not the id of any call
            return bool(name) or is_complete
        return bool(name and known["function"]["name"]) and (index is None or is_complete)

    def is_complete(self, source: ChunkSource) -> bool:
        """Return whether the provider finished the reply and reported its usage, which it does last."""
        return source.is_finished(self._finish_reason) and bool(source.usage or self._usage)

    def build_reply(self, source: ChunkSource) -> Reply:
        """Return the reply; raise `ModelError` if `source` ended without a finish reason."""
        if not source.is_finished(self._finish_reason):
            text = f"{self._route.name}: the stream was cut before the model had finished"
            raise ModelError(text, kind="connection", transient=True)
        if not self._has_choices:
            text = f"{self._route.name}: a reply without choices"
            raise ModelError(text, kind="server", status=200, transient=True)
        if source.refusal and not self._refusal:
            self._refusal.append(source.refusal)
        reported = source.usage or self._usage
        message = self._build_message(source.reasoning)
        source.tapped.grounding.put(message)
        source.tapped.grounding.count_searches(reported)
        restore_items(message, source.items)
        fill_arguments(message, source.tapped.inputs)
        response = {"model": self._model, "usage": reported, "service_tier": self._service_tier}
        if self._annotations:
            response["choices"] = [{"message": {"role": "assistant", "annotations": self._annotations}}]
        usage = self._route.read_usage(reported, source.cost, response)
        identity = source.tapped.identity or self._id
        return self._route.build_reply(message, self._finish_reason, usage, self._model, source.tapped.reason, identity)

    def _build_message(self, reasoning: ReasoningDetails) -> Message:
        message: Message = {"role": "assistant", "content": "".join(self._text)}
        for call, arguments in zip(self._calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(arguments.pieces)
        parts = {
            "tool_calls": self._calls,
            "refusal": "".join(self._refusal),
            "reasoning_content": "".join(self._thoughts),
            "thinking_blocks": self._blocks,
            "reasoning_items": self._reasoning_items,
            "annotations": self._annotations,
            "reasoning_details": reasoning.build() or self._reasoning.build(),
            "provider_specific_fields": self._extras,
        }
        return clean_reply(message | {key: value for key, value in parts.items() if value})


class ArgumentPieces:
    """The arguments of a call, in pieces: joined once, at the end, since appending to a text copies it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.is_complete = False
        """Whether the pieces are a whole JSON object or array."""
        self._depth = 0
        self._in_text = False
        self._backslash = ""
        """A backslash at the end of the last piece, which escapes the first character of the next one."""

    def add(self, piece: str) -> None:
        """Add a piece, and follow the brackets outside of its strings."""
        self.pieces.append(piece)
        if self.is_complete:
            self.is_complete = not piece.strip()
        marks = _MARKS.findall(self._backslash + piece)
        self._backslash = "\\" if marks and marks[-1] == "\\" else ""
        for mark in marks:
            if mark == '"':
                self._in_text = not self._in_text
            elif not self._in_text and mark[0] != "\\":
                self._depth += 1 if mark in "{[" else -1
                self.is_complete = self._depth == 0


_MARKS = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)
