"""Cost of requests, from litellm's bundled price table (dollars per token)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONG_PROMPT_TOKENS = 200_000
"""Above this many input tokens, some models have higher prices."""
PRICE_OPTIONS = ("input_cost_per_token", "output_cost_per_token")
"""Options of a model that give its price, in dollars per token."""
_LENGTHS = ("max_output_tokens", "max_tokens")
_OUTPUT_KEYS = ("output_cost_per_token", "output_cost_per_reasoning_token")
_INPUT_KEYS = ("input_cost_per_token", "cache_creation_input_token_cost")


@dataclass(frozen=True, slots=True)
class Prices:
    """The standard prices of one model; `row` is its row of the table."""

    row: Mapping[str, Any]

    @property
    def max_output_tokens(self) -> int | None:
        """The model's maximum reply length in tokens; None if the table has no value."""
        found = self.row.get("max_output_tokens") or self.row.get("max_tokens")
        return int(found) if isinstance(found, int | float) else None

    def cost(self, tokens_in: int, tokens_out: int, cached: int = 0, written: int = 0) -> float:
        """Return dollars. `cached` (cache reads) and `written` (cache writes) are included in `tokens_in`."""
        fresh = self._price("input_cost_per_token", tokens_in, 0.0)
        return (
            max(0, tokens_in - cached - written) * fresh
            + cached * self._price("cache_read_input_token_cost", tokens_in, fresh)
            + written * self._price("cache_creation_input_token_cost", tokens_in, fresh)
            + tokens_out * self._price("output_cost_per_token", tokens_in, 0.0)
        )

    def max_cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return an upper bound in dollars: each token at the highest price that can apply to it."""
        reading = max(self._price(key, tokens_in, 0.0) for key in _INPUT_KEYS)
        writing = max(self._price(key, tokens_in, 0.0) for key in _OUTPUT_KEYS)
        return tokens_in * reading + tokens_out * writing

    def _price(self, key: str, tokens_in: int, default: float) -> float:
        row = self.row
        found = (row.get(f"{key}_above_200k_tokens") if tokens_in > LONG_PROMPT_TOKENS else None) or row.get(key)
        return default if found is None else float(found)


def find_prices(
    table: Mapping[str, Any], provider: str, model: str, given: Mapping[str, Any] | None = None
) -> Prices | None:
    """Return the prices of a model: those given, else those of its row in the table; None without both.

    Args:
        table: litellm's table.
        provider: litellm's name of the provider.
        model: The provider's name of the model.
        given: The caller's options, of which `PRICE_OPTIONS` and `model_info` count; prices in dollars per token.
    """
    given = given or {}
    own = {**(given.get("model_info") or {}), **{key: given[key] for key in PRICE_OPTIONS if key in given}}
    listed = find_row(table, provider, model)
    if all(own.get(key) is not None for key in PRICE_OPTIONS):
        return Prices({**{key: listed[key] for key in _LENGTHS if key in listed}, **own})
    return Prices(listed) if "input_cost_per_token" in listed else None


def find_row(table: Mapping[str, Any], provider: str, model: str) -> Mapping[str, Any]:
    """Return a model's row in litellm's table, which lists it with or without the provider's prefix; {} if unlisted."""
    for key in (f"{provider}/{model}", model):
        row: Mapping[str, Any] = table.get(key) or {}
        if row and str(row.get("litellm_provider", "")).startswith(provider):
            return row
    return {}
