"""A dry run: what reads is done, the rest is listed."""

import pickle

import pytest

from agentkit import DefinitionError, InputRequired, JsonAgent, Paused, Question, RunError, tool
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call, calls

DONE = []


@tool(effect="read")
def find(name: str) -> str:
    """Finds a file."""
    DONE.append(("find", name))
    return f"{name}.txt"


@tool(effect="danger")
def erase(path: str) -> str:
    """Erases a file."""
    DONE.append(("erase", path))
    return "erased"


@tool(effect="write", isolate=None, retries=0)
async def store(path: str) -> str:
    """Stores a file."""
    DONE.append(("store", path))
    return "stored"


def send(to: str) -> str:
    """Sends a message."""
    DONE.append(("send", to))
    return "sent"


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


SCRIPT = (
    call("find", name="a"),
    calls(call("erase", path="a.txt"), call("store", path="b.txt"), call("send", to="ann@example.com")),
    answer("done"),
)


def test_reads_are_made_and_everything_else_is_listed(world):
    agent = JsonAgent(find, erase, store, send, model=ScriptedModel(*SCRIPT), approve=lambda call: call.name == "find")
    result = world.run(agent, "Tidy up", dry_run=True)
    assert DONE == [("find", "a")]
    assert [(entry.name, entry.arguments) for entry in result.planned] == [
        ("erase", '{"path": "a.txt"}'),
        ("store", '{"path": "b.txt"}'),
        ("send", '{"to": "ann@example.com"}'),
    ]
    read = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert read == ["a.txt", *["Not run (dry run)"] * 3, "The answer was given."]
    assert pickle.loads(pickle.dumps(result)).planned == result.planned
    assert result.answer == "done"
    assert not any(entry.error for entry in result.calls)


def test_many_calls_that_are_not_made_end_no_run(world):
    script = [call("store", path=f"{number}") for number in range(12)]
    agent = JsonAgent(store, model=ScriptedModel(*script, answer("done")))
    assert len(world.run(agent, "Store all", dry_run=True).planned) == 12


def test_neither_the_conversation_nor_a_journal_has_the_run(world, tmp_path):
    file = tmp_path / "runs.db"
    agent = JsonAgent(find, erase, store, send, model=ScriptedModel(*SCRIPT, *SCRIPT), journal=file)
    world.run(agent, "Tidy up", dry_run=True)
    assert agent.session.messages == []
    assert not file.exists() or runs(file) == []
    with pytest.raises(Paused):
        world.run(agent, "Tidy up")
    assert [entry.call.name for entry in agent.session.pending] == ["erase"]


def test_a_dry_run_that_pauses_cannot_be_resumed_as_another_run(world):
    @tool(effect="read")
    def look(where: str) -> str:
        """Looks."""
        raise InputRequired(Question("Where?", {"type": "string"}))

    agent = JsonAgent(look, model=ScriptedModel(call("look", where="x"), answer("done"), answer("again")))
    with pytest.raises(Paused) as paused:
        world.run(agent, "Look", dry_run=True)
    with pytest.raises(RunError, match="the session is that of a dry run, it cannot be resumed"):
        world.run(agent, None, session=paused.value.session, answers={paused.value.pending[0].id: "here"})


def test_an_agent_that_gets_the_conversation_makes_no_calls_either(world):
    clerk = JsonAgent(erase, description="Erases.", model=ScriptedModel(call("erase", path="x"), answer("done")))
    desk = JsonAgent(find, model=ScriptedModel(call("transfer_to_clerk", reason="files")), handoffs={"clerk": clerk})
    result = world.run(desk, "Erase x", dry_run=True)
    assert (result.handed, [entry.name for entry in result.planned], DONE) == (("clerk",), ["erase"], [])


def test_an_agent_that_is_a_tool_is_listed(world):
    clerk = JsonAgent(erase, model=ScriptedModel(call("erase", path="x"), answer("done")))
    desk = JsonAgent(clerk.as_tool("clerk", "Erases."), model=ScriptedModel(call("clerk", query="x"), answer("done")))
    assert [entry.name for entry in world.run(desk, "Erase x", dry_run=True).planned] == ["clerk"]
    assert DONE == []


def test_the_option_is_true_or_false():
    with pytest.raises(DefinitionError, match="dry_run must be True or False, got 'yes'"):
        JsonAgent(find, model="offline").run("x", dry_run="yes")
