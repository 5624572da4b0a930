"""Convert litellm's message and usage objects to the plain JSON of a history.

The objects are read by attribute; this module does not import litellm.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import ModelError
from ...core.messages import Message, Usage
from ...core.portable import to_valid_text
from ...engine.model import Reply
from .parts import find_flags
from .prices import Prices, find_prices
from .responses_api import remove_prefix, restore_reasoning

_TRUNCATED_REASONS = {"MAX_TOKENS", "max_tokens", "length", "model_context_window_exceeded"}
"""The providers' stop reasons of a truncated reply: the token limit or the end of the context window."""
_KNOWN_REASONS = {"stop", "tool_calls", "content_filter"}
"""OpenAI's other finish reasons. Unknown ones of some servers are read as one of the first two."""
_COST_HEADER = "x-litellm-response-cost"
_REASON_KEYS = ("stop_reason", "finishReason", "blockReason", "done_reason")
_SIGNATURE_MARK = "__thought__"
"""litellm appends Gemini's thought signature to the call's id; other providers refuse such long ids."""


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a model's requests: its full name, litellm's provider, the name there, prices if known.

    `flags` is the model's row in litellm's table, {} for an unknown model.
    """

    name: str
    provider: str
    model: str
    prices: Prices | None = None
    flags: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, litellm: Any, name: str, provider: str, model: str, options: Mapping[str, Any]) -> "Route":
        """Return the route of a model; the caller's `options` may give its prices and its `model_info`."""
        known = remove_prefix(model)
        prices = find_prices(litellm.model_cost, provider, known, options)
        flags = find_flags(litellm.model_cost, provider, known, options.get("model_info"))
        return cls(name, provider, model, prices, flags)

    def build_reply(
        self, message: Message, finish_reason: str | None, usage: Usage, model: str | None, native: str | None = None
    ) -> Reply:
        """Return the `Reply` for a complete message, from litellm's finish reason.

        `native` is the provider's own stop reason, where litellm hides it.
        """
        if native and finish_reason == "content_filter" and not message["content"]:
            message.setdefault("refusal", f"the provider's content filter stopped the reply ({native})")
        if native in _TRUNCATED_REASONS or finish_reason in _TRUNCATED_REASONS:
            finish_reason = "length"
        elif finish_reason not in _KNOWN_REASONS:
            finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
        message["provider"] = self.provider
        name = (model or self.model).removeprefix(self.provider + "/")
        return Reply(message, usage, finish_reason, name)

    def read_usage(self, reported: Any, cost: Any = None) -> Usage:
        """Return the tokens and the cost of one request; `reported` is litellm's usage object, or None (groq).

        A `cost` that the reply reports elsewhere, or in its usage (OpenRouter; in streams, a LiteLLM proxy), counts
        before the price table.
        """
        if reported is None:
            return Usage(requests=1, cost=cost)
        tokens_in, tokens_out = reported.prompt_tokens or 0, reported.completion_tokens or 0
        cached = _read_detail(reported, "prompt_tokens_details", "cached_tokens")
        written = getattr(reported, "cache_creation_input_tokens", None) or 0
        cost = getattr(reported, "cost", None) if cost is None else cost
        if not isinstance(cost, int | float):
            cost = None if self.prices is None else self.prices.cost(tokens_in, tokens_out, cached, written)
        return Usage(
            requests=1,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cached_tokens=cached,
            reasoning_tokens=_read_detail(reported, "completion_tokens_details", "reasoning_tokens"),
            cost=cost,
        )


def read_reply(response: Any, route: Route, body: object = None) -> Reply:
    """Return the `Reply` of an unstreamed response; `body` is the raw response text if it is known."""
    if not response.choices:
        raise ModelError(f"{route.name}: a reply without choices", kind="server", status=200, transient=True)
    choice = response.choices[0]
    message = clean_reply(choice.message.model_dump(exclude_none=True))
    restore_reasoning(message, body)
    native = read_native_reason(body) if isinstance(body, str) else None
    usage = route.read_usage(getattr(response, "usage", None), _find_proxy_cost(response))
    return route.build_reply(message, choice.finish_reason, usage, response.model, native)


def _find_proxy_cost(response: Any) -> float | None:
    """Return the dollars in the header of a LiteLLM proxy; None without one. In streams they are in the usage."""
    hidden = getattr(response, "_hidden_params", None) or {}
    headers = {**(hidden.get("headers") or {}), **(hidden.get("additional_headers") or {})}
    for name in (_COST_HEADER, f"llm_provider-{_COST_HEADER}"):
        with suppress(KeyError, ValueError):
            return float(headers[name])
    return None


def read_native_reason(body: str) -> str | None:
    """Return the stop reason in the JSON of Anthropic, Gemini or Ollama: a whole body or one line of a stream.

    litellm's finish reason hides it: for Gemini and Ollama it is "tool_calls" whenever there are calls, although the
    last one may be truncated.
    """
    try:
        data = json.loads(body)
        places = (data, data.get("delta"), *(data.get("candidates") or ()), data.get("promptFeedback"))
        found = next(place[key] for place in places for key in _REASON_KEYS if place and place.get(key))
    except (ValueError, AttributeError, TypeError, StopIteration, RecursionError):
        return None
    return found if isinstance(found, str) else None


def clean_reply(message: Message) -> Message:
    """Return the message as a history has it: `role` and `content` first, no empty extras, valid Unicode, short ids."""
    tidied: Message = {"role": "assistant", "content": to_valid_text(message.get("content") or "") or None}
    for key, value in message.items():
        if key == "provider_specific_fields":
            value = {name: field for name, field in value.items() if field}
        if value and key not in tidied:
            tidied[key] = value
    for call in tidied.get("tool_calls", ()):
        call.pop("index", None)
        call["id"] = (call.get("id") or "").partition(_SIGNATURE_MARK)[0]
        call["function"]["arguments"] = to_valid_text(call["function"].get("arguments") or "{}")
    return tidied


def _read_detail(reported: Any, group: str, key: str) -> int:
    return getattr(getattr(reported, group, None), key, None) or 0


class RawReply:
    """The body of an unstreamed reply or of an error.

    `has_arrived` tells whether a response arrived. `body` is its text; None without a response or for other types.
    """

    def __init__(self) -> None:
        self.has_arrived = False
        self.body: str | None = None

    def make_logger(self, other: Any = None) -> Callable[[dict[str, Any]], None]:
        """Return the function for litellm's option `logger_fn`, which calls `other` too, if that is callable.

        It is a plain function because litellm copies the option's value.
        """

        def log(details: dict[str, Any]) -> None:
            if callable(other):
                other(details)
            body = details.get("original_response")
            is_first = details.get("log_event_type") == "post_api_call" and not self.has_arrived
            if is_first and not inspect.iscoroutine(body) and body not in _PLACEHOLDER_BODIES:
                self.has_arrived = True
                self.body = body if isinstance(body, str) else None

        return log


_PLACEHOLDER_BODIES = ("first stream response received",)
