"""A reply without an end is cancelled: by its bytes, by its total time, and its connection is closed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from waiting import HANGS
from wire_providers import KEY, MODELS, Play

from agentkit import ModelError, ToolRegistry
from agentkit.core.messages import user
from agentkit.models import LiteLLMModel, Request
from agentkit.models.litellm import limits as reply_limits

HI = [user("hi")]
LINES = {
    "openai": b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":"abcdefgh"},"finish_reason":null}]}\n\n',
    "ollama": b'{"model":"m","created_at":"x","message":{"role":"assistant","content":"abcdefgh"},"done":false}\n',
}


class EndlessServer:
    """Sends a reply without an end to each client, and counts the bytes until the client closes the connection."""

    def __init__(self, piece: bytes, pause: float) -> None:
        self.sent = 0
        self.closed = threading.Event()
        self._piece = piece
        self._pause = pause
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._socket.accept()
        with client, suppress(OSError):
            client.settimeout(HANGS)
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for _ in range(10_000_000):
                client.sendall(self._piece)
                self.sent += len(self._piece)
                time.sleep(self._pause)
        self.closed.set()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def servers() -> Iterator[list[EndlessServer]]:
    made: list[EndlessServer] = []
    yield made
    for server in made:
        server.close()


def model_at(server: EndlessServer, provider: str, timeout: float = HANGS, **more: Any) -> LiteLLMModel:
    base = server.url + ("/v1" if provider == "openai" else "")
    return LiteLLMModel(MODELS[provider], api_base=base, api_key=KEY, timeout=timeout, **more)


@pytest.mark.parametrize("provider", list(LINES))
def test_a_reply_is_cancelled_when_it_has_too_many_bytes(
    provider: str, play: Play, stream: bool, servers: list[EndlessServer]
) -> None:
    server = EndlessServer(LINES[provider] * 50, 0)
    servers.append(server)
    with pytest.raises(ModelError, match="more than 200,000 bytes") as caught:
        play(model_at(server, provider, max_reply_bytes=200_000), HI, stream=stream)
    assert not caught.value.transient
    assert server.closed.wait(), "the connection is closed"
    assert server.sent < 20_000_000


@pytest.mark.parametrize("provider", list(LINES))
def test_a_reply_that_never_ends_is_cancelled_after_its_total_time(
    provider: str, play: Play, stream: bool, servers: list[EndlessServer]
) -> None:
    assert reply_limits.total_seconds(Request(HI, ToolRegistry())) == reply_limits.MAX_REPLY_SECONDS
    server = EndlessServer(LINES[provider], 0.02)
    servers.append(server)
    with pytest.raises(ModelError, match=r"no complete answer within 0\.5 s"):
        play(model_at(server, provider), HI, stream=stream, timeout=0.5)
    assert server.closed.wait(), "nothing reads on after the failure"
