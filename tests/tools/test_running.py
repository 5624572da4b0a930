"""Running calls under fire: timeouts, whatever tools raise, progress, and runs that are stopped half-way."""

import argparse
import asyncio
import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import aclosing
from dataclasses import replace

import pytest

from agentkit import (
    DefinitionError,
    ExceptionInfo,
    JsonAgent,
    JsonTool,
    RunContext,
    RunError,
    ToolCall,
    ToolError,
    ToolRegistry,
    tool,
)
from agentkit.core.background import run_coroutine
from agentkit.core.context import Progress
from agentkit.core.flow import adrive, apply_policies, around, ask, drive
from agentkit.core.messages import pending_calls
from agentkit.core.threads import FifoLock, count_abandoned
from agentkit.policies.timeouts import limit_tool_time
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import CallTools, ToolAbandoned, ToolFinished
from agentkit.tools.execution.turn import ToolBlockedLoop

ENDED = threading.Event()
GATE = threading.Event()
RUNS: list[str] = []
LONG = 20.0
"""Seconds that nobody waits for here, however busy the machine is."""
SOON = 8.0


@pytest.fixture(autouse=True)
def _fresh():
    GATE.clear()
    ENDED.clear()
    RUNS.clear()
    until(lambda: count_abandoned() == 0)  # of the tests before this one
    yield
    GATE.set()
    until(lambda: count_abandoned() == 0)


def quick(name: str = "") -> str:
    """Is quick."""
    RUNS.append(f"quick {name}".strip())
    return f"done {name}".strip()


def hang() -> str:
    """Hangs."""
    RUNS.append("hang")
    GATE.wait(LONG)
    ENDED.set()
    return "too late"


async def ahang() -> str:
    """Hangs."""
    RUNS.append("ahang")
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        RUNS.append("cancelled")
        raise
    return "too late"


def hang_inside() -> object:
    """A plain function that gives a coroutine."""
    return ahang()


TOOLS = ToolRegistry(quick, hang, ahang, hang_inside)


def turn(*calls, tools=TOOLS, timeout=60.0, sequential=False, finished=None):
    """The flow of one turn."""
    written = [ToolCall(f"c{place}", *((call,) if isinstance(call, str) else call)) for place, call in enumerate(calls)]
    bound = tuple(tools.bind(call, RunContext(None, call=call)) for call in written)

    def flow():
        return (yield from ask(CallTools(bound, {} if finished is None else finished)))

    return apply_policies(flow(), (limit_tool_time(timeout, sequential=sequential),))


def agent(*tools, calls, after=(), timeout=60.0, **settings):
    """An agent whose model makes these calls in its first turn, and then answers."""
    script = [
        {"tool_calls": [{"id": f"c{place}", "name": name, "arguments": {}} for place, name in enumerate(calls)]},
        *after,
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "the end"}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "once more"}}]},
    ]
    return JsonAgent(*tools, model=ScriptedModel(script), tool_timeout=timeout, **settings)


def answers(history):
    """What the calls were answered, by id."""
    assert not pending_calls(history)
    return {message["tool_call_id"]: message["content"] for message in history if message["role"] == "tool"}


def until(condition, seconds=SOON):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


# Timeouts


@pytest.mark.parametrize("name", ["hang", "ahang", "hang_inside"])
def test_a_call_that_takes_too_long_is_told_and_the_others_are_as_they_were(world, name):
    tools = ToolRegistry(tool(timeout=30)(quick), hang, ahang, hang_inside)
    start = time.perf_counter()
    results, events = world.drive(turn(name, ("quick", '{"name": "x"}'), tools=tools, timeout=0.1))
    assert time.perf_counter() - start < SOON
    assert results[0].content == (
        f"TimedOut: {name} did not finish within 0.1 seconds and was abandoned; it is not known whether it had an "
        "effect. Find that out before it is called again."
    )
    assert 0.1 <= results[0].seconds < SOON
    assert results[1].value == "done x"
    assert [type(event) for event in events if isinstance(event, ToolFinished)] == [ToolFinished] * 2


def test_a_thread_that_is_given_up_is_counted_and_what_it_still_gives_is_lost(world):
    finished = {}
    results, events = world.drive(turn("hang", timeout=0.05, finished=finished))
    assert count_abandoned() == 1
    assert [event.threads for event in events if isinstance(event, ToolAbandoned)] == [1]
    GATE.set()
    assert ENDED.wait(5)
    until(lambda: count_abandoned() == 0)
    assert finished["c0"] is results[0]
    assert results[0].error.name == "TimedOut"


@pytest.mark.parametrize("name", ["ahang", "hang_inside"])
def test_a_coroutine_that_is_given_up_is_cancelled(world, name):
    async def both():
        async for _ in adrive(turn(name, timeout=0.05)):
            pass
        async with asyncio.timeout(SOON):
            while "cancelled" not in RUNS:
                await asyncio.sleep(0.002)

    if world.name == "sync":
        world.drive(turn(name, timeout=0.05))
        until(lambda: "cancelled" in RUNS)
    else:
        asyncio.run(both())
    assert RUNS == ["ahang", "cancelled"]


def test_a_run_goes_on_after_a_timeout_and_a_late_result_changes_nothing(world):
    runner = agent(hang, calls=["hang"], timeout=0.05)
    result = world.run(runner, "go")
    GATE.set()
    ENDED.wait(5)
    assert result.answer == "the end"
    assert answers(runner.history)["c0"].startswith("TimedOut: hang did not finish")
    assert world.run(runner, "again").answer == "once more"


def test_a_tools_own_timeout_error_is_told_apart(world):
    def fails() -> None:
        """Fails."""
        raise TimeoutError("the site is slow")

    async def afails() -> None:
        """Fails."""
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    results, _ = world.drive(turn("fails", "afails", tools=ToolRegistry(fails, afails)))
    assert [result.content for result in results] == ["TimeoutError: the site is slow", "TimeoutError"]


def test_a_tool_says_itself_how_long_it_may_take(world):
    @tool(timeout=None)
    def patient() -> str:
        """Is slow."""
        time.sleep(0.15)
        return "patient"

    @tool(timeout=0.05)
    async def hasty() -> str:
        """Is slow."""
        await asyncio.sleep(5)
        return "hasty"

    results, _ = world.drive(turn("patient", "hasty", tools=ToolRegistry(patient, hasty), timeout=0.1))
    assert results[0].value == "patient"
    assert "hasty did not finish within 0.05 seconds" in results[1].content
    results, _ = world.drive(turn("patient", tools=ToolRegistry(patient), timeout=None))
    assert results[0].value == "patient"


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ("read", "it only reads, so nothing has changed."),
        ("idempotent", "it is not known whether it had an effect. It may be called again."),
        ("write", "it is not known whether it had an effect. Find that out before it is called again."),
    ],
)
def test_the_model_is_told_what_a_call_that_was_given_up_may_have_done(world, effect, said):
    @tool(effect=effect, timeout=0.02)
    async def slow() -> None:
        """Is slow."""
        await asyncio.sleep(5)

    results, _ = world.drive(turn("slow", tools=ToolRegistry(slow)))
    assert results[0].content.endswith(said)


def test_a_call_for_which_no_time_is_left_is_not_run(world):
    results, _ = world.drive(turn("quick", timeout=0))
    assert results[0].content == "TimedOut: the run's time is over, so this call was not run."
    assert RUNS == []


def test_a_coroutine_that_blocks_does_not_block_the_calls_of_later_runs():
    async def blocks() -> None:
        """Blocks."""
        GATE.wait(LONG)

    async def fine() -> str:
        """Is fine."""
        return "fine"

    tools = ToolRegistry(blocks, fine)

    def run(name, timeout):
        driver = drive(turn(name, tools=tools, timeout=timeout))
        return next(event.result for event in driver if isinstance(event, ToolFinished))

    assert run("blocks", 0.3).error.name == "TimedOut"
    assert run("fine", SOON).value == "fine"


def test_an_agent_inside_a_tool_that_is_given_up_stops_at_its_next_call(world):
    steps = 0

    def step() -> int:
        """Makes a step."""
        nonlocal steps
        steps += 1
        time.sleep(0.03)
        return steps

    inner_script = [{"tool_calls": [{"name": "step", "arguments": {}}]}] * 400

    def inner() -> str:
        """Runs an agent."""
        return JsonAgent(step, model=ScriptedModel(inner_script), max_steps=500)("go")

    results, _ = world.drive(turn("inner", tools=ToolRegistry(inner), timeout=0.1))
    assert results[0].error.name == "TimedOut"
    until(lambda: count_abandoned() == 0)
    taken = steps
    time.sleep(0.1)
    assert steps == taken < 400


@pytest.mark.parametrize("timeout", [0, -1, True, "soon", float("inf"), float("nan")])
def test_a_timeout_that_cannot_be_meant_is_refused(timeout):
    with pytest.raises(
        DefinitionError, match=r"the tool 'quick': timeout must be a number of seconds above 0, or None"
    ):
        tool(timeout=timeout)(quick)


# What tools raise


class Odd(BaseException):
    """An exception that is none of `Exception`."""

    def __str__(self):
        raise ValueError


RAISED = {
    "plain": (ValueError("no"), "ValueError: no"),
    "odd": (Odd(), "Odd"),
    "cancelled": (asyncio.CancelledError(), "CancelledError"),
    "closing": (GeneratorExit(), "GeneratorExit"),
    "stop": (StopIteration("x"), None),
    "group": (
        ExceptionGroup("two failed", [ValueError("a"), ToolError("say b")]),
        "ExceptionGroup: two failed (2 sub-exceptions): ValueError: a; say b",
    ),
    "told": (ToolError("as it is"), "as it is"),
}


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_exceptions_of_every_kind_become_results(world, kind, is_async):
    error, said = RAISED[kind]

    def fails() -> None:
        """Fails."""
        raise error

    async def afails() -> None:
        """Fails."""
        raise error

    tools = ToolRegistry(afails if is_async else fails, quick)
    results, _ = world.drive(turn("afails" if is_async else "fails", "quick", tools=tools))
    assert results[0].error is not None
    assert said is None or results[0].content == said
    assert results[1].value == "done"


def test_a_task_that_a_tool_cancelled_itself_is_a_result(world):
    async def cancels() -> None:
        """Cancels what it waits for."""
        task = asyncio.create_task(asyncio.sleep(5))
        task.cancel()
        await task

    assert world.drive(turn("cancels", tools=ToolRegistry(cancels)))[0][0].content == "CancelledError"


def test_a_coroutine_that_blocks_the_event_loop_is_detected_and_named():
    async def blocks() -> str:
        """Blocks."""
        await asyncio.sleep(0)
        time.sleep(0.2)
        return "late"

    async def awaits() -> str:
        """Awaits."""
        await asyncio.sleep(0.05)
        return "in time"

    seen = []
    runner = agent(blocks, awaits, calls=["blocks", "awaits"], timeout=0.15, listeners=[seen.append])
    asyncio.run(runner.arun("go"))
    (event,) = [event for event in seen if isinstance(event, ToolBlockedLoop)]
    assert event.call.call.name == "blocks"
    assert event.seconds >= 0.2
    lead = f"blocks blocked the event loop for {event.seconds:.1f} seconds, so its timeout had no effect: make it"
    assert event.notice.startswith(lead)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_tool_that_exits_is_a_failed_call_and_the_process_continues(world, is_async):
    def leave() -> None:
        """Leaves."""
        raise SystemExit(2)

    async def aleave() -> None:
        """Leaves."""
        raise SystemExit(2)

    tools = ToolRegistry(leave, aleave, quick)
    results, _ = world.drive(turn("aleave" if is_async else "leave", "quick", tools=tools))
    assert results[0].content == "SystemExit: 2"
    assert results[1].error is None
    assert tools["leave"].call_with_raw_arguments("{}") == ExceptionInfo("SystemExit", "2")


def test_argparse_in_a_tool_is_a_failed_call(world, capsys):
    def options(text: str) -> str:
        """Parses options."""
        parser = argparse.ArgumentParser(prog="p")
        parser.add_argument("--n", type=int)
        return str(parser.parse_args([text]))

    results, _ = world.drive(turn(("options", '{"text": "--wrong"}'), tools=ToolRegistry(options)))
    assert results[0].content == "SystemExit: 2"


def test_an_exit_with_on_error_raise_is_an_exception_that_a_server_can_catch(world):
    def leave() -> None:
        """Leaves."""
        raise SystemExit(2)

    with pytest.raises(RunError, match=r"leave: the tool exited with SystemExit\(2\)"):
        world.drive(turn("leave", tools=ToolRegistry(JsonTool(leave, on_error="raise"))))


def test_a_connection_of_another_thread_is_explained_with_the_remedy(world):
    connection = sqlite3.connect(":memory:")

    def count() -> int:
        """Counts."""
        return int(connection.execute("select 1").fetchone()[0])

    results, _ = world.drive(turn("count", tools=ToolRegistry(count)))
    assert results[0].error.name == "ProgrammingError"
    assert "sqlite3.connect(..., check_same_thread=False)" in results[0].content
    assert "@tool(sequential=True)" in results[0].content


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_interrupt_of_a_tool_stops_the_run_with_a_valid_history(world, is_async):
    error = KeyboardInterrupt

    def leave() -> None:
        """Leaves."""
        until(lambda: "quick" in RUNS)
        time.sleep(0.02)
        raise error

    async def aleave() -> None:
        """Leaves."""
        while "quick" not in RUNS:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.02)
        raise error

    name = "aleave" if is_async else "leave"
    runner = agent(leave, aleave, quick, hang, calls=[name, "quick", "hang"])
    start = time.perf_counter()
    with pytest.raises(error):
        world.run(runner, "go")
    assert time.perf_counter() - start < SOON
    said = answers(runner.history)
    assert said["c1"] == "done"
    assert said["c0"].startswith("Cancelled")
    assert said["c2"].startswith("Cancelled")
    GATE.set()
    assert world.run(runner, "again").answer == "the end"


# Progress


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_what_a_tool_tells_comes_at_once(world, is_async):
    seen = threading.Event()

    def work(run: RunContext) -> str:
        """Works."""
        run.emit("half")
        return "seen" if seen.wait(5) else "not seen"

    async def awork(run: RunContext) -> str:
        """Works."""
        run.emit("half")
        for _ in range(500):
            if seen.is_set():
                return "seen"
            await asyncio.sleep(0.01)
        return "not seen"

    def listen(event):
        if isinstance(event, Progress):
            assert (event.call.id, event.value) == ("c0", "half")
            seen.set()

    runner = agent(work, awork, calls=["awork" if is_async else "work"], listeners=[listen])
    assert world.run(runner, "go").calls[0].content == "seen"
    kinds = [type(event).__name__ for event in world.stream(agent(work, calls=["work"]), "go")]
    assert kinds.index("ToolStarted") < kinds.index("Progress") < kinds.index("ToolFinished")


def test_events_of_ones_own_are_told_as_they_are(world):
    event = ToolAbandoned(TOOLS.bind(ToolCall("x", "quick")), 0)

    def work(run: RunContext) -> None:
        """Works."""
        run.emit(event)

    assert event in world.stream(agent(work, calls=["work"]), "go")


def test_what_is_told_too_late_or_outside_a_turn_is_dropped(world):
    told = threading.Event()

    @tool(timeout=0.05)
    def work(run: RunContext) -> None:
        """Works."""
        GATE.wait(LONG)
        run.emit("late")
        told.set()

    def next_(run: RunContext) -> str:
        """Waits for the other one."""
        GATE.set()
        told.wait(SOON)
        run.emit("mine")
        return "ok"

    after = [{"tool_calls": [{"id": "n", "name": "next_", "arguments": {}}]}]
    events = world.stream(agent(work, next_, calls=["work"], after=after), "go")
    assert [event.value for event in events if isinstance(event, Progress)] == ["mine"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_turn_of_4000_calls_runs_32_at_a_time(world, is_async):
    running, most, threads = [], [], []

    def enter():
        running.append(1)
        most.append(len(running))
        threads.append(threading.active_count())

    def work(number: int) -> int:
        """Works."""
        enter()
        time.sleep(0.0005)
        running.pop()
        return number

    async def awork(number: int) -> int:
        """Works."""
        enter()
        await asyncio.sleep(0.0005)
        running.pop()
        return number

    before = threading.active_count()
    tools = ToolRegistry(JsonTool(awork if is_async else work, name="work"))
    calls = [("work", f'{{"number": {number}}}') for number in range(4_000)]
    results, events = world.drive(turn(*calls, tools=tools))
    assert [result.value for result in results] == list(range(4_000))
    assert len(events) == 8_000
    assert 2 < max(most) <= 32
    assert max(threads) - before <= 36


def test_calls_that_wait_for_others_have_not_begun_when_the_run_is_stopped(world):
    over = threading.Event()

    def work(number: int) -> int:
        """Works, or stops the run."""
        if number == 3:
            raise KeyboardInterrupt
        over.wait(SOON)
        return number

    calls = [("work", f'{{"number": {number}}}') for number in range(50)]
    finished: dict = {}
    with pytest.raises(KeyboardInterrupt):
        world.drive(turn(*calls, tools=ToolRegistry(work), finished=finished))
    over.set()
    not_begun = [result for result in finished.values() if result.error and "before this call began" in result.content]
    assert len(not_begun) == 50 - 32


def test_a_flood_of_progress_does_not_fill_the_memory(world):
    def work(run: RunContext) -> str:
        """Works."""
        for number in range(5_000):
            run.emit(number)
        return "ok"

    slow = []

    def listen(event):
        if isinstance(event, Progress):
            slow.append(event.value)
            time.sleep(0.001)

    few = around(lambda effect: ask(replace(effect, max_pending=100)), CallTools)
    runner = agent(work, calls=["work"], listeners=[listen], policies=[few])
    assert world.run(runner, "go").calls[0].content == "ok"
    assert 0 < len(slow) < 5_000


def flood(run: RunContext) -> str:
    """Tells without end."""
    while not GATE.is_set():
        run.emit("on")
    return "let go"


def test_a_flood_of_progress_does_not_outlive_the_timeout(world):
    result = world.run(agent(flood, calls=["flood"], timeout=0.3), "go")
    GATE.set()
    assert result.calls[0].content.startswith("TimedOut")
    assert result.calls[0].seconds < SOON


def test_a_flood_of_progress_does_not_stop_the_event_loop():
    async def main():
        async def beat():
            for _ in range(5):
                await asyncio.sleep(0.01)
            GATE.set()

        result, _ = await asyncio.gather(agent(flood, calls=["flood"], timeout=LONG).arun("go"), beat())
        return result

    assert asyncio.run(main()).calls[0].content == "let go"


def test_an_interrupted_wait_for_a_coroutine_cancels_it():
    caller = threading.get_ident()

    @tool
    async def work() -> str:
        """Works."""
        while sys._current_frames()[caller].f_code is not threading.Condition.wait.__code__:
            await asyncio.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
        return await ahang()

    with pytest.raises(KeyboardInterrupt):
        work.call({})
    deadline = time.monotonic() + 5
    while "cancelled" not in RUNS and time.monotonic() < deadline:
        time.sleep(0.005)
    assert RUNS == ["ahang", "cancelled"]


# Runs that are stopped half-way


def noting(done):
    """A listener that notes which calls have their results."""
    return lambda event: done.append(event.result.call.name) if isinstance(event, ToolFinished) else None


@pytest.mark.parametrize("name", ["hang", "ahang"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_cancelled_task_keeps_what_is_done_and_the_agent_works_at_once(name, how):
    done = []
    runner = agent(hang, ahang, quick, calls=["quick", name], listeners=[noting(done)])

    async def run():
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await runner.arun("go")

    limits: list[asyncio.Timeout] = []

    async def main():
        task = asyncio.create_task(run())
        while not (done and name in RUNS):
            await asyncio.sleep(0.002)
        start = time.perf_counter()
        if how == "timeout":
            limits[0].reschedule(asyncio.get_running_loop().time())
        else:
            task.cancel()
        with pytest.raises(TimeoutError if how == "timeout" else asyncio.CancelledError):
            await task
        assert time.perf_counter() - start < SOON
        said = answers(runner.history)
        assert said["c0"] == "done"
        assert said["c1"].startswith("Cancelled")
        assert (await runner.arun("again")).answer == "the end"

    asyncio.run(main())


def test_a_stream_that_nobody_reads_on_keeps_what_is_done(world):
    runner = agent(hang, quick, calls=["quick", "hang"])

    def is_enough(event):
        return isinstance(event, ToolFinished)

    async def astop():
        async with aclosing(runner.astream("go")) as events:
            async for event in events:
                if is_enough(event):
                    break

    start = time.perf_counter()
    if world.name == "sync":
        stream = runner.stream("go")
        next(event for event in stream if is_enough(event))
        stream.close()
    else:
        asyncio.run(astop())
    assert time.perf_counter() - start < SOON
    said = answers(runner.history)
    assert said["c0"] == "done"
    assert said["c1"].startswith("Cancelled")
    assert world.run(runner, "again").answer == "the end"


@pytest.mark.parametrize("name", ["hang", "ahang"])
def test_ctrl_c_keeps_what_is_done(world, name):
    done = []
    runner = agent(hang, ahang, quick, calls=["quick", name], listeners=[noting(done)])

    def press():
        until(lambda: done and name in RUNS)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        world.run(runner, "go")
    assert time.perf_counter() - start < SOON
    said = answers(runner.history)
    assert said["c0"] == "done"
    assert said["c1"].startswith("Cancelled")
    assert world.run(runner, "again").answer == "the end"


def test_a_result_that_came_in_at_the_same_instant_is_kept(world):
    finished = {}
    flow = turn("quick", "hang", finished=finished)

    def stop_late(event):
        """Let the second call end while nobody looks, and stop then."""
        if not isinstance(event, ToolFinished):
            return False
        GATE.set()
        until(lambda: "c1" in finished)
        return True

    async def astop():
        async with aclosing(adrive(flow)) as events:
            async for event in events:
                if stop_late(event):
                    break

    if world.name == "sync":
        driver = drive(flow)
        next(event for event in driver if stop_late(event))
        driver.close()
    else:
        asyncio.run(astop())
    assert finished["c1"].value == "too late"


def test_calls_that_had_not_begun_are_known_to_have_had_no_effect(world):
    @tool(effect="write")
    def first() -> None:
        """Writes."""
        RUNS.append("first")
        GATE.wait(LONG)

    @tool(effect="write")
    def second() -> None:
        """Writes."""
        RUNS.append("second")

    runner = agent(first, second, calls=["first", "second"])

    def press():
        until(lambda: RUNS)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    async def acancel():
        task = asyncio.create_task(runner.arun("go"))
        while not RUNS:
            await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.wait([task])

    if world.name == "sync":
        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            runner.run("go")
    else:
        asyncio.run(acancel())
    said = answers(runner.history)
    assert said["c0"].startswith("Cancelled: the run was stopped before this call had a result; it is not known")
    assert said["c1"] == "Cancelled: the run was stopped before this call began; it had no effect."
    GATE.set()
    assert RUNS == ["first"]


def test_what_a_tool_prints_is_not_sent_to_the_model(world, capfd):
    def talk() -> str:
        """Talks."""
        print("for the terminal")
        return "for the model"

    assert world.drive(turn("talk", tools=ToolRegistry(talk)))[0][0].content == "for the model"
    assert "for the terminal" in capfd.readouterr().out


def test_threads_are_used_again():
    def which() -> int:
        """Which thread."""
        return threading.get_ident()

    tools = ToolRegistry(which)
    found = set()
    for _ in range(20):
        found |= {event.result.value for event in drive(turn("which", tools=tools)) if isinstance(event, ToolFinished)}
        time.sleep(0.001)
    assert len(found) < 10


def test_a_turnstile_lets_one_in_at_a_time_in_their_order():
    turnstile, inside = FifoLock(), []
    tickets = [lambda number=number: inside.append(number) for number in range(3)]
    for ticket in tickets:
        turnstile.acquire(ticket)
    assert inside == [0]
    turnstile.release(tickets[1])
    assert inside == [0]
    turnstile.release(tickets[0])
    turnstile.release(tickets[0])
    assert inside == [0, 2]


def test_wherever_a_stream_is_left_the_history_is_valid_and_the_agent_goes_on(world):
    @tool(effect="read")
    async def look() -> str:
        """Looks."""
        await asyncio.sleep(0.002)
        return "seen"

    @tool(effect="write")
    def save(run: RunContext) -> str:
        """Saves."""
        run.emit("half")
        time.sleep(0.002)
        return "saved"

    names = ["quick", "look", "look", "save", "nothing", "quick", "save"]

    def leave(runner, place):
        stream = runner.stream("go")
        left = [event for event, _ in zip(stream, range(place), strict=False)]
        stream.close()
        return len(left)

    async def aleave(runner, place):
        seen = 0
        async with aclosing(runner.astream("go")) as stream:
            async for _ in stream:
                seen += 1
                if seen >= place:
                    break
        return seen

    place = 1
    while True:
        runner = agent(quick, look, save, calls=names)
        seen = leave(runner, place) if world.name == "sync" else asyncio.run(aleave(runner, place))
        assert not pending_calls(runner.history)
        said = answers(runner.history)
        assert len(said) in (0, len(names), len(names) + 1)
        if seen < place:
            break
        assert world.run(runner, "again").answer in ("the end", "once more")
        place += 1
    assert place > 20


def test_waiting_for_a_coroutine_looks_up_and_gives_what_it_gives():
    async def late(error: Exception | None) -> int:
        await asyncio.sleep(0.05)
        if error is not None:
            raise error
        return 7

    assert run_coroutine(late(None), poll_seconds=0.01) == 7
    with pytest.raises(TimeoutError, match="its own"):
        run_coroutine(late(TimeoutError("its own")), poll_seconds=0.01)
