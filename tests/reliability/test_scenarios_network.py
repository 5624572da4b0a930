"""Failures of the network and of the provider."""

from typing import Any

import pytest
from play import MAY_BE_LATE, MODELS, TEA, Play, answer_about_tea, calls, fail_once, final
from waiting import HANGS

from agentkit import Limits, ModelError

pytestmark = MAY_BE_LATE
HTML = {"body": "<html><body>Bad gateway</body></html>", "headers": {"Content-Type": "text/html"}}
INVALID = {"body": '{"id": "1", "choices": [{"mess'}
PASSING = [
    ("net_500", 500),
    ("net_502_html", {"status": 502, **HTML}),
    ("net_503", 503),
    ("net_reset", {"reset": True}),
    ("net_reset_body", {"content": "a b c", "reset": "halfway"}),
    ("net_reset_body", {"content": "a b c", "cut": True}),
    ("net_invalid_json", INVALID),
    ("net_html_200", HTML),
    ("net_error_in_200", {"error": "the upstream provider failed"}),
]


@pytest.mark.parametrize(("scenario", "fault"), PASSING, ids=[f"{name}-{n}" for n, (name, _) in enumerate(PASSING)])
def test_what_passes_is_waited_out(play: Play, scenario: str, fault: Any):
    outcome = play([calls(TEA), fault, fault, final("3.5")])
    assert outcome.answer == "3.5"
    assert len(outcome.ran) == 1
    assert 1 <= len(outcome.slept) <= 2  # litellm itself asks once more when an asynchronous body breaks off
    assert outcome.bodies[1] == outcome.bodies[2] == outcome.bodies[3]


@pytest.mark.parametrize(
    ("scenario", "fault"), [("net_down", 503), ("net_down", {"reset": True}), ("net_invalid_json", INVALID),
                            ("net_html_200", HTML), ("net_error_in_200", {"error": "failed"})]
)  # fmt: skip
def test_what_does_not_pass_ends_typed(play: Play, scenario: str, fault: Any):
    outcome = play([calls(TEA), *[fault] * 50])
    assert isinstance(outcome.error, ModelError)
    assert len(outcome.bodies) - 1 <= 10  # two for each try: litellm's asynchronous clients dial again by themselves
    assert len(outcome.ran) == 1
    assert outcome.error.usage.requests >= 1
    assert outcome.error.history


def test_net_refused(play: Play):
    outcome = play([calls(TEA), final("3.5")], opens_after=0.7, faster=1.0)
    assert outcome.answer == "3.5"
    assert outcome.slept
    assert len(outcome.ran) == 1


def test_net_read_timeout(play: Play):
    late = fail_once({"content": "late", "delay": HANGS}, "3.5", answer_about_tea)
    outcome = play([late] * 9, limits=Limits(request_seconds=0.4))
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) >= 3
    assert len(outcome.ran) == 1


def test_net_429_retry_after(play: Play):
    busy = {"status": 429, "headers": {"Retry-After": "3"}, "message": "slow down"}
    outcome = play([calls(TEA), busy, final("3.5")])
    assert outcome.answer == "3.5"
    assert outcome.slept[0] >= 3


def test_net_429_long(play: Play):
    outcome = play([{"status": 429, "headers": {"Retry-After": "3600"}, "message": "come back tomorrow"}] * 3)
    assert isinstance(outcome.error, ModelError)
    assert (outcome.error.kind, outcome.error.retry_after) == ("rate_limit", 3600)
    assert len(outcome.bodies) == 1
    assert outcome.slept == []


@pytest.mark.parametrize(
    ("scenario", "status", "kind"), [("net_401", 401, "authentication"), ("net_404_model", 404, "not_found")]
)
def test_what_cannot_pass_is_asked_once(play: Play, scenario: str, status: int, kind: str):
    outcome = play([{"status": status, "message": "no"}] * 5)
    assert isinstance(outcome.error, ModelError)
    assert (outcome.error.kind, outcome.error.status) == (kind, status)
    assert len(outcome.bodies) == 1


def test_net_context_length(play: Play):
    def large(item: str) -> str:
        """Tells all about an item."""
        return f"{item} " * 3000

    about = {"name": "large", "arguments": {"item": "tea"}}
    overflow = {
        "status": 400,
        "code": "context_length_exceeded",
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9999 tokens.",
    }
    outcome = play([calls(about), overflow, final("much")], tools=[large])
    if outcome.error is None:
        assert outcome.answer == "much"
        assert len(str(outcome.bodies[2])) < len(str(outcome.bodies[1]))
    else:
        assert isinstance(outcome.error, ModelError)
        assert outcome.error.kind == "context"
    assert len(outcome.ran) == 1


def test_net_context_length_forever(play: Play):
    overflow = {"status": 400, "code": "context_length_exceeded", "message": "maximum context length is 8192 tokens"}
    outcome = play([calls(TEA), *[overflow] * 10])
    assert isinstance(outcome.error, ModelError)
    assert outcome.error.kind == "context"
    assert all(before != after for before, after in zip(outcome.bodies[1:], outcome.bodies[2:], strict=False))


def test_net_fallback(play: Play):
    asked: list[str] = []

    def provider(body: Any) -> Any:
        asked.append(body["model"])
        if body["model"] == "gpt-4o":
            return final("3.5")
        return calls(TEA) if len(asked) == 1 else 503

    outcome = play([provider] * 30, fallback_models=["openai/gpt-4o"])
    assert outcome.answer == "3.5"
    assert len(outcome.ran) == 1
    assert asked[0] == MODELS["openai"].partition("/")[2]
    assert asked[-1] == "gpt-4o"
    assert outcome.bodies[-1]["messages"][-1]["content"] == "3.5"
