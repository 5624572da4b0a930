"""No setting is accepted and then ignored, or taken for its opposite."""

import pytest
from pydantic import BaseModel

from agentkit import DefinitionError, JsonAgent, JsonTool, ToolRegistry, annotate, evidence
from agentkit.testing import ScriptedModel, answer, call


def price_of(item: str) -> float:
    """Look up the price of an item."""
    return 3.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repair": "none"}, "repair must be one of 'safe', 'off', got 'none'"),
        ({"sequential": "no"}, "sequential must be True or False, got 'no'"),
        ({"memory": "no"}, "memory must be True or False, got 'no'"),
        ({"description": 5}, "description must be a text or a function of the run, got 5"),
        ({"max_steps": True}, "max_steps must be an integer >= 1, got True"),
        ({"limits": 5}, "limits must be Limits"),
        ({"checks": [1]}, r"checks must be a list of functions, got \[1\]"),
        ({"checks": print}, "checks must be a list of functions, got <built-in function print>"),
        (
            {"checks": [lambda: True]},
            "checks: <lambda> must take the answer, or .*Material .*too many positional arguments",
        ),
        (
            {"checks": [lambda answer, material, more: True]},
            "checks: <lambda> must take the answer, or .*missing a required",
        ),
        ({"checks": [evidence]}, r"checks: evidence must take the answer.* or evidence\(\) if that returns the check"),
        ({"policies": [1]}, r"policies must be a list of functions, got \[1\]"),
        ({"policies": 5}, "policies must be a list of functions, got 5"),
        ({"listeners": ["log"]}, r"listeners must be a list of functions, got \['log'\]"),
        ({"journal": 5}, "journal must be the path of a file or a URL, or a store, got 5"),
        ({"journal": True}, "journal must be the path of a file or a URL, or a store, got True"),
        ({"journal": ""}, "journal must be the path of a file or a URL, or a store, got ''"),
        ({"journal": "sqlite:///"}, "journal must be the path of a file or a URL, or a store, got 'sqlite:///'"),
        ({"model": ""}, "model must be a name .* got ''"),
        ({"model": "openai/x", "timeout": -1}, "timeout must be a number of seconds above 0"),
        ({"model": "offline", "timeout": 5}, "The embedded offline model has no options"),
        ({"approvals": {}}, r"It is an option of a run: agent\.run\(query, approvals=\.\.\.\)"),
        ({"answers": {}}, r"It is an option of a run: agent\.run\(query, answers=\.\.\.\)"),
        ({"record": "x.jsonl"}, r"It is an option of a run: agent\.run\(query, record=\.\.\.\)"),
        ({"model": ScriptedModel(), "temperature": 0}, "A model that is an object has its own options"),
    ],
)
def test_a_setting_of_an_agent_that_would_be_ignored_is_refused(settings, message):
    with pytest.raises(DefinitionError, match=message):
        JsonAgent(price_of, **{"model": "offline", **settings})


def test_options_of_a_fallback_model_are_accepted_beside_an_object():
    JsonAgent(price_of, model=ScriptedModel(), temperature=0, fallback_models="openai/gpt-4o-mini")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_result": -1}, "max_result must be an integer >= 1 or None, got -1"),
        ({"max_result": "9"}, "max_result must be an integer >= 1 or None, got '9'"),
        ({"retries": True, "effect": "read"}, "retries must be an integer >= 0, got True"),
        ({"sequential": "no"}, "sequential must be one of True, False, got 'no'"),
        ({"describe_returns": 1}, "describe_returns must be one of True, False, got 1"),
        ({"effect": ["read"]}, r"effect must be one of .* got \['read'\]"),
    ],
)
def test_a_setting_of_a_tool_that_would_be_ignored_is_refused(settings, message):
    with pytest.raises(DefinitionError, match=message):
        JsonTool(price_of, **settings)


class PriceArgs(BaseModel):
    item: str


@pytest.mark.parametrize("keyword", ["parameters", "overload"])
def test_a_keyword_for_functions_is_explained_where_the_arguments_are_a_class(keyword):
    with pytest.raises(TypeError, match=f"the tool 'price': {keyword}= is for tools from functions"):
        JsonTool.from_model(PriceArgs, price_of, name="price", description="Price.", **{keyword: None})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ToolRegistry(price_of, repair="none"), "repair must be one of"),
        (lambda: ToolRegistry(price_of, answer=price_of), r"answer must be a JsonTool, got <function price_of"),
        (lambda: annotate(Exception, duplicates="drop"), 'annotate: duplicates must be "dedupe" or "error"'),
    ],
)
def test_an_unknown_setting_is_refused(use, message):
    with pytest.raises(DefinitionError, match=message):
        use()


def test_an_empty_model_of_a_run_is_refused():
    with pytest.raises(DefinitionError, match="model must be a name"):
        JsonAgent(price_of, model="offline").run("price of tea", model="")


@pytest.mark.parametrize("concurrency", ["2", 1.5, True])
def test_the_concurrency_of_many_queries_is_an_integer(concurrency):
    with pytest.raises(Exception, match="concurrency must be an integer >= 1"):
        JsonAgent(price_of, model="offline").map(["price of tea"], concurrency=concurrency)


def test_tools_of_an_agent_with_a_prefix_are_without_its_answer_tool():
    first = JsonAgent(price_of, model="offline")
    second = JsonAgent(
        first.tools.prefixed("shop_"), model=ScriptedModel(call("shop_price_of", item="tea"), answer("x"))
    )
    assert sorted(second.tools) == ["final_answer", "shop_price_of"]
    assert second("What is the price of tea?") == "x"
