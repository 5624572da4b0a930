"""What a run may spend, and what it has spent; a run inside a tool of another one draws from both budgets."""

import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Literal

from ..core.errors import DefinitionError, RunError
from ..core.flow import WarningEvent
from ..core.messages import Usage
from ..engine.model import Model, Request

FINAL_REQUEST_SHARE = 0.2
"""The part of `Limits.seconds` that is kept for the last request."""

FINAL_REQUEST_GROWTH = 1.5
"""How much more than this request the last one may cost: it finds a longer conversation."""
_LIMIT_TYPES = {"steps": int, "tokens": int, "seconds": int | float, "dollars": int | float, "tool_calls": int}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may take before it is asked for its answer; None is no limit.

    Args:
        steps: Model requests; without it, the agent's `max_steps`.
        tokens: Tokens, in and out.
        seconds: Time, the last request included: a fifth is kept for it.
        dollars: Money, the last request included.  The most that a request can cost is set aside before it is made.
        tool_calls: Calls of tools that are run.
        unknown_price: What to do with `dollars` about a model whose price is not known: "refuse" to ask it, or "allow"
            it and count only what its replies say that they cost.

    Tokens, dollars and tool calls of agents that run inside of tools count as well.
    """

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    dollars: float | None = None
    tool_calls: int | None = None
    unknown_price: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        for name, wanted in _LIMIT_TYPES.items():
            value = getattr(self, name)
            is_number = isinstance(value, wanted) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value < math.inf):
                kind = "a whole number" if wanted is int else "a number"
                raise DefinitionError(f"Limits({name}={value!r}): give {kind} above 0, or None for no limit")
        if self.unknown_price not in ("refuse", "allow"):
            raise DefinitionError(f'Limits(unknown_price={self.unknown_price!r}): give "refuse" or "allow"')


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run that goes on had taken before."""

    steps: int = 0
    calls: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)


@dataclass(eq=False)
class Budget:
    """What one run has spent, `before` included; `outer` are the budgets of the runs around it, the nearest first.

    Runs may be side by side in several threads, so what is read and then changed is done under one lock.
    """

    limits: Limits
    outer: tuple["Budget", ...] = ()
    before: Spent = field(default_factory=Spent)
    tokens: int = field(init=False)
    calls: int = field(init=False)
    dollars: float = field(init=False)
    held: float = 0.0
    """Dollars set aside for requests that are under way, ..."""
    kept: float = 0.0
    """... and for the last request, which nobody else may spend."""
    deadlines: tuple[float, float] = field(init=False)
    """When the work must end, and when the run must (of `time.monotonic`)."""

    def __post_init__(self) -> None:
        taken = self.before.usage
        self.tokens, self.calls = taken.input_tokens + taken.output_tokens, self.before.calls
        self.dollars = taken.cost or 0.0
        now = time.monotonic()
        left = math.inf if self.limits.seconds is None else self.limits.seconds - self.before.seconds
        end = min([now + left, *(budget.deadlines[0] for budget in self.outer)])
        self.deadlines = (math.inf, math.inf) if end == math.inf else (end - FINAL_REQUEST_SHARE * (end - now), end)

    @property
    def all(self) -> tuple["Budget", ...]:
        """This budget and those around it."""
        return (self, *self.outer)

    def seconds_left(self, *, is_last: bool) -> float:
        """Until the work must end, or, for the last request, the run."""
        return self.deadlines[is_last] - time.monotonic()

    def spent_tokens(self) -> int | None:
        """The limit on tokens that is reached, if one is."""
        return next((most for budget in self.all if (most := budget.limits.tokens) and budget.tokens >= most), None)

    def take_call(self) -> int | None:
        """Count one tool call; without counting it, the limit that it would go beyond, if there is one."""
        with _lock:
            for budget in self.all:
                if budget.limits.tool_calls is not None and budget.calls >= budget.limits.tool_calls:
                    return budget.limits.tool_calls
            for budget in self.all:
                budget.calls += 1
        return None

    def hold(self, least: float, wanted: float, *, is_last: bool) -> float | None:
        """Set dollars aside: `wanted`, or what is there of it; None if that is less than `least`."""
        with _lock:
            if not is_last:
                self.kept = FINAL_REQUEST_GROWTH * least
            room = min(wanted, *(budget._room(kept=budget is not self or not is_last) for budget in self.all))
            if room < least:
                return None
            for budget in self.all:
                budget.held += room
        return room

    def _room(self, *, kept: bool) -> float:
        if self.limits.dollars is None:
            return math.inf
        return self.limits.dollars - self.dollars - self.held - (self.kept if kept else 0.0)

    def settle(self, held: float, usage: Usage) -> None:
        """Count what a request took; without a known cost, all that was set aside for it."""
        cost = held if usage.cost is None else usage.cost
        with _lock:
            for budget in self.all:
                budget.held -= held
                budget.dollars += cost
                budget.tokens += usage.input_tokens + usage.output_tokens


_lock = threading.Lock()


MIN_REPLY_TOKENS = 256
"""Tokens of a reply.  Where dollars do not pay for that many, a request is not worth making, ..."""
MIN_FINAL_REPLY_TOKENS = 64
"""... but for the last one, where an answer in a few words is better than none."""


@dataclass(frozen=True, slots=True)
class PriceUnknown(WarningEvent):
    """The limit in dollars cannot be kept to for this model, since nobody knows its price."""

    model: str

    @property
    def notice(self) -> str:
        return f"nobody knows the price of {self.model}: its dollars are not counted"


def make_price_error(model: Model) -> RunError:
    """The error for a model that a limit in dollars cannot be kept to for."""
    return RunError(
        f"the price of {model.name} is not known, so no limit in dollars can be kept. Limit the tokens, "
        'Limits(tokens=...), or go on and count only what is known, Limits(dollars=..., unknown_price="allow").'
    )


def estimate_price(model: Model, request: Request, max_tokens: int | None = None) -> float | None:
    """The dollars that the request can cost at most, with a reply of at most `max_tokens`; None if nobody knows."""
    worst_case = getattr(model, "worst_case", None)
    if worst_case is None:
        return None
    cost: float | None = worst_case(request if max_tokens is None else _cap_tokens(request, max_tokens))
    return cost


def fit_reply(model: Model, request: Request, dollars: float, least: int) -> Request:
    """The request with as many `max_tokens` as `dollars` pay for; they are known to pay for `least`."""

    def cost(tokens: int) -> float:
        return estimate_price(model, request, tokens) or 0.0

    low = cost(least)
    step = cost(2 * least) - low
    most = least + int(least * (dollars - low) / step) if step > 0 else least
    while most > least and cost(most) > dollars:
        most = max(least, most * 3 // 4)  # a model's own limit can make the first step look cheap
    return _cap_tokens(request, most)


def _cap_tokens(request: Request, max_tokens: int) -> Request:
    return replace(request, max_tokens=min(max_tokens, request.max_tokens or max_tokens))
