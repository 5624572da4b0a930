"""Parameters that the model does not see."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from agentkit import DefinitionError, JsonAgent, JsonTool
from agentkit.core.context import Injected, RunContext
from agentkit.testing import ScriptedModel


class Database:
    def __init__(self, name: str = "main") -> None:
        self.name = name


@dataclass
class Services:
    db: Database
    limit: int = 3


def look_up(key: str, db: Injected[Database], run: RunContext[Services], note: str = "-") -> str:
    """Looks something up."""
    run.state["seen"] = run.state.get("seen", 0) + 1
    return (
        f"{key} in {db.name}, {run.deps.limit}, {note}, call {run.call.id}, {run.state['seen']}, {run.usage().requests}"
    )


def other_form(key: str, db: Annotated[Database, Injected]) -> str:
    """Looks something up."""
    return f"{key} in {db.name}"


def script():
    return ScriptedModel(
        {"tool_calls": [{"id": "c1", "name": "look_up", "arguments": {"key": "a"}}]},
        {"tool_calls": [{"id": "c2", "name": "look_up", "arguments": {"key": "b", "note": "n"}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]},
    )


def test_injected_parameters_are_hidden_and_filled_by_the_agent(world):
    assert list(JsonTool(look_up).parameters["properties"]) == ["key", "note"]
    agent = JsonAgent(look_up, model=script(), deps=Services(Database("orders")))
    result = world.run(agent, "look up a and b")
    assert [call.content for call in result.calls[:2]] == [
        "a in orders, 3, -, call c1, 1, 1",
        "b in orders, 3, n, call c2, 2, 2",
    ]


def test_the_state_lives_as_long_as_the_run():
    agent = JsonAgent(look_up, model=script(), deps=Services(Database()))
    assert ", 2, 2" in agent.run("once").calls[1].content
    assert ", 2, 2" in agent.run("twice", model=script()).calls[1].content


@pytest.mark.parametrize("deps", [Database("x"), {"first": Database("x"), "n": 1}, Services(Database("x"))])
def test_what_has_the_type_is_injected(deps):
    tool = JsonTool(other_form)
    assert list(tool.parameters["properties"]) == ["key"]
    ready = tool.bind('{"key": "a"}', RunContext(deps)).ready
    assert ready() == "a in x"


def test_a_value_the_model_writes_for_a_hidden_parameter_is_refused():
    info = JsonTool(other_form).bind('{"key": "a", "db": "mine"}', RunContext(Database())).ready
    assert "db" in info.message


@pytest.mark.parametrize("deps", [7, {"a": Database(), "b": Database()}])
def test_an_agent_without_what_its_tools_want_is_refused_when_it_is_made(deps):
    with pytest.raises(DefinitionError, match=r"exactly one Database.*JsonAgent\(\.\.\., deps="):
        JsonAgent(other_form, model=ScriptedModel(), deps=deps)


def test_without_deps_of_the_agent_each_run_gives_its_own(world):
    agent = JsonAgent(other_form, model=ScriptedModel())
    with pytest.raises(DefinitionError, match=r"exactly one Database"):
        world.run(agent, "?")
    with pytest.raises(DefinitionError, match=r"exactly one Database"):
        world.run(agent, "?", deps=7)
    assert not agent.session.messages


def test_injection_goes_by_type_never_by_name():
    def f(run: str, context: str, deps: str) -> str:
        """Does."""
        return run + context + deps

    assert list(JsonTool(f).parameters["properties"]) == ["run", "context", "deps"]


def test_injection_works_by_position_and_for_coroutines():
    async def f(a: int, db: Injected[Database], /, *rest: int) -> str:
        """Does."""
        return f"{a} {db.name} {rest}"

    ready = JsonTool(f).bind('{"a": 1, "rest": [2]}', RunContext(Database("x"))).ready
    assert asyncio.run(ready()) == "1 x (2,)"


def test_the_context_is_what_a_parameter_of_its_type_gets():
    def f(run: RunContext, typed: RunContext[int]) -> Any:
        """Reads."""
        return run, typed

    context = RunContext(7)
    assert JsonTool(f).bind("{}", context).ready() == (context, context)
