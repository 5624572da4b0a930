"""Requests end in time, whatever the server does, and end at once when no caller waits any more."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from raw_server import Line, SlowServer, drips_headers, drips_the_body, keeps_alive, silent
from waiting import HANGS, wait_until
from wire_providers import Play, Provider

from agentkit.core.errors import ModelError
from agentkit.core.messages import user
from agentkit.engine.model import Request, TextDelta
from agentkit.models.litellm.limits import PieceTimer, Signal, alimit_time
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""litellm makes a coroutine in a thread before it awaits it; on a busy machine the time may be up in between."""

HI = [user("hi")]
LIMIT = 0.15


def failure(play: Play, model: LiteLLMModel, **asked: Any) -> tuple[ModelError, float]:
    """Return the error of a request, and the seconds after which it came."""
    start = time.monotonic()
    with pytest.raises(ModelError) as caught:
        play(model, HI, **asked)
    return caught.value, time.monotonic() - start


@pytest.fixture(autouse=True)
def _warm(provider: Provider, play: Play) -> None:
    """The first request of a route in a process loads modules."""
    with ModelServer("hello", "hello") as server:
        play(provider.at(server), HI)
        play(provider.at(server), HI, stream=True)


@pytest.mark.parametrize("answer", [silent, drips_headers, drips_the_body])
def test_a_reply_comes_in_time_or_not_at_all(
    provider: Provider, play: Play, stream: bool, answer: Callable[[Line], None]
) -> None:
    with SlowServer(answer) as server:
        error, seconds = failure(play, provider.at(server, timeout=LIMIT), stream=stream)
    assert (error.kind, error.transient, error.status) == ("timeout", True, None)
    assert seconds >= LIMIT * 0.9


def test_a_model_without_a_timeout_answers(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer("hello") as server:
        assert play(provider.at(server, timeout=None), HI, stream=stream)[1].message["content"] == "hello"


def test_signs_of_life_are_not_pieces_of_a_reply(provider: Provider, play: Play) -> None:
    with SlowServer(keeps_alive) as server:
        error, _ = failure(play, provider.at(server, timeout=LIMIT), stream=True)
    assert error.kind == "timeout"
    assert "no data for 0.15 s" in str(error)


def test_a_stream_may_take_longer_than_each_of_its_pieces(provider: Provider, play: Play) -> None:
    text = " ".join(["word"] * 25)
    with ModelServer({"content": text, "pace": 0.1}) as server:
        start = time.monotonic()
        _, reply = play(provider.at(server, timeout=2.2), HI, stream=True)
    assert reply.message["content"] == text
    assert time.monotonic() - start > 2.2


def test_a_stream_that_stalls_is_cancelled(provider: Provider, play: Play) -> None:
    with ModelServer({"content": "one two three four", "stall": HANGS}) as server:
        error, _ = failure(play, provider.at(server, timeout=LIMIT), stream=True)
    assert (error.kind, error.transient) == ("timeout", True)


def test_the_timeout_of_a_request_holds_for_all_its_tries(provider: Provider, play: Play, stream: bool) -> None:
    endless = {"content": "a " * 1_000, "pace": 0.1, "delay": 0 if stream else HANGS}
    with ModelServer(endless) as server:
        error, seconds = failure(play, provider.at(server, timeout=HANGS), stream=stream, timeout=0.3)
    assert (error.kind, error.transient) == ("timeout", True)
    assert "no complete answer within 0.3 s" in str(error)
    assert seconds > 0.25


def test_a_request_s_own_time_does_not_lengthen_the_backend_s(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer({"delay": HANGS}) as server:
        error, _ = failure(play, provider.at(server, timeout=LIMIT), stream=stream, timeout=HANGS)
    assert error.kind == "timeout"


@pytest.mark.parametrize("answer", [silent, drips_the_body])
def test_an_interrupt_comes_through_at_once(provider: Provider, stream: bool, answer: Callable[[Line], None]) -> None:
    def interrupt() -> None:
        wait_until(lambda: bool(server.lines))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which takes it even if it was held up

    with SlowServer(answer) as server:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            list(provider.at(server, timeout=HANGS).ask(Request(HI, ToolRegistry(), stream=stream)))


@pytest.mark.parametrize("answer", [silent, keeps_alive])
def test_a_cancelled_stream_hangs_up(provider: Provider, answer: Callable[[Line], None]) -> None:
    async def cancelled(server: SlowServer) -> None:
        task = asyncio.ensure_future(
            anext(provider.at(server, timeout=HANGS).aask(Request(HI, ToolRegistry(), stream=True)))
        )
        await asyncio.to_thread(wait_until, lambda: bool(server.lines))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with SlowServer(answer) as server:
        asyncio.run(cancelled(server))
        if answer is keeps_alive:
            assert server.lines[0].hung_up.wait()


def test_who_gave_up_a_stream_hangs_up(provider: Provider, play: Play) -> None:
    with SlowServer(keeps_alive) as server:
        while not server.lines:  # on a busy machine the time may be up before the server is reached
            failure(play, provider.at(server, timeout=LIMIT), stream=True)
        assert server.lines[0].hung_up.wait()


def test_one_timer_of_the_loop_serves_all_pieces_and_waits_of_the_reader_do_not_count() -> None:
    set_timers: list[float] = []

    async def pieces() -> AsyncGenerator[Any, None]:
        for number in range(300):
            await asyncio.sleep(0)
            yield TextDelta(str(number)) if number % 2 else Signal.KEEPALIVE

    async def read() -> int:
        loop = asyncio.get_running_loop()
        real = loop.call_at

        def counted(when: float, *args: Any, **named: Any) -> Any:
            set_timers.append(when)
            return real(when, *args, **named)

        loop.call_at = counted
        return len([piece async for piece in alimit_time(pieces(), PieceTimer(60.0, 60.0))])

    assert asyncio.run(read()) == 150
    assert len(set_timers) == 1


def test_a_reader_may_take_longer_than_a_piece() -> None:
    async def pieces() -> AsyncGenerator[Any, None]:
        for number in range(3):
            yield TextDelta(str(number))
        await asyncio.sleep(HANGS)

    found: list[Any] = []

    async def read() -> None:
        async for piece in alimit_time(pieces(), PieceTimer(0.05, 60.0)):
            found.append(piece)
            await asyncio.sleep(0.1)

    async def is_still_cancelled() -> int:
        with pytest.raises(TimeoutError):
            await read()
        task = asyncio.current_task()
        return 1 if task is None else task.cancelling()

    assert asyncio.run(is_still_cancelled()) == 0
    assert len(found) == 3


def test_a_late_piece_that_fails_leaves_no_cancellation_behind() -> None:
    """A client may raise an error of its own while it is cancelled."""

    async def pieces() -> AsyncGenerator[Any, None]:
        try:
            await asyncio.sleep(HANGS)
        finally:
            raise ConnectionError("the socket is gone")
        yield TextDelta("never")

    async def count_cancellations() -> int:
        with pytest.raises(ConnectionError):
            await anext(alimit_time(pieces(), PieceTimer(0.05, 60.0)))
        task = asyncio.current_task()
        return 1 if task is None else task.cancelling()

    assert asyncio.run(count_cancellations()) == 0
