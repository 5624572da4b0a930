"""Scenarios of the other files with Anthropic's and Gemini's formats: faults, broken streams, odd calls and ends."""

from typing import Any

import pytest
from play import MAY_BE_LATE, QUERY, TEA, Play, answer_about_tea, call, calls, fail_once, final, reply_unless

from agentkit import LimitExceeded, Limits, ModelError, RunError

HTML = {"body": "<html>Bad gateway</html>", "headers": {"Content-Type": "text/html"}}
TEXT = {"content": "The price of tea is not what it used to be, but I know it."}
PASSING: dict[str, Any] = {
    "500": 500,
    "502 with a page": {"status": 502, **HTML},
    "529": 529,
    "429": {"status": 429, "headers": {"Retry-After": "2"}},
    "reset": {"reset": True},
    "reset in the body": {"content": "a b c", "reset": "halfway"},
    "page with 200": HTML,
    "no JSON with 200": {"body": '{"id": "1", "choi'},
    "error with 200": {"error": "the upstream provider failed"},
}
BROKEN: dict[str, Any] = {
    "call cut": {**calls(TEA, content="Let me see it first."), "cut": True},
    "call cut at once": {**calls(TEA), "cut": True, "after": 1},
    "text cut": {**TEXT, "cut": True},
    "text reset": {**TEXT, "reset": "halfway"},
    "error in a call": {**calls(TEA), "error": "upstream failed"},
    "error in a text": {**TEXT, "error": "upstream failed"},
}
CUT = {"anthropic": "max_tokens", "gemini": "MAX_TOKENS"}
OVERFLOW = {
    "anthropic": "prompt is too long: 209000 tokens > 200000 maximum",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
}

pytestmark = [pytest.mark.parametrize("wire", ["anthropic", "gemini"]), MAY_BE_LATE]


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_waited_out(play: Play, wire: str, fault: str):
    outcome = play([calls(TEA), PASSING[fault], PASSING[fault], final("3.5")], wire=wire)
    assert outcome.answer == "3.5"
    assert len(outcome.ran) == 1


@pytest.mark.parametrize("fault", ["529", "reset", "no JSON with 200", "error with 200"])
def test_what_does_not_pass_ends_typed(play: Play, wire: str, fault: str):
    outcome = play([calls(TEA), *[PASSING[fault]] * 50], wire=wire)
    assert isinstance(outcome.error, ModelError)
    assert len(outcome.bodies) - 1 <= 10  # two for each try: litellm's asynchronous clients dial again by themselves
    assert len(outcome.ran) == 1
    assert outcome.error.history


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_pass_is_asked_once(play_whole: Play, wire: str, status: int):
    outcome = play_whole([{"status": status, "message": "no"}] * 5, wire=wire)
    assert isinstance(outcome.error, ModelError)
    assert len(outcome.bodies) == 1


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_stream_is_asked_for_again(play_streamed: Play, wire: str, fault: str):
    outcome = play_streamed([BROKEN[fault], calls(TEA), final("3.5")], wire=wire)
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]


def test_a_stalled_stream_is_asked_for_again(play_streamed: Play, wire: str):
    stalls = fail_once({**TEXT, "stall": 20}, QUERY, answer_about_tea)
    outcome = play_streamed([stalls] * 9, wire=wire, limits=Limits(request_seconds=0.5))
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) >= 3


def test_a_conversation_that_is_too_long_is_shortened_or_reported(play_whole: Play, wire: str):
    def large(item: str) -> str:
        """Tells all about an item."""
        return f"{item} " * 3000

    overflow = {"status": 400, "message": OVERFLOW[wire]}
    outcome = play_whole([calls(call("large", {"item": "tea"})), overflow, final("much")], tools=[large], wire=wire)
    assert outcome.answer == "much"
    assert len(str(outcome.bodies[2])) < len(str(outcome.bodies[1]))


def test_a_call_that_was_cut_is_never_run(play: Play, wire: str):
    cut = calls(call("price_of", {"item": "te"}), finish_reason=CUT[wire])
    outcome = play([cut, calls(TEA), final("3.5")], wire=wire)
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]


def test_a_text_that_is_always_cut_ends_typed(play: Play, wire: str):
    outcome = play([{"content": "Tea costs three", "finish_reason": CUT[wire]}] * 30, wire=wire)
    assert isinstance(outcome.error, RunError)
    assert "Tea costs three" in outcome.error.partial
    assert len(outcome.bodies) <= 12


def test_silence_is_asked_about_and_ends_typed(play: Play, wire: str):
    assert play([calls(TEA), {"content": ""}, final("3.5")], wire=wire).answer == "3.5"
    outcome = play([{"content": ""}] * 30, wire=wire)
    assert isinstance(outcome.error, RunError)
    assert len(outcome.bodies) <= 12


def test_a_text_after_a_call_is_taken_for_the_answer(play: Play, wire: str):
    outcome = play([calls(TEA), "Tea costs 3.5."], wire=wire)
    assert outcome.answer == "Tea costs 3.5."
    assert len(outcome.bodies) == 2


def test_a_text_that_announces_more_is_followed_by_one_reminder(play: Play, wire: str):
    outcome = play([calls(TEA), "Tea costs:", "Tea costs 3.5:"], wire=wire)
    assert outcome.answer == "Tea costs 3.5:"
    assert len(outcome.bodies) == 3


@pytest.mark.parametrize(
    "name", ["weather", "functions.price_of", "price_of<|end|>", "", "prize_of", "zwölf ß", "x" * 200]
)
def test_odd_names_are_understood_or_reported(play: Play, wire: str, name: str):
    told_or_run = reply_unless("3.5", calls(TEA), final("3.5"))
    outcome = play([calls(call(name, {"item": "tea"})), told_or_run, final("3.5")], wire=wire)
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]


def test_a_run_that_repeats_itself_ends_with_a_typed_answer(play: Play, wire: str):
    outcome = play([calls(TEA)] * 40, wire=wire)
    assert isinstance(outcome.error, LimitExceeded)
    assert len(outcome.bodies) <= 12
    assert "only repeats" in outcome.tool_texts[2]
