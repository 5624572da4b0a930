"""Conversations of a journal: opened by name, cleared, handed over."""

import pytest
from journaled_runs import ADD, Stopped, add, agent_of, resume, stop, stop_run

from agentkit import JsonAgent, RunError, Session
from agentkit.journal import JournalError, runs, show
from agentkit.testing import ScriptedModel, answer, call


class TestNames:
    """`Session.open` begins a conversation, or continues the one of that name."""

    def test_a_conversation_continues_by_its_name(self, world, path):
        agent = agent_of(None, answer("hello"), answer("again"))
        agent.journal = None
        world.run(agent, "Hi", session=Session.open("kolkata", store=path))
        session = Session.open("kolkata", store=path)
        assert world.run(agent, "Hi again", session=session).answer == "again"
        assert [m["content"] for m in session.messages if m["role"] == "user"] == ["Hi", "Hi again"]
        assert session.usage.requests == 2
        assert Session.open("kolkata", store=path).messages == session.messages
        assert Session.open("mumbai", store=path).messages == []

    def test_a_stopped_run_continues_without_a_query(self, world, path):
        with pytest.raises(Stopped):
            world.run(agent_of(path, ADD, stop), "Go", session=Session.open("kolkata", path))
        session = Session.open("kolkata", path)
        assert world.run(agent_of(path, answer("3")), None, session=session).answer == "3"

    def test_a_new_query_supersedes_the_stopped_run(self, world, path):
        run_id = stop_run(world, path, ADD)
        session = Session.resumed(run_id, path)
        assert world.run(agent_of(path, answer("other")), "Something else", session=session).answer == "other"
        assert {run.query: run.state for run in runs(path)} == {"Go": "superseded", "Something else": "finished"}
        with pytest.raises(JournalError, match="continued with another run"):
            agent_of(path).resume(run_id)

    def test_the_run_before_a_cleared_history_can_still_be_shown(self, world, path):
        session = Session.open("kolkata", path)
        agent = agent_of(path, ADD, answer("3"), answer("new"))
        first = world.run(agent, "Go", session=session)
        session.clear()
        world.run(agent, "Anew", session=session)
        assert [m["role"] for m in show(first.run_id, store=path).messages] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]
        assert [m["content"] for m in Session.open("kolkata", path).messages if m["role"] == "user"] == ["Anew"]

    def test_a_conversation_is_in_one_journal(self, world, path, new_journal):
        session = Session.open("kolkata", path)
        with pytest.raises(RunError, match="Leave journal= out"):
            world.run(agent_of(new_journal(), answer("3")), "Go", session=session)


def test_hand_offs_are_restored(world, path):
    def team(*replies):
        other = JsonAgent(add, model=ScriptedModel(*replies), description="You are the other.")
        first = ScriptedModel(call("transfer_to_other", reason="sums"))
        return JsonAgent(add, model=first, handoffs={"other": other}, journal=path, description="You are the first.")

    with pytest.raises(Stopped):
        world.run(team(ADD, stop), "Go")
    result = resume(world, team(answer("3")), runs(path)[0].id)
    assert (result.answer, result.handed) == ("3", ("other",))
    assert result.messages[0]["content"].startswith("You are the other.")
