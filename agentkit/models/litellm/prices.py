"""What requests cost, from a row of litellm's bundled price table (dollars per token)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONG_PROMPT_TOKENS = 200_000
"""Input tokens above which some models have higher prices."""
_OUTPUT_KEYS = ("output_cost_per_token", "output_cost_per_reasoning_token")
_INPUT_KEYS = ("input_cost_per_token", "cache_creation_input_token_cost")


@dataclass(frozen=True, slots=True)
class Prices:
    """The standard prices of one model."""

    row: Mapping[str, Any]

    @property
    def max_output_tokens(self) -> int | None:
        """The longest reply that the model writes."""
        found = self.row.get("max_output_tokens") or self.row.get("max_tokens")
        return int(found) if isinstance(found, int | float) else None

    def cost(self, tokens_in: int, tokens_out: int, cached: int = 0, written: int = 0) -> float:
        """Dollars; `cached` (read) and `written` are the cache's part of `tokens_in`."""
        fresh = self._price("input_cost_per_token", tokens_in, 0.0)
        return (
            max(0, tokens_in - cached - written) * fresh
            + cached * self._price("cache_read_input_token_cost", tokens_in, fresh)
            + written * self._price("cache_creation_input_token_cost", tokens_in, fresh)
            + tokens_out * self._price("output_cost_per_token", tokens_in, 0.0)
        )

    def max_cost(self, tokens_in: int, tokens_out: int) -> float:
        """Dollars at the most for as many tokens at the most: each at the dearest price that it can have."""
        reading = max(self._price(key, tokens_in, 0.0) for key in _INPUT_KEYS)
        writing = max(self._price(key, tokens_in, 0.0) for key in _OUTPUT_KEYS)
        return tokens_in * reading + tokens_out * writing

    def _price(self, key: str, tokens_in: int, default: float) -> float:
        row = self.row
        found = (row.get(f"{key}_above_200k_tokens") if tokens_in > LONG_PROMPT_TOKENS else None) or row.get(key)
        return default if found is None else float(found)


def find_prices(table: Mapping[str, Any], provider: str, model: str) -> Prices | None:
    """The prices of a model, which the table keeps by either name; None where it has none."""
    for key in (f"{provider}/{model}", model):
        row: dict[str, Any] = table.get(key, {})
        if "input_cost_per_token" in row and str(row.get("litellm_provider", "")).startswith(provider):
            return Prices(row)
    return None
