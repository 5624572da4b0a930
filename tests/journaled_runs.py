"""Agents whose runs are recorded in a journal, and runs that end in the middle."""

import asyncio
from typing import Any

import pytest

from agentkit import JsonAgent
from agentkit.engine.result import Result
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, call

ADD = call("add", a=1, b=2)


class Stopped(BaseException):
    """What ends a run from outside, as an interrupt does."""


def stop(_: Any) -> None:
    """End the run, as an entry of a script."""
    raise Stopped


def interrupt(_: Any) -> None:
    """Interrupt the run as Ctrl-C does, as an entry of a script."""
    raise KeyboardInterrupt


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def agent_of(path, *replies, tools=(add,), **settings) -> JsonAgent:
    """Return an agent without retries that records its runs in the journal at `path`."""
    return JsonAgent([*tools], model=ScriptedModel(*replies), journal=path, retries=0, **settings)


def stop_run(world, path, *replies, **settings) -> str:
    """Run an agent that is stopped after these replies, and return the id of the run."""
    with pytest.raises(Stopped):
        world.run(agent_of(path, *replies, stop, **settings), "Go")
    return runs(path)[0].id


def resume(world, agent: JsonAgent, run_id: str, **how) -> Result:
    """Resume a run in one of the two worlds."""
    if world.name == "sync":
        return agent.resume(run_id, **how)
    return asyncio.run(agent.aresume(run_id, **how))
