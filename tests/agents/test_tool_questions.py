"""Questions of tools in an agent: a run that pauses and continues, here or in another process."""

import asyncio
import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import pytest
from asking_tools import RUNS, WRONG_ANSWERS, abook, book, note, pay

from agentkit import JsonAgent, Paused, Question, RunError, Session, ask_question, tool
from agentkit.core.errors import DefinitionError
from agentkit.engine.history import check_history
from agentkit.events import QuestionAnswered, QuestionAsked, RunFinished, SubRun
from agentkit.testing import ScriptedModel, answer, call, calls


@pytest.fixture(autouse=True)
def _nothing_ran():
    RUNS.clear()


ROME = call("book", city="Rome")
DONE = answer("done")


def agent_of(*tools, script=(ROME, DONE), **settings) -> JsonAgent:
    return JsonAgent(*tools, model=ScriptedModel(*script), **settings)


def pause_of(world, agent, query="go", **how) -> Paused:
    with pytest.raises(Paused) as caught:
        world.run(agent, query, **how)
    return caught.value


@pytest.mark.parametrize("function", [book, abook])
class TestWithoutAPersonTheRunPauses:
    def test_and_continues_with_each_answer(self, world, function):
        agent = agent_of(function)
        first = pause_of(world, agent)
        assert [(entry.id, entry.text, entry.schema) for entry in first.questions] == [
            ("call_1_1", "How many nights?", {"type": "integer"})
        ]
        assert first.calls == ()
        assert "answers={'call_1_1': 1}" in str(first)
        second = pause_of(world, agent, None, session=first.session, answers={"call_1_1": 2})
        assert [entry.text for entry in second.questions] == ["Breakfast?"]
        result = world.run(agent, None, session=first.session, answers={second.questions[0].id: True})
        assert [entry.content for entry in result.calls] == ["Rome: 2 nights, breakfast: True", "The answer was given."]
        assert check_history(result.messages) == []
        assert first.session.questions == []
        assert len(agent.model.requests) == 2

    def test_and_continues_from_a_file(self, world, function, tmp_path):
        pause_of(world, agent_of(function)).session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        again = agent_of(function, script=(answer("done"),))
        pause_of(world, again, None, session=session, answers={"call_1_1": 2})
        session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        result = world.run(again, None, session=session, answers={session.questions[0].id: False})
        assert result.calls[0].content == "Rome: 2 nights, breakfast: False"

    def test_and_continues_from_the_journal(self, world, function, tmp_path):
        path = tmp_path / "runs.db"
        first = pause_of(world, agent_of(function, journal=path))
        run_id = first.session.journaled.run
        kept = Session.resumed(run_id, path)
        assert [entry.id for entry in kept.questions] == ["call_1_1"]
        second = pause_of(world, agent_of(function), None, session=kept, answers={"call_1_1": 2})
        kept = Session.resumed(run_id, path)
        result = world.run(
            agent_of(function, script=(answer("done"),)), None, session=kept, answers={second.questions[0].id: True}
        )
        assert result.calls[0].content == "Rome: 2 nights, breakfast: True"
        assert result.steps == 2

    def test_in_a_stream_too(self, world, function):
        agent = agent_of(function)
        session = Session()
        with pytest.raises(Paused):
            world.stream(agent, "go", session=session)
        with pytest.raises(Paused):
            world.stream(agent, None, session=session, answers={"call_1_1": 2})
        events = world.stream(agent, None, session=session, answers={session.questions[0].id: True})
        assert isinstance(events[-1], RunFinished)
        assert [event.answer for event in events if isinstance(event, QuestionAnswered)] == []

    def test_an_agent_inside_hands_its_question_to_the_outer_run(self, world, function, tmp_path):
        inner = agent_of(function, description="Books.")
        outer = agent_of(inner.as_tool("clerk"), script=(call("clerk", query="Rome!"), answer("ok")))
        pause = pause_of(world, outer)
        assert [entry.id for entry in pause.questions] == ["call_1_1/call_1_1"]
        pause.session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        second = pause_of(world, outer, None, session=session, answers={"call_1_1/call_1_1": 4})
        result = world.run(outer, None, session=session, answers={second.questions[0].id: True})
        assert result.answer == "ok"
        assert result.calls[0].content == "done"
        assert "4 nights" in str(inner.model.requests[-1].messages)
        assert (session.inputs.asking, session.inputs.answers) == ({}, {})


class TestOnQuestion:
    def test_a_coroutine_function_answers_and_agents_inside_inherit_it(self, world):
        async def reply(question: Question) -> object:
            await asyncio.sleep(0)
            return 2 if "nights" in question.text else True

        inner = agent_of(book, description="Books.")
        outer = agent_of(inner.as_tool("clerk"), script=(call("clerk", query="?"), answer("ok")), on_question=reply)
        events = world.stream(outer, "go")
        assert events[-1].result.answer == "ok"
        assert sum(isinstance(event, SubRun) and isinstance(event.event, QuestionAsked) for event in events) == 2

    def test_something_else_is_refused(self):
        with pytest.raises(DefinitionError, match=r'on_question must be a function of the question, "ask" or None'):
            agent_of(book, on_question="terminal")


def test_a_state_comes_back_with_the_answers_in_another_process(world, tmp_path):
    script = (call("pay", to="Ada"), answer("done"))
    pause = pause_of(world, agent_of(pay, script=script))
    assert [(entry.id, entry.state) for entry in pause.questions] == [
        ("call_1_1/code", {"t": 1}),
        ("call_1_1/sure", {"t": 1}),
    ]
    pause.session.save(tmp_path / "s.json")
    session = Session.load(tmp_path / "s.json")
    again = agent_of(pay, script=(answer("done"),))
    rest = pause_of(world, again, None, session=session, answers={"call_1_1/code": "12"})
    assert [entry.id for entry in rest.questions] == ["call_1_1/sure"], "what is answered is not asked again"
    assert len(RUNS) == 1, "the call does not run before it has all answers"
    session.save(tmp_path / "s.json")
    result = world.run(again, None, session=Session.load(tmp_path / "s.json"), answers={"call_1_1/sure": True})
    assert json.loads(result.calls[0].content) == [{"code": "12", "sure": True}, {"t": 1}]


@pytest.mark.parametrize(("effect", "told"), [("idempotent", "2 nights"), ("write", "OutcomeUnknown")])
def test_a_run_that_is_stopped_after_an_answer_does_not_ask_again(world, tmp_path, effect, told):
    path = tmp_path / "runs.db"

    @tool(effect=effect)
    def book_once(city: str) -> str:
        """Books."""
        nights = ask_question("How many nights?", int)
        RUNS.append(city)
        if len(RUNS) == 1:
            raise KeyboardInterrupt
        return f"{nights} nights"

    agent = agent_of(book_once, script=(call("book_once", city="Rome"),), journal=path)
    run_id = pause_of(world, agent).session.journaled.run
    answered = Session.resumed(run_id, path)
    with pytest.raises(KeyboardInterrupt):
        world.run(agent_of(book_once), None, session=answered, answers={"call_1_1": 2})
    again = Session.resumed(run_id, path)
    assert again.questions == []
    result = world.run(agent_of(book_once, script=(DONE,)), None, session=again)
    assert told in result.messages[3]["content"]


class Shade(Enum):
    """The values of `auto()` mean nothing, so the question offers the names."""

    RED = auto()
    BLUE = auto()


@dataclass
class Wall:
    shade: Shade


@pytest.mark.parametrize(
    ("wanted", "given", "meant"),
    [
        (Shade, "BLUE", Shade.BLUE),
        (list[Shade], ["RED"], [Shade.RED]),
        (Wall, {"shade": "BLUE"}, Wall(Shade.BLUE)),
    ],
)
def test_an_answer_may_be_what_the_schema_of_its_question_offers(world, wanted, given, meant):
    found: list[Any] = []

    def paint() -> str:
        """Paints the wall."""
        found.append(ask_question("Which?", wanted))
        return "painted"

    result = world.run(agent_of(paint, script=(call("paint"), DONE), on_question=lambda question: given), "go")
    assert (result.calls[0].content, found) == ("painted", [meant])


class TestTheTurn:
    def test_other_calls_of_the_turn_run_once(self, world):
        agent = agent_of(book, note, script=(calls(call("book", city="Rome"), call("note", text="x")), answer("done")))
        first = pause_of(world, agent)
        second = pause_of(world, agent, None, session=first.session, answers={"call_1_1": 2})
        result = world.run(agent, None, session=first.session, answers={second.questions[0].id: True})
        assert RUNS.count("x") == 1
        assert [message["tool_call_id"] for message in result.messages if message["role"] == "tool"][:2] == [
            "call_1_1",
            "call_1_2",
        ]

    def test_a_question_and_an_agent_that_waits_for_approval_pause_together(self, world):
        @tool(effect="danger")
        def delete(path: str) -> str:
            """Deletes."""
            return f"deleted {path}"

        inner = agent_of(delete, description="Deletes.", script=(call("delete", path="x"), answer("gone")))
        script = (calls(call("clerk", query="?"), call("book", city="Rome")), answer("ok"))
        agent = agent_of(inner.as_tool("clerk"), book, script=script, on_question=None)
        pause = pause_of(world, agent)
        assert [entry.id for entry in pause.calls] == ["call_1_1/call_1_1"]
        assert [entry.id for entry in pause.questions] == ["call_1_2"]
        rest = pause_of(
            world, agent, None, session=pause.session, approvals={"call_1_1/call_1_1": True}, answers={"call_1_2": 2}
        )
        assert (rest.calls, [entry.id for entry in rest.questions]) == ((), ["call_1_2/2"])
        assert world.run(agent, None, session=pause.session, answers={"call_1_2/2": True}).answer == "ok"

    def test_a_dangerous_call_that_asks_is_approved_once(self, world):
        risky = tool(effect="danger")(book)
        agent = agent_of(risky)
        pause = pause_of(world, agent)
        asking = pause_of(world, agent, None, session=pause.session, approvals={"call_1_1": True})
        assert asking.questions
        pause_of(world, agent, None, session=pause.session, answers={"call_1_1": 1})
        assert world.run(agent, None, session=pause.session, answers={"call_1_1/2": True}).answer == "done"

    def test_a_new_query_closes_the_call(self, world):
        agent = agent_of(book, script=(ROME, answer("fine")))
        pause = pause_of(world, agent)
        result = world.run(agent, "Never mind", session=pause.session)
        assert result.answer == "fine"
        assert "went on without an answer" in str(result.messages)
        assert pause.session.questions == []

    def test_after_a_hand_off_the_other_agent_continues(self, world):
        other = agent_of(book)
        first = agent_of(note, handoffs={"other": other}, script=(call("transfer_to_other", reason="?"),))
        pause = pause_of(world, first)
        answers = {pause.questions[0].id: 3}
        second = pause_of(world, first, None, session=pause.session, answers=answers)
        result = world.run(first, None, session=pause.session, answers={second.questions[0].id: True})
        assert result.answer == "done"
        assert result.messages[0]["content"].startswith(other.instruction[:20])


class TestWhatCannotBe:
    @pytest.mark.parametrize(("answers", "reason"), WRONG_ANSWERS)
    def test_a_wrong_answer_names_the_form_and_changes_nothing(self, world, answers, reason):
        pause = pause_of(world, agent_of(book))
        with pytest.raises(RunError, match=reason):
            world.run(agent_of(book), None, session=pause.session, answers=answers)
        assert [entry.id for entry in pause.session.questions] == ["call_1_1"]

    def test_answers_come_without_a_query(self, world):
        pause = pause_of(world, agent_of(book))
        with pytest.raises(RunError, match=r"Leave the query out: agent\.run\(answers=\.\.\.\)"):
            world.run(agent_of(book), "go", session=pause.session, answers={"call_1_1": 1})

    @pytest.mark.parametrize("query", [None, "go"])
    @pytest.mark.parametrize("name", ["answers", "approvals"])
    @pytest.mark.parametrize("given", [bool, True, ["call_1_1"]])
    def test_what_is_no_mapping_is_refused_by_its_name(self, world, query, name, given):
        pause = pause_of(world, agent_of(book))
        with pytest.raises(DefinitionError, match=rf"^{name}: expected decisions .*approve=function"):
            world.run(agent_of(book), query, session=pause.session, **{name: given})
