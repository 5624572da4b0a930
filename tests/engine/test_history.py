"""What can be wrong with a conversation, and how it is repaired, rule by rule."""

import datetime
import json
from typing import Any

import pytest
from timing import takes_at_most

from agentkit.core.messages import (
    DEVELOPER,
    UNKNOWN,
    ToolCall,
    assistant,
    calls_of,
    pending_calls,
    system,
    tool_message,
    user,
)
from agentkit.core.portable import to_object_text, to_portable_name
from agentkit.engine.history import check_history, repair_history
from agentkit.engine.history.repair import CONTINUE_TEXT, INTERRUPTED_CALL, OPENING
from agentkit.engine.history.tool_calls import normalize_reply, split_groups

A = ToolCall("a", "add", '{"x": 1}')
B = ToolCall("b", "sub", '{"x": 2}')
ASKED = [system("s"), user("q")]
CALLING = assistant(None, [A, B])
ANSWERED = [*ASKED, CALLING, tool_message(A, "1"), tool_message(B, "2")]
PROVIDERS = [None, "openai", "anthropic", "gemini"]


def rules(history, provider=None) -> list[tuple[int, str]]:
    return [(violation.place, violation.rule) for violation in check_history(history, provider)]


def call_of(**changes: Any) -> dict[str, Any]:
    """A call entry with something else in it."""
    function = {"name": "add", "arguments": "{}", **changes.pop("function", {})}
    return {"id": "a", "type": "function", "function": function, **changes}


def says(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [*calls], **more}


# ---- valid conversations


VALID = {
    "nothing": [],
    "only the instruction": [system("s")],
    "a query": ASKED,
    "at rest": [*ASKED, assistant("hello")],
    "results": ANSWERED,
    "several systems first": [system("a"), system("b"), user("q")],
    "text beside calls": [*ASKED, assistant("let me see", [A]), tool_message(A, "")],
    "an id that is read back by litellm": [*ASKED, says(call_of(id="functions.add:0")), {"role": "tool", "tool_call_id": "functions.add:0", "content": "1"}],
    "parts": [user([]) | {"content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "data:"}}]}],
    "images from a tool": [*ASKED, assistant(None, [A]), tool_message(A, "see", [{"type": "image_url", "image_url": {"url": "data:"}}])],
    "thinking": [*ASKED, says(call_of(), provider="anthropic", thinking_blocks=[{"type": "thinking", "thinking": "t", "signature": "s"}]), tool_message(A, "1")],
    "no more tool calls": [*ASKED, {"role": "assistant", "content": "x", "tool_calls": None}],
    "umlauts": [user("für 😀"), assistant(None, [ToolCall("a", "add", '{"x": "\\ud83d\\ude00"}')]), tool_message(A, "é")],
}  # fmt: skip


@pytest.mark.parametrize("history", VALID.values(), ids=VALID)
def test_a_valid_conversation_stays_the_same_object(history):
    assert [check_history(history, provider) for provider in PROVIDERS] == [[]] * 4
    assert repair_history(history) is history
    assert repair_history(history, pending="keep") is history


# ---- calls and their results


def test_calls_without_results_are_answered_as_interrupted():
    history = [*ASKED, CALLING, tool_message(A, "1"), user("well?"), assistant("hm")]
    assert rules(history) == [(2, "dangling_call")]
    assert repair_history(history) == [*ANSWERED[:4], tool_message(B, INTERRUPTED_CALL, label=DEVELOPER), *history[4:]]


def test_calls_at_the_very_end_are_answered_or_kept():
    history = ANSWERED[:4]
    assert rules(history) == [(2, "pending_call")]
    assert "of sub has no result" in check_history(history)[0].text
    assert repair_history(history) == [*history, tool_message(B, INTERRUPTED_CALL, label=DEVELOPER)]
    assert repair_history(history, pending="keep") is history
    swapped = [*ASKED, CALLING, tool_message(B, "2")]
    assert pending_calls(repair_history(swapped, pending="keep")) == [A]
    with_older = [*ASKED, assistant(None, [A]), user("go on"), assistant(None, [B])]
    kept = repair_history(with_older, pending="keep")
    assert kept == [*with_older[:3], tool_message(A, INTERRUPTED_CALL, label=DEVELOPER), *with_older[3:]]


def test_results_without_a_call_are_left_out():
    assert rules([*ASKED, tool_message(A, "1")]) == [(2, "orphan_result")]
    assert repair_history([*ASKED, tool_message(A, "1")]) == ASKED
    assert repair_history([*ANSWERED, tool_message(ToolCall("z", "f"), "3")]) == ANSWERED


@pytest.mark.parametrize("between", [[user("wait")], [assistant("hm")], [system("s2")], [user("u"), assistant("v")]])
def test_results_are_put_behind_their_calls(between):
    history = [*ASKED, CALLING, *between, tool_message(A, "1"), tool_message(B, "2")]
    assert [rule for rule in rules(history) if rule[1] == "misplaced_result"] == [
        (len(history) - 2, "misplaced_result"),
        (len(history) - 1, "misplaced_result"),
    ]
    repaired = repair_history(history)
    assert repaired[:5] == ANSWERED
    assert [message["content"] for message in repaired[5:]] == [message["content"] for message in between]


def test_a_result_before_its_call_is_put_behind_it():
    history = [*ASKED, tool_message(A, "1"), CALLING, tool_message(B, "2")]
    assert rules(history) == [(2, "misplaced_result")]
    assert repair_history(history) == ANSWERED


def test_results_stand_in_call_order():
    history = [*ASKED, CALLING, tool_message(B, "2"), tool_message(A, "1")]
    assert [rules(history, provider) for provider in PROVIDERS] == [[], [], [], [(4, "result_order")]]
    assert repair_history(history) == ANSWERED


def test_a_second_result_is_left_out():
    history = [*ANSWERED, tool_message(A, "again"), user("u"), tool_message(B, "again")]
    assert rules(history) == [(5, "duplicate_result"), (7, "duplicate_result")]
    assert repair_history(history) == [*ANSWERED, user("u")]


# ---- ids


@pytest.mark.parametrize("identity", [None, "", " ", {}, "missing"])
def test_missing_ids_become_new_ones_with_their_results(identity):
    first = call_of(id=identity)
    second = call_of(id=identity, function={"name": "sub"})
    results = [{"role": "tool", "tool_call_id": identity, "content": text} for text in "12"]
    if identity == "missing":
        for entry in [first, second, *results]:
            entry.pop("id", entry.pop("tool_call_id", None))
    repaired = repair_history([*ASKED, says(first, second), *results])
    ids = [call.id for call in calls_of(repaired[2])]
    assert len({*ids}) == 2
    assert [(m["tool_call_id"], m["content"]) for m in repaired[3:]] == [(ids[0], "1"), (ids[1], "2")]
    assert {rule for _, rule in rules([*ASKED, says(first, second), *results])} == {"missing_id"}


def test_the_second_call_with_an_id_gets_another_with_its_result():
    twice = [*ASKED, says(call_of(), call_of()), tool_message(A, "1"), tool_message(A, "2")]
    assert rules(twice) == [(2, "duplicate_id")]
    assert [(m["tool_call_id"], m["content"]) for m in repair_history(twice)[3:]] == [("a", "1"), ("call_1", "2")]
    later = [*ANSWERED, user("and?"), assistant(None, [A]), tool_message(A, "3")]
    assert rules(later) == [(6, "duplicate_id")]
    repaired = repair_history(later)
    assert (repaired[6]["tool_calls"][0]["id"], repaired[7]["tool_call_id"]) == ("call_1", "call_1")
    assert repaired[7]["content"] == "3"


def test_a_new_id_differs_from_all_later_ones():
    taken = ToolCall("call_1", "add")
    history = [
        *ASKED,
        says(call_of(id="")),
        {"role": "tool", "content": "x"},
        assistant(None, [taken]),
        tool_message(taken, "y"),
    ]
    repaired = repair_history(history)
    assert [call.id for message in repaired for call in calls_of(message)] == ["call_2", "call_1"]
    assert repaired[-1] is history[-1]


def test_an_id_that_was_used_again_belongs_to_the_latest_call():
    history = [
        *ASKED,
        assistant(None, [A]),
        user("again"),
        assistant(None, [A]),
        tool_message(A, "late"),
        tool_message(A, "later"),
    ]
    repaired = repair_history(history)
    assert [message["content"] for message in repaired if message["role"] == "tool"] == [INTERRUPTED_CALL, "late"]
    assert (6, "duplicate_result") in rules(history)


def test_an_early_result_is_only_taken_where_one_call_alone_has_its_id():
    history = [
        *ASKED,
        tool_message(A, "early"),
        assistant(None, [A]),
        tool_message(A, "1"),
        user("again"),
        assistant(None, [A]),
    ]
    tools = [message["content"] for message in repair_history(history) if message["role"] == "tool"]
    assert tools == ["1", INTERRUPTED_CALL]


def test_results_behind_a_call_whose_id_got_lost_are_matched_by_name_or_number():
    stranger = {"role": "tool", "tool_call_id": "zzz", "content": "1"}
    assert repair_history([*ASKED, assistant(None, [A]), stranger])[3]["tool_call_id"] == "a"
    named = {**stranger, "name": "sub"}
    repaired = repair_history([*ASKED, CALLING, named])
    assert [message["content"] for message in repaired[3:]] == [INTERRUPTED_CALL, "1"]
    assert [m["content"] for m in repair_history([*ASKED, CALLING, stranger])[3:]] == [INTERRUPTED_CALL] * 2, "either's"
    other = {**stranger, "name": "mul"}
    assert [m["content"] for m in repair_history([*ASKED, CALLING, other, other])[3:]] == [INTERRUPTED_CALL] * 2
    assert rules([*ASKED, assistant(None, [A]), stranger]) == [(3, "orphan_result")]


def test_a_stray_result_of_a_known_call_is_never_taken_for_that_of_another():
    history = [*ASKED, assistant(None, [A]), tool_message(A, "1"), assistant(None, [B]), tool_message(A, "1")]
    assert repair_history(history)[-1] == tool_message(B, INTERRUPTED_CALL, label=DEVELOPER)


# ---- what a call is made of


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "{}"),
        (None, "{}"),
        ('{"x": ', "{}"),
        ("[1]", "{}"),
        ("null", "{}"),
        ({"x": 1}, '{"x": 1}'),
        ('"{\\"x\\": 1}"', '{"x": 1}'),
        ('{"x": NaN}', '{"x": null}'),
        ('{"x": 1e999}', '{"x": null}'),
        ('{"x": "\\ud800"}', '{"x": "�"}'),
        ("[" * 100_000, "{}"),
        ('{"x": ' * 100_000, "{}"),
        ({"x": {1: {datetime.date(2024, 1, 2)}}}, '{"x": {"1": ["2024-01-02"]}}'),
    ],
)  # fmt: skip
def test_arguments_become_the_text_of_an_object(arguments, text):
    history = [*ASKED, says(call_of(function={"arguments": arguments})), tool_message(A, "1")]
    assert {rule for _, rule in rules(history)} <= {"bad_arguments", "not_json"}
    assert "bad_arguments" in {rule for _, rule in rules(history)}
    assert repair_history(history)[2]["tool_calls"][0]["function"]["arguments"] == text
    assert repair_history(history)[3] is history[3]


@pytest.mark.parametrize("text", ["{}", ' {"x": 1}\n', '{"x": "\\ud83d\\ude00 é"}', '{"x": [1.5, null, true]}'])
def test_arguments_that_are_an_object_stay_as_they_were_written(text):
    assert to_object_text(text) is text


def test_names_are_what_every_provider_takes():
    assert to_portable_name("get_weather-2") == "get_weather-2"
    assert [to_portable_name(name) for name in ["a.b", "größe", "2fa", "-x", "", "x" * 70]] == [
        "a_b",
        "gr_e",
        "_2fa",
        "_-x",
        "unnamed_tool",
        "x" * 64,
    ]
    digit = [*ASKED, says(call_of(function={"name": "2fa"})), {**tool_message(A, "1"), "name": "2fa"}]
    assert [rules(digit, provider) for provider in PROVIDERS[:3]] == [[]] * 3
    assert (2, "bad_name") in rules(digit, "gemini")
    repaired = repair_history(digit)
    assert repaired[2]["tool_calls"][0]["function"]["name"] == repaired[3]["name"] == "_2fa"
    assert rules([*ASKED, says(call_of(function={"name": None})), tool_message(A, "1")]) == [(2, "bad_name")]


def test_a_result_bears_the_name_of_its_call():
    history = [*ASKED, assistant(None, [A]), {**tool_message(A, "1"), "name": "other"}]
    assert (rules(history, "openai"), rules(history, "gemini")) == ([], [(3, "bad_name")])
    assert repair_history(history)[3]["name"] == "add"


@pytest.mark.parametrize(
    "calls",
    [
        [{"id": "a", "name": "add", "arguments": {"x": 1}}],
        [{"id": "a", "function": {"name": "add", "arguments": '{"x": 1}'}}],
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        [None, call_of(function={"arguments": '{"x": 1}'}), "add"],
    ],
)
def test_calls_in_other_forms_are_written_in_ours(calls):
    history = [*ASKED, {"role": "assistant", "content": None, "tool_calls": calls}, tool_message(A, "1")]
    assert (2, "bad_call") in rules(history)
    assert repair_history(history) == [*ASKED, assistant(None, [A]), tool_message(A, "1")]


def test_a_value_that_is_not_a_call_is_left_out():
    assert repair_history([*ASKED, assistant("hello") | {"tool_calls": ["add"]}]) == [*ASKED, assistant("hello")]
    assert repair_history([*ASKED, assistant() | {"tool_calls": "add"}]) == ASKED
    history = [*ASKED, assistant("yes"), user("and?") | {"tool_calls": [None]}]
    assert repair_history(history) == [*ASKED, assistant("yes"), user("and?")]


def test_the_function_calls_of_old_are_tool_calls():
    old = {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": "{}"}}
    repaired = repair_history([*ASKED, old, {"role": "function", "name": "add", "content": "3"}])
    call = ToolCall("call_1", "add")
    assert repaired == [*ASKED, assistant(None, [call]), tool_message(call, "3")]


# ---- a message by itself


class Odd:
    def __str__(self):
        raise ValueError("no")


class FromAnSDK:
    """What the SDKs return, which people append to their lists."""

    def model_dump(self, exclude_none: bool):
        return {"role": "assistant", "content": "hello"}


def test_messages_of_an_sdk_become_dicts_and_what_is_not_a_message_is_left_out():
    history = [*ASKED, FromAnSDK(), None, "text", 7, [], object()]
    assert rules(history) == [(place, "bad_message") for place in range(2, 8)]
    assert repair_history(history) == [*ASKED, assistant("hello")]


@pytest.mark.parametrize(
    ("said", "role"),
    [("developer", "system"), ("human", "user"), ("AI", "assistant"), ("model", "assistant"), (" User ", "user"),
     ("note", "user"), (None, "user"), (7, "user"), ({}, "user"), ("assistent", "user")],
)  # fmt: skip
def test_a_role_that_is_unknown_becomes_the_one_that_is_meant(said, role):
    history = [{"role": said, "content": "x"}, assistant("q") if role == "user" else user("q")]
    assert (0, "bad_role") in rules(history)
    label = {"label": UNKNOWN.as_dict()} if said in ("note", None, 7, {}, "assistent") else {}  # who wrote it?
    assert repair_history(history)[-2] == {"role": role, "content": "x", **label}


def test_a_message_is_read_by_its_content_and_not_by_its_role():
    wrong = [*ASKED, {**CALLING, "role": "user"}, {**ANSWERED[3], "role": "user"}, {**ANSWERED[4], "role": "system"}]
    assert rules(wrong) == [(place, "bad_role") for place in (2, 3, 4)]
    assert repair_history(wrong) == ANSWERED


@pytest.mark.parametrize("content", [None, "", " \n", [], [{"type": "text", "text": " "}], [""]])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_empty_messages_are_left_out(role, content):
    history = [*ASKED, assistant("yes"), {"role": role, "content": content}, user("and?")]
    assert (3, "empty_content") in rules(history)
    assert repair_history(history) == [*ASKED, assistant("yes"), user("and?")]


def test_blank_text_beside_calls_goes_and_empty_results_stay():
    history = [*ASKED, assistant(" \n", [A]), tool_message(A, "")]
    assert (rules(history, "openai"), rules(history, "anthropic")) == ([], [(2, "empty_content")])
    assert repair_history(history) == [*ASKED, assistant(None, [A]), tool_message(A, "")]
    for content in (None, []):
        nothing = [*ASKED, assistant(None, [A]), {**tool_message(A, ""), "content": content}]
        assert rules(nothing) == [(3, "bad_content")]
        assert repair_history(nothing)[3]["content"] == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (7, "7"),
        ({"type": "text", "text": "x"}, [{"type": "text", "text": "x"}]),
        ({"a": 1}, [{"type": "text", "text": '{"a": 1}'}]),
        (["x", {"text": "y"}], [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
        ([{"type": "text", "text": "x"}, {"type": "text"}], [{"type": "text", "text": "x"}]),
        (b"bytes", "bytes"),
    ],
)
def test_content_that_is_neither_text_nor_parts_becomes_text(content, said):
    history = [user("q"), {"role": "assistant", "content": content}]
    assert {rule for _, rule in rules(history)} <= {"bad_content", "not_json"}
    assert rules(history)
    assert repair_history(history)[1]["content"] == said


def test_only_users_and_tools_show_images():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    history = [user("q"), {"role": "assistant", "content": [{"type": "text", "text": "see"}, image]}]
    assert (rules(history, "gemini"), rules(history, "openai")) == ([], [(1, "bad_content")])
    texts = [part["text"] for part in repair_history(history)[1]["content"]]
    assert texts == ["see", "(image_url)"]


def test_what_json_has_no_word_for_becomes_data():
    knot: list[Any] = []
    knot.append(knot)
    odd = {"date": datetime.date(2024, 1, 2), 1: (1, float("nan")), "odd": Odd(), "object": object(), "knot": knot}
    history = [user("q"), assistant("x") | {"provider_specific_fields": odd}]
    assert rules(history) == [(1, "not_json")]
    fields = repair_history(history)[1]["provider_specific_fields"]
    assert fields["date"] == "2024-01-02"
    assert fields["1"] == [1, None]
    assert (fields["odd"], fields["object"]) == ("<Odd: ValueError>", "<object>")
    json.dumps(fields, allow_nan=False)


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_joined():
    history = [
        {"role": "user", "content": "a\ud83d\ude00b\ud800"},
        assistant(None, [ToolCall("\ud800", "f")]),
        {"role": "tool", "tool_call_id": "\ud800", "content": "ok"},
    ]
    assert [rule for _, rule in rules(history)] == ["not_unicode"] * 3
    repaired = repair_history(history)
    assert repaired[0]["content"] == "a😀b�"
    assert repaired[2] == {"role": "tool", "tool_call_id": repaired[1]["tool_calls"][0]["id"], "content": "ok"}


def test_names_of_people_that_openai_refuses():
    history = [{"role": "user", "content": "q", "name": "Ann Bee"}, {"role": "user", "content": "r", "name": None}]
    assert rules(history, "openai") == [(0, "bad_name"), (1, "bad_name")]
    assert repair_history(history) == [{"role": "user", "content": "q", "name": "Ann_Bee"}, user("r")]


# ---- who speaks when


def test_system_messages_stand_first():
    history = [system("s"), user("q"), system("now in French"), assistant("oui")]
    assert rules(history) == [(2, "late_system")]
    assert repair_history(history) == [system("s"), user("q\n\nnow in French"), assistant("oui")]


PICTURE = {"type": "image_url", "image_url": {"url": "data:"}}


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (user("one"), user("two"), user("one\n\ntwo")),
        (assistant("one"), assistant("two"), assistant("one\n\ntwo")),
        (assistant("one"), assistant(None, [A]), assistant("one", [A])),
        (assistant("one"), assistant("two", [A]), assistant("one\n\ntwo", [A])),
        (user([PICTURE]), user("two"), user([PICTURE, {"type": "text", "text": "two"}])),
    ],
)
def test_texts_of_one_role_in_a_row_become_one(first, second, joined):
    end = [tool_message(A, "1")] if second.get("tool_calls") else []
    history = [*ASKED[:1], *([user("q")] if first["role"] == "assistant" else []), first, second, *end]
    place = history.index(second)
    assert [rules(history, p) for p in PROVIDERS] == [[], [], *[[(place, "consecutive_roles")]] * 2]
    assert repair_history(history) == [*history[: place - 1], joined, *end]
    named = [*ASKED[:1], user("one") | {"name": "Ada"}, user("two")]
    assert repair_history(named) is named, "who spoke would be lost"


def test_the_first_message_is_of_the_user():
    history = [system("s"), assistant("How can I help?"), user("q")]
    assert [rules(history, p) for p in PROVIDERS] == [[], [], [(1, "first_user")], [(1, "first_user")]]
    assert repair_history(history) == [system("s"), user(OPENING), *history[1:]]


THINKING = [{"type": "thinking", "thinking": "t", "signature": "s"}]


def test_thinking_stands_at_the_head_of_a_turn():
    second = says(call_of(), provider="anthropic", thinking_blocks=THINKING)
    history = [*ASKED, assistant("one moment"), second, tool_message(A, "1")]
    assert (rules(history, "openai"), rules(history, "anthropic")) == ([], [(3, "split_reply")])
    assert repair_history(history) == [*history[:3], user(CONTINUE_TEXT), *history[3:]]


@pytest.mark.parametrize("blocks", [None, [], "t", [{"type": "thinking", "thinking": "t"}], ["t"]])
def test_thinking_without_its_blocks_is_reported_and_cannot_be_repaired(blocks):
    lost = says(call_of(), provider="anthropic", reasoning_content="t", thinking_blocks=blocks)
    history = [*ASKED, lost, tool_message(A, "1"), assistant(None, [B]), tool_message(B, "2")]
    assert (rules(history, "anthropic"), rules(history, "openai")) == ([(2, "lost_thinking")], [])
    assert repair_history(history) is history
    assert rules([*history, user("next")], "anthropic") == [], "the loop is over"
    assert rules([*ASKED, {**lost, "provider": "gemini"}, tool_message(A, "1")], "anthropic") == []
    redacted = [{"type": "redacted_thinking", "data": "x"}, *THINKING]
    assert rules([*ASKED, {**lost, "thinking_blocks": redacted}, tool_message(A, "1")], "anthropic") == []


# ---- replies, groups, speed


def test_a_reply_is_admitted_with_the_names_and_arguments_that_the_model_wrote():
    reply = says(call_of(function={"name": "a.b", "arguments": "{'x': 1}"}), call_of(function={"arguments": {"x": 1}}))
    known = {"call_0"}
    first, second = calls_of(normalize_reply(reply, known))
    assert first == ToolCall("a", "a.b", "{'x': 1}")
    assert (second.id, second.arguments) == ("call_2", '{"x": 1}')
    assert known == {"call_0", "a", "call_2"}


def test_an_id_that_reads_as_a_path_is_replaced():
    first, second = calls_of(normalize_reply(says(call_of(id="functions/add:0"), call_of(id="b")), {"call_1"}))
    assert (first.id, second.id) == ("call_2", "b")


def test_groups_hold_a_call_and_its_results_together():
    history = [*ANSWERED, assistant("done"), user("next")]
    assert [history[group] for group in split_groups(history)] == [
        [history[0]],
        [history[1]],
        history[2:5],
        [history[5]],
        [history[6]],
    ]
    assert split_groups([]) == []
    assert split_groups([tool_message(A, "1"), user("q")]) == [slice(0, 1), slice(1, 2)]


def long_history(turns: int) -> list[dict[str, Any]]:
    history = [*ASKED]
    for number in range(turns):
        call = ToolCall(f"call_{number}", "add", '{"x": 1}')
        history += [assistant(None, [call]), tool_message(call, "result " * 100), assistant("so it is")]
    return history


def test_a_long_conversation_is_looked_through_in_no_time():
    history = long_history(666)
    with takes_at_most(10):
        repair_history(history)
    same = [*ASKED, says(*[call_of()] * 3000), *[tool_message(A, "1")] * 3000]
    with takes_at_most(100):
        repair_history(same)


@pytest.mark.parametrize("is_named", [True, False])
def test_results_with_ids_of_another_conversation_are_matched_in_linear_time(is_named):
    calls = [ToolCall(f"call {place}", "add", "{}") for place in range(10_000)]
    results = [tool_message(ToolCall(f"foreign {place}", "add", "{}"), "3") for place in range(10_000)]
    if not is_named:
        results = [{key: value for key, value in result.items() if key != "name"} for result in results]
    with takes_at_most(200):
        repaired = repair_history([user("1 + 2?"), assistant(None, calls), *results])
    assert [message["tool_call_id"] for message in repaired[2:]] == [call.id for call in calls]
