"""Options of one run: they replace or extend those of the agent, for this run alone."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from agentkit import DefinitionError, Injected, JsonAgent, LimitExceeded, Limits, Pending, RunContext, Session, ToolCall
from agentkit.agents.options import Approved
from agentkit.events import ModelAsked, RunFinished
from agentkit.policies import Label, PersonAnswer, around, ask
from agentkit.testing import ModelServer, ScriptedModel, answer, call


class User:
    def __init__(self, name: str) -> None:
        self.name = name


def greet(user: Injected[User]) -> str:
    """Greets the user."""
    return f"Hello {user.name}"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_each_run_has_its_own_deps(world):
    model = ScriptedModel(*[call("greet"), answer("done")] * 3)
    agent = JsonAgent(greet, model=model, deps=User("Ada"))
    results = [world.run(agent, "?", deps=deps, session=Session()) for deps in (User("Bob"), User("Eve"))]
    results.append(world.run(agent, "?", session=Session()))
    assert [result.calls[0].value for result in results] == ["Hello Bob", "Hello Eve", "Hello Ada"]


def greet_by_context(run: RunContext[User]) -> str:
    """Greets."""
    return f"Hello {run.deps.name}"


@pytest.mark.parametrize("function", [greet, greet_by_context])
def test_deps_that_are_missing_are_a_mistake_of_the_developer_before_the_first_request(world, function):
    model = ScriptedModel(call(function.__name__), answer("done"))
    agent = JsonAgent(function, model=model)  # its runs may give them
    with pytest.raises(
        DefinitionError, match=r"deps: .*User.* Pass it as JsonAgent\(\.\.\., deps=my_user\) or agent\.run"
    ):
        world.run(agent, "?")
    assert (model.requests, agent.session.messages) == ([], [])
    assert world.run(agent, "?", deps=User("Ada")).calls[0].value == "Hello Ada"


def test_deps_that_do_not_suit_are_refused_when_the_agent_is_made():
    with pytest.raises(DefinitionError, match="deps: expected exactly one User for a tool's parameter, found 0"):
        JsonAgent(greet, model=ScriptedModel(), deps=["Ada"])


def test_limits_and_steps_hold_for_one_run(world):
    script = [call("add", a=number, b=1) for number in range(4)]
    agent = JsonAgent(
        add, model=ScriptedModel([*script, answer("at the limit"), call("add", a=1, b=1), answer("done")])
    )
    result = world.run(agent, "?", max_steps=4)
    assert (result.answer, result.stopped) == ("at the limit", "max_steps")
    assert world.run(agent, "?").stopped == "answer"
    agent = JsonAgent(add, model=ScriptedModel([*script[:3], answer("done")]))
    assert world.run(agent, "?", limits=Limits(tool_calls=2)).stopped == "tool_calls"


class TestLimits:
    """Limits of an agent and of a run, and their spellings."""

    def test_a_run_inherits_what_it_does_not_give(self, world):
        script = [call("add", a=number, b=1) for number in range(3)]
        agent = JsonAgent(
            add, model=ScriptedModel([*script, answer("done")] * 3), limits=Limits(tool_calls=2, tokens=10**6)
        )
        assert world.run(agent, "?", limits=Limits(tokens=10**5)).stopped == "tool_calls"
        agent.session.clear()
        given = world.run(agent, "?", limits=Limits(tool_calls=None)).trace.limits
        assert given == {"steps": 50, "tokens": 10**6}
        agent.session.clear()
        assert world.run(agent, "?", limits=None).trace.limits == {"steps": 50}

    def test_those_of_calls_and_results_hold_for_one_run(self, world):
        def read() -> str:
            """Reads."""
            return "x" * 1_000

        agent = JsonAgent(read, model=ScriptedModel([call("read"), answer("a")] * 3), limits=Limits(result_chars=100))
        texts = []
        for how in ({}, {"limits": Limits(result_chars=500)}, {"limits": Limits(result_chars=None)}):
            texts.append(world.run(agent, "?", session=Session(), **how).calls[0].content)
        assert [text.count("x") < size for text, size in zip(texts, (101, 501, 0), strict=True)] == [True, True, False]
        assert texts[2] == "x" * 1_000

    def test_the_time_of_a_request_holds_for_one_run(self, world):
        model = ScriptedModel([answer("a")] * 3)
        agent = JsonAgent(add, model=model, limits=Limits(request_seconds=7))
        for limits in (Limits(), Limits(request_seconds=3), Limits(request_seconds=None)):
            world.run(agent, "?", limits=limits)
        assert [request.timeout for request in model.requests] == [7, 3, None]

    def test_a_named_model_has_the_time_of_a_request(self, world):
        with ModelServer([answer("a")] * 3) as server:
            agent = JsonAgent(add, model="openai/gpt-4o", api_base=server.url, api_key="sk-test")
            for limits in (Limits(), Limits(request_seconds=3), Limits(request_seconds=None)):
                world.run(agent, "?", limits=limits)
        assert [len(server.requests), agent.settings["max_steps"]] == [3, 50]

    def test_no_steps_are_no_limit(self, world):
        script = [call("add", a=number, b=1) for number in range(60)]
        agent = JsonAgent(add, model=ScriptedModel([*script, answer("done")]), limits=Limits(steps=None))
        assert (world.run(agent, "?").steps, agent.settings["max_steps"]) == (61, None)

    @pytest.mark.parametrize(
        ("option", "value", "name"),
        [
            ("tool_timeout", 5, "tool_seconds"),
            ("tool_timeout", None, "tool_seconds"),
            ("request_timeout", 7, "request_seconds"),
            ("max_result", 100, "result_chars"),
        ],
    )
    def test_the_spellings_of_the_last_release_warn_and_hold(self, option, value, name):
        with pytest.warns(
            DeprecationWarning, match=rf"{option}= is deprecated: write limits=Limits\({name}={value}\)"
        ) as seen:
            agent = JsonAgent(add, model=ScriptedModel(), limits=Limits(tokens=5), **{option: value})
        assert [Path(warning.filename).name for warning in seen] == ["test_run_options.py"]
        assert getattr(agent.spec.settings.limits, name) == value
        assert agent.spec.settings.limits.tokens == 5

    def test_the_default_time_of_a_request_is_left_out(self):
        with pytest.warns(DeprecationWarning, match="request_timeout= is deprecated: leave it out"):
            agent = JsonAgent(add, model=ScriptedModel(), request_timeout=None)
        assert "request_seconds" not in agent.spec.settings.limits.given

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    @pytest.mark.parametrize(
        "given",
        [
            {"max_steps": 3, "limits": Limits(steps=3)},
            {"tool_timeout": 3, "limits": Limits(tool_seconds=None)},
            {"request_timeout": 3, "limits": Limits(request_seconds=3)},
            {"max_result": 3, "limits": Limits(result_chars=3)},
        ],
    )
    def test_a_limit_that_is_given_twice_is_refused(self, world, given):
        with pytest.raises(DefinitionError, match=r"the limit is given twice\. Leave .*= out"):
            JsonAgent(add, model=ScriptedModel(), **given)
        if "max_steps" in given:
            with pytest.raises(DefinitionError, match="the limit is given twice"):
                world.run(JsonAgent(add, model=ScriptedModel()), "?", **given)

    @pytest.mark.parametrize(("option", "name"), [("tool_timeout", "tool_seconds"), ("tokens", "tokens")])
    def test_an_option_of_a_run_that_is_a_limit_names_it(self, world, option, name):
        with pytest.raises(TypeError, match=rf"unexpected option '{option}'. Write limits=Limits\({name}=\.\.\.\)"):
            world.run(JsonAgent(add, model=ScriptedModel()), "?", **{option: 3})

    def test_they_are_shown_as_they_are_given(self):
        assert repr(Limits(steps=3, tokens=None)) == "Limits(steps=3, tokens=None)"
        assert replace(Limits(steps=3), seconds=2) == Limits(steps=3, seconds=2)
        assert pickle.loads(pickle.dumps(Limits(steps=3))) == Limits(steps=3)


def test_listeners_and_policies_are_added(world):
    order = []
    seen = []

    def note(name):
        def handle(effect):
            order.append(name)
            return (yield from ask(effect))

        return around(handle)

    agent = JsonAgent(add, model=ScriptedModel(answer("a"), answer("b")), policies=[note("agent's")])
    world.run(agent, "?", policies=[note("run's")], listeners=[seen.append])
    assert order[:2] == ["agent's", "run's"]
    assert any(isinstance(event, RunFinished) for event in seen)
    seen.clear(), order.clear()
    world.run(agent, "?")
    assert not seen
    assert set(order) == {"agent's"}


def test_options_go_to_the_model_of_this_run(world):
    with ModelServer([answer("a"), answer("b"), answer("c")]) as server:
        agent = JsonAgent(add, model="openai/gpt-4o", api_base=server.url, api_key="sk-test", temperature=0.7)
        world.run(agent, "?", temperature=0.1, max_tokens=50)
        world.run(agent, "?")
        world.run(agent, "?", temperature=0.1, max_tokens=50)
        sent = [(request.body["temperature"], request.body.get("max_tokens")) for request in server.requests]
    assert sent == [(0.1, 50), (0.7, None), (0.1, 50)]


def test_they_hold_for_the_agents_to_which_a_run_is_handed_over(world):
    second = JsonAgent(greet, description="Greets.", model=ScriptedModel(call("greet"), answer("done")))
    first = JsonAgent(add, model=ScriptedModel(call("transfer_to_second", reason="greet")), handoffs={"second": second})
    seen = []
    result = world.run(first, "?", deps=User("Bob"), listeners=[seen.append])
    assert "Hello Bob" in [outcome.value for outcome in result.calls]
    assert {event.model for event in seen if isinstance(event, ModelAsked)} == {"scripted"}
    assert first.deps is None
    assert second.deps is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "max_steps must be an integer >= 1, got 0"),
        ({"limits": 5}, "limits must be Limits"),
        ({"listeners": print}, "listeners must be a list of functions"),
        ({"temperature": 0.5}, "temperature: the model 'scripted', an object, takes no options of a run"),
    ],
)
def test_what_is_not_valid_is_refused_before_the_run(world, options, message):
    agent = JsonAgent(add, model=ScriptedModel())
    with pytest.raises(DefinitionError, match=message):
        world.run(agent, "?", **options)
    assert not agent.session.messages


def test_a_label_is_a_label(world):
    with pytest.raises(TypeError, match=r"label must be a Label, such as Label.untrusted\('a form'\), got 'a form'"):
        world.run(JsonAgent(add, model=ScriptedModel()), "?", label="a form")
    with pytest.raises(
        ValueError, match="Label: integrity must be one of untrusted, trusted, user, developer, got 'me'"
    ):
        Label("me")
    with pytest.raises(TypeError, match=r"Label: readers must be a tuple of recipients, got a text: \('ann',\)"):
        Label("user", readers="ann")


def test_what_is_an_option_of_the_agent_is_refused_with_that_hint():
    with pytest.raises(
        TypeError, match=r"unexpected option 'tools'. It is an option of the agent: JsonAgent\(\.\.\., tools"
    ):
        JsonAgent(add).run("?", tools=[add])
    with pytest.raises(TypeError, match=r"unexpected option 'timeout'. It is an option of the agent: "):
        JsonAgent(add).run("?", timeout=1)
    with pytest.raises(TypeError, match=r"unexpected option 'history'. A conversation is a session: agent\.run\("):
        JsonAgent(add).run("?", history=[])
    with pytest.raises(TypeError, match=r"unexpected option 'temprature'. Did you mean 'temperature'"):
        JsonAgent(add).run("?", temprature=1)


def test_every_form_of_a_decision_has_a_type_by_what_waits_its_call_and_its_id():
    by_id, by_call, by_pending, _ = get_args(Approved)
    for mapping, key in ((by_id, str), (by_call, ToolCall), (by_pending, Pending)):
        assert get_args(mapping)[0] is key
        assert {bool, str, dict[str, Any], PersonAnswer} <= {*get_args(get_args(mapping)[1])}


def test_a_run_beyond_its_own_limit_names_the_limit(world):
    agent = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=1), call("add", a=1, b=2)))
    with pytest.raises(LimitExceeded):
        world.run(agent, "?", max_steps=1)
