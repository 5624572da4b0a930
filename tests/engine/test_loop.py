"""The agent's rules, driven by hand with plain values: no model, no tools run, no threads."""

import pytest

from agentkit.core.errors import ModelError, NoAnswer, Paused
from agentkit.core.messages import (
    DEVELOPER,
    TRUSTED,
    ToolCall,
    assistant,
    calls_of,
    pending_calls,
    system,
    tool_message,
    user,
)
from agentkit.engine.loop import ANSWERED_ALREADY, CANCELLED, NOT_BEGUN, REMINDER, Answer, agent_loop
from agentkit.engine.model import AskModel, Reply
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import CallTools
from agentkit.tools.final_answer import make_answer_tool
from agentkit.tools.registry import ToolRegistry


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def final(text: str, id: str = "end") -> ToolCall:
    return ToolCall(id, "final_answer", f'{{"text": "{text}"}}')


MODEL = ScriptedModel(name="by hand")
TOOLS = ToolRegistry(add, answer=make_answer_tool())
ADD = ToolCall("one", "add", '{"a": 1, "b": 2}')


def reply_of(content=None, *calls):
    return Reply(assistant(content, calls))


def run_all(effect: CallTools):
    return [bound.invoke() for bound in effect.calls]


@pytest.fixture
def history():
    return [system("s"), user("1 + 2?")]


def test_the_results_of_a_paused_turn_stand_in_call_order_when_the_last_one_came(history):
    other = ToolCall("two", "add", '{"a": 2, "b": 2}')
    history += [assistant(None, [ADD, other]), tool_message(other, "4")]
    loop = agent_loop(MODEL, TOOLS, history)
    calling = next(loop)
    assert [bound.call for bound in calling.calls] == [ADD]
    loop.send(run_all(calling))
    assert history[-2:] == [tool_message(ADD, "3", label=TRUSTED), tool_message(other, "4")]


def test_the_whole_machine_by_hand(history):
    loop = agent_loop(MODEL, TOOLS, history)
    asked = next(loop)
    assert isinstance(asked, AskModel)
    assert asked.request.messages is history, "the history is handed on, never copied"

    calling = loop.send(reply_of(None, ADD))
    assert isinstance(calling, CallTools)
    assert [bound.call for bound in calling.calls] == [ADD]
    assert pending_calls(history) == [ADD], "a history that ends in calls is a paused run"

    assert isinstance(loop.send(run_all(calling)), AskModel)
    assert history[-1] == tool_message(ADD, "3", label=TRUSTED)

    ending = loop.send(reply_of(None, final("3")))
    with pytest.raises(StopIteration) as stop:
        loop.send(run_all(ending))
    assert stop.value.value == Answer("3")
    assert history[-1]["tool_call_id"] == "end", "the answer's call gets its tool message like every call"


def test_a_paused_history_continues_with_its_calls(history):
    loop = agent_loop(MODEL, TOOLS, [*history, assistant(None, [ADD])])
    assert [bound.call for bound in next(loop).calls] == [ADD]


def test_a_partly_answered_turn_runs_only_the_rest(history):
    other = ToolCall("two", "add", "{}")
    loop = agent_loop(MODEL, TOOLS, [*history, assistant(None, [ADD, other]), tool_message(ADD, "3")])
    assert [bound.call for bound in next(loop).calls] == [other]


def test_the_message_is_kept_as_it_came(history):
    message = {**assistant("let me see", [ADD]), "thinking_blocks": [{"thinking": "hm", "signature": "sig"}]}
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    loop.send(Reply(message))
    assert history[-1] is message


def test_a_repeated_call_id_becomes_unique(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    loop.send(run_all(loop.send(reply_of(None, ADD))))
    calling = loop.send(reply_of(None, ADD, ADD))
    ids = [bound.call.id for bound in calling.calls]
    assert len({"one", *ids}) == 3
    assert [call.id for call in calls_of(history[-1])] == ids


def test_a_bad_answer_is_not_an_answer_and_goes_back_to_the_model(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    asked = loop.send(run_all(loop.send(reply_of(None, ToolCall("end", "final_answer", '{"txt": "3"}')))))
    assert isinstance(asked, AskModel)
    assert "text" in history[-1]["content"]


def test_the_other_calls_of_a_turn_run_before_the_answer_and_a_second_answer_does_not(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    bad = ToolCall("bad", "final_answer", "{}")
    calling = loop.send(reply_of(None, bad, final("first", "e1"), ADD, final("second", "e2")))
    assert [bound.call.id for bound in calling.calls] == ["bad", "one"]
    answering = loop.send(run_all(calling))
    assert [bound.call.id for bound in answering.calls] == ["e1"]
    with pytest.raises(StopIteration) as stop:
        loop.send(run_all(answering))
    assert stop.value.value == Answer("first")
    assert [message["tool_call_id"] for message in history[-4:]] == ["bad", "e1", "one", "e2"], "in call order"
    assert [history[-2]["content"], history[-1]["content"]] == ["3", ANSWERED_ALREADY]


def test_the_second_answer_is_run_when_the_first_one_fails(history):
    def positive(number: int) -> int:
        """Takes a positive number."""
        if number < 1:
            raise ValueError("not positive")
        return number

    loop = agent_loop(MODEL, ToolRegistry(answer=make_answer_tool(positive)), history)
    next(loop)
    calls = [ToolCall(f"e{number}", "final_answer", f'{{"number": {number}}}') for number in (0, 1, 2)]
    answering = loop.send(run_all(loop.send(reply_of(None, *calls))))
    with pytest.raises(StopIteration) as stop:
        loop.send(run_all(answering))
    assert stop.value.value == Answer(1)
    assert [message["content"] for message in history[-3:]] == [
        "ValueError: not positive",
        "The answer was given.",
        ANSWERED_ALREADY,
    ]


def test_a_text_is_answered_by_a_reminder_and_the_second_one_is_the_answer(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    assert isinstance(loop.send(reply_of("It is 3.")), AskModel)
    assert history[-2:] == [assistant("It is 3."), user(REMINDER)]
    with pytest.raises(StopIteration) as stop:
        loop.send(reply_of("I said: 3."))
    assert stop.value.value == Answer("I said: 3.", "text")


def test_a_text_is_never_a_typed_answer(history):
    loop = agent_loop(MODEL, TOOLS, history, text_ends=False)
    next(loop)
    for _ in range(9):
        assert isinstance(loop.send(reply_of("It is 3.")), AskModel)
        assert history[-2:] == [assistant("It is 3."), user(REMINDER)]


def test_calls_between_two_texts_make_the_second_one_a_first_one(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    loop.send(reply_of("I shall add."))
    loop.send(run_all(loop.send(reply_of(None, ADD))))
    assert isinstance(loop.send(reply_of("It is 3.")), AskModel)


@pytest.mark.parametrize("empty", ["", None, "  \n"])
def test_an_empty_reply_is_not_kept_and_not_an_answer(history, empty):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    with pytest.raises(NoAnswer, match="by hand"):
        loop.send(reply_of(empty))
    assert history == [system("s"), user("1 + 2?")]


def test_closing_in_the_middle_of_a_turn_keeps_what_is_finished_and_cancels_the_rest(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    other = ToolCall("two", "add", "{}")
    calling = loop.send(reply_of(None, other, ADD))
    calling.finished["one"] = calling.calls[1].invoke()
    loop.close()
    assert history[-2:] == [tool_message(other, NOT_BEGUN, label=DEVELOPER), tool_message(ADD, "3", label=TRUSTED)]
    assert pending_calls(history) == []


def test_a_call_that_had_begun_is_answered_as_cancelled_with_an_unknown_effect(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    other = ToolCall("two", "add", '{"a": 1, "b": 5}')
    calling = loop.send(reply_of(None, other, ADD))
    calling.calls[0].invoke()
    loop.close()
    assert history[-2:] == [
        tool_message(other, CANCELLED, label=DEVELOPER),
        tool_message(ADD, NOT_BEGUN, label=DEVELOPER),
    ]


@pytest.mark.parametrize("how", ["closed", "raised", "not started"])
def test_a_call_that_an_earlier_run_began_stays_open_when_the_turn_fails(history, how):
    other = ToolCall("two", "add", '{"a": 1, "b": 5}')
    history += [assistant(None, [ADD, other])]
    loop = agent_loop(MODEL, TOOLS, history, begun={"one"})
    calling = next(loop)
    assert [bound.began_before for bound in calling.calls] == [True, False]
    if how == "closed":
        loop.close()
    elif how == "raised":
        with pytest.raises(ModelError):
            loop.throw(ModelError("down"))
    else:
        turn = calling.perform()  # the other call follows in a stage of its own
        next(turn)
        turn.close()
        loop.close()
    assert pending_calls(history) == [ADD]
    assert history[-1]["tool_call_id"] == "two"


def test_closing_before_the_answer_keeps_what_ran_beside_it(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    loop.send(run_all(loop.send(reply_of(None, final("3"), ADD))))
    loop.close()
    assert [message["content"] for message in history[-2:]] == [NOT_BEGUN, "3"]


def test_a_pause_keeps_what_is_finished_and_leaves_the_rest_open(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    other = ToolCall("two", "add", "{}")
    calling = loop.send(reply_of(None, ADD, other))
    calling.finished["one"] = calling.calls[0].invoke()
    with pytest.raises(Paused):
        loop.throw(Paused())
    assert history[-1] == tool_message(ADD, "3", label=TRUSTED)
    assert pending_calls(history) == [other]


def test_an_error_of_the_model_passes_through(history):
    loop = agent_loop(MODEL, TOOLS, history)
    next(loop)
    with pytest.raises(ModelError):
        loop.throw(ModelError("down"))
    assert history == [system("s"), user("1 + 2?")]
