"""Arguments that do not match the tool exactly."""

import json
from typing import Any, Literal

import pytest
from play import TEA, Play, call, calls, final, price_of, reply_unless
from timing import takes_at_most

from agentkit import RunError


def now() -> str:
    """Tells the time."""
    return "noon"


def half(value: float) -> float:
    """Halves a number."""
    return value / 2


def total(values: list[float]) -> float:
    """Adds numbers."""
    return sum(values)


def order(item: str, count: int = 1, express: bool = False, note: str | None = None) -> str:
    """Orders something."""
    return f"{count} {item} {express} {note}"


ORDER = {"item": "", "count": 1, "express": False, "note": None}


def change(amount: float, currency: Literal["EUR", "USD", "INR"]) -> str:
    """Changes money."""
    return f"{amount} {currency}"


def run_program(arguments: dict[str, int]) -> int:
    """Runs a program."""
    return len(arguments)


def echo(text: str) -> int:
    """Takes a text; returns its length."""
    return len(text)


TOLD_OR_RUN = reply_unless("3.5", calls(TEA), final("3.5"))
"""The reply after a call that was repaired, or after an error that the model read."""


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        ("args_single_quotes", "{'item': 'tea'}"),
        ("args_trailing_comma", '{"item": "tea",}'),
        ("args_unclosed", '{"item": "tea"'),
        ("args_fenced", '```json\n{"item": "tea"}\n```'),
        ("args_double_encoded", json.dumps('{"item": "tea"}')),
        ("args_list", '["tea"]'),
        ("args_list", '[{"item": "tea"}]'),
        ("args_wrapped_arguments", '{"arguments": {"item": "tea"}}'),
        ("args_wrapped_parameters", '{"parameters": {"item": "tea"}}'),
        ("args_extra", '{"item": "tea", "color": "green"}'),
        ("args_extra", '{"item": "tea", "self": 1}'),
    ],
)
def test_a_mistake_is_repaired_or_reported_and_the_tool_runs_once(play: Play, scenario: str, text: str):
    outcome = play([calls(call("price_of", text)), TOLD_OR_RUN, final("3.5")], tools=[price_of])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    if len(outcome.tool_texts) > 2 or scenario == "args_extra":
        assert "item" in outcome.tool_texts[0] or "color" in outcome.tool_texts[0] or "self" in outcome.tool_texts[0]


def test_args_wrapper_is_real(play: Play):
    outcome = play([calls(call("run_program", {"arguments": {"x": 1}})), final()], tools=[run_program])
    assert outcome.answer == "done"
    assert outcome.arguments == [{"arguments": {"x": 1}}]


@pytest.mark.parametrize(
    ("scenario", "arguments"), [("args_empty_for_no_parameters", ""), ("args_null_for_no_parameters", "null"),
                                ("args_null_for_no_parameters", ...)]
)  # fmt: skip
def test_no_arguments_are_enough_for_no_parameters(play: Play, scenario: str, arguments: Any):
    raw = {"raw": True} if arguments is ... and not play.is_streamed else {}
    written = call("now", "null" if arguments is ... and play.is_streamed else arguments, **raw)
    outcome = play([calls(written), final()], tools=[now])
    assert outcome.answer == "done"
    assert (len(outcome.ran), outcome.tool_texts[0], len(outcome.bodies)) == (1, "noon", 2)


@pytest.mark.parametrize(
    ("name", "text", "good"),
    [
        ("half", '{"value": NaN}', {"value": 7.0}),
        ("half", '{"value": -Infinity}', {"value": 7.0}),
        ("half", '{"value": "NaN"}', {"value": 7.0}),
        ("half", '{"value": "inf"}', {"value": 7.0}),
        ("half", '{"value": 1e999}', {"value": 7.0}),
        ("total", '{"values": [1, NaN]}', {"values": [3.5]}),
        ("total", '{"values": ["1", "nan"]}', {"values": [3.5]}),
        ("total", '{"values": "[1, NaN]"}', {"values": [3.5]}),
    ],
)
def test_args_nan(play_whole: Play, name: str, text: str, good: Any):
    outcome = play_whole([calls(call(name, text)), calls(call(name, good)), final("3.5")], tools=[half, total])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [good]


@pytest.mark.parametrize(
    ("scenario", "given", "words"),
    [
        ("args_missing_required", {"count": 2}, ["item"]),
        ("args_wrong_type", {"item": "tea", "count": "many"}, ["count", "integer"]),
        ("args_wrong_type", {"item": ["tea"]}, ["item", "string"]),
    ],
)
def test_the_error_names_the_parameter_and_what_it_accepts(play: Play, scenario: str, given: Any, words: list[str]):
    outcome = play([calls(call("order", given)), calls(call("order", {"item": "tea"})), final()], tools=[order])
    assert outcome.answer == "done"
    assert all(word in outcome.tool_texts[0] for word in words)
    assert "pydantic" not in outcome.tool_texts[0]
    assert outcome.arguments == [{**ORDER, "item": "tea"}]


@pytest.mark.parametrize(
    ("scenario", "name", "given", "received"),
    [
        ("args_number_as_string", "order", {"item": "tea", "count": "2"}, {**ORDER, "item": "tea", "count": 2}),
        ("args_number_as_string", "order", {"item": "2"}, {**ORDER, "item": "2"}),
        ("args_bool_as_string", "order", {"item": "tea", "express": "true"}, {**ORDER, "item": "tea", "express": True}),
        ("args_null_as_string", "order", {"item": "null", "note": "null"}, {**ORDER, "item": "null", "note": "null"}),
        ("args_list_as_string", "total", {"values": "[1, 2.5]"}, {"values": [1.0, 2.5]}),
        ("args_enum_case", "change", {"amount": 1, "currency": "usd"}, {"amount": 1.0, "currency": "USD"}),
    ],
)
def test_what_is_lossless_is_converted(play_whole: Play, scenario: str, name: str, given: Any, received: Any):
    good = calls(call(name, received))
    made = [
        calls(call(name, given)),
        lambda body: final() if body["messages"][-1]["content"].find("alid") < 0 else good,
    ]
    outcome = play_whole([*made, final()], tools=[order, total, change])
    assert outcome.answer == "done"
    assert outcome.arguments == [received]


def test_args_surrogate(play: Play):
    outcome = play([calls(call("echo", '{"text": "half \\ud83d of a pair"}'), content="\ud83d"), final()], tools=[echo])
    assert outcome.answer == "done"
    assert outcome.arguments[0]["text"].encode().startswith(b"half ")


def test_args_object(play: Play):
    outcome = play([calls(call("price_of", {"item": "tea"}, raw=True)), final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert len(outcome.bodies) == 2


def test_args_huge(play: Play):
    text = f"{'x' * 999} " * 1_000
    with takes_at_most(300):
        outcome = play([calls(call("echo", json.dumps({"text": text}))), final()], tools=[echo])
    assert outcome.answer == "done"
    assert outcome.arguments == [{"text": text}]
    assert outcome.tool_texts[0] == str(len(text))


def test_args_broken_strict_provider(play: Play):
    outcome = play([calls(call("price_of", '{"item": "tea" "x" }}')), calls(TEA), final("3.5")])
    assert outcome.answer == "3.5"
    sent = outcome.bodies[1]["messages"]
    assert isinstance(json.loads(sent[-2]["tool_calls"][0]["function"]["arguments"]), dict)
    assert outcome.tool_texts[0] == sent[-1]["content"]
    assert outcome.arguments == [{"item": "tea"}]


def test_args_broken_forever(play: Play):
    outcome = play([calls(call("price_of", '{"item": '))] * 20)
    assert isinstance(outcome.error, RunError)
    assert len(outcome.bodies) <= 10
    assert outcome.ran == []
