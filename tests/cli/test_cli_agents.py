"""An agent of one's own for every command, and decisions on the command line."""

import json

import pytest

MINE = '''
from agentkit import JsonAgent, ask_question, tool
from agentkit.testing import ScriptedModel, answer, call, calls

@tool(effect="danger")
def refund(customer: str) -> str:
    """Pay money back to a customer."""
    return f"paid {customer}"

@tool(effect="read")
def book(city: str) -> str:
    """Book a room in a city."""
    return f"{ask_question('How many nights?', int)} nights"

def helper(x: int) -> int:
    """Help."""
    return x

def reply(request):
    last = request.messages[-1]
    if last["role"] == "tool":
        return answer("; ".join(str(one["content"]) for one in request.messages if one["role"] == "tool"))
    if "refund" in last["content"]:
        return calls(call("refund", customer="Ada"), call("book", city="Rome"))
    return answer(f"You wrote: {last['content']}")

model = ScriptedModel([reply] * 50, name="small")
agent = JsonAgent(refund, book, model=model, journal="own.db", description="Works in the shop.")
'''


@pytest.fixture
def mine(folder):
    (folder / "mine.py").write_text(MINE)
    return "mine.py:agent"


def paused_run(run, mine):
    assert run("run", mine, "refund", "please").exit_code == 3
    (found,) = json.loads(run("runs", "--journal", "own.db", "--json").stdout)
    return found["id"]


def test_run_map_and_chat_take_an_agent(run, mine, folder):
    assert run("run", mine, "Hi", "there").stdout == "You wrote: Hi there\n"
    assert run("run", "-q", "--json", "--agent", "mine:agent", "Hi").stdout.startswith("{")
    (folder / "queries.txt").write_text("one\ntwo\n")
    lines = map(json.loads, run("map", mine, "queries.txt").stdout.splitlines())
    assert {line["answer"] for line in lines} == {"You wrote: one", "You wrote: two"}
    assert "You wrote: Hello" in run("chat", mine, input="Hello\n").stdout


def test_words_that_look_like_an_agent_are_words(run, mine):
    result = run("run", "--tools", "mytools.py", "--model", "offline", "note:this", "now")
    assert "cannot be imported" not in result.output
    for words in (["See gone.py:agent"], ["--", "gone.py:agent"], ["Read", "gone.py:agent"]):
        assert "no such file" not in run("run", "--tools", "mytools.py", "--model", "offline", *words).output


def test_an_agent_behind_the_question_is_refused_and_one_in_it_is_not(run, mine):
    result = run("run", "Hi there", mine)
    assert result.exit_code == 2
    assert f"{mine}: the agent is the first argument: main run {mine} ... If it is a word" in result.output
    for words in (["What is in mine.py:agent"], ["--tools", "mytools.py", "Read", mine], ["--", "Read", mine]):
        assert run("run", "--model", "offline", *words).exit_code == 0
    assert run("run", mine, "Read", mine).stdout == f"You wrote: Read {mine}\n"


def test_a_file_of_python_before_the_question_is_refused_and_one_in_it_is_not(run, mine):
    for words in (["mytools.py", "What is 2 plus 3?"], ["mytools.py"]):
        result = run("run", *words)
        assert result.exit_code == 2
        assert "mytools.py: name an agent of the file as the first argument, main run" in result.output
        assert "or its tools with --tools mytools.py. If it is a word" in result.output
    for words in (["Read mytools.py"], ["--", "mytools.py"], ["Read", "mytools.py"], ["gone.py", "is", "gone"]):
        assert run("run", "--model", "offline", *words).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("run", "mine.py:agent", "Hi", "--agent", "other.py:agent"),
        ("run", "--agent=other.py:agent", "mine.py:agent", "Hi"),
        ("chat", "mine.py:agent", "--agent", "other.py:agent"),
        ("resume", "mine.py:agent", "1", "--agent", "other.py:agent"),
        ("web", "mine.py:agent", "--agent", "other.py:agent", "--no-open"),
        ("acp", "mine.py:agent", "--agent", "other.py:agent"),
        ("eval", "cases.yaml", "mine.py:agent", "--agent", "other.py:agent"),
    ],
)
def test_two_agents_are_refused(run, mine, words):
    result = run(*words)
    assert result.exit_code == 2
    assert f"{mine}: --agent names an agent as well. Leave one of them out." in " ".join(result.output.split())


def test_an_agent_of_the_environment_gives_way_to_the_argument(run, mine):
    result = run("run", mine, "Hi", "--", "--agent", env={"AGENTKIT_AGENT": "other.py:agent"})
    assert result.stdout == "You wrote: Hi --agent\n"


def test_a_file_of_an_agent_that_is_not_there_is_no_query(run):
    result = run("run", "gone.py:agent", "Hi")
    assert result.exit_code == 2
    assert "no such file: gone.py" in result.output


def test_settings_beside_an_agent_are_refused(run, mine):
    result = run("run", mine, "Hi", "--model", "offline")
    assert result.exit_code == 2
    assert "Set them there, and leave out: --model offline" in result.output


def test_tools_lint_and_lock_are_about_the_tools_of_an_agent(run, mine, folder):
    listed = run("tools", mine).stdout
    assert ("refund(customer)" in listed, "book(city)" in listed, "helper" in listed) == (True, True, False)
    assert "refund" in run("lint", mine).stdout
    assert run("lint", "--tools", mine).stdout == run("lint", mine).stdout
    assert run("lock", mine).stdout == "agentkit.lock.json: 2 tools\n"


def test_only_decorated_functions_of_a_file_are_tools_where_there_are_any(run, mine):
    assert [each["name"] for each in json.loads(run("tools", "--tools", "mine.py", "--json").stdout)] == [
        "refund",
        "book",
    ]


def test_a_paused_run_continues_with_decisions_and_answers_on_the_command_line(run, mine):
    identity = paused_run(run, mine)
    assert identity in run("resume", mine).stdout
    shown = run("show", mine, identity).stdout
    assert 'refund(customer="Ada")' in shown
    assert run("resume", mine, identity, "--approve", "refund").exit_code == 3
    done = run("resume", mine, identity, "--answer", "book=2")
    assert (done.exit_code, done.stdout) == (0, "paid Ada; 2 nights\n")
    assert run("replay", mine, identity, "--journal", "own.db").stdout == done.stdout


def test_a_reason_and_an_id_on_the_command_line(run, mine):
    identity = paused_run(run, mine)
    done = run("resume", mine, identity, "--deny", "call_1_1=not this one", "--answer", "call_1_2=3")
    assert done.exit_code == 2, "nothing asks yet"
    assert "It waits for: call_1_1 (refund)" in done.output
    run("resume", mine, identity, "--deny", "call_1_1=not this one")
    done = run("resume", mine, identity, "--answer", "call_1_2=3")
    assert "not this one" in done.stdout
    assert "3 nights" in done.stdout


def test_a_file_that_is_not_there_is_named(run, mine):
    assert "no such file: gone.py" in run("tools", "gone.py:agent").output


@pytest.mark.parametrize(
    "words",
    [("--answer", "book"), ("--approve", "nothing"), ("--deny", "refund", "--answer", 'call_1_1={"customer": "Bob"}')],
)
def test_a_wrong_decision_is_wrong_usage(run, mine, words):
    assert run("resume", mine, paused_run(run, mine), *words).exit_code == 2
