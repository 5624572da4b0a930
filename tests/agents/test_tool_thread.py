"""Tools on the calling thread: what belongs to a thread can be used in them."""

import asyncio
import sqlite3
import sys
import threading
import time
from contextlib import closing

import pytest

from agentkit import DefinitionError, JsonAgent, Limits, RunContext, Session, ask_question, tool
from agentkit.events import Progress, ToolStarted
from agentkit.journal import runs, show
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.final_answer import check_text_answer


def agent_of(*tools, replies, **settings):
    return JsonAgent(*tools, model=ScriptedModel(*replies), tool_thread="caller", **settings)


@pytest.mark.parametrize("world", ["sync", "async"])
def test_a_text_answer_is_checked_without_a_thread_but_not_the_checks_of_others(world):
    own = []
    others = []

    def count(frame, event, _):
        if event == "call" and frame.f_code is check_text_answer.__code__:
            own.append(threading.get_ident())

    def add(a: int) -> int:
        """Adds."""

    def check(_):
        others.append(threading.get_ident())

    def run(*checks):
        agent = JsonAgent(add, model=ScriptedModel(answer("done")), checks=checks)
        before = sys.getprofile()
        sys.setprofile(count)  # of this thread alone
        try:
            return agent.run("?").text if world == "sync" else asyncio.run(agent.arun("?")).text
        finally:
            sys.setprofile(before)

    assert run() == "done"
    assert own == [threading.get_ident()]
    assert run(check) == "done"
    assert own == [threading.get_ident()]
    assert others != own


def test_a_connection_and_a_transaction_of_the_thread_are_used():
    with closing(sqlite3.connect(":memory:")) as database, database:
        database.execute("CREATE TABLE stock (item TEXT)")

        def add(item: str) -> int:
            """Adds an item."""
            database.execute("INSERT INTO stock VALUES (?)", [item])
            return database.execute("SELECT count(*) FROM stock").fetchone()[0]

        replies = [calls(call("add", item="tea"), call("add", item="rum")), call("add", item="x"), answer("done")]
        result = agent_of(add, replies=replies).run("?")
        assert [entry.value for entry in result.calls[:3]] == [1, 2, 3]
        database.rollback()
        assert database.execute("SELECT count(*) FROM stock").fetchone() == (0,)
    database.close()


def test_calls_run_one_after_the_other_without_a_timeout_beside_coroutines_with_one():
    threads = []

    def wait(seconds: float) -> str:
        """Waits."""
        threads.append(threading.current_thread())
        time.sleep(seconds)
        return "waited"

    async def hang() -> str:
        """Hangs."""
        await asyncio.sleep(30)
        return "hung"

    both = calls(call("wait", seconds=0.06), call("wait", seconds=0.05), call("hang"))
    result = agent_of(wait, hang, replies=[both, answer("done")], limits=Limits(tool_seconds=0.04)).run("?")
    assert threads == [threading.current_thread()] * 2
    assert [entry.value for entry in result.calls[:2]] == ["waited", "waited"]
    assert "did not finish within 0.04 seconds" in result.calls[2].content


def test_errors_questions_and_progress_are_those_of_other_calls():
    def work(run: RunContext) -> int:
        """Works."""
        run.emit("begun")
        return ask_question("How many?", int)

    def fail() -> None:
        """Fails."""
        raise ValueError("no ink")

    events: list = []
    replies = [calls(call("work"), call("fail")), answer("done")]
    agent = agent_of(work, fail, replies=replies, on_question=lambda question: 7, listeners=[events.append])
    result = agent.run("?")
    assert {entry.content for entry in result.calls[:2]} == {"7", "ValueError: no ink"}
    kinds = [type(event) for event in events if isinstance(event, ToolStarted | Progress)]
    assert kinds[:2] == [ToolStarted, Progress]


def test_an_interrupt_in_a_call_ends_the_run_and_the_history_continues():
    def stop() -> None:
        """Stops."""
        raise KeyboardInterrupt

    session = Session()
    agent = agent_of(stop, replies=[call("stop"), answer("done")])
    with pytest.raises(KeyboardInterrupt):
        agent.run("?", session=session)
    assert agent.run("again", session=session).answer == "done"


class TimeIsOver(BaseException):
    """What gevent, Dramatiq or Streamlit raise in the thread that they run, where it is; no handler of errors stops it."""


@pytest.mark.parametrize("retries", [0, 2])
def test_what_a_host_raises_in_a_call_ends_the_run_and_is_no_failure_of_the_tool(retries):
    begun = []

    @tool(effect="read", retries=retries)
    def wait() -> None:
        """Waits."""
        begun.append(1)
        raise TimeIsOver

    session = Session()
    agent = agent_of(wait, replies=[call("wait"), answer("done")])
    with pytest.raises(TimeIsOver):
        agent.run("?", session=session)
    assert begun == [1]
    assert agent.run("again", session=session).answer == "done"


def test_a_streamed_run_runs_its_tools_where_it_is_iterated():
    seen = []

    def note() -> str:
        """Notes."""
        seen.append(threading.get_ident())
        return "noted"

    for _ in agent_of(note, replies=[call("note"), answer("done")]).stream("?"):
        pass
    assert seen == [threading.get_ident()]


def test_a_journaled_run_keeps_them_there(tmp_path):
    seen = []

    @tool(effect="write")
    def note() -> str:
        """Notes."""
        seen.append(threading.get_ident())
        return "noted"

    path = tmp_path / "runs.db"
    agent = agent_of(note, replies=[call("note"), answer("done")], journal=path)
    assert agent.run("?").text == "done"
    assert seen == [threading.get_ident()]
    assert [step["name"] for step in show(runs(path)[0].id, store=path).trace["spans"] if step.get("call")] == ["note"]


def test_an_async_run_is_refused():
    def note() -> str:
        """Notes."""
        return "noted"

    agent = agent_of(note, replies=[answer("done")], description="Notes.")
    with pytest.raises(DefinitionError, match="tool_thread='caller'"):
        asyncio.run(agent.arun("?"))
    (outcome,) = agent.map(["?"])
    assert isinstance(outcome, DefinitionError)
    outer = JsonAgent(agent.as_tool("inner"), model=ScriptedModel(call("inner", query="?"), answer("done")))
    with pytest.raises(DefinitionError, match="an agent inside a tool"):
        outer.run("?")


@pytest.mark.parametrize(("settings", "reason"), [({"timeout": 5}, "a timeout cannot be kept"), ({}, "")])
def test_a_timeout_of_a_tool_is_refused(settings, reason):
    @tool(**settings)
    def note() -> str:
        """Notes."""
        return "noted"

    if not reason:
        agent_of(note, replies=[])
        return
    with pytest.raises(DefinitionError, match=f"note: .*{reason}"):
        agent_of(note, replies=[])


def test_what_a_handler_of_a_signal_raises_in_a_tool_ends_the_run(alarm):
    def note() -> str:
        """Notes."""
        alarm()
        return "noted"

    with pytest.raises(TimeoutError, match="the time of the job is over"):
        agent_of(note, replies=[call("note"), answer("done")]).run("?")


def test_another_thread_is_not_known():
    with pytest.raises(DefinitionError, match=r'tool_thread must be .*"caller"'):
        JsonAgent(len, tool_thread="main")
