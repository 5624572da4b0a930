"""Several calls in one turn, and the ids that tell them apart."""

import json
import threading
import time
from typing import Any

import pytest
from play import COFFEE, TEA, Outcome, Play, call, calls, final, price_of

BOTH = [{"item": "coffee"}, {"item": "tea"}]


def ids_of(outcome: Outcome, request: int = -1) -> tuple[list[str], list[str]]:
    """Return the ids of all calls in a request, and those of their results."""
    messages = outcome.bodies[request]["messages"]
    made = [entry["id"] for message in messages for entry in message.get("tool_calls", ())]
    return made, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def test_parallel_calls(play: Play):
    together = threading.Barrier(2, timeout=60)

    def meet(name: str) -> str:
        """Waits for the other one."""
        together.wait()
        return f"{name} was here"

    outcome = play([calls(call("meet", {"name": "A"}), call("meet", {"name": "B"})), final()], tools=[meet])
    assert outcome.answer == "done"
    assert outcome.tool_texts[:2] == ["A was here", "B was here"]
    assert len(outcome.bodies) == 2


def test_parallel_order(play: Play):
    def wait(seconds: float) -> float:
        """Waits."""
        time.sleep(seconds)
        return seconds

    made = [call("wait", {"seconds": seconds}, id=f"w{seconds}") for seconds in (0.06, 0.0, 0.03)]
    outcome = play([calls(*made), final()], tools=[wait])
    assert outcome.answer == "done"
    made_ids, answered = ids_of(outcome)
    assert answered == made_ids
    assert [float(text) for text in outcome.tool_texts[:3]] == [0.06, 0.0, 0.03]


def test_parallel_one_raises(play: Play):
    outcome = play([calls(call("price_of", {"item": "wine"}), TEA), final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.tool_texts[:2] == ["KeyError: 'wine'", "3.5"]
    assert len(outcome.ran) == 2


def test_parallel_mixed_bad(play: Play):
    broken = call("price_of", '{"item": ')
    unknown = call("weather")
    outcome = play([calls(broken, TEA, unknown, COFFEE), final("7.75")])
    assert outcome.answer == "7.75"
    assert outcome.arguments == BOTH
    assert (outcome.tool_texts[1], outcome.tool_texts[3]) == ("3.5", "4.25")


@pytest.mark.parametrize(
    ("scenario", "first", "second"),
    [
        ("ids_duplicate", "c1", "c1"),
        ("ids_missing", ..., ...),
        ("ids_null", None, None),
        ("ids_empty", "", ""),
    ],
)
def test_calls_get_ids_of_their_own(play: Play, scenario: str, first: Any, second: Any):
    outcome = play([calls({**TEA, "id": first}, {**COFFEE, "id": second}), final("7.75")])
    assert outcome.answer == "7.75"
    assert outcome.arguments == BOTH
    made, answered = ids_of(outcome)
    assert made == answered
    assert len(set(made)) == 2
    assert outcome.tool_texts[:2] == ["3.5", "4.25"]


@pytest.mark.parametrize("scenario", ["ids_reused", "ids_reused_strict_provider"])
def test_an_id_of_an_earlier_turn_is_replaced(play: Play, scenario: str):
    last = calls(call("final_answer", {"text": "7.75"}, id="c1"))
    outcome = play([calls({**TEA, "id": "c1"}), calls({**COFFEE, "id": "c1"}), last])
    assert outcome.answer == "7.75"
    assert outcome.arguments == BOTH
    made, answered = ids_of(outcome)
    assert made == answered
    assert len(set(made)) == 2


def test_call_type_missing(play: Play):
    outcome = play([calls({**TEA, "type": ...}), final("3.5")], tools=[price_of])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert outcome.bodies[1]["messages"][-2]["tool_calls"][0]["type"] == "function"


def test_arguments_are_sent_back_as_they_were_understood(play: Play):
    outcome = play([calls(call("price_of", "{'item': 'tea',}")), final("3.5")])
    sent = outcome.bodies[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"item": "tea"}
