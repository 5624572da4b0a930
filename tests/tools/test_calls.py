"""Running tools side by side."""

import asyncio
import contextvars
import threading
import time

import pytest

from agentkit import JsonTool, ToolCall, ToolRegistry
from agentkit.core.context import AgentPath, ParentCall, RunContext, enclosing
from agentkit.core.flow import adrive, ask, drive
from agentkit.tools.execution.call_tools import CallTools, ToolFinished, ToolStarted

WHO = contextvars.ContextVar("who", default="nobody")


def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return f"waited {seconds}"


async def await_(seconds: float) -> str:
    """Waits, awaiting."""
    await asyncio.sleep(seconds)
    return f"awaited {seconds}"


def who() -> str:
    """Who calls."""
    return f"{WHO.get()}, main: {threading.current_thread() is threading.main_thread()}"


def has_loop() -> bool:
    """Whether an event loop runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def give() -> object:
    """Gives something odd."""
    return (number for number in range(3))


def later() -> object:
    """A plain function that gives a coroutine."""
    return await_(0)


def interrupt() -> None:
    """Interrupts."""
    raise KeyboardInterrupt


TOOLS = ToolRegistry(wait, await_, who, has_loop, give, later, interrupt)


def batch(*calls: tuple[str, str]) -> CallTools:
    return CallTools(tuple(TOOLS.bind(ToolCall(f"c{place}", *call)) for place, call in enumerate(calls)))


def run_batch(world, *calls):
    return world.drive(asked(batch(*calls)))


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_calls_of_a_turn_overlap_and_results_stand_in_call_order(world, kind):
    begun = set()
    events = []

    def finished():
        return [event.result.call.id for event in events if isinstance(event, ToolFinished)]

    def may_end(place):
        return begun == {0, 1, 2} and f"c{place}" in ["c1", "c2", "c0"][: len(finished()) + 1]

    def meet(place: int) -> str:
        """Waits for the others."""
        begun.add(place)
        while not may_end(place):
            time.sleep(0.002)
        return "met" if may_end(place) else "alone"

    async def ameet(place: int) -> str:
        """Waits for the others."""
        begun.add(place)
        while not may_end(place):
            await asyncio.sleep(0.002)
        return "met" if may_end(place) else "alone"

    tools = ToolRegistry(JsonTool(meet if kind == "plain" else ameet, name="meet"))
    calls = [tools.bind(ToolCall(f"c{place}", "meet", f'{{"place": {place}}}')) for place in range(3)]

    results, _ = world.drive(asked(CallTools(tuple(calls))), events)
    assert [(result.call.id, result.value) for result in results] == [("c0", "met"), ("c1", "met"), ("c2", "met")]
    assert finished() == ["c1", "c2", "c0"], "each result is shown as it comes"
    assert sum(isinstance(event, ToolStarted) for event in events) == 3


def test_plain_and_async_tools_mix_in_one_turn(world):
    results, _ = run_batch(world, ("wait", '{"seconds": 0}'), ("await_", '{"seconds": 0}'), ("later", "{}"))
    assert [result.content for result in results] == ["waited 0.0", "awaited 0.0", "awaited 0"]


def test_a_plain_tool_runs_in_a_thread_without_event_loop_and_with_the_callers_context(world):
    WHO.set("me")
    results, _ = run_batch(world, ("who", "{}"), ("has_loop", "{}"))
    assert results[0].value == "me, main: False"
    assert results[1].value is False


def test_one_bad_call_changes_nothing_for_the_others(world):
    results, _ = run_batch(world, ("nope", "{}"), ("wait", "{"), ("wait", '{"seconds": 0}'))
    assert [result.error.name if result.error else result.value for result in results] == [
        "UnknownTool",
        "ValidationError",
        "waited 0.0",
    ]


def test_a_generators_items_are_the_result(world):
    assert run_batch(world, ("give", "{}"))[0][0].content == "[0,1,2]"


def test_an_interrupt_in_a_tool_is_the_callers(world):
    with pytest.raises(KeyboardInterrupt):
        run_batch(world, ("interrupt", "{}"))


def test_the_event_loop_is_free_while_a_plain_tool_works():
    begun = threading.Event()
    free = threading.Event()

    def work() -> bool:
        """Works until the loop lets it go."""
        begun.set()
        return free.wait(60)

    async def tick():
        while not begun.is_set():
            await asyncio.sleep(0.005)
        free.set()

    async def main():
        ticking = asyncio.create_task(tick())
        effect = CallTools((ToolRegistry(work).bind(ToolCall("c0", "work")),))
        async for event in adrive(asked(effect)):
            if isinstance(event, ToolFinished):
                assert event.result.value is True
        await ticking

    asyncio.run(main())
    assert free.is_set()


def test_what_is_finished_is_noted_while_the_rest_still_runs():
    free = threading.Event()

    def hang() -> None:
        """Hangs."""
        free.wait(60)

    tools = ToolRegistry(wait, hang)
    effect = CallTools((tools.bind(ToolCall("c0", "wait", '{"seconds": 0}')), tools.bind(ToolCall("c1", "hang"))))
    driver = drive(asked(effect))
    while not isinstance(next(driver), ToolFinished):
        pass
    driver.close()
    assert list(effect.finished) == ["c0"]
    free.set()


def test_a_blocking_call_inside_a_coroutine_does_not_wait_for_itself():
    async def nested() -> str:
        """Runs tools, blocking, on the loop that runs it."""
        return TOOLS.execute("await_", '{"seconds": 0}').content

    assert ToolRegistry(nested).execute("nested").content == "awaited 0.0"


def test_async_tools_of_blocking_runs_share_one_loop():
    async def loop_id() -> int:
        """Which loop."""
        return id(asyncio.get_running_loop())

    registry = ToolRegistry(loop_id)
    assert registry.execute("loop_id").value == registry.execute("loop_id").value


def asked(effect):
    return (yield from ask(effect))


@pytest.mark.parametrize("is_async", [False, True])
def test_what_encloses_a_call_is_set_anew_for_each_attempt_and_ends_with_it(is_async):
    seen = []

    def look():
        seen.append((enclosing(AgentPath).names, enclosing(ParentCall).call.id))
        if len(seen) < 2:
            raise ValueError("again")
        return "done"

    async def alook():
        return look()

    tool = JsonTool(alook if is_async else look, name="look", description="Looks.", effect="read", retries=1)
    bound = ToolRegistry([tool]).bind(ToolCall("c1", "look", "{}"), RunContext(None)).change(first_pause=0.0)

    async def ainvoke():
        return await bound.ainvoke(), enclosing(ParentCall)

    result, left = asyncio.run(ainvoke()) if is_async else (bound.invoke(), enclosing(ParentCall))
    assert (result.value, left) == ("done", None)
    assert seen == [(("look",), "c1")] * 2
