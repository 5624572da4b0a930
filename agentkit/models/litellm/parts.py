"""Images, documents and audio in a request: refused where the model does not take them, moved where they may not stand.

litellm drops some parts silently, and sends others as text.  Its table tells which models take them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import ModelError
from ...core.messages import Message, user
from ...core.parts import Part, describe_part, parts_of
from .prices import find_row

_FLAGS = {"image_url": "supports_vision", "file": "supports_pdf_input", "input_audio": "supports_audio_input"}
"""The keys of litellm's table, by the types of parts."""
_NAMES = {"image_url": "images", "file": "documents", "input_audio": "audio"}
_NEVER: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"input_audio"}),
    "mistral": frozenset({"input_audio"}),
    "groq": frozenset({"file", "input_audio"}),
    "ollama_chat": frozenset({"file", "input_audio"}),
    "responses": frozenset({"input_audio"}),
}
"""Parts that a provider's API does not have, or that litellm drops on the way there."""
_IN_RESULTS: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"image_url", "file"}),
    "gemini": frozenset({"image_url", "file"}),
    "vertex_ai": frozenset({"image_url", "file"}),
    "responses": frozenset({"image_url", "file"}),
    "bedrock": frozenset({"image_url"}),
    "ollama_chat": frozenset({"image_url"}),
}
"""Parts that may stand in a tool's result; elsewhere it has text alone."""
_FROM_RESULT = "[Output of the tool {}:]"


@dataclass(frozen=True, slots=True)
class PartRules:
    """What one model takes besides text.

    Attributes:
        name: The model's name, for errors.
        wire: The provider, or "responses".
        row: The model's row in litellm's table, with the flags that the caller declared; empty for an unknown model,
            whose provider decides.
    """

    name: str
    wire: str
    row: Mapping[str, Any]

    def apply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with the parts of results that may not stand there in a user message behind them.

        Raises:
            ModelError: The model does not take a part.
        """
        if not any(isinstance(message.get("content"), list) for message in messages):
            return messages
        self._check(messages)
        return [*_move_parts(messages, _IN_RESULTS.get(self.wire, frozenset()))]

    def _check(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message.get("content"), list):
                for part in parts_of(message):
                    if self._is_refused(str(part.get("type"))):
                        raise ModelError(self._describe(message, part), kind="bad_request")

    def _is_refused(self, kind: str) -> bool:
        if kind in _NEVER.get(self.wire, ()):
            return True
        return kind in _FLAGS and bool(self.row) and not self.row.get(_FLAGS[kind])

    def _describe(self, message: Message, part: Part) -> str:
        kind = str(part["type"])
        where = f"the result of {message.get('name') or 'a tool'}" if message["role"] == "tool" else "a message"
        remedy = f"Remove it, or choose a model that takes {_NAMES[kind]}"
        if kind not in _NEVER.get(self.wire, ()):
            remedy += f". If this one does, declare it: model_info={{{_FLAGS[kind]!r}: True}}"
        return f"{self.name}: the model takes no {_NAMES[kind]}, and {where} has {describe_part(part)}. {remedy}."


def find_flags(table: Mapping[str, Any], provider: str, model: str, declared: Any) -> dict[str, Any]:
    """Return the row of a model in litellm's table with the caller's `model_info`; {} for an unknown model.

    Rows of Ollama's models are about other servers than the one that is asked.
    """
    found = {} if provider == "ollama_chat" else find_row(table, provider, model)
    return {**found, **declared} if isinstance(declared, Mapping) and found else dict(found)


def _move_parts(messages: Sequence[Message], allowed: frozenset[str]) -> Iterator[Message]:
    moved: list[Part] = []
    for message in messages:
        if message["role"] != "tool" and moved:
            yield user(moved)
            moved = []
        if message["role"] == "tool" and (parts := [part for part in parts_of(message) if part["type"] not in allowed]):
            moved += [{"type": "text", "text": _FROM_RESULT.format(message.get("name", "")).replace(" :", ":")}, *parts]
            message = {**message, "content": [part for part in message["content"] if part not in parts]}
        yield message
    if moved:
        yield user(moved)
