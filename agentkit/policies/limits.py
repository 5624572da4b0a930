"""Caps on steps, tokens, seconds, dollars and tool calls: at one of them `LimitExceeded` is raised, so the run lands.

The outermost policy, next to the model, so that it sees each request that is really made, retries and fallbacks too.
Dollars and seconds are hard: the last request is paid from them.  At the others it comes on top.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

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

BUDGETS: ContextVar[tuple[Budget, ...]] = ContextVar("budgets", default=())
"""The budgets of the runs that this code runs inside of, the nearest first."""
_UNITS = {"max_steps": "steps", "tool_calls": "tool calls"}
Timed = TypeVar("Timed", Request, WaitForTicket, BoundCall)


def limit(
    limits: Limits | None = None,
    max_steps: int = 50,
    before: list[Budget] | None = None,
    spent: Spent | None = None,
) -> Policy:
    """Let a run take what `limits` say; `max_steps` counts where they name no steps.

    Requests are given the time that is left as their timeout, and fewer `max_tokens` where the dollars that are left do
    not pay for more.  A model that knows its prices has a method `worst_case(request)`.  `before` are the budgets of
    the agents that had the run before this one: what is left in them is all there is.  This one comes first.
    `spent` is what a run that goes on had taken before.
    """
    limits = limits or Limits()
    own = replace(limits, steps=limits.steps or max_steps)

    def policy(flow: Flow[Any]) -> Flow[Any]:
        earlier = [] if before is None else before
        taken = spent if spent is not None and not earlier else Spent()
        budget = Budget(own, (*earlier, *BUDGETS.get()), taken)
        earlier.insert(0, budget)
        return interpret(flow, LimitPolicy(budget).handle)

    return policy


class LimitPolicy:
    """One run under its limits."""

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
            return (yield from self._in_time(cap_timeout(effect, self._seconds_left())))
        if isinstance(effect, CallTools):
            effect = replace(effect, calls=tuple(map(self._allowed, effect.calls)))
        elif isinstance(effect, Sleep):
            effect = Sleep(max(0.0, min(effect.seconds, self._seconds_left())))
        elif isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
            self.is_last = True
        return (yield from ask(effect))

    def _ask(self, effect: AskModel) -> Flow[Reply]:
        self._check()
        request = cap_timeout(effect.request, self._seconds_left())
        request, held = yield from self._afforded(effect.model, request)
        usage = Usage()
        try:
            reply: Reply = yield from self._in_time(replace(effect, request=request))
            usage = reply.usage
        finally:
            self.budget.settle(held, usage)
        self.steps += 1
        return reply

    def _in_time(self, effect: Effect[Any]) -> Flow[Any]:
        """What comes of the effect; its failure when the time is up is the limit's affair."""
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
        if tokens := self.budget.spent_tokens():
            raise self._exceeded("tokens", tokens)
        if self.refused:
            raise self._exceeded("tool_calls", self.refused)

    def _exceeded(self, reason: StopReason, most: int | None = None) -> LimitExceeded:
        unit = _UNITS.get(reason, reason)
        taken = f"the last of its {unit}" if most is None else f"{most:,} {unit.removesuffix('s' if most == 1 else '')}"
        return LimitExceeded(f"no final answer after {taken}, nor in one last request for it", reason=reason)

    def _seconds_left(self) -> float:
        return self.budget.seconds_left(is_last=self.is_last)

    def _allowed(self, bound: BoundCall) -> BoundCall:
        """The call, within this budget and the time that is left; beyond the limit, one that tells so."""
        if bound.problem is None and not bound.is_answer and (most := self.budget.take_call()):
            self.refused = most
            text = f"Not run: the run's limit of {most} tool calls is reached."
            return bound.refuse(text)
        return cap_timeout(bound.with_variable(BUDGETS, self.budget.all), self._seconds_left())

    def _afforded(self, model: Model, request: Request) -> Flow[tuple[Request, float]]:
        """The request as there is money for it, and the dollars that are set aside for it."""
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


def cap_timeout(asked: Timed, seconds: float) -> Timed:
    """The same with at most so many seconds as its timeout; its own stays if that is less."""
    if seconds == math.inf:
        return asked
    return replace(asked, timeout=max(0.0, seconds if asked.timeout is None else min(seconds, asked.timeout)))
