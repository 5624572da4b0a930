"""Replies that are none, and the last request of a run."""

import json

import pytest
from stacked_runs import Endless, cut, run

from agentkit import LimitExceeded, ModelError, NoAnswer
from agentkit.core.messages import ToolCall, assistant, calls_of, user
from agentkit.engine.model import Reply, TextDelta
from agentkit.policies.incomplete_replies import (
    CONTINUE_PROMPT,
    EMPTY_PROMPT,
    MAX_CONTINUATIONS,
    MAX_CUT_RETRIES,
    MAX_EMPTY_RETRIES,
    SHORTER_PROMPT,
    ReplyDropped,
)
from agentkit.testing import ScriptedModel, answer, call

DONE = answer("done")


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


class TestTextsWithoutCalls:
    def test_an_empty_reply_between_two_texts_changes_nothing(self, world):
        ran = run(world, ScriptedModel("It is 3.", "", "I said: 3."), look)
        assert (ran.answer, ran.stopped) == ("I said: 3.", "text")
