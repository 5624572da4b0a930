"""A warning when nothing is read from a provider's cache, although the requests extend each other."""

import json

import pytest
from one_policy import Turns

from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.engine.model import Reply
from agentkit.events import CacheMissed
from agentkit.models import LiteLLMModel
from agentkit.policies import watch_cache
from agentkit.testing import ScriptedModel


def look() -> str:
    """Look."""
    return "nothing"


def reply_with(number: int, tokens: int, cached: int = 0) -> Reply:
    name, arguments = ("final_answer", {"text": "done"}) if number < 0 else ("look", {})
    message = assistant(None, [ToolCall(f"c{number}", name, json.dumps(arguments))])
    return Reply(message, Usage(1, tokens, 10, cached_tokens=cached))


def warnings_of(world, *usage: tuple[int, int], caches: bool = True, before=lambda turns: None) -> list[CacheMissed]:
    replies = [reply_with(number, *entry) for number, entry in enumerate(usage)]
    model = ScriptedModel(*replies[:-1], reply_with(-1, *usage[-1]))
    model.caches_prompts = caches
    turns = Turns(model, look)
    before(turns)
    assert turns.drive(world, turns.take(), watch_cache()) == "done"
    return [event for event in turns.events if isinstance(event, CacheMissed)]


def test_two_misses_in_a_row_are_reported_once(world):
    (missed,) = warnings_of(world, (5_000, 0), (6_000, 0), (7_000, 0), (8_000, 0), (9_000, 0))
    assert (missed.requests, missed.tokens) == (2, 11_000)


@pytest.mark.parametrize(
    "usage",
    [
        [(5_000, 0), (6_000, 0)],
        [(5_000, 0), (6_000, 0), (7_000, 5_000), (8_000, 0), (9_000, 0), (9_500, 0)],
        [(3_000, 0), (3_500, 0), (4_000, 0), (4_095, 0)],
    ],
    ids=["one miss", "a hit", "too short for some caches"],
)
def test_a_cache_that_works_or_is_not_expected_to_is_not_reported(world, usage):
    assert warnings_of(world, *usage) == []


def test_a_model_without_a_cache_is_not_reported(world):
    assert warnings_of(world, *[(9_000, 0)] * 5, caches=False) == []


def test_requests_that_do_not_extend_each_other_are_not_reported(world):
    def cut(turns: Turns) -> None:
        whole = turns._turn

        def turn(request):
            turns.messages[0] = {"role": "user", "content": f"go {len(turns.messages)}"}
            return whole(request)

        turns._turn = turn

    assert warnings_of(world, *[(9_000, 0)] * 5, before=cut) == []


@pytest.mark.parametrize(
    ("name", "options", "caches"),
    [
        ("openai/gpt-4o-mini", {}, True),
        ("anthropic/claude-sonnet-4-5", {}, True),
        ("anthropic/claude-sonnet-4-5", {"cache": "off"}, False),
        ("gemini/gemini-2.5-flash", {}, True),
        ("openai/gpt-4o-mini", {"api_base": "http://127.0.0.1:1/v1"}, False),
        ("openai/my-own-model", {}, False),
        ("groq/llama-3.1-8b-instant", {}, False),
    ],
)
def test_the_table_of_models_says_which_has_a_cache(name, options, caches):
    assert LiteLLMModel(name, api_key="none", **options).caches_prompts is caches
