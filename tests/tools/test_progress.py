"""Events that a tool emits while it runs arrive at once, and a flood of them does no harm."""

import asyncio
import threading
from dataclasses import replace

import pytest
from hanging_tools import PATIENCE, agent_calling, wait_for

from agentkit import RunContext, ToolCall, tool
from agentkit.core.flow import around, ask
from agentkit.events import Progress, ToolAbandoned
from agentkit.testing import call
from agentkit.tools.execution.call_tools import CallTools


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_progress_arrives_while_the_tool_runs(world, is_async):
    seen = threading.Event()

    def work(run: RunContext) -> str:
        """Works."""
        run.emit("half")
        return "seen" if seen.wait(PATIENCE) else "not seen"

    async def awork(run: RunContext) -> str:
        """Works."""
        run.emit("half")
        await wait_for(seen)
        return "seen"

    def listen(event):
        if isinstance(event, Progress):
            assert (event.call.id, event.value) == ("c0", "half")
            seen.set()

    name = "awork" if is_async else "work"
    assert world.run(agent_calling(name, tools=[work, awork], listeners=[listen]), "go").calls[0].content == "seen"
    kinds = [type(event).__name__ for event in world.stream(agent_calling("work", tools=[work]), "go")]
    assert kinds.index("ToolStarted") < kinds.index("Progress") < kinds.index("ToolFinished")


def test_an_event_of_a_tools_own_is_sent_unchanged(world, hanging):
    event = ToolAbandoned(hanging.registry.bind(ToolCall("x", "quick")), 0)

    def work(run: RunContext) -> None:
        """Works."""
        run.emit(event)

    assert event in world.stream(agent_calling("work", tools=[work]), "go")


def test_progress_after_the_timeout_is_dropped(world, hanging):
    emitted = threading.Event()

    @tool(timeout=0.05)
    def work(run: RunContext) -> None:
        """Works."""
        hanging.gate.wait(PATIENCE)
        run.emit("late")
        emitted.set()

    def later(run: RunContext) -> str:
        """Waits for the other one."""
        hanging.gate.set()
        emitted.wait(PATIENCE)
        run.emit("mine")
        return "ok"

    events = world.stream(agent_calling("work", tools=[work, later], after=(call("later"),)), "go")
    assert [event.value for event in events if isinstance(event, Progress)] == ["mine"]


def test_a_flood_of_progress_does_not_fill_the_memory(world):
    flooded = threading.Event()
    seen = []

    def work(run: RunContext) -> str:
        """Works."""
        for number in range(5_000):
            run.emit(number)
        flooded.set()
        return "ok"

    def listen(event):
        if isinstance(event, Progress):
            flooded.wait(PATIENCE)
            seen.append(event.value)

    few = around(lambda effect: ask(replace(effect, max_pending=100)), CallTools)
    agent = agent_calling("work", tools=[work], listeners=[listen], policies=[few])
    assert world.run(agent, "go").calls[0].content == "ok"
    assert 0 < len(seen) < 5_000


@pytest.fixture
def flood(hanging):
    """A tool that emits progress until the gate opens."""

    def flood(run: RunContext) -> str:
        """Emits without end."""
        hanging.began.set()
        while not hanging.gate.is_set():
            run.emit("on")
        return "let go"

    return flood


def test_a_flood_of_progress_does_not_outlive_the_timeout(world, flood):
    result = world.run(agent_calling("flood", tools=[flood], timeout=0.2), "go")
    assert result.calls[0].content.startswith("TimedOut")
    assert result.calls[0].seconds < PATIENCE


def test_a_flood_of_progress_does_not_stop_the_event_loop(hanging, flood):
    async def beat():
        await wait_for(hanging.began)
        for _ in range(5):
            await asyncio.sleep(0)
        hanging.gate.set()

    async def main():
        result, _ = await asyncio.gather(agent_calling("flood", tools=[flood], timeout=PATIENCE).arun("go"), beat())
        return result

    assert asyncio.run(main()).calls[0].content == "let go"
