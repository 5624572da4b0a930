"""Agents in tools of agents, in threads and on event loops: every way to call one from within another."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
from play import TEA, WORLDS, Play, Sleeps, call, calls, final, price_of

from agentkit import JsonAgent, RunError
from agentkit.core.messages import pending_calls
from agentkit.testing import ScriptedModel


async def aprice_of(item: str) -> float:
    """Looks up the price of an item."""
    await asyncio.sleep(0)
    return price_of(item)


aprice_of.__name__ = "price_of"


def call_in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def call_agent(inner: JsonAgent) -> Any:
    return lambda: inner("?")


def run_on_a_loop(inner: JsonAgent) -> Any:
    return lambda: asyncio.run(inner.arun("?")).answer


def run_in_a_thread(inner: JsonAgent) -> Any:
    return lambda: call_in_thread(lambda: inner("?"))


def streamed(inner: JsonAgent) -> Any:
    return lambda: list(inner.stream("?"))[-1].result.answer


def await_agent(inner: JsonAgent) -> Any:
    async def give() -> str:
        return (await inner.arun("?")).answer

    return give


def call_while_a_loop_waits(inner: JsonAgent) -> Any:
    async def give() -> str:
        return inner("?")

    return give


def consume_stream(inner: JsonAgent) -> Any:
    async def give() -> str:
        return [event async for event in inner.astream("?")][-1].result.answer

    return give


WAYS = [call_agent, run_on_a_loop, run_in_a_thread, streamed, await_agent, call_while_a_loop_waits, consume_stream]
GIVE = [calls(call("give"), call("give")), final("given")]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", [price_of, aprice_of], ids=["plain", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_in_a_tool_of_an_agent_in_a_tool(slept: Sleeps, world: str, kind: Any, way: Any):
    """Two levels, concurrent, with sync and with async tools at the bottom."""

    def fresh() -> Any:
        lowest = JsonAgent(kind, model=ScriptedModel(calls(TEA), final("3.5")))
        middle = JsonAgent(name_of(way(lowest)), model=ScriptedModel(calls(call("give")), final("3.5")))
        return way(middle)()

    async def afresh() -> Any:
        return await fresh()

    tool = name_of(afresh if inspect.iscoroutinefunction(way(JsonAgent(price_of))) else fresh)
    outer = JsonAgent(tool, model=ScriptedModel(GIVE))
    assert Play(world, slept).run(outer, "?")[0].answer == "given"
    assert [message["content"] for message in outer.history if message["role"] == "tool"][:2] == ["3.5", "3.5"]


def name_of(function: Any) -> Any:
    function.__name__ = "give"
    function.__doc__ = "Gives what another agent says."
    return function


@pytest.mark.parametrize("world", WORLDS)
def test_from_anywhere(slept: Sleeps, world: str):
    """A thread, a running loop, a loop in a thread."""

    def ask() -> str:
        agent = JsonAgent(
            aprice_of, price_of_coffee, model=ScriptedModel(calls(TEA, call("price_of_coffee")), final("7.75"))
        )
        result, _ = Play(world, slept).run(agent, "?")
        assert pending_calls(agent.history) == []
        return result.answer

    def price_of_coffee() -> float:
        """Looks up the price of coffee."""
        return 4.25

    async def within() -> str:
        return ask() if world.startswith("sync") else await asyncio.to_thread(ask)

    assert (ask(), call_in_thread(ask), asyncio.run(within()), call_in_thread(lambda: asyncio.run(within()))) == (
        "7.75",
    ) * 4


@pytest.mark.parametrize("world", WORLDS)
def test_an_agent_that_calls_itself_in_its_own_conversation_gets_an_error(slept: Sleeps, world: str):
    agent: Any = None

    def give() -> str:
        """Ask the agent that calls this tool."""
        return agent("?")

    agent = JsonAgent(give, model=ScriptedModel(calls(call("give")), final("no luck"), final("again")))
    assert Play(world, slept).run(agent, "?")[0].answer == "no luck"
    told = agent.history[3]["content"]
    assert told.startswith(RunError.__name__)
    assert "session=Session()" in told
    assert Play(world, slept).run(agent, "And now?")[0].answer == "again"
