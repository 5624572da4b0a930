"""The last request of a run: what it offers, what is an answer to it, and the cause that the error names."""

import json
import re
from dataclasses import dataclass

import pytest
from one_policy import Turns
from stacked_runs import Endless, cut, run_stacked

from agentkit import JsonAgent, LimitExceeded, ModelError, NoAnswer
from agentkit.core.flow import Policy, around, ask
from agentkit.core.messages import ToolCall, assistant, calls_of, pending_calls, user
from agentkit.engine.model import AskModel, Reply
from agentkit.policies.final_request import FINAL_PROMPT, NOT_RUN_AT_END, FinalRequest, request_final_answer
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.execution.call_tools import CallTools

DONE = answer("done")


@dataclass
class Report:
    title: str
    words: int


def look(place: str = "here") -> str:
    """Looks."""
    return f"nothing {place}"


def fail(place: str = "") -> str:
    """Fails."""
    raise LookupError("out of order")


def end_after(requests: int, error: type[LimitExceeded | NoAnswer] = LimitExceeded) -> Policy:
    """Raise an error in place of one request, as a limit does; what is asked after it passes."""
    asked = 0

    def handle(effect: AskModel):
        nonlocal asked
        asked += 1
        if asked == requests + 1:
            raise error("the run ends")
        return (yield from ask(effect))

    return around(handle, AskModel)


def drive(world, turns: Turns, requests: int = 1, **how):
    return turns.drive(world, turns.take(), request_final_answer(), end_after(requests, **how))


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request) -> bool:
    return request.param


class TestTheRequest:
    def test_only_the_answer_is_on_offer_and_forced(self, world, stream):
        turns = Turns(ScriptedModel(call("look"), DONE), look, stream=stream)
        assert drive(world, turns) == "done"
        last = turns.requests[-1]
        assert (list(last.tools), last.tool_choice, last.stream) == (["final_answer"], "final_answer", stream)
        assert last.messages[-1] == user(FINAL_PROMPT)
        assert FINAL_PROMPT not in json.dumps(turns.messages)
        assert [event.reason for event in turns.events if isinstance(event, FinalRequest)] == ["max_steps"]

    def test_a_plain_text_is_the_answer_where_a_text_is_wanted(self, world):
        turns = Turns(ScriptedModel(call("look"), "It is done."), look)
        assert drive(world, turns) == "It is done."
        assert [one.name for one in calls_of(turns.messages[-2])] == ["final_answer"]

    def test_a_text_that_is_a_valid_typed_answer_is_one(self, world):
        turns = Turns(ScriptedModel(call("look"), '{"title": "T", "words": 2}'), look, answer=Report)
        assert drive(world, turns) == Report("T", 2)

    @pytest.mark.parametrize(
        ("reply", "partial"),
        [
            ("It is done.", "It is done."),
            (call("final_answer", title="T"), '{"title": "T"}'),
            ({"content": "Let me see.", **call("look")}, "Let me see."),
            ("", "Before."),
            (cut("It is"), "It is"),
            (ModelError("down", kind="server", transient=True), "Before."),
        ],
    )  # fmt: skip
    def test_without_a_valid_answer_the_error_carries_the_last_text(self, world, reply, partial):
        turns = Turns(ScriptedModel({"content": "Before.", **call("look")}, reply), look, answer=Report)
        with pytest.raises(LimitExceeded, match="the run ends") as caught:
            drive(world, turns)
        assert caught.value.partial == partial
        assert caught.value.reason == "max_steps"
        assert len(turns.requests) == 2
        assert caught.value.__cause__ is reply or not isinstance(reply, ModelError)

    def test_other_tools_are_not_run_any_more(self, world):
        ran_tools = []

        def look() -> str:
            """Looks."""
            ran_tools.append(1)
            return str(len(ran_tools))

        turns = Turns(ScriptedModel(call("look"), calls(call("look"), DONE)), look)
        assert drive(world, turns) == "done"
        assert len(ran_tools) == 1
        assert [message["content"] for message in turns.messages[-2:]] == [NOT_RUN_AT_END, "The answer was given."]

    def test_an_exception_that_is_not_a_run_error_is_not_a_failed_final_request(self):
        turns = Turns(ScriptedModel(), look)
        flow = end_after(1)(request_final_answer()(turns.take()))
        next(flow)
        calling = flow.send(Reply(assistant(None, [ToolCall("c", "look")])))
        assert isinstance(calling, CallTools)
        flow.send([bound.invoke() for bound in calling.calls])
        assert isinstance(flow.send(None), AskModel)
        with pytest.raises(ZeroDivisionError):
            flow.throw(ZeroDivisionError())


class TestCauses:
    """The error that ends a run names the failure that led to it."""

    def message(self, world, *replies, tools=(look, fail), after=1, error=LimitExceeded, answer=str):
        with pytest.raises(error) as caught:
            drive(world, Turns(Endless(*replies), *tools, answer=answer), after, error=error)
        return str(caught.value)

    def test_a_tool_that_always_fails(self, world):
        assert self.message(world, call("fail")).endswith("Last error: fail: LookupError: out of order")

    def test_arguments_that_are_never_valid(self, world):
        assert re.search(
            r"Last error: look: ValidationError: place: input should be", self.message(world, call("look", place=[1]))
        )

    def test_an_answer_that_is_never_valid(self, world):
        message = self.message(world, call("final_answer", answer="x"), answer=int, after=2)
        assert re.match("the run ends. Last error: final_answer: ValidationError: answer: ", message)

    def test_texts_after_a_failure(self, world):
        replies = call("fail"), *["Hm."] * 3
        message = self.message(world, *replies, after=3, error=NoAnswer, answer=int)
        assert message.endswith("Last error: fail: LookupError: out of order")

    def test_a_text_that_is_not_a_valid_answer(self, world):
        message = self.message(world, "Hm.", answer=int)
        assert message.endswith("final_answer: the reply is a text without the answer")
        wrong = self.message(world, '{"answer": "x"}', answer=int)
        assert re.search("Last error: final_answer: ValidationError: answer: ", wrong)

    def test_a_final_request_that_fails(self, world):
        def down(request):
            raise ModelError("the server is down", kind="server")

        with pytest.raises(LimitExceeded, match="Last error: the final request: the server is down"):
            drive(world, Turns(ScriptedModel(call("look"), down), look))

    def test_an_error_that_a_later_turn_corrects_is_dropped(self, world):
        replies = (call("fail"), call("look", place="a"), call("look", place="b"))
        assert "Last error" not in self.message(world, *replies, after=3)

    def test_the_event_of_the_final_request_names_it_too(self, world):
        turns = Turns(Endless(call("fail"), last=DONE), fail)
        drive(world, turns)
        event = next(event for event in turns.events if isinstance(event, FinalRequest))
        assert event.notice.endswith("asking for the final answer; last error: fail: LookupError: out of order")

    def test_it_is_short_and_masked(self, world):
        def leak() -> str:
            """Leaks."""
            raise LookupError("sk-" + "a1B2" * 12 + "\n" + "long " * 200)

        message = self.message(world, call("leak"), tools=(leak,))
        assert "a1B2" not in message
        assert len(message) < 500
        assert "\n" not in message


def test_endless_text_is_not_an_answer_and_the_last_text_is_kept(world):
    with pytest.raises(NoAnswer, match="the run ends") as caught:
        drive(world, Turns(Endless("It is 7."), look, answer=int), error=NoAnswer)
    assert caught.value.partial == "It is 7."


@pytest.mark.parametrize(
    ("reply", "partial"),
    [("", "Before."), (cut("It is"), "It is"), ({"content": "Let me see.", **call("look")}, "Let me see.")],
)
def test_under_the_other_policies_an_incomplete_reply_is_not_an_answer_and_the_history_is_valid(world, reply, partial):
    history = [user("go")]
    model = ScriptedModel({"content": "Before.", **call("look")}, reply)
    with pytest.raises(LimitExceeded, match="no final answer after 1 step, nor in one last request") as caught:
        run_stacked(world, model, look, max_steps=1, history=history)
    assert (caught.value.partial, len(model.requests)) == (partial, 2)
    assert pending_calls(history) == []


def test_an_agent_returns_the_answer_of_the_final_request(world):
    result = world.run(JsonAgent(look, model=ScriptedModel(call("look"), "It is done."), max_steps=1), "go")
    assert (result.answer, result.stopped) == ("It is done.", "max_steps")
    assert pending_calls(result.messages) == []
