"""A quota: the dollars that the runs of one owner may cost in an hour, a day or a month, in all processes together.

The sums are in the store of the journal.  Before a request its highest possible cost is set aside there, and its real
cost replaces that afterwards, so that concurrent processes cannot exceed the quota together.  A run also sets aside its
final request.  What a process has set aside is free again when the process has ended.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from ..core.background import InThread
from ..core.context import RunContext
from ..core.errors import DefinitionError, LimitExceeded, RunError
from ..core.flow import Effect, Emit, Flow, Policy, ask, interpret
from ..core.messages import Usage
from ..core.values import frozen
from ..engine.model import AskModel, Model, Reply, Request
from ..tools.execution.call_tools import CallTools
from .final_request import FinalRequest
from .limits import FINAL_REQUEST_GROWTH, fit_reply, price_request

Period: TypeAlias = Literal["hour", "day", "month"]
_FORMATS: dict[str, str] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}
"""What names a period: its time in UTC, as far as it is the same for the whole period."""
T = TypeVar("T")


@frozen(slots=False, kw_only=True)
class Quota:
    """What all runs of an owner may cost in a period, in all processes that use the same journal.

    Args:
        owner: Who pays: the name of a user or a team; or a function of the run's `RunContext` that returns it.
        dollars: The most that the requests of a period may cost, the final requests included.
        per: "hour", "day" or "month", in UTC.
        unknown_price: What to do about a model whose price is unknown: "refuse" to ask it, or "allow" it and count only
            the costs that its replies report.

    Raises:
        DefinitionError: A value is not one of these.
    """

    owner: str | Callable[[RunContext[Any]], str]
    dollars: float
    per: Period = "day"
    unknown_price: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        if not callable(self.owner):
            check_owner(self.owner)
        is_number = isinstance(self.dollars, int | float) and not isinstance(self.dollars, bool)
        if not (is_number and 0 < self.dollars < math.inf):
            raise DefinitionError(f"Quota: dollars must be a number > 0, got {self.dollars!r:.80}")
        if self.per not in get_args(Period):
            raise DefinitionError(f'Quota: per must be "hour", "day" or "month", got {self.per!r:.80}')
        if self.unknown_price not in ("refuse", "allow"):
            raise DefinitionError(f'Quota: unknown_price must be "refuse" or "allow", got {self.unknown_price!r:.80}')


def check_owner(owner: Any) -> str:
    """Return the name of an owner; raise `DefinitionError` for anything else."""
    if not isinstance(owner, str) or not owner.strip():
        raise DefinitionError(f"Quota: owner must be a text that is not empty, got {owner!r:.80}")
    return owner


class QuotaStore(Protocol):
    """A store of runs that also keeps what the runs of owners cost; a store needs these methods for quotas alone.

    An account is an owner in a period.  Each run has a place in it, with the dollars that it has spent and those that
    it has set aside.
    """

    named: str

    def reserve(self, account: str, run: str, spent: float, wanted: tuple[float, float], most: float) -> float | None:
        """Set dollars aside for a run, in the place of what it has set aside before; no other process may interfere.

        Args:
            account: The name of the account.
            run: The name of the run's place.
            spent: What the run has spent from the account, in all.
            wanted: The least and the most to set aside.
            most: The dollars that all runs together may have spent and set aside.  What a process has set aside that
                has ended does not count.

        Returns:
            The dollars set aside, which are less than wanted if no more are free; None if not even the least are.
        """
        ...

    def settle(self, account: str, run: str, spent: float, held: float) -> None:
        """Write what a run has spent in all, and what it still sets aside; 0: the run is at its end."""
        ...


def find_period(per: Period, now: datetime) -> tuple[str, datetime]:
    """Return the name of the period of a time, and the time when the next one begins."""
    name = now.strftime(_FORMATS[per])
    if per == "month":
        return name, datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    start = datetime.strptime(name, _FORMATS[per]).replace(tzinfo=UTC)
    return name, start + (timedelta(hours=1) if per == "hour" else timedelta(days=1))


@dataclass(eq=False)
class Account:
    """What one run takes from a quota.

    `owner` is the quota's owner for this run.  Any thread may use it, one at a time.
    """

    quota: Quota
    owner: str
    store: QuotaStore
    clock: Callable[[], float] = time.time
    _run: str = field(init=False, default="")
    """The name of the run's place in the account; "" without one."""
    _account: str = field(init=False, default="")
    _spent: float = field(init=False, default=0.0)
    _kept: float = field(init=False, default=0.0)
    """What stays set aside for the final request."""
    _is_closed: bool = field(init=False, default=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        for method in ("reserve", "settle"):
            if not callable(getattr(self.store, method, None)):
                raise DefinitionError(
                    f"{self.store.named}: the store has no method {method}(), which quota= needs. Add the methods of "
                    "agentkit.extend.QuotaStore to it, or record the runs in a SQLite file or in PostgreSQL."
                )

    def copy(self) -> Account:
        """Return the account for another run, inside a call of this one."""
        return Account(self.quota, self.owner, self.store, self.clock)

    def is_account_of(self, other: Account) -> bool:
        """Return whether the dollars of another run are counted in the same place."""
        return self.store is other.store and (self.owner, self.quota.per) == (other.owner, other.quota.per)

    def hold(self, least: float, wanted: float, *, is_last: bool) -> float | None:
        """Set aside `wanted` dollars, or what is available; return None if that is less than `least`."""
        with self._lock:
            if self._is_closed:
                return None
            name, _ = find_period(self.quota.per, datetime.fromtimestamp(self.clock(), UTC))
            account = f"{self.owner} {name}"
            if account != self._account:
                self._leave()
                self._account = account
            self._run = self._run or secrets.token_hex(8)
            kept = 0.0 if is_last else FINAL_REQUEST_GROWTH * least
            range_ = least + kept, wanted + kept
            held = self.store.reserve(self._account, self._run, self._spent, range_, self.quota.dollars)
            if held is None:
                return None
            self._kept = kept
            return held - kept

    def settle(self, cost: float) -> None:
        """Count the cost of a request; only what is kept for the final request stays set aside."""
        with self._lock:
            self._spent += cost
            if self._is_closed or not self._run:
                return
            if not self._kept:
                self._leave()
                return
            with suppress(RunError):  # the next write has the sum, too
                self.store.settle(self._account, self._run, self._spent, self._kept)

    def close(self) -> None:
        """Release what is set aside; nothing can be set aside afterwards."""
        with self._lock:
            self._leave()
            self._is_closed = True

    def _leave(self) -> None:
        if self._run:
            with suppress(RunError):  # what is set aside is free when the process has ended
                self.store.settle(self._account, self._run, self._spent, 0.0)
        self._run = ""
        self._spent = 0.0
        self._kept = 0.0

    def make_error(self) -> LimitExceeded:
        """Return the error for a quota without enough dollars for a request."""
        _, end = find_period(self.quota.per, datetime.fromtimestamp(self.clock(), UTC))
        unit = "dollar" if self.quota.dollars == 1 else "dollars"
        return LimitExceeded(
            f"no final answer after the last dollars of the quota of {self.owner!r} ({self.quota.dollars:g} {unit} per "
            f"{self.quota.per}), nor in one last request for it. The next {self.quota.per} begins at "
            f"{end:%Y-%m-%d %H:%M} UTC",
            reason="quota",
        )


@frozen
class Accounts:
    """The accounts of a run, which the runs inside its calls draw from too."""

    of_run: tuple[Account, ...]


def keep_quotas(accounts: Sequence[Account]) -> Policy:
    """Return the policy that pays each request from the accounts, or raises `LimitExceeded` in its place."""
    enclosed = Accounts(tuple(accounts))

    def policy(flow: Flow[Any]) -> Flow[Any]:
        is_last = False
        unpriced = set[str]()

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal is_last
            if isinstance(effect, AskModel):
                return (yield from _pay(accounts, effect, unpriced, is_last=is_last))
            if isinstance(effect, CallTools):
                effect = effect.with_calls([bound.within(lambda: enclosed) for bound in effect.calls])
            elif isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
                is_last = True
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, CallTools, Emit))

    return policy


def _pay(accounts: Sequence[Account], effect: AskModel, unpriced: set[str], *, is_last: bool) -> Flow[Reply]:
    """Send a request while its dollars are set aside in each account."""
    held = list[tuple[Account, float]]()
    usage = Usage()
    try:
        request = effect.request
        for account in accounts:
            request, dollars = yield from _hold(account, effect.model, request, unpriced, is_last=is_last)
            held.append((account, dollars))
        reply: Reply = yield from ask(AskModel(effect.model, request))
        usage = reply.usage
    except (RunError, DefinitionError):
        yield from _settle(held, usage)
        raise
    yield from _settle(held, usage)
    return reply


def _settle(held: Sequence[tuple[Account, float]], usage: Usage) -> Flow[None]:
    """Count the cost of a request; where it is unknown, count all that was set aside."""
    for account, dollars in held:
        cost = dollars if usage.cost is None else usage.cost
        yield from ask(InThread(partial(account.settle, cost)))


def _hold(
    account: Account, model: Model, request: Request, unpriced: set[str], *, is_last: bool
) -> Flow[tuple[Request, float]]:
    """Return the request, shortened to what the account pays for, and the dollars that are set aside for it."""
    refused_by = "Quota" if account.quota.unknown_price == "refuse" else ""
    priced = yield from price_request(model, request, unpriced, is_last=is_last, refused_by=refused_by)
    tokens, least, wanted = priced or (0, 0.0, 0.0)
    held: float | None = yield from ask(InThread(partial(account.hold, least, wanted, is_last=is_last)))
    if held is None:
        raise account.make_error()
    return (request if held >= wanted else fit_reply(model, request, held, tokens)), held
