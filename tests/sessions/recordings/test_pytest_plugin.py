"""The fixture that records runs when asked, and replays them otherwise."""

import subprocess
import sys

import pytest

pytest_plugins = "pytester"
pytest.importorskip("yaml")  # a run inside this process forgets what it imports, and yaml cannot be imported twice

TEST = """
import asyncio
import pytest
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel

MADE = []

def add(a: int, b: int) -> int:
    '''Adds.'''
    MADE.append((a, b))
    return a + b

def agent():
    call = lambda name, **arguments: {"tool_calls": [{"name": name, "arguments": arguments}]}
    return JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), call("final_answer", text="3")))

def test_plain(recorded_run):
    assert recorded_run(agent(), "1 + 2?").answer == "3"
    assert recorded_run(agent(), "And again?").answer == "3"
    print("made", len(MADE))

@pytest.mark.recorded_run("named.jsonl", execute=True)
def test_async(recorded_run):
    assert asyncio.run(recorded_run.arun(agent(), "QUERY")).answer == "3"
"""
PLUGIN = ("-p", "agentkit.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def folder(pytester):
    pytester.makepyfile(test_it=TEST.replace("QUERY", "1 + 2?"))
    return pytester


def test_runs_are_recorded_when_asked_and_replayed_otherwise(folder):
    folder.runpytest(*PLUGIN, "--record-runs", "-s").assert_outcomes(passed=2)
    kept = sorted(path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*.jsonl"))
    assert kept == [
        "recordings/named.jsonl",
        "recordings/test_it/test_plain-2.jsonl",
        "recordings/test_it/test_plain.jsonl",
    ]
    result = folder.runpytest(*PLUGIN, "-s")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines("*made 0*")


def test_what_is_not_recorded_is_named(folder):
    result = folder.runpytest(*PLUGIN)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        "*no run is recorded in *recordings/test_it/test_plain.jsonl; record it: pytest --record-runs*"
    )


def test_another_query_is_named(folder):
    folder.runpytest(*PLUGIN, "--record-runs").assert_outcomes(passed=2)
    folder.makepyfile(test_it=TEST.replace("QUERY", "2 + 2?"))
    result = folder.runpytest(*PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines("*the recorded query is '1 + 2?', the test's is '2 + 2?'*")


def test_a_run_that_differs_names_the_option_that_records(folder):
    folder.runpytest(*PLUGIN, "--record-runs").assert_outcomes(passed=2)
    folder.makepyfile(test_it=TEST.replace("QUERY", "1 + 2?").replace("Adds.", "Adds two numbers."))
    result = folder.runpytest(*PLUGIN)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*If the change is meant, record it: pytest --record-runs*"] * 2)


SAME_NAMES = (
    TEST[: TEST.index("def test_plain")]
    + """
@pytest.mark.parametrize("query", ["1+2?", "1*2?", "1_2"])
def test_sum(recorded_run, query):
    recorded_run(agent(), query)

class TestTea:
    def test_sum(self, recorded_run):
        recorded_run(agent(), "tea")

class TestCoffee:
    def test_sum(self, recorded_run):
        recorded_run(agent(), "coffee")
"""
)


def test_tests_of_classes_and_parameters_have_recordings_of_their_own(pytester):
    pytester.makepyfile(test_it=SAME_NAMES)
    pytester.runpytest(*PLUGIN, "--record-runs").assert_outcomes(passed=5)
    names = {path.stem for path in pytester.path.rglob("*.jsonl")}
    assert {"test_sum_1_2", "TestTea_test_sum", "TestCoffee_test_sum"} < names
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=5)


def test_the_plugin_is_light():
    code = "import sys, agentkit.pytest_plugin\nprint([m for m in ('pydantic', 'litellm', 'agentkit.agents.agent') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


CASES = """
- {name: tea, query: What does tea cost?, calls: [price_of: {item: tea}], answer: {contains: "3.50"}}
- {name: coffee, query: What does coffee cost?, answer: {contains: "4.25"}}
"""
TEST_OF_CASES = """
import pytest
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

def price_of(item: str) -> float:
    'Look up a price.'
    return 3.5

def agent():
    return JsonAgent(price_of, model=ScriptedModel(REPLIES))

@pytest.mark.eval_cases("cases.yaml"MORE)
def test_shop(case, check_case):
    assert check_case(agent(), case)[0].case == case.name
"""
OTHER_TEST_OF_CASES = """
@pytest.mark.eval_cases("cases.yaml", recorded=True)
def test_other(case, check_case):
    check_case(JsonAgent(price_of, model=ScriptedModel(answer("4.25 euros"))), case)
"""
REPLIES = 'call("price_of", item="tea"), answer("3.50 euros")'


def write_cases(pytester, replies=REPLIES, more=""):
    pytester.path.joinpath("cases.yaml").write_text(CASES)
    pytester.makepyfile(test_shop=TEST_OF_CASES.replace("REPLIES", replies).replace("MORE", more))


def test_each_case_of_a_file_is_a_test_and_says_what_is_wrong(pytester):
    write_cases(pytester)
    result = pytester.runpytest(*PLUGIN, "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_shop?tea? PASSED*", "*test_shop?coffee? FAILED*"])
    result.stdout.fnmatch_lines(
        ["failed: coffee (scripted, 1 of 1)", '*answer: expected a text with "4.25", got "3.50 euros"']
    )


def test_the_runs_of_cases_are_recorded_when_asked_and_replayed_otherwise(pytester):
    write_cases(pytester, more=", recorded=True")
    pytester.runpytest(*PLUGIN, "--record-runs").assert_outcomes(passed=1, failed=1)
    assert len(list(pytester.path.joinpath("recordings", "test_shop", "test_shop").iterdir())) == 2
    write_cases(pytester, "ValueError('a model was asked')", ", recorded=True")
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=1, failed=1)


def test_a_test_of_cases_with_other_parameters_has_recordings_for_each_of_them(pytester):
    write_cases(pytester, more=", recorded=True")
    text = pytester.path.joinpath("test_shop.py").read_text()
    text = text.replace(
        "def test_shop(case,", "@pytest.mark.parametrize('word', ['tea', 'pot'])\ndef test_shop(word, case,"
    )
    pytester.path.joinpath("test_shop.py").write_text(text)
    pytester.runpytest(*PLUGIN, "--record-runs").assert_outcomes(passed=2, failed=2)
    assert len(list(pytester.path.rglob("*.jsonl"))) == 4


def test_a_case_that_is_not_recorded_names_the_option_of_pytest(pytester):
    write_cases(pytester, more=", recorded=True")
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*no run is recorded in *.1.jsonl.", "*record it: pytest --record-runs"])
    result.stdout.no_fnmatch_line("*--record [!-]*")


def test_tests_of_the_same_cases_have_recordings_of_their_own(pytester):
    write_cases(pytester, more=", recorded=True")
    with pytester.path.joinpath("test_shop.py").open("a") as file:
        file.write(OTHER_TEST_OF_CASES)
    verdicts = ["*test_shop?tea? PASSED*", "*test_shop?coffee? FAILED*", "*test_other?tea? FAILED*"]
    pytester.runpytest(*PLUGIN, "-v", "--record-runs").stdout.fnmatch_lines(verdicts)
    pytester.runpytest(*PLUGIN, "-v").stdout.fnmatch_lines(verdicts)


def test_a_marker_with_a_wrong_file_or_without_the_argument_is_an_error(pytester):
    write_cases(pytester)
    pytester.path.joinpath("cases.yaml").write_text("- {qery: hi}")
    pytester.runpytest(*PLUGIN).stdout.fnmatch_lines(
        ["*cases.yaml: entry 1: unknown key 'qery'. Did you mean 'query'?*"]
    )
    pytester.makepyfile(test_shop="import pytest\n@pytest.mark.eval_cases('cases.yaml')\ndef test_shop(): ...")
    pytester.runpytest(*PLUGIN).stdout.fnmatch_lines(["*test_shop: eval_cases needs the argument case*"])
    pytester.makepyfile(test_shop="import pytest\n@pytest.mark.eval_cases()\ndef test_shop(case): ...")
    pytester.runpytest(*PLUGIN).stdout.fnmatch_lines(["*test_shop: eval_cases needs a file. Write @pytest.mark.*"])
