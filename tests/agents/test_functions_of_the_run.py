"""The description and the model as functions of the run: called once a run, and stored with it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentkit import DefinitionError, JsonAgent, Paused, RunContext, RunError, Session, tool
from agentkit.testing import ModelServer, ScriptedModel, answer, call, calls

ANSWER = answer("done")
DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}


def look() -> str:
    """Looks around."""
    return "a door"


@tool(effect="danger")
def erase() -> str:
    """Erases all."""
    return "erased"


@dataclass
class Written:
    """Functions of the run that count their calls."""

    described: list[Any] = field(default_factory=list)
    chosen: list[Any] = field(default_factory=list)

    def describe(self, context: RunContext[Any]) -> str:
        self.described.append(context.deps)
        return f"You serve {context.deps}, call {len(self.described)}."

    def choose(self, context: RunContext[Any]) -> str:
        self.chosen.append(context.deps)
        return f"openai/{context.deps}"


def finish(world: Any, run: Callable[..., Any], arun: Callable[..., Any], *args: Any, **how: Any) -> Any:
    return run(*args, **how) if world.name == "sync" else asyncio.run(arun(*args, **how))


def first_text(messages: list[dict[str, Any]]) -> str:
    return str(messages[0]["content"])


def test_each_run_has_a_description_of_its_own(world):
    written = Written()
    model = ScriptedModel(calls(call("look")), ANSWER, ANSWER)
    agent = JsonAgent(look, model=model, description=written.describe)
    session = Session()
    world.run(agent, "?", deps="Ada", session=session)
    world.run(agent, "And?", deps="Bob", session=session)
    texts = [first_text(request.messages) for request in model.requests]
    assert [text.partition(".")[0] for text in texts] == [
        "You serve Ada, call 1",
        "You serve Ada, call 1",
        "You serve Bob, call 2",
    ]
    assert written.described == ["Ada", "Bob"]
    assert all("call final_answer" in text for text in texts)


def test_a_function_of_the_run_chooses_a_model_object(world):
    models = {"quick": ScriptedModel(ANSWER, name="quick"), "able": ScriptedModel(ANSWER, name="able")}
    agent = JsonAgent(look, model=lambda context: models[context.deps], fallback_models=[ScriptedModel(ANSWER)])
    assert [world.run(agent, "?", deps=name).model for name in ("able", "quick")] == ["able", "quick"]
    assert world.run(agent, "?", deps="able", model=ScriptedModel(ANSWER, name="named")).model == "named"
    assert [len(model.requests) for model in models.values()] == [1, 1]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_run_that_continues_keeps_its_description_and_its_model(world, is_streamed):
    written = Written()
    with ModelServer({"tool_calls": [{"name": "erase"}]}, DONE) as server:
        agent = make_agent(written, server)
        session = Session()
        with pytest.raises(Paused):
            world.run(agent, "?", deps="gpt-4o-mini", session=session)
        session = Session.from_dict(session.as_dict())
        how = {"deps": "gpt-4o", "session": session, "answers": {session.pending[0].id: True}}
        result = world.stream(agent, None, **how)[-1].result if is_streamed else world.run(agent, None, **how)
        bodies = [sent.body for sent in server.requests]
    assert result.answer == "done"
    assert [body["model"] for body in bodies] == ["gpt-4o-mini", "gpt-4o-mini"]
    assert first_text(bodies[0]["messages"]) == first_text(bodies[1]["messages"])
    assert (written.described, written.chosen) == (["gpt-4o-mini"], ["gpt-4o-mini"])


def make_agent(written: Written, server: ModelServer, **options: Any) -> JsonAgent[str]:
    base = server.api_base("openai")
    return JsonAgent(
        look, erase, model=written.choose, description=written.describe, api_base=base, api_key="k", **options
    )


def test_a_run_that_is_resumed_from_a_journal_has_what_was_stored_with_it(world, tmp_path):
    journal = str(tmp_path / "runs.db")
    first = Written()
    later = Written(described=["another"])
    with ModelServer({"tool_calls": [{"name": "erase"}]}, DONE, DONE) as server:
        with pytest.raises(Paused) as paused:
            world.run(make_agent(first, server, journal=journal), "?", deps="gpt-4o-mini")
        agent = make_agent(later, server, journal=journal)
        answers = {paused.value.pending[0].id: True}
        how = {"answers": answers, "deps": "gpt-4o"}
        result = finish(world, agent.resume, agent.aresume, paused.value.run_id, **how)
        assert result.answer == "done"
        assert (later.described, later.chosen) == (["another"], [])
        world.run(agent, "And now?", deps="gpt-4o")
        bodies = [sent.body for sent in server.requests]
    assert [body["model"] for body in bodies] == ["gpt-4o-mini", "gpt-4o-mini", "gpt-4o"]
    texts = [first_text(body["messages"]).partition(".")[0] for body in bodies]
    assert texts == ["You serve gpt-4o-mini, call 1"] * 2 + ["You serve gpt-4o, call 2"]


def test_a_replay_calls_no_function_of_the_run(world, tmp_path):
    path = str(tmp_path / "run.jsonl")
    written = Written()
    with ModelServer({"tool_calls": [{"name": "look"}]}, DONE) as server:
        agent = make_agent(written, server)
        world.run(agent, "?", deps="gpt-4o-mini", record=path)
    assert finish(world, agent.replay, agent.areplay, path).answer == "done"
    assert (written.described, written.chosen) == (["gpt-4o-mini"], ["gpt-4o-mini"])


def test_an_agent_that_gets_the_conversation_is_described_for_its_part(world):
    own = ScriptedModel(ANSWER, name="own")
    clerk = JsonAgent(look, model=lambda context: own, description=lambda context: f"Clerk of {context.deps}.")
    desk = JsonAgent(look, model=ScriptedModel(calls(call("transfer_to_clerk", reason="x"))), handoffs={"clerk": clerk})
    result = world.run(desk, "?", deps="Ada")
    assert result.model == "own"
    assert first_text(own.requests[0].messages).startswith("Clerk of Ada.")


def test_what_shows_an_agent_names_neither_a_function_nor_its_text():
    agent = JsonAgent(look, model=lambda context: "offline", description=lambda context: "You help.")
    assert "chosen for each run" in repr(agent)
    assert agent.instruction.startswith("Work through the task")
    assert agent.choose_backend()[0].name == "chosen for each run"
    with pytest.raises(DefinitionError, match="description"):
        agent.as_tool("helper")
    assert agent.as_tool("helper", "Helps.").description == "Helps."


async def late(context: RunContext[Any]) -> str:
    return "late"


@pytest.mark.parametrize("option", ["description", "model"])
@pytest.mark.parametrize(
    ("function", "reason"), [(lambda: "x", "must take one argument, the context"), (late, "async")]
)
def test_a_function_that_a_run_cannot_call_is_refused(option, function, reason):
    with pytest.raises(DefinitionError, match=f"{option}.*{reason}"):
        JsonAgent(look, **{option: function})


@pytest.mark.parametrize(("option", "value"), [("description", 3), ("model", None), ("model", 3)])
def test_another_value_of_the_function_is_refused(world, option, value):
    agent = JsonAgent(look, **{"model": ScriptedModel(ANSWER), option: lambda context: value})
    with pytest.raises(DefinitionError, match=option):
        world.run(agent, "?")


def test_the_error_of_a_function_ends_the_run_and_leaves_the_session_free(world):
    agent = JsonAgent(look, model=ScriptedModel(ANSWER), description=lambda context: context.deps["name"])
    session = Session()
    with pytest.raises(RunError, match="description=<lambda>: the function of the run failed: KeyError: 'name'"):
        world.run(agent, "?", session=session, deps={})
    assert world.run(agent, "?", session=session, deps={"name": "You help."}).answer == "done"
