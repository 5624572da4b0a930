"""The report of an evaluation: its figures, how it compares with another one, and its file.

`pass^k` is the probability that k trials of a case all pass.  From n trials of which c passed it is estimated without
bias by C(c, k) / C(n, k), and averaged over the cases (Yao et al. 2024, tau-bench, https://arxiv.org/abs/2406.12045).

The interval is Wilson's score interval (Wilson 1927) of 95 %, with the number of cases as the size of the sample.
Cases are what was sampled, so the trials of one case add no size (Miller 2024, https://arxiv.org/abs/2411.00640).  It
is wider than needed, as values from 0 to 1 with the mean p vary by p (1 - p) at most.  With few cases it keeps its
coverage, and it does not collapse where all cases pass (Bowyer et al. 2025, https://arxiv.org/abs/2503.01747).

Two evaluations are compared case by case.  The p-value is that of the exact sign test, two-sided, over the cases whose
rates differ; with one trial a case it is McNemar's exact test.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from .. import DefinitionError, Usage
from ..extend import eval_page, find_versions, format_eval_figures, mask_data, write_atomically, write_page

REPORT_FORMAT = "agentkit evaluation"
REPORT_VERSION = 1
Z_95 = 1.959963984540054
"""The quantile of the normal distribution for an interval of 95 %."""
MAX_LISTED_FAILURES = 20
"""Cases that a text lists."""


@dataclass(frozen=True)
class Trial:
    """The outcome of one run of a case with one model, as plain data.

    Attributes:
        case: The name of the case.
        model: The model as it was named.
        number: The number of the trial, from 1 on.
        failures: What is wrong; a trial without any has passed.
        answer: The answer as JSON data.
        error: Why there is no answer; "" if there is one.
        usage: Requests, tokens and dollars.
        steps: The replies of the model.
        tool_calls: The calls of tools.
        seconds: How long the runs took.
        runs: The ids of the runs, which a journal has.
        results: The results of the runs as plain data, for a page; those of failed trials alone are stored.
    """

    case: str
    model: str
    number: int = 1
    failures: Sequence[str] = ()
    answer: Any = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    runs: Sequence[str] = ()
    results: Sequence[Mapping[str, Any]] = field(default=(), repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures

    @property
    def key(self) -> str:
        """What identifies the trial within its evaluation."""
        return json.dumps([self.model, self.case, self.number])

    def as_dict(self) -> dict[str, Any]:
        """Return the trial as a JSON object, without the results of its runs."""
        data = {name: value for name, value in vars(self).items() if name != "results"}
        return {**data, "failures": [*self.failures], "usage": self.usage.as_dict(), "runs": [*self.runs]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Trial":
        """Return the trial that `as_dict` described."""
        return cls(**{**data, "usage": Usage(**data["usage"])})


def estimate_pass(passed: Sequence[tuple[int, int]], k: int) -> tuple[float, float, float]:
    """Return pass^k with its interval of 95 %: the estimate, the lower and the upper bound.

    Args:
        passed: For each case, how many of its trials passed, and how many there were.
        k: The number of trials that all have to pass, at most the number of trials of each case.

    Raises:
        ValueError: There are no cases, or one has fewer trials than k.
    """
    if not passed or any(total < k for _, total in passed) or k < 1:
        raise ValueError(f"pass^{k}: expected cases with {k} trials or more, got {len(passed)} cases")
    estimate = fmean(math.comb(count, k) / math.comb(total, k) for count, total in passed)
    return (estimate, *wilson_interval(estimate, len(passed)))


def wilson_interval(rate: float, size: int) -> tuple[float, float]:
    """Return the score interval of 95 % of a rate in a sample (Wilson 1927)."""
    square = Z_95 * Z_95 / size
    centre = (rate + square / 2) / (1 + square)
    half = Z_95 * math.sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of the exact sign test."""
    size = better + worse
    tail = sum(math.comb(size, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / (1 << size))


@dataclass(frozen=True)
class Comparison:
    """What changed from one set of trials to another, case by case; a case is better if more of its trials pass.

    Attributes:
        better: The names of the cases with a higher rate.
        worse: The names of the cases with a lower rate.
        equal: How many cases have the same rate.
        added: The names of the cases that only the second has.
        removed: The names of the cases that only the first has.
        p_value: The p-value of the exact sign test over the cases that changed.
    """

    better: Sequence[str]
    worse: Sequence[str]
    equal: int
    added: Sequence[str]
    removed: Sequence[str]
    p_value: float

    @classmethod
    def of(cls, before: Mapping[str, tuple[int, int]], now: Mapping[str, tuple[int, int]]) -> "Comparison":
        """Compare the counts of passed and all trials by the names of the cases."""
        both = [name for name in now if name in before]
        rates = {name: (before[name][0] / before[name][1], now[name][0] / now[name][1]) for name in both}
        better = [name for name, (old, new) in rates.items() if new > old]
        worse = [name for name, (old, new) in rates.items() if new < old]
        equal = len(both) - len(better) - len(worse)
        added = [name for name in now if name not in before]
        removed = [name for name in before if name not in now]
        return cls(better, worse, equal, added, removed, sign_test(len(better), len(worse)))

    def is_worse(self, significance: float | None = None) -> bool:
        """Return whether a case is worse; with a significance, whether more are worse than better with p below it."""
        if significance is None:
            return bool(self.worse)
        return len(self.worse) > len(self.better) and self.p_value < significance

    def __str__(self) -> str:
        parts = [f"{len(self.better)} better, {len(self.worse)} worse, {self.equal} equal"]
        parts += [f"{len(names)} {word}" for names, word in ((self.added, "new"), (self.removed, "gone")) if names]
        return f"{', '.join(parts)} (sign test: p = {self.p_value:.3g})"


@dataclass(frozen=True)
class EvalReport:
    """The trials of an evaluation, with their figures; print it, show it in a notebook, or write it with `save`.

    Attributes:
        trials: The trials, in the order of the models, the cases and their numbers.
        began: When it began, in ISO format.
        seconds: How long it took.
        versions: The versions of Python and of packages.
        id: The id under which a journal has it.
    """

    trials: Sequence[Trial]
    began: str = ""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=find_versions)
    id: str = ""

    @cached_property
    def models(self) -> Sequence[str]:
        """The models, in their order."""
        return [*dict.fromkeys(trial.model for trial in self.trials)]

    @property
    def passed(self) -> bool:
        """Whether all trials passed."""
        return all(trial.passed for trial in self.trials)

    @property
    def min_pass_rate(self) -> float:
        """The lowest rate of passed trials of a model."""
        return min(fmean(trial.passed for trial in self.of_model(model)) for model in self.models)

    @property
    def failed(self) -> list[Trial]:
        """The trials that did not pass."""
        return [trial for trial in self.trials if not trial.passed]

    def of_model(self, model: str) -> list[Trial]:
        """Return the trials with a model."""
        return [trial for trial in self.trials if trial.model == model]

    def count_passed(self, model: str) -> dict[str, tuple[int, int]]:
        """Return for each case how many trials with a model passed, and how many there were."""
        counts: dict[str, tuple[int, int]] = {}
        for trial in self.of_model(model):
            passed, total = counts.get(trial.case, (0, 0))
            counts[trial.case] = passed + trial.passed, total + 1
        return counts

    def figures(self, model: str) -> dict[str, Any]:
        """Return the figures of a model: counts, pass^k with intervals, use, latency and cost."""
        trials = self.of_model(model)
        counts = self.count_passed(model)
        most = min(total for _, total in counts.values())
        usage = sum((trial.usage for trial in trials), Usage())
        seconds = sorted(trial.seconds for trial in trials)
        return {
            "cases": len(counts),
            "trials": len(trials),
            "passed": sum(trial.passed for trial in trials),
            "errors": sum(bool(trial.error) for trial in trials),
            "pass": {str(k): estimate_pass([*counts.values()], k) for k in range(1, most + 1)},
            "usage": usage.as_dict(),
            "steps": fmean(trial.steps for trial in trials),
            "tool_calls": fmean(trial.tool_calls for trial in trials),
            "median_seconds": median(seconds),
            "p95_seconds": seconds[math.ceil(0.95 * len(seconds)) - 1],
        }

    def compare(self, baseline: "EvalReport") -> dict[str, Comparison]:
        """Return what changed since another report, by models; a model alone in both is compared whatever its name."""
        pairs = {model: model for model in self.models if model in baseline.models}
        if not pairs and len(self.models) == len(baseline.models) == 1:
            pairs = {self.models[0]: baseline.models[0]}
        return {
            model: Comparison.of(baseline.count_passed(before), self.count_passed(model))
            for model, before in pairs.items()
        }

    def compare_models(self) -> dict[str, Comparison]:
        """Return how each further model compares with the first one."""
        first = self.models[0]
        return {model: Comparison.of(self.count_passed(first), self.count_passed(model)) for model in self.models[1:]}

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object, without the conversations."""
        about = {"format": REPORT_FORMAT, "version": REPORT_VERSION, "id": self.id, "began": self.began}
        trials = [trial.as_dict() for trial in self.trials]
        return {**about, "seconds": round(self.seconds, 3), "versions": {**self.versions}, "trials": trials}

    @classmethod
    def from_dict(cls, data: Any) -> "EvalReport":
        """Return the report that `as_dict` described; raise `DefinitionError` for anything else."""
        if not isinstance(data, Mapping) or data.get("format") != REPORT_FORMAT:
            raise DefinitionError("it is no report of an evaluation. agentkit eval --out report.json writes one.")
        if data.get("version") != REPORT_VERSION:
            raise DefinitionError(f"it has version {data.get('version')!r:.20}, expected 1. Update agentkit.")
        try:
            trials = [Trial.from_dict(trial) for trial in data["trials"]]
            report = cls(trials, data["began"], data["seconds"], data["versions"], data["id"])
            for model in report.models:
                report.figures(model)
            return report
        except (LookupError, TypeError, AttributeError) as error:
            raise DefinitionError(f"it is damaged: {type(error).__name__}: {error}. Write it again.") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "EvalReport":
        """Return the report in a file; raise `DefinitionError` if it has another content."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError, DefinitionError) as error:
            raise DefinitionError(f"{os.fspath(path)}: {error}") from error

    def save(self, path: str | os.PathLike[str], *, baseline: "EvalReport | None" = None) -> None:
        """Write the report into a file, with masked secrets: JSON, from which `load` reads it, or `.html`.

        Args:
            path: The file.
            baseline: A report that a page compares this one with.
        """
        if os.fspath(path).endswith((".html", ".htm")):
            self.to_html(path, baseline=baseline)
            return
        text = json.dumps(mask_data(self.as_dict()), ensure_ascii=False, indent=1)
        write_atomically(Path(path), f"{text}\n".encode(errors="backslashreplace"))

    def to_html(self, path: str | os.PathLike[str] | None = None, *, baseline: "EvalReport | None" = None) -> str:
        """Return the report as a self-contained HTML page, with the conversations of failed trials.

        Args:
            path: A file that the page is written to.
            baseline: A report that this one is compared with.
        """
        return write_page(eval_page(self.view(baseline)), path)

    def view(self, baseline: "EvalReport | None" = None) -> dict[str, Any]:
        """Return all that a page shows, as plain data: the report, its figures, comparisons and conversations."""
        changes = self.compare(baseline) if baseline else {}
        trials = [{**trial.as_dict(), "results": [*trial.results]} for trial in self.trials]
        return {
            **self.as_dict(),
            "trials": trials,
            "figures": {model: self.figures(model) for model in self.models},
            "counts": {model: self.count_passed(model) for model in self.models},
            "changes": {model: asdict(change) | {"text": str(change)} for model, change in changes.items()},
            "models": {model: str(change) for model, change in self.compare_models().items()},
        }

    def __str__(self) -> str:
        return "\n".join(_write_text(self))


def _write_text(report: EvalReport) -> Iterator[str]:
    """Yield the lines of a report: a table with a column for each model, then what failed."""
    columns = [format_eval_figures(report.figures(model)) for model in report.models]
    rows = [["", *report.models], *([name, *(column[name] for column in columns)] for name in columns[0])]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for model, change in report.compare_models().items():
        yield f"{model} against {report.models[0]}: {change}"
    failed: dict[tuple[str, str], list[Trial]] = {}
    for trial in report.failed:
        failed.setdefault((trial.model, trial.case), []).append(trial)
    for (model, case), trials in [*failed.items()][:MAX_LISTED_FAILURES]:
        total = report.count_passed(model)[case][1]
        yield f"failed: {case} ({model}, {len(trials)} of {total})"
        yield from (f"    {' '.join(text.split())}" for text in dict.fromkeys(trials[0].failures))
    if len(failed) > MAX_LISTED_FAILURES:
        yield f"and {len(failed) - MAX_LISTED_FAILURES} more cases"
