"""Other models to continue with: when, in which order, and what becomes of the errors."""

import pytest

from agentkit import JsonAgent, ModelError, ToolRegistry
from agentkit.core.messages import user
from agentkit.policies.retries import FallenBack, fallback
from agentkit.testing import ScriptedModel
from agentkit.tools.final_answer import make_answer_tool

CALL = {"tool_calls": [{"name": "work"}]}
END = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "ready"}}]}


def failure(kind="server", **more) -> ModelError:
    return ModelError(f"no luck: {kind}", kind=kind, **more)


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def work(ran):
    def work() -> str:
        """Works."""
        ran.append("work")
        return "done"

    return work


def loop_with_fallback(world, work, first, *others, **more):
    """Run the loop under this policy alone; return the answer and the events."""
    tools = ToolRegistry(work, answer=make_answer_tool())
    answer, events = world.loop(first, tools, [user("Work.")], fallback(others, **more))
    return answer.value, events


@pytest.mark.parametrize(
    "kind",
    [
        "authentication",
        "bad_request",
        "connection",
        "context",
        "internal",
        "not_found",
        "rate_limit",
        "server",
        "timeout",
    ],
)
def test_the_next_model_continues_the_same_conversation(world, work, ran, kind):
    first = ScriptedModel(CALL, failure(kind), name="first")
    second = ScriptedModel(CALL, END, name="second")
    answer, events = loop_with_fallback(world, work, first, second)
    assert answer == "ready"
    assert ran == ["work", "work"], "each call ran once"
    assert second.requests[0].messages == first.requests[1].messages
    (fallen,) = [event for event in events if isinstance(event, FallenBack)]
    assert (fallen.model, fallen.error.kind) == ("second", kind)


def test_the_run_stays_with_the_model_that_works_and_the_next_run_begins_anew(world, work):
    first = ScriptedModel(failure(), END, name="first")
    second = ScriptedModel(CALL, CALL, END, name="second")
    team = JsonAgent(work, model=first, fallback_models=[second], retries=0)
    world.run(team, "Work.")
    assert (len(first.requests), len(second.requests)) == (1, 3)
    world.run(team, "Work.")
    assert (len(first.requests), len(second.requests)) == (2, 3)


def test_when_that_one_fails_the_others_are_asked_in_turn(world, work):
    first = ScriptedModel(failure(), CALL, END, name="first")
    second = ScriptedModel(CALL, failure("timeout"), name="second")
    third = ScriptedModel(failure("rate_limit"), name="third")
    answer, events = loop_with_fallback(world, work, first, second, third)
    assert answer == "ready"
    assert [event.model for event in events if isinstance(event, FallenBack)] == ["second", "third", "first"]


def test_when_all_fail_the_last_error_names_the_others(world, work):
    models = [ScriptedModel(failure(kind), name=kind) for kind in ("server", "authentication", "rate_limit")]
    with pytest.raises(ModelError, match="rate_limit") as caught:
        loop_with_fallback(world, work, *models)
    assert caught.value.__notes__ == ["Asked before: no luck: server", "Asked before: no luck: authentication"]
    assert [len(model.requests) for model in models] == [1, 1, 1]


def test_a_refusal_stays_one_unless_it_is_asked_for(world, work):
    second = ScriptedModel(END, name="second")
    with pytest.raises(ModelError, match="refused"):
        loop_with_fallback(world, work, ScriptedModel(failure("refused")), second)
    assert second.requests == []
    assert loop_with_fallback(world, work, ScriptedModel(failure("refused")), second, kinds={"refused"})[0] == "ready"


def test_other_kinds_can_be_left_out(world, work):
    with pytest.raises(ModelError, match="not_found"):
        loop_with_fallback(world, work, ScriptedModel(failure("not_found")), ScriptedModel(END), kinds={"server"})


def test_other_exceptions_of_a_backend_are_its_fault_too(world, work):
    assert loop_with_fallback(world, work, ScriptedModel(KeyError("oops")), ScriptedModel(END))[0] == "ready"
