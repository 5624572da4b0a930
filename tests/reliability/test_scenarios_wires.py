"""Properties of Anthropic, Gemini and Mistral."""

from typing import Any

import pytest
from play import COFFEE, TEA, Play, call, calls, final, reply_unless

from agentkit import ModelError, RunError

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
WINE = call("price_of", {"item": "wine"})


def thought(number: int) -> dict[str, Any]:
    return {"type": "thinking", "thinking": f"I should look  at\nnumber {number}.", "signature": f"SIG{number}=="}


def redacted(number: int) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": f"EmwKAhgB{number}=="}


def list_blocks(body: Any) -> list[list[Any]]:
    return [message["content"] for message in body["messages"] if message["role"] == "assistant"]


def test_anthropic_parallel(play: Play):
    outcome = play([calls(TEA, WINE, COFFEE), final("7.75")], wire="anthropic")
    assert outcome.answer == "7.75"
    made, results = outcome.bodies[1]["messages"][-2:]
    assert (made["role"], results["role"]) == ("assistant", "user")
    assert [block["tool_use_id"] for block in results["content"]] == [block["id"] for block in made["content"]]
    assert "wine" in str(results["content"][1]["content"])


@pytest.mark.parametrize(
    ("scenario", "first", "second"),
    [
        ("anthropic_thinking", [thought(1)], [thought(2)]),
        ("anthropic_redacted", [thought(1), redacted(1)], [redacted(2)]),
        ("anthropic_streamed", [redacted(1), thought(1)], []),
    ],
)
def test_thinking_is_sent_back_byte_for_byte(play: Play, scenario: str, first: list[Any], second: list[Any]):
    replies = [calls(TEA, parts=first, content="Well."), calls(COFFEE, parts=second), final("7.75", parts=[])]
    outcome = play(replies, wire="anthropic", **THINKING)
    assert outcome.answer == "7.75"
    earlier, later = list_blocks(outcome.bodies[2])
    assert earlier[: len(first)] == first
    assert later[: len(second)] == second


def test_anthropic_overloaded(play: Play):
    outcome = play([{"status": 529, "message": "Overloaded"}, calls(TEA), final("3.5")], wire="anthropic")
    assert outcome.answer == "3.5"
    assert len(outcome.slept) == 1


def test_anthropic_refusal(play: Play):
    outcome = play([calls(TEA), *[{"content": "", "finish_reason": "refusal"}] * 3], wire="anthropic")
    assert isinstance(outcome.error, ModelError)
    assert outcome.error.kind == "refused"


def test_anthropic_max_tokens(play: Play):
    cut = calls(call("price_of", {"item": "te"}), finish_reason="max_tokens")
    outcome = play([cut, calls(TEA), final("3.5")], wire="anthropic")
    assert isinstance(outcome.error, RunError) or outcome.answer == "3.5"
    assert outcome.arguments in ([], [{"item": "tea"}])


def test_anthropic_empty(play: Play):
    outcome = play([calls(TEA), {}, final("3.5")], wire="anthropic")
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) == 3


def test_anthropic_broken_stream_args(play_streamed: Play):
    broken = calls(call("price_of", '{"item": "tea'))
    outcome = play_streamed([broken, reply_unless("3.5", calls(TEA), final("3.5")), final("3.5")], wire="anthropic")
    assert outcome.answer == "3.5"
    assert outcome.arguments == [{"item": "tea"}]
    assert isinstance(list_blocks(outcome.bodies[1])[0][0]["input"], dict)


def test_gemini_parallel(play: Play):
    outcome = play([calls(TEA, WINE, COFFEE), final("7.75")], wire="gemini")
    assert outcome.answer == "7.75"
    made, results = outcome.bodies[1]["contents"][-2:]
    assert len(results["parts"]) == len(made["parts"]) == 3
    assert len(outcome.ran) == 3


def test_gemini_equal_calls(play: Play):
    """litellm omits the second of two equal calls from the request, and Gemini compares the numbers of calls and results."""
    outcome = play([calls(TEA, WINE, TEA), final("3.5")], wire="gemini")
    assert outcome.answer == "3.5"
    assert len(outcome.tool_texts) == 4


@pytest.mark.parametrize("wire", ["gemini", "gemini3"])
def test_gemini_thought_signature(play: Play, wire: str):
    first = {**TEA, "signature": "U0lHMQ=="}
    second = {**COFFEE, "signature": "U0lHMg=="}
    outcome = play([calls(first, WINE), calls(second), final("7.75")], wire=wire)
    assert outcome.answer == "7.75"
    model = [turn for turn in outcome.bodies[2]["contents"] if turn["role"] == "model"]
    assert [turn["parts"][0].get("thoughtSignature") for turn in model] == ["U0lHMQ==", "U0lHMg=="]


def test_gemini_malformed_call(play: Play):
    outcome = play([calls(TEA), {"finish_reason": "MALFORMED_FUNCTION_CALL"}, final("3.5")], wire="gemini")
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) == 3


def test_gemini_blocked(play: Play):
    outcome = play([calls(TEA), *[{"block_reason": "PROHIBITED_CONTENT"}] * 3], wire="gemini")
    assert isinstance(outcome.error, ModelError)
    assert outcome.error.kind == "refused"
    assert "PROHIBITED_CONTENT" in str(outcome.error)


def test_mistral_user_after_tool(play: Play):
    """The second query follows the result of `final_answer` directly, which Mistral rejects without a repair."""
    outcome = play([calls(TEA), final("3.5")], wire="mistral")
    assert outcome.answer == "3.5"
    assert [message["role"] for message in outcome.bodies[1]["messages"]] == ["system", "user", "assistant", "tool"]
