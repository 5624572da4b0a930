"""The async methods need asyncio's event loop; elsewhere they say what to call."""

import subprocess
import sys

import pytest

from agentkit import JsonAgent, RunError
from agentkit.testing import ScriptedModel, answer, call


def price_of(item: str) -> float:
    """Look up the price of an item."""
    return 3.5


def agent():
    return JsonAgent(price_of, model=ScriptedModel(call("price_of", item="tea"), answer("done")))


async def read(events):
    async for _ in events:
        pass


@pytest.mark.parametrize(
    ("start", "method"),
    [
        (lambda agent: agent.arun("x"), "agent.run"),
        (lambda agent: read(agent.astream("x")), "agent.run"),
        (lambda agent: agent.amap(["x"]), "agent.map"),
        (lambda agent: read(agent.aimap(["x"])), "agent.map"),
    ],
)
def test_an_async_method_without_an_event_loop_names_the_blocking_one(start, method):
    coroutine = start(agent())
    with pytest.raises(RunError, match=rf"no asyncio event loop .* trio.to_thread.run_sync\({method}, "):
        coroutine.send(None)


def test_under_trio_the_advice_works():
    trio = pytest.importorskip("trio")

    async def main():
        with pytest.raises(RunError, match=r"trio\.to_thread\.run_sync"):
            await agent().arun("x")
        return (await trio.to_thread.run_sync(agent().run, "x")).answer

    assert trio.run(main) == "done"


SEVERAL_LOOPS = """
import asyncio
from agentkit import JsonAgent
from agentkit.testing.server import ModelServer

def price_of(item: str) -> float:
    "Look up the price of an item."
    return 3.5

CALL = {"tool_calls": [{"name": "price_of", "arguments": {"item": "tea"}}]}
DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "3.5"}}]}
with ModelServer(*[CALL, DONE] * 3) as server:
    agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="k", retries=0)
    for _ in range(3):
        print(asyncio.run(agent.arun("What is the price of tea?")).answer)
"""


def test_several_event_loops_in_one_process_leave_no_line_on_stderr():
    done = subprocess.run([sys.executable, "-c", SEVERAL_LOOPS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3.5\n" * 3, "")
