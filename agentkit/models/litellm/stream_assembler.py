"""Assemble a stream: convert litellm's chunks to deltas and, at the end, to one message."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ...core.errors import ModelError
from ...core.messages import Message
from ...engine.model import Delta, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from .replies import Route, clean_reply
from .streams import ChunkSource
from .timeouts import Signal


class StreamAssembler:
    """Collect the chunks of one reply."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[_Arguments] = []
        self._open: dict[int, int] = {}
        self._reasoning_items: list[dict[str, Any]] = []
        self._extras: dict[str, Any] = {}
        self._usage: Any = None
        self._finish_reason: str | None = None
        self._model: str | None = None
        self._has_choices = False

    def add(self, chunk: Any) -> Iterator[Delta | Signal]:
        """Add a chunk; yield its deltas, then a `Signal` that tells whether it was empty."""
        moved = False
        if isinstance(chunk, dict) and "choices" not in chunk:  # litellm's own dict: empty, or the end of the stream
            if chunk.get("is_finished"):
                self._finish_reason = self._finish_reason or chunk.get("finish_reason") or "stop"
                moved = True
        elif chunk is not None:
            if usage := getattr(chunk, "usage", None):
                self._add_usage(usage)
                moved = True
            self._model = self._model or chunk.model
            for choice in (chunk.choices or ())[:1]:
                moved = moved or not self._has_choices or bool(choice.finish_reason)
                self._has_choices = True
                self._finish_reason = choice.finish_reason or self._finish_reason
                if choice.delta is not None:
                    yield from self._add_delta(choice.delta)
        yield Signal.PROGRESS if moved else Signal.KEEPALIVE

    def _add_usage(self, usage: Any) -> None:
        if self._usage is not None and not usage.prompt_tokens:  # Anthropic sends the input first, the output last
            usage.prompt_tokens = self._usage.prompt_tokens
            usage.prompt_tokens_details = self._usage.prompt_tokens_details
        self._usage = usage

    def _add_delta(self, delta: Any) -> Iterator[Delta]:
        if thought := getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None):
            self._thoughts.append(thought)
            yield ThinkingDelta(thought)
        if delta.content:
            self._text.append(delta.content)
            yield TextDelta(delta.content)
        if refusal := getattr(delta, "refusal", None):
            self._refusal.append(refusal)
        self._reasoning_items += getattr(delta, "reasoning_items", None) or ()
        for block in getattr(delta, "thinking_blocks", None) or ():
            self._add_block(block)
        for key, value in (getattr(delta, "provider_specific_fields", None) or {}).items():
            if key != "thinking_blocks":
                self._extras[key] = self._extras.get(key, []) + value if isinstance(value, list) else value
        for piece in getattr(delta, "tool_calls", None) or ():
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
        place = self._find_call(piece.index, piece.id, function and function.name)
        call = self._calls[place]
        call["id"] = piece.id or call["id"]
        arguments = (function and function.arguments) or ""
        if not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        call["function"]["name"] = call["function"]["name"] or (function and function.name) or ""
        self._arguments[place].add(arguments)
        if extras := getattr(piece, "provider_specific_fields", None):
            call["provider_specific_fields"] = dict(extras)
        return ToolCallDelta(place, call["function"]["name"], arguments)

    def _find_call(self, index: int | None, identity: str | None, name: str | None) -> int:
        """Return the position of the piece's call. Ollama gives all calls index 0, with or without different ids."""
        place = None if index is None else self._open.get(index)
        if place is not None:
            known = self._calls[place]
            other = known["id"] not in ("", identity) if identity else name and self._arguments[place].is_complete
            if not other:
                return place
        self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        self._arguments.append(_Arguments())
        place = len(self._calls) - 1
        if index is not None:
            self._open[index] = place
        return place

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
        usage = self._route.read_usage(source.usage or self._usage, source.cost)
        return self._route.build_reply(
            self._build_message(), self._finish_reason, usage, self._model, source.native_reason
        )

    def _build_message(self) -> Message:
        message: Message = {"role": "assistant", "content": "".join(self._text)}
        for call, arguments in zip(self._calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(arguments.pieces)
        parts = {
            "tool_calls": self._calls,
            "refusal": "".join(self._refusal),
            "reasoning_content": "".join(self._thoughts),
            "thinking_blocks": self._blocks,
            "reasoning_items": self._reasoning_items,
            "provider_specific_fields": self._extras,
        }
        return clean_reply(message | {key: value for key, value in parts.items() if value})


class _Arguments:
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
