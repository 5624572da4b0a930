"""A recalled result has the JSON value that it had, beside the text that the model reads."""

import asyncio
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import JsonAgent, Session, ToolResult
from agentkit.journal import fork, runs
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.execution.turn import ToolFinished


class Price(BaseModel):
    item: str
    euros: float


@dataclass
class Point:
    x: int
    y: int

    def __str__(self) -> str:
        return f"({self.x}, {self.y})"


MADE: list[int] = []
VALUES: list[tuple[Any, Any]] = [
    ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
    (3, 3),
    (None, None),
    ("3", "3"),
    ('{"a": 1}', '{"a": 1}'),
    (Price(item="tea", euros=3.5), {"item": "tea", "euros": 3.5}),
    (Point(1, 2), {"x": 1, "y": 2}),
    (date(2026, 1, 2), "2026-01-02"),
    ([Price(item="tea", euros=3.5)], [{"item": "tea", "euros": 3.5}]),
]
CASES = range(len(VALUES))


def give(case: int) -> Any:
    """Gives."""
    MADE.append(case)
    return VALUES[case][0]


def make_stop(stopped: list[int]) -> Any:
    """Return a tool that stops the run, once."""

    def stop() -> str:
        """Stops the run the first time."""
        if not stopped:
            stopped.append(1)
            raise KeyboardInterrupt
        return "stopped"

    return stop


CALLS = {"tool_calls": [*({"name": "give", "arguments": {"case": case}} for case in CASES), {"name": "stop"}]}
FINAL = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "ok"}}]}


def texts(messages) -> list[Any]:
    return [message["content"] for message in messages if message["role"] == "tool" and message["name"] == "give"]


def agent_of(path: Path | None, *replies, stopped=(1,)) -> JsonAgent:
    return JsonAgent(give, make_stop(stopped), model=ScriptedModel(*replies), journal=path, sequential=True)


@pytest.fixture
def interrupted(world, tmp_path: Path) -> tuple[Path, str]:
    """A run that was stopped when all values had been given."""
    MADE.clear()
    path = tmp_path / "runs.db"
    with pytest.raises(KeyboardInterrupt):
        world.run(agent_of(path, CALLS, stopped=[]), "Go")
    assert [*CASES] == MADE
    return path, runs(path)[0].id


def check_values(results: list[ToolResult]) -> None:
    found = [result.value for result in results if result.call.name == "give"]
    assert found == [value for _, value in VALUES]
    assert [type(value) for value in found] == [type(value) for _, value in VALUES]


@pytest.mark.parametrize("branched", [False, True])
def test_a_resumed_run_gives_callers_the_values_again(world, interrupted, branched):
    path, run_id = interrupted
    fresh = world.run(agent_of(None, {**CALLS, "tool_calls": CALLS["tool_calls"][:-1]}, FINAL), "Go")
    MADE.clear()
    identity = fork(run_id, 1, store=path) if branched else run_id
    events = world.stream(agent_of(path, FINAL), None, session=Session.resumed(identity, path))
    assert MADE == []
    result = events[-1].result
    check_values(result.calls)
    check_values([event.result for event in events if isinstance(event, ToolFinished)])
    assert texts(result.messages) == texts(fresh.messages)  # what the model reads is the same


def test_a_replayed_run_gives_callers_the_values_again(world, tmp_path):
    path = tmp_path / "run.jsonl"
    world.run(agent_of(None, {**CALLS, "tool_calls": CALLS["tool_calls"][:-1]}, FINAL), "Go", record=path)
    MADE.clear()
    agent = agent_of(None)
    result = agent.replay(path) if world.name == "sync" else asyncio.run(agent.areplay(path))
    assert MADE == []
    check_values(result.calls)


def test_the_answer_of_an_agent_inside_keeps_its_value(world, tmp_path):
    path = tmp_path / "runs.db"
    stopped = []

    def outer(*replies) -> JsonAgent:
        price = {"tool_calls": [{"name": "final_answer", "arguments": {"item": "tea", "euros": 3.5}}]}
        inner = JsonAgent(model=ScriptedModel(price), answer=Price, description="Knows prices.")

        return JsonAgent(
            [inner.as_tool("clerk"), make_stop(stopped)], model=ScriptedModel(*replies), journal=path, sequential=True
        )

    both = {"tool_calls": [{"name": "clerk", "arguments": {"query": "tea?"}}, {"name": "stop"}]}
    with pytest.raises(KeyboardInterrupt):
        world.run(outer(both), "Go")
    run_id = runs(path, unfinished=True)[0].id
    result = world.run(outer(FINAL), None, session=Session.resumed(run_id, path))
    assert result.calls[0].value == {"item": "tea", "euros": 3.5}


def test_a_query_with_half_of_an_emoji_is_recorded(world, path):
    agent = JsonAgent(give, model=ScriptedModel(answer("Hello.")), journal=path)
    world.run(agent, "Hi \ud83d")
    assert [(run.query, run.answer) for run in runs(path)] == [("Hi \ufffd", "Hello.")]


def test_a_query_with_a_nul_is_recorded(world, path):
    agent = JsonAgent(give, model=ScriptedModel(answer("Hello\0.")), journal=path)
    world.run(agent, "Hi\0")
    assert [(run.query, run.answer) for run in runs(path)] == [("Hi\0", "Hello\0.")]


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
NO_JSON: list[tuple[Any, Any]] = [
    (b"\x89PNG\r\n", "[6 bytes]"),
    ({"chart": b"\xff"}, {"chart": "[1 bytes]"}),
    (CIRCLE, ["<list again: a cycle>"]),
    ({"\ud83d": 1}, {"\ufffd": 1}),
]


@pytest.mark.parametrize(("value", "data"), NO_JSON, ids=["bytes", "bytes inside", "cycle", "half an emoji"])
def test_an_answer_that_json_does_not_have_ends_the_run_and_is_recorded(world, path, value, data):
    def draw(title: str) -> Any:
        """Draws the answer."""
        return value

    agent = JsonAgent(model=ScriptedModel(answer(title="a"), answer(title="a")), answer=draw, journal=path)
    result = world.run(agent, "Draw.")
    assert result.answer is value
    assert result.as_dict()["answer"] == data
    assert result.to_html()
    assert [run.state for run in runs(path)] == ["finished"]
