"""Content beside calls or instead of calls, and the reasons why a reply ended."""

import json
from itertools import count
from typing import Any

import pytest
from play import TEA, Play, call, calls, final, reply_unless

from agentkit import LimitExceeded, ModelError, RunError


def test_content_and_calls(play: Play):
    outcome = play([calls(TEA, content="Let me see."), final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.bodies[1]["messages"][-2]["content"] == "Let me see."


@pytest.mark.parametrize(
    ("scenario", "reply"),
    [
        ("empty_once", {"content": ""}),
        ("empty_null", {"content": None}),
        ("empty_of_spaces", {"content": " \n"}),
        ("finish_calls_without_calls", {"content": "", "finish_reason": "tool_calls"}),
        ("choices_empty", {"empty": True}),
    ],
)
def test_an_empty_reply_is_asked_for_again(play: Play, scenario: str, reply: Any):
    outcome = play([calls(TEA), reply, final("3.5")])
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) == 3
    assert len(outcome.ran) == 1


@pytest.mark.parametrize(
    ("scenario", "reply"), [("empty_forever", {"content": ""}), ("choices_empty", {"empty": True})]
)
def test_an_endless_silence_ends_typed(play: Play, scenario: str, reply: Any):
    outcome = play([reply] * 30)
    assert isinstance(outcome.error, RunError)
    assert len(outcome.bodies) <= 12


@pytest.mark.parametrize(
    ("scenario", "reply", "words"),
    [
        ("refusal", {"message": {"refusal": "I will not look that up."}}, "I will not look that up."),
        ("finish_content_filter", {"content": "", "finish_reason": "content_filter"}, "content filter"),
    ],
)
def test_a_refusal_is_reported_to_the_caller(play: Play, scenario: str, reply: Any, words: str):
    outcome = play([calls(TEA), *[reply] * 3])
    assert isinstance(outcome.error, ModelError)
    assert outcome.error.kind == "refused"
    assert words in str(outcome.error)
    assert len(outcome.error.history) >= 3


@pytest.mark.parametrize(
    ("scenario", "reason"), [("finish_unknown", "eos"), ("finish_null", None), ("finish_stop_with_calls", "stop")]
)
def test_calls_count_and_not_the_reason(play: Play, scenario: str, reason: str | None):
    if reason is None and play.is_streamed:
        pytest.skip("a stream without a reason has not ended")
    outcome = play([calls(TEA, finish_reason=reason), final("3.5", finish_reason=reason)])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert len(outcome.bodies) == 2


@pytest.mark.parametrize("scenario", ["finish_length_args", "finish_length_args_strict_provider"])
@pytest.mark.parametrize("text", ['{"item": "te', '{"item": "te"}'])
def test_a_call_that_was_cut_is_never_run(play: Play, scenario: str, text: str):
    outcome = play([calls(call("price_of", text), finish_reason="length"), calls(TEA), final("3.5")])
    assert isinstance(outcome.error, RunError) or outcome.answer == "3.5"
    assert outcome.arguments in ([], [{"item": "tea"}])


def test_finish_length_text(play: Play):
    outcome = play([{"content": "Tea costs three", "finish_reason": "length"}, "-fifty, all in all.", final("3.50")])
    if outcome.error is None:
        assert outcome.answer in ("3.50", "Tea costs three-fifty, all in all.")
    else:
        assert isinstance(outcome.error, RunError)
        assert outcome.error.partial == "Tea costs three"


def test_finish_length_text_forever(play: Play):
    outcome = play([{"content": "Tea costs three", "finish_reason": "length"}] * 30)
    assert isinstance(outcome.error, RunError)
    assert "Tea costs three" in outcome.error.partial
    assert len(outcome.bodies) <= 12


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        ("text_call_json", '{"name": "price_of", "arguments": {"item": "tea"}}'),
        ("text_call_json", 'Let me see.\n```json\n{"name": "price_of", "arguments": {"item": "tea"}}\n```'),
        ("text_call_tags", '<tool_call>\n{"name": "price_of", "arguments": {"item": "tea"}}\n</tool_call>'),
        ("text_call_react", 'Thought: I need the price.\nAction: price_of\nAction Input: {"item": "tea"}'),
    ],
)
def test_a_call_in_the_text_is_run_or_asked_for(play: Play, scenario: str, text: str):
    outcome = play([text, reply_unless("3.5", calls(TEA), final("3.5")), final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]


def test_loop_same_call(play: Play):
    outcome = play([calls(TEA)] * 40)
    assert isinstance(outcome.error, LimitExceeded)
    assert len(outcome.bodies) <= 12
    assert len(outcome.ran) <= 6


def test_a_stuck_run_ends_with_an_answer(play: Play):
    def stubborn(body: Any) -> Any:
        forced = body.get("tool_choice")
        return final("3.5, I think") if forced else calls(TEA)

    outcome = play([stubborn] * 40)
    assert outcome.answer == "3.5, I think"
    assert outcome.result is not None
    assert outcome.result.stopped == "stuck"


def endless():
    """A model that always has another question."""
    numbers = count(1)
    return lambda body: calls(call("convert", {"amount": next(numbers)}))


def test_loop_endless(play: Play):
    outcome = play([endless()] * 30, max_steps=5)
    assert isinstance(outcome.error, LimitExceeded)
    assert len(outcome.bodies) <= 6
    assert len(outcome.tool_texts) == sum(len(message.get("tool_calls", ())) for message in outcome.messages)
    assert len(outcome.error.history) > 10


def test_loop_default_limit(play_whole: Play):
    outcome = play_whole([endless()] * 200)
    assert isinstance(outcome.error, LimitExceeded)
    assert 20 <= len(outcome.bodies) <= 60
    assert json.dumps(outcome.error.history)
