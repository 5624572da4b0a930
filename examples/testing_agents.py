"""Tests of one's own agent, for pytest or as they stand: by a script, over a faulty provider, under chaos.

None needs a key or a network; the agent that is tested here is, in earnest, JsonAgent(..., model="openai/gpt-4o-mini").
"""

from agentkit import JsonAgent
from agentkit.testing import ModelServer, ScriptedModel, answer, call, chaos


def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]


def make_clerk(model, **options) -> JsonAgent[float]:
    """Return the agent under test, for any model."""
    return JsonAgent([price_of], model=model, answer=float, **options)


LOOK = call("price_of", item="tea")
ANSWER = answer(3.5)


def test_the_clerk_corrects_its_own_mistake():
    model = ScriptedModel(call("price_of", article="tea"), LOOK, ANSWER)
    assert make_clerk(model)("What is tea?") == 3.5
    model.assert_done()
    error = model.requests[1].messages[-1]["content"]
    assert "item" in error
    return f"the model read: {error.splitlines()[0]}"


def test_the_clerk_survives_failures_of_its_provider():
    busy = {"status": 429, "headers": {"Retry-After": "0.01"}}
    with ModelServer(busy, LOOK, {"reset": True}, 503, ANSWER) as server:  # HTTP on this machine, as OpenAI speaks it
        agent = make_clerk("openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")
        assert agent("What is tea?") == 3.5
    assert server.violations == []  # nothing was sent that the provider would refuse
    return f"{len(server.requests)} requests for 2 replies"


def test_the_clerk_gives_the_same_answer_under_chaos():
    faults = set()
    for seed in range(50):
        model = chaos(ScriptedModel(LOOK, ANSWER), seed)
        assert make_clerk(model)("What is tea?") == 3.5
        faults |= {injected.fault for injected in model.injected}
    return f"50 runs, faults of {len(faults)} kinds: {', '.join(sorted(faults)[:4])}, ..."


if __name__ == "__main__":
    for name, test in [(name, value) for name, value in globals().items() if name.startswith("test_")]:
        print(f"passed: {name}\n        {test()}")
