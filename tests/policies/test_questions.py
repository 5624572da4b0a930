"""Questions of tools: asked at once, or by a pause that continues with the answer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from asking_tools import RUNS, WRONG_ANSWERS, abook, book, note, pay
from one_policy import Turns, drive_here
from stacked_runs import flow_of

from agentkit import InputRequired, JsonAgent, Limits, Paused, Question, RunError, ask_question, tool
from agentkit.core.ask_person import Person, read_form, to_form
from agentkit.core.flow import apply_policies
from agentkit.core.messages import ToolCall, pending_calls, user
from agentkit.core.pending import Pending
from agentkit.engine.history import check_history
from agentkit.events import QuestionAnswered, QuestionAsked, RunEnded, ToolFinished, ToolStarted
from agentkit.policies.pending import AskingCall, PendingInputs
from agentkit.policies.questions import answer_questions
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.questions import explain_answer

ROME = call("book", city="Rome")
DONE = answer("done")
BOOKED = "Rome: 2 nights, breakfast: True"


@pytest.fixture(autouse=True)
def _nothing_ran():
    RUNS.clear()


@pytest.mark.parametrize(
    "field",
    [
        {"type": "integer", "description": "Nights."},
        {"enum": ["a", "b"]},
        {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    ],
)
def test_a_value_that_a_form_can_hold_is_a_field_with_its_choices_and_texts(field):
    plain = {"type": "object", "properties": {"value": field}, "required": ["value"]}
    assert to_form(plain) == plain
    assert to_form(field) == {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    optional = {"anyOf": [field, {"type": "null"}], "default": None, "title": "Value"}
    referred = {"$ref": "#/$defs/Value", "title": "Value"}
    for given, needed in ((optional, []), (referred, ["value"])):
        form = to_form({**plain, "properties": {"value": given}, "$defs": {"Value": field}})
        assert form == {"type": "object", "properties": {"value": {**field, "title": "Value"}}, "required": needed}


@pytest.mark.parametrize(
    "field",
    [
        {"type": ["string", "null"], "enum": ["a", "b", None], "default": None},
        {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}], "default": None},
    ],
)
def test_a_field_that_may_be_null_is_one_that_may_be_left_empty(field):
    schema = {
        "type": "object",
        "properties": {"size": field, "count": {"type": "integer"}},
        "required": ["size", "count"],
    }
    form = {"size": {"type": "string", "enum": ["a", "b"]}, "count": {"type": "integer"}}
    assert to_form(schema) == {"type": "object", "properties": form, "required": ["count"]}
    assert read_form(schema, {"count": 2}) == {"size": None, "count": 2}
    shown = []

    def ask(*entries):
        waiting = iter(entries)
        return Person(lambda prompt: (shown.append(prompt), next(waiting))[1]).answer(Question("Which?", schema, "q"))

    assert ask("", "2") == {"size": None, "count": 2}
    assert ask("b", "2") == {"size": "b", "count": 2}
    assert shown[:2] == ["\nWhich?\nsize, one of a, b (may be left empty): ", "\ncount, a whole number: "]


class Asking(Turns):
    """Turns whose tools ask; the questions are stored with them."""

    def __init__(self, *tools: Callable[..., Any], script=(ROME, DONE)) -> None:
        super().__init__(ScriptedModel(*script), *tools)
        self.stored = PendingInputs()

    @property
    def open(self) -> list[Pending]:
        """The questions without an answer."""
        return self.stored.list_open(pending_calls(self.messages), lambda call, digest: call)

    def go_on(self, world, answers=None, on_question=None) -> Any:
        """Take turns, with these answers."""
        self.stored.accept(answers or {}, self.open)
        return self.drive(world, self.take(), answer_questions(on_question, self.stored))

    def pause(self, world, answers=None, on_question=None) -> Paused:
        with pytest.raises(Paused) as caught:
            self.go_on(world, answers, on_question)
        return caught.value


@pytest.mark.parametrize("function", [book, abook])
class TestWithoutAPersonTheTurnsPause:
    def test_and_continue_with_each_answer(self, world, function):
        turns = Asking(function)
        first = turns.pause(world)
        assert [(entry.id, entry.text, entry.schema) for entry in first.questions] == [
            ("call_1_1", "How many nights?", {"type": "integer"})
        ]
        assert first.calls == ()
        assert "answers={'call_1_1': 1}" in str(first)
        second = turns.pause(world, {"call_1_1": 2})
        assert [entry.text for entry in second.questions] == ["Breakfast?"]
        assert turns.go_on(world, {second.questions[0].id: True}) == "done"
        assert turns.contents == [BOOKED, "The answer was given."]
        assert check_history(turns.messages) == []
        assert (turns.stored.asking, turns.stored.answers) == ({}, {})
        assert len(turns.requests) == 2
        assert [event.answer for event in turns.events if isinstance(event, QuestionAnswered)] == []

    def test_and_continue_with_what_was_stored(self, world, function):
        turns = Asking(function)
        turns.pause(world)
        for answers in ({"call_1_1": 2}, {"call_1_1/2": False}):
            turns.stored = PendingInputs.from_dict(json.loads(json.dumps(turns.stored.as_dict())), dict)
            if "call_1_1" in answers:
                assert [entry.text for entry in turns.pause(world, answers).questions] == ["Breakfast?"]
            else:
                turns.go_on(world, answers)
        assert turns.contents[0] == "Rome: 2 nights, breakfast: False"


class TestOnQuestion:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_function_answers_at_once(self, world, is_async):
        asked: list[Question] = []

        def reply(question: Question) -> object:
            asked.append(question)
            return 2 if "nights" in question.text else True

        async def areply(question: Question) -> object:
            await asyncio.sleep(0)
            return reply(question)

        turns = Asking(book)
        turns.go_on(world, on_question=areply if is_async else reply)
        assert turns.contents[0] == BOOKED
        assert [question.text for question in asked] == ["How many nights?", "Breakfast?"]
        assert [question.id for question in asked] == ["call_1_1", "call_1_1/2"]
        kinds = (QuestionAsked, QuestionAnswered)
        told = [event for event in turns.events if isinstance(event, kinds)]
        assert [type(event) for event in told] == [*kinds, *kinds]
        assert [event.question for event in told] == [asked[0], asked[0], asked[1], asked[1]]
        assert [event.answer for event in told if isinstance(event, QuestionAnswered)] == [2, True]
        starts, ends = (
            [event for event in turns.events if isinstance(event, kind)] for kind in (ToolStarted, ToolFinished)
        )
        assert len(starts) == len(ends) == 4, "each start has an end, also of a call that asks"

    @pytest.mark.parametrize("nothing", [None, Paused, Paused("later")])
    def test_a_function_may_let_the_call_wait(self, world, nothing):
        assert Asking(book).pause(world, on_question=lambda _: nothing).questions

    def test_a_function_may_raise_paused(self, world):
        def refuse(_):
            raise Paused

        assert Asking(book).pause(world, on_question=refuse).questions

    def test_a_wrong_answer_of_a_function_is_an_error_with_the_form(self, world):
        with pytest.raises(RunError, match=r"on_question= returned no valid answer to 'How many.*Expected: .*integer"):
            Asking(book).go_on(world, on_question=lambda _: "two")

    def test_a_person_is_asked_again_until_the_answer_fits(self, world):
        shown: list[str] = []
        entries = iter(["two", "2", "perhaps", "y"])

        def read(prompt: str) -> str:
            shown.append(prompt)
            return next(entries)

        turns = Asking(book)
        turns.go_on(world, on_question=Person(read))
        assert turns.contents[0] == BOOKED
        assert len(shown) == 4
        assert "'two' is not of type 'integer'" in shown[1]

    def test_the_person_at_the_terminal_is_asked(self, world, monkeypatch):
        entries = iter(["2", "y"])
        monkeypatch.setattr("builtins.input", lambda prompt="": next(entries))
        turns = Asking(book)
        turns.go_on(world, on_question="ask")
        assert turns.contents[0] == BOOKED

    def test_without_a_terminal_the_call_waits(self, world):
        def read(_: str) -> str:
            raise EOFError

        assert Asking(book).pause(world, on_question=Person(read)).questions


class TestState:
    def test_comes_back_when_all_answers_are_there(self, world):
        turns = Asking(pay, script=(call("pay", to="Ada"), DONE))
        pause = turns.pause(world)
        assert [(entry.id, entry.state) for entry in pause.questions] == [
            ("call_1_1/code", {"t": 1}),
            ("call_1_1/sure", {"t": 1}),
        ]
        rest = turns.pause(world, {"call_1_1/code": "12"})
        assert [entry.id for entry in rest.questions] == ["call_1_1/sure"], "what is answered is not asked again"
        assert len(RUNS) == 1, "the call does not run before it has all answers"
        turns.go_on(world, {"call_1_1/sure": True})
        assert json.loads(turns.contents[0]) == [{"code": "12", "sure": True}, {"t": 1}]

    def test_a_function_is_shown_the_state(self, world):
        asked: list[Question] = []

        def reply(question: Question) -> object:
            asked.append(question)
            return "12" if question.text == "Code?" else True

        Asking(pay, script=(call("pay", to="Ada"), DONE)).go_on(world, on_question=reply)
        assert [(entry.id, entry.state) for entry in asked] == [
            ("call_1_1/code", {"t": 1}),
            ("call_1_1/sure", {"t": 1}),
        ]

    def test_must_be_json_and_ids_must_differ(self):
        with pytest.raises(ValueError, match="state must be JSON data"):
            InputRequired(Question("?"), state=object())
        with pytest.raises(ValueError, match="ids of their own"):
            InputRequired(Question("?"), Question("!"))
        with pytest.raises(ValueError, match="ids of their own"):
            InputRequired()


class TestTheTurn:
    def test_other_calls_of_the_turn_run_once(self, world):
        turns = Asking(book, note, script=(calls(ROME, call("note", text="x")), DONE))
        turns.pause(world)
        second = turns.pause(world, {"call_1_1": 2})
        turns.go_on(world, {second.questions[0].id: True})
        assert RUNS.count("x") == 1
        assert [result.call.id for result in turns.results] == ["call_1_2", "call_1_1", "call_2_1"]

    def test_the_results_have_the_order_of_the_calls(self, world):
        turns = Asking(book, note, script=(calls(ROME, call("note", text="x")), DONE))
        turns.go_on(world, on_question=lambda question: 2 if "nights" in question.text else True)
        assert turns.contents == [BOOKED, "noted x", "The answer was given."]

    def test_several_questions_pause_together_and_may_be_answered_one_by_one(self, world):
        turns = Asking(book, script=(calls(ROME, call("book", city="Oslo")), DONE))
        assert [entry.id for entry in turns.pause(world).questions] == ["call_1_1", "call_1_2"]
        rest = turns.pause(world, {"call_1_2": 5})
        assert [entry.id for entry in rest.questions] == ["call_1_1", "call_1_2/2"]
        assert sorted(RUNS) == ["Oslo", "Oslo", "Rome"]

    def test_a_failed_call_is_tried_again_with_the_same_answers(self, world):
        @tool(effect="idempotent", retries=1)
        def book_twice(city: str) -> str:
            """Books."""
            nights = ask_question("How many nights?", int)
            RUNS.append(nights)
            if len(RUNS) == 1:
                raise ValueError("no line")
            return str(nights)

        turns = Asking(book_twice, script=(call("book_twice", city="x"), DONE))
        turns.go_on(world, on_question=lambda _: 7)
        assert turns.contents[0] == "7"
        assert RUNS == [7, 7]

    def test_the_same_text_asked_twice_has_two_answers(self, world):
        def guests() -> list[str]:
            """Asks for guests."""
            return [ask_question("Who?"), ask_question("Who?")]

        names = iter(["Ada", "Bob"])
        turns = Asking(guests, script=(call("guests"), DONE))
        turns.go_on(world, on_question=lambda _: next(names))
        assert turns.results[0].value == ["Ada", "Bob"]


class TestRunsInsideOfTools:
    @pytest.mark.parametrize("own", [None, lambda _: 3])
    def test_inherit_the_respondent_or_have_one_of_their_own(self, world, own):
        def guess() -> int:
            """Asks."""
            return ask_question("How many?", int)

        def run_inner() -> str:
            """Runs other turns."""
            inner = Asking(guess, script=(call("guess"), DONE))
            try:
                drive_here(answer_questions(own, inner.stored)(inner.take()))
            except Paused:
                return "nobody was asked"
            return inner.contents[0]

        turns = Asking(run_inner, script=(call("run_inner"), DONE))
        turns.go_on(world, on_question=lambda _: 2)
        assert turns.contents[0] == ("3" if own else "2")


class TestWhatCannotBe:
    @pytest.mark.parametrize(("answers", "reason"), WRONG_ANSWERS)
    def test_a_wrong_answer_names_the_form_and_changes_nothing(self, world, answers, reason):
        turns = Asking(book)
        turns.pause(world)
        with pytest.raises(RunError, match=reason):
            turns.go_on(world, answers)
        assert [entry.id for entry in turns.open] == ["call_1_1"]

    def test_a_schema_that_no_answer_can_be_checked_by_is_an_error_for_the_model(self, world):
        def odd(kind: str) -> str:
            """Asks."""
            return ask_question("?", {"type": kind} if kind == "x" else {"$ref": "https://example.com/s.json"})

        turns = Asking(odd, script=(calls(call("odd", kind="x"), call("odd", kind="y")), DONE))
        turns.go_on(world)
        found = sorted(turns.contents[:2])
        assert found[0].startswith("InvalidQuestion: the schema of the question '?' is not valid")
        assert "only references within it" in found[1]

    def test_an_answer_is_stored_with_the_call_that_asked_whatever_the_ids_look_like(self):
        asking = {"x": AskingCall([Question("a?", id="2")]), "x/2": AskingCall([Question("b?")])}
        inputs = PendingInputs(asking=asking)
        for identity, entry in asking.items():
            [waiting] = entry.list_open(ToolCall(identity, "f"))
            assert waiting.id == "x/2"
            inputs.answer(waiting, identity)
        assert [entry.answers for entry in asking.values()] == [{"2": "x"}, {"": "x/2"}]

    def test_outside_of_a_call_nothing_can_be_asked(self):
        with pytest.raises(RunError, match=r"ask_question\('\?'\): no tool call of an agent is in progress here"):
            ask_question("?")

    def test_a_form_names_what_is_wrong_in_it(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        assert explain_answer(Question("?", schema), {"n": "x"}).startswith(
            "n: 'x' is not of type 'integer'. Expected: "
        )
        assert explain_answer(Question("?", schema), {"n": 1}) == ""
        assert "for example" in explain_answer(Question("?", {"enum": ["a"]}), float("nan"))


REPLIES = {"How many nights?": 2, "Breakfast?": True}


def test_under_the_other_policies_a_call_that_asks_counts_once(world):
    policy = answer_questions(lambda question: REPLIES[question.text])
    history = [user("go")]
    flow = flow_of(ScriptedModel(ROME, DONE), book, limits=Limits(tool_calls=1), history=history)
    given, _ = world.drive(apply_policies(flow, (policy,)))
    assert given.value == "done"
    assert history[2]["content"] == BOOKED


def test_an_agent_asks_its_function_and_the_run_ends_as_ever(world):
    seen: list[object] = []
    model = ScriptedModel(ROME, DONE)
    agent = JsonAgent(book, model=model, on_question=lambda asked: REPLIES[asked.text], listeners=[seen.append])
    assert world.run(agent, "go").calls[0].content == BOOKED
    assert isinstance(seen[-1], RunEnded)
