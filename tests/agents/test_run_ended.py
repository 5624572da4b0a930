"""Every run that starts has one id and one end, the last event that its listeners get."""

import asyncio
import subprocess
import sys
import threading
from contextlib import aclosing, closing, suppress

import pytest
from waiting import HANGS

from agentkit import JsonAgent, LimitExceeded, Limits, NoAnswer, Paused, RunError, RunStopped, Session, tool
from agentkit.events import RunEnded, RunFinished, RunStarted, SubRun
from agentkit.testing import ScriptedModel, answer, call


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(effect="danger")
def wipe() -> str:
    """Wipes."""
    return "wiped"


@tool(on_error="raise")
def fail() -> str:
    """Fails."""
    raise KeyError("broken")


def agent_of(*replies, tools=(add, wipe, fail), **settings):
    """An agent, and the list of the events that its listener gets."""
    seen = []
    return JsonAgent(
        [*tools], model=ScriptedModel(*replies), listeners=[seen.append], **{"retries": 0, **settings}
    ), seen


def end_of(seen):
    """The end of a run, of which there is one, behind everything else; its run has one id."""
    ends = [event for event in seen if isinstance(event, RunEnded)]
    assert len(ends) == 1
    assert seen[-1] is ends[0]
    assert ends[0].run_id == next(event for event in seen if isinstance(event, RunStarted)).run_id != ""
    assert ends[0].seconds > 0
    return ends[0]


ENDS = {
    "answer": ((call("add", a=1, b=2), answer("3")), {}, None),
    "error": ((call("fail"),), {}, KeyError),
    "paused": ((call("wipe"),), {}, Paused),
    "limit": ((call("add", a=1, b=2), call("add", a=2, b=2), "no"), {"max_steps": 1}, LimitExceeded),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("outcome", ENDS)
def test_a_run_ends_once_for_its_listeners(world, outcome, streamed):
    replies, settings, error = ENDS[outcome]
    agent, seen = agent_of(*replies, **settings)
    run = world.stream if streamed else world.run
    if error is None:
        run(agent, "Go")
        assert isinstance(seen[-2], RunFinished)
        assert seen[-2].result.run_id == end_of(seen).run_id
    else:
        with pytest.raises(error) as caught:
            run(agent, "Go")
        assert end_of(seen).error is caught.value
    ended = end_of(seen)
    assert (ended.outcome, ended.usage.requests) == (outcome, len(replies) - (outcome == "limit"))
    assert (ended.level, bool(ended.notice)) == (
        "WARNING" if outcome in ("error", "limit") else "INFO",
        outcome != "answer",
    )


def test_a_model_without_an_answer_is_an_error(world):
    agent, seen = agent_of(*[""] * 9)
    with pytest.raises(NoAnswer):
        world.run(agent, "Go")
    assert (end_of(seen).outcome, type(end_of(seen).error)) == ("error", NoAnswer)


def test_a_stream_ends_with_the_result_and_without_the_end(world):
    agent, _ = agent_of(answer("3"))
    assert isinstance(world.stream(agent, "Go")[-1], RunFinished)


def test_a_closed_stream_is_cancelled_unless_it_had_the_result(world):
    for wanted, outcome in ((RunStarted, "cancelled"), (RunFinished, "answer")):
        agent, seen = agent_of(answer("3"))
        if world.name == "sync":
            with closing(agent.stream("Go")) as events:
                next(event for event in events if isinstance(event, wanted))
        else:

            async def read(agent=agent, wanted=wanted):
                async with aclosing(agent.astream("Go")) as events:
                    async for event in events:
                        if isinstance(event, wanted):
                            return

            asyncio.run(read())
        assert (end_of(seen).outcome, end_of(seen).error) == (outcome, None)


def test_a_cancelled_task_is_cancelled():
    async def hang() -> str:
        """Hangs."""
        await asyncio.sleep(30)
        return ""

    agent, seen = agent_of(call("hang"), tools=[hang])

    async def main():
        async with asyncio.timeout(0.2):
            await agent.arun("Go")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert end_of(seen).outcome == "cancelled"


def test_an_interrupt_is_cancelled():
    def interrupt() -> str:
        """Interrupts."""
        raise KeyboardInterrupt

    agent, seen = agent_of(call("interrupt"), tools=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        agent.run("Go")
    assert end_of(seen).outcome == "cancelled"


def test_a_stopped_run_is_reported_as_stopped(world):
    def halt() -> str:
        """Halts."""
        agent.stop("enough")
        return ""

    agent, seen = agent_of(call("halt"), answer("3"), tools=[halt])
    with pytest.raises(RunStopped):
        world.run(agent, "Go")
    assert (end_of(seen).outcome, type(end_of(seen).error)) == ("stopped", RunStopped)


def test_a_run_that_cannot_start_has_no_end(world):
    agent, seen = agent_of(answer("3"))
    session = Session()
    with closing(agent.stream("Go", session=session)) as events:
        next(events)
        seen.clear()
        with pytest.raises(RunError, match="in use"):
            agent.run("Go", session=session)
        assert seen == []
    with pytest.raises(RunError, match="empty"):
        world.run(agent, " ")


def test_a_paused_run_and_its_continuation_have_an_end_each(world):
    agent, seen = agent_of(call("wipe"), answer("done"))
    with pytest.raises(Paused) as caught:
        world.run(agent, "Go")
    assert end_of(seen).outcome == "paused"
    seen.clear()
    world.run(agent, None, session=caught.value.session, approvals={caught.value.calls[0].id: True})
    assert end_of(seen).outcome == "answer"


def test_a_resumed_run_keeps_its_id(world, tmp_path):
    replies, settings, error = ENDS["error"]
    agent, seen = agent_of(*replies, journal=tmp_path / "runs.db", **settings)
    with pytest.raises(error):
        world.run(agent, "Go")
    first = end_of(seen)
    again, later = agent_of(answer("3"), journal=tmp_path / "runs.db", tools=(add, wipe, tool(name="fail")(add)))
    resume = {"on_uncertain": lambda call: None, "changed": "go on"}
    if world.name == "sync":
        again.resume(first.run_id, **resume)
    else:
        asyncio.run(again.aresume(first.run_id, **resume))
    assert (end_of(later).outcome, end_of(later).run_id) == ("answer", first.run_id)


def test_a_run_under_another_agent_ends_once(world):
    clerk, _ = agent_of(answer("done"))
    agent, seen = agent_of(call("transfer_to_clerk", reason="it is theirs"), handoffs={"clerk": clerk})
    world.run(agent, "Go")
    assert end_of(seen).outcome == "answer"


def inner_ends(seen):
    return [event.event.outcome for event in seen if isinstance(event, SubRun) and isinstance(event.event, RunEnded)]


@pytest.mark.parametrize("outcome", ENDS)
def test_a_run_inside_a_tool_has_its_end_too(world, outcome):
    replies, settings, _ = ENDS[outcome]
    inner, own = agent_of(*replies, **settings)
    agent, seen = agent_of(call("helper", query="Go"), answer("done"), tools=[inner.as_tool("helper", "Helps.")])
    with suppress(Paused, KeyError):
        world.run(agent, "Go")
    assert end_of(own).outcome == outcome
    assert inner_ends(seen) == [outcome]
    assert end_of(seen).outcome == (outcome if outcome in ("paused", "error") else "answer")
    started = [
        event.event.run_id for event in seen if isinstance(event, SubRun) and isinstance(event.event, RunStarted)
    ]
    assert started == [end_of(own).run_id] != [end_of(seen).run_id]


def test_a_run_inside_a_tool_that_is_cancelled_ends_before_the_one_around_it(world):
    may_end = threading.Event()

    def hang() -> str:
        """Hangs."""
        may_end.wait(HANGS)
        return ""

    inner, _ = agent_of(call("hang"), tools=[hang])
    middle, _ = agent_of(call("inner", query="Go"), tools=[inner.as_tool("inner", "Helps.")])
    tools = [middle.as_tool("middle", "Helps.")]
    agent, seen = agent_of(call("middle", query="Go"), answer("late"), tools=tools, limits=Limits(seconds=3))
    with suppress(LimitExceeded):
        world.run(agent, "Go")
    may_end.set()
    ends = [event for event in seen if isinstance(event, SubRun) and "RunEnded" in repr(event)]
    assert [type(event.event) for event in ends] == [SubRun, RunEnded], "the innermost first, once each"
    end_of(seen)


def test_all_listeners_get_the_end_even_if_one_fails(world):
    seen = []

    def broken(event):
        if isinstance(event, RunEnded):
            raise ValueError("broken listener")

    agent = JsonAgent([add], model=ScriptedModel(answer("3")), listeners=[broken, seen.append])
    with pytest.raises(ValueError, match="broken listener"):
        world.run(agent, "Go")
    assert end_of(seen).outcome == "answer"


def test_a_stuck_run_names_the_last_failed_call(world):
    agent, seen = agent_of(*[call("add", a="x", b=2)] * 9)
    with pytest.raises(LimitExceeded, match=r"Last error: add: ValidationError: "):
        world.run(agent, "Go")
    assert "add: ValidationError" in end_of(seen).notice


@pytest.mark.parametrize("begin", ["agent.stream('q')", "agent.imap(['q', 'q', 'q'], concurrency=1)"])
def test_a_stream_that_was_left_half_way_ends_with_the_program(tmp_path, begin):
    code = (
        "import sys\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel, answer\n"
        "def add(a: int) -> int:\n    'Adds.'\n    return a\n"
        "show = lambda event: print(event.outcome) if type(event).__name__ == 'RunEnded' else None\n"
        "model = ScriptedModel([answer('a')] * 3)\n"
        "agent = JsonAgent(add, memory=False, model=model, journal=sys.argv[1], listeners=[show])\n"
        f"left = {begin}\nnext(left)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "runs.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.stderr == ""
    assert done.stdout.split()[0] == ("cancelled" if "stream" in begin else "answer")
