"""A branch begins with the first steps of a run, which itself is not changed."""

import pytest
from journaled_runs import ADD, add, agent_of, resume, stop_run

from agentkit import JsonAgent
from agentkit.journal import JournalError, fork, runs, show
from agentkit.testing import ScriptedModel, answer, call


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_branch_continues_from_any_step(world, path, step):
    result = world.run(agent_of(path, ADD, call("add", a=3, b=4), answer("10")), "Go")
    branch = fork(result.run_id, step, store=path)
    assert branch != result.run_id
    model = ScriptedModel(answer("branched"))
    other = resume(world, JsonAgent([add], model=model, journal=path, description="Other."), branch)
    assert other.answer == "branched"
    roles = ["system", "user", *["assistant", "tool"] * step]
    assert [message["role"] for message in model.requests[0].messages] == roles
    assert show(result.run_id, store=path).messages == result.messages
    assert {run.id: run.origin for run in runs(path)}[branch] == f"{result.run_id}:{step}"
    with pytest.raises(JournalError, match="from 0 to 2, got 3"):
        fork(result.run_id, 3, store=path)


def test_a_branch_continues_with_other_tools_and_another_instruction(path):
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    result = agent_of(path, ADD, answer("3")).run("Go")
    model = ScriptedModel(call("double", n=3), answer("6"))
    agent = agent_of(path)
    branch = agent.fork(result.run_id, 1, tools=[double], instruction="Double it.", model=model)
    assert branch.answer == "6"
    assert sorted(model.requests[0].tools) == ["double", "final_answer"]
    assert branch.messages[0]["content"] == "Double it."
    assert agent.instruction != "Double it."
    assert [*agent.tools] == ["final_answer", "add"]
    assert branch.run_id != result.run_id


def test_an_unfinished_run_is_branched_with_its_results(world, path):
    run_id = stop_run(world, path, ADD)
    branch = fork(run_id, 1, store=path)
    assert resume(world, agent_of(path, answer("3")), branch).steps == 2
    assert resume(world, agent_of(path, answer("3")), run_id).answer == "3"


@pytest.mark.parametrize(("step", "handed"), [(0, ()), (1, ("other",))])
def test_a_branch_continues_with_the_agent_that_had_the_conversation_at_that_step(world, path, step, handed):
    def team(first, *replies):
        other = JsonAgent(add, model=ScriptedModel(*replies))
        return JsonAgent(add, model=ScriptedModel(first), handoffs={"other": other}, journal=path)

    run_id = world.run(team(call("transfer_to_other", reason="sums"), ADD, answer("3")), "Go").run_id
    branch = fork(run_id, step, store=path)
    result = resume(world, team(answer("first"), answer("other")), branch)
    assert (result.answer, result.handed) == (handed[0] if handed else "first", handed)
