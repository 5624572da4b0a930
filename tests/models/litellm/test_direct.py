"""The short way to litellm's coroutine gives what its `acompletion` gives, and is taken only where that is known."""

import asyncio
import re
from typing import Any

import pytest
from wire_providers import Provider, watch_completion

from agentkit import ModelError
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models.litellm import importing as direct
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

CALL = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}
REPLIES = [CALL, "three", {"status": 429, "retry_after": 7}, {"status": 401}, {"status": 500}]


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models for which litellm's decorated `completion` was called, as the decorator sees it."""
    called: list[str] = []
    utils = load_litellm().utils
    monkeypatch.setattr(utils, "print_args_passed_to_litellm", lambda _, __, asked: called.append(asked["model"]))
    return called


@pytest.fixture
def detours(books: list[str]) -> list[str]:
    """The models for which litellm's decorator ran; its own `acompletion` runs it twice for a request."""
    direct.AWAITED_PROVIDERS.clear()
    return books


def asked(model: Any, *, stream: bool = False, said: Any = "What is 1 + 2?") -> Any:
    request = Request([user(said)], ToolRegistry(), stream=stream)

    async def heard() -> list[Any]:
        return [piece async for piece in model.aask(request)]

    try:
        return asyncio.run(heard())
    except ModelError as error:
        return str(error), error.kind, error.status, error.transient, error.retry_after


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_replies_and_errors_are_the_same(provider: Provider, stream: bool, detours: list[str]) -> None:
    told = []
    for _ in range(2):
        with ModelServer(*REPLIES, strict=False) as server:
            model = provider.at(server)
            said = [asked(model, stream=stream) for _ in REPLIES]
            told.append((said, [(sent.path, sent.body) for sent in server.requests]))
    ids = re.compile(r"'id': '[^']*'|, id='[^']*'\)")  # litellm makes some up
    first, second = (ids.sub("", repr(one)) for one in told)
    assert first == second
    assert len(set(detours)) == 1
    assert len(detours) <= 2, "the first request of all"


def blocking(model: Any, *, stream: bool) -> Any:
    try:
        return [*model.ask(Request([user("What is 1 + 2?")], ToolRegistry(), stream=stream))]
    except ModelError as error:
        return str(error), error.kind, error.status, error.transient, error.retry_after


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_blocking_requests_are_the_same(
    provider: Provider, stream: bool, books: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for is_short in (True, False):
        if not is_short:
            assert books == []
            watch_completion(monkeypatch)
        with ModelServer(*REPLIES, strict=False) as server:
            model = provider.at(server)
            said = [blocking(model, stream=stream) for _ in REPLIES]
            sent = [(one.path, one.body) for one in server.requests if one.body]  # 1.84 asks Ollama for prices, too
            told.append((said, sent))
    ids = re.compile(r"'id': '[^']*'|, id='[^']*'\)")
    first, second = (ids.sub("", repr(one)) for one in told)
    assert first == second
    assert len(books) == len(REPLIES), (
        "litellm's own way has other names now: look anew at what the short one leaves out"
    )


@pytest.mark.parametrize("option", [{"metadata": {"a": 1}}, {"mock_response": "mocked"}])
def test_a_request_that_may_need_more_is_sent_by_litellm(option: dict[str, Any], detours: list[str]) -> None:
    with ModelServer("one", "two") as server:
        for _ in range(2):
            asked(Provider("openai").at(server, **option))
    assert len(detours) >= 2


def test_a_request_to_an_untried_provider_is_sent_by_litellm(detours: list[str]) -> None:
    with ModelServer("one", "two") as server:
        for _ in range(2):
            asked(LiteLLMModel("hosted_vllm/m", api_base=server.api_base("openai"), api_key="k"))
    assert len(detours) >= 2


def test_parts_which_may_have_to_be_fetched_go_litellm_s_way(provider: Provider, detours: list[str]) -> None:
    with ModelServer("one", "two") as server:
        for _ in range(2):
            asked(provider.at(server), said=[{"type": "text", "text": "What is 1 + 2?"}])
    assert len(detours) >= 2
