"""A branch begins with the first steps of a run, which itself is not changed."""

import pytest
from journaled_runs import ADD, add, agent_of, resume, stop_run

from agentkit import JsonAgent, tool
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


def test_a_branch_begins_with_other_results_and_messages(world, path):
    result = world.run(agent_of(path, ADD, call("add", a=3, b=4), answer("10")), "Go")
    edit = {result.calls[0].call.id: "100", 1: "Go on with care"}
    branch = fork(result.run_id, 1, edit=edit, store=path)
    model = ScriptedModel(answer("branched"))
    assert resume(world, JsonAgent([add], model=model, journal=path), branch).answer == "branched"
    shown = [message["content"] for message in model.requests[0].messages]
    assert shown[1:] == ["Go on with care", None, "100"]
    assert show(result.run_id, store=path).messages == result.messages
    assert [run.query for run in runs(path)] == ["Go on with care", "Go"]
    calls = [span for span in show(branch, store=path).trace["spans"] if span["kind"] == "tool"]
    assert len(calls) == 1


def test_an_agent_forks_with_another_result(path):
    result = agent_of(path, ADD, answer("3")).run("Go")
    model = ScriptedModel(answer("branched"))
    branch = agent_of(path).fork(result.run_id, 1, edit={result.calls[0].call.id: "100"}, model=model)
    assert branch.messages[3]["content"] == "100"


def test_the_result_of_an_interrupted_step_is_edited(world, path):
    run_id = stop_run(world, path, ADD)
    call_id = show(run_id, store=path).messages[2]["tool_calls"][0]["id"]
    branch = fork(run_id, 1, edit={call_id: "100"}, store=path)
    model = ScriptedModel(answer("100"))
    resume(world, JsonAgent([add], model=model, journal=path), branch)
    assert model.requests[0].messages[3]["content"] == "100"


def test_an_edited_result_keeps_its_label(world, path):
    @tool(trust="untrusted")
    def read() -> str:
        """Read."""
        return "text of others"

    result = world.run(agent_of(path, call("read"), answer("ok"), tools=[read]), "Go")
    model = ScriptedModel(answer("ok"))
    branch = fork(result.run_id, 1, edit={result.calls[0].call.id: "other text"}, store=path)
    resumed = resume(world, JsonAgent(read, model=model, journal=path), branch)
    assert resumed.messages[3]["label"] == result.messages[3]["label"]
    assert resumed.messages[3]["label"]["integrity"] == "untrusted"


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"call_9": "x"}, "edit has 'call_9', but there are 'call_1_1', 0 to 3"),
        ({4: "x"}, "edit has 4, but there are 'call_1_1', 0 to 3"),
        ({-1: "x"}, "edit has -1, but there are"),
        ({3: "x"}, "message 3 is a result. Edit it by the id of its call"),
        ({"call_1_1": 5}, r"edit\['call_1_1'\] must be a text, got 5"),
        ([(1, "x")], r"expected an integer and a dict of edits, got 1 and \[\(1, 'x'\)\]"),
    ],
)
def test_what_cannot_be_edited_is_named(path, edit, problem):
    result = agent_of(path, ADD, answer("3")).run("Go")
    with pytest.raises(JournalError, match=problem):
        fork(result.run_id, 1, edit=edit, store=path)
