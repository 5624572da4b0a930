"""Valid conversations are mutated at random; the repaired ones satisfy the rules of three providers, written apart."""

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from provider_rules import (
    anthropic_body,
    anthropic_problems,
    gemini_body,
    gemini_problems,
    openai_problems,
    prepare_messages,
)

from agentkit.core.messages import ToolCall, assistant, pending_calls, system, tool_message, user
from agentkit.engine.history import check_history, repair_history
from agentkit.engine.history.tool_calls import split_groups
from agentkit.models.litellm.importing import load_litellm

A = ToolCall("a", "add", '{"x": 1}')
B = ToolCall("b", "sub", '{"x": 2}')
ASKED = [system("s"), user("q")]
CALLING = assistant(None, [A, B])
ANSWERED = [*ASKED, CALLING, tool_message(A, "1"), tool_message(B, "2")]
PROVIDERS = [None, "openai", "anthropic", "gemini"]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
THINKING = [{"type": "thinking", "thinking": "t", "signature": "s"}]


class FromAnSDK:
    """What the SDKs return, which people append to their lists."""

    def model_dump(self, exclude_none: bool):
        return {"role": "assistant", "content": "hello"}

    def __repr__(self) -> str:
        return "FromAnSDK()"


@st.composite
def histories(draw) -> list[dict[str, Any]]:
    """Valid conversations, in which every text is another one."""
    number = iter(range(1000))
    history = [system("instruction")] if draw(st.booleans()) else []
    history.append(user(f"query {next(number)}"))
    for _ in range(draw(st.integers(0, 4))):
        for count in draw(st.lists(st.integers(1, 3), max_size=2)):
            calls = [
                ToolCall(f"id{next(number)}", draw(st.sampled_from(["add", "sub"])), '{"x": 1}') for _ in range(count)
            ]
            text = draw(st.sampled_from([None, f"thought {next(number)}"]))
            message = {**assistant(text, calls), "provider": draw(st.sampled_from(["openai", "anthropic", "gemini"]))}
            if message["provider"] == "anthropic" and draw(st.booleans()):
                message["thinking_blocks"] = THINKING
            history += [message, *(tool_message(call, f"result {next(number)}") for call in calls)]
        if draw(st.booleans()):
            history.append(assistant(f"reply {next(number)}"))
        history.append(user(f"query {next(number)}"))
    return history


JUNK = [
    None, "text", 7, {}, [], {"role": "tool"}, {"role": "tool", "tool_call_id": "gone", "content": "x"}, {"role": "system", "content": "late"},
    {"role": "assistant"}, {"role": "assistant", "tool_calls": []}, {"role": "user"}, {"role": "note", "content": "x"}, {"content": "y"},
    {"role": "assistant", "content": "junk", "tool_calls": [{}]}, {"role": "assistant", "tool_calls": [{"id": "id1", "function": {}}]},
    {"role": ["user"], "content": {"a": {1, 2}}, "provider": {}}, {"role": "user", "content": "\ud800"}, FromAnSDK(),
    {"role": "assistant", "content": "old", "function_call": {"name": "add", "arguments": "{"}}, {"role": "function", "name": "add", "content": "3"},
    {"role": "assistant", "content": "claude", "provider": "anthropic", "thinking_blocks": THINKING},
]  # fmt: skip
IDS = [None, "", " ", 7, "id1", "id3", "x" * 60, "a.b", "a_b", "\udfff", "call_1", {}, True]
ARGUMENTS = ["", "{", "[1]", None, {"x": 1}, '"{}"', '{"x": NaN}', '{"x": "\\ud800"}', 7, "x", '{"x": 1e999}']
NAMES = [None, "", "a b", "größe", "2fa", 7, "x" * 100, "functions.add"]
ROLES = [None, "", "user", "assistant", "tool", "system", "developer", "function", "USER", "bot", 7]
CONTENTS = [
    None,
    "",
    " ",
    [],
    {},
    [""],
    [{"type": "text", "text": ""}],
    [{"text": 1}],
    7,
    b"x",
    "\ud83d",
    [{"type": "image_url", "image_url": {"url": PIXEL}}],
]


def mutate(history: list[Any], kind: str, chance: random.Random) -> None:
    """Spoil something in the list; the messages of the conversation that it came from stay as they are."""
    place = chance.randrange(len(history) + 1)
    if kind == "insert":
        history.insert(place, copy.deepcopy(chance.choice(JUNK)))
    if kind == "insert" or not history:
        return
    place = place % len(history)
    if kind == "drop":
        del history[place]
    elif kind == "duplicate":
        history.insert(chance.randrange(len(history) + 1), history[place])
    elif kind == "swap":
        other = chance.randrange(len(history))
        history[place], history[other] = history[other], history[place]
    elif kind == "cut":
        history[:] = history[:place] if chance.random() < 0.5 else history[place:]
    elif isinstance(history[place], dict):
        history[place] = message = copy.deepcopy(history[place])
        spoil(message, kind, chance)


def spoil(message: dict[str, Any], kind: str, chance: random.Random) -> None:
    calls = message.get("tool_calls")
    call = chance.choice(calls) if isinstance(calls, list) and calls else None
    call = call if isinstance(call, dict) else None
    if kind == "content":
        message["content"] = copy.deepcopy(chance.choice(CONTENTS))
    elif kind == "role":
        message["role"] = chance.choice(ROLES)
    elif kind == "key" and message:
        del message[chance.choice([*message])]
    elif kind == "id" and call is not None:
        call["id"] = copy.deepcopy(chance.choice(IDS))
    elif kind == "id" and "tool_call_id" in message:
        message["tool_call_id"] = copy.deepcopy(chance.choice(IDS))
    elif kind == "arguments" and call is not None:
        call.setdefault("function", {})["arguments"] = copy.deepcopy(chance.choice(ARGUMENTS))
    elif kind == "name" and call is not None:
        call.setdefault("function", {})["name"] = chance.choice(NAMES)
    elif kind == "name":
        message["name"] = chance.choice(NAMES)
    elif kind == "call" and call is not None:
        calls[calls.index(call)] = chance.choice(
            [None, "call", {}, {"name": "add", "arguments": {}}, {**call, "type": "tool"}]
        )


STRUCTURE = ["insert", "drop", "duplicate", "swap", "cut"]
KINDS = [*STRUCTURE, *STRUCTURE, "content", "role", "key", "id", "id", "arguments", "name", "call"]


@st.composite
def mutated(draw) -> list[Any]:
    history: list[Any] = draw(histories())
    chance = random.Random(draw(st.integers(0, 2**32)))
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)):
        mutate(history, kind, chance)
    return history


REFUSALS = {
    "openai": openai_problems,
    "anthropic": lambda sent: anthropic_problems(anthropic_body(sent)),
    "gemini": lambda sent: gemini_problems(gemini_body(sent)),
}


def problems(history: list[dict[str, Any]]) -> list[str]:
    """What the three providers say to a conversation that is sent as it is."""
    return [text for provider, refusals in REFUSALS.items() for text in refusals(prepare_messages(history, provider))]


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
@example([*ASKED, CALLING, tool_message(B, "2"), user(""), tool_message(A, "1")])
def test_whatever_was_done_to_a_conversation_its_repair_is_taken_by_all_providers(history):
    before = copy.deepcopy(history)
    repaired = repair_history(history)
    assert str(history) == str(before), "what came is not changed"
    assert problems([*repaired, user("go on")]) == []
    if repaired and repaired[-1]["role"] in ("user", "tool"):
        assert problems(repaired) == []
    assert repair_history(repaired) is repaired
    assert [violation for provider in PROVIDERS for violation in check_history(repaired, provider)] == []


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_repair_changes_what_is_wrong_and_nothing_else(history):
    found = {(v.place, v.rule) for provider in PROVIDERS for v in check_history(history, provider)}
    repaired = repair_history(history)
    assert (repaired is history) == (not found)
    places = {place for place, _ in found}
    is_joined = any(rule == "consecutive_roles" for _, rule in found)
    kept = {id(message) for message in repaired}
    for place, message in enumerate(history):
        if place not in places and message["role"] != "tool":
            assert id(message) in kept or (is_joined and is_said(message, repaired)), f"message {place} was fine"


def is_said(message: dict[str, Any], repaired: list[Any]) -> bool:
    """Whether the content of a message occurs in a message of another list, perhaps as a part."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return any(all(str(part) in str(other.get("content")) for part in parts) for other in repaired)


def texts(history: list[Any]) -> list[str]:
    """What is said in sound messages by the user and the assistant."""
    return [
        message["content"]
        for message in history
        if isinstance(message, dict)
        and message.get("role") in ("user", "assistant")
        and "tool_call_id" not in message
        and isinstance(message.get("content"), str)
        and message["content"].strip().isascii()
        and message["content"].strip()
    ]


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_repair_keeps_all_texts_and_each_result_whose_call_exists(history):
    repaired = repair_history(history)
    said = [message.get("content") for message in repaired]
    remaining = map(str, said)
    written = next(remaining, "")
    for text in texts(history):  # in the same order
        while text not in written:
            written = next(remaining)
        written = written[written.index(text) + len(text) :]
    dicts = [message for message in history if isinstance(message, dict)]
    calls = [call for message in dicts if isinstance(message.get("tool_calls"), list) for call in message["tool_calls"]]
    ids = [call.get("id") for call in calls if isinstance(call, dict)]
    for identity in (identity for identity in ids if isinstance(identity, str) and ids.count(identity) == 1):
        if identity.startswith("id"):
            results = [m.get("content") for m in dicts if m.get("tool_call_id") == identity and not m.get("tool_calls")]
            texts_of = [text for text in results if isinstance(text, str) and text.isascii()]
            assert not texts_of or len(texts_of) < len(results) or any(text in said for text in texts_of)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_paused_run_stays_paused_where_that_is_asked(history):
    kept = repair_history(history, pending="keep")
    answered = repair_history(history)
    assert repair_history(kept, pending="keep") is kept
    closed = repair_history(kept)
    assert problems([*closed, user("go on")]) == []
    assert closed == answered
    assert len(answered) - len(kept) == len(pending_calls(kept))


@settings(deadline=None, max_examples=200)
@given(histories(), st.randoms())
def test_a_valid_conversation_is_valid_without_some_of_its_groups(history, chance):
    assert check_history(history) == []
    pieces = [history[group] for group in split_groups(history)]
    assert [message for piece in pieces for message in piece] == history
    left = [message for piece in pieces if chance.random() < 0.5 for message in piece]
    assert check_history(left, "openai") == []


@pytest.mark.parametrize("provider", PROVIDERS[1:])
def test_the_rules_of_the_providers_are_rules(provider):
    """The independent rules find fault with conversations that their providers refuse."""
    bad = {
        "openai": [
            ANSWERED[:4],
            [*ASKED, ANSWERED[3]],
            [*ANSWERED, ANSWERED[3]],
            [*ASKED, CALLING, user("x"), *ANSWERED[3:]],
        ],
        "anthropic": [
            ANSWERED[:4],
            [*ASKED, ANSWERED[3]],
            [assistant("x"), user("q")],
            [user(" ")],
            [*ANSWERED, *ANSWERED[2:]],
        ],
        "gemini": [
            ANSWERED[:4],
            [*ASKED, ANSWERED[3]],
            [*ASKED, CALLING, ANSWERED[4], ANSWERED[3]],
            [CALLING, *ANSWERED[3:]],
        ],
    }[provider]
    for history in bad:
        assert REFUSALS[provider](prepare_messages(history, provider)), history


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_repaired_conversations_pass_through_litellm_and_come_out_as_the_providers_want_them(history):
    load_litellm()  # its import, without a word
    from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt
    from litellm.llms.vertex_ai.gemini.transformation import _gemini_convert_messages_with_history

    repaired = [*repair_history(history), user("go on")]
    said = [message for message in prepare_messages(repaired, "anthropic") if message["role"] != "system"]
    turns = anthropic_messages_pt(copy.deepcopy(said), "claude-sonnet-4-5", "anthropic")
    assert anthropic_problems({"messages": turns}) == []
    assert "[System: Empty message" not in json.dumps(turns)
    said = [message for message in prepare_messages(repaired, "gemini") if message["role"] != "system"]
    contents = _gemini_convert_messages_with_history(copy.deepcopy(said), model="gemini-3-pro-preview")
    assert gemini_problems({"contents": contents}) == []
