"""What a request may contain, and what its reply is as plain JSON of a history, with its usage and its cost.

litellm's message and usage objects are read by attribute; this module does not import litellm.  Images, documents and
audio that a model does not take are refused in a query and noted elsewhere, and moved where they may not stand: litellm
drops some silently, and sends others as text.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...core.errors import ModelError
from ...core.messages import Message, Usage, user
from ...core.parts import Part, describe_part, describe_unseen, parts_of
from ...core.portable import Json, parse_json, to_valid_text
from ...core.values import frozen
from ...engine.history.tool_calls import normalize_id
from ...engine.model import Reply
from .parameters import read_items, restore_items
from .prices import Prices, find_row
from .provider_tools import Grounding, take_steps

_log = logging.getLogger("agentkit")


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


@frozen
class PartRules:
    """What one model takes besides text.

    Attributes:
        name: The model's name, for errors.
        wire: The provider, or "responses".
        row: The model's row in litellm's table, with the flags that the caller declared; empty for an unknown model,
            whose provider decides.
        refused: The types of the parts that the provider has refused.
    """

    name: str
    wire: str
    row: Mapping[str, Any]
    refused: Collection[str] = ()

    def apply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with notes in the place of parts that the model does not take.

        The parts of results that may not stand there are in a user message behind them.

        Raises:
            ModelError: The model does not take a part of the last query, which it cannot answer then.
        """
        if not any(isinstance(message.get("content"), list) for message in messages):
            return messages
        query = find_query(messages)
        for part in parts_of(query):
            if self._is_refused(part):
                problem = f"the model takes no {_NAMES[part['type']]}, and a message has {describe_part(part)}"
                raise ModelError(f"{self.name}: {problem}. {self._find_remedy(part)}", kind="bad_request")
        shown = [message if message is query else self._note_parts(message) for message in messages]
        return [*_move_parts(shown, _IN_RESULTS.get(self.wire, frozenset()))]

    def _is_refused(self, part: Part) -> bool:
        kind = part.get("type")
        if kind in _NEVER.get(self.wire, ()) or kind in self.refused:
            return True
        return kind in _FLAGS and bool(self.row) and not self.row.get(_FLAGS[kind])

    def _note_parts(self, message: Message) -> Message:
        """Return the message with a text in the place of each refused part: in that of its label, if it has one."""
        refused = [part for part in parts_of(message) if self._is_refused(part)]
        if not refused:
            return message
        texts: list[Part] = [part for part in message["content"] if not any(part is one for one in refused)]
        for part in refused:
            label = describe_part(part)
            note = describe_unseen(part)
            places = (place for place, one in enumerate(texts) if one["type"] == "text" and label in one["text"])
            if (place := next(places, None)) is None:
                texts.append({"type": "text", "text": note})
            else:
                texts[place] = {"type": "text", "text": texts[place]["text"].replace(label, note, 1)}
            _log.debug("%s: the result of a tool is sent as %s. %s", self.name, note, self._find_remedy(part))
        is_text = all(part["type"] == "text" for part in texts)
        return {**message, "content": "\n".join(part["text"] for part in texts) if is_text else texts}

    def _find_remedy(self, part: Part) -> str:
        kind = str(part["type"])
        remedy = f"Remove it, or choose a model that takes {_NAMES[kind]}"
        if kind not in _NEVER.get(self.wire, ()) and kind not in self.refused:
            remedy += f". If this one does, declare it: model_info={{{_FLAGS[kind]!r}: True}}"
        return f"{remedy}."


def find_query(messages: Sequence[Message]) -> Message:
    """Return the last message of a user; {} without one. Results that are written as text are no query."""
    queries = (one for one in reversed(messages) if one["role"] == "user" and not one.get("is_result"))
    return next(queries, {})


def find_flags(table: Mapping[str, Any], provider: str, model: str, declared: Any) -> dict[str, Any]:
    """Return the row of a model in litellm's table with the caller's `model_info`; {} for an unknown model.

    Rows of Ollama's models are about other servers than the one that is asked.
    """
    found = {} if provider == "ollama_chat" else find_row(table, provider, model)[1]
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


_TRUNCATED_REASONS = {"MAX_TOKENS", "max_tokens", "length", "model_context_window_exceeded"}
"""The providers' stop reasons of a truncated reply: the token limit or the end of the context window."""
_ENDS = {"pause_turn", "content_filter"}
"""Other stop reasons that litellm hides; with "pause_turn" Anthropic's turn continues with the next request."""
_FILTERED_REASONS = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"}
"""Gemini's finish reasons of a filtered reply, which litellm's stream calls "tool_calls" if there are calls."""
_FAILED_REASONS = {"error", "abort"}
"""The finish reasons of OpenRouter and vLLM for a reply that failed in the middle."""
_UNFINISHED = {"cancelled", "failed", "in_progress", "queued"}
"""The statuses of a response of the Responses API that is no whole reply."""
_KNOWN_REASONS = {"stop", "tool_calls", "content_filter"}
"""OpenAI's other finish reasons. Unknown ones of some servers are read as one of the first two."""
_COST_HEADER = "x-litellm-response-cost"
_REASON_KEYS = ("stop_reason", "finishReason", "blockReason", "done_reason")
_SIGNATURE_MARK = "__thought__"
"""litellm appends Gemini's thought signature to the call's id; other providers refuse such long ids."""


@frozen
class Route:
    """The destination of a model's requests: its full name, litellm's provider, the name there, and the prices.

    `flags` is the model's row in litellm's table, {} for an unknown model.
    """

    name: str
    provider: str
    model: str
    prices: Prices
    flags: Mapping[str, Any]

    def build_reply(
        self,
        message: Message,
        finish_reason: str | None,
        usage: Usage,
        model: str | None,
        native: str | None = None,
        identity: str | None = None,
    ) -> Reply:
        """Return the `Reply` for a complete message, from litellm's finish reason.

        `native` is the provider's own stop reason, where litellm hides it, and `identity` the id of the reply.
        """
        if finish_reason in _FAILED_REASONS:
            raise ModelError(f"{self.name}: the server aborted the reply", kind="server", status=200, transient=True)
        if native in _FILTERED_REASONS:
            finish_reason = "content_filter"
        if native and finish_reason == "content_filter" and not message["content"]:
            message.setdefault("refusal", f"the provider's content filter stopped the reply ({native})")
        if native in _TRUNCATED_REASONS or finish_reason in _TRUNCATED_REASONS:
            finish_reason = "length"
        elif native in _ENDS:
            finish_reason = native
        elif finish_reason not in _KNOWN_REASONS:
            finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
        message["provider"] = self.provider
        name = (model or self.model).removeprefix(self.provider + "/")
        return Reply(message, usage, finish_reason, name, identity or "")

    def read_usage(self, reported: Any, cost: Any, response: Any) -> Usage:
        """Return the tokens and the cost of one request; `reported` is litellm's usage object, or None (groq).

        A `cost` that the reply reports elsewhere, or in its usage (OpenRouter; in streams, a LiteLLM proxy), counts
        before the price table, by which litellm calculates that of the `response`.
        """
        if reported is None:
            return Usage(requests=1, cost=cost)
        tokens_in = _to_count(reported.prompt_tokens)
        tokens_out = _to_count(reported.completion_tokens)
        cached = _read_detail(reported, "prompt_tokens_details", "cached_tokens")
        written = getattr(reported, "cache_creation_input_tokens", None) or 0
        cost = getattr(reported, "cost", None) if cost is None else cost
        if not isinstance(cost, int | float):
            cost = self.prices.cost(response)
        return Usage(
            requests=1,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cached_tokens=cached,
            reasoning_tokens=_read_detail(reported, "completion_tokens_details", "reasoning_tokens"),
            cost=cost,
            cache_creation_tokens=written,
        )


def read_reply(response: Any, route: Route, body: str) -> Reply:
    """Return the `Reply` of an unstreamed response; `body` is the raw response text, "" if it is unknown."""
    if not response.choices:
        raise ModelError(f"{route.name}: a reply without choices", kind="server", status=200, transient=True)
    choice = response.choices[0]
    message = clean_reply(choice.message.model_dump(exclude_none=True))
    grounding = Grounding()
    grounding.add(response)
    grounding.put(message)
    data = read_object(body)
    restore_items(message, read_items(data.get("output")))
    usage = route.read_usage(getattr(response, "usage", None), _find_proxy_cost(response), response)
    identity = response.id
    if f'"{identity}"' not in body:
        identity = read_identity(data) or identity
    finish_reason = "error" if _is_aborted(data) else choice.finish_reason
    return route.build_reply(message, finish_reason, usage, response.model, read_native_reason(data), identity)


def _find_proxy_cost(response: Any) -> float | None:
    """Return the dollars in the header of a LiteLLM proxy; None without one. In streams they are in the usage."""
    hidden = getattr(response, "_hidden_params", None) or {}
    headers = {**(hidden.get("headers") or {}), **(hidden.get("additional_headers") or {})}
    for name in (_COST_HEADER, f"llm_provider-{_COST_HEADER}"):
        with suppress(KeyError, ValueError):
            return float(headers[name])
    return None


def read_object(text: str) -> Json:
    """Return the JSON object of a whole body or of one line of a stream; {} without one."""
    found = parse_json(text)
    return found if isinstance(found, dict) else {}


def _is_aborted(data: Json) -> bool:
    """Return whether a whole reply in OpenAI's forms says that the server aborted it: litellm hides it."""
    with suppress(LookupError, TypeError):
        if data.get("object") == "response":
            return data["status"] in _UNFINISHED
        return data["choices"][0]["finish_reason"] in _FAILED_REASONS
    return False


def read_native_reason(data: Json) -> str | None:
    """Return the stop reason in a reply of Anthropic, Gemini or Ollama, or in one line of its stream.

    litellm's finish reason hides it: for Gemini and Ollama it is "tool_calls" whenever there are calls, although the
    last one may be truncated.
    """
    with suppress(AttributeError, TypeError, StopIteration):
        places = (data, data.get("delta"), *(data.get("candidates") or ()), data.get("promptFeedback"))
        found = next(place[key] for place in places for key in _REASON_KEYS if place and place.get(key))
        return found if isinstance(found, str) else None
    return None


def read_identity(data: Json) -> str | None:
    """Return the id of a reply of Anthropic or Gemini, or of one line of its stream.

    litellm makes up another one, which the provider does not know.
    """
    message = data.get("message", data)
    found = data.get("responseId") or (message.get("id") if isinstance(message, dict) else None)
    return found if isinstance(found, str) else None


def clean_reply(message: Message) -> Message:
    """Return the message as a history has it: `role` and `content` first, no empty extras, valid Unicode, short ids."""
    tidied: Message = {"role": "assistant", "content": to_valid_text(message.get("content") or "") or None}
    more = dict(message.get("provider_specific_fields") or {})
    details = more.pop("reasoning_details", None) or message.get("reasoning_details")  # of OpenRouter and MiniMax
    thought = more.pop("reasoning", None) or message.get("reasoning")  # the name at Groq, OpenRouter and new vLLMs
    known = {"reasoning_content": message.get("reasoning_content") or thought, "reasoning_details": details}
    for key, value in {**message, **known, "reasoning": None}.items():
        if key == "provider_specific_fields":
            value = {name: field for name, field in more.items() if field}
        if value and key not in tidied:
            tidied[key] = value
    legacy = tidied.pop("function_call", None) or {}  # the form before `tools`, which some servers still send
    if legacy.get("name") and "tool_calls" not in tidied:
        tidied["tool_calls"] = [{"id": "", "type": "function", "function": legacy}]
    for call in tidied.get("tool_calls", ()):
        call.pop("index", None)
        call["id"] = normalize_id(call.get("id")).partition(_SIGNATURE_MARK)[0]
        call["function"].setdefault("name", "")
        call["function"]["arguments"] = to_valid_text(call["function"].get("arguments") or "{}")
    take_steps(tidied)
    return tidied


def _to_count(value: Any) -> int:
    """Return a number of tokens, which some servers send as a float."""
    return max(0, int(value or 0))


def _read_detail(reported: Any, group: str, key: str) -> int:
    return getattr(getattr(reported, group, None), key, None) or 0
