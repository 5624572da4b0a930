"""Runs that are stopped from outside: soon over, the history valid, the session ready for the next query."""

import asyncio
import threading

import pytest
from waiting import HANGS

from agentkit import JsonAgent, RunStopped, Session, check_history
from agentkit.core.threads import count_abandoned
from agentkit.events import RunFinished, TextDelta, ToolStarted
from agentkit.policies import Sleep, around, ask
from agentkit.testing import ModelServer, ScriptedModel, answer, call, calls

"""Seconds within which a stopped run is over, on a busy machine."""


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


class Tools:
    """Tools that wait until they are released, and record how they ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.cancelled = threading.Event()

    def block(self) -> str:
        """Blocks."""
        self.begun.set()
        self.released.wait(HANGS)
        return "released"

    async def wait(self) -> str:
        """Waits."""
        self.begun.set()
        try:
            await asyncio.sleep(HANGS)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"


@pytest.fixture
def tools():
    made = Tools()
    yield made
    made.released.set()


def stop_at(kind, agent_of):
    """Return a listener that stops the agent at the first event of `kind`."""
    stopped = []

    def listen(event):
        if isinstance(event, kind) and not stopped:
            stopped.append(event)
            agent_of().stop("enough")

    return listen


def stop_after(begun: threading.Event, target) -> None:
    """Stop `target`, an agent or a session, from another thread when `begun` is set."""

    def run():
        begun.wait(60)
        target.stop("enough")

    threading.Thread(target=run, daemon=True).start()


def assert_stopped(world, agent, query="go", **how):
    with pytest.raises(RunStopped, match="enough") as caught:
        world.run(agent, query, **how)
    assert caught.value.result.stopped == "stopped"
    assert not check_history(list(caught.value.history))
    return caught.value


@pytest.mark.parametrize("name", ["block", "wait"])
def test_a_tool_is_no_longer_waited_for(world, tools, name):
    model = ScriptedModel(calls(call(name), call("add", a=1, b=2)), answer("after"))
    agent = JsonAgent([tools.block, tools.wait, add], model=model)
    stop_after(tools.begun, agent)
    error = assert_stopped(world, agent)
    assert [message["role"] for message in error.history][-3:] == ["assistant", "tool", "tool"]
    if name == "wait":
        assert tools.cancelled.wait()
    else:
        assert count_abandoned() >= 1
    assert world.run(agent, "And now?").answer == "after"


def test_the_run_ends_between_two_effects(world):
    model = ScriptedModel(call("add", a=1, b=2), answer("never"))
    agent = JsonAgent(add, model=model, listeners=[stop_at(ToolStarted, lambda: agent)])
    assert_stopped(world, agent)
    assert len(model.requests) == 1


def test_a_request_is_abandoned(world):
    asked = threading.Event()
    released = threading.Event()

    def late(body):
        asked.set()
        return {"content": "late", "wait": released}

    with ModelServer(answer("loaded"), late, answer("after")) as server:
        agent = JsonAgent(add, model="openai/gpt-4o", api_base=server.url, api_key="sk-test")
        world.run(agent, "load")
        stop_after(asked, agent)
        assert_stopped(world, agent)
        released.set()
        assert world.run(agent, "again").answer == "after"


def test_a_stream_is_closed_and_its_text_is_kept(world):
    agent = JsonAgent(add, model=ScriptedModel("one two three", answer("after")))
    agent.listeners = (stop_at(TextDelta, lambda: agent),)
    with pytest.raises(RunStopped) as caught:
        world.stream(agent, "go")
    assert caught.value.partial == "one"
    assert [*world.stream(agent, "again")][-1].result.answer == "after"


def test_a_wait_between_retries_ends(world):
    begun = threading.Event()

    def wait(effect):
        begun.set()
        yield from ask(Sleep(HANGS))
        return (yield from ask(effect))

    agent = JsonAgent(add, model=ScriptedModel(answer("never")), policies=[around(wait)])
    stop_after(begun, agent)
    assert_stopped(world, agent)


def test_an_agent_in_a_tool_is_stopped_with_its_run(world, tools):
    inner = JsonAgent(tools.wait, description="Waits.", model=ScriptedModel(call("wait")))
    agent = JsonAgent(inner.as_tool("helper"), model=ScriptedModel(call("helper", query="wait"), answer("after")))
    stop_after(tools.begun, agent)
    assert_stopped(world, agent)
    assert tools.cancelled.wait()


def test_another_session_is_stopped_by_itself(world, tools):
    session = Session()
    agent = JsonAgent(tools.block, model=ScriptedModel(call("block"), answer("after")))
    stop_after(tools.begun, session)
    assert_stopped(world, agent, session=session)


def test_without_a_run_and_a_second_time_it_does_nothing(world):
    model = ScriptedModel(call("add", a=1, b=2), answer("first"), answer("second"))
    agent = JsonAgent(add, model=model)
    agent.stop()
    assert world.run(agent, "go").answer == "first"

    def stop_late(event):
        if isinstance(event, RunFinished):
            agent.stop()

    agent.listeners = (stop_late,)
    assert world.run(agent, "go").answer == "second"


@pytest.mark.parametrize("is_stopped_first", [True, False])
def test_a_cancelled_task_stays_cancelled(tools, is_stopped_first):
    agent = JsonAgent(tools.wait, model=ScriptedModel(call("wait")))

    async def main():
        task = asyncio.create_task(agent.arun("go"))
        await asyncio.sleep(0.1)
        if is_stopped_first:
            agent.stop("as well")
        task.cancel()
        agent.stop("as well")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1
        await asyncio.sleep(0)  # the task of the test itself was not cancelled

    asyncio.run(main())


def test_the_task_of_a_stopped_run_continues(tools):
    agent = JsonAgent(tools.wait, model=ScriptedModel(call("wait"), answer("after")))

    async def stop():
        while not tools.begun.is_set():
            await asyncio.sleep(0.01)
        agent.stop("enough")

    async def main():
        stopping = asyncio.create_task(stop())
        with pytest.raises(RunStopped):
            await agent.arun("go")
        await stopping
        return (await agent.arun("again")).answer

    assert asyncio.run(main()) == "after"
