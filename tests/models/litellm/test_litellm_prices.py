"""What a request can cost at most, and how long a reply may be."""

import json
from typing import Any

import pytest
from wire_providers import KEY, MODELS, Play, Provider

from agentkit import JsonAgent, Limits, RunError
from agentkit.core.messages import Message, ToolCall, assistant, system, tool_message, user
from agentkit.engine.history.size import TokenBounds, bound_tokens
from agentkit.engine.model import Request
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.models.litellm.replies import Prices
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

INPUT = 0.15e-6
OUTPUT = 0.6e-6


def model(name: str = "openai", **options: Any) -> LiteLLMModel:
    return LiteLLMModel(MODELS[name], api_key=KEY, **options)


def wish(*messages: Message, **asked: Any) -> Request:
    return Request(list(messages), ToolRegistry(), **asked)


def test_the_bound_is_above_what_a_tokenizer_counts() -> None:
    litellm = pytest.importorskip("litellm")
    call = ToolCall("call_1", "look", json.dumps({"numbers": "1 2 3 4 5 6 7 8 9" * 20}))
    texts = ["", "plain English words", "1234567890" * 50, "日本語の文章です。" * 20, "🙂🚀" * 30, "\n\t \\ \"'" * 40]
    history = [system("be brief"), *map(user, texts), assistant(None, [call]), tool_message(call, "é" * 100)]
    for message in history:
        assert litellm.token_counter("gpt-3.5-turbo", messages=[message]) <= bound_tokens(message)


def test_the_worst_case_is_all_read_and_the_longest_reply_written() -> None:
    worst = model().worst_case(wish(user("hi")))
    assert worst == pytest.approx(16_384 * OUTPUT, rel=0.1)
    assert worst > 16_384 * OUTPUT
    longer = model().worst_case(wish(user("hi" * 500_000)))
    assert longer is not None
    assert longer - worst >= 999_000 * INPUT


def test_a_shorter_reply_is_cheaper() -> None:
    by_request = model().worst_case(wish(user("hi"), max_tokens=10))
    by_option = model(max_tokens=10).worst_case(wish(user("hi")))
    by_both = model(max_tokens=10).worst_case(wish(user("hi"), max_tokens=500))
    assert by_request == by_option == by_both
    assert by_request == pytest.approx(1_100 * INPUT + 10 * OUTPUT, rel=0.1)


def test_tools_and_images_count() -> None:
    def look(picture: str) -> str:
        """Looks at a picture, which is described at some length."""
        return picture

    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    bare = model().worst_case(wish(user("hi"), max_tokens=1))
    with_tools = model().worst_case(Request([user("hi")], ToolRegistry(look), max_tokens=1))
    with_image = model().worst_case(wish(user("hi"), image, max_tokens=1))
    assert bare is not None
    assert with_tools is not None
    assert with_image is not None
    assert with_tools > bare + 100 * INPUT
    assert with_image > bare + 40_000 * INPUT


def test_it_is_above_what_the_request_did_cost(provider: Provider, play: Play) -> None:
    with ModelServer("hello") as server:
        asked = provider.at(server)
        _, reply = play(asked, [user("hi")])
        worst = asked.worst_case(wish(user("hi")))
    if MODELS[provider.name] in load_litellm().model_cost or provider.name in ("openai", "anthropic", "gemini"):
        assert reply.usage.cost is not None
        assert worst is not None
        assert worst > reply.usage.cost
    else:
        assert worst is None


def test_an_unknown_model_has_no_cost() -> None:
    assert LiteLLMModel("openai/my-own", api_key=KEY).worst_case(wish(user("hi"))) is None
    assert LiteLLMModel("nonsense").worst_case(wish(user("hi"))) is None
    assert Prices({"input_cost_per_token": 1.0}).max_output_tokens is None


def test_only_new_messages_are_measured() -> None:
    seen: list[Message] = []

    def measured(message: Message) -> int:
        seen.append(message)
        return 1

    bounds = TokenBounds(measured)
    history = [user("a")]
    other = [user("b"), user("c")]
    for number in range(5):
        bounds.tokens(wish(*history))
        bounds.tokens(wish(*other))
        history.append(user(str(number)))
    assert len(seen) == 5 + 2


def test_long_conversations_cost_more_where_the_table_has_such_prices() -> None:
    row = {"input_cost_per_token": 1.0, "input_cost_per_token_above_200k_tokens": 2.0, "output_cost_per_token": 3.0}
    assert Prices(row).max_cost(200_000, 1) == 200_000 + 3
    assert Prices(row).max_cost(200_001, 1) == 2 * 200_001 + 3
    cached = {"input_cost_per_token": 1.0, "cache_creation_input_token_cost": 1.25, "output_cost_per_token": 0}
    assert Prices(cached).max_cost(100, 5) == 125


@pytest.mark.parametrize(
    ("options", "asked", "sent"),
    [
        ({}, None, None),
        ({}, 50, 50),
        ({"max_tokens": 100}, None, 100),
        ({"max_tokens": 100}, 50, 50),
        ({"max_tokens": 10}, 50, 10),
    ],
)
def test_the_smaller_limit_of_a_reply_is_sent(
    provider: Provider, play: Play, stream: bool, options: Any, asked: int | None, sent: int | None
) -> None:
    with ModelServer("hello") as server:
        play(provider.at(server, **options), [user("hi")], max_tokens=asked, stream=stream)
        body = server.requests[0].body
    body = {**body, **body.get("generationConfig", {}), **body.get("options", {})}
    found = next(
        (body[key] for key in ("max_tokens", "maxOutputTokens", "max_output_tokens", "num_predict") if key in body),
        None,
    )
    if provider.name == "anthropic" and sent is None:
        assert found >= 4096, "Anthropic insists on a number"
    else:
        assert found == sent


def test_the_newer_name_of_the_option_is_kept(play: Play) -> None:
    with ModelServer("hello") as server:
        play(Provider("openai").at(server, max_completion_tokens=100), [user("hi")], max_tokens=50)
        body = server.requests[0].body
    assert (body.get("max_completion_tokens"), body.get("max_tokens")) == (50, None)


def price_of(item: str) -> float:
    """Look up the price of an item."""
    return 3.5


GIVEN = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.002}


@pytest.mark.parametrize("options", [GIVEN, {"model_info": GIVEN}], ids=["options", "model_info"])
def test_a_price_that_is_given_counts_for_a_model_that_is_not_listed(options: dict[str, Any]) -> None:
    reply = {"content": "done", "usage": {"input_tokens": 100, "output_tokens": 10}}
    with ModelServer(reply) as server:
        base = server.api_base("openai")
        limits = Limits(dollars=5)
        agent = JsonAgent(
            price_of, model="openai/not-listed", api_base=base, api_key=KEY, max_tokens=50, limits=limits, **options
        )
        result = agent.run("Hello")
        (sent,) = server.requests
    assert result.cost == pytest.approx(0.12)
    assert "cost_per_token" not in json.dumps(sent.body)
    assert (
        LiteLLMModel("openai/not-listed", api_key=KEY, max_tokens=50, **options).worst_case(wish(user("Hello")))
        > 50 * 0.002
    )


def test_one_of_two_prices_is_not_enough() -> None:
    with ModelServer("done") as server:
        base = server.api_base("openai")
        agent = JsonAgent(
            price_of,
            model="openai/half-listed",
            api_base=base,
            api_key=KEY,
            limits=Limits(dollars=1),
            input_cost_per_token=0.001,
            max_tokens=50,
        )
        with pytest.raises(RunError, match=r"JsonAgent\(\.\.\., input_cost_per_token=\.\.\., output_cost_per_token="):
            agent.run("Hello")
        assert not server.requests
