"""The answer's type, and the checks that it must pass."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, RootModel

from agentkit import DefinitionError, JsonAgent, ToolError, ToolRegistry
from agentkit.core.messages import user
from agentkit.policies.answer_checks import AnswerDoubted, Material, check_answers
from agentkit.policies.evidence import evidence
from agentkit.policies.final_request import request_final_answer
from agentkit.policies.limits import limit as limited
from agentkit.testing import ScriptedModel, call
from agentkit.tools.final_answer import DESCRIPTION, make_answer_tool


class Report(BaseModel):
    """A report on the matter."""

    title: str
    points: list[int]


@dataclass
class Pair:
    left: int
    right: int = 0


class Place(TypedDict):
    city: str


class Range(NamedTuple):
    low: int
    high: int


class Optional(BaseModel):
    note: str = "none"


class Reply(BaseModel):
    answer: str


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)


def loop_to_answer(world, answer, *replies, policies=(), history=None, tools=()):
    model = ScriptedModel(*replies)
    history = [user("?")] if history is None else history
    registry = ToolRegistry(*tools, answer=make_answer_tool(answer))
    end, events = world.loop(model, registry, history, *policies, text_ends=answer is str)
    model.assert_done()
    return end.value, history, events


@pytest.mark.parametrize(
    ("type_", "fields", "answer"),
    [
        (Report, {"title": "T", "points": [1]}, Report(title="T", points=[1])),
        (Pair, {"left": 1, "right": "2"}, Pair(1, 2)),
        (Place, {"city": "Rome"}, {"city": "Rome"}),
        (Range, {"low": 1, "high": 2}, Range(1, 2)),
        (Optional, {"note": "n"}, Optional(note="n")),
        (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    ],
)
def test_the_fields_are_the_parameters_and_may_stand_under_answer(world, type_, fields, answer):
    assert list(make_answer_tool(type_).parameters["properties"]) == list(fields)
    for arguments in (fields, {"answer": fields}):
        value, *_ = loop_to_answer(world, type_, call("final_answer", **arguments))
        assert value == answer
        assert type(value) is type(answer)


@pytest.mark.parametrize(
    ("type_", "written", "answer"),
    [
        (int, 7, 7),
        (list[int], [1, "2"], [1, 2]),
        (int | None, None, None),
        (Literal["a", "b"], "a", "a"),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Report | Pair, {"left": 1}, Pair(1)),
        (list[Report], [{"title": "T", "points": []}], [Report(title="T", points=[])]),
        (RootModel[list[int]], [1], RootModel[list[int]]([1])),
    ],
)
def test_other_types_stand_under_answer(world, type_, written, answer):
    value, *_ = loop_to_answer(world, type_, call("final_answer", answer=written))
    assert value == answer


def test_a_field_that_is_called_answer_is_one(world):
    assert loop_to_answer(world, Reply, call("final_answer", answer="x"))[0] == Reply(answer="x")


def test_wrong_fields_go_back_to_the_model(world):
    value, history, _ = loop_to_answer(
        world, Report, call("final_answer", title="T"), call("final_answer", title="T", points=[])
    )
    assert value == Report(title="T", points=[])
    assert "points" in history[2]["content"]


def test_the_types_own_words_add_to_the_description():
    assert make_answer_tool(Report).description == f"{DESCRIPTION}\n\nA report on the matter."
    assert make_answer_tool(Place).description == DESCRIPTION


def make_report(title: str, count: int) -> Report:
    """Makes the report.

    Args:
        title: Its title.
        count: How many points it has.
    """
    if count > 3:
        raise ToolError("Three points at the most.")
    return Report(title=title, points=list(range(count)))


async def amake_report(title: str, count: int) -> Report:
    """Makes the report, awaiting."""
    await asyncio.sleep(0)
    return make_report(title, count)


@pytest.mark.parametrize("function", [make_report, amake_report])
def test_a_function_makes_the_answer(world, function):
    tool = make_answer_tool(function)
    assert tool.name == "final_answer"
    assert "Makes the report" in tool.description
    value, history, _ = loop_to_answer(
        world, function, call("final_answer", title="T", count=9), call("final_answer", title="T", count=2)
    )
    assert value == Report(title="T", points=[0, 1])
    assert history[2]["content"] == "Three points at the most."


def test_a_type_that_no_model_can_write_is_refused_at_once():
    with pytest.raises(DefinitionError):
        make_answer_tool(threading.Lock)


@pytest.mark.parametrize("nothing", [None, type(None)])
def test_an_answer_that_can_only_be_null_is_refused(nothing):
    with pytest.raises(DefinitionError, match=r"^answer=None: the answer would be null\. Leave answer= out"):
        JsonAgent(answer=nothing, model="offline")


def test_an_empty_text_is_not_an_answer(world):
    value, history, _ = loop_to_answer(
        world, str, call("final_answer", text=" \n"), call("final_answer", text="It is 3.")
    )
    assert value == "It is 3."
    assert history[-3]["content"].startswith("The answer is empty.")


class TestChecks:
    def loop_checked(self, world, checks, *replies, answer=str, limit=50, tools=()):
        history = [user("How many?")]
        policies = (request_final_answer(), check_answers(checks, history), limited(max_steps=limit))
        return loop_to_answer(world, answer, *replies, policies=policies, history=history, tools=tools)

    def test_a_good_answer_passes(self, world):
        seen = []
        value, _, events = self.loop_checked(world, [seen.append], call("final_answer", text="fine"))
        assert (value, seen) == ("fine", ["fine"])
        assert not any(isinstance(event, AnswerDoubted) for event in events)

    def test_what_a_check_raises_sends_the_answer_back(self, world):
        def positive(answer: int) -> None:
            if answer < 0:
                raise ToolError("Give a positive number.")

        def even(answer: int) -> None:
            assert answer % 2 == 0, "odd"

        replies = (call("final_answer", answer=-1), call("final_answer", answer=3), call("final_answer", answer=4))
        value, history, _ = self.loop_checked(world, [positive, even], *replies, answer=int)
        assert value == 4
        assert history[2]["content"] == "Give a positive number."
        assert history[4]["content"].startswith("The answer was not accepted. AssertionError: odd")
        assert history[6]["content"] == "The answer was given."

    @pytest.mark.parametrize("kind", [AttributeError, KeyError, TypeError, ZeroDivisionError])
    def test_a_bug_of_a_check_ends_the_run_and_no_model_reads_it(self, world, kind):
        async def later(answer: str) -> None:
            raise kind("a bug")

        def now(answer: str) -> None:
            raise kind("a bug")

        for check in (now, later):
            model = ScriptedModel(call("final_answer", text="fine"))
            with pytest.raises(kind) as caught:
                world.run(JsonAgent(make_report, model=model, checks=[check]), "How many?")
            assert caught.value.__notes__ == [
                f"raised in checks: {check.__name__}. A check refuses an answer with ValueError or ToolError"
            ]

    def test_a_check_that_returns_false_or_a_text_has_failed(self, world):
        def is_positive(answer: int) -> bool:
            return answer > 0

        def complain(answer: int) -> str:
            return "Give an even number." if answer % 2 else ""

        async def is_small(answer: int) -> bool:
            return answer < 10

        replies = [call("final_answer", answer=number) for number in (-2, 3, 12, 4)]
        value, history, events = self.loop_checked(world, [is_positive, complain, is_small], *replies, answer=int)
        assert value == 4
        assert [message["content"] for message in history[2::2]] == [
            "The answer was not accepted. The check is_positive failed.\nCorrect it and call final_answer again.",
            "The answer was not accepted. Give an even number.\nCorrect it and call final_answer again.",
            "The answer was not accepted. The check is_small failed.\nCorrect it and call final_answer again.",
            "The answer was given.",
        ]
        assert not any(isinstance(event, AnswerDoubted) for event in events)

    def test_a_check_that_keeps_returning_false_becomes_a_doubt(self, world):
        replies = [call("final_answer", answer=number) for number in (1, 2, 3)]
        value, _, events = self.loop_checked(world, [lambda answer: False], *replies, answer=int)
        assert value == 3
        assert [event.reason for event in events if isinstance(event, AnswerDoubted)] == ["The check <lambda> failed."]

    def test_after_two_refusals_the_answer_is_taken_and_doubted(self, world):
        def never(answer: str) -> None:
            raise ValueError("no")

        value, history, events = self.loop_checked(
            world, [never], *[call("final_answer", text=str(number)) for number in range(3)]
        )
        assert value == "2"
        assert [event.reason for event in events if isinstance(event, AnswerDoubted)] == ["ValueError: no"]
        assert history[-1]["content"] == "The answer was given."

    def test_at_the_limit_the_answer_is_taken_and_doubted(self, world):
        def never(answer: str) -> None:
            raise ValueError("no")

        value, _, events = self.loop_checked(
            world, [never], call("final_answer", text="a"), call("final_answer", text="b"), limit=1
        )
        assert value == "b"
        assert any(isinstance(event, AnswerDoubted) for event in events)

    def test_a_check_that_awaits_and_one_that_makes_use_of_the_material(self, world):
        seen = []

        async def slow(answer: str) -> None:
            await asyncio.sleep(0)
            seen.append(answer)

        def look(answer: str, material: Material) -> None:
            seen.append((material.query, material.results))

        def count() -> int:
            """Counts."""
            return 42

        counting = {"tool_calls": [{"name": "count", "arguments": {}}]}
        self.loop_checked(world, [slow, look], counting, call("final_answer", text="42"), tools=[count])
        assert seen == ["42", ("How many?", ["42"])]

    def test_an_answer_made_by_a_coroutine_function_is_checked(self, world):
        seen = []
        value, *_ = self.loop_checked(
            world, [seen.append], call("final_answer", title="T", count=1), answer=amake_report
        )
        assert seen == [value] == [Report(title="T", points=[0])]

    def test_a_check_runs_in_a_worker_thread(self, world):
        names = []

        def look(answer: object) -> None:
            names.append(threading.current_thread() is threading.main_thread())

        self.loop_checked(world, [look], call("final_answer", text="x"))
        self.loop_checked(world, [look], call("final_answer", title="T", count=1), answer=amake_report)
        assert names == [False, False]

    def test_a_plain_text_that_would_be_the_answer_is_checked_too(self, world):
        def short(answer: str) -> None:
            if len(answer) > 5:
                raise ToolError("Shorter!")

        value, history, _ = self.loop_checked(world, [short], "a long text", "a long text", "brief")
        assert value == "brief"
        assert history[4]["content"] == "Shorter!"

    def test_evidence_returns_an_unsupported_answer_once(self, world):
        def count() -> str:
            """Counts."""
            return "there are 42 of them"

        counting = {"tool_calls": [{"name": "count", "arguments": {}}]}
        value, history, events = self.loop_checked(
            world,
            [evidence()],
            counting,
            call("final_answer", text="43"),
            call("final_answer", text="42"),
            tools=[count],
        )
        assert value == "42"
        assert "says 43 (number)" in history[4]["content"]
        value, _, events = self.loop_checked(
            world,
            [evidence()],
            counting,
            call("final_answer", text="43"),
            call("final_answer", text="43"),
            tools=[count],
        )
        assert value == "43"
        assert sum(isinstance(event, AnswerDoubted) for event in events) == 1
