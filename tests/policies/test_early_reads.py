"""Reads that begin while the reply still streams in."""

import asyncio
import threading
import time
from contextlib import aclosing

import pytest

from agentkit import JsonAgent, LimitExceeded, ModelError, RunContext, ToolCall, ToolRegistry, tool
from agentkit.core.ask_person import Person
from agentkit.core.context import Injected
from agentkit.core.flow import adrive, apply_policies, drive
from agentkit.core.messages import Usage, assistant, pending_calls, user
from agentkit.core.threads import count_abandoned
from agentkit.engine.loop import agent_loop
from agentkit.engine.model import ModelReplied, Reply, TextDelta, ToolCallDelta
from agentkit.policies.approval import AUTHORITY, Approvals, Authority, approve
from agentkit.policies.budget import Limits
from agentkit.policies.limits import PURSES, limit
from agentkit.policies.reading_ahead import early_reads
from agentkit.policies.retries import retry
from agentkit.policies.timeouts import tool_settings
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import ToolFinished, ToolStarted
from agentkit.tools.final_answer import make_answer_tool

RAN: list[str] = []
GATE = threading.Event()


@pytest.fixture(autouse=True)
def _fresh():
    RAN.clear()
    GATE.clear()
    yield
    GATE.set()
    until(lambda: count_abandoned() == 0)


def until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


@tool(effect="read")
def read(name: str) -> str:
    """Reads."""
    RAN.append(f"read {name}")
    return f"text of {name}"


@tool(effect="read")
def read_all() -> str:
    """Reads all."""
    RAN.append("read_all")
    return "all"


@tool(effect="read")
async def aread(name: str) -> str:
    """Reads."""
    await asyncio.sleep(0)
    RAN.append(f"aread {name}")
    return f"text of {name}"


@tool(effect="read")
def read_slowly(name: str) -> str:
    """Reads until it is let go."""
    RAN.append(f"read_slowly {name}")
    GATE.wait(20)
    return f"text of {name}"


@tool(effect="read")
async def aread_slowly(name: str) -> str:
    """Reads until it is cancelled."""
    RAN.append(f"aread_slowly {name}")
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        RAN.append("cancelled")
        raise
    return ""


@tool(effect="write")
def write(name: str) -> str:
    """Writes."""
    RAN.append(f"write {name}")
    return "written"


def plain(name: str) -> str:
    """Says nothing of itself."""
    RAN.append(f"plain {name}")
    return "plain"


@tool(effect="read")
def read_here(name: str, run: RunContext) -> str:
    """Reads and wants to know its call."""
    RAN.append(f"read_here {run.call.id}")
    return run.call.id


@tool(effect="read", sequential=True)
def read_apart(name: str) -> str:
    """Reads alone."""
    RAN.append(f"read_apart {name}")
    return "apart"


@tool(effect="read")
def read_dearly(name: str) -> str:
    """Reads, for money, as an agent inside of a tool does."""
    (purse,) = PURSES.get()
    purse.settle(0.0, Usage(input_tokens=70))
    RAN.append(f"read_dearly {name}")
    return repr(AUTHORITY.get().decide)


TOOLS = ToolRegistry(
    read, read_all, aread, read_slowly, aread_slowly, write, plain, read_here, read_apart, read_dearly,
    answer=make_answer_tool(),
)  # fmt: skip


class Streaming:
    """A model that streams: pieces, functions to call in between, and replies; an exception is raised."""

    name = "streaming"

    def __init__(self, *replies):
        self.replies = list(replies)

    def ask(self, request):
        for step in self.replies.pop(0):
            if isinstance(step, Exception):
                raise step
            if callable(step):
                step()
            else:
                yield step

    async def aask(self, request):
        for step in self.replies.pop(0):
            if isinstance(step, Exception):
                raise step
            if callable(step):
                await asyncio.to_thread(step)
            else:
                yield step


def pieces(index, name, text):
    """A call in small pieces."""
    return [ToolCallDelta(index, name, text[place : place + 3]) for place in range(0, len(text), 3)]


def reply(*calls):
    return Reply(assistant(None, [ToolCall(f"c{place}", *call) for place, call in enumerate(calls)]))


def named(name, value="a"):
    return name, f'{{"name": "{value}"}}'


def ran(*what):
    """A step of a stream: waits until this has run."""
    return lambda: until(lambda: set(what) <= set(RAN))


def not_ran(*what):
    def check():
        time.sleep(0.03)
        assert not set(what) & set(RAN)

    return check


FINAL = [reply(("final_answer", '{"text": "done"}'))]


def flow(*replies, inner=(), outer=(), deps=None, history=None):
    context = RunContext(deps)
    history = [user("go")] if history is None else history
    loop = agent_loop(Streaming(*replies), TOOLS, history, context, stream=True)
    return apply_policies(loop, (*inner, early_reads(context), tool_settings(5), *outer))


def results(events):
    return [event.result.content for event in events if isinstance(event, ToolFinished) and not event.result.is_answer]


@pytest.mark.parametrize("name", ["read", "aread"])
def test_a_read_begins_before_the_reply_ends_and_runs_once(world, name):
    stream = [*pieces(0, *named(name)), ran(f"{name} a"), TextDelta("more"), reply(named(name))]
    _, events = world.drive(flow(stream, FINAL))
    assert results(events) == ["text of a"]
    assert [f"{name} a"] == RAN
    kinds = [type(event) for event in events]
    assert kinds.index(ModelReplied) < kinds.index(ToolStarted) < kinds.index(ToolFinished)


def test_what_a_read_takes_is_taken_from_the_run_and_who_decides_there_decides_in_it(world):
    stream = [*pieces(0, *named("read_dearly")), ran("read_dearly a"), reply(named("read_dearly"))]
    history = [user("go")]
    with pytest.raises(LimitExceeded, match="50 tokens"):
        world.drive(flow(stream, FINAL, outer=(approve("ask"), limit(Limits(tokens=50))), history=history))
    assert "Person" in history[2]["content"]


def test_a_call_without_arguments_is_complete_when_the_next_one_begins(world):
    stream = [ToolCallDelta(0, "read_all", ""), not_ran("read_all"), ToolCallDelta(1, "aread", ""), ran("read_all")]
    stream += [ToolCallDelta(1, "aread", '{"name": "b"}'), ran("aread b"), reply(("read_all", ""), named("aread", "b"))]
    _, events = world.drive(flow(stream, FINAL))
    assert sorted(results(events)) == ["all", "text of b"]
    assert sorted(RAN) == ["aread b", "read_all"]


def test_arguments_that_need_repair_wait_for_the_reply(world):
    calls = [("read", "{'name': 'a'}"), named("plain")]
    stream = [ToolCallDelta(0, *calls[0]), ToolCallDelta(1, "plain", ""), not_ran("read a"), reply(*calls)]
    world.drive(flow(stream, FINAL))
    assert sorted(RAN) == ["plain a", "read a"]


def test_braces_inside_of_values_are_no_end(world):
    call = ("read", '{"name": "}{ {}} \\" }"}')
    stream = [*pieces(0, *call), ToolCallDelta(1, "plain", '{"name": "x"}'), ran('read }{ {}} " }')]
    _, events = world.drive(flow([*stream, reply(call, named("plain", "x"))], FINAL))
    assert 'text of }{ {}} " }' in results(events)
    assert len(RAN) == 2


def test_half_of_a_call_is_never_run(world):
    stream = [*pieces(0, "read", '{"name": "a'), not_ran("read a"), ModelError("cut", transient=True)]
    again = [*pieces(0, *named("read", "b")), reply(named("read", "b"))]
    world.drive(flow(stream, again, FINAL, outer=[retry([0.0])]))
    assert RAN == ["read b"]


@pytest.mark.parametrize("name", ["write", "plain", "read_here", "read_apart", "unknown"])
def test_other_calls_wait_for_the_reply(world, name):
    stream = [*pieces(0, *named(name)), *pieces(1, *named("plain")), not_ran("plain a", f"{name} a", "read_here c0")]
    world.drive(flow([*stream, reply(named(name))], FINAL))
    assert (RAN == []) == (name == "unknown")


def test_what_stands_after_a_write_waits_for_it(world):
    calls = [named("read", "a"), named("write", "b"), named("read", "c"), named("read", "a")]
    stream = [piece for index, call in enumerate(calls) for piece in pieces(index, *call)]
    _, events = world.drive(flow([*stream, ran("read a"), not_ran("read c"), reply(*calls)], FINAL))
    assert RAN[:2] == ["read a", "write b"]
    assert sorted(RAN[2:]) == ["read a", "read c"], "what was read before the write is old"
    assert len(results(events)) == 4


def test_an_early_read_of_a_withdrawn_reply_is_not_taken_for_one_after_a_write(world):
    first = [*pieces(0, *named("read")), ran("read a"), ModelError("cut", transient=True)]
    calls = [named("write", "b"), named("read", "a")]
    world.drive(flow(first, [reply(*calls)], FINAL, outer=[retry([0.0])]))
    assert RAN == ["read a", "write b", "read a"]


def test_a_reply_that_comes_again_joins_what_has_begun(world):
    first = [*pieces(0, *named("read")), ran("read a"), ModelError("cut", transient=True)]
    again = [*pieces(0, *named("read")), reply(named("read"))]
    _, events = world.drive(flow(first, again, FINAL, outer=[retry([0.0])]))
    assert RAN == ["read a"]
    assert results(events) == ["text of a"]


def test_a_later_turn_reads_anew(world):
    turn = [*pieces(0, *named("read")), ran("read a"), reply(named("read"))]
    world.drive(flow(turn, list(turn), FINAL))
    assert RAN == ["read a", "read a"]


def test_what_no_call_asks_for_after_all_is_dropped(world):
    stream = [*pieces(0, *named("read")), ran("read a"), reply(named("plain"))]
    _, events = world.drive(flow(stream, FINAL))
    assert results(events) == ["plain"]
    assert RAN == ["read a", "plain a"]


def test_equal_calls_begin_once_and_each_has_the_result(world):
    calls = [named("read"), ("read", '{"name":"a"}')]
    stream = [*pieces(0, *calls[0]), *pieces(1, *calls[1]), ran("read a"), reply(*calls)]
    _, events = world.drive(flow(stream, FINAL))
    assert results(events) == ["text of a"] * 2
    assert RAN == ["read a"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_what_it_raised_is_told_in_its_turn_and_retried_if_it_may_be(world, is_async):
    tries = []

    def fails() -> str:
        """Fails."""
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no")
        return "at last"

    async def afails() -> str:
        """Fails."""
        return fails()

    function = afails if is_async else fails
    for retries, said in ((0, "ValueError: no"), (1, "at last")):
        tries.clear()
        tools = ToolRegistry(tool(effect="read", retries=retries, name="fails")(function), answer=make_answer_tool())
        stream = [ToolCallDelta(0, "fails", "{}"), lambda: until(lambda: tries), reply(("fails", "{}"))]
        loop = agent_loop(Streaming(stream, FINAL), tools, [user("go")], stream=True)
        _, events = world.drive(apply_policies(loop, (early_reads(),)))
        assert results(events) == [said]
        assert len(tries) == retries + 1


def test_hidden_parameters_are_filled(world):
    seen = []

    @tool(effect="read")
    def look(db: Injected[dict]) -> str:
        """Looks."""
        seen.append(db)
        return "looked"

    tools = ToolRegistry(look, answer=make_answer_tool())
    context = RunContext({"a": 1})
    stream = [ToolCallDelta(0, "look", "{}"), lambda: until(lambda: seen), reply(("look", "{}"))]
    loop = agent_loop(Streaming(stream, FINAL), tools, [user("go")], context, stream=True)
    assert results(world.drive(apply_policies(loop, (early_reads(context),)))[1]) == ["looked"]
    assert seen == [{"a": 1}]


@pytest.mark.parametrize("name", ["read_slowly", "aread_slowly"])
def test_a_read_that_hangs_is_given_up_in_its_turn(world, name):
    stream = [*pieces(0, *named(name)), ran(f"{name} a"), reply(named(name))]
    context = RunContext(None)
    loop = agent_loop(Streaming(stream, FINAL), TOOLS, [user("go")], context, stream=True)
    _, events = world.drive(apply_policies(loop, (early_reads(context), tool_settings(0.05))))
    assert "did not finish within 0.05 seconds" in results(events)[0]
    if name == "read_slowly":
        until(lambda: count_abandoned() == 1)
    else:
        until(lambda: "cancelled" in RAN)


@pytest.mark.parametrize("name", ["read_slowly", "aread_slowly"])
def test_a_stream_that_nobody_reads_on_leaves_nothing_behind(world, name):
    history = [user("go")]
    start = time.perf_counter()
    running = flow([*pieces(0, *named(name)), ran(f"{name} a"), TextDelta("x"), TextDelta("y")], history=history)

    async def astop():
        async with aclosing(adrive(running)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break

    if world.name == "sync":
        driver = drive(running)
        next(event for event in driver if isinstance(event, TextDelta))
        driver.close()
    else:
        asyncio.run(astop())
    assert time.perf_counter() - start < 8
    if name == "aread_slowly":
        until(lambda: "cancelled" in RAN)
    else:
        assert count_abandoned() == 1
    assert not pending_calls(history)


def test_a_run_that_is_not_streamed_begins_nothing_early(world):
    script = [
        {"tool_calls": [{"name": "read", "arguments": {"name": "a"}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]},
    ]
    agent = JsonAgent(read, model=ScriptedModel(script), policies=[early_reads()])
    assert world.run(agent, "go").answer == "done"
    assert RAN == ["read a"]


def test_the_events_are_those_of_a_run_that_is_not_streamed(world):
    def script():
        calls = [{"id": name, "name": name, "arguments": {"name": "a"}} for name in ("read", "write")]
        return ScriptedModel(
            {"tool_calls": calls}, {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}
        )

    def kinds(events):
        calls = [event for event in events if isinstance(event, ToolStarted | ToolFinished)]
        return [
            (type(event), event.call.call.name if isinstance(event, ToolStarted) else event.result.call.name)
            for event in calls
        ]

    plain_events = []
    agent = JsonAgent(read, write, model=script(), policies=[early_reads()], listeners=[plain_events.append])
    world.run(agent, "go")
    agent = JsonAgent(read, write, model=script(), policies=[early_reads()])
    assert kinds(world.stream(agent, "go")) == kinds(plain_events)


@pytest.mark.parametrize("decide", [lambda call: True, Person()], ids=["function", "person"])
def test_where_a_function_decides_about_every_call_none_begins_before_it_is_asked(world, decide):
    token = AUTHORITY.set(Authority(decide, Approvals()))
    try:
        is_person = isinstance(decide, Person)
        check = ran("read a") if is_person else not_ran("read a")
        world.drive(flow([*pieces(0, *named("read")), check, reply(named("read"))], FINAL))
    finally:
        AUTHORITY.reset(token)
    assert RAN == ["read a"]
