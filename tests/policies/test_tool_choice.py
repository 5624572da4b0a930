"""Models that refuse to be forced to call a tool."""

import pytest

from agentkit import JsonAgent, ModelError, ToolRegistry
from agentkit.core.flow import ask
from agentkit.core.messages import user
from agentkit.engine.model import AskModel, Request
from agentkit.policies.retries import Retrying, retry_unforced
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.final_answer import make_answer_tool

TOOLS = ToolRegistry(answer=make_answer_tool())
NO = ModelError("tool_choice is not supported", kind="bad_request", status=400)


def asking(model, **asked):
    return (yield from ask(AskModel(model, Request([user("?")], TOOLS, **asked))))


@pytest.mark.parametrize("choice", ["final_answer", "required"])
@pytest.mark.parametrize(
    "error", [NO, ModelError("no endpoints support 'tool_choice'", kind="not_found", status=404)], ids=lambda e: e.kind
)
def test_it_is_asked_again_and_left_to_choose(world, choice, error):
    model = ScriptedModel(error, "hello")
    reply, events = world.drive(retry_unforced()(asking(model, tool_choice=choice)))
    assert reply.message["content"] == "hello"
    assert [request.tool_choice for request in model.requests] == [choice, "auto"]
    assert model.requests[1].tools is TOOLS
    assert Retrying(error, 0.0) in events


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ("auto", NO),
        ("none", NO),
        ("required", ModelError("no such key", kind="authentication", status=401)),
        ("required", ModelError("no such model", kind="not_found", status=404)),
        ("required", ModelError("busy", kind="rate_limit", status=429)),
    ],
)
def test_an_error_that_has_another_cause_is_not_retried(world, choice, error):
    model = ScriptedModel(error, "not asked for")
    with pytest.raises(ModelError) as caught:
        world.drive(retry_unforced()(asking(model, tool_choice=choice)))
    assert (caught.value, len(model.requests)) == (error, 1)


def test_it_is_asked_again_once(world):
    again = ModelError("that neither", kind="bad_request", status=400)
    model = ScriptedModel(NO, again)
    with pytest.raises(ModelError) as caught:
        world.drive(retry_unforced()(asking(model, tool_choice="required")))
    assert (caught.value, len(model.requests)) == (again, 2)


@pytest.mark.parametrize("last", [answer("done"), "done"], ids=["call", "text"])
def test_a_final_request_reaches_a_model_that_cannot_be_forced(world, last):
    def count() -> int:
        """Counts."""
        return 1

    class Free(ScriptedModel):
        def ask(self, request):
            if request.tool_choice != "auto":
                raise NO
            yield from super().ask(request)

    model = Free(call("count"), last)
    result = world.run(JsonAgent(count, model=model, max_steps=1), "Count.")
    assert (result.answer, result.stopped) == ("done", "max_steps")
    assert list(model.requests[-1].tools) == ["final_answer"]
