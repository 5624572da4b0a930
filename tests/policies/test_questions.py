"""Questions of tools: asked at once, or by a pause that goes on with the answer, here or in another process."""

import asyncio
import json

import pytest

from agentkit import (
    InputRequired,
    JsonAgent,
    Limits,
    Paused,
    Question,
    RunContext,
    RunError,
    Session,
    ask_question,
    tool,
)
from agentkit.core.ask_person import Person
from agentkit.core.errors import DefinitionError
from agentkit.engine.history import check_history
from agentkit.events import QuestionAnswered, QuestionAsked, RunEnded, RunFinished, SubRun, ToolFinished, ToolStarted
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.questions import explain_answer

RUNS: list[object] = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RUNS.clear()


def book(city: str) -> str:
    """Books a room."""
    RUNS.append(city)
    nights = ask_question("How many nights?", int)
    return f"{city}: {nights} nights, breakfast: {ask_question('Breakfast?', bool)}"


async def abook(city: str) -> str:
    """Books a room."""
    await asyncio.sleep(0)
    return book(city)


abook.__name__ = "book"


def note(text: str) -> str:
    """Notes."""
    RUNS.append(text)
    return f"noted {text}"


def pay(to: str, run: RunContext) -> str:
    """Pays."""
    RUNS.append(run.answered)
    if run.answered is None:
        raise InputRequired(
            Question("Code?", id="code"), Question("Sure?", {"type": "boolean"}, "sure"), state={"t": 1}
        )
    return json.dumps([dict(run.answered.values), run.answered.state])


def calls(*entries):
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in entries]}


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
    def test_and_goes_on_with_each_answer(self, world, function):
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

    def test_and_goes_on_from_a_file(self, world, function, tmp_path):
        pause_of(world, agent_of(function)).session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        again = agent_of(function, script=(answer("done"),))
        pause_of(world, again, None, session=session, answers={"call_1_1": 2})
        session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        result = world.run(again, None, session=session, answers={session.questions[0].id: False})
        assert result.calls[0].content == "Rome: 2 nights, breakfast: False"

    def test_and_goes_on_from_the_journal(self, world, function, tmp_path):
        path = tmp_path / "runs.db"
        first = pause_of(world, agent_of(function, journal=path))
        run_id = first.session.journaled.run
        kept = Session.resumed(run_id, path)
        assert [entry.id for entry in kept.questions] == ["call_1_1"]
        second = pause_of(world, agent_of(function), None, session=kept, answers={"call_1_1": 2})
        kept = Session.resumed(run_id, path)
        result = world.run(agent_of(function, script=(answer("done"),)), None, session=kept, answers={second.questions[0].id: True})  # fmt: skip
        assert result.calls[0].content == "Rome: 2 nights, breakfast: True"
        assert result.steps == 2

    def test_in_a_stream_too(self, world, function):
        agent, session = agent_of(function), Session()
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
        assert session.asked.as_dict() == {}


class TestOnQuestion:
    def test_a_function_answers_at_once(self, world):
        asked: list[Question] = []

        def reply(question: Question) -> object:
            asked.append(question)
            return 2 if "nights" in question.text else True

        seen: list[object] = []
        agent = agent_of(book, on_question=reply, listeners=[seen.append])
        assert world.run(agent, "go").calls[0].content == "Rome: 2 nights, breakfast: True"
        assert [question.text for question in asked] == ["How many nights?", "Breakfast?"]
        kinds = (QuestionAsked, QuestionAnswered)
        assert [type(event) for event in seen if isinstance(event, kinds)] == [*kinds, *kinds]
        assert [event.answer for event in seen if isinstance(event, QuestionAnswered)] == [2, True]
        starts, ends = ([event for event in seen if isinstance(event, kind)] for kind in (ToolStarted, ToolFinished))
        assert len(starts) == len(ends) == 4, "each start has an end, also of a call that asks"
        assert isinstance(seen[-1], RunEnded)

    def test_a_coroutine_function_answers_and_agents_inside_inherit_it(self, world):
        async def reply(question: Question) -> object:
            await asyncio.sleep(0)
            return 2 if "nights" in question.text else True

        inner = agent_of(book, description="Books.")
        outer = agent_of(inner.as_tool("clerk"), script=(call("clerk", query="?"), answer("ok")), on_question=reply)
        events = world.stream(outer, "go")
        assert events[-1].result.answer == "ok"
        assert sum(isinstance(event, SubRun) and isinstance(event.event, QuestionAsked) for event in events) == 2

    @pytest.mark.parametrize("nothing", [None, Paused, Paused("later")])
    def test_a_function_may_let_the_run_pause(self, world, nothing):
        assert pause_of(world, agent_of(book, on_question=lambda _: nothing)).questions

    def test_a_function_may_raise_paused(self, world):
        def refuse(_):
            raise Paused

        assert pause_of(world, agent_of(book, on_question=refuse)).questions

    def test_a_wrong_answer_of_a_function_is_an_error_with_the_form(self, world):
        with pytest.raises(RunError, match=r"on_question= returned no valid answer to 'How many.*Expected: .*integer"):
            world.run(agent_of(book, on_question=lambda _: "two"), "go")

    def test_something_else_is_refused(self):
        with pytest.raises(DefinitionError, match=r'on_question must be a function of the question, "ask" or None'):
            agent_of(book, on_question="terminal")

    def test_a_person_is_asked_again_until_the_answer_fits(self, world):
        shown: list[str] = []
        entries = iter(["two", "2", "perhaps", "y"])

        def read(prompt: str) -> str:
            shown.append(prompt)
            return next(entries)

        assert world.run(agent_of(book, on_question=Person(read)), "go").calls[0].content == "Rome: 2 nights, breakfast: True"  # fmt: skip
        assert len(shown) == 4
        assert "'two' is not of type 'integer'" in shown[1]

    def test_without_a_terminal_the_run_pauses(self, world):
        def read(_: str) -> str:
            raise EOFError

        assert pause_of(world, agent_of(book, on_question=Person(read))).questions


class TestState:
    def test_comes_back_with_the_answers_in_another_process(self, world, tmp_path):
        script = (call("pay", to="Ada"), answer("done"))
        pause = pause_of(world, agent_of(pay, script=script))
        assert [(entry.id, entry.state) for entry in pause.questions] == [("call_1_1/code", {"t": 1}), ("call_1_1/sure", {"t": 1})]  # fmt: skip
        pause.session.save(tmp_path / "s.json")
        session, again = Session.load(tmp_path / "s.json"), agent_of(pay, script=(answer("done"),))
        rest = pause_of(world, again, None, session=session, answers={"call_1_1/code": "12"})
        assert [entry.id for entry in rest.questions] == ["call_1_1/sure"], "what is answered is not asked again"
        assert len(RUNS) == 1, "the call does not run before it has all answers"
        session.save(tmp_path / "s.json")
        result = world.run(again, None, session=Session.load(tmp_path / "s.json"), answers={"call_1_1/sure": True})
        assert json.loads(result.calls[0].content) == [{"code": "12", "sure": True}, {"t": 1}]

    def test_must_be_json_and_ids_must_differ(self):
        with pytest.raises(ValueError, match="state must be JSON data"):
            InputRequired(Question("?"), state=object())
        with pytest.raises(ValueError, match="ids of their own"):
            InputRequired(Question("?"), Question("!"))
        with pytest.raises(ValueError, match="ids of their own"):
            InputRequired()


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


class TestTheTurn:
    def test_other_calls_of_the_turn_run_once(self, world):
        agent = agent_of(
            book, note, script=(calls(("book", {"city": "Rome"}), ("note", {"text": "x"})), answer("done"))
        )
        first = pause_of(world, agent)
        second = pause_of(world, agent, None, session=first.session, answers={"call_1_1": 2})
        result = world.run(agent, None, session=first.session, answers={second.questions[0].id: True})
        assert RUNS.count("x") == 1
        assert [message["tool_call_id"] for message in result.messages if message["role"] == "tool"][:2] == ["call_1_1", "call_1_2"]  # fmt: skip

    def test_several_questions_pause_together_and_may_be_answered_one_by_one(self, world):
        agent = agent_of(book, script=(calls(("book", {"city": "Rome"}), ("book", {"city": "Oslo"})), answer("done")))
        pause = pause_of(world, agent)
        assert [entry.id for entry in pause.questions] == ["call_1_1", "call_1_2"]
        rest = pause_of(world, agent, None, session=pause.session, answers={"call_1_2": 5})
        assert [entry.id for entry in rest.questions] == ["call_1_1", "call_1_2/2"]
        assert sorted(RUNS) == ["Oslo", "Oslo", "Rome"]

    def test_a_question_and_an_agent_that_waits_for_approval_pause_together(self, world):
        @tool(effect="danger")
        def delete(path: str) -> str:
            """Deletes."""
            return f"deleted {path}"

        inner = agent_of(delete, description="Deletes.", script=(call("delete", path="x"), answer("gone")))
        script = (calls(("clerk", {"query": "?"}), ("book", {"city": "Rome"})), answer("ok"))
        agent = agent_of(inner.as_tool("clerk"), book, script=script, on_question=None)
        pause = pause_of(world, agent)
        assert [entry.id for entry in pause.calls] == ["call_1_1/call_1_1"]
        assert [entry.id for entry in pause.questions] == ["call_1_2"]
        rest = pause_of(world, agent, None, session=pause.session, approvals={"call_1_1/call_1_1": True}, answers={"call_1_2": 2})  # fmt: skip
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

    def test_a_call_that_asks_counts_once(self, world):
        replies = {"How many nights?": 1, "Breakfast?": True}
        agent = agent_of(book, on_question=lambda question: replies[question.text], limits=Limits(tool_calls=1))
        assert world.run(agent, "go").calls[0].content == "Rome: 1 nights, breakfast: True"

    def test_a_failed_call_is_tried_again_with_the_same_answers(self, world):
        @tool(effect="idempotent", retries=1)
        def book_twice(city: str) -> str:
            """Books."""
            nights = ask_question("How many nights?", int)
            RUNS.append(nights)
            if len(RUNS) == 1:
                raise ValueError("no line")
            return str(nights)

        agent = agent_of(book_twice, script=(call("book_twice", city="x"), answer("done")), on_question=lambda _: 7)
        assert world.run(agent, "go").calls[0].content == "7"
        assert RUNS == [7, 7]

    def test_the_same_text_asked_twice_has_two_answers(self, world):
        def guests() -> list[str]:
            """Asks for guests."""
            return [ask_question("Who?"), ask_question("Who?")]

        names = iter(["Ada", "Bob"])
        agent = agent_of(guests, script=(call("guests"), answer("done")), on_question=lambda _: next(names))
        assert world.run(agent, "go").calls[0].value == ["Ada", "Bob"]

    def test_a_new_query_closes_the_call(self, world):
        agent = agent_of(book, script=(ROME, answer("fine")))
        pause = pause_of(world, agent)
        result = world.run(agent, "Never mind", session=pause.session)
        assert result.answer == "fine"
        assert "went on without an answer" in str(result.messages)
        assert pause.session.questions == []

    def test_after_a_hand_off_the_other_agent_goes_on(self, world):
        other = agent_of(book)
        first = agent_of(note, handoffs={"other": other}, script=(call("transfer_to_other", reason="?"),))
        pause = pause_of(world, first)
        answers = {pause.questions[0].id: 3}
        second = pause_of(world, first, None, session=pause.session, answers=answers)
        result = world.run(first, None, session=pause.session, answers={second.questions[0].id: True})
        assert result.answer == "done"
        assert result.messages[0]["content"].startswith(other.instruction[:20])


class TestWhatCannotBe:
    @pytest.mark.parametrize(
        ("answers", "reason"),
        [
            ({"call_9": 1}, r"answers: no open question has the id 'call_9'\. Open: 'call_1_1'\."),
            ({"call_1_1": "two"}, r"answers\['call_1_1'\]: 'two' is not of type 'integer'\. Expected: .*for example 1"),
            (
                {"call_1_1": object()},
                r"answers\['call_1_1'\]: Object of type object is not JSON serializable\. Expected",
            ),
        ],
    )
    def test_a_wrong_answer_names_the_form_and_changes_nothing(self, world, answers, reason):
        pause = pause_of(world, agent_of(book))
        with pytest.raises(RunError, match=reason):
            world.run(agent_of(book), None, session=pause.session, answers=answers)
        assert [entry.id for entry in pause.session.questions] == ["call_1_1"]

    def test_answers_come_without_a_query(self, world):
        pause = pause_of(world, agent_of(book))
        with pytest.raises(RunError, match=r"Leave the query out: agent\.run\(answers=\.\.\.\)"):
            world.run(agent_of(book), "go", session=pause.session, answers={"call_1_1": 1})

    def test_a_schema_that_no_answer_can_be_checked_by_is_an_error_for_the_model(self, world):
        def odd(kind: str) -> str:
            """Asks."""
            return ask_question("?", {"type": kind} if kind == "x" else {"$ref": "https://example.com/s.json"})

        script = (calls(("odd", {"kind": "x"}), ("odd", {"kind": "y"})), answer("done"))
        found = sorted(entry.content for entry in world.run(agent_of(odd, script=script), "go").calls[:2])
        assert found[0].startswith("InvalidQuestion: the schema of the question '?' is not valid")
        assert "only references within it" in found[1]

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
