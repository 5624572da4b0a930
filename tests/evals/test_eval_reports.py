"""Reports: pass^k with its interval, comparisons, the file and the page."""

import json
import math
import random
from html.parser import HTMLParser
from itertools import combinations

import pytest
from evaluated_shop import RIGHT, TEA, WRONG, make_agent, scripted

from agentkit import DefinitionError, Usage
from agentkit.evals import Comparison, EvalReport, Trial, estimate_pass, evaluate
from agentkit.testing import answer


def report_of(**models):
    """Return a report of models: by the names of cases, the outcomes of their trials."""
    trials = [
        Trial(case, model, number, [] if passed else ["wrong"])
        for model, cases in models.items()
        for case, outcomes in cases.items()
        for number, passed in enumerate(outcomes, 1)
    ]
    return EvalReport(trials, "2026-11-23T08:00:00+00:00", 1.5)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_k_is_the_share_of_choices_of_trials_that_all_passed(k):
    cases = [[True] * 4, [True, True, False, True], [False] * 4, [True, False, False, True]]
    shares = [sum(map(all, combinations(trials, k))) / math.comb(4, k) for trials in cases]
    estimate, low, high = estimate_pass([(sum(trials), 4) for trials in cases], k)
    assert estimate == pytest.approx(sum(shares) / 4)
    assert 0 <= low < estimate < high <= 1


@pytest.mark.parametrize(
    ("rate", "size", "low", "high"),
    [(0.0, 10, 0.0, 0.2775), (1.0, 10, 0.7225, 1.0), (0.5, 10, 0.2366, 0.7634), (0.9, 100, 0.8256, 0.9448)],
)
def test_the_interval_is_wilsons(rate, size, low, high):
    passed = round(rate * size)
    found = estimate_pass([(1, 1)] * passed + [(0, 1)] * (size - passed), 1)
    assert found == pytest.approx((rate, low, high), abs=1e-4)


@pytest.mark.parametrize("k", [1, 3])
def test_the_interval_holds_the_true_value_in_95_of_100_samples(k):
    chance = random.Random(35)
    rates = [0.3, 0.8, 0.95, 1.0]
    true = sum(rate**k for rate in rates) / len(rates)
    held = 0
    for _ in range(400):
        sample = [chance.choice(rates) for _ in range(30)]
        passed = [(sum(chance.random() < rate for _ in range(4)), 4) for rate in sample]
        _, low, high = estimate_pass(passed, k)
        held += low <= true <= high
    assert held / 400 >= 0.95


@pytest.mark.parametrize(("passed", "k"), [([], 1), ([(1, 1)], 2), ([(1, 1)], 0)])
def test_pass_k_needs_cases_with_k_trials(passed, k):
    with pytest.raises(ValueError, match=rf"pass\^{k}"):
        estimate_pass(passed, k)


def test_a_comparison_counts_the_cases_that_changed():
    before = {"a": (2, 2), "b": (0, 2), "c": (1, 2), "gone": (1, 2)}
    now = {"a": (1, 2), "b": (2, 2), "c": (2, 4), "new": (0, 2)}
    change = Comparison.of(before, now)
    assert (change.better, change.worse, change.equal) == (["b"], ["a"], 1)
    assert (change.added, change.removed, change.p_value) == (["new"], ["gone"], 1.0)
    assert str(change) == "1 better, 1 worse, 1 equal, 1 new, 1 gone (sign test: p = 1)"


@pytest.mark.parametrize(
    ("better", "worse", "p_value"), [(0, 0, 1.0), (0, 1, 1.0), (0, 5, 0.0625), (1, 9, 0.0215), (0, 6, 0.0312)]
)
def test_the_p_value_is_that_of_the_exact_sign_test(better, worse, p_value):
    before = {str(number): (number < worse, 1) for number in range(better + worse)}
    now = {str(number): (number >= worse, 1) for number in range(better + worse)}
    change = Comparison.of(before, now)
    assert change.p_value == pytest.approx(p_value, abs=1e-4)
    assert change.is_worse() == (worse > 0)
    assert change.is_worse(0.05) == (p_value < 0.05)


def test_models_are_compared_by_their_names_and_one_alone_with_one_alone():
    before = report_of(a={"x": [True]}, b={"x": [False]})
    now = report_of(b={"x": [True]}, c={"x": [True]})
    assert [*now.compare(before)] == ["b"]
    assert now.compare(before)["b"].better == ["x"]
    assert now.compare_models()["c"].equal == 1
    assert [*report_of(new={"x": [True]}).compare(report_of(old={"x": [False]}))] == ["new"]


def test_figures_add_up():
    trials = [
        Trial("x", "m", number, usage=Usage(2, 100, 10, cost=0.5), steps=number, tool_calls=1, seconds=float(number))
        for number in range(1, 21)
    ]
    figures = EvalReport(trials).figures("m")
    assert (figures["cases"], figures["trials"], figures["passed"], figures["errors"]) == (1, 20, 20, 0)
    assert (figures["usage"]["input_tokens"], figures["usage"]["cost"]) == (2000, 10.0)
    assert (figures["steps"], figures["median_seconds"], figures["p95_seconds"]) == (10.5, 10.5, 19.0)
    assert len(figures["pass"]) == 20


def test_cases_with_fewer_trials_bound_k():
    figures = report_of(m={"x": [True, True], "y": [True, False, True]}).figures("m")
    assert [*figures["pass"]] == ["1", "2"]
    assert figures["pass"]["2"][0] == pytest.approx((1 + 1 / 3) / 2)


def test_a_report_is_written_and_read(tmp_path):
    report = evaluate(scripted(RIGHT, WRONG), [TEA], trials=2, concurrency=1, progress=False)
    report.save(tmp_path / "report.json")
    read = EvalReport.load(tmp_path / "report.json")
    assert read.trials == report.trials
    assert read.figures("agent") == report.figures("agent")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "it is no report of an evaluation. agentkit eval --out report.json writes one."),
        ("?", "Expecting value"),
        ('{"format": "agentkit evaluation", "version": 9}', "it has version 9, expected 1. Update agentkit."),
        ('{"format": "agentkit evaluation", "version": 1, "trials": [{}]}', "it is damaged: KeyError: 'usage'"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(DefinitionError) as caught:
        EvalReport.load(tmp_path / "report.json")
    assert str(caught.value).startswith(f"{tmp_path / 'report.json'}: {message}")


def test_secrets_are_masked_in_the_file(tmp_path):
    secret = "sk-proj-" + "a1B2" * 10
    report = evaluate(make_agent(f"It is {secret}"), [{"query": "hi"}], progress=False)
    report.save(tmp_path / "report.json")
    report.save(tmp_path / "report.html")
    assert secret not in (tmp_path / "report.json").read_text() + (tmp_path / "report.html").read_text()


def test_a_case_named_after_a_secret_is_compared_with_its_baseline(tmp_path):
    cases = [{"query": "What does tea cost? My key is sk-proj-" + "a1B2" * 10, "answer": "3.50 euros"}]
    evaluate(make_agent(answer("3.50 euros")), cases, progress=False).save(tmp_path / "report.json")
    report = evaluate(make_agent(answer("4 euros")), cases, progress=False)
    change = report.compare(EvalReport.load(tmp_path / "report.json"))
    assert change["scripted"].worse == ["What does tea cost? My key is ***"]


def test_the_text_has_a_column_for_each_model_and_what_failed():
    report = report_of(one={"x": [True, False], "y": [True, True]}, two={"x": [False, False], "y": [True, True]})
    lines = str(report).splitlines()
    assert lines[0].split() == ["one", "two"]
    assert lines[1].split("  ")[0] == "passed"
    assert "3 of 4 trials" in lines[1]
    assert lines[2].startswith("pass^1")
    assert "0.750 [" in lines[2]
    assert "two against one: 0 better, 1 worse, 1 equal (sign test: p = 1)" in lines
    assert "failed: x (one, 1 of 2)" in lines
    assert lines[lines.index("failed: x (two, 2 of 2)") + 1] == "    wrong"


class Links(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.targets = []
        self.anchors = []
        self.loads = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors += [given["id"]] if "id" in given else []
        self.targets += [given["href"]] if tag == "a" else []
        self.loads += [given[name] for name in ("src",) if name in given]


def test_the_page_is_one_file_with_the_conversations_that_failed(tmp_path):
    report = evaluate(scripted(RIGHT, [*RIGHT[:1], *WRONG]), [TEA], trials=2, concurrency=1, progress=False)
    report.to_html(tmp_path / "report.html", baseline=report_of(old={TEA["query"]: [True, True]}))
    page = (tmp_path / "report.html").read_text()
    found = Links(page)
    assert not found.loads
    assert found.targets[0][1:] in found.anchors, "a case that failed leads to its trial"
    assert all(target[1:] in found.anchors for target in found.targets)
    assert len(found.anchors) == len(set(found.anchors))
    for text in ("1 of 2", "I do not know.", "price_of", "0 better, 1 worse, 0 equal", "pass^2"):
        assert text in page


def test_a_page_of_many_failures_stays_small():
    trial = evaluate(make_agent(*RIGHT), [{**TEA, "answer": "?" * 5_000}], progress=False).trials[0]
    trials = [Trial(f"case {number}", "m", 1, trial.failures, "x", results=trial.results) for number in range(1_000)]
    assert len(EvalReport(trials).to_html()) < 3_000_000


def test_a_view_is_plain_data():
    report = evaluate(scripted(RIGHT, WRONG), [TEA], trials=2, concurrency=1, progress=False)
    assert json.loads(json.dumps(report.view(report)))["figures"]["agent"]["passed"] == 1
