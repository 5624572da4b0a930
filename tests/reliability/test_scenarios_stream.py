"""Streams, and the ways in which they break."""

import json
from typing import Any

import pytest
from play import COFFEE, MAY_BE_LATE, QUERY, TEA, Play, answer_about_tea, call, calls, fail_once, final

from agentkit import Limits, ModelError, NoAnswer
from agentkit.core.messages import calls_of
from agentkit.engine.model import TextDelta
from agentkit.policies.retries import Retrying

pytestmark = MAY_BE_LATE
LONG = call("price_of", {"item": "tea", "note": "many words, so that half of the pieces end in the midst of the call"})
TEXT = {"content": "The price of tea is not what it used to be, but I know it."}
FAULTS = [
    ("stream_cut_eof", {**calls(LONG), "cut": True}),
    ("stream_cut_eof", {**calls(TEA), "cut": True, "after": 4}),
    ("stream_cut_text", {**TEXT, "cut": True}),
    ("stream_cut_text", {"content": "Well.", **calls(TEA), "cut": True, "after": 2}),
    ("stream_reset", {**TEXT, "reset": "halfway"}),
    ("stream_reset", {**calls(LONG), "reset": "halfway"}),
    ("stream_error_event", {**TEXT, "error": "upstream failed"}),
    ("stream_error_event", {**calls(TEA), "error": "upstream failed", "after": 3}),
]


def without_ids(messages: Any) -> Any:
    """Number the ids of a conversation: Gemini's calls have no ids, so each run assigns new ones."""
    text = json.dumps(messages, sort_keys=True)
    for number, identity in enumerate(made.id for message in messages for made in calls_of(message)):
        text = text.replace(identity, f"id{number}")
    return json.loads(text)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])
def test_stream_basic(play_streamed: Play, wire: str):
    replies = [calls(TEA, COFFEE, content="Let me see what it costs."), final("7.75")]
    outcome = play_streamed(replies, wire=wire)
    whole = Play(play_streamed.world.removesuffix("-streamed"), play_streamed.slept)(replies, wire=wire)
    assert outcome.answer == whole.answer == "7.75"
    assert without_ids(outcome.messages) == without_ids(whole.messages)
    assert (
        "".join(event.text for event in outcome.events if isinstance(event, TextDelta)) == "Let me see what it costs."
    )


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize(("scenario", "fault"), FAULTS)
def test_a_broken_stream_is_asked_for_again(play_streamed: Play, scenario: str, fault: Any, wire: str):
    outcome = play_streamed([fault, calls(TEA), final("3.5")], wire=wire)
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert len([event for event in outcome.events if isinstance(event, Retrying)]) == 1


@pytest.mark.parametrize(("scenario", "fault"), FAULTS[::2])
def test_a_stream_that_always_breaks_ends_typed(play_streamed: Play, scenario: str, fault: Any):
    outcome = play_streamed([fault] * 20)
    assert isinstance(outcome.error, ModelError)
    assert len(outcome.bodies) <= 10
    assert outcome.ran == []
    assert not isinstance(outcome.error, NoAnswer)


def test_stream_stall(play_streamed: Play):
    stalls = fail_once({**calls(TEA), "stall": 20}, QUERY, answer_about_tea)
    outcome = play_streamed([stalls] * 9, limits=Limits(request_seconds=0.4))
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) >= 3
    assert len(outcome.ran) == 1


def test_stream_same_index(play_streamed: Play):
    made = [{**TEA, "id": "a", "index": 0}, {**COFFEE, "id": "b", "index": 0}]
    outcome = play_streamed([calls(*made), final("7.75")])
    assert outcome.answer == "7.75"
    assert outcome.arguments == [{"item": "coffee"}, {"item": "tea"}]
