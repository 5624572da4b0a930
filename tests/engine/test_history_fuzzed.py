"""Conversations of any JSON values are checked and repaired: nothing is raised, and the repair is valid."""

import json
from copy import deepcopy

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentkit.engine.history import check_history, repair_history
from agentkit.engine.history.tool_calls import normalize_reply

PROVIDERS = [None, "openai", "anthropic", "gemini", "mistral", "bedrock"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", " ", "a", "f", "{}", "\ud800", "user", "assistant", "tool", "system", "text", "function"]),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def shaped(fields):
    """An object with these keys, each of them present or not, and each of any value or of the one that it should have."""
    return st.fixed_dictionaries({}, optional={key: value | JSON for key, value in fields.items()})


FUNCTIONS = shaped({"name": st.just("f"), "arguments": st.just("{}")})
CALLS = shaped({"id": st.sampled_from(["a", "b"]), "type": st.just("function"), "function": FUNCTIONS})
PARTS = shaped({"type": st.sampled_from(["text", "image_url"]), "text": st.just("hello")})
BLOCKS = shaped({"type": st.sampled_from(["thinking", "redacted_thinking"]), "signature": st.just("s")})
MESSAGES = shaped(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
        "content": st.just("text") | st.lists(PARTS | JSON, max_size=3),
        "tool_calls": CALLS | st.lists(CALLS | JSON, max_size=3),
        "tool_call_id": st.sampled_from(["a", "b"]),
        "name": st.just("f"),
        "provider": st.sampled_from(["anthropic", "gemini"]),
        "thinking_blocks": st.lists(BLOCKS | JSON, max_size=2),
        "reasoning_content": st.just("hm"),
        "function_call": FUNCTIONS,
    }
)


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES | JSON, max_size=6), st.sampled_from(["answer", "keep"]))
@example([{"role": "assistant", "tool_calls": {}}], "answer")
@example([{"role": "assistant", "tool_calls": "x"}], "answer")
@example([{"role": "assistant", "tool_calls": [{}]}], "answer")
@example([{"role": "assistant", "tool_calls": {"function": {}}}], "keep")
@example([{"role": "tool", "tool_call_id": {}, "content": "x"}], "answer")
@example([{"role": "user", "content": "x", "tool_calls": 7}], "answer")
@example([{"role": "system", "content": "x", "tool_calls": [None], "function_call": {}}], "answer")
def test_any_values_are_checked_and_repaired(messages, pending):
    before = deepcopy(messages)
    for provider in PROVIDERS:
        assert all(0 <= violation.place < len(messages) for violation in check_history(messages, provider))
    repaired = repair_history(messages, pending=pending)
    assert repr(messages) == repr(before), "nothing that came is changed"
    json.dumps(repaired, allow_nan=False).encode()
    left = {violation.rule for provider in PROVIDERS for violation in check_history(repaired, provider)}
    assert left <= {"lost_thinking"} | ({"pending_call"} if pending == "keep" else set())
    assert repair_history(repaired, pending=pending) is repaired


@settings(max_examples=200, deadline=None)
@given(MESSAGES)
@example({"role": "assistant", "tool_calls": {}})
@example({"role": "assistant", "tool_calls": "x"})
def test_any_reply_is_normalized(message):
    before = repr(message)
    normalized = normalize_reply(message, ids := {"a"})
    assert repr(message) == before
    for call in normalized.get("tool_calls") or ():
        assert call["id"] in ids
        assert isinstance(call["function"]["name"], str)
        assert isinstance(call["function"]["arguments"], str)


@pytest.mark.parametrize("messages", [None, 7, "text", {"role": "user"}])
def test_a_value_that_is_not_a_list_is_refused(messages):
    with pytest.raises(TypeError, match="expected a list of messages, got"):
        repair_history(messages)
    with pytest.raises(TypeError, match="expected a list of messages, got"):
        check_history(messages)


def nested(levels):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


CYCLE: dict = {"role": "user"}
CYCLE["content"] = [CYCLE]


ODD = [nested(5_000), {"a": nested(5_000)}, CYCLE, 10**5_000, -(10**5_000), b"\xff", {1: 2}, {"a"}, object(), ...]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("key", ["role", "content", "tool_calls", "tool_call_id", "name", "thinking_blocks", "other"])
def test_values_that_no_json_holds_become_some(key, odd):
    for messages in ([odd], [{"role": "user", "content": "x", key: odd}], [{"role": "assistant", key: odd}]):
        assert check_history(messages), "it is said what is wrong"
        json.dumps(repaired := repair_history(messages), allow_nan=False).encode()
        assert {violation.rule for violation in check_history(repaired)} == set()
