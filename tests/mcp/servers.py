"""The scripted servers of the tests, and what is left of them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from ports import free_port, is_open
from waiting import noting, wait_until

from agentkit import JsonAgent, Result
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, call

SCRIPT = Path(__file__).parent / "scripted_server.py"
ANSWER = call("final_answer", text="done")


def scripted(kind: str = "Scripted", notes: Path | None = None, **settings) -> MCPServer:
    """Return the server `kind` of `scripted_server.py`; its tools may be called without approvals."""
    env = {"NOTES": str(notes)} if notes else {}
    settings = {"effects": {"*": "read"}, "name": "scripted", **settings}
    return MCPServer([sys.executable, str(SCRIPT), kind], env=env, **settings)


@contextmanager
def over_http(script: str, *arguments: str, **how: Any) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start a script with a free port and arguments; yield the port, and the process when it is there."""
    port = free_port()
    path = str(Path(__file__).parent / script)
    process = subprocess.Popen(
        [sys.executable, path, str(port), *arguments], stderr=subprocess.DEVNULL, text=True, **how
    )
    try:
        wait_until(lambda: process.poll() is not None or is_open(port))
        assert process.poll() is None, "the server ended"
        yield port, process
    finally:
        process.kill()
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout)):
            stream.close()


def make_calls(world, server: MCPServer, *calls: dict[str, Any], **settings: Any) -> tuple[Result, ScriptedModel]:
    """Run an agent that has the tools of a server alone and makes these calls; return its result and its model."""
    model = ScriptedModel(*calls, ANSWER)
    return world.run(JsonAgent(server, model=model, **settings), "q"), model


def contents(result) -> list[str]:
    """Return the results of the calls of a run, without the delimiters of untrusted text and without the answer."""
    return [inside(entry.content) for entry in result.calls if entry.call.name != "final_answer"]


def inside(text: str) -> str:
    return "\n".join(text.split("\n")[2:-1]) if text.startswith("<untrusted") else text


def wait_until_nothing_is_left() -> None:
    """Wait until the threads and processes of servers have ended."""
    with noting(find_leftovers):
        wait_until(lambda: not find_leftovers())


def find_leftovers() -> list[str]:
    threads = [thread.name for thread in threading.enumerate() if "mcp" in thread.name or "waitpid" in thread.name]
    children = psutil.Process(os.getpid()).children(recursive=True)
    return threads + [line for line in map(_describe, children) if "scripted_server" in line]


def _describe(process: psutil.Process) -> str:
    """Return the command of a process; one that ends in this moment counts until it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return "scripted_server that has ended and is not waited for yet"
    except psutil.NoSuchProcess:
        return ""
