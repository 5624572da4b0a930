"""One task of a query: the tool that a part of the query asks for, and the values of the tool's parameters."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

from .fill_arguments import Fit, OfferedTool, Param, score_values
from .words import GENERIC, PATTERNS, STOP, Query, TextSpan, is_listed_with, opens_request

MIN_SCORE, GOOD_SCORE = 0.3, 0.7
"""The score that a value needs for a parameter, and that of a good value."""
MIN_CUE = 0.55
"""The part of the score that the context must add for an optional parameter."""
OUTSIDE_PENALTY, PRONOUN_PENALTY = 0.9, 0.4
"""Deducted from the score of a value outside of the clause; the lesser one if a pronoun may refer to it."""


class Task(NamedTuple):
    """A part of a query, and the tool that it asks for."""

    tool: OfferedTool
    query: Query
    start: int
    end: int
    suffixes: Sequence["Task"] = ()

    def is_next(self, last: "Task", is_named: bool) -> bool:
        """Return whether this part asks for another call of the last task's tool; `is_named` if it names the tool."""
        shared = self._filled_params(GOOD_SCORE) & last._filled_params(GOOD_SCORE)
        again = [param for param in shared if is_named or not param.is_list]
        needed = {param for param in self.tool.params if param.required}
        return len(again) > 1 or (len(again) == 1 and needed <= last._filled_params(MIN_SCORE))

    def asks_for_other(self) -> bool:
        """Return whether this part has a word that neither the tool knows nor a value is beside: "the *capital* of"."""
        known, used = {*self.tool.weights, *self.tool.own, *STOP}, set(self.list_places())
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        beside = [word.start in used for word in words]
        return any(
            known.isdisjoint((word.text, word.value)) and not any(beside[max(0, at - 1) : at + 2])
            for at, word in enumerate(words)
        )

    def _filled_params(self, least: float) -> set[Param]:
        return {p for p, (fit, *_) in self._assign_values().items() if self._contains(fit) and fit.score >= least}

    def list_places(self) -> Iterator[int]:
        """Yield the positions in the text of the values that this part uses."""
        for column in self._assign_values().values():
            for fit in column:
                yield from range_of(fit.value)

    def find_unsure(self) -> list[str]:
        """Return the parameters whose values are uncertain, as "name (value)"; the tool itself as "the tool".

        A value is certain if this part contains it, the query has no unused value that suits the parameter too, and it
        is not merely the rest of the text. The tool is certain if the words of this part name it, without the kinds
        of the values.
        """
        words = {word for word in self.query.concepts_in(self.start, self.end) if not word.startswith("<")}
        unsure = [] if self.tool.is_meant(words) else ["the tool"]
        columns, fits, taken = self._assign_values(), list(self.iter_fits()), set(self.list_places())
        for param, column in columns.items():
            own = (fit for fit in fits if fit.param is param and self._contains(fit))
            free = [fit for fit in own if taken.isdisjoint(range_of(fit.value))]
            for fit in column:
                if free or fit.value.kind == "rest" or not self._contains(fit):
                    unsure.append(f"{'.'.join(param.path)} ({fit.value.text})")
        return unsure

    def build_calls(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the arguments of each call that this part asks for, or the missing required names."""
        columns = self._assign_values()
        if missing := [".".join(p.path) for p in self.tool.params if p.required and p not in columns]:
            return [], missing
        spread = {p: column for p, column in columns.items() if not p.is_list or column[0].value.kind == "array"}
        calls: list[dict[str, Any]] = [{} for _ in range(max(map(len, spread.values()), default=1))]
        for index, call in enumerate(calls):
            for param, column in columns.items():
                place = reduce(lambda place, step: place.setdefault(step, {}), param.path[:-1], call)
                arguments = [fit.argument for fit in column]
                place[param.path[-1]] = arguments[min(index, len(column) - 1)] if param in spread else arguments
        return calls, []

    def _assign_values(self) -> dict[Param, list[Fit]]:
        """Return each parameter's values in order: the best fit each, then unused values that are listed with it."""
        ranked = sorted(self.iter_fits(), key=lambda fit: (not self._contains(fit), -fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        taken: set[int] = set()
        for is_first in (True, False):
            for fit in ranked:
                column, places, text = columns[fit.param], range(fit.value.start, fit.value.end), self.query.text
                is_listed = any(is_listed_with(one.value, fit.value, text) for one in column)
                is_next = is_listed and not is_first if column else is_first != self._is_loose(fit)
                if is_next and taken.isdisjoint(places):
                    column.append(fit)
                    taken.update(places)
        return {param: sorted(fits, key=lambda fit: fit.value.start) for param, fits in columns.items() if fits}

    def iter_fits(self) -> Iterator[Fit]:
        """Yield the fits with a sufficient score; from outside this part, at a penalty, for required ones only."""
        loss = PRONOUN_PENALTY if PATTERNS["pronoun"].search(self.query.text, self.start, self.end) else OUTSIDE_PENALTY
        values = list(self._iter_values())
        for param in self.tool.params:
            for fit in score_values(param, values, self.query):
                is_inside = self._contains(fit) or any(suffix._contains(fit) for suffix in self.suffixes)
                fit = fit if is_inside else fit._replace(score=fit.score - loss)
                if fit.score >= MIN_SCORE and (
                    param.required or (is_inside and (fit.cue >= MIN_CUE or self._is_loose(fit)))
                ):
                    yield fit

    def _is_loose(self, fit: Fit) -> bool:
        """Return whether a preposition announces the value, but no context does for this optional parameter."""
        is_good = "<lead>" in fit.value.context and fit.param.fits.get(fit.value.kind, 0) >= GOOD_SCORE
        return (is_good or len(self.tool.params) == 1) and fit.cue < MIN_CUE and not fit.param.required

    def _iter_values(self) -> Iterator[TextSpan]:
        """Yield the query's values and phrases without the tool's own words, then the rest of this part's text."""
        for value in self.query.values:
            others = [w for w in self.query.words_in(value.start, value.end) if w.value not in self.tool.own]
            if value.kind == "phrase" and not GENERIC.issuperset(word.value for word in others):
                start, end = self.query.widen(others[0].start, others[-1].end)
                yield self.query.make_span("phrase", start, end, value.context)
            elif value.kind == "name" and others and opens_request(self.query.text, value.start):
                yield self.query.make_span("name", others[0].start, value.end, value.context)
            elif value.kind != "phrase" and (others or value.kind != "name"):
                yield value
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        if rest := [word for word in words if word.text not in STOP and word.value not in self.tool.weights]:
            yield self.query.make_span("rest", rest[0].start, len(self.query.text[: self.end].rstrip(" .?!,;")))

    def _contains(self, fit: Fit) -> bool:
        return self.start <= fit.value.start < self.end


def range_of(value: TextSpan) -> range:
    """Return the positions in the text that a value takes."""
    return range(value.start, value.end)
