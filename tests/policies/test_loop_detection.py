"""A run that makes no progress is warned, loses the tools in question, and ends."""

import itertools

import pytest
from one_policy import Turns
from stacked_runs import Endless, run_stacked

from agentkit import JsonAgent, LimitExceeded, NoAnswer, ToolError
from agentkit.core.messages import pending_calls, user
from agentkit.policies.loop_detection import (
    COMPARED_TURNS,
    END_AFTER_TURNS,
    NOTE_AFTER_TURNS,
    WITHDRAW_AFTER_TURNS,
    detect_loops,
)
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.execution.call_tools import ToolFinished

DONE = answer("so far")
TALK = "endless neither calls"


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
    return calls(*map(call, names))


def stuck(world, model, *tools, error=LimitExceeded, match="the run is stuck", **settings) -> Turns:
    """Turns that the policy ends."""
    turns = Turns(model, *tools, **settings)
    with pytest.raises(error, match=match) as caught:
        turns.drive(world, turns.take(), detect_loops())
    assert caught.value.reason == "stuck"
    return turns


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


class TestEndlessModels:
    @pytest.mark.parametrize("replies", ENDLESS.values(), ids=ENDLESS)
    def test_they_end_with_a_typed_answer_in_a_few_requests(self, world, replies):
        turns = stuck(world, Endless(*replies), look, feel, fail)
        assert len(turns.requests) < END_AFTER_TURNS + 4

    def test_text_instead_of_calls_when_a_text_is_not_an_answer(self, world):
        turns = stuck(world, Endless("It is 7."), look, answer=int, error=NoAnswer, match=TALK)
        assert len(turns.requests) == END_AFTER_TURNS

    def test_text_and_useless_calls_by_turns(self, world):
        model = Endless("Hm.", call("look"))
        turns = stuck(world, model, look, answer=int, error=NoAnswer, match=TALK)
        assert len(turns.requests) < END_AFTER_TURNS + 3

    def test_the_final_request_is_not_ended_again(self, world):
        turns = Turns(Endless(call("look"), last=DONE), look)
        assert turns.drive(world, turns.finish(), detect_loops()) == "so far"
        assert turns.stopped == "stuck"

    def test_broken_arguments_never_run_the_tool(self, world):
        ran = []

        def count(number: int) -> int:
            """Counts."""
            ran.append(number)
            return number

        stuck(world, Endless({"tool_calls": [{"name": "count", "arguments": "{number: "}]}), count)
        assert ran == []


class TestWhatTheModelReads:
    def test_nothing_then_a_note_then_the_tool_is_withdrawn_then_the_end(self, world):
        turns = stuck(world, Endless(call("look")), look, feel)
        told = turns.contents
        assert told[:NOTE_AFTER_TURNS] == ["nothing here"] * NOTE_AFTER_TURNS
        assert told[NOTE_AFTER_TURNS].startswith(f"nothing here\n[Turn {NOTE_AFTER_TURNS} in a row that only repeats")
        assert "Withdrawn for the rest of this run: look." in told[WITHDRAW_AFTER_TURNS]
        assert told[WITHDRAW_AFTER_TURNS + 1].startswith("Not run: look is withdrawn")
        assert set(turns.requests[WITHDRAW_AFTER_TURNS].tools) == {"final_answer", "look", "feel"}
        assert set(turns.requests[WITHDRAW_AFTER_TURNS + 1].tools) == {"final_answer", "feel"}

    def test_values_and_events_stay_as_they_are(self, world):
        turns = stuck(world, Endless(call("look")), look)
        results = [event.result for event in turns.events if isinstance(event, ToolFinished)]
        assert {result.value for result in results[:WITHDRAW_AFTER_TURNS]} == {"nothing here"}
        assert {result.content for result in results[:WITHDRAW_AFTER_TURNS]} == {"nothing here"}

    def test_a_withdrawn_tool_does_not_run_though_the_model_calls_it(self, world):
        ran = []

        def once() -> str:
            """Works once."""
            ran.append(1)
            return "same"

        script = [*[call("once")] * (WITHDRAW_AFTER_TURNS + 1), call("look"), call("once"), DONE]
        turns = Turns(ScriptedModel(script), once, look)
        assert turns.drive(world, turns.take(), detect_loops()) == "so far"
        assert len(ran) == WITHDRAW_AFTER_TURNS + 1

    def test_the_answer_is_never_withdrawn(self, world):
        bad = call("final_answer", tixt="x")
        turns = Turns(ScriptedModel([bad] * (END_AFTER_TURNS - 1) + [DONE]), look)
        assert turns.drive(world, turns.take(), detect_loops()) == "so far"
        assert "Withdrawn" not in "".join(turns.contents)


class TestWhatIsNotStuck:
    def check(self, world, script, *tools):
        turns = Turns(ScriptedModel([*script, DONE]), *tools)
        assert turns.drive(world, turns.take(), detect_loops()) == "so far"
        assert "in a row" not in "".join(turns.contents)

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

    def test_one_mistake_now_and_then(self, world):
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
        turns = Turns(ScriptedModel(script), look)
        assert turns.drive(world, turns.take(), detect_loops()) == "so far"


def test_under_the_other_policies_the_final_request_follows_and_the_history_is_valid(world):
    model = Endless(call("look"))
    history = [user("go")]
    with pytest.raises(LimitExceeded, match="stuck"):
        run_stacked(world, model, look, feel, history=history)
    assert model.asked <= END_AFTER_TURNS + 4
    assert pending_calls(history) == []


def test_an_agent_gives_what_it_has_when_it_is_stuck(world):
    model = Endless(call("look"), last=DONE)
    result = world.run(JsonAgent(look, feel, model=model), "go")
    assert (result.answer, result.stopped) == ("so far", "stuck")
    assert model.asked == END_AFTER_TURNS + 2
