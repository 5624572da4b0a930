"""Calls that wait for a decision: of a function, of the person, or one that was made before."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from files_at_risk import DONE, delete, look
from one_policy import drive_here
from stacked_runs import run_stacked

from agentkit import DefinitionError, JsonAgent, Paused, RunContext, RunError, ToolCall, tool
from agentkit.core.ask_person import Person, PersonAnswer
from agentkit.core.flow import Done, Flow, adrive, ask
from agentkit.core.pending import Pending, Question
from agentkit.events import ApprovalAsked, ApprovalGiven, InputAsked, QuestionAnswered, QuestionAsked, encode_event
from agentkit.policies.approval import approve
from agentkit.policies.pending import PendingInputs
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call import BoundCall, ToolResult
from agentkit.tools.execution.call_tools import CallTools, ToolFinished, ToolStarted
from agentkit.tools.registry import ToolRegistry


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


@tool
def pay(amount: int, run: RunContext) -> str:
    """Pays."""
    DONE.append(f"pay {amount}")
    return f"paid {amount} for call {run.call.id}"


TOOLS = ToolRegistry(delete, look, pay)


def bind(name: str, identity: str = "1", **arguments) -> BoundCall:
    called = ToolCall(identity, name, json.dumps(arguments))
    return TOOLS.bind(called, RunContext(None, call=called))


DELETE = bind("delete", path="a.txt")
TURN = (bind("look", "1", path="l"), bind("delete", "2", path="a"), bind("delete", "3", path="b"))


def turn(*calls: BoundCall, **policy) -> Flow[list[ToolResult]]:
    """One turn under the policy alone."""
    return approve(**policy)(ask(CallTools(calls)))


def pause(world, *calls: BoundCall, **policy) -> Paused:
    with pytest.raises(Paused) as caught:
        world.drive(turn(*calls, **policy))
    assert DONE == [], "a turn runs as a whole"
    return caught.value


def contents(world, *calls: BoundCall, **policy) -> list[str]:
    results, _ = world.drive(turn(*calls, **policy))
    return [result.content for result in results]


class TestDecidingByAFunction:
    @pytest.mark.parametrize(
        ("decision", "content", "done"),
        [
            (True, "deleted a.txt", ["a.txt"]),
            (False, "Denied: this call was not allowed.", []),
            ("not that one", "Denied: not that one", []),
            ("", "Denied: this call was not allowed.", []),
            ({"path": "b.txt", "force": True}, "deleted b.txt by force", ["b.txt"]),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    def test_what_it_returns_is_what_happens(self, world, decision, content, done, is_async):
        seen = []

        def decide(call: ToolCall):
            seen.append(call)
            return decision

        async def adecide(call: ToolCall):
            await asyncio.sleep(0)
            return decide(call)

        assert content in contents(world, DELETE, decide=adecide if is_async else decide)[0]
        assert done == DONE
        assert seen == [DELETE.call]

    def test_the_model_reads_of_other_arguments(self, world):
        (result,), _ = world.drive(turn(DELETE, decide=lambda call: {"path": "b.txt"}))
        assert result.content == '[A person changed the arguments to {"path": "b.txt"}]\ndeleted b.txt'
        assert result.call.arguments == '{"path": "b.txt"}'
        assert json.loads(DELETE.call.arguments) == {"path": "a.txt"}

    def test_a_function_sees_all_calls_but_the_answer_and_those_that_cannot_be_made(self, world):
        seen = []

        def decide(call: ToolCall):
            seen.append(call.name)
            return None if call.name == "look" else call.name == "delete"

        bound = [bind("look", "1", path="a"), bind("delete", "2", path="a"), bind("pay", "3", amount=1)]
        bound += [bind("pay", "4"), bind("nope", "5"), replace(bind("look", "6", path="b"), is_answer=True)]
        told = contents(world, *bound, decide=decide)
        assert seen == ["look", "delete", "pay"]
        assert told[:3] == ["a file", "deleted a", "Denied: this call was not allowed."]
        assert "ValidationError" in told[3]
        assert "no tool" in told[4]

    def test_changed_arguments_keep_what_the_model_does_not_see(self, world):
        paid = contents(world, bind("pay", "p", amount=1000), decide=lambda call: {"amount": 5})
        assert paid[0].endswith("paid 5 for call p")

    def test_none_leaves_a_dangerous_call_waiting_and_allows_any_other(self, world):
        error = pause(world, bind("look", "2", path="a"), DELETE, decide=lambda call: None)
        assert [one.name for one in error.calls] == ["delete"]

    @pytest.mark.parametrize("how", ["returned", "made", "raised"])
    def test_any_call_can_be_made_to_wait(self, world, how):
        def decide(call: ToolCall):
            if call.name == "look":
                return None
            if how == "raised":
                raise Paused("not now")
            return Paused if how == "returned" else Paused("not now")

        error = pause(world, bind("look", path="a"), bind("pay", "2", amount=1), decide=decide)
        assert [one.name for one in error.calls] == ["pay"]

    @pytest.mark.parametrize("said", [1, ["yes"], object()])
    def test_anything_else_is_the_developers_mistake(self, world, said):
        with pytest.raises(DefinitionError, match=r"approve= must return True, False, a reason .*got"):
            world.drive(turn(DELETE, decide=lambda call: said))
        assert DONE == []

    @pytest.mark.parametrize("said", ["yes", "y", "Yes, please!", "OK", " allow ", "true", PersonAnswer("yes")])
    def test_a_yes_as_text_would_refuse_the_call_and_is_the_developers_mistake(self, world, said):
        with pytest.raises(DefinitionError, match=r"approve= returned .*Give True to allow it"):
            world.drive(turn(DELETE, decide=lambda call: said))
        with pytest.raises(DefinitionError, match=r"answers\['1'\] is .*Give True to allow it"):
            PendingInputs().accept({"1": said}, [], [DELETE.call])
        assert DONE == []

    def test_a_reason_that_begins_with_yes_is_a_reason(self, world):
        assert "Denied: yes, but not now" in contents(world, DELETE, decide=lambda call: "yes, but not now")[0]

    def test_what_it_raises_is_raised_and_nothing_runs(self, world):
        def decide(call: ToolCall):
            raise LookupError("no such rule")

        with pytest.raises(LookupError, match="no such rule"):
            world.drive(turn(DELETE, decide=decide))
        assert DONE == []

    def test_a_function_that_blocks_does_not_block_the_event_loop(self):
        go_on = threading.Event()

        async def run_turn() -> object:
            return [event async for event in adrive(turn(DELETE, decide=lambda call: go_on.wait(60)))][-1]

        async def main():
            running = asyncio.create_task(run_turn())
            await asyncio.sleep(0.05)
            go_on.set()
            return await running

        done = asyncio.run(main())
        assert isinstance(done, Done)
        assert [result.content for result in done.value] == ["deleted a.txt"]

    def test_events_tell_what_was_asked_and_decided(self, world):
        calls = bind("look", "l", path="a"), bind("delete", "d", path="a")
        _, events = world.drive(turn(*calls, decide=lambda call: "no" if call.name == "delete" else True))
        wanted = ToolCall("d", "delete", '{"path": "a"}')
        entry = Pending.decision(wanted, "its tool is declared as dangerous")
        told = [ApprovalAsked(entry), ApprovalGiven(entry, "no")]
        assert events[:2] == told
        assert any(isinstance(event, ToolStarted) for event in events[2:])
        _, events = world.drive(turn(DELETE, decide=lambda call: True))
        assert [type(event) for event in events] == [ApprovalAsked, ApprovalGiven, ToolStarted, ToolFinished]

    def test_one_pair_of_events_is_about_decisions_and_answers(self):
        call = ToolCall("c", "send", "{}")
        decision = ApprovalAsked(Pending.decision(call, "why"))
        question = QuestionAsked(Pending.answer(call, Question("When?")))
        assert isinstance(decision, InputAsked)
        assert isinstance(question, InputAsked)
        assert (decision.call, decision.reason, question.question.text) == (call, "why", "When?")
        assert (decision.level, question.level) == ("WARNING", "INFO")
        match ApprovalGiven(decision.pending, {"to": "me"}):
            case ApprovalGiven(given, {"to": "me"}):
                assert given is call
        plain = {"id": "c", "name": "send", "arguments": "{}"}
        assert encode_event(QuestionAnswered(question.pending, 3)) == {
            "event": "QuestionAnswered",
            "call": plain,
            "question": {
                "text": "When?",
                "schema": {"type": "string"},
                "id": "c",
                "state": None,
                "is_for_person": True,
            },
            "answer": 3,
            "notice": "send: answered",
        }
        assert [*encode_event(decision)] == ["event", "call", "reason", "untrusted", "allowable", "notice"]

    def test_a_call_with_a_reason_for_approval_waits(self, world):
        pause(world, replace(bind("look", path="a"), needs_approval="it came from a web page"))


class TestDecisionsThatWereMadeBefore:
    """A turn that paused comes again, with the decisions that are stored meanwhile."""

    def accept(self, world, given, calls=TURN, **policy) -> PendingInputs:
        """Let the turn pause, and store these decisions."""
        inputs = PendingInputs()
        pause(world, *calls, inputs=inputs, **policy)
        inputs.accept(given, [], [bound.call for bound in calls])
        return inputs

    def test_the_error_names_the_calls_and_how_to_continue(self, world):
        inputs = PendingInputs()
        error = pause(world, *TURN, inputs=inputs)
        assert [one.id for one in error.calls] == ["2", "3"] == list(inputs.held)
        assert "agent.run(session=error.session, answers={'2': True})" in str(error)
        assert "delete(" in str(error)

    def test_each_call_is_treated_as_decided(self, world):
        inputs = self.accept(world, {"2": True, "3": "keep it"})
        assert contents(world, *TURN, inputs=inputs) == ["a file", "deleted a", "Denied: keep it"]
        assert DONE == ["look l", "a"]
        assert (inputs.decisions, inputs.held) == ({}, {})

    def test_what_is_not_decided_waits_on_and_what_is_decided_is_kept(self, world):
        inputs = self.accept(world, {"2": {"path": "c"}})
        assert [one.id for one in pause(world, *TURN, inputs=inputs).calls] == ["3"]
        inputs.accept({"3": False}, [], [TURN[2].call])
        contents(world, *TURN, inputs=inputs)
        assert DONE == ["look l", "c"]

    def test_a_decision_holds_for_the_call_that_waited(self, world):
        inputs = self.accept(world, {"1": True}, [DELETE])
        other = bind("delete", path="/")
        assert pause(world, other, inputs=inputs).calls == (other.call,)
        inputs.accept({other.call: True}, [], [other.call])
        contents(world, other, inputs=inputs)
        assert DONE == ["/"]

    def test_the_layout_of_the_arguments_does_not_matter(self, world):
        inputs = self.accept(world, {"1": True}, [DELETE])
        contents(world, TOOLS.bind(ToolCall("1", "delete", '{ "path":"a.txt" }')), inputs=inputs)
        assert DONE == ["a.txt"]

    def test_new_arguments_hold_for_the_same_tool_only(self, world):
        inputs = self.accept(world, {"1": {"path": "b"}}, [DELETE])
        pause(world, replace(DELETE, call=replace(DELETE.call, name="wipe")), inputs=inputs)

    def test_new_arguments_hold_whatever_the_model_wrote(self, world):
        inputs = self.accept(world, {"1": {"path": "b"}}, [DELETE])
        contents(world, bind("delete", path="/"), inputs=inputs)
        assert DONE == ["b"]

    def test_a_call_of_that_id_must_wait(self, world):
        with pytest.raises(RunError, match=r"nothing waits with the id 'two'\. Waiting: '1', '2', '3'"):
            self.accept(world, {"two": True})

    def test_invalid_arguments_leave_the_call_waiting_with_a_reason(self, world):
        inputs = self.accept(world, {"2": {"file": "c"}, "3": True})
        error = pause(world, *TURN, inputs=inputs)
        assert "The arguments given for '2' are not valid" in str(error)
        assert "path" in str(error)
        assert [one.id for one in error.calls] == ["2"]
        inputs.accept({"2": {"path": "c"}}, [], [TURN[1].call])
        contents(world, *TURN, inputs=inputs)
        assert DONE == ["look l", "c", "b"]

    def test_a_decider_who_was_asked_is_not_asked_again(self, world):
        asked = []

        def decide(call: ToolCall):
            asked.append(call.name)
            return True if call.name == "look" else None

        inputs = self.accept(world, {"2": True, "3": True}, decide=decide)
        contents(world, *TURN, inputs=inputs, decide=decide)
        assert asked == ["look", "delete", "delete"]

    def test_what_cannot_be_shown_does_no_harm_in_the_message(self, world):
        error = pause(world, bind("delete", path="\x1b[2J\u202e" + "x" * 5000))
        assert "\x1b" not in str(error)
        assert "\u202e" not in str(error)
        assert len(str(error)) < 1000

    def test_the_message_masks_the_arguments_that_it_shows(self, world, monkeypatch):
        monkeypatch.setenv("APP_PASSWORD", "correct horse battery staple")
        error = pause(world, bind("delete", path="correct horse battery staple"))
        assert "delete(" in str(error)
        assert "***" in str(error)
        assert "horse" not in str(error)
        assert "horse" in error.calls[0].arguments, "the call itself is data"


class Entries:
    """What a person enters, before they leave (None: for a while), and what they were shown."""

    def __init__(self, *entries: str | None) -> None:
        self.rest = iter(entries)
        self.prompts = []

    def __call__(self, prompt: str = "") -> str:
        self.prompts.append(prompt)
        if (entry := next(self.rest, None)) is None:
            raise EOFError
        return entry


class TestAskingThePerson:
    FOUR = (TURN[1], TURN[0], TURN[2], bind("delete", "4", path="c"))

    def test_arguments_that_were_corrected_are_not_complained_about(self, world):
        person = Entries("1 {}", "y", '{"path": "b"}')
        contents(world, bind("delete", "1", path="a"), bind("delete", "2", path="c"), decide=Person(person))
        assert DONE == ["b", "c"]
        assert ["path: missing" in text for text in person.prompts] == [False, False, True]

    def test_the_error_complains_about_calls_that_still_wait_only(self, world):
        person = Entries("1 {}", None, '1 {"path": "b"}', None)
        error = pause(world, TURN[1], TURN[2], decide=Person(person))
        assert ["path: missing" in text for text in person.prompts] == [False, False, True, False, False]
        assert [one.id for one in error.calls] == ["3"]
        assert "not valid" not in str(error)

    @pytest.mark.parametrize(
        ("entries", "done", "questions"),
        [
            (["y"], ["a", "look l", "b", "c"], [3]),
            (["n"], ["look l"], [3]),
            (["not today"], ["look l"], [3]),
            (["1 3 y", "n"], ["a", "look l", "c"], [3, 1]),
            (["2,3 n", "y"], ["a", "look l"], [3, 1]),
            (["2 too much", "y"], ["a", "look l", "c"], [3, 2]),
            (['3 {"path": "z"}', "y"], ["a", "look l", "b", "z"], [3, 2]),
            (["4 y", "{}", "x", "y"], ["a", "look l", "b", "c"], [3, 3, 3, 3]),
        ],
    )
    def test_one_question_for_all_calls_of_a_turn(self, world, entries, done, questions):
        person = Entries(*entries)
        contents(world, *self.FOUR, decide=Person(person))
        assert done == DONE
        assert [text.count("wants to call delete") for text in person.prompts] == questions
        assert "1. The agent wants to call delete" in person.prompts[0]
        assert "It waits: its tool is declared as dangerous" in person.prompts[0]
        assert " v " not in person.prompts[0]

    def test_who_leaves_in_the_middle_leaves_the_rest_waiting(self, world):
        error = pause(world, *self.FOUR, decide=Person(Entries("1 y")))
        assert [json.loads(one.arguments)["path"] for one in error.calls] == ["b", "c"]

    @pytest.mark.parametrize(
        ("said", "content"),
        [
            (["y"], "deleted a.txt"),
            ([" YES "], "deleted a.txt"),
            (["n"], "Denied: this call was not allowed."),
            (["it is needed"], "Denied: it is needed"),
            (["", "y"], "deleted a.txt"),
            (['{"path": "b.txt"}'], "deleted b.txt"),
            (['{"path": ', "n"], "Denied"),
            (['{"file": "b.txt"}', '{"path": "c.txt"}'], "deleted c.txt"),
        ],
    )
    def test_what_the_person_writes(self, world, said, content):
        person = Entries(*said)
        assert content in contents(world, DELETE, decide=Person(person))[0]
        assert len(person.prompts) == len(said)
        assert "wants to call delete" in person.prompts[0]
        assert 'path: "a.txt"' in person.prompts[0]
        if "file" in said[0]:
            assert "file" in person.prompts[1].partition("Allow it?")[0].partition("a.txt")[2]

    def test_only_about_calls_that_need_it(self, world):
        person = Entries("y")
        calls = bind("look", "1", path="a"), bind("pay", "2", amount=1), bind("delete", "3", path="a")
        assert len(contents(world, *calls, decide=Person(person))) == 3
        assert len(person.prompts) == 1

    @pytest.mark.parametrize("error", [EOFError, OSError, RuntimeError("input(): lost sys.stdin"), NotImplementedError])
    def test_without_a_person_to_ask_the_call_waits(self, world, error):
        def read(prompt: str = "") -> str:
            raise error

        pause(world, DELETE, decide=Person(read))

    def test_an_interrupt_at_the_prompt_is_raised(self):
        def read(prompt: str = "") -> str:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            drive_here(turn(bind("look", "2", path="a"), DELETE, decide=Person(read)))
        assert DONE == []


class TestRunsInsideOfTools:
    @pytest.mark.parametrize("kind", ["plain", "async"])
    @pytest.mark.parametrize("own", [None, lambda call: True])
    def test_inherit_the_approver_or_have_one_of_their_own(self, world, kind, own):
        asked = []

        def decide(call: ToolCall):
            asked.append(call.name)
            return "no" if call.name == "delete" else None

        def run_inner() -> str:
            """Runs another flow."""
            return drive_here(turn(DELETE, decide=own))[0].content

        async def run_inner_too() -> str:
            """Runs another flow, inside a coroutine."""
            return run_inner()

        function = run_inner if kind == "plain" else run_inner_too
        bound = ToolRegistry(function).bind(ToolCall("1", function.__name__))
        assert contents(world, bound, decide=decide) == ["deleted a.txt" if own else "Denied: no"]
        assert asked == [function.__name__] + ["delete"] * (not own)
        assert ["a.txt"] * bool(own) == DONE


def test_under_the_other_policies_a_refused_call_is_answered_and_the_run_continues(world):
    model = ScriptedModel(call("delete", path="a.txt"), answer("done"))
    ran = run_stacked(world, model, delete, inner=(approve(lambda call: "not that one"),))
    assert ran.answer == "done"
    assert ran.history[2]["content"] == "Denied: not that one"
    assert DONE == []


def test_an_agent_that_asks_runs_what_the_person_allows(world, monkeypatch):
    person = Entries("y")
    monkeypatch.setattr("builtins.input", person)
    model = ScriptedModel(call("delete", path="a.txt"), answer("done"))
    assert world.run(JsonAgent(delete, model=model, approve="ask"), "go").answer == "done"
    assert DONE == ["a.txt"]
    assert len(person.prompts) == 1
