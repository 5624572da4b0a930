"""Agents over chaos, and chaos itself."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from play import WORLDS, Play, Sleeps, call, calls, final
from provider_rules import prepare_messages

from agentkit import JsonAgent, RunError, Session
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.testing import ScriptedModel, chaos
from agentkit.testing.rules import openai
from agentkit.testing.scripted import FAULTS, MAX_USELESS_REPLIES, USELESS
from agentkit.tools.registry import ToolRegistry


def double(n: int) -> int:
    """Doubles a number."""
    return 2 * n


SCRIPT = [calls(call("double", {"n": 1}), call("double", {"n": 2})), calls(call("double", {"n": 3})), final("6")]


def check(history: Any) -> None:
    """Raise if OpenAI would refuse the conversation."""
    openai.check({"model": "m", "messages": prepare_messages(history, "openai")}, {})


@pytest.mark.parametrize("world", WORLDS)
def test_a_run_over_chaos_comes_to_the_right_answer_or_to_a_documented_error(world: str, slept: Sleeps):
    play = Play(world, slept)
    found = Counter[str]()
    ends = Counter[str]()
    for seed in range(40):
        model = chaos(ScriptedModel([*SCRIPT, *SCRIPT]), seed, rate=0.5)
        agent = JsonAgent(double, model=model)
        for _ in range(2):
            try:
                answer = play.run(agent, "?")[0].answer
                assert answer == "6"
                ends["answer"] += 1
            except RunError as error:
                ends[type(error).__name__] += 1
                break
            finally:
                check(agent.history)
        found.update(injected.fault for injected in model.injected)
    assert set(found) == set(FAULTS)
    assert ends["answer"] > 0.9 * ends.total()


def test_the_same_seed_is_the_same_chaos_in_every_world(slept: Sleeps):
    def injected(seed: int, world: str) -> Any:
        model = chaos(ScriptedModel(SCRIPT), seed, rate=0.6)
        Play(world, slept).run(JsonAgent(double, model=model), "?")
        return model.injected

    assert len({json.dumps([vars_of(one) for one in injected(3, world)]) for world in WORLDS}) == 1
    assert injected(3, "sync") != injected(4, "sync")


def vars_of(injected: Any) -> Any:
    return [injected.request, injected.fault]


def test_without_a_rate_nothing_happens():
    model = ScriptedModel(SCRIPT)
    wrapped = chaos(model, 1, rate=0.0)
    assert JsonAgent(double, model=wrapped)("?") == "6"
    assert (wrapped.injected, wrapped.name) == ([], model.name)
    model.assert_done()


def test_useless_replies_do_not_pile_up():
    model = chaos(ScriptedModel(SCRIPT * 100), 5, rate=0.9)
    for _ in range(60):
        try:
            JsonAgent(double, model=model).run("?", session=Session())
        except RunError:
            continue
    useless = [injected.request for injected in model.injected if injected.fault in USELESS]
    in_a_row = longest = 1
    for before, after in pairwise(useless):
        in_a_row = in_a_row + 1 if after == before + 1 else 1
        longest = max(longest, in_a_row)
    assert 1 < longest <= MAX_USELESS_REPLIES


def test_a_model_without_tools_is_never_made_to_call_one():
    model = chaos(ScriptedModel(["hello"] * 200), 1, rate=1.0)
    for _ in range(100):
        try:
            reply = list(model.ask(Request([user("?")], ToolRegistry())))[-1]
        except RunError:
            continue
        assert reply.message["content"] == "hello"  # type: ignore[union-attr]
