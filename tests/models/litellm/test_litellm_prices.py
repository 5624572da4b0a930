"""What a reply cost, what a request can cost at most, and how long a reply may be."""

import asyncio
import json
import random
from typing import Any

import pytest
from wire_providers import KEY, MODELS, Play, Provider

from agentkit import DefinitionError, JsonAgent, Limits, RunError
from agentkit.core.messages import Message, ToolCall, assistant, system, tool_message, user
from agentkit.engine.history.size import TokenBounds, bound_tokens
from agentkit.engine.model import Reply, Request
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.models.litellm.prices import find_prices
from agentkit.testing import answer
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


STANDARD = {"service_tier": "default"}


def test_the_worst_case_is_all_read_and_the_longest_reply_written() -> None:
    worst = model(**STANDARD).worst_case(wish(user("hi")))
    assert worst == pytest.approx(16_384 * OUTPUT, rel=0.1)
    assert worst > 16_384 * OUTPUT
    longer = model(**STANDARD).worst_case(wish(user("hi" * 500_000)))
    assert longer is not None
    assert longer - worst >= 999_000 * INPUT


def test_a_shorter_reply_is_cheaper() -> None:
    by_request = model(**STANDARD).worst_case(wish(user("hi"), max_tokens=10))
    by_option = model(max_tokens=10, **STANDARD).worst_case(wish(user("hi")))
    by_both = model(max_tokens=10, **STANDARD).worst_case(wish(user("hi"), max_tokens=500))
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
    given = {"model_info": {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0}}
    assert find_prices(load_litellm(), "openai", "my-own", given).max_output_tokens is None


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


def prices_of(row: dict[str, float], **options: Any) -> Any:
    return find_prices(load_litellm(), "openai", "my-own", {"model_info": row, **options})


def test_long_conversations_cost_more_where_the_table_has_such_prices() -> None:
    row = {"input_cost_per_token": 1.0, "input_cost_per_token_above_200k_tokens": 2.0, "output_cost_per_token": 3.0}
    assert prices_of(row).max_cost(199_999, 1) == 199_999 + 3
    assert prices_of(row).max_cost(200_001, 1) == 2 * 200_001 + 3
    cached = {"input_cost_per_token": 1.0, "cache_creation_input_token_cost": 1.25, "output_cost_per_token": 0.0}
    assert prices_of(cached).max_cost(100, 5) == 125


ROW = {
    "input_cost_per_token": 1.0,
    "input_cost_per_token_priority": 2.0,
    "input_cost_per_token_flex": 0.5,
    "cache_creation_input_token_cost_above_1hr": 4.0,
    "input_cost_per_audio_token": 8.0,
    "output_cost_per_token": 1.0,
    "output_cost_per_audio_token": 16.0,
}


@pytest.mark.parametrize(
    ("options", "how", "audio", "expected"),
    [
        ({}, {}, False, 210),  # the settings of a project decide about the tier
        (STANDARD, {}, False, 110),
        ({"service_tier": "flex"}, {}, False, 110),
        ({"service_tier": "priority"}, {}, False, 210),
        ({"extra_body": {"service_tier": "priority"}}, {}, False, 210),
        (STANDARD, {"is_cached_long": True}, False, 410),
        (STANDARD, {}, True, 810),
        ({**STANDARD, "modalities": ["text", "audio"]}, {}, False, 100 + 160),
        ({**STANDARD, "n": 3}, {}, False, 100 + 30),
        ({"web_search_options": {}}, {}, False, None),
    ],
)
def test_the_highest_price_that_can_apply_is_reserved(
    options: dict[str, Any], how: dict[str, bool], audio: bool, expected: float | None
) -> None:
    prices = find_prices(load_litellm(), "openai", "my-own", {"model_info": ROW, **options}, **how)
    assert prices.max_cost(100, 10, has_audio=audio) == expected


LENGTHS = (1, 1_000, 128_001, 199_999, 200_000, 200_001, 272_000, 272_001, 600_000, 2_000_000)
OTHER_ROW = {"perplexity/perplexity/sonar"}
"""litellm's calculator takes the row of another model, whose name is the end of this one."""


@pytest.mark.parametrize(
    "options", [{}, {"service_tier": "priority"}, {"service_tier": "flex"}], ids=["any", "priority", "flex"]
)
def test_no_reply_costs_more_than_was_reserved_whatever_the_row_of_the_table(options: dict[str, str]) -> None:
    litellm = load_litellm()
    chance = random.Random(7)
    rows = {key: row for key, row in litellm.model_cost.items() if row.get("mode") in ("chat", "responses")}
    priced = 0
    too_low = []
    for key, row in rows.items():
        provider = row["litellm_provider"]
        name = key.removeprefix(f"{provider}/")
        is_long = chance.random() < 0.5
        prices = find_prices(litellm, provider, name, options, is_cached_long=is_long)
        usage = make_usage(chance, litellm, is_long=is_long)
        highest = prices.max_cost(usage.prompt_tokens, usage.completion_tokens)
        cost = prices.cost({"model": name, "usage": usage, **options})
        assert (cost is None) == (highest is None), key
        if cost is not None and highest is not None:
            priced += 1
            if cost > highest * (1 + 1e-9) and key not in OTHER_ROW:
                too_low.append((key, cost, highest))
    assert too_low == []
    assert priced > 0.9 * len(rows)


def test_rates_that_are_kept_give_what_the_calculator_gives_whatever_the_row_of_the_table() -> None:
    litellm = load_litellm()
    chance = random.Random(11)
    wrong = []
    kept = 0
    for key, row in litellm.model_cost.items():
        if row.get("mode") not in ("chat", "responses") or chance.random() < 0.5:
            continue
        provider = row["litellm_provider"]
        name = key.removeprefix(f"{provider}/")
        prices = find_prices(litellm, provider, name)
        for _ in range(3):
            reply = {"model": name, "usage": make_usage(chance, litellm, is_long=False)}
            cost = prices.cost(reply)
            if cost is not None and cost != pytest.approx(prices.calculate(reply), rel=1e-9, abs=1e-12):
                wrong.append((key, cost, prices.calculate(reply)))
        kept += any(prices._rates.values())
    assert wrong == []
    assert kept > 1_000


def make_usage(chance: random.Random, litellm: Any, *, is_long: bool) -> Any:
    tokens_in = chance.choice(LENGTHS)
    tokens_out = chance.randrange(5_000)
    cached = chance.randint(0, tokens_in)
    written = chance.randint(0, tokens_in - cached)
    long = chance.randint(0, written) if is_long else 0
    lives = {"ephemeral_5m_input_tokens": written - long, "ephemeral_1h_input_tokens": long}
    return litellm.Usage(
        prompt_tokens=tokens_in,
        completion_tokens=tokens_out,
        total_tokens=tokens_in + tokens_out,
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=written,
        prompt_tokens_details={"cached_tokens": cached, "cache_creation_token_details": lives},
        completion_tokens_details={"reasoning_tokens": chance.randint(0, tokens_out)},
    )


def test_tiers_of_a_price_by_the_length_of_the_prompt() -> None:
    prices = find_prices(load_litellm(), "dashscope", "qwen-flash")
    short = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    long = {"prompt_tokens": 300_000, "completion_tokens": 100, "total_tokens": 300_100}
    assert prices.cost({"model": "qwen-flash", "usage": short}) == pytest.approx(1_000 * 5e-8 + 100 * 4e-7)
    assert prices.cost({"model": "qwen-flash", "usage": long}) == pytest.approx(300_000 * 2.5e-7 + 100 * 2e-6)
    assert prices.max_cost(300_000, 100) == pytest.approx(300_000 * 2.5e-7 + 100 * 2e-6)


def test_the_model_that_replied_has_the_price_where_the_one_of_the_request_is_not_listed() -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    reply = {"model": "gpt-4o-mini-2024-07-18", "usage": usage}
    hosted = find_prices(load_litellm(), "azure", "my-deployment")
    assert hosted.cost(reply) == pytest.approx(1_000 * INPUT + 100 * OUTPUT)
    assert hosted.max_cost(1_000, 100) is None
    own = find_prices(load_litellm(), "openai", "my-deployment", is_own=True)
    assert own.cost(reply) is None, "an own server may call its model what it likes"


def test_a_model_that_litellm_names_without_a_price_has_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = load_litellm()
    table = {key: row for key, row in litellm.model_cost.items() if key != "gemini/gemini-3-pro-preview"}
    monkeypatch.setattr(litellm, "model_cost", table)
    usage = litellm.Usage(prompt_tokens=1_000, completion_tokens=100, total_tokens=1_100)
    prices = find_prices(litellm, "gemini", "gemini-3-pro-preview")
    assert prices.cost({"model": "gemini-3-pro-preview", "usage": usage}) is None


def openai_reply(usage: dict[str, Any], model: str = "gpt-4o-mini", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "hello", **more.pop("message", {})}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    head = {"id": "chatcmpl-1", "created": 1, "model": model}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage, **more}


def openai_stream(usage: dict[str, Any], model: str = "gpt-4o-mini", **more: Any) -> str:
    delta = {"role": "assistant", "content": "hello", **more.pop("message", {})}
    head = {"id": "chatcmpl-1", "created": 1, "model": model, "object": "chat.completion.chunk", **more}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**head, "choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def anthropic_reply(usage: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": "hello"}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}


def anthropic_stream(usage: dict[str, Any]) -> str:
    whole = anthropic_reply({**usage, "output_tokens": 1})
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {key: usage[key] for key in ("output_tokens", "server_tool_use") if key in usage},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def ask_raw(play: Play, name: str, body: Any, *, stream: bool, **options: Any) -> Reply:
    headers = {"Content-Type": "text/event-stream"} if stream else {}
    with ModelServer({"body": body, "headers": headers}) as server:
        _, reply = play(Provider(name).at(server, **options), [user("hi")], stream=stream)
    return reply


def test_the_service_tier_of_the_reply_decides_about_the_price(play: Play, stream: bool) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    body = (openai_stream if stream else openai_reply)(usage, service_tier="priority")
    reply = ask_raw(play, "openai", body, stream=stream)
    assert reply.usage.cost == pytest.approx(1_000 * 0.25e-6 + 100 * 1e-6)


def test_the_requested_tier_counts_where_the_reply_names_none(play: Play, stream: bool) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    body = (openai_stream if stream else openai_reply)(usage)
    reply = ask_raw(play, "openai", body, stream=stream, service_tier="priority")
    assert reply.usage.cost == pytest.approx(1_000 * 0.25e-6 + 100 * 1e-6)


def test_a_cache_for_an_hour_is_written_at_its_own_price(play: Play, stream: bool) -> None:
    counts = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 5_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 4_000},
    }
    body = anthropic_stream(counts) if stream else anthropic_reply(counts)
    reply = ask_raw(play, "anthropic", body, stream=stream, cache="1h")
    assert reply.usage.cost == pytest.approx((10 * 3 + 100 * 0.3 + 1_000 * 3.75 + 4_000 * 6 + 5 * 15) / 1e6)
    tokens = (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.cache_creation_tokens)
    assert tokens == (5_110, 100, 5_000)


def test_a_search_of_the_provider_has_its_price(play: Play, stream: bool) -> None:
    counts = {"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 3}}
    body = anthropic_stream(counts) if stream else anthropic_reply(counts)
    reply = ask_raw(play, "anthropic", body, stream=stream)
    assert reply.usage.cost == pytest.approx((10 * 3 + 5 * 15) / 1e6 + 3 * 0.01)


CITATION = {"title": "T", "url": "https://example.org", "start_index": 0, "end_index": 1}


def test_a_search_that_only_citations_show_has_its_price(play: Play, stream: bool) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    message = {"annotations": [{"type": "url_citation", "url_citation": CITATION}]}
    body = (openai_stream if stream else openai_reply)(usage, message=message)
    reply = ask_raw(play, "openai", body, stream=stream, web_search_options={})
    assert reply.usage.cost == pytest.approx(1_000 * INPUT + 100 * OUTPUT + 0.025)


def test_audio_and_long_prompts_have_their_prices() -> None:
    litellm = load_litellm()
    details = {"audio_tokens": 900, "text_tokens": 100}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 0, "total_tokens": 1_000, "prompt_tokens_details": details}
    gemini = find_prices(litellm, "gemini", "gemini-2.5-flash")
    assert gemini.cost({"model": "gemini-2.5-flash", "usage": usage}) == pytest.approx((900 * 1 + 100 * 0.3) / 1e6)
    assert gemini.max_cost(1_000, 0, has_audio=True) >= 1_000 * 1e-6
    long = {"prompt_tokens": 272_001, "completion_tokens": 100, "total_tokens": 272_101}
    openai = find_prices(litellm, "openai", "gpt-5.4", STANDARD)
    cost = openai.cost({"model": "gpt-5.4-2026-03-05", "usage": long})
    assert cost == pytest.approx(272_001 * 5e-6 + 100 * 22.5e-6)
    assert openai.max_cost(272_001, 100) == pytest.approx(cost)


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


def test_a_price_that_is_given_is_that_of_its_agent_alone(world: Any) -> None:
    reply = {**answer("done"), "usage": {"input_tokens": 100, "output_tokens": 10}}
    costs = []
    with ModelServer(*[reply] * 3) as server:
        base = server.api_base("openai")
        for options in ({}, GIVEN, {}):
            agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=base, api_key=KEY, **options)
            costs.append(world.run(agent, "Hello").cost)
    assert costs[0] == costs[2] < costs[1] == pytest.approx(0.12)


@pytest.mark.parametrize("make", [JsonAgent, lambda *_, model, **given: LiteLLMModel(model, **given)])
@pytest.mark.parametrize("name", ["input_cost_per_second", "output_cost_per_second", "cost_per_second"])
def test_a_price_of_time_is_refused(make: Any, name: str) -> None:
    with pytest.raises(DefinitionError, match=rf"^{name}: costs are counted by tokens.*input_cost_per_token="):
        make(price_of, model="openai/gpt-4o-mini", **{name: 0.5})


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


@pytest.mark.parametrize("world", ["sync", "async"])
@pytest.mark.parametrize("dollars", [0.01, 0.03, 0.1])
def test_dollars_hold_where_each_reply_is_as_long_and_as_dear_as_it_may_be(dollars: float, world: str) -> None:
    def dearest(body: dict[str, Any]) -> dict[str, Any]:
        written = body.get("max_tokens") or 16_384
        read = len(json.dumps(body["messages"]))
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        call = {"id": f"c{read}", "type": "function", "function": {"name": "price_of", "arguments": '{"item": "tea"}'}}
        return {"body": openai_reply(usage, message={"content": None, "tool_calls": [call]}, service_tier="priority")}

    with ModelServer(*[dearest] * 50) as server:
        agent = JsonAgent(
            price_of,
            model=MODELS["openai"],
            api_base=server.api_base("openai"),
            api_key=KEY,
            limits=Limits(dollars=dollars, steps=50),
        )
        with pytest.raises(RunError) as stopped:
            agent.run("?") if world == "sync" else asyncio.run(agent.arun("?"))
    assert stopped.value.usage.cost is not None
    assert 0 < stopped.value.usage.cost <= dollars
