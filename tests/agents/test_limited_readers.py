"""Readers in an agent: data goes to those who may read it, through inner agents, notes and saved sessions."""

import json

import pytest
from limited_tools import ANN, BOB, PAY, QUERY, TOOLS, get_pay, send

from agentkit import JsonAgent, Limits, Paused, RunContext, Session, tool
from agentkit.core.messages import Label
from agentkit.testing import ScriptedModel, answer, call


def waits(world, *replies, query=QUERY, tools=TOOLS, session=None, **settings):
    """Return the tools whose calls wait for a decision."""
    agent = JsonAgent(*tools, model=ScriptedModel(*replies, answer("Done.")), **settings)
    try:
        world.run(agent, query, **({"session": session} if session else {}))
    except Paused as pause:
        return [waiting.name for waiting in pause.calls]
    return []


class TestTheWaysOfAText:
    """The readers stay with a text wherever it goes."""

    def test_through_an_inner_agent_and_back(self, world):
        inner = JsonAgent(get_pay, model=ScriptedModel(PAY, answer("4,711")))
        clerk = inner.as_tool("clerk", "Reads.")
        turns = call("clerk", query="Read."), call("send", to=BOB, text="4,711")
        assert waits(world, *turns, tools=(clerk, send)) == ["send"]

    def test_into_an_inner_agent(self, world):
        inner = JsonAgent(send, model=ScriptedModel(call("send", to=BOB, text="much"), answer("Done.")))
        clerk = inner.as_tool("clerk", "Writes.")
        assert waits(world, PAY, call("clerk", query="Tell Bob 4,711."), tools=(get_pay, clerk)) == ["send"]

    def test_an_inner_agent_may_send_what_its_recipient_may_read(self, world):
        inner = JsonAgent(send, model=ScriptedModel(call("send", to=BOB, text="hello"), answer("Done.")))
        clerk = inner.as_tool("clerk", "Writes.")
        assert waits(world, PAY, call("clerk", query="Tell Bob 4,711."), tools=(get_pay, clerk)) == []

    def test_a_query_a_note_and_a_tool_may_limit_them(self, world):
        @tool
        def look(run: RunContext) -> str:
            """Looks."""
            run.limit_readers(ANN)
            run.say("It is 4,711.")
            return "looked"

        leak = call("send", to=BOB, text="4,711")
        assert waits(world, call("look"), leak, tools=(look, send)) == ["send"]
        agent = JsonAgent(send, model=ScriptedModel(leak, answer("Done.")))
        agent.say("It is 4,711.", label=Label("user", readers=(ANN,)))
        with pytest.raises(Paused):
            world.run(agent, QUERY)
        agent = JsonAgent(send, model=ScriptedModel(leak, answer("Done.")))
        with pytest.raises(Paused):
            world.run(agent, "Tell 4,711.", label=Label("user", readers=(ANN,)))

    def test_through_a_file_and_a_long_result(self, world, tmp_path):
        book = tool(lambda: "x " * 400 + "4,711" + " x" * 400, name="book", description="Reads.", readers=[ANN])
        agent = JsonAgent(book, model=ScriptedModel(call("book"), answer("Done.")), limits=Limits(result_chars=200))
        world.run(agent, "Read.")
        [identity] = agent.session.cut.texts
        agent.session.messages[2:] = []
        agent.session.save(tmp_path / "s.json")
        turns = call("read_more", at=f"{identity}:780"), call("send", to=BOB, text="4,711")
        session = Session.load(tmp_path / "s.json")
        assert waits(world, *turns, tools=(send,), session=session, limits=Limits(result_chars=200)) == ["send"]


class TestHidden:
    """With "hidden" the results are handles, which have the readers."""

    def test_the_model_reads_nothing_of_it_and_after_it_did_every_call_to_others_waits(self, world):
        reveal = call("reveal_result", reference="#1")
        model = ScriptedModel(PAY, reveal, call("send", to=ANN), call("send", to=BOB), answer("Done."))
        agent = JsonAgent(*TOOLS, model=model, untrusted="hidden")
        with pytest.raises(Paused) as caught:
            world.run(agent, QUERY)
        assert [json.loads(waiting.arguments)["to"] for waiting in caught.value.calls] == [BOB]
        assert agent.history[3]["content"] == "#1 from get_pay, 24 characters"
        assert "4,711" in agent.history[5]["content"]

    def test_an_extract_has_its_readers(self, world):
        inner = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": True}}]}
        ask = call("extract_value", reference="#1", question="Is it much?", kind="yes_or_no")
        assert waits(world, PAY, ask, inner, call("send", to=BOB, text="hello"), untrusted="hidden") == ["send"]
        assert waits(world, PAY, ask, inner, call("send", to=ANN, text="hello"), untrusted="hidden") == []
