"""Limits on steps, tokens, seconds, dollars and tool calls; a run that reaches one makes its final request.

The policy is the outermost one, next to the model, so it sees each request that is sent, also retries and fallbacks.
Dollars and seconds are hard limits: the final request is paid from them.  At the other limits it comes on top.  A
budget is a run's limits and what it has used; a run inside a tool draws from the enclosing budgets too.

The time of one tool call and of one reply is limited by policies of their own, at the end of this file.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

from ..core.context import enclosing
from ..core.errors import DefinitionError, LimitExceeded, ModelError, RunError, StopReason, explain_keywords
from ..core.flow import Effect, Emit, Flow, Hooks, Policy, Sleep, WarningEvent, around, ask, interpret
from ..core.messages import Usage
from ..core.values import copy_with, frozen
from ..engine.model import AskModel, Model, Reply, Request
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from .final_request import FinalRequest
from .rate_limit import WaitForTicket

FINAL_REQUEST_SHARE = 0.2
"""The share of `Limits.seconds` that is reserved for the final request."""

FINAL_REQUEST_GROWTH = 1.5
"""The cost of the final request as a multiple of the current one's: the conversation is longer then."""
LIMIT_NAMES = ("steps", "tokens", "seconds", "dollars", "tool_calls")
"""The limits of a run as a whole: what it may use before its final request."""
_WHOLE_NUMBERS = {"steps", "tokens", "tool_calls", "result_chars", "context_tokens"}


class Unset(Enum):
    """The value of a limit that is not given."""

    UNSET = "unset"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return self.value


UNSET: Any = Unset.UNSET


_OTHER_NAMES = {
    **dict.fromkeys(("max_steps", "max_turns", "requests", "request_limit"), "Use steps=..."),
    **dict.fromkeys(("max_tokens", "total_tokens", "total_tokens_limit"), "Use tokens=..."),
    **dict.fromkeys(("timeout", "time", "max_seconds"), "Use seconds=..., of a run, or request_seconds=..."),
    **dict.fromkeys(("cost", "max_cost", "usd", "budget", "price"), "Use dollars=..."),
    **dict.fromkeys(("context_window", "max_context_tokens", "num_ctx"), "Use context_tokens=..."),
    "tool_timeout": "Use tool_seconds=...",
    "request_timeout": "Use request_seconds=...",
    "max_result": "Use result_chars=...",
    "tool_calls_limit": "Use tool_calls=...",
}
"""Names of limits elsewhere, and what they are called here."""


@explain_keywords(_OTHER_NAMES)
@frozen(slots=False, kw_only=True)
class Limits:
    """What a run, a call and a request may use; None is no limit.

    A limit that is not given is that of the agent; one that the agent does not have either has the default.  At a limit
    of the run, the final request follows.  Tokens, dollars and tool calls of agents that run inside of tools count too.

    Args:
        steps: Model requests of a run; default: 50.
        tokens: Input and output tokens of a run.
        seconds: Time of a run, the final request included: a fifth is reserved for it.
        dollars: Cost, the final request included.  The most that a request can cost is set aside before it is sent.
        tool_calls: Calls of tools that are run.
        tool_seconds: Time of a tool call whose tool sets no timeout; default: 60.
        request_seconds: Time of a reply, or of each piece of a streamed one; a model object: of the whole reply.
            Default: 120 for a model that is given by name.
        result_chars: Characters of a tool's result that the model gets at first, it can read the rest; default: 20,000.
        context_tokens: Tokens of a request, as if the model's window were no larger: at 70 % of them old texts leave
            the requests (see `ContextWindow`).
        unknown_price: With `dollars`, what to do about a model whose price is unknown: "refuse" to ask it (default), or
            "allow" it and count only the costs that its replies report.

    Raises:
        DefinitionError: A limit is not a positive number, or `unknown_price` is neither of the two.
    """

    steps: int | None = UNSET
    tokens: int | None = UNSET
    seconds: float | None = UNSET
    dollars: float | None = UNSET
    tool_calls: int | None = UNSET
    tool_seconds: float | None = UNSET
    request_seconds: float | None = UNSET
    result_chars: int | None = UNSET
    context_tokens: int | None = UNSET
    unknown_price: Literal["refuse", "allow"] = UNSET

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            wanted = int if name in _WHOLE_NUMBERS else int | float
            is_number = isinstance(value, wanted) and not isinstance(value, bool)
            if name != "unknown_price" and value is not None and not (is_number and 0 < value < math.inf):
                kind = "an integer" if wanted is int else "a number"
                raise DefinitionError(f"Limits: {name} must be {kind} > 0, or None for no limit, got {value!r}")
        if self.unknown_price not in ("refuse", "allow", UNSET):
            raise DefinitionError(f'Limits: unknown_price must be "refuse" or "allow", got {self.unknown_price!r}')

    @property
    def given(self) -> dict[str, Any]:
        """The limits that are given, by their names."""
        return {name: value for name, value in vars(self).items() if value is not UNSET}

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def inherit(self, outer: Limits) -> Limits:
        """Return these limits, with those of `outer` where none is given."""
        return replace(outer, **self.given)


NO_LIMITS = Limits(tokens=None, seconds=None, dollars=None, tool_calls=None)
"""What `limits=None` of a run means: it keeps the agent's steps, and the limits of single calls and requests."""
DEFAULT_LIMITS = replace(
    NO_LIMITS, steps=50, tool_seconds=60.0, result_chars=20_000, context_tokens=None, unknown_price="refuse"
)
"""The limits of an agent; without `request_seconds`, which the backend of the model has."""


@lru_cache
def _complete_limits(limits: Limits, steps: int | None = DEFAULT_LIMITS.steps) -> Limits:
    """Return the limits with the defaults of those that are not given, `steps` among them."""
    return limits.inherit(replace(DEFAULT_LIMITS, steps=steps))


FLAT_NAMES = {
    "max_steps": "steps",
    "tool_timeout": "tool_seconds",
    "request_timeout": "request_seconds",
    "max_result": "result_chars",
}
"""For each limit that is an option of its own: its name in `Limits`."""


def find_limit(option: str) -> str:
    """Return the name in `Limits` of an option, given as it is or in its own spelling; "" for any other option."""
    return FLAT_NAMES.get(option, option if option in vars(DEFAULT_LIMITS) else "")


@frozen
class Spent:
    """What a resumed run had used before."""

    steps: int = 0
    calls: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)


@dataclass(eq=False)
class Budget:
    """What one run has used, `before` included; `outer` are the budgets of the enclosing runs, the nearest first.

    Runs share budgets across threads, so each read-and-change happens under one lock.
    """

    limits: Limits
    outer: tuple[Budget, ...] = ()
    before: Spent = field(default_factory=Spent)
    tokens: int = field(init=False)
    calls: int = field(init=False)
    dollars: float = field(init=False)
    held: float = 0.0
    """Dollars set aside for requests in progress."""
    reserved: float = 0.0
    """Dollars set aside for the final request."""
    all: tuple[Budget, ...] = field(init=False, repr=False)
    """This budget and the enclosing ones."""
    deadlines: tuple[float, float] = field(init=False)
    """When the work must end, and when the run must end, in the time of `clock`."""
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)

    def __post_init__(self) -> None:
        self.all = (self, *self.outer)
        self.limits = _complete_limits(self.limits)
        taken = self.before.usage
        self.tokens = taken.input_tokens + taken.output_tokens
        self.calls = self.before.calls
        self.dollars = taken.cost or 0.0
        now = self.clock()
        left = math.inf if self.limits.seconds is None else self.limits.seconds - self.before.seconds
        end = now + left
        for budget in self.outer:
            end = min(end, budget.deadlines[0])
        self.deadlines = (math.inf, math.inf) if end == math.inf else (end - FINAL_REQUEST_SHARE * (end - now), end)

    def seconds_left(self, *, is_last: bool) -> float:
        """Return the seconds until the work must end; for the final request, until the run must."""
        return self.deadlines[is_last] - self.clock()

    def find_token_limit(self) -> int | None:
        """Return the limit on tokens that is reached, if one is."""
        for budget in self.all:
            if (most := budget.limits.tokens) and budget.tokens >= most:
                return most
        return None

    @property
    def has_spent_dollars(self) -> bool:
        """Whether a limit in dollars is reached by what was paid, without what is set aside."""
        return any((most := budget.limits.dollars) is not None and budget.dollars >= most for budget in self.all)

    def take_call(self) -> int | None:
        """Count one tool call and return None; if it would exceed a limit, return that limit without counting."""
        with _lock:
            for budget in self.all:
                if budget.limits.tool_calls is not None and budget.calls >= budget.limits.tool_calls:
                    return budget.limits.tool_calls
            for budget in self.all:
                budget.calls += 1
        return None

    def hold(self, least: float, wanted: float, *, is_last: bool) -> float | None:
        """Set aside `wanted` dollars, or what is available; return None if that is less than `least`."""
        with _lock:
            if not is_last:
                self.reserved = FINAL_REQUEST_GROWTH * least
            room = min(wanted, *(budget._available(reserved=budget is not self or not is_last) for budget in self.all))
            if room < least:
                return None
            for budget in self.all:
                budget.held += room
        return room

    def _available(self, *, reserved: bool) -> float:
        if self.limits.dollars is None:
            return math.inf
        return self.limits.dollars - self.dollars - self.held - (self.reserved if reserved else 0.0)

    def settle(self, held: float, usage: Usage) -> None:
        """Count the usage of a request; where its cost is unknown, count all that was set aside."""
        cost = held if usage.cost is None else usage.cost
        with _lock:
            for budget in self.all:
                budget.held -= held
                budget.dollars += cost
                budget.tokens += usage.input_tokens + usage.output_tokens


_lock = threading.Lock()


MIN_REPLY_TOKENS = 256
"""Tokens of a reply; a request is only sent if the dollars pay for as many."""
MIN_FINAL_REPLY_TOKENS = 64
"""The same for the final request: an answer in a few words is better than no answer."""


@frozen
class PriceUnknown(WarningEvent):
    """The limit in dollars does not cover this model, because its price is unknown."""

    model: str

    @property
    def notice(self) -> str:
        return f"the price of {self.model} is unknown: only the costs that its replies report are counted"


def estimate_price(model: Model, request: Request, max_tokens: int | None = None) -> float | None:
    """Return the most dollars that the request can cost, with at most `max_tokens` of reply; None if unknown."""
    worst_case = getattr(model, "worst_case", None)
    if worst_case is None:
        return None
    cost: float | None = worst_case(request if max_tokens is None else _cap_tokens(request, max_tokens))
    return cost


def price_request(
    model: Model, request: Request, unpriced: set[str], *, is_last: bool, refused_by: str
) -> Flow[tuple[int, float, float] | None]:
    """Return the least tokens of a reply, and the least and the most dollars of a request; None if they are unknown.

    A model without a known price is refused if `refused_by` names the limit that cannot hold, "Limits" or "Quota".
    Else an event reports it, once for each model: `unpriced` are the names of those that were reported.
    """
    tokens = MIN_FINAL_REPLY_TOKENS if is_last else MIN_REPLY_TOKENS
    least = estimate_price(model, request, tokens)
    wanted = estimate_price(model, request)
    if least is not None and wanted is not None:
        return tokens, least, wanted
    if refused_by:
        others = "set Limits(tokens=...), or " if refused_by == "Limits" else ""
        raise RunError(
            f"{model.name}: its price is unknown, or how long a reply may be, or what the provider's own tools read, "
            f"so {refused_by}(dollars=...) cannot hold. "
            "Give both: JsonAgent(..., input_cost_per_token=..., output_cost_per_token=..., max_tokens=...), in "
            f'dollars. Or {others}count only the known costs, {refused_by}(dollars=..., unknown_price="allow").'
        )
    if model.name not in unpriced:
        unpriced.add(model.name)
        yield from ask(Emit(PriceUnknown(model.name)))
    return None


def fit_reply(model: Model, request: Request, dollars: float, least: int) -> Request:
    """Return the request with as many `max_tokens` as `dollars` pay for, which is at least `least`."""

    def cost(tokens: int) -> float:
        return estimate_price(model, request, tokens) or 0.0

    low = cost(least)
    step = cost(2 * least) - low
    most = least + int(least * (dollars - low) / step) if step > 0 else least
    while most > least and cost(most) > dollars:
        most = max(least, most * 3 // 4)  # a model's own token limit can make the first step look cheap
    return _cap_tokens(request, most)


def _cap_tokens(request: Request, max_tokens: int) -> Request:
    return replace(request, max_tokens=min(max_tokens, request.max_tokens or max_tokens))


_UNITS = {"max_steps": "steps", "tool_calls": "tool calls"}
Timed = TypeVar("Timed", Request, WaitForTicket, BoundCall)


def limit(
    limits: Limits | None = None,
    max_steps: int | None = DEFAULT_LIMITS.steps,
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
    own = _complete_limits(limits or Limits(), max_steps)

    def policy(flow: Flow[Any]) -> Flow[Any]:
        earlier = [] if before is None else before
        taken = spent if spent is not None and not earlier else Spent()
        outer = enclosing(Budget)
        budget = Budget(own, (*earlier, *(outer.all if outer else ())), taken, clock=clock)
        earlier.insert(0, budget)
        state = LimitPolicy(budget)
        asking: Flow[Any] = interpret(flow, Hooks(state.begin, state.settle, state.fail), AskModel)
        return interpret(asking, Hooks(state.change, failed=state.fail), (WaitForTicket, CallTools, Sleep, Emit))

    return policy


class LimitPolicy:
    """The limits of one run."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.steps = budget.before.steps
        self.is_last = False
        self.refused: int | None = None
        self.unpriced: set[str] = set()
        self.priced = [one.limits for one in budget.all if one.limits.dollars is not None]

    def change(self, effect: Effect[Any]) -> Effect[Any]:
        """Return the effect with the remaining time, and calls with this budget."""
        if isinstance(effect, CallTools):
            left = self.budget.seconds_left(is_last=self.is_last)
            return effect.with_calls([self._limit_call(bound, left) for bound in effect.calls])
        if isinstance(effect, WaitForTicket):
            return cap_timeout(effect, self.budget.seconds_left(is_last=self.is_last))
        if isinstance(effect, Sleep):
            return Sleep(max(0.0, min(effect.seconds, self.budget.seconds_left(is_last=self.is_last))))
        if isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
            self.is_last = True
        return effect

    def begin(self, effect: AskModel) -> AskModel | Flow[Reply]:
        """Return the request with the remaining time; raise the error of a limit that is reached."""
        left = self.budget.seconds_left(is_last=self.is_last)
        self._check(left)
        request = cap_timeout(effect.request, left)
        if self.priced:
            return self._pay(AskModel(effect.model, request))
        return effect if request is effect.request else AskModel(effect.model, request)

    def settle(self, _: AskModel, reply: Reply) -> Reply:
        """Count the usage of a reply."""
        self.budget.settle(0.0, reply.usage)
        self.steps += 1
        return reply

    def fail(self, _: Effect[Any], error: Exception) -> None:
        """Raise a failure after the deadline as the limit on seconds."""
        if isinstance(error, ModelError) and self.budget.seconds_left(is_last=self.is_last) <= 0:
            raise self._exceeded("seconds") from error

    def _pay(self, effect: AskModel) -> Flow[Reply]:
        """Send a request while its dollars are set aside."""
        request, held = yield from self._hold_dollars(effect.model, effect.request)
        usage = Usage()
        try:
            reply: Reply = yield from ask(AskModel(effect.model, request))
            usage = reply.usage
        except ModelError as error:
            self.fail(effect, error)
            raise
        finally:
            self.budget.settle(held, usage)
        self.steps += 1
        return reply

    def _check(self, seconds_left: float) -> None:
        if seconds_left <= 0:
            raise self._exceeded("seconds")
        if self.is_last:
            return
        if (most := self.budget.limits.steps) is not None and self.steps >= most:
            raise self._exceeded("max_steps", self.steps)
        if tokens := self.budget.find_token_limit():
            raise self._exceeded("tokens", tokens)
        if self.priced and self.budget.has_spent_dollars:
            raise self._exceeded("dollars")
        if self.refused:
            raise self._exceeded("tool_calls", self.refused)

    def _exceeded(self, reason: StopReason, most: int | None = None) -> LimitExceeded:
        unit = _UNITS.get(reason, reason)
        taken = f"the last of its {unit}" if most is None else f"{most:,} {unit.removesuffix('s' if most == 1 else '')}"
        return LimitExceeded(f"no final answer after {taken}, nor in one last request for it", reason=reason)

    def _limit_call(self, bound: BoundCall, seconds_left: float) -> BoundCall:
        """Return the call with this budget and the remaining time; beyond the limit, a call that fails and says why."""
        if bound.problem is None and not bound.is_answer and (most := self.budget.take_call()):
            self.refused = most
            return bound.refuse(f"Not run: the run's limit of {most} tool calls is reached.")
        return cap_timeout(bound.within(lambda: self.budget), seconds_left)

    def _hold_dollars(self, model: Model, request: Request) -> Flow[tuple[Request, float]]:
        """Return the request, shortened to what the dollars pay for, and the dollars that are set aside for it."""
        refused_by = "Limits" if any(limits.unknown_price == "refuse" for limits in self.priced) else ""
        priced = yield from price_request(model, request, self.unpriced, is_last=self.is_last, refused_by=refused_by)
        if priced is None:
            return request, 0.0
        tokens, least, wanted = priced
        held = self.budget.hold(least, wanted, is_last=self.is_last)
        if held is None:
            raise self._exceeded("dollars")
        return (request if held >= wanted else fit_reply(model, request, held, tokens)), held


def cap_timeout(timed: Timed, seconds: float) -> Timed:
    """Return a copy with at most `seconds` as its timeout; a shorter one stays."""
    if seconds == math.inf:
        return timed
    least = seconds if timed.timeout is None else min(seconds, timed.timeout)
    return copy_with(timed, {"timeout": max(0.0, least)})


def limit_tool_time(
    timeout: float | None = DEFAULT_LIMITS.tool_seconds, *, sequential: bool = False, on_caller: bool = False
) -> Policy:
    """Cancel tool calls at their timeout.

    A tool's own timeout has precedence, and a call with a timeout keeps it.  The answer tool only has its own.

    Args:
        timeout: Seconds; None for no timeout.
        sequential: Whether the calls of a turn run one after the other.
        on_caller: Whether plain functions run on the calling thread: one after the other, and without a timeout.
    """
    limit = partial(set_timeout, timeout=timeout)
    is_plain = not (sequential or on_caller)

    def change(effect: CallTools) -> CallTools:
        effect = effect.with_calls(
            [bound if on_caller and runs_in_thread(bound) else limit(bound) for bound in effect.calls]
        )
        return effect if is_plain else replace(effect, sequential=sequential, on_caller=on_caller)

    return around(Hooks(change), CallTools)


def runs_in_thread(bound: BoundCall) -> bool:
    """Return whether a call runs a plain function of this process, which nothing can stop."""
    return bound.tool is not None and not bound.tool.is_async and bound.tool.isolate is None


def set_timeout(bound: BoundCall, timeout: float | None = DEFAULT_LIMITS.tool_seconds) -> BoundCall:
    """Return a call with the timeout that it has: its own, its tool's, or `timeout`."""
    if bound.timeout is not None:
        return bound
    own = "agent" if bound.tool is None else bound.tool.timeout
    seconds = own if own != "agent" else None if bound.is_answer else timeout
    return bound if seconds is None else bound.change(timeout=seconds)


def limit_reply_time(seconds: float) -> Policy:
    """Set the timeout of each request to `seconds`, or to its own if that is less; stands outside of retries.

    A model with the attribute `keeps_time` is left alone: `LiteLLMModel` has its own timeout, which counts between the
    pieces of a streamed reply.
    """

    def change(effect: AskModel) -> AskModel:
        if getattr(effect.model, "keeps_time", False):
            return effect
        return replace(effect, request=cap_timeout(effect.request, seconds))

    return around(Hooks(change), AskModel)
