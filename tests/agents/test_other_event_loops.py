"""The async methods need asyncio's event loop; elsewhere they say what to call."""

import subprocess
import sys
from pathlib import Path

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


GEVENT_HEAD = """
import asyncio
import time
import agentkit.testing
from gevent import monkey
monkey.patch_all()  # after the import of agentkit, as `gunicorn --preload -k gevent` does
import gevent
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

async def price_of(item: str) -> float:
    "Look up the price of an item."
    await asyncio.sleep(0.01)
    return 3.5

def stock_of(item: str) -> int:
    "Look up the stock of an item."
    time.sleep(0.01)
    return 7

def make(tool, **settings):
    calls = call(tool.__name__, item="tea")
    return JsonAgent(tool, memory=False, model=lambda run: ScriptedModel(calls, answer("done")), **settings)
"""


def run_under_gevent(program):
    pytest.importorskip("gevent")
    command = [sys.executable, "-c", GEVENT_HEAD + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.splitlines()


TWO_REQUESTS = """
for tool in (stock_of, price_of):
    requests = [gevent.spawn(make(tool).run, "x") for _ in range(2)]
    print([[result.answer, result.calls[0].content] for result in (one.get() for one in requests)])
"""


def test_gevent_may_patch_the_process_after_agentkit_was_imported():
    assert run_under_gevent(TWO_REQUESTS) == ["[['done', '7'], ['done', '7']]", "[['done', '3.5'], ['done', '3.5']]"]


NESTED = """
def ask(item: str) -> str:
    "Ask an agent."
    return make(price_of)("x")

async def await_it(item: str) -> str:
    "Ask an agent."
    return (await make(price_of).arun("x")).answer

for tool in (ask, ask, await_it):
    (result,) = make(tool).map(["x"])
    print(result.calls[0].content)
"""


def test_under_gevent_an_agent_inside_a_tool_has_an_event_loop_of_its_own():
    assert run_under_gevent(NESTED) == ["done"] * 3


FREE = """
def has_loop():
    try:
        return bool(asyncio.get_running_loop())
    except RuntimeError:
        return False

async def ask():
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.01)
    return [make(price_of)("x"), (await make(price_of).arun("x")).answer, asyncio.get_running_loop() is loop]

print(make(price_of)("x"), make(stock_of).map(["x"])[0].answer)
print(has_loop(), gevent.spawn(has_loop).get())
print(asyncio.run(ask()), has_loop())
"""


def test_under_gevent_other_greenlets_do_not_find_the_background_loop_running():
    assert run_under_gevent(FREE) == ["done done", "False False", "['done', 'done', True] False"]


SERVER = """
import sys
from agentkit.mcp import MCPServer

def run():
    server = MCPServer([sys.executable, PATH, "Scripted"], trust="trusted", effects={"*": "read"})
    agent = JsonAgent(server, memory=False, model=ScriptedModel(call("echo", text="tea"), answer("done")))
    return agent.run("x").calls[0].content

print([one.get() for one in [gevent.spawn(run) for _ in range(2)]])
"""


def test_under_gevent_an_agent_calls_the_tools_of_a_server():
    pytest.importorskip("mcp")
    path = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
    assert run_under_gevent(SERVER.replace("PATH", repr(str(path)))) == ["['tea', 'tea']"]


LIMITED = """
class SlowModel(ScriptedModel):
    def ask(self, request):
        time.sleep(0.01)
        yield from super().ask(request)

print(make(price_of)("x"))  # a background loop runs from now on
agent = JsonAgent(stock_of, memory=False, model=SlowModel([answer("done")] * 3), max_concurrency=1)
print([one.get() for one in [gevent.spawn(agent, "x") for _ in range(3)]])
"""


def test_under_gevent_requests_wait_for_each_other_at_the_limit_on_concurrent_ones():
    assert run_under_gevent(LIMITED) == ["done", "['done', 'done', 'done']"]


HELD = """
import asyncio
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

async def price_of(item: str) -> float:
    "Look up the price of an item."
    await asyncio.sleep(0.01)
    return 3.5

async def hold(last):
    agent = JsonAgent(price_of, model=ScriptedModel(call("price_of", item="tea"), answer("done")))
    events = agent.astream("x", journal=PLACE)
    async for event in events:
        if type(event).__name__ == last:
            return held.append(events)

held = []
for last in ("RunStarted", "ToolStarted", "ToolFinished"):
    asyncio.run(hold(last))
"""


@pytest.mark.parametrize("place", [None, "runs.db"])
def test_a_stream_that_is_held_at_the_end_of_its_loop_leaves_no_line_on_stderr(tmp_path, place):
    program = HELD.replace("PLACE", repr(place))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
