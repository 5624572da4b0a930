"""A thousand turns: the cost of a turn does not grow with the conversation; counted, not timed."""

import asyncio
import gc
import statistics
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import agentkit
from agentkit import AgentkitError, JsonAgent, ModelError, Session
from agentkit.core.messages import ToolCall, assistant
from agentkit.engine.model import Reply
from agentkit.testing import ScriptedModel, answer

TURNS = 1000


class Walker:
    """A model that makes one call per turn; `seen` is called at each request."""

    name = "walker"

    def __init__(self, seen: Callable[[int], object]) -> None:
        self.turn = 0
        self.seen = seen

    def ask(self, request: Any) -> Any:
        self.seen(self.turn)
        self.turn += 1
        made = ("final_answer", '{"text": "done"}') if self.turn > TURNS else ("step", f'{{"number": {self.turn}}}')
        yield Reply(assistant(None, [ToolCall(f"c{self.turn}", *made)]))

    async def aask(self, request: Any) -> Any:
        for piece in self.ask(request):
            yield piece


async def step(number: int) -> int:
    """Takes a step."""
    return number + 1


def walk(world: str, seen: Callable[[int], object]) -> None:
    agent = JsonAgent(step, model=Walker(seen), max_steps=TURNS + 1)
    if world == "sync":
        assert agent("Go") == "done"
    elif world == "async":
        assert asyncio.run(agent.arun("Go")).answer == "done"
    else:
        assert list(agent.stream("Go"))[-1].result.answer == "done"
    assert len(agent.history) == 2 * TURNS + 4


def count_in_turns(world: str, is_counted: Callable[[FrameType, str], bool]) -> list[int]:
    """Return for each turn how many events of the profiler are counted in the thread of the run."""
    total = 0
    counts = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal total
        total += is_counted(frame, event)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        walk(world, lambda _: counts.append(total))
    finally:
        sys.setprofile(before)
    return [after - before for before, after in pairwise(counts)]


@pytest.mark.parametrize("world", ["sync", "async", "streamed"])
def test_a_turn_takes_as_many_function_calls_late_as_early(world: str):
    """Count Python and C calls in the thread of the run; code that walks over the history calls some for each message."""
    turns = count_in_turns(world, lambda _, event: event in ("call", "c_call"))
    early = statistics.median(turns[10:110])
    late = statistics.median(turns[-100:])
    assert late < 1.1 * early
    assert max(turns[10:]) < 3 * early


@pytest.mark.parametrize(("world", "most"), [("sync", 222), ("async", 266), ("streamed", 240)])
def test_a_turn_takes_few_calls_of_own_functions(world: str, most: int):
    """The most that a turn may take in the thread of the run; a time would depend on the machine."""
    folder = str(Path(agentkit.__file__).parent)

    def is_own(frame: FrameType, event: str) -> bool:
        code = frame.f_code
        return event == "call" and code.co_filename.startswith(folder) and "<" not in code.co_name

    assert statistics.median(count_in_turns(world, is_own)) <= most


@pytest.mark.parametrize(("world", "most"), [("sync", 20), ("async", 29)])
def test_a_turn_builds_few_values(world: str, most: int):
    """A frozen value is dear to build and dearer to copy with `replace`, so policies copy calls with one update."""

    def is_build(frame: FrameType, event: str) -> bool:
        code = frame.f_code
        is_generated = code.co_filename == "<string>" and code.co_name == "__init__"
        return event == "call" and (is_generated or code is replace.__code__)

    assert statistics.median(count_in_turns(world, is_build)) <= most


@pytest.mark.parametrize(("world", "most"), [("sync", 488), ("async", 505)])
def test_a_run_of_one_reply_takes_few_calls_of_own_functions(world: str, most: int):
    folder = str(Path(agentkit.__file__).parent)
    agent = JsonAgent(step, model=ScriptedModel(*[answer("done")] * 5))
    counts = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        counts[-1] += event == "call" and code.co_filename.startswith(folder) and "<" not in code.co_name

    def run() -> None:
        if world == "sync":
            agent.run("Go", session=Session())
        else:
            loop.run(agent.arun("Go", session=Session()))

    before = sys.getprofile()
    with asyncio.Runner() as loop:
        for _ in range(5):
            counts.append(0)
            sys.setprofile(count)
            try:
                run()
            finally:
                sys.setprofile(before)
    assert statistics.median(counts) <= most


@pytest.mark.parametrize("world", ["sync", "async"])
def test_memory_grows_by_the_messages_alone(world: str):
    """The second half of a run allocates as much as the first; no request needs a copy of the conversation."""
    sizes: dict[int, int] = {}
    peaks: dict[int, int] = {}

    def measure(turn: int) -> None:
        if turn in (100, 500, 550, 900):
            sizes[turn], peaks[turn] = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        walk(world, measure)
    finally:
        tracemalloc.stop()
    first = sizes[500] - sizes[100]
    second = sizes[900] - sizes[500]
    assert second < 1.3 * first
    assert second / 400 < 4_000, "bytes a turn"
    assert peaks[550] - sizes[550] < 200_000


def fail(_: Any) -> Any:
    raise ModelError("no")


async def finish(agent: JsonAgent[str], session: Session) -> None:
    with suppress(AgentkitError):  # not outside of the task, whose exception is a cycle of asyncio's
        await agent.arun("Go", session=session)


@pytest.mark.parametrize("world", ["sync", "async", "left", "recorded"])
@pytest.mark.parametrize("ending", [lambda _: answer("done"), fail])
def test_a_conversation_is_freed_when_its_run_is_over(world: str, ending: Any, tmp_path: Path):
    """Without the collector of cycles, which comes late: a service has many long conversations until then."""

    def converse(number: int) -> weakref.ref[Session]:
        session = Session()
        script = ScriptedModel({"tool_calls": [{"name": "step", "arguments": {"number": 1}}]}, *[ending] * 9)
        agent = JsonAgent(step, model=script, retries=0, memory=False)
        if world == "async":
            loop.run(finish(agent, session))
        elif world == "left":
            with closing(agent.stream("Go", session=session)) as events:
                next(events)
        else:
            record = tmp_path / f"{number}.jsonl" if world == "recorded" else None
            with suppress(AgentkitError):
                agent.run("Go", session=session, record=record)
        return weakref.ref(session)

    with asyncio.Runner() as loop:
        converse(0)  # what is made once
        gc.collect()
        gc.disable()
        try:
            assert [session() for session in [converse(1), converse(2)]] == [None, None]
        finally:
            gc.enable()
