"""Threads, event loops, interrupts and long runs."""

import asyncio
import re
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from play import TEA, Play, Sleeps, call, calls, final, price_of
from timing import takes_at_most
from waiting import HANGS

from agentkit import JsonAgent, RunError, Session
from agentkit.core.messages import pending_calls
from agentkit.testing import ModelServer, ScriptedModel

SLOW = calls(call("wait"))


def echo(text: str) -> str:
    """Gives a text back."""
    time.sleep(0.01)
    return text


def reply_with_echo(body: Any) -> Any:
    """Reply as a model that calls `echo` with the number in the query, and answers with the result."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return final(last["content"])
    return calls(call("echo", {"text": re.findall(r"\d+", last["content"])[-1]}))


def test_concurrent_threads(play_whole: Play):
    if play_whole.is_async:
        pytest.skip("see test_concurrent_async")
    with ModelServer([reply_with_echo] * 100) as server, ThreadPoolExecutor(8) as pool:
        agent = play_whole.agent(server, [echo])
        answers = list(pool.map(lambda n: agent(f"Say {n}", session=Session()), range(16)))
        assert server.violations == []
    assert answers == [str(n) for n in range(16)]


def test_concurrent_async(play_whole: Play):
    async def all_at_once() -> list[str]:
        results = [agent.arun(f"Say {n}", session=Session()) for n in range(16)]
        return [result.answer for result in await asyncio.gather(*results)]

    with ModelServer([reply_with_echo] * 100) as server:
        agent = play_whole.agent(server, [echo])
        assert asyncio.run(all_at_once()) == [str(n) for n in range(16)]
        assert server.violations == []


@pytest.mark.parametrize("scenario", ["concurrent_threads", "concurrent_async"])
def test_a_second_run_on_one_session_is_refused(play: Play, scenario: str):
    entered = threading.Event()
    leave = threading.Event()

    def wait() -> str:
        """Waits."""
        entered.set()
        leave.wait(HANGS)
        return "waited"

    with ModelServer(SLOW, final("first")) as server:
        agent = play.agent(server, [wait])
        first: list[Any] = []
        thread = threading.Thread(target=lambda: first.append(play.run(agent, "first")[0].answer))
        thread.start()
        assert entered.wait()
        with pytest.raises(RunError, match="session"):
            play.run(agent, "second")
        leave.set()
        thread.join()
        assert first == ["first"]
        play.again(server, agent)


async def cancel_when_ready(agent: JsonAgent[Any], play: Play, ready: threading.Event) -> None:
    """Cancel a run when it is ready, and wait for its end."""

    async def consume() -> None:
        async for _ in agent.astream("Go"):
            pass

    task = asyncio.create_task(consume() if play.is_streamed else agent.arun("Go"))
    while not ready.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("streamed", ["async", "async-streamed"])
def test_cancel_in_tool(slept: Sleeps, streamed: str, kind: str):
    play = Play(streamed, slept)
    ready = threading.Event()
    leave = threading.Event()

    def wait() -> None:
        """Waits."""
        ready.set()
        leave.wait(HANGS)

    async def await_it() -> None:
        ready.set()
        await asyncio.sleep(HANGS)

    await_it.__name__ = "wait"
    await_it.__doc__ = "Waits."
    with ModelServer(calls(call("wait"), TEA)) as server:
        agent = play.agent(server, [wait if kind == "plain" else await_it, price_of])
        asyncio.run(cancel_when_ready(agent, play, ready))
        leave.set()
        assert pending_calls(agent.history) == []
        play.again(server, agent)


@pytest.mark.parametrize("streamed", ["async", "async-streamed"])
def test_cancel_in_request(slept: Sleeps, streamed: str):
    play = Play(streamed, slept)
    ready = threading.Event()

    def silent(body: Any) -> Any:
        ready.set()
        return {"content": "late", "delay": HANGS}

    with ModelServer(calls(TEA), silent) as server:
        agent = play.agent(server, [price_of])
        asyncio.run(cancel_when_ready(agent, play, ready))
        play.again(server, agent)


@pytest.mark.parametrize("where", ["request", "tool"])
def test_interrupt_ctrl_c(play: Play, where: str):
    """The signal itself, while the server, or a tool, is silent."""
    ready = threading.Event()
    leave = threading.Event()

    def wait() -> None:
        """Waits."""
        ready.set()
        leave.wait(HANGS)

    def silent(body: Any) -> Any:
        ready.set()
        return {"content": "late", "delay": HANGS}

    def interrupt() -> None:
        ready.wait(60)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which takes it even if it was held up

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ModelServer(calls(TEA), silent if where == "request" else SLOW) as server:
            agent = play.agent(server, [wait, price_of])
            threading.Thread(target=interrupt, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                play.run(agent, "Go")
            leave.set()
            assert pending_calls(agent.history) == []
            play.again(server, agent)
    finally:
        signal.signal(signal.SIGINT, before)


def test_two_event_loops(play: Play):
    with ModelServer([calls(TEA), final("3.5")] * 3) as server:
        agent = play.agent(server, [price_of])
        assert [play.run(agent, "How much?")[0].answer for _ in range(3)] == ["3.5"] * 3
        assert server.violations == []


def test_turns_1000(play_whole: Play):
    turns = 1000

    def model(request: Any) -> Any:
        done = len([message for message in request.messages if message["role"] == "tool"])
        return final("done") if done == turns else calls(call("echo_fast", {"text": str(done)}))

    def echo_fast(text: str) -> str:
        """Gives a text back."""
        return text

    agent = JsonAgent(echo_fast, model=ScriptedModel([model] * (turns + 1)), max_steps=turns + 10)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with takes_at_most(1_200):
        assert play_whole.run(agent, "Go")[0].answer == "done"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 150_000  # kilobytes
