"""What a tool's declared effect, `retries` and `sequential` do to its calls."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from clock import Clock
from waiting import wait_until

from agentkit import DefinitionError, JsonAgent, JsonTool, RunContext, ToolCall, ToolError, ToolRegistry, tool
from agentkit.core.flow import adrive, apply_policies, around, ask, drive
from agentkit.core.threads import FifoLock
from agentkit.policies.limits import limit_tool_time
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call import ToolRetried
from agentkit.tools.execution.call_tools import CallTools, ToolFinished, ToolStarted

DIARY: list[str] = []
STEP = 0.03
TOGETHER: set[str] = set()
"""Calls none of which ends before all of them have begun."""


@pytest.fixture(autouse=True)
def _fresh():
    DIARY.clear()
    TOGETHER.clear()


def alone(name: str) -> bool:
    """Whether others have not begun with which this one is to be under way."""
    return name in TOGETHER and not {f"+{other}" for other in TOGETHER} <= set(DIARY)


def entered(name: str) -> str:
    DIARY.append(f"+{name}")
    time.sleep(STEP)
    wait_until(lambda: not alone(name))
    DIARY.append(f"-{name}")
    return name


async def aentered(name: str) -> str:
    DIARY.append(f"+{name}")
    await asyncio.sleep(STEP)
    while alone(name):
        await asyncio.sleep(0.002)
    DIARY.append(f"-{name}")
    return name


@tool(effect="read")
def read(name: str = "") -> str:
    """Reads."""
    return entered(f"read {name}")


@tool(effect="read")
async def aread(name: str = "") -> str:
    """Reads."""
    return await aentered(f"aread {name}")


@tool(effect="write")
def write(name: str = "") -> str:
    """Writes."""
    return entered(f"write {name}")


@tool(effect="write")
async def awrite(name: str = "") -> str:
    """Writes."""
    return await aentered(f"awrite {name}")


@tool(effect="danger")
def danger(name: str = "") -> str:
    """Is dangerous."""
    return entered(f"danger {name}")


@tool(effect="idempotent")
def put(name: str = "") -> str:
    """Puts."""
    return entered(f"put {name}")


def plain(name: str = "") -> str:
    """Says nothing of itself."""
    return entered(f"plain {name}")


TOOLS = ToolRegistry(read, aread, write, awrite, danger, put, plain)


def hurry(effect):
    """Retry the calls of a turn at once; a policy's function."""
    return ask(replace(effect, calls=tuple(replace(bound, first_pause=0.001) for bound in effect.calls)))


def turn(*calls, tools=TOOLS, timeout=60.0, sequential=False, clock=time.perf_counter, first_pause=0.001):
    written = [ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls)]
    bound = [tools.bind(call, RunContext(None, call=call)) for call in written]
    bound = tuple(replace(entry, first_pause=first_pause) for entry in bound)

    def flow():
        return (yield from ask(CallTools(bound, clock=clock)))

    return apply_policies(flow(), (limit_tool_time(timeout, sequential=sequential),))


def named(tool_name, name):
    return tool_name, f'{{"name": "{name}"}}'


# What overlaps


@pytest.mark.parametrize("names", [("read", "aread"), ("plain", "read"), ("plain", "plain")])
def test_reads_and_calls_without_a_declared_effect_overlap(world, names):
    TOGETHER.update({f"{names[0]} 1", f"{names[1]} 2"})
    results, _ = world.drive(turn(named(names[0], "1"), named(names[1], "2")))
    assert [entry[0] for entry in DIARY] == ["+", "+", "-", "-"]
    assert [result.value for result in results] == [f"{names[0]} 1", f"{names[1]} 2"]


@pytest.mark.parametrize("name", ["write", "awrite", "danger", "put"])
def test_a_call_that_changes_something_is_alone_and_in_the_models_order(world, name):
    calls = [named("read", "1"), named("plain", "2"), named(name, "3"), named(name, "4"), named("aread", "5")]
    TOGETHER.update({"read 1", "plain 2"})
    results, events = world.drive(turn(*calls))
    assert set(DIARY[:2]) == {"+read 1", "+plain 2"}
    assert set(DIARY[2:4]) == {"-read 1", "-plain 2"}
    assert DIARY[4:] == [f"+{name} 3", f"-{name} 3", f"+{name} 4", f"-{name} 4", "+aread 5", "-aread 5"]
    assert [result.call.id for result in results] == ["c0", "c1", "c2", "c3", "c4"]
    started = [event.call.call.id for event in events if isinstance(event, ToolStarted)]
    assert started == ["c0", "c1", "c2", "c3", "c4"]


def test_a_call_that_changes_something_and_is_not_valid_holds_nothing_up(world):
    TOGETHER.update({"read 1", "read 2"})
    results, _ = world.drive(turn(named("read", "1"), ("write", '{"nome": 1}'), named("read", "2")))
    assert set(DIARY[:2]) == {"+read 1", "+read 2"}
    assert results[1].error.name == "ValidationError"


def test_equal_reads_of_a_turn_run_once_and_each_has_the_result(world):
    calls = [
        ("read", '{"name": "a"}'),
        ("read", '{ "name":"a" }'),
        ("read", '{"name": "b"}'),
        ("aread", '{"name": "a"}'),
    ]
    results, events = world.drive(turn(*calls))
    assert [result.value for result in results] == ["read a", "read a", "read b", "aread a"]
    assert [result.call.id for result in results] == ["c0", "c1", "c2", "c3"]
    assert DIARY.count("+read a") == 1
    for kind in (ToolStarted, ToolFinished):
        assert sum(isinstance(event, kind) for event in events) == 4


def test_a_failed_read_fails_for_all_that_share_it(world):
    @tool(effect="read")
    def fails(n: int, m: int) -> None:
        """Fails."""
        DIARY.append("failed")
        raise ValueError("no")

    results, _ = world.drive(
        turn(("fails", '{"n": 1, "m": 2}'), ("fails", '{"m": 2, "n": 1}'), tools=ToolRegistry(fails))
    )
    assert [result.content for result in results] == ["ValueError: no"] * 2
    assert DIARY == ["failed"]


def test_equal_reads_on_both_sides_of_a_write_are_two(world):
    world.drive(turn(named("read", "a"), named("write", "x"), named("read", "a")))
    assert DIARY.count("+read a") == 2


@pytest.mark.parametrize("name", ["plain", "put", "write", "danger"])
def test_what_is_not_declared_to_read_runs_exactly_as_often_as_asked(world, name):
    world.drive(turn(*[named(name, "a")] * 3))
    assert DIARY.count(f"+{name} a") == 3


def test_an_agent_can_have_all_its_calls_one_after_the_other(world):
    world.drive(turn(named("plain", "1"), named("aread", "2"), named("plain", "3"), sequential=True))
    assert DIARY == ["+plain 1", "-plain 1", "+aread 2", "-aread 2", "+plain 3", "-plain 3"]


# Retries


def failing(times, effect, *, error=ValueError, is_async=False):
    def fails() -> str:
        """Fails."""
        DIARY.append("try")
        if len(DIARY) <= times:
            raise error("no")
        return "at last"

    async def afails() -> str:
        """Fails."""
        return fails()

    return JsonTool(afails if is_async else fails, name="fails", description="Fails.", effect=effect, retries=2)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_failed_call_is_made_again_and_is_one_call_in_the_history(world, effect, is_async):
    script = [
        {"tool_calls": [{"id": "c0", "name": "fails", "arguments": {}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "ok"}}]},
    ]
    seen = []
    tool = failing(2, effect, is_async=is_async)
    agent = JsonAgent(tool, model=ScriptedModel(script), listeners=[seen.append], policies=[around(hurry, CallTools)])
    world.run(agent, "go")
    assert DIARY == ["try"] * 3
    told = [message["content"] for message in agent.history if message["role"] == "tool"]
    assert told[0] == "at last"
    assert len([message for message in agent.history if message.get("tool_call_id") == "c0"]) == 1
    retried = [event for event in seen if isinstance(event, ToolRetried)]
    assert [(event.call.id, event.failures, event.error.name) for event in retried] == [
        ("c0", 1, "ValueError"),
        ("c0", 2, "ValueError"),
    ]
    assert len([event for event in seen if isinstance(event, ToolStarted) and event.call.call.id == "c0"]) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_when_all_retries_failed_the_model_reads_the_error(world, is_async):
    results, _ = world.drive(turn(("fails", "{}"), tools=ToolRegistry(failing(9, "read", is_async=is_async))))
    assert results[0].content == "ValueError: no"
    assert DIARY == ["try"] * 3


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_error_for_the_model_is_not_retried(world, is_async):
    tools = ToolRegistry(failing(9, "read", error=ToolError, is_async=is_async))
    results, _ = world.drive(turn(("fails", "{}"), tools=tools))
    assert results[0].content == "no"
    assert DIARY == ["try"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_retries_end_with_the_timeout(world, is_async):
    tools = ToolRegistry(failing(9, "read", is_async=is_async))
    results, _ = world.drive(turn(("fails", "{}"), tools=tools, timeout=0.02, first_pause=0.3))
    assert results[0].error.name == "TimedOut"
    time.sleep(0.35)
    assert len(DIARY) <= 2


@pytest.mark.parametrize("effect", [None, "write", "danger"])
def test_what_may_not_be_repeated_cannot_be_retried(effect):
    with pytest.raises(DefinitionError, match=r"the tool 'plain': only a call that may run twice.*effect='read'"):
        JsonTool(plain, effect=effect, retries=1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"effect": "reads"}, "effect must be one of 'read', 'idempotent', 'write', 'danger', None, got 'reads'"),
        ({"retries": -1}, "retries must be an integer >= 0, got -1"),
        ({"isolate": "thread"}, "isolate must be one of 'process', None, got 'thread'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, said):
    with pytest.raises(DefinitionError, match=said):
        JsonTool(plain, **settings)
    with pytest.raises(TypeError, match="the tool 'plain' has no setting 'retry'"):
        JsonTool(plain, retry=1)


# Tools that are not safe in several threads


class Till:
    """Counts who is inside."""

    def __init__(self):
        self.inside = self.most = 0
        self.order = []

    def enter(self, name):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.order.append(name)

    def leave(self):
        self.inside -= 1


def apart(is_async, seconds=STEP):
    till = Till()

    def use(name: str = "") -> str:
        """Uses it."""
        till.enter(name)
        time.sleep(seconds)
        till.leave()
        return name

    async def ause(name: str = "") -> str:
        """Uses it."""
        till.enter(name)
        await asyncio.sleep(seconds)
        till.leave()
        return name

    return till, JsonTool(ause if is_async else use, name="use", description="Uses it.", sequential=True)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_calls_of_a_sequential_tool_are_kept_apart_in_a_turn(world, is_async):
    till, use = apart(is_async)
    tools = ToolRegistry(use, plain)
    results, _ = world.drive(turn(*[named("use", str(n)) for n in range(4)], named("plain", "x"), tools=tools))
    assert till.most == 1
    assert till.order == ["0", "1", "2", "3"]
    assert [result.value for result in results] == ["0", "1", "2", "3", "plain x"]
    assert len(DIARY) == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_calls_of_a_sequential_tool_are_kept_apart_across_threads_loops_and_names(is_async):
    till, use = apart(is_async, 0.01)
    registries = [ToolRegistry(use), ToolRegistry(use).prefixed("my_")]
    calls = [turn(named("use", "a"), named("use", "b"), tools=registries[0])]
    calls += [turn(named("my_use", "c"), named("my_use", "d"), tools=registries[1]) for _ in range(2)]
    calls += [turn(named("use", "e"), named("use", "f"), tools=registries[0])]

    async def run(flow):
        async for _ in adrive(flow):
            pass

    async def both():
        await asyncio.gather(*map(run, calls[2:]))

    threads = [threading.Thread(target=lambda flow=flow: list(drive(flow))) for flow in calls[:2]]
    threads.append(threading.Thread(target=asyncio.run, args=(both(),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert till.most == 1
    assert sorted(till.order) == sorted("abcdcdef")


def test_a_call_that_waits_for_one_that_hangs_is_not_run(world):
    gate = threading.Event()
    ran = []

    @tool(sequential=True)
    def use(name: str) -> None:
        """Uses it."""
        ran.append(name)
        gate.wait(60)

    results, _ = world.drive(turn(named("use", "a"), named("use", "b"), tools=ToolRegistry(use), timeout=0.05))
    assert "use did not finish within 0.05 seconds" in results[0].content
    assert results[1].content == (
        "TimedOut: use was not run, so it had no effect: an earlier call, beside which it may not run, has not ended."
    )
    gate.set()
    results, _ = world.drive(turn(named("use", "c"), tools=ToolRegistry(use), timeout=5))
    assert results[0].error is None
    assert ran == ["a", "c"]


def test_a_call_has_time_to_wait_as_long_as_those_before_it_come_to_an_end(world):
    clock = Clock()

    @tool(sequential=True)
    def use(name: str) -> str:
        """Uses it."""
        clock.ahead += 50
        return name

    use.fifo_lock = FifoLock(clock.perf_counter)
    calls = [named("use", str(n)) for n in range(5)]
    results, _ = world.drive(turn(*calls, tools=ToolRegistry(use), timeout=120, clock=clock.perf_counter))
    assert [result.value for result in results] == ["0", "1", "2", "3", "4"]


def test_a_sequential_method_is_kept_apart_too():
    class Store:
        @tool(sequential=True)
        def save(self) -> None:
            """Saves."""

    store = Store()
    assert store.save.fifo_lock is store.save.fifo_lock is Store.save.fifo_lock is not None
