"""A run that does not get on is told so, loses the tools in question, and lands."""

import itertools
import re

import pytest
from stacked_runs import Endless, call, final, run

from agentkit import LimitExceeded, ModelError, NoAnswer, ToolError
from agentkit.core.messages import ToolCall, assistant, pending_calls, text_of, user
from agentkit.policies.final_request import FinalRequest
from agentkit.policies.loop_detection import COMPARED_TURNS, END_AFTER_TURNS, NOTE_AFTER_TURNS, WITHDRAW_AFTER_TURNS
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import ToolFinished

DONE = final("so far")


def look(place: str = "here") -> str:
    """Looks."""
    return f"nothing {place}"


def feel() -> str:
    """Feels."""
    return "warm"


def fail(place: str = "") -> str:
    """Fails."""
    raise LookupError("out of order")


def both(*names: str):
    return {"tool_calls": [{"name": name, "arguments": {}} for name in names]}


def contents(ran):
    return [text_of(message) for message in ran.history if message["role"] == "tool"]


ENDLESS = {
    "the same call": [call("look")],
    "the same call, written differently": [
        {"tool_calls": [{"name": "look", "arguments": '{"place":' + ' ' * number + '"x"}'}]} for number in range(9)
    ],
    "two by turns": [call("look"), call("feel")],
    "three by turns": [call("look"), call("feel"), call("look", place="there")],
    "the same turn of two calls": [both("look", "feel")],
    "the same error": [call("fail", place=str(number)) for number in range(9)],
    "an unknown tool": [call("fly")],
    "unknown tools": [call(f"fly_{number}") for number in range(9)],
    "wrong arguments": [call("look", place=[number]) for number in range(9)],
    "broken arguments": [{"tool_calls": [{"name": "look", "arguments": "{]"}]}],
    "wrong answers": [call("final_answer", tixt="x")],
}  # fmt: skip


class TestCauses:
    """The error that ends a run names the failure that led to it."""

    def message(self, world, *replies, tools=(look, fail), **settings):
        with pytest.raises((LimitExceeded, NoAnswer)) as caught:
            run(world, Endless(*replies), *tools, **settings)
        return str(caught.value)

    def test_a_tool_that_always_fails(self, world):
        assert self.message(world, call("fail")).endswith("Last error: fail: LookupError: out of order")

    def test_arguments_that_are_never_valid(self, world):
        assert re.search(
            r"Last error: look: ValidationError: place: input should be", self.message(world, call("look", place=[1]))
        )

    def test_an_answer_that_is_never_valid(self, world):
        message = self.message(world, call("final_answer", answer="x"), answer=int, max_steps=2)
        assert re.match("no final answer after 2 steps.* Last error: final_answer: ValidationError: answer: ", message)

    def test_texts_after_a_failure(self, world):
        model = Endless("Hm.")
        history = [user("go"), assistant(calls=[ToolCall("c1", "fail", "{}")])]
        with pytest.raises(NoAnswer, match="Last error: fail: LookupError: out of order"):
            run(world, model, fail, history=history, answer=int)

    def test_a_text_that_is_no_valid_answer(self, world):
        assert self.message(world, "Hm.", answer=int).endswith("final_answer: the reply is a text without the answer")
        wrong = self.message(world, '{"answer": "x"}', answer=int)
        assert re.search("Last error: final_answer: ValidationError: answer: ", wrong)

    def test_a_final_request_that_fails(self, world):
        def down(request):
            raise ModelError("the server is down", kind="server")

        with pytest.raises(LimitExceeded, match="Last error: the final request: the server is down"):
            run(world, ScriptedModel(call("look"), down), look, max_steps=1)

    def test_what_a_later_turn_does_well_is_forgotten(self, world):
        replies = (call("fail"), call("look", place="a"), call("look", place="b"))
        assert "Last error" not in self.message(world, *replies, max_steps=3, answer=int).partition("final_answer")[0]

    def test_the_event_of_the_final_request_names_it_too(self, world):
        ran = run(world, Endless(call("fail"), last=DONE), fail)
        event = next(event for event in ran.events if isinstance(event, FinalRequest))
        assert event.notice.endswith("asking for the final answer; last error: fail: LookupError: out of order")

    def test_it_is_short_and_masked(self, world):
        def leak() -> str:
            """Leaks."""
            raise LookupError("sk-" + "a1B2" * 12 + "\n" + "long " * 200)

        message = self.message(world, call("leak"), tools=(leak,))
        assert "a1B2" not in message
        assert len(message) < 500
        assert "\n" not in message


class TestEndlessModels:
    @pytest.mark.parametrize("replies", ENDLESS.values(), ids=ENDLESS)
    def test_they_land_with_an_answer_in_a_handful_of_requests(self, world, replies):
        model = Endless(*replies, last=DONE)
        ran = run(world, model, look, feel, fail)
        assert (ran.answer, ran.stopped) == ("so far", "stuck")
        assert model.asked <= END_AFTER_TURNS + 4
        assert list(ran.requests[-1].tools) == ["final_answer"]

    @pytest.mark.parametrize("replies", ENDLESS.values(), ids=ENDLESS)
    def test_without_an_answer_they_end_typed_and_the_history_is_valid(self, world, replies):
        history = [user("go")]
        model = Endless(*replies)
        with pytest.raises(LimitExceeded, match="stuck") as caught:
            run(world, model, look, feel, fail, history=history)
        assert caught.value.reason == "stuck"
        assert model.asked <= END_AFTER_TURNS + 4
        assert pending_calls(history) == []

    def test_text_instead_of_calls_lands_when_a_text_is_no_answer(self, world):
        ran = run(world, Endless("It is 7.", last=call("final_answer", answer=7)), look, answer=int)
        assert (ran.answer, ran.stopped) == (7, "stuck")
        assert len(ran.requests) == END_AFTER_TURNS + 1

    def test_text_for_ever_is_no_answer_and_what_was_said_is_kept(self, world):
        with pytest.raises(NoAnswer, match="endless neither calls") as caught:
            run(world, Endless("It is 7."), look, answer=int)
        assert caught.value.partial == "It is 7."

    def test_text_and_useless_calls_by_turns(self, world):
        model = Endless("Hm.", call("look"), last=call("final_answer", answer=7))
        assert run(world, model, look, answer=int).stopped == "stuck"
        assert model.asked <= END_AFTER_TURNS + 3

    def test_broken_arguments_never_run_the_tool(self, world):
        ran = []

        def count(number: int) -> int:
            """Counts."""
            ran.append(number)
            return number

        with pytest.raises(LimitExceeded):
            run(world, Endless({"tool_calls": [{"name": "count", "arguments": "{number: "}]}), count)
        assert ran == []


class TestWhatTheModelIsTold:
    def test_nothing_then_a_note_then_the_tool_is_withdrawn_then_landing(self, world):
        ran = run(world, Endless(call("look"), last=DONE), look, feel)
        told = contents(ran)
        assert told[:NOTE_AFTER_TURNS] == ["nothing here"] * NOTE_AFTER_TURNS
        assert told[NOTE_AFTER_TURNS].startswith(f"nothing here\n[Turn {NOTE_AFTER_TURNS} in a row that only repeats")
        assert "Withdrawn for the rest of this run: look." in told[WITHDRAW_AFTER_TURNS]
        assert told[WITHDRAW_AFTER_TURNS + 1].startswith("Not run: look is withdrawn")
        assert set(ran.requests[WITHDRAW_AFTER_TURNS].tools) == {"final_answer", "look", "feel"}
        assert set(ran.requests[WITHDRAW_AFTER_TURNS + 1].tools) == {"final_answer", "feel"}

    def test_values_and_events_stay_as_they_are(self, world):
        ran = run(world, Endless(call("look"), last=DONE), look)
        results = [event.result for event in ran.events if isinstance(event, ToolFinished)]
        assert {result.value for result in results[:WITHDRAW_AFTER_TURNS]} == {"nothing here"}
        assert {result.content for result in results[:WITHDRAW_AFTER_TURNS]} == {"nothing here"}

    def test_a_withdrawn_tool_does_not_run_though_the_model_calls_it(self, world):
        ran = []

        def once() -> str:
            """Works once."""
            ran.append(1)
            return "same"

        script = [*[call("once")] * (WITHDRAW_AFTER_TURNS + 1), call("look"), call("once"), DONE]
        assert run(world, ScriptedModel(script), once, look).answer == "so far"
        assert len(ran) == WITHDRAW_AFTER_TURNS + 1

    def test_the_answer_is_never_withdrawn(self, world):
        bad = call("final_answer", tixt="x")
        ran = run(world, ScriptedModel([bad] * (END_AFTER_TURNS - 1) + [DONE]), look)
        assert (ran.answer, ran.stopped) == ("so far", "answer")
        assert "Withdrawn" not in "".join(contents(ran))


class TestWhatIsNotStuck:
    def check(self, world, script, *tools):
        ran = run(world, ScriptedModel([*script, DONE]), *tools)
        assert (ran.answer, ran.stopped) == ("so far", "answer")
        assert "in a row" not in "".join(contents(ran))

    def test_polling_while_the_result_changes(self, world):
        numbers = itertools.count()

        def poll() -> str:
            """Polls."""
            return f"{next(numbers)} %"

        self.check(world, [call("poll")] * 30, poll)

    def test_other_arguments_with_other_results(self, world):
        self.check(world, [call("look", place=str(number)) for number in range(30)], look)

    def test_other_arguments_with_the_same_result(self, world):
        def press(key: str) -> str:
            """Presses a key."""
            return "ok"

        self.check(world, [call("press", key=str(number)) for number in range(30)], press)

    def test_a_turn_with_one_new_call(self, world):
        numbers = itertools.count()

        def count() -> int:
            """Counts."""
            return next(numbers)

        self.check(world, [both("look", "count")] * 10, look, count)

    def test_a_call_that_comes_again_after_others(self, world):
        script = [call("look"), *[call("look", place=str(number)) for number in range(COMPARED_TURNS)]]
        self.check(world, script * END_AFTER_TURNS, look)

    def test_failures_that_differ(self, world):
        def fetch(page: str) -> str:
            """Fetches."""
            raise ToolError(f"there is no page {page}")

        self.check(world, [call("fetch", page=str(number)) for number in range(10)], fetch)

    def test_one_slip_now_and_then(self, world):
        script = [[call("fly"), call("look", place=str(number))] for number in range(6)]
        self.check(world, itertools.chain.from_iterable(script), look)

    def test_pictures_that_differ(self, world):
        numbers = itertools.count()

        def snap() -> bytes:
            """Takes a picture."""
            return b"\x89PNG\r\n\x1a\n" + bytes([next(numbers)])

        self.check(world, [call("snap")] * 6, snap)

    def test_the_count_begins_anew_with_something_new(self, world):
        script = [
            call("look"),
            *[call("look")] * (END_AFTER_TURNS - 2),
            call("look", place="there"),
            call("look"),
            DONE,
        ]
        assert run(world, ScriptedModel(script), look).stopped == "answer"
