"""The turns of a run as a tree that folds: groups of turns, turns, and what stands in a turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .figures import format_cost, format_count, format_seconds, format_tokens
from .markup import Html, join, tag

MAX_OPEN_TURNS = 10
"""Turns that are shown open; of a longer run the turns are folded."""
MAX_UNGROUPED_TURNS = 30
"""Turns that stand beside each other; more are put into groups."""
TURNS_OF_GROUP = 20
MAX_NAMED_CALLS = 4
"""Calls that the line of a turn names."""


@dataclass(frozen=True)
class Turn:
    """A reply of the model with its calls and their results.

    Attributes:
        body: The turn as HTML.
        names: The names of the called tools.
        requests: The spans of its requests.
        calls: The spans of its calls.
    """

    body: Html
    names: Sequence[str]
    requests: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]

    @property
    def failures(self) -> int:
        """How many calls and requests failed."""
        return sum(bool(span.get("error")) for span in (*self.requests, *self.calls))

    @property
    def seconds(self) -> float:
        """From the beginning of the first request to the end of the last call."""
        spans = (*self.requests, *self.calls)
        return max((span["end"] for span in spans), default=0.0) - min((span["start"] for span in spans), default=0.0)

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens and the cost of its requests."""
        return add_usage(request.get("usage") or {} for request in self.requests)


def add_usage(usages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of usages; an unknown cost makes the sum unknown."""
    total: dict[str, Any] = {}
    for usage in usages:
        for key, value in usage.items():
            known = value is not None and total.get(key, 0) is not None
            total[key] = total.get(key, 0) + value if known else None
    return total


def render_turns(parts: Iterable[Html | Turn]) -> Iterator[Html]:
    """Yield messages and turns in their order; turns are numbered from 1, and folded where there are many."""
    rows = [*parts]
    count = sum(isinstance(row, Turn) for row in rows)
    number, group, turns = 0, [], []
    for row in rows:
        if not isinstance(row, Turn):
            group.append(row)
            continue
        number += 1
        turns.append(row)
        group.append(render_turn(row, number, is_open=count <= MAX_OPEN_TURNS))
        if count > MAX_UNGROUPED_TURNS and len(turns) == TURNS_OF_GROUP:
            yield _render_group(group, turns, number)
            group, turns = [], []
    if count > MAX_UNGROUPED_TURNS and len(turns) > 1:
        yield _render_group(group, turns, number)
    else:
        yield from group


def render_turn(turn: Turn, number: int, *, is_open: bool) -> Html:
    """Return a turn that folds behind its line: its number, its calls, failures, time, tokens and cost."""
    shown = [*turn.names[:MAX_NAMED_CALLS]]
    if len(turn.names) > MAX_NAMED_CALLS:
        shown.append(f"and {len(turn.names) - MAX_NAMED_CALLS} more")
    head = tag(
        "summary", tag("b", f"{number}"), " ", tag("span", ", ".join(shown) or "text", class_="names"), " ",
        _failures(turn.failures), tag("span", _figures(turn.seconds, turn.usage), class_="dim"),
    )  # fmt: skip
    return tag(
        "details", head, turn.body, open=is_open, class_=f"turn{' bad' * bool(turn.failures)}",
        data_tools=" ".join(sorted(set(turn.names))),
    )  # fmt: skip


def _render_group(rows: Sequence[Html], turns: Sequence[Turn], last: int) -> Html:
    failures, seconds = sum(turn.failures for turn in turns), sum(turn.seconds for turn in turns)
    calls = format_count(sum(len(turn.names) for turn in turns), "call")
    figures = _figures(seconds, add_usage(turn.usage for turn in turns))
    head = tag(
        "summary", tag("b", f"turns {last - len(turns) + 1}\N{EN DASH}{last}"), f" {calls} ", _failures(failures),
        tag("span", figures, class_="dim"),
    )  # fmt: skip
    return tag("details", head, *rows, class_=f"group{' bad' * bool(failures)}")


def _failures(count: int) -> Html:
    return join(tag("span", f"{count} failed", class_="wrong"), " ") if count else Html("")


def _figures(seconds: float, usage: Mapping[str, Any]) -> str:
    parts = (format_seconds(seconds) if seconds else "", format_tokens(usage), format_cost(usage))
    return " · ".join(part for part in parts if part)
