"""Tools that change from step to step."""

import pytest

from agentkit import DefinitionError, JsonAgent, RunContext
from agentkit.testing import ScriptedModel, answer, call


def unlock(run: RunContext) -> str:
    """Opens the door."""
    run.state["open"] = True
    return "open"


def enter() -> str:
    """Goes in."""
    return "inside"


def look() -> str:
    """Looks around."""
    return "a door"


ANSWER = answer("in")


def test_a_function_of_the_run_chooses_the_tools(world):
    model = ScriptedModel(call("enter"), call("unlock"), call("enter"), ANSWER)
    agent = JsonAgent(look, tools=lambda run: [enter] if run.state.get("open") else [unlock], model=model)
    result = world.run(agent, "Go in.")
    assert result.answer == "in"
    offered = [[*request.tools] for request in model.requests]
    locked = ["final_answer", "look", "unlock"]
    unlocked = ["final_answer", "look", "enter"]
    assert offered == [locked, locked, unlocked, unlocked]
    assert [call.content for call in result.calls][1:3] == ["open", "inside"]
    assert "no tool 'enter'" in result.calls[0].content
    assert model.requests[0].tools is model.requests[1].tools  # the same tools: nothing is made anew


def test_a_call_has_the_tools_that_its_request_offered(world):
    """The function counts the requests: it would take the tool away between the request and the call."""
    asked = []

    def select(run: RunContext) -> list:
        asked.append(run.usage().requests)
        return [enter] if run.usage().requests < 1 else [unlock]

    result = world.run(JsonAgent(tools=select, model=ScriptedModel(call("enter"), ANSWER)), "Go in.")
    assert result.calls[0].content == "inside"
    assert asked == [0, 1]


def test_a_list_of_tools_may_be_given_by_name(world):
    model = ScriptedModel(call("look"), call("enter"), ANSWER)
    assert world.run(JsonAgent(look, tools=[enter], model=model), "Go in.").answer == "in"


def test_a_tool_that_is_there_already_is_refused(world):
    agent = JsonAgent(look, tools=lambda run: [look], model=ScriptedModel(ANSWER))
    with pytest.raises(DefinitionError, match="two tools are called 'look'"):
        world.run(agent, "Go in.")
    assert len(agent.history) == 1


def test_an_agent_without_tools_is_refused():
    with pytest.raises(DefinitionError, match="an agent needs tools"):
        JsonAgent(tools=[])
