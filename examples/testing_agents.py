"""Tests of one's own agent, for pytest or as they stand: by a script, over a faulty provider, under chaos.

None needs a key or a network; the agent that is tested here is, in earnest, JsonAgent(..., model="openai/gpt-4o-mini").
"""

from agentkit import JsonAgent
from agentkit.testing import ModelServer, ScriptedModel, chaos


def price_of(item: str) -> float:
    """Looks up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]


def clerk(model, **options) -> JsonAgent:
    """The agent under test: written once, asked with any model."""
    return JsonAgent([price_of], model=model, answer=float, **options)


LOOK = {"tool_calls": [{"name": "price_of", "arguments": {"item": "tea"}}]}
ANSWER = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": 3.5}}]}


def test_the_clerk_mends_its_own_mistake():
    wrong = {"tool_calls": [{"name": "price_of", "arguments": {"article": "tea"}}]}
    model = ScriptedModel(wrong, LOOK, ANSWER)
    assert clerk(model)("What is tea?") == 3.5
    model.assert_done()
    told = model.requests[1].messages[-1]["content"]
    assert "item" in told
    return f"the model was told: {told.splitlines()[0]}"


def test_the_clerk_outlives_a_bad_day_of_its_provider():
    busy = {"status": 429, "headers": {"Retry-After": "0.01"}}
    with ModelServer(busy, LOOK, {"reset": True}, 503, ANSWER) as server:  # HTTP on this machine, as OpenAI speaks it
        agent = clerk("openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")
        assert agent("What is tea?") == 3.5
    assert server.violations == []  # nothing was sent that the provider would refuse
    return f"{len(server.requests)} requests for 2 replies"


def test_the_clerk_keeps_its_head_in_chaos():
    faults = set()
    for seed in range(50):
        model = chaos(ScriptedModel(LOOK, ANSWER), seed)
        assert clerk(model)("What is tea?") == 3.5
        faults |= {injected.fault for injected in model.injected}
    return f"50 runs, faults of {len(faults)} kinds: {', '.join(sorted(faults)[:4])}, ..."


if __name__ == "__main__":
    for name, test in [(name, value) for name, value in globals().items() if name.startswith("test_")]:
        print(f"passed: {name}\n        {test()}")
