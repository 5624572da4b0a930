"""What becomes of effects: driven by hand, with plain values."""

import pytest

from agentkit import LimitExceeded, ModelError, ToolRegistry
from agentkit.core.flow import Emit, Flow, Sleep, apply_policies, ask
from agentkit.core.messages import ToolCall, assistant, user
from agentkit.engine.model import AskModel, Reply, Request
from agentkit.policies.final_request import FinalRequest, request_final_answer
from agentkit.policies.limits import limit
from agentkit.policies.loop_detection import detect_loops
from agentkit.policies.retries import raise_refusals, retry, retry_incomplete_replies
from agentkit.testing import ScriptedModel
from agentkit.tools.final_answer import make_answer_tool


def work() -> None:
    """Works."""


TOOLS = ToolRegistry(work, answer=make_answer_tool())
REQUEST = AskModel(ScriptedModel(), Request([user("?")], TOOLS))
REPLY = Reply(assistant("hm"))
BUSY = ModelError("busy", kind="rate_limit", transient=True)


def asking(times: int = 1) -> Flow[Reply]:
    for _ in range(times):
        reply = yield from ask(REQUEST)
    return reply


def test_a_transient_error_is_waited_out_and_asked_again():
    flow = retry([1, 2])(asking())
    assert next(flow) is REQUEST
    shown = flow.throw(BUSY)
    assert isinstance(shown, Emit)
    assert shown.event.error is BUSY
    slept = flow.send(None)
    assert isinstance(slept, Sleep)
    assert 0.8 <= slept.seconds <= 1.2
    assert flow.send(None) is REQUEST
    with pytest.raises(StopIteration) as stop:
        flow.send(REPLY)
    assert stop.value.value is REPLY


@pytest.mark.parametrize(
    "make", [retry, limit, request_final_answer, detect_loops, retry_incomplete_replies, raise_refusals]
)
def test_other_effects_pass_untouched(make):
    def flow():
        yield from ask(Sleep(3))

    assert next(make()(flow())) == Sleep(3)


def test_at_the_limit_the_request_offers_only_the_answer():
    flow = apply_policies(asking(4), (request_final_answer(), limit(max_steps=2)))
    assert next(flow).request == REQUEST.request
    assert flow.send(REPLY).request == REQUEST.request
    assert flow.send(REPLY) == Emit(FinalRequest("max_steps"))
    last = flow.send(None)
    assert list(last.request.tools) == ["final_answer"]
    assert last.request.tool_choice == "final_answer"
    assert last.request.messages[:1] == REQUEST.request.messages
    assert len(REQUEST.request.messages) == 1, "the history itself is not written to"
    with pytest.raises(LimitExceeded, match="2 steps"):
        flow.send(Reply(assistant(None, [ToolCall("c", "work")])))


def test_a_limit_without_a_final_request_is_raised_as_it_is():
    flow = limit(max_steps=1)(asking(2))
    next(flow)
    with pytest.raises(LimitExceeded, match="1 step,"):
        flow.send(REPLY)
