"""Without loggers litellm records nothing, and nothing else changes; a callback of litellm receives every event."""

import asyncio
import inspect
import re
import time
from typing import Any

import pytest
from wire_providers import Play, Provider, watch_completion

from agentkit import ModelError
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models.litellm.calls import _OBSERVER_SETTINGS, _SilentLogging
from agentkit.models.litellm.importing import load_litellm
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

HI = [user("What is 1 + 2?")]
CALL = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}


def test_the_worker_of_litellm_s_log_can_read_the_state_of_a_coroutine_without_work():
    nothing = _SilentLogging().async_success_handler()
    assert inspect.getcoroutinestate(nothing) == nothing.cr_state == inspect.CORO_CLOSED


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the bookkeeping methods of litellm's that were called."""
    from litellm.litellm_core_utils.litellm_logging import Logging

    called: list[str] = []
    for name in ("_response_cost_calculator", "success_handler", "async_success_handler"):
        real = getattr(Logging, name)

        def noted(self: Any, *args: Any, name: str = name, real: Any = real, **named: Any) -> Any:
            called.append(name)
            return real(self, *args, **named)

        monkeypatch.setattr(Logging, name, noted)
    return called


def test_litellm_keeps_no_books(provider: Provider, play: Play, stream: bool, kept: list[str]) -> None:
    with ModelServer(CALL) as server:
        play(provider.at(server), HI, stream=stream)
    time.sleep(0.05)  # for what would still run in the background
    assert kept == []


def test_nothing_else_changes(
    provider: Provider, play: Play, stream: bool, monkeypatch: pytest.MonkeyPatch, kept: list[str]
) -> None:
    heard: list[Any] = []
    for without in (True, False):
        if not without:
            watch_completion(monkeypatch)
        with ModelServer(CALL, "three", {"status": 429, "retry_after": 7}, {"status": 401}) as server:
            model = provider.at(server)
            replies = [play(model, HI, stream=stream) for _ in range(2)]
            errors: list[Any] = []
            for _ in range(2):
                with pytest.raises(ModelError) as caught:
                    play(model, HI, stream=stream)
                error = caught.value
                errors.append((str(error), error.kind, error.status, error.transient, error.retry_after))
            # 1.84 asks Ollama for prices, too
            bodies = [(sent.path, sent.body) for sent in server.requests if sent.body]
            heard.append((replies, errors, bodies))
    first, second = (
        re.sub(r"'id': '[^']*'|, id='[^']*'\)", "", repr(one)) for one in heard
    )  # litellm makes some ids up
    assert first == second
    assert kept or stream, "litellm's own way has other names now: look anew at what the shortcut leaves out"


@pytest.mark.parametrize("setting", ["success_callback", "callbacks", "_async_success_callback"])
def test_a_callback_of_litellm_receives_the_reply(
    setting: str, play: Play, monkeypatch: pytest.MonkeyPatch, kept: list[str]
) -> None:
    from litellm.integrations.custom_logger import CustomLogger

    told: list[float] = []
    request = Request([user(f"Who listens by {setting}?")], ToolRegistry())

    class Listener(CustomLogger):
        def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            if kwargs["messages"] == request.messages:  # else it is still told of calls made before
                told.append(kwargs["response_cost"])

        async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            self.log_success_event(kwargs, response_obj, start_time, end_time)

    litellm = load_litellm()
    for name in _OBSERVER_SETTINGS:  # litellm adds to several of them by itself
        if isinstance(getattr(litellm, name, None), list):
            monkeypatch.setattr(litellm, name, [Listener()] if name == setting else [])

    async def heard() -> None:
        with ModelServer("3") as server:
            async for _ in Provider("openai").at(server).aask(request):
                pass
        for _ in range(500):
            if told:
                return
            await asyncio.sleep(0.02)

    if setting == "success_callback":
        with ModelServer("3") as server:
            list(Provider("openai").at(server).ask(request))
        for _ in range(500):
            if told:
                break
            time.sleep(0.02)
    else:
        asyncio.run(heard())
    assert told
    assert told[0] > 0
