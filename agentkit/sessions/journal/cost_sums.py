"""What the runs of a journal cost, by user, by tool and by model."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from ...core.messages import Usage
from ..records import MAP_ORIGIN, RunEntry, Step, StepBegun, StepEnded, fold
from .connections import opened_store
from .maintenance import DEFAULT_PATH
from .store import Place, Store, in_batches, reading

SumKind: TypeAlias = Literal["user", "tool", "model"]
WITHOUT_CALLS = "(answer)"
"""The name of the replies without tool calls, among the tools."""


@dataclass(slots=True)
class CostSum:
    """What belongs to a user, a tool or a model.

    Attributes:
        kind: "user", "tool" or "model".
        name: A user is the owner of the quota, else the part of the conversation's name before the first "/" (the user
            of a page), else "".  An agent inside a call has the user of the enclosing run.  The replies without tool
            calls have a tool of their own, "(answer)".
        runs: The runs that it has a part in, those of agents inside calls included.
        calls: The tool calls.
        seconds: The time of the tool calls.
        requests: The requests, a number with fractions: one with several calls in its reply is divided among their
            tools, with its tokens and its cost.
        input_tokens: Their input tokens.
        cached_tokens: The part of these that was read from a cache.
        output_tokens: Their output tokens.
        cost: The sum of the known costs, in dollars.
        unpriced: The requests whose cost is unknown.
    """

    kind: SumKind
    name: str
    runs: int = 0
    calls: int = 0
    seconds: float = 0.0
    requests: float = 0.0
    input_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float = 0.0
    unpriced: float = 0.0
    _last: str = field(default="", repr=False)

    def add(self, run: str, usage: Usage, share: float = 1.0) -> None:
        """Add a share of a request of a run."""
        self.note(run)
        self.requests += share * usage.requests
        self.input_tokens += share * usage.input_tokens
        self.cached_tokens += share * usage.cached_tokens
        self.output_tokens += share * usage.output_tokens
        self.cost += share * (usage.cost or 0.0)
        self.unpriced += share * (usage.cost is None)

    def note(self, run: str) -> None:
        """Count a run, whose requests and calls come one after the other."""
        self.runs += run != self._last
        self._last = run

    def as_dict(self) -> dict[str, Any]:
        """Return the sum as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}


def costs(store: Place = DEFAULT_PATH) -> list[CostSum]:
    """Return what the runs of a journal cost: by user, by tool and by model, of each the highest cost first.

    Each request counts once for a user, once for a model, and once for the tools that its reply calls.

    Args:
        store: The path, the URL or the store of the journal.

    Raises:
        JournalError: The journal does not exist, or cannot be read.
    """
    sums: dict[tuple[SumKind, str], CostSum] = {}

    def of(kind: SumKind, name: str) -> CostSum:
        return sums.setdefault((kind, name), CostSum(kind, name))

    with opened_store(store, must_exist=True) as opened:
        users = {key: _user_in(name) for name, key in opened.names().items()}
        entries = {entry.id: entry for entry in opened.runs()}
        for entry, steps in _read_steps(opened, entries.values()):
            with reading(opened, f"run {entry.id}"):
                _add_run(of, entry, users.get(_find_outermost(entry, entries).conversation, ""), steps)
    order = {"user": 0, "tool": 1, "model": 2}
    return sorted(sums.values(), key=lambda one: (order[one.kind], -one.cost, -one.requests, one.name))


def _read_steps(store: Store, entries: Iterable[RunEntry]) -> Iterator[tuple[RunEntry, list[Step]]]:
    """Yield the sound runs with their steps."""
    sound = [entry for entry in entries if not entry.damage]
    for some in in_batches(sound):
        stored = fold(store.records(*some, kinds=(StepBegun, StepEnded)))
        for entry in some:
            yield entry, [*stored.steps[entry.id].values()]


def _find_outermost(entry: RunEntry, entries: Mapping[str, RunEntry]) -> RunEntry:
    """Return the run that a run is inside of, by its calls; the run itself if it is in none."""
    seen = set[str]()
    while entry.id not in seen:  # else the journal is damaged
        seen.add(entry.id)
        outer, slash, _ = str(entry.origin or "").partition("/")
        entry = entries.get(outer, entry) if slash else entry
    return entry


def _add_run(of: Any, entry: RunEntry, user: str, steps: list[Step]) -> None:
    called: dict[int, list[str]] = {}
    run = entry.id
    for step in steps:
        if step.call and entry.origin != MAP_ORIGIN:  # the steps of a map are batches
            called.setdefault(step.step, []).append(step.name)
            row = of("tool", step.name)
            row.note(run)
            row.calls += 1
            row.seconds += max(0.0, (step.ended or step.begun) - step.begun)
    for step in steps:
        if step.call or not step.outcome:
            continue
        figures = json.loads(step.outcome)
        usage = Usage(**figures["request_usage"]) if "request_usage" in figures else Usage(1, cost=None)
        of("user", figures.get("owner") or user).add(run, usage)
        of("model", step.name).add(run, usage)
        names = called.get(step.step) or [WITHOUT_CALLS]
        for name in names:
            of("tool", name).add(run, usage, 1 / len(names))


def _user_in(name: str) -> str:
    user, slash, _ = name.partition("/")
    return unquote(user) if slash else ""
