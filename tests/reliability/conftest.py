"""What all scenarios share: short waits, clean clients, and which worlds they are played in.

The environment's AGENTKIT_ALL_WORLDS plays each in all four of them, AGENTKIT_AIOHTTP asynchronously through litellm's
default transport (which leaves sockets open, so warnings are to be ignored then).
"""

import os
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from play import WORLDS, Play, Sleeps, quick_sleeps

from agentkit.models.litellm.model import _load_litellm

PAIRS = (("sync", "async-streamed"), ("async", "sync-streamed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave half of the worlds out, a different half for each test."""
    if "AGENTKIT_ALL_WORLDS" not in os.environ:
        items[:] = [item for item in items if is_chosen(item)]


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def is_chosen(item: pytest.Item) -> bool:
    """Whether a test is played in its world: it is in one synchronous and one asynchronous, one of them streamed."""
    world = parameters_of(item).get("play")
    if world is None:
        return True
    name = re.sub(r"\ba?sync(-streamed)?\b", "", item.nodeid, count=1)
    return world in PAIRS[crc32(name.encode()) % 2]


@pytest.fixture(autouse=True)
def _litellm_on_httpx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Asynchronous calls through httpx, which closes its sockets; clients of this test alone."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)
    litellm = _load_litellm()
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", "AGENTKIT_AIOHTTP" not in os.environ)
    litellm.in_memory_llm_clients_cache.flush_cache()
    yield
    litellm.in_memory_llm_clients_cache.flush_cache()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    return quick_sleeps(monkeypatch)


@pytest.fixture(params=WORLDS)
def play(request: pytest.FixtureRequest, slept: Sleeps) -> Play:
    return Play(request.param, slept)


@pytest.fixture(params=WORLDS[:2])
def play_whole(request: pytest.FixtureRequest, slept: Sleeps) -> Play:
    """Worlds without streaming, where that makes no difference or there is none."""
    return Play(request.param, slept)


@pytest.fixture(params=WORLDS[2:])
def play_streamed(request: pytest.FixtureRequest, slept: Sleeps) -> Play:
    return Play(request.param, slept)
