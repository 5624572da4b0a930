"""Limits on steps, tokens, seconds, dollars and tool calls; a run that reaches one makes its final request.

The policy is the outermost one, next to the model, so it sees each request that is sent, also retries and fallbacks.
Dollars and seconds are hard limits: the final request is paid from them.  At the other limits it comes on top.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..core.enclosing import enclosing
from ..core.errors import LimitExceeded, ModelError, StopReason
from ..core.flow import Effect, Emit, Flow, Policy, Sleep, ask, interpret
from ..core.messages import Usage
from ..engine.model import AskModel, Model, Reply, Request
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from .budget import (
    MIN_FINAL_REPLY_TOKENS,
    MIN_REPLY_TOKENS,
    Budget,
    Limits,
    PriceUnknown,
    Spent,
    estimate_price,
    fit_reply,
    make_price_error,
)
from .final_request import FinalRequest
from .rate_limit import WaitForTicket

_UNITS = {"max_steps": "steps", "tool_calls": "tool calls"}
Timed = TypeVar("Timed", Request, WaitForTicket, BoundCall)


def limit(
    limits: Limits | None = None,
    max_steps: int = 50,
    before: list[Budget] | None = None,
    spent: Spent | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Policy:
    """Limit what a run may use; at a limit, `LimitExceeded` is raised in place of a request.

    A request gets the remaining time as its timeout.  It gets fewer `max_tokens` where the remaining dollars do not pay
    for more; for that, a model that knows its prices has a method `worst_case(request)`.

    Args:
        limits: The limits; by default, `max_steps` alone.
        max_steps: Model requests, where `limits` names no steps.
        before: The budgets of the agents that had the run before a hand-off.  This run draws from them too, and its own
            budget is inserted at the front.
        spent: What a resumed run had used before.
        clock: Returns the time in seconds.
    """
    limits = limits or Limits()
    own = replace(limits, steps=limits.steps or max_steps)

    def policy(flow: Flow[Any]) -> Flow[Any]:
        earlier = [] if before is None else before
        taken = spent if spent is not None and not earlier else Spent()
        outer = enclosing(Budget)
        budget = Budget(own, (*earlier, *(outer.all if outer else ())), taken, clock=clock)
        earlier.insert(0, budget)
        return interpret(flow, LimitPolicy(budget).handle)

    return policy


class LimitPolicy:
    """The limits of one run."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = budget.before.steps
        self.is_last = False
        self.refused: int | None = None
        self.unpriced: set[str] = set()

    def handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            return (yield from self._ask(effect))
        if isinstance(effect, WaitForTicket):
            return (yield from self._ask_in_time(cap_timeout(effect, self._seconds_left())))
        if isinstance(effect, CallTools):
            effect = effect.with_calls(map(self._limit_call, effect.calls))
        elif isinstance(effect, Sleep):
            effect = Sleep(max(0.0, min(effect.seconds, self._seconds_left())))
        elif isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
            self.is_last = True
        return (yield from ask(effect))

    def _ask(self, effect: AskModel) -> Flow[Reply]:
        self._check()
        request = cap_timeout(effect.request, self._seconds_left())
        request, held = yield from self._hold_dollars(effect.model, request)
        usage = Usage()
        try:
            reply: Reply = yield from self._ask_in_time(AskModel(effect.model, request))
            usage = reply.usage
        finally:
            self.budget.settle(held, usage)
        self.steps += 1
        return reply

    def _ask_in_time(self, effect: Effect[Any]) -> Flow[Any]:
        """Pass the effect on; a failure after the deadline is raised as the limit on seconds."""
        try:
            return (yield from ask(effect))
        except ModelError as error:
            if self._seconds_left() > 0:
                raise
            raise self._exceeded("seconds") from error

    def _check(self) -> None:
        if self._seconds_left() <= 0:
            raise self._exceeded("seconds")
        if self.is_last:
            return
        if self.steps >= (self.budget.limits.steps or 0):
            raise self._exceeded("max_steps", self.steps)
        if tokens := self.budget.find_token_limit():
            raise self._exceeded("tokens", tokens)
        if self.budget.has_spent_dollars:
            raise self._exceeded("dollars")
        if self.refused:
            raise self._exceeded("tool_calls", self.refused)

    def _exceeded(self, reason: StopReason, most: int | None = None) -> LimitExceeded:
        unit = _UNITS.get(reason, reason)
        taken = f"the last of its {unit}" if most is None else f"{most:,} {unit.removesuffix('s' if most == 1 else '')}"
        return LimitExceeded(f"no final answer after {taken}, nor in one last request for it", reason=reason)

    def _seconds_left(self) -> float:
        return self.budget.seconds_left(is_last=self.is_last)

    def _limit_call(self, bound: BoundCall) -> BoundCall:
        """Return the call with this budget and the remaining time; beyond the limit, a call that fails and says why."""
        if bound.problem is None and not bound.is_answer and (most := self.budget.take_call()):
            self.refused = most
            return bound.refuse(f"Not run: the run's limit of {most} tool calls is reached.")
        return cap_timeout(bound.within(lambda: self.budget), self._seconds_left())

    def _hold_dollars(self, model: Model, request: Request) -> Flow[tuple[Request, float]]:
        """Return the request, shortened to what the dollars pay for, and the dollars that are set aside for it."""
        limiting = [budget.limits for budget in self.budget.all if budget.limits.dollars is not None]
        if not limiting:
            return request, 0.0
        tokens = MIN_FINAL_REPLY_TOKENS if self.is_last else MIN_REPLY_TOKENS
        least, wanted = estimate_price(model, request, tokens), estimate_price(model, request)
        if least is None or wanted is None:
            if any(limits.unknown_price == "refuse" for limits in limiting):
                raise make_price_error(model)
            if model.name not in self.unpriced:
                self.unpriced.add(model.name)
                yield from ask(Emit(PriceUnknown(model.name)))
            return request, 0.0
        held = self.budget.hold(least, wanted, is_last=self.is_last)
        if held is None:
            raise self._exceeded("dollars")
        return (request if held >= wanted else fit_reply(model, request, held, tokens)), held


def cap_timeout(timed: Timed, seconds: float) -> Timed:
    """Return a copy with at most `seconds` as its timeout; a shorter one stays."""
    if seconds == math.inf:
        return timed
    return replace(timed, timeout=max(0.0, seconds if timed.timeout is None else min(seconds, timed.timeout)))
