"""The marks of Claude's cache: each request finds what the one before it wrote, on every route to Claude."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
import respx
from wire_providers import KEY, Play

from agentkit import JsonAgent
from agentkit.core.messages import Message, ToolCall, assistant, system, tool_message, user
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer, answer

LOOKBACK = 20
"""Blocks at which Anthropic looks for an entry, the marked one included (Anthropic, "Prompt caching")."""
BEDROCK = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
ROUTES = {
    "anthropic/claude-sonnet-4-5": "",
    "azure_ai/claude-sonnet-4-5": "/anthropic",
    "openrouter/anthropic/claude-sonnet-4.5": "/v1",
    "litellm_proxy/claude-sonnet-4-5": "/v1",
    BEDROCK: "",
}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def add(a: int) -> int:
    """Adds."""
    return a


def turn(number: int, calls: int, text: str | None = None) -> list[Message]:
    """Return a reply with calls, and their results."""
    made = [ToolCall(f"toolu_{number}_{place}", "add", f'{{"a": {place}}}') for place in range(calls)]
    return [assistant(text, made), *(tool_message(call, f"{number} {call.id}") for call in made)]


def list_blocks(body: Any) -> list[tuple[str, bool]]:
    """Return the blocks of a request, each with whether it is marked, in any of the formats."""
    found: list[tuple[str, bool]] = []

    def add_block(block: Any, marked: bool) -> None:
        if isinstance(block, dict) and "cachePoint" in block:
            found[-1] = (found[-1][0], True)
        else:
            found.append((json.dumps(block, sort_keys=True), marked))

    instruction = body.get("system", [])
    for block in [{"text": instruction}] if isinstance(instruction, str) else instruction:
        add_block({key: block[key] for key in block if key != "cache_control"}, "cache_control" in block)
    for message in body["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        for place, part in enumerate(parts):
            at_end = "cache_control" in message and place + 1 == len(parts)
            add_block({key: part[key] for key in part if key != "cache_control"}, at_end or "cache_control" in part)
        for call in message.get("tool_calls") or ():
            add_block(call, False)
    return found


def read_cache(bodies: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield how many blocks of each request were read from the cache, and how many the one before it had marked."""
    entries: set[tuple[str, ...]] = set()
    before = 0
    for body in bodies:
        blocks = list_blocks(body)
        texts = [text for text, _ in blocks]
        marks = [place for place, (_, marked) in enumerate(blocks, 1) if marked]
        assert 1 <= len(marks) <= 4
        looked_at = {end for mark in marks for end in range(max(1, mark - LOOKBACK + 1), mark + 1)}
        yield max((end for end in looked_at if tuple(texts[:end]) in entries), default=0), before
        entries |= {tuple(texts[:mark]) for mark in marks}
        before = marks[-1]


def reply_of_bedrock(request: httpx.Request) -> httpx.Response:
    message = {"role": "assistant", "content": [{"text": "3"}]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return httpx.Response(200, json={"output": {"message": message}, "stopReason": "end_turn", "usage": usage})


def send_all(play: Play, name: str, requests: Sequence[list[Message]], monkeypatch: Any, **options: Any) -> list[Any]:
    """Return the bodies of requests on one route."""
    if name != BEDROCK:
        # litellm sends a proxy `max_retries`, which OpenAI's rules do not know
        with ModelServer(*["3"] * len(requests), strict="proxy" not in name) as server:
            backend = LiteLLMModel(name, api_base=server.url + ROUTES[name], api_key=KEY, **options)
            for messages in requests:
                play(backend, messages)
            assert server.violations == []
            return [request.body for request in server.requests]
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, KEY)
    with respx.mock() as router:
        route = router.post(url__regex=r"bedrock-runtime.*converse$").mock(side_effect=reply_of_bedrock)
        backend = LiteLLMModel(name, aws_region_name="us-east-1", **options)
        for messages in requests:
            play(backend, messages)
        return [json.loads(call.request.content) for call in route.calls]


def grow(start: list[Message], turns: Sequence[list[Message]]) -> list[list[Message]]:
    """Return the messages of the requests of a run."""
    found = [start]
    for one in turns:
        found.append([*found[-1], *one])
    return found


START = [system("Be kind."), user("q")]
CONVERSATIONS = {
    "one call a turn": grow(START, [turn(number, 1) for number in range(15)]),
    "twelve calls a turn": grow(START, [turn(number, 12, "Let me see.") for number in range(5)]),
    "fifty calls a turn": grow(START, [turn(number, 50) for number in range(3)]),
    "pictures": grow(
        [START[0], user([{"type": "text", "text": "look"}, PICTURE])],
        [[*turn(number, 12), user([{"type": "text", "text": "and"}, PICTURE])] for number in range(4)],
    ),
    "without an instruction": grow([user("q")], [turn(number, 12) for number in range(5)]),
}


@pytest.mark.parametrize("name", list(ROUTES))
@pytest.mark.parametrize("kind", list(CONVERSATIONS))
def test_each_request_reads_all_that_the_one_before_wrote(play: Play, name: str, kind: str, monkeypatch: Any) -> None:
    read = [*read_cache(send_all(play, name, CONVERSATIONS[kind], monkeypatch))]
    assert [found for found, _ in read] == [written for _, written in read]
    assert read[-1][0] > 20


@pytest.mark.parametrize("name", list(ROUTES))
def test_a_model_that_returns_after_turns_of_another_finds_its_entry(play: Play, name: str, monkeypatch: Any) -> None:
    requests = CONVERSATIONS["one call a turn"]
    bodies = send_all(play, name, [requests[0], requests[15]], monkeypatch)
    assert [*read_cache(bodies)][1][0] == len(list_blocks(bodies[0]))


@pytest.mark.parametrize("name", list(ROUTES))
@pytest.mark.parametrize(("cache", "count"), [("auto", 3), ("1h", 3), ("off", 0)])
def test_the_option_holds_on_all_routes(play: Play, name: str, cache: Any, count: int, monkeypatch: Any) -> None:
    (body,) = send_all(play, name, [CONVERSATIONS["twelve calls a turn"][1]], monkeypatch, cache=cache)
    assert sum(marked for _, marked in list_blocks(body)) == count
    if name != BEDROCK:
        assert ('"ttl": "1h"' in json.dumps(body)) == (cache == "1h")


@pytest.mark.parametrize("name", ["openrouter/openai/gpt-5", "litellm_proxy/gpt-5", "openai/gpt-5", "groq/mine"])
def test_other_models_get_no_marks(play: Play, name: str) -> None:
    with ModelServer("3", strict="proxy" not in name) as server:
        base = server.api_base("groq" if name.startswith("groq") else "openai")
        play(LiteLLMModel(name, api_base=base, api_key=KEY), CONVERSATIONS["twelve calls a turn"][1])
        assert "cache_control" not in json.dumps(server.requests[0].body)


def test_the_run_of_an_agent_reads_the_cache(world: Any, stream: bool) -> None:
    calls = {"tool_calls": [{"name": "add", "arguments": {"a": number}} for number in range(12)]}
    with ModelServer(calls, calls, calls, answer("3")) as server:
        backend = LiteLLMModel("anthropic/claude-sonnet-4-5", api_base=server.url, api_key=KEY)
        (world.stream if stream else world.run)(JsonAgent(add, model=backend, retries=0), "Add.")
        assert server.violations == []
        read = [*read_cache([request.body for request in server.requests])]
    assert [found for found, _ in read] == [written for _, written in read] == [0, 2, 26, 50]
