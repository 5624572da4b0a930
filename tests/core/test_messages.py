"""The conversation as plain dicts."""

import json

import pytest

from agentkit.core.messages import ToolCall, Usage, assistant, calls_of, pending_calls, system, tool_message, user
from agentkit.core.portable import to_canonical_text
from agentkit.engine.history.tool_calls import normalize_reply

ADD = ToolCall("call_1", "add", '{"a": 1}')
SUB = ToolCall("call_2", "sub", "{}")


def test_calls_make_the_round_through_a_message():
    message = assistant("thinking", [ADD, SUB])
    assert calls_of(json.loads(json.dumps(message))) == [ADD, SUB]
    assert calls_of(user("hello")) == []


def test_pending_calls_are_those_of_the_last_turn_without_an_answer():
    history = [system("s"), user("q"), assistant(None, [ADD, SUB])]
    assert pending_calls(history) == [ADD, SUB]
    assert pending_calls([*history, tool_message(SUB, "0")]) == [ADD]
    assert pending_calls([*history, tool_message(SUB, "0"), tool_message(ADD, "1")]) == []
    assert pending_calls([*history, tool_message(ADD, "1"), assistant("done")]) == []
    assert pending_calls([]) == []


def test_a_reply_without_faults_is_admitted_as_the_same_object():
    message = {**assistant(None, [ADD, SUB]), "thinking_blocks": [{"signature": "x"}]}
    known = {"call_0"}
    assert normalize_reply(message, known) is message
    assert known == {"call_0", "call_1", "call_2"}


def test_ids_that_are_missing_empty_or_used_are_replaced():
    calls = [{"type": "function", "function": {"name": "add", "arguments": "{}"}} for _ in range(5)]
    calls[1]["id"] = ""
    calls[2]["id"] = "call_1"
    calls[3]["id"] = "new"
    calls[4]["id"] = "new"
    ids = [call.id for call in calls_of(normalize_reply({"role": "assistant", "tool_calls": calls}, {"call_1"}))]
    assert len(set(ids)) == 5
    assert all(ids)
    assert "call_1" not in ids
    assert "new" in ids
    assert "id" not in calls[0], "the message that came is not changed"


def test_arguments_that_are_not_text_and_names_that_are_missing_are_made_text():
    message = {"role": "assistant", "tool_calls": [{"id": "x", "function": {"arguments": {"a": 1}}}]}
    call = calls_of(normalize_reply(message, set()))[0]
    assert call.name
    assert json.loads(call.arguments) == {"a": 1}
    nothing = {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": None}}]}
    assert calls_of(normalize_reply(nothing, set()))[0].arguments == "{}"


def test_equal_arguments_have_one_text():
    assert to_canonical_text('{"b":1, "a": [ ]}') == to_canonical_text('{"a":[],"b":1}')
    assert to_canonical_text('{"a": 1}') != to_canonical_text('{"a": 2}')


@pytest.mark.parametrize("broken", ['{"a": ', "", "[" * 100_000], ids=["cut off", "empty", "deep"])
def test_broken_arguments_keep_their_text(broken):
    assert to_canonical_text(broken) == broken


def test_usage_adds_up_and_an_unknown_price_makes_the_sum_unknown():
    one = Usage(1, 10, 5, 2, 1, 0.5)
    assert one + one == Usage(2, 20, 10, 4, 2, 1.0)
    assert (one + Usage(1, cost=None)).cost is None
