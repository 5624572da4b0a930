"""How runs end, over the wires: what the policies ask is what strict providers take."""

import asyncio

import pytest
from stacked_runs import flow_of

from agentkit import JsonAgent, ModelError
from agentkit.core.messages import pending_calls, user
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer, call

NAMES = {
    "openai": "openai/gpt-4o-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
CUT = {"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}


@pytest.fixture(params=NAMES)
def wire(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request):
    return request.param


@pytest.fixture
def ended(world, wire, streamed, keys):
    """Run on a server that plays these replies, in either world: the answer and the history."""

    def play(*replies, **settings):
        history = [user("go")]
        ran = []

        def work(number: int = 0) -> str:
            """Works."""
            ran.append(number)
            return f"worked {number}"

        with ModelServer(*replies) as server:
            model = LiteLLMModel(NAMES[wire], api_base=server.api_base(wire), timeout=60)
            flow = flow_of(model, work, history=history, stream=streamed, **settings)
            try:
                answer = world.drive(flow)[0].value
            finally:
                assert server.violations == []
                assert pending_calls(history) == []
        return answer, ran, server

    return play


DONE = call("final_answer", text="done")


def test_the_last_request_forces_the_answer(ended):
    answer, ran, server = ended(call("work"), DONE, max_steps=1)
    assert (answer, ran, len(server.requests)) == ("done", [0], 2)
    assert "final_answer" in str(server.requests[-1].body)


def test_empty_and_cut_replies_are_asked_again(ended, wire):
    cut_call = {**call("work", number=1), "finish_reason": CUT[wire]}
    cut_text = {"content": "Once upon", "finish_reason": CUT[wire]}
    answer, ran, _ = ended({"content": ""}, cut_call, cut_text, {"content": " a time:"}, call("work", number=2), DONE)
    assert (answer, ran) == ("done", [2])


def test_a_run_that_is_stuck_ends_with_a_final_request(ended):
    answer, _, server = ended(*[call("work")] * 6, DONE)
    assert (answer, len(server.requests)) == ("done", 7)


def test_a_refusal_is_an_error(ended, wire):
    reason = {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"}[wire]
    with pytest.raises(ModelError) as caught:
        ended({"content": "I cannot.", "finish_reason": reason})
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("world", ["sync", "async"])
def test_a_provider_that_refuses_force_is_left_to_choose(world, wire, streamed, keys):
    def work() -> str:
        """Works."""
        return "worked"

    async def arun(agent):
        return [event async for event in agent.astream("Go.")][-1].result if streamed else await agent.arun("Go.")

    no = {"status": 400, "message": "tool_choice 'final_answer' is not supported by this model"}
    with ModelServer(call("work"), no, DONE) as server:
        model = LiteLLMModel(NAMES[wire], api_base=server.api_base(wire), timeout=60)
        agent = JsonAgent(work, model=model, max_steps=1)
        if world == "async":
            result = asyncio.run(arun(agent))
        else:
            result = list(agent.stream("Go."))[-1].result if streamed else agent.run("Go.")
        assert server.violations == []
    forced, free = (request.body for request in server.requests[1:])
    assert (result.answer, result.stopped) == ("done", "max_steps")
    assert "final_answer" in str(forced.get("tool_choice") or forced["toolConfig"])
    assert free.get("tool_choice", "auto") in ("auto", {"type": "auto"})
    assert (
        free.get("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}})["functionCallingConfig"]["mode"] == "AUTO"
    )
    assert free["tools"] == forced["tools"]
    assert "'work'" not in str(free["tools"])
