"""Every test here talks to providers that are played on this machine."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
import respx
from wire_providers import KEY, MODELS, Play, Provider

from agentkit.core.messages import Message
from agentkit.engine.model import Delta, Reply, Request
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.tools.registry import ToolRegistry


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def now() -> str:
    """Tells the time."""
    return "noon"


@pytest.fixture(autouse=True)
def _litellm_on_httpx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Asynchronous calls through httpx, which respx sees and which closes its sockets; clients of this test alone."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)
    litellm = load_litellm()
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", True)
    litellm.in_memory_llm_clients_cache.flush_cache()
    yield
    litellm.in_memory_llm_clients_cache.flush_cache()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("OPENAI", "ANTHROPIC", "GEMINI", "GROQ"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)


@pytest.fixture
def internet(keys: None) -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


@pytest.fixture(params=list(MODELS))
def provider(request: pytest.FixtureRequest) -> Provider:
    return Provider(request.param)


@pytest.fixture(params=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest.fixture(params=["sync", "async"])
def play(request: pytest.FixtureRequest) -> Play:
    """Ask a model, in either world: the deltas, and the reply."""

    def collected(model: LiteLLMModel, messages: list[Message], **asked: Any) -> tuple[list[Delta], Reply]:
        asked.setdefault("tools", ToolRegistry(add, now))
        wish = Request(messages, **asked)

        async def gathered() -> list[Delta | Reply]:
            return [piece async for piece in model.aask(wish)]

        *deltas, reply = list(model.ask(wish)) if request.param == "sync" else asyncio.run(gathered())
        assert isinstance(reply, Reply)
        return [delta for delta in deltas if not isinstance(delta, Reply)], reply

    return collected
