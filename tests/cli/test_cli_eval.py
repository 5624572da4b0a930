"""`agentkit eval`: cases in a file, the report, the baseline and the exit code."""

import json
import signal
import subprocess
import sys

import pytest

MINE = '''
from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer

@tool(effect="read")
def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]

agent = JsonAgent(price_of, model="offline")

def make(case):
    return JsonAgent(price_of, model=ScriptedModel(answer("?")))

def broken():
    raise ValueError("no database")
'''
CASES = """
- {name: tea, query: What is the price of tea?, calls: [price_of: {item: tea}], answer: 3.5}
- {name: coffee, query: What is the price of coffee?, answer: {contains: "4.25"}}
"""


@pytest.fixture
def evaluate(run, folder):
    (folder / "mine.py").write_text(MINE)
    (folder / "cases.yaml").write_text(CASES)

    def call(*options, target="mine.py:agent"):
        return run("eval", "cases.yaml", *([target] if target else []), *options)

    return call


def test_cases_that_pass_exit_with_0(evaluate):
    result = evaluate("--trials", "2")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["offline"]
    assert lines[1].split(maxsplit=1) == ["passed", "4 of 4 trials"]
    assert [line.split()[0] for line in lines[2:4]] == ["pass^1", "pass^2"]
    assert "[0.342, 1.000]" in lines[2]


def test_settings_have_the_options_and_the_agent_keeps_its_model(evaluate, folder):
    settings = 'model = "openai/gpt-4o-mini"\ntrials = 2\nout = "report.json"\n'
    (folder / "pyproject.toml").write_text(f"[tool.agentkit]\n{settings}")
    result = evaluate()
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split() == ["offline"]
    assert len(json.loads((folder / "report.json").read_text())["trials"]) == 4


def test_a_case_that_fails_exits_with_1_and_says_why(evaluate, folder):
    (folder / "cases.yaml").write_text(CASES.replace("answer: 3.5", "answer: 3"))
    result = evaluate()
    assert result.exit_code == 1
    assert 'failed: tea (offline, 1 of 1)\n    answer: expected 3, got "3.5"\n' in result.stdout
    assert evaluate("--min-pass", "0.5").exit_code == 0
    assert evaluate("--min-pass", "0.6").exit_code == 1


def test_a_baseline_fails_what_became_worse_alone(evaluate, folder):
    assert evaluate("--out", "new/report.html").exit_code == 2
    assert evaluate("--out", "base.json", "--out", "base.html").exit_code == 0
    assert "<!doctype html>" in (folder / "base.html").read_text().lower()
    assert evaluate("--baseline", "base.json").exit_code == 0
    worse = evaluate("--baseline", "base.json", "--out", "worse.json", target="mine.py:make")
    assert worse.exit_code == 1
    assert "agent, since the baseline: 0 better, 2 worse, 0 equal (sign test: p = 0.5)\n" in worse.stdout
    assert "    worse: tea\n    worse: coffee\n" in worse.stdout
    assert evaluate("--baseline", "base.json", "--significance", "0.05", target="mine.py:make").exit_code == 0
    assert evaluate("--baseline", "worse.json").exit_code == 0
    assert evaluate("--baseline", "worse.json", "--min-pass", "1", target="mine.py:make").exit_code == 1
    assert len(json.loads((folder / "worse.json").read_text())["trials"]) == 2


def test_a_baseline_of_other_models_is_no_comparison(evaluate, folder):
    models = ("--model", "openai/none", "--model", "openai/other")
    evaluate(*models, "--out", "base.json")
    for target, model in (("mine.py:agent", "offline"), ("mine.py:make", "agent")):
        result = evaluate("--baseline", "base.json", "--journal", "runs.db", target=target)
        assert result.exit_code == 2
        assert f"base.json: it has no trials of {model}, only of openai/none, openai/other" in " ".join(
            result.stderr.split()
        )
    assert not (folder / "runs.db").exists(), "no trial ran"
    assert evaluate("--model", "offline", "--model", "openai/none", "--baseline", "base.json").exit_code == 0


@pytest.mark.parametrize("damage", [{"model": []}, {"case": {}}, {"seconds": "1"}])
def test_a_damaged_baseline_is_refused_before_the_trials(evaluate, folder, damage):
    evaluate("--out", "base.json")
    report = json.loads((folder / "base.json").read_text())
    report["trials"][0] |= damage
    (folder / "base.json").write_text(json.dumps(report))
    result = evaluate("--baseline", "base.json", "--journal", "runs.db")
    assert result.exit_code == 2
    assert "base.json: it is damaged: TypeError" in " ".join(result.stderr.split())
    assert not (folder / "runs.db").exists(), "no trial ran"


def test_models_stand_side_by_side(evaluate):
    result = evaluate("--model", "offline", "--model", "openai/none")
    assert result.stdout.splitlines()[0].split() == ["offline", "openai/none"]
    assert "openai/none against offline: 0 better, 2 worse" in result.stdout
    assert result.exit_code == 1


def test_recordings_take_the_place_of_the_model(evaluate, folder):
    assert evaluate("--record", "runs").exit_code == 0
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["coffee.1.jsonl", "tea.1.jsonl"]
    assert evaluate("--replay", "runs", target="mine.py:make").exit_code == 0
    (folder / "mine.py").write_text(MINE.replace("3.5", "3.75"))
    changed = evaluate("--replay", "runs", "--execute")
    assert changed.exit_code == 1
    assert "recorded '3.5', now '3.75'" in changed.stdout


@pytest.mark.parametrize(
    ("options", "target", "message"),
    [
        ([], None, "no agent: agentkit eval cases.yaml mine.py:agent"),
        ([], "mine.py:price_of", "expected an agent or a function that returns one"),
        ([], "mine.py:agnt", "mine.py has no 'agnt'. Did you mean 'agent'?"),
        ([], "mine.py:broken", "broken, for the case 'tea': ValueError: no database"),
        ([], "none.py:agent", "no such file: none.py"),
        (["--baseline", "none.json"], "mine.py:agent", "no such baseline. Write it: agentkit eval ... --out none.json"),
        (["--baseline", "cases.yaml"], "mine.py:agent", "cases.yaml: "),
        (["--significance", "0.05"], "mine.py:agent", "--significance needs --baseline"),
        (["--record", "a", "--replay", "b"], "mine.py:agent", "record= and replay= exclude each other"),
        (["-k", "0"], "mine.py:agent", "is not in the range x>=1"),
    ],
)
def test_wrong_usage_exits_with_2(evaluate, options, target, message):
    result = evaluate(*options, target=target)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_wrong_file_of_cases_exits_with_2(run, evaluate, folder):
    (folder / "cases.yaml").write_text("- {query: hi, awnser: x}")
    result = evaluate()
    assert result.exit_code == 2
    assert "cases.yaml: entry 1: case 'hi': unknown key 'awnser'. Did you mean 'answer'?" in result.stderr
    missing = run("eval", "none.yaml", "mine.py:agent")
    assert missing.exit_code == 2
    assert "none.yaml: no such file. Write the cases there, or name another file." in missing.stderr


def test_an_interrupted_command_says_how_to_continue(evaluate, folder):
    waits = (
        MINE
        + """
def wait_for_it(case):
    def reply(request):
        import sys, time
        print("waiting", file=sys.__stdout__, flush=True)
        time.sleep(60)
    return JsonAgent(price_of, model=ScriptedModel(reply))
"""
    )
    (folder / "mine.py").write_text(waits)
    command = [sys.executable, "-m", "agentkit", "eval", "cases.yaml", "mine.py:wait_for_it", "--journal", "e.db"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    begun = subprocess.Popen([*command, "--concurrency", "1"], cwd=folder, text=True, **pipes)
    assert begun.stdout.readline() == "waiting\n"
    begun.send_signal(signal.SIGINT)
    assert begun.communicate()[1].endswith("agentkit: interrupted; repeat the command to continue\n")
    assert begun.returncode == 130
