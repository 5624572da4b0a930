"""Tools that hang until a test lets them go, and turns and agents that call them."""

import asyncio
import threading
from typing import Any

from agentkit import JsonAgent, Limits, RunContext, ToolCall, ToolRegistry
from agentkit.core.flow import Event, Flow, apply_policies, ask
from agentkit.core.messages import Message, pending_calls
from agentkit.policies.limits import limit_tool_time
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.execution.call_tools import CallTools, ToolFinished

PATIENCE = 30.0
"""Seconds that a test waits for an event before it fails, however busy the machine is."""


class HangingTools:
    """Tools of one test, and what they did.

    Attributes:
        gate: Lets the hanging function go.
        ended: Set when the hanging function ends.
        cancelled: Set when the hanging coroutine is cancelled.
        log: The names of the calls that began, and "cancelled".
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ended = threading.Event()
        self.cancelled = threading.Event()
        self.began = threading.Event()
        self.log: list[str] = []

    def quick(self, name: str = "") -> str:
        """Is quick."""
        self.log.append(f"quick {name}".strip())
        return f"done {name}".strip()

    def hang(self) -> str:
        """Hangs."""
        self.log.append("hang")
        self.began.set()
        self.gate.wait(PATIENCE)
        self.ended.set()
        return "too late"

    async def ahang(self) -> str:
        """Hangs."""
        self.log.append("ahang")
        self.began.set()
        try:
            await forever()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            self.cancelled.set()
            raise
        return "too late"

    def hang_inside(self) -> object:
        """A plain function that returns a coroutine."""
        return self.ahang()

    @property
    def registry(self) -> ToolRegistry:
        """All four tools."""
        return ToolRegistry(self.quick, self.hang, self.ahang, self.hang_inside)


async def forever() -> None:
    """Wait until the task is cancelled."""
    await asyncio.Event().wait()


async def wait_for(event: threading.Event) -> None:
    """Await an event that any thread sets."""
    assert await asyncio.to_thread(event.wait, PATIENCE)


def turn(
    tools: ToolRegistry,
    *calls: str | tuple[str, str],
    timeout: float | None = 60.0,
    sequential: bool = False,
    finished: dict[str, Any] | None = None,
) -> Flow[Any]:
    """Return the flow of one turn; a call is a tool's name, or its name and arguments."""
    written = [ToolCall(f"c{place}", *((call,) if isinstance(call, str) else call)) for place, call in enumerate(calls)]
    bound = tuple(tools.bind(call, RunContext(None, call=call)) for call in written)

    def flow() -> Flow[Any]:
        return (yield from ask(CallTools(bound, {} if finished is None else finished)))

    return apply_policies(flow(), (limit_tool_time(timeout, sequential=sequential),))


def agent_calling(*names: str, tools: Any, after: tuple[Any, ...] = (), timeout: float = 60.0, **settings) -> JsonAgent:
    """Return an agent whose model calls these tools in its first turn, and then answers twice."""
    first = [{"id": f"c{place}", "name": name, "arguments": {}} for place, name in enumerate(names)]
    model = ScriptedModel({"tool_calls": first}, *after, answer("the end"), answer("once more"))
    return JsonAgent(*tools, model=model, limits=Limits(tool_seconds=timeout), **settings)


def results_of(history: list[Message]) -> dict[str, str]:
    """Return what the model reads of the results, by call id; every call has one."""
    assert not pending_calls(history)
    return {message["tool_call_id"]: message["content"] for message in history if message["role"] == "tool"}


class Listening(list[Event]):
    """A list of events that sets `finished` when the call with an id has its result."""

    def __init__(self, identity: str) -> None:
        super().__init__()
        self.identity = identity
        self.finished = threading.Event()

    def append(self, event: Event) -> None:
        super().append(event)
        if isinstance(event, ToolFinished) and event.result.call.id == self.identity:
            self.finished.set()
