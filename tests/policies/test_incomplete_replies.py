"""Replies that are empty, cut or refused."""

import json

import pytest
from one_policy import Turns
from stacked_runs import Endless, cut, run_stacked

from agentkit import JsonAgent, ModelError, NoAnswer
from agentkit.core.messages import ToolCall, assistant, calls_of, user
from agentkit.engine.model import Reply, TextDelta
from agentkit.policies.limits import limit
from agentkit.policies.retries import (
    CONTINUE_PROMPT,
    EMPTY_PROMPT,
    MAX_CONTINUATIONS,
    MAX_CUT_RETRIES,
    MAX_EMPTY_RETRIES,
    SHORTER_PROMPT,
    ReplyDropped,
    raise_refusals,
    retry_incomplete_replies,
)
from agentkit.testing import ScriptedModel, answer, call

DONE = answer("done")


def look() -> str:
    """Looks."""
    return "nothing"


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request) -> bool:
    return request.param


def take(world, model, *tools, stream=False) -> Turns:
    """Turns under the policy, which end with the answer "done"."""
    turns = Turns(model, *tools, stream=stream)
    assert turns.drive(world, turns.take(), retry_incomplete_replies()) == "done"
    return turns


def fail(world, model, error, **match) -> Exception:
    """The error that the policy raises."""
    turns = Turns(model, look)
    with pytest.raises(error, **match) as caught:
        turns.drive(world, turns.take(), retry_incomplete_replies())
    return caught.value


def dropped(turns):
    return [event.why for event in turns.events if isinstance(event, ReplyDropped)]


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
        turns = take(world, model, look, stream=stream)
        assert dropped(turns) == ["empty"]
        assert model.requests[2].messages[-1] == user(EMPTY_PROMPT)
        assert [message["role"] for message in turns.messages] == ["user", "assistant", "tool", "assistant", "tool"]

    def test_endless_incomplete_replies_are_not_an_answer(self, world):
        model = Endless("")
        fail(world, model, NoAnswer, match="endless: its replies stay empty")
        assert model.asked == 1 + MAX_EMPTY_RETRIES

    def test_each_request_has_its_own_patience(self, world):
        script = [entry for _ in range(4) for entry in (*[""] * MAX_EMPTY_RETRIES, call("look"))]
        numbers = iter(range(99))

        def look() -> int:
            """Looks."""
            return next(numbers)

        take(world, ScriptedModel([*script, DONE]), look)


class TestCutReplies:
    HALF = ToolCall("c", "look", '{"text": "a long te')

    @pytest.mark.parametrize(
        "reply",
        [cut(None, HALF), cut("I shall look.", HALF), cut(None, ToolCall("c", "look", "{}")), cut(None)],
        ids=["half a call", "text and half a call", "a call that looks whole", "nothing"],
    )
    def test_a_cut_call_is_never_run_and_the_model_reads_why(self, world, stream, reply):
        ran_tools = []

        def look(text: str = "") -> None:
            """Looks."""
            ran_tools.append(text)

        model = ScriptedModel(reply, call("look", text="short"), DONE)
        turns = take(world, model, look, stream=stream)
        assert (dropped(turns), ran_tools) == (["cut"], ["short"])
        assert model.requests[1].messages[-1] == user(SHORTER_PROMPT)
        assert "long te" not in json.dumps(turns.messages)
        assert len(calls_of(turns.messages[1])) == 1

    def test_endless_cut_replies_are_an_error_with_a_remedy(self, world):
        model = Endless(cut(None, self.HALF))
        error = fail(world, model, ModelError, match=r"endless: its replies .*max_tokens=")
        assert (error.kind, error.transient) == ("length", False)
        assert model.asked == 1 + MAX_CUT_RETRIES

    def test_a_cut_text_is_continued_and_put_together(self, world, stream):
        model = ScriptedModel(cut("Once upon"), cut(" a time there "), "was.", DONE)
        turns = take(world, model, look, stream=stream)
        assert turns.messages[1] == assistant("Once upon a time there was.")
        assert model.requests[1].messages[1:] == [assistant("Once upon"), user(CONTINUE_PROMPT)]
        assert model.requests[2].messages[1:] == [assistant("Once upon a time there "), user(CONTINUE_PROMPT)]
        assert dropped(turns) == []
        if stream:
            shown = "".join(event.text for event in turns.events if isinstance(event, TextDelta))
            assert shown.startswith("Once upon a time there was.")

    def test_a_text_may_end_in_a_call(self, world):
        model = ScriptedModel(cut("I shall"), {"content": " look.", **call("look")}, DONE)
        assert take(world, model, look).messages[1]["content"] == "I shall look."

    def test_a_continuation_without_words_was_the_end(self, world):
        turns = take(world, ScriptedModel(cut("All of it."), "", DONE), look)
        assert turns.messages[1] == assistant("All of it.")

    def test_a_text_without_end_is_an_error_that_holds_it(self, world):
        model = Endless(cut("la "))
        error = fail(world, model, ModelError)
        assert (error.kind, error.partial) == ("length", "la " * (MAX_CONTINUATIONS + 1))
        assert model.asked == 1 + MAX_CONTINUATIONS

    def test_a_cut_text_is_not_an_answer_to_the_final_request(self, world):
        turns = Turns(ScriptedModel(call("look"), cut("half an ans")), look)
        policies = retry_incomplete_replies(), limit(max_steps=1)
        with pytest.raises(ModelError) as caught:
            turns.drive(world, turns.finish(), *policies)
        assert (caught.value.kind, caught.value.partial) == ("length", "half an ans")


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

        turns = Turns(ScriptedModel(reply), look)
        with pytest.raises(ModelError, match=f"scripted: .*{words}") as caught:
            turns.drive(world, turns.take(), raise_refusals())
        assert (caught.value.kind, caught.value.transient, ran) == ("refused", False, [])

    @pytest.mark.parametrize("reason", ["stop", "tool_calls", "odd", None])
    def test_other_reasons_do_not_matter_where_there_are_calls(self, world, reason):
        first = Reply(assistant(None, [ToolCall("c", "look")]), finish_reason=reason)
        turns = Turns(ScriptedModel(first, DONE), look)
        assert turns.drive(world, turns.take(), raise_refusals()) == "done"


def test_under_the_other_policies_the_final_request_follows(world):
    ran = run_stacked(world, Endless("", last=DONE), look)
    assert (ran.answer, ran.stopped) == ("done", "stuck")


def test_an_agent_takes_a_text_that_comes_again_after_an_empty_reply(world):
    model = ScriptedModel("It is 3.", "", cut("I said:"), " 3.")
    result = world.run(JsonAgent(look, model=model), "go")
    assert (result.answer, result.stopped) == ("I said: 3.", "text")
