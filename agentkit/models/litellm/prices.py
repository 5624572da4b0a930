"""What requests cost: litellm's calculator for a reply, and an upper bound for a request that is not sent yet.

litellm's table has dollars per token by the kind of token, the length of the prompt and the service tier, and prices of
searches.  Its calculator reads them from the usage of a reply.  A bound takes the highest column that can apply.
Prices of the caller are a row of the table under a name of their own, so that the same calculator reads them.
"""

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from operator import mul
from typing import Any

from ...core.portable import Json
from ...core.values import frozen
from .importing import find_internal

PRICE_OPTIONS = ("input_cost_per_token", "output_cost_per_token")
"""Options of a model that give its price, in dollars per token."""
_LENGTHS = ("max_output_tokens", "max_tokens")
_INPUT_COLUMNS = (
    "input_cost_per_token",
    "input_cost_per_image_token",
    "cache_creation_input_token_cost",
    "cache_read_input_token_cost",
)
_INPUT_AUDIO_COLUMNS = ("input_cost_per_audio_token", "cache_read_input_audio_token_cost")
_OUTPUT_COLUMNS = ("output_cost_per_token", "output_cost_per_reasoning_token", "output_cost_per_image_token")
_OUTPUT_AUDIO_COLUMNS = ("output_cost_per_audio_token",)
_OTHER_PRODUCTS = ("_batches", "_decisions")
"""Columns of other endpoints of a provider."""
_LENGTH_MARK = re.compile(r"_above_(\d+)(k?)_tokens")
_HOUR_MARK = "_above_1hr"
_TIERS = {"fast": "priority"}
"""The column of a service tier, where it has another name."""
_TIER_COLUMNS = ("_priority", "_ultrafast", "_flex", "_balanced")
_TIERED_PROVIDERS = ("openai", "azure", "azure_ai")
"""Providers whose project settings decide about the tier where a request names none (OpenAI, "Priority processing")."""
_STANDARD_TIERS = ("default", "standard", "standard_only")


@frozen
class Prices:
    """The prices of one model.

    Attributes:
        calculate: litellm's calculator of the cost of a reply; it raises an exception where the price is unknown.
        row: The model's row in litellm's table; {} without one, then the name of the model that replied decides.
        make_usage: litellm's class of a usage.
        tiers: The service tiers that can apply, by the ends of their columns.
        is_cached_long: Whether prefixes may be cached for an hour.
        choices: The replies that one request asks for.
        speaks: Whether a reply may have audio.
        searches: Whether the provider may search, for a price and with texts that are not in the request.
        scale: The factor of a region or a speed.
    """

    calculate: Callable[[Any], float]
    row: Mapping[str, Any] = field(default_factory=dict)
    make_usage: Callable[..., Any] = dict
    tiers: frozenset[str] = frozenset()
    is_cached_long: bool = False
    choices: int = 1
    speaks: bool = False
    searches: bool = False
    scale: float = 1.0
    _unpriced: set[str] = field(default_factory=set)
    _priced: set[str] = field(default_factory=set)
    _columns: dict[tuple[str, ...], list[tuple[int, float]]] = field(default_factory=dict)
    _lengths: list[int] = field(default_factory=list)
    _rates: dict[Any, tuple[float, ...] | None] = field(default_factory=dict)

    @property
    def max_output_tokens(self) -> int | None:
        """The model's maximum reply length in tokens; None if the table has no value."""
        found = self.row.get("max_output_tokens") or self.row.get("max_tokens")
        return int(found) if isinstance(found, int | float) else None

    @property
    def max_input_tokens(self) -> int | None:
        """The model's context window in tokens; None if the table has no value."""
        found = self.row.get("max_input_tokens")
        return int(found) if isinstance(found, int | float) else None

    def cost(self, response: Any) -> float | None:
        """Return the dollars of a reply, litellm's object or a dict with its keys; None if unknown."""
        model = response.get("model") or ""
        if model in self._unpriced:
            return None
        try:
            if not self.row and not self._is_priced(model):
                return None
            counts = _count_plainly(response) if self._is_linear else None
            return self.calculate(response) if counts is None else self._cost_of(response, counts)
        except Exception:  # litellm raises various types for a model that its table does not have
            if not self.row:
                self._unpriced.add(model)
            return None

    def _is_priced(self, model: str) -> bool:
        """Return whether the tokens of a model without a row cost anything; litellm has some names at no price."""
        usage = self.make_usage(prompt_tokens=1_000, completion_tokens=1_000, total_tokens=2_000)
        if model not in self._priced and not self.calculate({"model": model, "usage": usage}):
            self._unpriced.add(model)
            return False
        self._priced.add(model)
        return True

    @property
    def _is_linear(self) -> bool:
        """Whether the price depends on nothing but the kinds of tokens, the length of the prompt and the tier."""
        return bool(self.row) and "off_peak_pricing" not in self.row and not self.searches

    def _cost_of(self, response: Any, counts: tuple[int, ...]) -> float:
        """Return the cost of a reply by the rates of its model, which the calculator gives once.

        They are kept for each length of the prompt from which other columns apply, and used if they give what the
        calculator gave for the first such reply.
        """
        tokens_in = sum(counts[:3])
        tier = response.get("service_tier") or getattr(response.get("usage"), "service_tier", None)
        if not self._lengths:
            prices = self._list_prices(("input_", "output_", "cache_"), only_possible=False)
            self._lengths.extend(sorted({least for least, _ in prices}))
        # some columns apply at their length, others above it
        crossed = bisect_left(self._lengths, tokens_in), bisect_right(self._lengths, tokens_in)
        key = (response.get("model"), tier, crossed)
        if key not in self._rates:
            cost = self.calculate(response)
            rates = self._find_rates(response.get("model"), tier, tokens_in)
            is_exact = abs(sum(map(mul, counts, rates)) - cost) <= _ROUNDING * cost
            self._rates[key] = rates if is_exact and tokens_in else None
            return cost
        known = self._rates[key]
        return self.calculate(response) if known is None else sum(map(mul, counts, known))

    def _find_rates(self, model: Any, tier: Any, tokens_in: int) -> tuple[float, ...]:
        """Return the dollars of a token that is fresh, read from a cache, written into one, replied, and thought."""

        def cost(*counts: int) -> float:
            fresh, cached, written, replied, thought = counts
            usage = {
                "prompt_tokens": fresh + cached + written,
                "completion_tokens": replied + thought,
                "total_tokens": sum(counts),
                "prompt_tokens_details": {"cached_tokens": cached, "cache_creation_tokens": written},
                "cache_creation_input_tokens": written,
                "cache_read_input_tokens": cached,
                "completion_tokens_details": {"reasoning_tokens": thought},
            }
            usage = {name: value for name, value in usage.items() if value}
            return self.calculate({"model": model, "usage": self.make_usage(**usage), "service_tier": tier})

        most = max(tokens_in, 1)
        plain = cost(most, 0, 0, 0, 0)
        reading = (plain / most, cost(0, most, 0, 0, 0) / most, cost(0, 0, most, 0, 0) / most)
        return (*reading, (cost(most, 0, 0, most, 0) - plain) / most, (cost(most, 0, 0, 0, most) - plain) / most)

    def max_cost(self, tokens_in: int, tokens_out: int, *, has_audio: bool = False) -> float | None:
        """Return an upper bound in dollars: each token at the highest price that can apply to it; None if unknown."""
        if not _has_price(self.row) or self.searches:
            return None
        reading = self._highest(_INPUT_COLUMNS + (_INPUT_AUDIO_COLUMNS if has_audio else ()), tokens_in)
        writing = self._highest(_OUTPUT_COLUMNS + (_OUTPUT_AUDIO_COLUMNS if self.speaks else ()), tokens_in)
        tokens = tokens_in * reading + tokens_out * self.choices * writing
        return self.scale * tokens + (self.row.get("input_cost_per_request") or 0.0)

    def _highest(self, columns: tuple[str, ...], tokens_in: int) -> float:
        if columns not in self._columns:
            self._columns[columns] = [*self._list_prices(columns)]
        return max((price for least, price in self._columns[columns] if least <= tokens_in), default=0.0)

    def _list_prices(self, columns: tuple[str, ...], *, only_possible: bool = True) -> Iterator[tuple[int, float]]:
        """Yield each price in the columns that can apply, after the length of a prompt from which it applies."""
        rows = [(0, self.row)]
        rows += [(int(tier.get("range", (0,))[0]), tier) for tier in self.row.get("tiered_pricing") or ()]
        for least, row in rows:
            for column, price in row.items():
                if column.startswith(columns) and _is_price(price) and (not only_possible or self._can_apply(column)):
                    mark = _LENGTH_MARK.search(column)
                    yield (int(mark[1]) * (1_000 if mark[2] else 1) if mark else least), float(price)

    def _can_apply(self, column: str) -> bool:
        if any(mark in column for mark in _OTHER_PRODUCTS) or (_HOUR_MARK in column and not self.is_cached_long):
            return False
        return next((tier in self.tiers for tier in _TIER_COLUMNS if tier in column), True)


def find_prices(
    litellm: Any,
    provider: str,
    model: str,
    given: Mapping[str, Any] | None = None,
    *,
    is_own: bool = False,
    is_cached_long: bool = False,
) -> Prices:
    """Return the prices of a model: those given, else those of its row in the table.

    Args:
        litellm: The module.
        provider: litellm's name of the provider.
        model: The provider's name of the model.
        given: The caller's options, of which `PRICE_OPTIONS` and `model_info` count; prices in dollars per token.
        is_own: Whether the server is at an address of the caller: what it calls its model says nothing about a price.
        is_cached_long: Whether requests have marks that cache a prefix for an hour.
    """
    options = {**(given or {}), **((given or {}).get("extra_body") or {})}
    key, row = _choose_row(litellm, provider, model, options)
    if (row and not _has_price(row)) or (is_own and not row):
        return Prices(_refuse, row)
    is_fixed = is_own or key not in (model, f"{provider}/{model}")
    points = options.get("cache_control_injection_points") or ()
    return Prices(
        _make_calculator(litellm, provider, model, options, key, is_fixed=is_fixed),
        row,
        litellm.Usage,
        tiers=_find_tiers(provider, options.get("service_tier")),
        is_cached_long=is_cached_long or any((one.get("control") or {}).get("ttl") == "1h" for one in points),
        choices=options["n"] if isinstance(options.get("n"), int) else 1,
        speaks="audio" in options or "audio" in (options.get("modalities") or ()),
        searches=options.get("web_search_options") is not None,
        scale=_find_scale(litellm, provider, row, options),
    )


def _choose_row(litellm: Any, provider: str, model: str, options: Json) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the row of the prices of a model: the caller's, those of `base_model`, or its own."""
    key, row = find_row(litellm.model_cost, provider, model)
    given = {**(options.get("model_info") or {}), **{key: options[key] for key in PRICE_OPTIONS if key in options}}
    if all(given.get(key) is not None for key in PRICE_OPTIONS):
        row = {**{key: row[key] for key in _LENGTHS if key in row}, **given}
        return _register(litellm, provider, row), row
    if base := options.get("base_model"):
        return base, litellm.model_cost.get(base) or find_row(litellm.model_cost, provider, base)[1]
    return key, row


def _make_calculator(
    litellm: Any, provider: str, model: str, options: Json, key: str, *, is_fixed: bool
) -> Callable[[Any], float]:
    """Return litellm's calculator for the replies to one model.

    The price is that of the row `key`, if `is_fixed` or if the reply names no other model than the request.
    """
    searching = options.get("web_search_options")
    arguments = {
        "model": model,
        "custom_llm_provider": provider,
        "optional_params": {"service_tier": options.get("service_tier")},
        "standard_built_in_tools_params": {"web_search_options": searching} if searching is not None else None,
        "vertex_location": options.get("vertex_location"),
        "data_residency": _find_residency(litellm, provider, options),
    }
    same = {"", model, key}

    def calculate(response: Any) -> float:
        base = key if key and (is_fixed or (response.get("model") or "") in same) else None
        if isinstance(response, dict) and "choices" in response:  # searches are counted in litellm's object alone
            response = litellm.ModelResponse(**response)
        cost: float = litellm.completion_cost(completion_response=response, base_model=base, **arguments)
        return cost

    return calculate


_PLAIN_KEYS = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
        "service_tier",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    }
)
_STANDARD_VALUES = {"inference_geo": ("not_available", "global"), "speed": ("standard",)}
"""Anthropic's fields that do not change the price with these values."""
_PLAIN_DETAILS = frozenset({"cached_tokens", "text_tokens", "cache_creation_tokens", "cache_write_tokens"})
_PLAIN_OUTPUT = frozenset({"reasoning_tokens", "text_tokens"})
_ROUNDING = 1e-9


def _count_plainly(response: Any) -> tuple[int, ...] | None:
    """Return the tokens of a reply by their kinds, see `_find_rates`; None if it has anything else with a price."""
    usage = response.get("usage")
    read = _list_values(usage)
    for name, values in _STANDARD_VALUES.items():
        if read.get(name) in values:
            del read[name]
    if read.keys() - _PLAIN_KEYS or (isinstance(response, dict) and "choices" in response):
        return None
    given = _list_values(read.get("prompt_tokens_details"))
    made = _list_values(read.get("completion_tokens_details"))
    if _list_values(given.pop("cache_creation_token_details", None)).keys() - {"ephemeral_5m_input_tokens"}:
        return None
    if given.keys() - _PLAIN_DETAILS or made.keys() - _PLAIN_OUTPUT or _cites(response):
        return None
    cached = given.get("cached_tokens") or 0
    written = read.get("cache_creation_input_tokens") or 0
    if written != (given.get("cache_creation_tokens") or given.get("cache_write_tokens") or 0):
        return None
    thought = made.get("reasoning_tokens") or 0
    fresh = (read.get("prompt_tokens") or 0) - cached - written
    replied = (read.get("completion_tokens") or 0) - thought
    return None if fresh < 0 or replied < 0 else (fresh, cached, written, replied, thought)


def _list_values(part: Any) -> dict[str, Any]:
    """Return what is set and not zero in a dict or in an object of pydantic."""
    if part is None:
        return {}
    values = part if isinstance(part, dict) else {**vars(part), **(getattr(part, "__pydantic_extra__", None) or {})}
    return {name: value for name, value in values.items() if value}


def _cites(response: Any) -> bool:
    """Return whether a whole reply cites something, which only a search finds."""
    choices = () if isinstance(response, dict) else response.choices
    return any(getattr(getattr(choice, "message", None), "annotations", None) for choice in choices)


def find_row(table: Mapping[str, Any], provider: str, model: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the row of a model in litellm's table, "" and {} if it is not listed.

    The names of some providers have the provider's prefix.
    """
    for key in (f"{provider}/{model}", model):
        row: Mapping[str, Any] = table.get(key) or {}
        if row and str(row.get("litellm_provider", "")).startswith(provider):
            return key, row
    return "", {}


def _refuse(_: Any) -> float:
    raise LookupError("the price is unknown")


def _register(litellm: Any, provider: str, row: Mapping[str, Any]) -> str:
    """Add the caller's prices to litellm's table, under a name that is made of them; return the name."""
    content = json.dumps([provider, row], sort_keys=True, default=str)
    name = f"agentkit/{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if name not in litellm.model_cost:
        litellm.register_model({name: {"mode": "chat", **row, "litellm_provider": provider}})
    return name


def _find_residency(litellm: Any, provider: str, options: Json) -> str | None:
    infer = find_internal(litellm, "llms.openai.data_residency.infer_openai_data_residency")
    found: str | None = infer(provider, options.get("api_base") or options.get("base_url")) if infer else None
    return found


def _find_tiers(provider: str, requested: Any) -> frozenset[str]:
    """Return the ends of the columns of the tiers that can apply to a request; flexible ones are the cheaper ones."""
    if requested in (None, "auto"):
        return frozenset({"_priority"}) if provider in _TIERED_PROVIDERS else frozenset()
    return frozenset() if requested in _STANDARD_TIERS else frozenset({f"_{_TIERS.get(requested, requested)}"})


def _find_scale(litellm: Any, provider: str, row: Mapping[str, Any], options: Json) -> float:
    """Return the highest factor of a region and a speed; OpenAI's region is in the address, others are settings."""
    special = row.get("provider_specific_entry") or {}
    factors = [value for key, value in special.items() if key != "fast" and _is_price(value)]
    if provider != "openai" or _find_residency(litellm, provider, options):
        factors += [value for key, value in row.items() if key.startswith("regional_") and _is_price(value)]
    speed = special.get("fast", 1.0) if options.get("speed") == "fast" else 1.0
    return float(max(factors, default=1.0) * speed)


def _has_price(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a price, zero included."""
    return any(row.get(key) is not None for key in (*PRICE_OPTIONS, "tiered_pricing"))


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
