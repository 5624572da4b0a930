"""What comes in: litellm's message and usage objects as the plain JSON that a history holds.

The objects are read by attribute and never named: this file imports no litellm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelError
from ..messages import Message, Usage
from ..model import Reply

_SIGNED = "__thought__"
"""litellm writes Gemini's signature into the call's id as well; other providers refuse such long ids."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a model's requests go: litellm's provider, the model's name there, dollars per token if known."""

    shown: str
    provider: str
    model: str
    prices: Mapping[str, Any] | None = None

    def reply(self, message: Message, finish_reason: str | None, usage: Any, model: str | None) -> Reply:
        """The `Reply` for a complete message; raises `ModelError` where the provider refused to write one."""
        words = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
        if words or finish_reason == "content_filter":
            words = words or message.get("content") or "the content filter stopped the reply"
            raise ModelError(f"{self.shown}: {words}", kind="refused", status=200)
        message["provider"] = self.provider
        name = (model or self.model).removeprefix(self.provider + "/")
        return Reply(message, self.usage(usage), finish_reason, name)

    def usage(self, reported: Any) -> Usage:
        """The tokens of one request and their price; `reported` is litellm's usage object, or None (groq)."""
        if reported is None:
            return Usage(requests=1, cost=None)
        tokens_in, tokens_out = reported.prompt_tokens or 0, reported.completion_tokens or 0
        cached = _detail(reported, "prompt_tokens_details", "cached_tokens")
        written = getattr(reported, "cache_creation_input_tokens", None) or 0
        return Usage(
            requests=1,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cached_tokens=cached,
            reasoning_tokens=_detail(reported, "completion_tokens_details", "reasoning_tokens"),
            cost=self._cost(tokens_in, tokens_out, cached, written),
        )

    def _cost(self, tokens_in: int, tokens_out: int, cached: int, written: int) -> float | None:
        """Dollars at the table's standard prices; `cached` (read) and `written` are the cache's part of `tokens_in`."""
        prices = self.prices
        if prices is None:
            return None
        tier = "_above_200k_tokens" if tokens_in > 200_000 else ""  # the long-context prices of some models

        def price(key: str, default: float) -> float:
            found = prices.get(key + tier) or prices.get(key)
            return default if found is None else float(found)

        fresh = price("input_cost_per_token", 0.0)
        return (
            max(0, tokens_in - cached - written) * fresh
            + cached * price("cache_read_input_token_cost", fresh)
            + written * price("cache_creation_input_token_cost", fresh)
            + tokens_out * price("output_cost_per_token", 0.0)
        )


def whole_reply(response: Any, route: Route) -> Reply:
    """The `Reply` in a response that was not streamed."""
    if not response.choices:
        raise ModelError(f"{route.shown}: a reply without choices", kind="server", status=200, transient=True)
    choice = response.choices[0]
    message = tidy(choice.message.model_dump(exclude_none=True))
    return route.reply(message, choice.finish_reason, getattr(response, "usage", None), response.model)


def tidy(message: Message) -> Message:
    """The message as a history can hold it: no empty extras, valid Unicode, calls with short ids.

    A message says `role` and `content` first, whatever else it has.
    """
    tidied: Message = {"role": "assistant", "content": valid(message.get("content") or "") or None}
    for key, value in message.items():
        if key == "provider_specific_fields":
            value = {name: field for name, field in value.items() if field}
        if value and key not in tidied:
            tidied[key] = value
    for call in tidied.get("tool_calls", ()):
        call.pop("index", None)
        call["id"] = (call.get("id") or "").partition(_SIGNED)[0]
        call["function"]["arguments"] = valid(call["function"].get("arguments") or "{}")
    return tidied


def valid(text: str) -> str:
    """`text` with lone halves of surrogate pairs, which cannot be sent or stored, replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _detail(reported: Any, group: str, key: str) -> int:
    return getattr(getattr(reported, group, None), key, None) or 0
