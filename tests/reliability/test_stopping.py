"""Runs stopped in every phase: they end soon, the history is valid, and the agent works again."""

import asyncio
import ctypes
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from play import FASTER, TEA, Play, Sleeps, call, calls, final, price_of
from waiting import HANGS, TimeLimit, wait_until

from agentkit import JsonAgent, check_history
from agentkit.core.messages import pending_calls
from agentkit.testing import ModelServer, ScriptedModel

SILENT = {"content": "late", "delay": 20}
BUSY = {"status": 429, "headers": {"Retry-After": "9"}}
PHASES: dict[str, list[Any]] = {
    "request": [SILENT],
    "half of a text": [{"content": "Well, let me see what I know of it.", "stall": HANGS}],
    "half of a call": [{**calls(TEA), "stall": HANGS}],
    "wait before the next try": [BUSY],
    "plain tool": [calls(call("wait"), TEA)],
    "async tool": [calls(call("await_it"), TEA)],
    "agent in a tool": [calls(call("ask_other"), TEA)],
    "last request": [calls(TEA), SILENT],
}
WAYS = ["cancel", "timeout", "interrupt", "interrupt on a loop"]
LIMITS = ["signal", "thread"]


class Scene:
    """A run that reaches a phase, signals it, and stays there."""

    def __init__(self, play: Play, phase: str) -> None:
        self.play = play
        self.phase = phase
        self.ready = threading.Event()
        self.leave = threading.Event()
        self.ran: list[str] = []

    def tools(self) -> list[Any]:
        other = JsonAgent(self.wait, model=ScriptedModel(calls(call("wait")), final()))

        def ask_other() -> str:
            """Asks another agent."""
            return other("?")

        return [self.price_of, self.wait, self.await_it, ask_other]

    def price_of(self, item: str) -> float:
        """Looks up the price of an item."""
        self.ran.append(item)
        return price_of(item)

    def wait(self) -> None:
        """Waits."""
        self.ready.set()
        self.leave.wait(HANGS)

    async def await_it(self) -> None:
        """Waits."""
        self.ready.set()
        await asyncio.sleep(HANGS)

    def replies(self) -> list[Any]:
        *before, last = [calls(TEA), *PHASES[self.phase]]
        return [*before, last if "tool" in self.phase else self.announced(last)]

    def announced(self, reply: Any) -> Any:
        def announce(_: Any) -> Any:
            self.ready.set()
            return reply

        return announce

    def stop(self, agent: Any, way: str) -> None:
        """Stop the run in this way, and wait for its end."""
        if way.startswith("interrupt"):
            threading.Thread(target=self._interrupt, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                self.play.run(agent, "Go")
        else:
            asyncio.run(self._astop(agent, way))

    def _interrupt(self) -> None:
        self.ready.wait()
        time.sleep(0.15)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which takes it even if it was held up

    def stop_from_outside(self, agent: Any, way: str) -> None:
        """Let a signal handler, or another thread, raise an exception in the thread of the run."""
        ended: list[BaseException] = []

        def run() -> None:
            with pytest.raises(TimeLimit) as caught:
                self.play.run(agent, "Go")
            ended.append(caught.value)

        def is_waiting(thread: threading.Thread) -> bool:
            return sys._current_frames()[thread.ident].f_code.co_name in ("take", "wait")

        def send_signal() -> None:
            self.ready.wait()
            wait_until(lambda: is_waiting(threading.main_thread()))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        if way == "signal":
            threading.Thread(target=send_signal, daemon=True).start()
            run()
        else:
            runner = threading.Thread(target=run)
            runner.start()
            self.ready.wait()
            wait_until(lambda: is_waiting(runner))
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(runner.ident), ctypes.py_object(TimeLimit))
            runner.join()
        assert len(ended) == 1

    async def _astop(self, agent: Any, way: str) -> None:
        task = asyncio.create_task(self._run(agent, way))
        await asyncio.to_thread(self.ready.wait, 60)
        await asyncio.sleep(0.15)
        if way == "cancel":
            task.cancel()
        else:
            self.deadline.reschedule(asyncio.get_running_loop().time())
        with pytest.raises(asyncio.CancelledError if way == "cancel" else TimeoutError):
            await task

    async def _run(self, agent: Any, way: str) -> None:
        async with asyncio.timeout(None) as self.deadline:
            if self.play.is_streamed:
                async for _ in agent.astream("Go"):
                    pass
            else:
                await agent.arun("Go")


@pytest.fixture(autouse=True)
def _interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("phase", PHASES)
def test_in_every_phase_a_run_can_be_stopped_in_every_way(slept: Sleeps, phase: str, way: str):
    is_streamed = phase.startswith("half") or (list(PHASES).index(phase) + WAYS.index(way)) % 2
    world = ("sync" if way == "interrupt" else "async") + ("-streamed" if is_streamed else "")
    scene = Scene(Play(world, slept), phase)
    slept.faster = 1.0
    with ModelServer(scene.replies()) as server:
        agent = scene.play.agent(server, scene.tools(), max_steps=2 if phase == "last request" else 50)
        scene.stop(agent, way)
        scene.leave.set()
        slept.faster = FASTER
        assert scene.ran.count("tea") in (1, 2), "what was done is done once: in the turn before, or beside the wait"
        assert pending_calls(agent.history) == []
        assert check_history(agent.history) == []
        assert next(message["content"] for message in agent.history if message["role"] == "tool") == "3.5"
        scene.play.again(server, agent)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("way", LIMITS)
@pytest.mark.parametrize("phase", PHASES)
def test_in_every_phase_a_time_limit_of_the_host_ends_the_run_and_is_no_error_of_the_model(
    slept: Sleeps, phase: str, way: str
):
    scene = Scene(Play("sync-streamed" if phase.startswith("half") else "sync", slept), phase)
    slept.faster = 1.0
    with ModelServer(scene.replies()) as server:
        agent = scene.play.agent(server, scene.tools(), max_steps=2 if phase == "last request" else 50)
        scene.stop_from_outside(agent, way)
        scene.leave.set()
        slept.faster = FASTER
        assert check_history(agent.history) == []
        scene.play.again(server, agent)


async def cancel_after(steps: int, agent: Any, streamed: bool) -> bool:
    """Cancel a run after a number of event loop rounds; return False if it had already ended."""

    async def consume() -> None:
        if streamed:
            async for _ in agent.astream("Go"):
                pass
        else:
            await agent.arun("Go")

    task = asyncio.create_task(consume())
    for _ in range(steps):
        await asyncio.sleep(0)
        if task.done():
            return False
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.parametrize("streamed", [False, True])
def test_at_every_moment_of_the_event_loop_a_run_can_be_cancelled(streamed: bool):
    async def look(item: str) -> str:
        """Looks."""
        for _ in range(3):
            await asyncio.sleep(0)
        return item

    two = calls(call("look", {"item": "a"}), call("look", {"item": "b"}))
    script = [two, {"content": ""}, calls(call("nothing")), "Let me see.", two, final("done"), final("again")]
    cancelled = 0
    for steps in range(200):
        agent = JsonAgent(look, model=ScriptedModel(script))
        was_cancelled = asyncio.run(cancel_after(steps, agent, streamed))
        assert pending_calls(agent.history) == []
        assert check_history(agent.history) == []
        if not was_cancelled:
            break
        cancelled += 1
        assert asyncio.run(agent.arun("And now?")).answer in ("done", "again")
    assert 10 < cancelled < 199


PROGRAM = """
import asyncio, sys, time
from agentkit import JsonAgent
from agentkit.core.messages import pending_calls
from agentkit.testing import ModelServer, ScriptedModel

def wait() -> None:
    "Waits."
    print("ready", flush=True)
    time.sleep(600)

how = sys.argv[1]
with ModelServer(lambda _: print("ready", flush=True) or {"content": "late", "delay": 600}) as server:
    where = {"model": "openai/gpt-4o-mini", "api_base": server.api_base("openai"), "api_key": "k"}
    if "tool" in how:
        where = {"model": ScriptedModel({"tool_calls": [{"name": "wait"}]})}
    agent = JsonAgent(wait, **where)
    try:
        asyncio.run(agent.arun("Go")) if "async" in how else agent("Go")
    except KeyboardInterrupt:
        assert pending_calls(agent.history) == []
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", ["sync request", "async request", "sync tool", "async tool"])
def test_ctrl_c_ends_the_process_at_once(how: str):
    """The exit of the process waits for no thread of a tool or of a client."""
    command = [sys.executable, "-c", PROGRAM, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate()
        finally:
            process.kill()
        assert (process.returncode, out, err) == (0, "interrupted\n", "")
