"""What a request can cost at most, and how much a model may say for some dollars."""

from dataclasses import dataclass, replace

from ..core.errors import RunError
from ..core.flow import Trouble
from ..engine.model import Model, Request

LEAST = 256
"""Tokens of a reply.  Where dollars do not pay for that many, a request is not worth making, ..."""
LEAST_OF_LAST = 64
"""... but for the last one, where an answer in a few words is better than none."""


@dataclass(frozen=True, slots=True)
class PriceUnknown(Trouble):
    """The limit in dollars cannot be kept to for this model, since nobody knows its price."""

    model: str

    @property
    def notice(self) -> str:
        return f"nobody knows the price of {self.model}: its dollars are not counted"


def unpriced(model: Model) -> RunError:
    """The error for a model that a limit in dollars cannot be kept to for."""
    return RunError(
        f"the price of {model.name} is not known, so no limit in dollars can be kept. Limit the tokens, "
        'Limits(tokens=...), or go on and count only what is known, Limits(dollars=..., unknown_price="allow").'
    )


def price(model: Model, request: Request, max_tokens: int | None = None) -> float | None:
    """The dollars that the request can cost at most, with a reply of at most `max_tokens`; None if nobody knows."""
    worst_case = getattr(model, "worst_case", None)
    if worst_case is None:
        return None
    cost: float | None = worst_case(request if max_tokens is None else _within(request, max_tokens))
    return cost


def shortened(model: Model, request: Request, dollars: float, least: int) -> Request:
    """The request with as many `max_tokens` as `dollars` pay for; they are known to pay for `least`."""

    def cost(tokens: int) -> float:
        return price(model, request, tokens) or 0.0

    low = cost(least)
    step = cost(2 * least) - low
    most = least + int(least * (dollars - low) / step) if step > 0 else least
    while most > least and cost(most) > dollars:
        most = max(least, most * 3 // 4)  # a model's own limit can make the first step look cheap
    return _within(request, most)


def _within(request: Request, max_tokens: int) -> Request:
    return replace(request, max_tokens=min(max_tokens, request.max_tokens or max_tokens))
