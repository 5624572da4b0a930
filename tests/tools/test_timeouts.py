"""A call that takes too long is abandoned, with a result that says so, and the run continues."""

import asyncio
import threading

import pytest
from hanging_tools import PATIENCE, Listening, agent_calling, forever, results_of, turn
from waiting import wait_until

from agentkit import DefinitionError, JsonAgent, ToolRegistry, tool
from agentkit.core.background import run_coroutine
from agentkit.core.flow import adrive, drive
from agentkit.core.threads import count_abandoned
from agentkit.events import ToolAbandoned, ToolFinished
from agentkit.testing import ScriptedModel, answer, call


@pytest.mark.parametrize("name", ["hang", "ahang", "hang_inside"])
def test_a_call_that_takes_too_long_times_out_and_the_others_are_unchanged(world, hanging, name):
    patient = tool(timeout=PATIENCE)(hanging.quick)
    tools = ToolRegistry(patient, hanging.hang, hanging.ahang, hanging.hang_inside)
    flow = turn(tools, name, ("quick", '{"name": "x"}'), timeout=0.1)
    results, events = world.drive(flow)
    assert results[0].content == (
        f"TimedOut: {name} did not finish within 0.1 seconds and was abandoned; it is not known whether it had an "
        "effect. Find that out before it is called again."
    )
    assert 0.1 <= results[0].seconds < PATIENCE
    assert not hanging.ended.is_set()
    assert results[1].value == "done x"
    assert sum(isinstance(event, ToolFinished) for event in events) == 2


def test_an_abandoned_thread_is_counted_and_its_late_result_is_dropped(world, hanging):
    wait_until(lambda: count_abandoned() == 0)  # threads of other tests
    finished = {}
    results, events = world.drive(turn(hanging.registry, "hang", timeout=0.05, finished=finished))
    assert count_abandoned() == 1
    assert [event.threads for event in events if isinstance(event, ToolAbandoned)] == [1]
    hanging.gate.set()
    assert hanging.ended.wait(PATIENCE)
    wait_until(lambda: count_abandoned() == 0)
    assert finished["c0"] is results[0]
    assert results[0].error.name == "TimedOut"


@pytest.mark.parametrize("name", ["ahang", "hang_inside"])
def test_an_abandoned_coroutine_is_cancelled(world, hanging, name):
    async def drive_and_wait():
        async for _ in adrive(turn(hanging.registry, name, timeout=0.05)):
            pass
        async with asyncio.timeout(PATIENCE):
            while not hanging.cancelled.is_set():
                await asyncio.sleep(0)

    if world.name == "sync":
        world.drive(turn(hanging.registry, name, timeout=0.05))
        assert hanging.cancelled.wait(PATIENCE)
    else:
        asyncio.run(drive_and_wait())
    assert hanging.log == ["ahang", "cancelled"]


def test_a_run_continues_after_a_timeout_and_a_late_result_changes_nothing(world, hanging):
    agent = agent_calling("hang", tools=[hanging.hang], timeout=0.05)
    result = world.run(agent, "go")
    hanging.gate.set()
    assert hanging.ended.wait(PATIENCE)
    assert result.answer == "the end"
    assert results_of(agent.history)["c0"].startswith("TimedOut: hang did not finish")
    assert world.run(agent, "again").answer == "once more"


def test_the_timeout_error_of_a_tool_itself_is_another_error(world):
    def fails() -> None:
        """Fails."""
        raise TimeoutError("the site is slow")

    async def afails() -> None:
        """Fails."""
        async with asyncio.timeout(0.01):
            await forever()

    results, _ = world.drive(turn(ToolRegistry(fails, afails), "fails", "afails"))
    assert [result.content for result in results] == ["TimeoutError: the site is slow", "TimeoutError"]


def test_a_tool_declares_its_own_timeout(world, hanging):
    events = Listening("c2")

    @tool(timeout=None)
    def patient() -> str:
        """Outlives the timeout of the turn."""
        return "patient" if events.finished.wait(PATIENCE) else "never"

    @tool(timeout=0.05)
    async def hasty() -> None:
        """Is slow."""
        await forever()

    tools = hanging.registry.merged(patient, hasty)
    results, _ = world.drive(turn(tools, "patient", "hasty", "hang", timeout=0.1), events)
    assert results[0].value == "patient"
    assert "hasty did not finish within 0.05 seconds" in results[1].content
    assert "hang did not finish within 0.1 seconds" in results[2].content


def test_a_turn_may_have_no_timeout(world, hanging):
    results, _ = world.drive(turn(hanging.registry, "quick", timeout=None))
    assert results[0].value == "done"


@pytest.mark.parametrize(
    ("effect", "explanation"),
    [
        ("read", "it only reads, so nothing has changed."),
        ("idempotent", "it is not known whether it had an effect. It may be called again."),
        ("write", "it is not known whether it had an effect. Find that out before it is called again."),
    ],
)
def test_the_model_reads_what_an_abandoned_call_may_have_done(world, effect, explanation):
    @tool(effect=effect, timeout=0.02)
    async def slow() -> None:
        """Is slow."""
        await forever()

    results, _ = world.drive(turn(ToolRegistry(slow), "slow"))
    assert results[0].content.endswith(explanation)


def test_a_call_without_time_left_is_not_run(world, hanging):
    results, _ = world.drive(turn(hanging.registry, "quick", timeout=0))
    assert results[0].content == "TimedOut: the run's time is over, so this call was not run."
    assert hanging.log == []


def test_a_coroutine_that_blocks_does_not_block_the_calls_of_later_runs(hanging):
    async def blocks() -> None:
        """Blocks."""
        hanging.gate.wait(PATIENCE)

    async def fine() -> str:
        """Is fine."""
        return "fine"

    def run(name, timeout):
        driver = drive(turn(ToolRegistry(blocks, fine), name, timeout=timeout))
        return next(event.result for event in driver if isinstance(event, ToolFinished))

    assert run("blocks", 0.1).error.name == "TimedOut"
    assert run("fine", PATIENCE).value == "fine"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, None])
def test_a_tool_that_ends_its_event_loop_does_not_hang_later_runs(error):
    async def leave() -> str:
        """Leave."""
        loop = asyncio.get_running_loop()
        if error is None:
            loop.stop()
        else:
            loop.left = loop.create_task(exit_later())
        return "left"

    async def exit_later() -> None:
        raise error

    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    assert JsonAgent(leave, model=ScriptedModel(call("leave"), answer("1"))).run("Leave.").calls[0].value == "left"
    assert JsonAgent(look, model=ScriptedModel(call("look"), answer("1"))).run("Look.").calls[0].value == "seen"


def test_an_agent_inside_an_abandoned_tool_stops_at_its_next_call(world, hanging):
    steps = []
    is_over = threading.Event()

    def step() -> int:
        """Makes a step; the second one hangs."""
        steps.append(len(steps))
        return len(steps) if len(steps) == 1 or hanging.gate.wait(PATIENCE) else 0

    def inner() -> str:
        """Runs an agent."""
        try:
            return JsonAgent(step, model=ScriptedModel([call("step")] * 400), max_steps=500)("go")
        finally:
            is_over.set()

    results, _ = world.drive(turn(ToolRegistry(inner), "inner", timeout=0.1))
    assert results[0].error.name == "TimedOut"
    hanging.gate.set()
    assert is_over.wait(PATIENCE)
    assert len(steps) <= 2


@pytest.mark.parametrize("timeout", [0, -1, True, "soon", float("inf"), float("nan")])
def test_a_timeout_without_meaning_is_refused(hanging, timeout):
    message = r"the tool 'quick': timeout must be a number of seconds above 0, or None"
    with pytest.raises(DefinitionError, match=message):
        tool(timeout=timeout)(hanging.quick)


def test_a_blocking_wait_for_a_coroutine_polls_and_returns_its_outcome():
    async def late(error: Exception | None) -> int:
        await asyncio.sleep(0.02)
        if error is not None:
            raise error
        return 7

    assert run_coroutine(late(None), poll_seconds=0.001) == 7
    with pytest.raises(TimeoutError, match="its own"):
        run_coroutine(late(TimeoutError("its own")), poll_seconds=0.001)
