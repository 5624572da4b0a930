"""Calls with misspelt tool names."""

import json

import pytest
from play import COFFEE, TEA, Play, call, calls, final, reply_unless


def list_names(body):
    """Return the names of the calls in a request."""
    made = [entry for message in body["messages"] for entry in message.get("tool_calls", ())]
    return [entry["function"]["name"] for entry in made]


def test_name_unknown(play: Play):
    outcome = play([calls(call("weather", {"city": "Rome"})), calls(TEA), final("3.5")])
    assert outcome.answer == "3.5"
    assert all(name in outcome.tool_texts[0] for name in ("weather", "price_of", "convert"))
    assert outcome.arguments == [{"item": "tea"}]


def test_name_near_miss(play: Play):
    outcome = play([calls(call("prize_of", {"item": "tea"})), calls(TEA), final("3.5")])
    assert outcome.answer == "3.5"
    assert "price_of" in outcome.tool_texts[0]
    assert outcome.arguments == [{"item": "tea"}]


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("name_namespaced", "functions.price_of"),
        ("name_namespaced", "tools.price_of"),
        ("name_namespaced", "default_api.price_of"),
        ("name_with_control_tokens", "price_of<|channel|>commentary"),
        ("name_with_control_tokens", "functions.price_of<|end|>"),
        ("name_spelled_otherwise", "PriceOf"),
        ("name_spelled_otherwise", "price-of"),
    ],
)
def test_what_is_certain_runs_at_once_under_the_clean_name(play: Play, scenario: str, name: str):
    outcome = play([calls(call(name, {"item": "tea"})), final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert list_names(outcome.bodies[1]) == ["price_of"]


def test_name_empty(play: Play):
    outcome = play([calls(call("", {"item": "tea"})), calls(TEA), final("3.5")])
    assert outcome.answer == "3.5"
    assert "price_of" in outcome.tool_texts[0]
    assert outcome.arguments == [{"item": "tea"}]


def test_name_multi_tool_use(play: Play):
    uses = [{"recipient_name": f"functions.{one['name']}", "parameters": one["arguments"]} for one in (TEA, COFFEE)]
    wrapped = calls(call("multi_tool_use.parallel", json.dumps({"tool_uses": uses})))
    outcome = play([wrapped, reply_unless("4.25", calls(TEA, COFFEE), final("7.75")), final("7.75")])
    assert outcome.answer == "7.75"
    assert outcome.arguments == [{"item": "coffee"}, {"item": "tea"}]
