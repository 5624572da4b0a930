"""A run that is stopped within a turn keeps the results that exist, and the agent works again at once."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import pytest
from hanging_tools import PATIENCE, agent_calling, results_of, turn, wait_for
from waiting import wait_until

from agentkit import RunContext, tool
from agentkit.core.flow import adrive, drive
from agentkit.core.messages import pending_calls
from agentkit.events import ToolFinished


def note_finished(name: str) -> tuple[threading.Event, object]:
    """Return an event, and a listener that sets it when the tool of that name has its result."""
    finished = threading.Event()

    def listen(event):
        if isinstance(event, ToolFinished) and event.result.call.name == name:
            finished.set()

    return finished, listen


def press_ctrl_c(*events: threading.Event, loops: Sequence[asyncio.AbstractEventLoop] = ()) -> threading.Thread:
    """Send this process a real Ctrl-C when all these events have happened.

    An event loop (`loops` has it then) sends the signal itself: one that arrives just before it waits for its next
    event would be handled only after that event, because `asyncio.run` sets no wakeup file descriptor.
    """
    press_key = partial(os.kill, os.getpid(), signal.SIGINT)

    def press():
        for event in events:
            assert event.wait(PATIENCE)
        for loop in loops:
            loop.call_soon_threadsafe(press_key)
        if not loops:
            press_key()

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_interrupt_that_a_tool_raises_stops_the_run_with_a_valid_history(world, hanging, is_async):
    finished, listen = note_finished("quick")

    def leave() -> None:
        """Leaves."""
        finished.wait(PATIENCE)
        raise KeyboardInterrupt

    async def aleave() -> None:
        """Leaves."""
        await wait_for(finished)
        raise KeyboardInterrupt

    name = "aleave" if is_async else "leave"
    tools = [leave, aleave, hanging.quick, hanging.hang]
    agent = agent_calling(name, "quick", "hang", tools=tools, listeners=[listen])
    with pytest.raises(KeyboardInterrupt):
        world.run(agent, "go")
    assert not hanging.ended.is_set()
    results = results_of(agent.history)
    assert results["c1"] == "done"
    assert results["c0"].startswith("Cancelled")
    assert results["c2"].startswith("Cancelled")
    hanging.gate.set()
    assert world.run(agent, "again").answer == "the end"


@pytest.mark.parametrize("name", ["hang", "ahang"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_cancelled_task_keeps_the_results_and_the_agent_works_at_once(hanging, name, how):
    finished, listen = note_finished("quick")
    tools = [hanging.hang, hanging.ahang, hanging.quick]
    agent = agent_calling("quick", name, tools=tools, listeners=[listen])
    limits: list[asyncio.Timeout] = []

    async def run():
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await agent.arun("go")

    async def main():
        task = asyncio.create_task(run())
        await wait_for(finished)
        await wait_for(hanging.began)
        if how == "timeout":
            limits[0].reschedule(asyncio.get_running_loop().time())
        else:
            task.cancel()
        with pytest.raises(TimeoutError if how == "timeout" else asyncio.CancelledError):
            await task
        assert not hanging.ended.is_set()
        results = results_of(agent.history)
        assert results["c0"] == "done"
        assert results["c1"].startswith("Cancelled")
        assert (await agent.arun("again")).answer == "the end"
        assert hanging.cancelled.is_set() == (name == "ahang")

    asyncio.run(main())


def test_a_stream_that_is_closed_keeps_the_results(world, hanging):
    agent = agent_calling("quick", "hang", tools=[hanging.hang, hanging.quick])

    async def aclose():
        async with aclosing(agent.astream("go")) as events:
            async for event in events:
                if isinstance(event, ToolFinished):
                    break

    if world.name == "sync":
        stream = agent.stream("go")
        next(event for event in stream if isinstance(event, ToolFinished))
        stream.close()
    else:
        asyncio.run(aclose())
    assert not hanging.ended.is_set()
    results = results_of(agent.history)
    assert results["c0"] == "done"
    assert results["c1"].startswith("Cancelled")
    assert world.run(agent, "again").answer == "the end"


@pytest.mark.parametrize("name", ["hang", "ahang"])
def test_ctrl_c_keeps_the_results(world, hanging, name):
    finished, listen = note_finished("quick")
    loops = []

    def note_loop(_):
        if world.name == "async" and not loops:
            loops.append(asyncio.get_running_loop())

    tools = [hanging.hang, hanging.ahang, hanging.quick]
    agent = agent_calling("quick", name, tools=tools, listeners=[note_loop, listen])
    presser = press_ctrl_c(finished, hanging.began, loops=loops)
    with pytest.raises(KeyboardInterrupt):
        world.run(agent, "go")
    presser.join()
    assert not hanging.ended.is_set()
    assert name == "hang" or hanging.cancelled.wait(PATIENCE)
    results = results_of(agent.history)
    assert results["c0"] == "done"
    assert results["c1"].startswith("Cancelled")
    assert world.run(agent, "again").answer == "the end"


def test_a_result_that_arrives_while_the_turn_is_stopped_is_kept(world, hanging):
    finished = {}
    flow = turn(hanging.registry, "quick", "hang", finished=finished)

    def let_the_second_end(event):
        if not isinstance(event, ToolFinished):
            return False
        hanging.gate.set()
        wait_until(lambda: "c1" in finished)
        return True

    async def astop():
        async with aclosing(adrive(flow)) as events:
            async for event in events:
                if let_the_second_end(event):
                    break

    if world.name == "sync":
        driver = drive(flow)
        next(event for event in driver if let_the_second_end(event))
        driver.close()
    else:
        asyncio.run(astop())
    assert finished["c1"].value == "too late"


def test_calls_that_had_not_begun_are_known_to_have_had_no_effect(world, hanging):
    @tool(effect="write")
    def first() -> None:
        """Writes."""
        hanging.hang()

    @tool(effect="write")
    def second() -> None:
        """Writes."""
        hanging.log.append("second")

    agent = agent_calling("first", "second", tools=[first, second])

    async def acancel():
        task = asyncio.create_task(agent.arun("go"))
        await wait_for(hanging.began)
        task.cancel()
        await asyncio.wait([task])

    if world.name == "sync":
        presser = press_ctrl_c(hanging.began)
        with pytest.raises(KeyboardInterrupt):
            agent.run("go")
        presser.join()
    else:
        asyncio.run(acancel())
    results = results_of(agent.history)
    assert results["c0"].startswith("Cancelled: the run was stopped before this call had a result; it is not known")
    assert results["c1"] == "Cancelled: the run was stopped before this call began; it had no effect."
    hanging.gate.set()
    assert hanging.log == ["hang"]


def test_an_interrupted_wait_for_a_coroutine_cancels_it(hanging):
    caller = threading.get_ident()

    @tool
    async def work() -> str:
        """Interrupts the caller as soon as that waits."""
        while sys._current_frames()[caller].f_code is not threading.Condition.wait.__code__:
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        return await hanging.ahang()

    with pytest.raises(KeyboardInterrupt):
        work.call({})
    assert hanging.cancelled.wait(PATIENCE)
    assert hanging.log == ["ahang", "cancelled"]


def test_wherever_a_stream_is_left_the_history_is_valid_and_the_agent_continues(world, hanging):
    @tool(effect="read")
    async def look() -> str:
        """Looks."""
        await asyncio.sleep(0)
        return "seen"

    @tool(effect="write")
    def save(run: RunContext) -> str:
        """Saves."""
        run.emit("half")
        return "saved"

    names = ["quick", "look", "look", "save", "nothing", "quick", "save"]

    def leave(agent, place):
        stream = agent.stream("go")
        left = [event for event, _ in zip(stream, range(place), strict=False)]
        stream.close()
        return len(left)

    async def aleave(agent, place):
        seen = 0
        async with aclosing(agent.astream("go")) as stream:
            async for _ in stream:
                seen += 1
                if seen >= place:
                    break
        return seen

    place = 1
    while True:
        agent = agent_calling(*names, tools=[hanging.quick, look, save])
        seen = leave(agent, place) if world.name == "sync" else asyncio.run(aleave(agent, place))
        assert not pending_calls(agent.history)
        assert len(results_of(agent.history)) in (0, len(names), len(names) + 1)
        if seen < place:
            break
        assert world.run(agent, "again").answer in ("the end", "once more")
        place += 1
    assert place > 20
