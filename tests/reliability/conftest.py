"""Fixtures of all scenarios: short waits, clean clients, and the worlds in which they are played.

The variable AGENTKIT_ALL_WORLDS plays each scenario in all four worlds. AGENTKIT_AIOHTTP uses litellm's default async
transport, which leaves sockets open; ignore its warnings.
"""

import os
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from play import WORLDS, Play, Sleeps, quick_sleeps

from agentkit.models.litellm.importing import load_litellm

PAIRS = (("sync", "async-streamed"), ("async", "sync-streamed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip half of the worlds, a different half for each test."""
    if "AGENTKIT_ALL_WORLDS" not in os.environ:
        items[:] = [item for item in items if is_chosen(item)]


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def is_chosen(item: pytest.Item) -> bool:
    """Return whether a test is played in its world: one sync and one async world, one of them streamed."""
    world = parameters_of(item).get("play")
    if world is None:
        return True
    name = re.sub(r"\ba?sync(-streamed)?\b", "", item.nodeid, count=1)
    return world in PAIRS[crc32(name.encode()) % 2]


@pytest.fixture(autouse=True)
def _litellm_on_httpx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use httpx for async requests, because it closes its sockets, and new clients for each test."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)
    litellm = load_litellm()
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
    """The worlds without streaming, for scenarios that streaming does not affect."""
    return Play(request.param, slept)


@pytest.fixture(params=WORLDS[2:])
def play_streamed(request: pytest.FixtureRequest, slept: Sleeps) -> Play:
    return Play(request.param, slept)
