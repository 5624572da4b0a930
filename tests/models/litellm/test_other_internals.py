"""Where litellm's internals are not as known, a shortcut is off, says so at DEBUG, and requests are answered."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from wire_providers import Play, Provider

from agentkit.core.messages import user
from agentkit.models.litellm import importing
from agentkit.models.litellm.calls import silence_logging
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.parameters import is_bridged
from agentkit.models.litellm.streams import ChunkSource
from agentkit.testing.server import ModelServer

HI = [user("hi")]
BARE = SimpleNamespace()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the texts of the records about litellm, each of which is logged once in a process."""
    importing.report_difference.cache_clear()
    caplog.set_level(logging.DEBUG, logger="agentkit")
    return lambda: [record.message for record in caplog.records if record.levelno == logging.DEBUG]


@pytest.mark.parametrize(
    ("install", "texts"),
    [
        (importing._install_switch, ["requests to OpenAI use the OpenAI SDK"]),
        (importing._install_exception_check, ["FastAPI is loaded"]),
        (importing._install_ollama_fields, ["tool results are sent without names"]),
        (importing._install_guards, ["HTTPHandler.post was not found", "AsyncHTTPHandler.post was not found"]),
        (importing._install_recorders, [f"{name}.completion was not found" for name in importing.HANDLERS]),
    ],
)
def test_a_function_that_is_not_there_is_not_replaced(
    install: Callable[[Any], None], texts: list[str], logged: Callable[[], list[str]]
) -> None:
    install(BARE)
    install(BARE)
    assert len(logged()) == len(texts)
    assert all(text in record for text, record in zip(texts, logged(), strict=True))


def test_bookkeeping_stays_on_where_its_class_is_another(logged: Callable[[], list[str]]) -> None:
    real = load_litellm()
    other = SimpleNamespace(completion=real.completion, acompletion=real.acompletion, main=real.main)
    assert silence_logging(other, {"model": "m", "messages": HI}, is_async=False) == {}
    assert "its bookkeeping stays on" in logged()[0]


def test_without_the_check_no_model_is_known_to_need_the_responses_api(logged: Callable[[], list[str]]) -> None:
    assert not is_bridged(BARE, "openai", "gpt-5-pro", {})
    assert is_bridged(BARE, "openai", "responses/gpt-5-pro", {}), "its name tells"
    assert len(logged()) == 1


class Plain:
    """A stream wrapper that can only be iterated."""

    def __init__(self, chunks: list[str]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[str]:
        return iter(self._chunks)

    async def __aiter__(self) -> AsyncIterator[str]:
        for chunk in self._chunks:
            yield chunk


@pytest.mark.parametrize("observed", [False, True])
def test_an_unknown_stream_wrapper_is_read_as_an_iterator(observed: bool, logged: Callable[[], list[str]]) -> None:
    async def read() -> list[Any]:
        source = ChunkSource(Plain(["a", "b"]), "openai", timed_client=None, has_observers=observed)
        found = [chunk async for chunk in await source.achunks()]
        await source.aclose()
        return [*found, source.is_finished("stop"), source.is_finished(None)]

    source = ChunkSource(Plain(["a", "b"]), "openai", timed_client=None, has_observers=observed)
    found = [*source.chunks(), source.is_finished("stop"), source.is_finished(None)]
    source.close()
    assert found == asyncio.run(read()) == ["a", "b", True, False]
    assert len(logged()) == 1
    assert "its stream wrapper has no completion_stream" in logged()[0]


def test_the_installed_litellm_has_all_of_them(
    provider: Provider, play: Play, stream: bool, logged: Callable[[], list[str]]
) -> None:
    with ModelServer("hello") as server:
        play(provider.at(server), HI, stream=stream)
    assert logged() == []
