"""The scripted servers of the tests, and what is left of them."""

import os
import sys
import threading
import time
from pathlib import Path

import psutil

from agentkit.mcp import MCPServer
from agentkit.testing import call

SCRIPT = Path(__file__).parent / "scripted_server.py"
ANSWER = call("final_answer", text="done")


def scripted(kind: str = "Scripted", notes: Path | None = None, **settings) -> MCPServer:
    """Return the server `kind` of `scripted_server.py`; its tools may be called without approvals."""
    env = {"NOTES": str(notes)} if notes else {}
    settings = {"effects": {"*": "read"}, "name": "scripted", **settings}
    return MCPServer([sys.executable, str(SCRIPT), kind], env=env, **settings)


def contents(result) -> list[str]:
    """Return the results of the calls of a run, without the delimiters of untrusted text and without the answer."""
    return [inside(entry.content) for entry in result.calls if entry.call.name != "final_answer"]


def inside(text: str) -> str:
    return "\n".join(text.split("\n")[2:-1]) if text.startswith("<untrusted") else text


def leftovers() -> list[str]:
    """Return the threads and processes of servers that are still there after a moment."""
    until = time.monotonic() + 20
    while found := _find_leftovers():
        if time.monotonic() > until:
            return found
        time.sleep(0.01)
    return []


def _find_leftovers() -> list[str]:
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
