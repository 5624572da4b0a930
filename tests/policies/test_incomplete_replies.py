"""Replies that are none, and the last request of a run."""

import json
from dataclasses import dataclass

import pytest
from stacked_runs import Endless, call, cut, final, flow_of, run

from agentkit import LimitExceeded, ModelError, NoAnswer
from agentkit.core.messages import ToolCall, assistant, calls_of, pending_calls, user
from agentkit.engine.model import AskModel, Reply, TextDelta
from agentkit.policies.final_request import FINAL_PROMPT, NOT_RUN, FinalRequest
from agentkit.policies.incomplete_replies import (
    CONTINUE_PROMPT,
    EMPTY_PROMPT,
    MAX_CONTINUATIONS,
    MAX_CUT_RETRIES,
    MAX_EMPTY_RETRIES,
    SHORTER_PROMPT,
    ReplyDropped,
)
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import CallTools

DONE = final("done")


def look() -> str:
    """Looks."""
    return "nothing"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request) -> bool:
    return request.param


def dropped(ran):
    return [event.why for event in ran.events if isinstance(event, ReplyDropped)]


EMPTY_REPLIES = {
    "empty": "",
    "null": Reply(assistant(None)),
    "blank": " \n",
    "calls announced, none made": Reply(assistant(""), finish_reason="tool_calls"),
    "no calls in the list": Reply({**assistant(None), "tool_calls": []}, finish_reason="tool_calls"),
    "thoughts alone": Reply({**assistant(None), "reasoning_content": "hm"}, finish_reason="stop"),
}


class TestEmptyReplies:
    @pytest.mark.parametrize("empty", EMPTY_REPLIES.values(), ids=EMPTY_REPLIES)
    def test_the_model_is_asked_again_and_the_history_does_not_show_it(self, world, stream, empty):
        model = ScriptedModel(call("look"), empty, DONE)
        ran = run(world, model, look, stream=stream)
        assert (ran.answer, ran.stopped, dropped(ran)) == ("done", "answer", ["empty"])
        assert model.requests[2].messages[-1] == user(EMPTY_PROMPT)
        assert [message["role"] for message in ran.history] == ["user", "assistant", "tool", "assistant", "tool"]

    def test_for_ever_ends_in_a_last_request_and_then_typed(self, world):
        model = Endless("")
        with pytest.raises(NoAnswer, match="endless: its replies stay empty"):
            run(world, model, look)
        assert model.asked == 1 + MAX_EMPTY_RETRIES + 1

    def test_the_last_request_can_still_bring_the_answer(self, world):
        ran = run(world, Endless("", last=DONE), look)
        assert (ran.answer, ran.stopped) == ("done", "stuck")

    def test_each_request_has_its_own_patience(self, world):
        script = [entry for _ in range(4) for entry in (*[""] * MAX_EMPTY_RETRIES, call("look"))]
        numbers = iter(range(99))

        def look() -> int:
            """Looks."""
            return next(numbers)

        assert run(world, ScriptedModel([*script, DONE]), look).stopped == "answer"


class TestCutReplies:
    HALF = ToolCall("c", "look", '{"text": "a long te')

    @pytest.mark.parametrize(
        "reply",
        [cut(None, HALF), cut("I shall look.", HALF), cut(None, ToolCall("c", "look", "{}")), cut(None)],
        ids=["half a call", "text and half a call", "a call that looks whole", "nothing"],
    )
    def test_a_cut_call_is_never_run_and_the_model_is_told(self, world, stream, reply):
        ran_tools = []

        def look(text: str = "") -> None:
            """Looks."""
            ran_tools.append(text)

        model = ScriptedModel(reply, call("look", text="short"), DONE)
        ran = run(world, model, look, stream=stream)
        assert (ran.answer, dropped(ran), ran_tools) == ("done", ["cut"], ["short"])
        assert model.requests[1].messages[-1] == user(SHORTER_PROMPT)
        assert "long te" not in json.dumps(ran.history)
        assert len(calls_of(ran.history[1])) == 1

    def test_for_ever_is_an_error_that_says_what_to_do(self, world):
        model = Endless(cut(None, self.HALF))
        with pytest.raises(ModelError, match=r"endless: its replies .*max_tokens=") as caught:
            run(world, model, look)
        assert (caught.value.kind, caught.value.transient) == ("length", False)
        assert model.asked == 1 + MAX_CUT_RETRIES

    def test_a_cut_text_is_continued_and_put_together(self, world, stream):
        model = ScriptedModel(cut("Once upon"), cut(" a time there "), "was.", "Once upon a time.")
        ran = run(world, model, look, stream=stream)
        assert ran.history[1] == assistant("Once upon a time there was.")
        assert ran.answer == "Once upon a time.", "after the reminder, as any text"
        assert model.requests[1].messages[1:] == [assistant("Once upon"), user(CONTINUE_PROMPT)]
        assert model.requests[2].messages[1:] == [assistant("Once upon a time there "), user(CONTINUE_PROMPT)]
        assert dropped(ran) == []
        if stream:
            shown = "".join(event.text for event in ran.events if isinstance(event, TextDelta))
            assert shown.startswith("Once upon a time there was.")

    def test_a_text_may_end_in_a_call(self, world):
        model = ScriptedModel(cut("I shall"), {"content": " look.", **call("look")}, DONE)
        ran = run(world, model, look)
        assert ran.answer == "done"
        assert ran.history[1]["content"] == "I shall look."

    def test_a_continuation_without_words_was_the_end(self, world):
        ran = run(world, ScriptedModel(cut("All of it."), "", DONE), look)
        assert ran.history[1] == assistant("All of it.")

    def test_a_text_without_end_is_an_error_that_holds_it(self, world):
        model = Endless(cut("la "))
        with pytest.raises(ModelError) as caught:
            run(world, model, look)
        assert (caught.value.kind, caught.value.partial) == ("length", "la " * (MAX_CONTINUATIONS + 1))
        assert model.asked == 1 + MAX_CONTINUATIONS

    def test_a_cut_text_is_no_answer_in_the_last_request(self, world):
        with pytest.raises(LimitExceeded) as caught:
            run(world, ScriptedModel(call("look"), cut("half an ans")), look, max_steps=1)
        assert caught.value.partial == "half an ans"


class TestRefusals:
    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (Reply({**assistant(None), "refusal": "I must not."}), "I must not."),
            (Reply(assistant("I can't help."), finish_reason="refusal"), "I can't help."),
            (Reply(assistant(None), finish_reason="content_filter"), "content filter"),
            (Reply(assistant(None, [ToolCall("c", "look")]), finish_reason="content_filter"), "content filter"),
            (Reply({**assistant(None), "provider_specific_fields": {"refusal": "No."}}), "No."),
        ],
    )
    def test_they_are_errors_in_the_providers_words_and_nothing_runs(self, world, reply, words):
        ran = []

        def look() -> None:
            """Looks."""
            ran.append(1)

        with pytest.raises(ModelError, match=f"scripted: .*{words}") as caught:
            run(world, ScriptedModel(reply), look)
        assert (caught.value.kind, caught.value.transient, ran) == ("refused", False, [])

    @pytest.mark.parametrize("reason", ["stop", "tool_calls", "odd", None])
    def test_other_reasons_do_not_matter_where_there_are_calls(self, world, reason):
        first = Reply(assistant(None, [ToolCall("c", "look")]), finish_reason=reason)
        assert run(world, ScriptedModel(first, DONE), look).answer == "done"


@dataclass
class Report:
    title: str
    words: int


class TestLanding:
    def test_only_the_answer_is_on_offer_and_forced(self, world, stream):
        model = ScriptedModel(call("look"), DONE)
        ran = run(world, model, look, max_steps=1, stream=stream)
        assert (ran.answer, ran.stopped) == ("done", "max_steps")
        last = model.requests[-1]
        assert (list(last.tools), last.tool_choice, last.stream) == (["final_answer"], "final_answer", stream)
        assert last.messages[-1] == user(FINAL_PROMPT)
        assert FINAL_PROMPT not in json.dumps(ran.history)
        assert sum(isinstance(event, FinalRequest) for event in ran.events) == 1

    def test_a_plain_text_is_the_answer_where_a_text_is_wanted(self, world):
        ran = run(world, ScriptedModel(call("look"), "It is done."), look, max_steps=1)
        assert (ran.answer, ran.stopped) == ("It is done.", "max_steps")
        assert [one.name for one in calls_of(ran.history[-2])] == ["final_answer"]
        assert pending_calls(ran.history) == []

    def test_a_text_that_is_a_valid_typed_answer_is_one(self, world):
        ran = run(world, ScriptedModel(call("look"), '{"title": "T", "words": 2}'), look, max_steps=1, answer=Report)
        assert ran.answer == Report("T", 2)

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
    def test_without_a_valid_answer_the_error_carries_what_was_said_last(self, world, reply, partial):
        history = [user("go")]
        model = ScriptedModel({"content": "Before.", **call("look")}, reply)
        with pytest.raises(LimitExceeded, match="no final answer after 1 step, nor in one last request") as caught:
            run(world, model, look, max_steps=1, answer=Report, history=history)
        assert caught.value.partial == partial
        assert caught.value.reason == "max_steps"
        assert pending_calls(history) == []
        assert len(model.requests) == 2
        assert caught.value.__cause__ is reply or not isinstance(reply, ModelError)

    def test_other_tools_are_not_run_any_more(self, world):
        ran_tools = []

        def look() -> str:
            """Looks."""
            ran_tools.append(1)
            return str(len(ran_tools))

        last = {"tool_calls": [*call("look")["tool_calls"], *DONE["tool_calls"]]}
        ran = run(world, ScriptedModel(call("look"), last), look, max_steps=1)
        assert (ran.answer, len(ran_tools)) == ("done", 1)
        assert [message["content"] for message in ran.history[-2:]] == [NOT_RUN, "The answer was given."]

    def test_an_interrupt_in_the_last_request_is_no_failed_landing(self):
        flow = flow_of(ScriptedModel(), look, max_steps=1)
        next(flow)
        calling = flow.send(Reply(assistant(None, [ToolCall("c", "look")])))
        assert isinstance(calling, CallTools)
        flow.send([bound.invoke() for bound in calling.calls])
        assert isinstance(flow.send(None), AskModel)
        with pytest.raises(ZeroDivisionError):
            flow.throw(ZeroDivisionError())


class TestTextsWithoutCalls:
    def test_an_empty_reply_between_two_texts_changes_nothing(self, world):
        ran = run(world, ScriptedModel("It is 3.", "", "I said: 3."), look)
        assert (ran.answer, ran.stopped) == ("I said: 3.", "text")
