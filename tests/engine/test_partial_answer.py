"""The answer while the model still writes it."""

import json
import random
import time
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from agentkit import JsonAgent, ModelError
from agentkit.core.messages import ToolCall, assistant
from agentkit.engine.model import (
    AnswerForming,
    ModelAsked,
    ModelReplied,
    PartialAnswerReader,
    Reply,
    TextDelta,
    ToolCallDelta,
)
from agentkit.engine.result import RunFinished
from agentkit.tools.final_answer import make_answer_tool


class Point(BaseModel):
    x: int
    label: str = ""


class Report(BaseModel):
    title: str
    points: list[Point]


class Single(BaseModel):
    answer: str


@dataclass
class Pair:
    left: int
    right: int


def report(title: str, points: list[int]) -> str:
    """Writes a report."""
    return f"{title}: {sum(points)}"


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def formed(type_, text: str, size: int, name: str = "final_answer") -> list[AnswerForming]:
    forming = PartialAnswerReader(make_answer_tool(type_))
    call = ToolCall("c", name, text)
    events = [
        ModelAsked("m", None),
        *(ToolCallDelta(0, name, piece) for piece in pieces(text, size)),
        ModelReplied(Reply(assistant(None, [call]))),
    ]
    return [shown for event in events for shown in forming.read(event)]


TEXTS = ["", "plain", "two\nlines \"quoted\" \\ back / \b\f\r\t", "Grüße, 世界 \U0001f600!", "\\u0041 \x7f", "]}{[\"", "\ud83d alone"]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_piece_by_piece(text, ascii_only, size):
    written = json.dumps({"text": text}, ensure_ascii=ascii_only)
    shown = formed(str, written, size)
    if text == "\ud83d alone" and ascii_only:
        assert all(text.startswith(event.value) for event in shown), "half a pair of surrogates is waited for"
        return
    assert "".join(event.added for event in shown) == text
    assert all(text.startswith(event.value) for event in shown)
    values = [len(event.value) for event in shown]
    assert values == sorted(set(values))
    assert not shown or shown[-1].value == text


def test_a_text_may_stand_in_any_layout():
    assert formed(str, ' {\n  "text" :  "hi there"\n} ', 4)[-1].value == "hi there"


@pytest.mark.parametrize(
    ("type_", "answer", "value"),
    [
        (Report, {"title": "T", "points": [{"x": 1, "label": "one"}]}, {"title": "T", "points": [{"x": 1, "label": "one"}]}),
        (Report, {"answer": {"title": "T", "points": []}}, {"title": "T", "points": []}),
        (Pair, {"left": 1, "right": 2}, {"left": 1, "right": 2}),
        (Single, {"answer": "a"}, {"answer": "a"}),
        (list[Point], {"answer": [{"x": 1}, {"x": 2}]}, [{"x": 1}, {"x": 2}]),
        (dict[str, int], {"answer": {"a": 1}}, {"a": 1}),
        (int, {"answer": 123}, 123),
        (bool, {"answer": False}, False),
        (report, {"title": "T", "points": [1, 2]}, {"title": "T", "points": [1, 2]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_data_form_step_by_step(type_, answer, value, size):
    shown = formed(type_, json.dumps(answer), size)
    assert shown[-1].value == value
    assert all(type(event.value) is type(value) for event in shown)
    assert all(event.added == "" for event in shown)
    values = [json.dumps(event.value) for event in shown]
    assert len(set(values)) == len(values), "no value is told twice"


def test_half_written_texts_are_part_of_the_data():
    values = [event.value for event in formed(Report, '{"title": "Long title", "points": []}', 3)]
    assert {"title": "Long"} in values
    assert {"title": "Long title"} in values


def test_text_that_is_not_json_yields_nothing():
    assert formed(Report, "{'title': 'T'}", 3) == []
    assert formed(str, "hello", 2) == []
    assert formed(str, '{"text": 5}', 2) == []


def test_other_calls_yield_nothing_and_only_the_first_answer_counts():
    assert formed(str, '{"text": "hi"}', 3, name="other") == []
    forming = PartialAnswerReader(make_answer_tool(str))
    events = [
        ModelAsked("m", None),
        TextDelta("text"),
        ToolCallDelta(0, "add", '{"text": "no'),
        ToolCallDelta(1, "final_answer", '{"text": "o'),
        ToolCallDelta(2, "final_answer", '{"text": "tw'),
        ToolCallDelta(1, "final_answer", "ne"),
        ToolCallDelta(2, "final_answer", "o"),
    ]
    assert [shown.value for event in events for shown in forming.read(event)] == ["o", "one"]


def test_a_request_that_is_made_again_begins_anew():
    forming = PartialAnswerReader(make_answer_tool(str))
    again = [ModelAsked("m", None), ToolCallDelta(0, "final_answer", '{"text": "hal')] * 2
    assert [shown.value for event in again for shown in forming.read(event)] == ["hal", "hal"]


@pytest.mark.parametrize("type_", [str, list[str]])
def test_the_work_is_linear_in_the_length_of_the_answer(type_):
    def seconds(length: int) -> float:
        answer = "word " * length if type_ is str else ["word " * 10] * (length // 10)
        written = json.dumps({"text" if type_ is str else "answer": answer})
        start = time.thread_time()
        shown = formed(type_, written, 4)
        seconds = time.thread_time() - start
        assert shown[-1].value == answer
        return seconds

    short, long = (min(seconds(length) for _ in range(3)) for length in (1_000, 30_000))
    assert long < 240 * short + 0.1, "linear: 30 times as long; quadratic: 900 times"


def test_random_answers_in_random_pieces_end_whole():
    rng = random.Random(7)
    for _ in range(100):
        text = "".join(
            chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xA0, 0x2FFF), 0x1F600, 10, 34, 92]))
            for _ in range(rng.randrange(40))
        )
        written = json.dumps({"text": text}, ensure_ascii=rng.random() < 0.5)
        assert "".join(event.added for event in formed(str, written, rng.randrange(1, 9))) == text


class Streaming:
    """A model that writes its answer in pieces, failing first for a given number of times."""

    name = "streaming"

    def __init__(self, written: str, failures: int = 0) -> None:
        self.written = written
        self.failures = failures

    def ask(self, request):
        if request.stream:
            for piece in pieces(self.written, 5):
                yield ToolCallDelta(0, "final_answer", piece)
                if self.failures:
                    self.failures -= 1
                    raise ModelError("cut", transient=True, retry_after=0)
        yield Reply(assistant(None, [ToolCall("c", "final_answer", self.written)]))

    async def aask(self, request):
        for piece in self.ask(request):
            yield piece


def test_a_streamed_run_tells_it(world):
    seen: list = []
    agent = JsonAgent(report, model=Streaming('{"text": "Hello, world."}', failures=1), listeners=[seen.append])
    events = world.stream(agent, "hello")
    shown = [event for event in events if isinstance(event, AnswerForming)]
    assert shown[-1].value == "Hello, world."
    assert isinstance(events[-1], RunFinished)
    assert seen[:-1] == events
    place = events.index(shown[-1])
    assert isinstance(events[place - 1], ToolCallDelta)


def test_a_run_that_is_not_streamed_does_not(world):
    seen: list = []
    world.run(JsonAgent(report, model=Streaming('{"text": "hi"}'), listeners=[seen.append]), "hello")
    assert not any(isinstance(event, AnswerForming) for event in seen)
