"""The providers under test."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

import pytest

from agentkit.engine.model import Delta, Reply
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel

KEY = "sk-test-0123456789"
MODELS = {
    "openai": "openai/gpt-4o-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "groq": "groq/llama-3.1-8b-instant",
    "ollama": "ollama_chat/llama3.1",
}
Play = Callable[..., tuple[list[Delta], Reply]]


class Server(Protocol):
    """Where a provider is played."""

    def api_base(self, provider: str) -> str: ...


@dataclass(frozen=True)
class Provider:
    """One provider under test, and its model at a server or at its real address (which respx then plays)."""

    name: str

    def at(self, server: Server, **options: Any) -> LiteLLMModel:
        key = {} if self.name == "ollama" else {"api_key": KEY}
        return LiteLLMModel(
            MODELS[self.name], **{"api_base": server.api_base(self.name), "timeout": 60.0, **key, **options}
        )

    def at_home(self, **options: Any) -> LiteLLMModel:
        return LiteLLMModel(MODELS[self.name], **options)


def watch_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrap litellm's function as instrumentation of a host does, so that agentkit calls it with its decorator."""
    litellm = load_litellm()
    real = litellm.completion
    monkeypatch.setattr(litellm, "completion", wraps(real)(lambda *args, **named: real(*args, **named)))
