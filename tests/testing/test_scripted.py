"""The model that plays a script."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

import pytest

from agentkit import JsonAgent, ModelError, ToolRegistry
from agentkit.core.messages import calls_of, user
from agentkit.engine.model import Reply, Request, TextDelta, ToolCallDelta
from agentkit.testing import ScriptedModel, answer, call, calls

REQUEST = Request([user("?")], ToolRegistry())


def played(model, request=REQUEST):
    return list(model.ask(request))


def test_every_form_of_reply():
    given = Reply({"role": "assistant", "content": "as it is"})
    model = ScriptedModel(
        "a text",
        {
            "tool_calls": [{"id": "x", "name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": "{broken"}],
            "content": "hm",
        },
        ValueError("no"),
        given,
    )
    assert played(model)[-1].message == {"role": "assistant", "content": "a text"}
    message = played(model)[-1].message
    assert message["content"] == "hm"
    assert [(call.name, call.arguments) for call in calls_of(message)] == [("f", '{"a": 1}'), ("g", "{broken")]
    assert calls_of(message)[0].id == "x"
    with pytest.raises(ValueError, match="no"):
        played(model)
    assert played(model) == [given]
    model.assert_done()


def test_a_reply_may_have_a_finish_reason_and_may_react_to_the_request():
    model = ScriptedModel(
        {"content": "cut", "finish_reason": "length"},
        lambda request: {"tool_calls": [{"name": request.messages[-1]["content"]}]},
        lambda request: ConnectionError("gone"),
    )
    assert played(model)[-1].finish_reason == "length"
    assert calls_of(played(model, Request([user("add")], ToolRegistry()))[-1].message)[0].name == "add"
    with pytest.raises(ConnectionError):
        played(model)


def test_a_reply_counts_its_usage():
    reply = {**answer("hello"), "usage": {"input_tokens": 70, "output_tokens": 5, "cost": 0.25}}
    usage = played(ScriptedModel(reply))[-1].usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.cost) == (1, 70, 5, 0.25)


def test_an_unknown_key_of_a_reply_is_refused():
    with pytest.raises(TypeError, match=r"no key 'status'. Its keys are: tool_calls, .*ModelServer plays faults"):
        played(ScriptedModel({"status": 503}))


def test_a_script_that_is_not_played_to_its_end_fails():
    model = ScriptedModel(["one", "two"])
    played(model)
    with pytest.raises(AssertionError, match=r"the script has 1 unused replies.*'two'"):
        model.assert_done()


def test_asking_past_the_end_fails():
    def work() -> None:
        """Works."""

    with pytest.raises(ModelError, match="the script has 0 replies"):
        JsonAgent(work, model=ScriptedModel([]))("?")


def test_a_stream_comes_in_pieces():
    model = ScriptedModel({"content": "one two  three", "tool_calls": [{"name": "f"}]})
    pieces = played(model, Request([user("?")], ToolRegistry(), stream=True))
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "one two  three"
    assert ToolCallDelta(0, "f", "{}") in pieces
    assert isinstance(pieces[-1], Reply)


def test_a_wrong_entry_is_a_clear_error():
    with pytest.raises(TypeError, match="a scripted reply must be"):
        played(ScriptedModel([7]))
    given = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(TypeError, match=r'a scripted call is \{"name": .*got \{.*testing\.call\('):
        played(ScriptedModel({"tool_calls": [given]}))


def test_replies_are_written_as_calls_and_answers(world):
    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    model = ScriptedModel(
        call("add", a=2, b=3), calls(call("add", a=1, b=1), call("add", a=0, b=2)), answer("It is 5.")
    )
    result = world.run(JsonAgent(add, model=model), "What is 2 + 3?")
    assert result.answer == "It is 5."
    assert [outcome.value for outcome in result.calls[:-1]] == [5, 2, 2]


def test_an_answer_of_one_value_or_with_fields():
    @dataclass
    class Walk:
        city: str
        degrees: int

    assert JsonAgent(answer=int, model=ScriptedModel(answer(5)))("?") == 5
    assert JsonAgent(answer=Literal["yes", "no"], model=ScriptedModel(answer("yes")))("?") == "yes"
    assert JsonAgent(answer=date, model=ScriptedModel(answer("2026-11-24")))("?") == date(2026, 11, 24)
    assert JsonAgent(answer=Walk, model=ScriptedModel(answer(city="Kolkata", degrees=29)))("?") == Walk("Kolkata", 29)
