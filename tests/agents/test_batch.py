"""Many queries at a time."""

import asyncio
import io
import json
import re
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from children import interrupted
from waiting import HANGS, wait_until

from agentkit import JsonAgent, ModelError, RunContext, RunError
from agentkit.core.context import Progress
from agentkit.core.messages import assistant
from agentkit.engine.model import Reply
from agentkit.testing import ScriptedModel
from agentkit.views.progress_bar import ProgressBar


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_an_option_that_map_does_not_have_is_named():
    agent = JsonAgent(add, model=ScriptedModel())
    with pytest.raises(
        TypeError, match=r"map\(\) got an unexpected option 'session'. It is an option of a run.*Options: batch, "
    ):
        agent.map(["a"], session=None)
    with pytest.raises(TypeError, match=r"map\(\) got an unexpected option 'limits'. It is an option of the agent: "):
        asyncio.run(agent.amap(["a"], limits=None))
    with pytest.raises(RunError, match=r"workers must be the URL of a database or agentkit.dbos.Workers\(...\), got 3"):
        agent.map(["a"], workers=3)


class Echo:
    """Answers with the query, after as many seconds as it says (or when let go); counts how many it is asked at once."""

    name = "echo"

    def __init__(self) -> None:
        self.now = self.most = 0
        self.asked: list[str] = []
        self.lock = threading.Lock()
        self.free = threading.Event()

    def ask(self, request):
        seconds = self.begin(request)
        try:
            self.free.wait(seconds)
        finally:
            self.now -= 1
        yield self.reply(request)

    async def aask(self, request):
        seconds = self.begin(request)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.now -= 1
        yield self.reply(request)

    def begin(self, request) -> float:
        with self.lock:
            self.asked.append(request.messages[-1]["content"])
            self.now += 1
            self.most = max(self.most, self.now)
        words = self.asked[-1].split()
        return float(words[1]) if len(words) > 1 else 0.0

    def reply(self, request) -> Reply:
        query = request.messages[-1]["content"]
        if query.startswith("fail"):
            raise ModelError(f"cannot {query}")
        arguments = json.dumps({"text": query})
        call = {"id": "c", "type": "function", "function": {"name": "final_answer", "arguments": arguments}}
        return Reply({**assistant(), "tool_calls": [call]})


def agent(**settings) -> JsonAgent:
    return JsonAgent(add, model=Echo(), **settings)


def run_all(world, settled, queries, **settings):
    settings = {"progress": False, **settings}
    if world.name == "sync":
        return settled.map(queries, **settings)
    return asyncio.run(settled.amap(queries, **settings))


def test_results_come_in_the_order_of_the_queries(world):
    queries = [f"q{number} {0.03 if number % 2 else 0}" for number in range(10)]
    settled = agent()
    results = run_all(world, settled, queries)
    assert [result.answer for result in results] == queries
    assert len(settled.history) == 1, "each query has a session of its own"
    assert all(len(result.messages) == 4 for result in results)


def test_one_that_fails_does_not_stop_the_others_and_stands_in_its_place(world):
    results = run_all(world, agent(), ["a", "fail b", "", "c"])
    assert [getattr(result, "answer", None) for result in results] == ["a", None, None, "c"]
    assert isinstance(results[1], ModelError)
    assert results[1].history[-1]["content"] == "fail b"
    assert isinstance(results[2], RunError)


@pytest.mark.parametrize("of", [list, iter])
def test_a_query_of_none_fails_in_its_place_and_the_others_are_answered(world, of):
    results = run_all(world, agent(), of(["a", None, "c"]))
    assert [getattr(result, "answer", None) for result in results] == ["a", None, "c"]
    assert "the query is empty" in str(results[1])


def test_a_batch_that_runs_twice_fails_twice(world):
    settled = agent()
    for _ in range(2):
        results = run_all(world, settled, ["a", "fail b"])
        assert [isinstance(result, ModelError) for result in results] == [False, True]


def test_no_more_queries_run_at_once_than_the_concurrency(world):
    settled = agent()
    run_all(world, settled, [f"q{number} 0.05" for number in range(12)], concurrency=4)
    assert settled.model.most == 4


def test_without_queries_there_are_no_results(world):
    assert run_all(world, agent(), []) == []


def test_queries_are_taken_only_when_there_is_room(world):
    settled = agent()
    ahead = []

    def queries():
        for number in range(20):
            ahead.append(number - len(done))
            yield f"q{number}"

    done: list[int] = []
    settled.listeners += (lambda event: done.append(1) if type(event).__name__ == "RunFinished" else None,)
    assert len(run_all(world, settled, queries(), concurrency=3)) == 20
    assert max(ahead) <= 3


def test_endless_queries_can_be_answered_one_after_the_other(world):
    settled = agent()
    endless = (f"q{number}" for number in iter(int, 1))
    if world.name == "sync":
        outcomes = settled.imap(endless, concurrency=2)
        answers = [next(outcomes)[1].answer for _ in range(5)]
        outcomes.close()
    else:

        async def main():
            outcomes = settled.aimap(endless, concurrency=2)
            answers = [(await anext(outcomes))[1].answer for _ in range(5)]
            await outcomes.aclose()
            return answers

        answers = asyncio.run(main())
    assert answers == ["q0"] * 5
    assert len(settled.model.asked) <= 8


def test_queries_may_come_asynchronously():
    async def queries():
        for name in "abc":
            await asyncio.sleep(0.001)
            yield name

    results = asyncio.run(agent().amap(queries(), progress=False))
    assert [result.answer for result in results] == ["a", "b", "c"]


def test_outcomes_do_not_wait_for_queries_that_are_slow_to_come():
    async def queries():
        yield "a"
        await asyncio.sleep(HANGS)

    async def main() -> str:
        settled = agent()
        outcomes = settled.aimap(queries())
        _, result = await anext(outcomes)
        await outcomes.aclose()
        return result.answer

    assert asyncio.run(main()) == "a"


def test_what_the_queries_raise_is_raised_and_the_runs_are_stopped(world):
    def queries():
        yield "q0"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        run_all(world, agent(), queries())


@pytest.mark.parametrize(
    ("queries", "concurrency", "reason"), [("abc", 8, r"one text.*agent\.map\(\['abc'\]\)"), (["a"], 0, ">= 1, got 0")]
)
def test_what_cannot_be_meant_is_refused(world, queries, concurrency, reason):
    with pytest.raises(RunError, match=reason):
        run_all(world, agent(), queries, concurrency=concurrency)


def test_an_interrupt_in_a_tool_stops_all(world):
    def interrupt() -> None:
        """Interrupts."""
        raise KeyboardInterrupt

    class Calls(Echo):
        def reply(self, request):
            call = {"id": "c", "type": "function", "function": {"name": "interrupt", "arguments": "{}"}}
            return Reply({**assistant(), "tool_calls": [call]})

    model = Calls()
    with pytest.raises(KeyboardInterrupt):
        run_all(world, JsonAgent(interrupt, model=model), (f"q{number} 0.01" for number in range(1000)))
    asked = len(model.asked)
    time.sleep(0.05)
    assert len(model.asked) == asked < 500


def test_a_cancelled_task_stops_all_and_waits_for_their_ends():
    begun = []
    ended = []

    async def hang() -> None:
        """Hangs."""
        begun.append(1)
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(1)

    class Calls(Echo):
        def reply(self, request):
            call = {"id": "c", "type": "function", "function": {"name": "hang", "arguments": "{}"}}
            return Reply({**assistant(), "tool_calls": [call]})

    async def main() -> None:
        task = asyncio.create_task(JsonAgent(hang, model=Calls()).amap(["a", "b", "c"], progress=False))
        while len(begun) < 3:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.01)
        assert ended == [1, 1, 1]

    asyncio.run(main())


def test_a_real_interrupt_stops_blocking_runs_at_once():
    code = (
        "import asyncio, os\nfrom agentkit import JsonAgent\n"
        "def add(a: int) -> int:\n    'Adds.'\n    return a\n"
        "class Slow:\n    name = 'slow'\n    ask = None\n"
        "    async def aask(self, request):\n        os.write(1, b'asked\\n')\n        await asyncio.sleep(60)\n"
        "        yield None\n"
        "try:\n    METHOD\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    for method in (
        "JsonAgent(add, model=Slow()).map(['a'] * 100, concurrency=3)",
        "list(JsonAgent(add, model=Slow()).imap(['a'] * 100, concurrency=3))",
    ):
        assert interrupted(code.replace("METHOD", method), after="asked", times=3) == "asked\n" * 3 + "stopped\n"


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals reach no single thread here")
@pytest.mark.parametrize("error", [TimeoutError, SystemExit])
@pytest.mark.parametrize("method", ["map", "imap"])
def test_what_a_signal_handler_raises_is_raised_and_stops_the_runs(method, error):
    ended = []

    class Slow:
        name = "slow"
        ask = None

        async def aask(self, request):
            main = threading.main_thread().ident
            while sys._current_frames()[main].f_code.co_name != "wait":
                await asyncio.sleep(0.001)
            signal.pthread_kill(main, signal.SIGUSR1)
            await asyncio.sleep(HANGS)
            yield

    def handle(*_):
        raise error("the host's own")

    agent = JsonAgent(add, model=Slow(), listeners=[lambda event: ended.append(getattr(event, "outcome", None))])
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(error, match="the host's own"):
            list(getattr(agent, method)(["a"]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    wait_until(lambda: "cancelled" in ended)


@pytest.mark.parametrize(
    ("is_journaled", "shown"), [(False, "No outcome is kept"), (True, "the journal keeps the runs")]
)
def test_an_interrupted_cell_shows_what_is_kept(world, monkeypatch, tmp_path, is_journaled, shown):
    class Interrupting(Echo):
        def reply(self, request):
            raise KeyboardInterrupt

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    journal = tmp_path / "runs.db" if is_journaled else None
    with pytest.raises(KeyboardInterrupt) as caught:
        run_all(world, JsonAgent(add, model=Interrupting(), journal=journal), ["a"], progress=False)
    assert shown in caught.value._render_traceback_()[0]


def test_runs_end_when_the_iteration_is_closed():
    settled = agent()
    outcomes = settled.imap(["a 0.05", "b 0.05", "c"], concurrency=2)
    outcomes.close()
    assert settled.model.asked == [], "nothing starts before the first outcome is wanted"
    outcomes = settled.imap(["a", "b 30", "c 30"], concurrency=2)
    next(outcomes)
    outcomes.close()
    assert settled.model.now == 0
    seen: list[str] = []
    settled.listeners += (lambda event: seen.append(type(event).__name__),)
    time.sleep(0.05)
    assert not seen


def test_queries_that_are_slow_to_come_do_not_block_the_other_runs():
    settled = agent()
    free = threading.Event()

    def queries():
        yield "a 0.01"
        assert free.wait(60)
        yield "b"

    settled.listeners += (lambda event: free.set() if type(event).__name__ == "RunFinished" else None,)
    assert [result.answer for result in settled.map(queries(), progress=False)] == ["a 0.01", "b"]


def test_a_map_inside_of_a_cancelled_tool_ends():
    inner = agent()
    ended = threading.Event()

    def many(run: RunContext) -> None:
        """Asks many."""
        run.emit("begun")
        try:
            inner.map(["q 30"] * 3, progress=False)
        finally:
            ended.set()

    asking = JsonAgent(many, model=ScriptedModel({"tool_calls": [{"name": "many", "arguments": {}}]}))
    for event in asking.stream("go"):
        if isinstance(event, Progress):
            break
    assert ended.wait()
    inner.model.free.set()


class TestTheBar:
    def bar(self, total, show=True):
        out = io.StringIO()
        with ProgressBar(total, show, out) as bar:
            for number in range(4):
                bar.advance(failed=number == 1)
        return out.getvalue()

    def test_shows_how_far_it_is(self):
        shown = self.bar(8)
        assert shown.startswith("\r[------------------------------] 0/8 done")
        assert re.search(r"\r\[#{15}-{15}\] 4/8 done, 1 failed, \d+ s", shown)
        assert shown.endswith("\n")
        assert all(len(line) <= 80 for line in shown.split("\r"))

    def test_knows_no_total_of_what_comes_one_by_one(self):
        assert "\r4 done, 1 failed" in self.bar(None)
        assert "0/0" not in self.bar(0)

    def test_is_for_terminals_and_notebooks_unless_it_is_wanted(self, monkeypatch):
        assert self.bar(8, None) == ""
        assert self.bar(8, False) == ""
        shell = SimpleNamespace(kernel=object())
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        assert self.bar(8, None) != ""

    def test_is_drawn_by_map(self, world, capsys):
        run_all(world, agent(), ["a", "fail"], progress=True)
        assert "2/2 done, 1 failed" in capsys.readouterr().err
        run_all(world, agent(), ["a", "fail"], progress=None)
        assert capsys.readouterr().err == ""
