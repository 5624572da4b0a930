"""Every format, over every signature, by its provider's published rules and by what the formats promise."""

import copy
import json

import pytest
from format_rules import RULES, every_schema, parameters_of
from format_signatures import RAW, SIGNATURES
from jsonschema import Draft202012Validator

from agentkit.schemas.formats import FORMATS, Declaration, render
from agentkit.schemas.functions import FunctionSchema

TABLE = {name: FunctionSchema(function).parameters for name, function in SIGNATURES.items()} | RAW


def rendered(name, format, references="inline"):
    return render(Declaration("take", "Takes it.", TABLE[name]), format, references)


everywhere = pytest.mark.parametrize("format", FORMATS)
every_name = pytest.mark.parametrize("name", TABLE)


def test_the_table_is_broad_and_has_every_format():
    assert len(TABLE) >= 100
    assert set(RULES) == set(FORMATS)


@everywhere
@pytest.mark.parametrize("references", ["inline", "keep"])
@every_name
def test_what_comes_out_is_what_the_provider_takes(name, format, references):
    assert list(RULES[format](rendered(name, format, references).schema)) == []


@everywhere
@every_name
def test_a_format_is_a_pure_function(name, format):
    before = copy.deepcopy(TABLE[name])
    first = rendered(name, format)
    second = rendered(name, format)
    assert json.dumps(before) == json.dumps(TABLE[name])
    assert json.dumps(first.schema, allow_nan=False) == json.dumps(second.schema, allow_nan=False)
    assert repr(first.losses) == repr(second.losses)
    own = containers(TABLE[name])
    for rendering in (first, second):
        found = list(containers(rendering.schema, []))
        assert len({id(part) for part in found}) == len(found), "a part stands in two places"
        losses = [part for loss in rendering.losses for part in containers(loss.value, [])]
        assert not {id(part) for part in own} & {id(part) for part in [*found, *losses]}, "shared with the input"


def containers(value, found=None):
    """All dicts and lists in a JSON value."""
    found = [] if found is None else found
    if isinstance(value, dict | list):
        assert type(value) in (dict, list)
        found.append(value)
        for inner in value.values() if isinstance(value, dict) else value:
            containers(inner, found)
    return found


@everywhere
@every_name
def test_parameters_keep_their_order(name, format):
    rendering = rendered(name, format)
    shown = list(parameters_of(format, rendering.schema).get("properties", {}))
    given = list(TABLE[name].get("properties", {}))
    if shown != ["answer"] and given:
        assert [rendering.aliases.get(key, key) for key in shown] == given


@pytest.mark.parametrize(
    "format", ["openai", "openai_strict", "responses", "response_format", "anthropic", "mcp", "json"]
)
@every_name
def test_inlined_references_stay_for_recursive_types_alone(name, format):
    schema = parameters_of(format, rendered(name, format).schema)
    for definition in schema.get("$defs", {}):
        assert leads_to(schema["$defs"][definition], definition, schema["$defs"], set()), (
            f"{definition} is not recursive"
        )
        assert "__" not in definition
        assert len(definition) <= 42


def leads_to(schema, goal, definitions, seen):
    for _, part in every_schema(schema):
        name = part.get("$ref", "").removeprefix("#/$defs/")
        if name == goal:
            return True
        if name and name not in seen:
            seen.add(name)
            if leads_to(definitions[name], goal, definitions, seen):
                return True
    return False


def test_keeping_references_keeps_them_once():
    kept = rendered("two_models_of_one_name", "openai", "keep").schema["function"]["parameters"]
    assert list(kept["$defs"]) == ["Cat"]
    assert kept["properties"]["a"] == {"$ref": "#/$defs/Cat"}
    assert set(rendered("homonyms", "anthropic", "keep").schema["input_schema"]["$defs"]) >= {"Cat", "Cat_2", "Tree"}
    assert "$ref" not in json.dumps(rendered("homonyms", "gemini", "keep").schema)


@every_name
def test_a_strict_tool_can_be_called_with_null_for_all_that_may_be_left_out(name):
    function = rendered(name, "openai_strict").schema["function"]
    if not function["strict"] or "properties" not in TABLE[name]:
        return
    optional = set(function["parameters"]["properties"]) - set(TABLE[name].get("required", ()))
    nulls = dict.fromkeys(function["parameters"]["properties"])
    wrong = {error.absolute_path[0] for error in Draft202012Validator(function["parameters"]).iter_errors(nulls)}
    assert not wrong & optional
    for place in set(TABLE[name].get("required", ())) - {"gone"}:
        if place in TABLE[name].get("properties", {}):
            takes_null = Draft202012Validator(
                {**TABLE[name]["properties"][place], "$defs": TABLE[name].get("$defs", {})}
            )
            assert takes_null.is_valid(None) == (place not in wrong), f"{place} is required"


NOT_STRICT = {
    "union_nested", "person", "open", "deep", "map", "map_models", "map_any", "map_int_keys", "map_literal", "mapping",
    "any", "object", "list", "dict", "list_any", "optional_dict", "star", "only_keywords", "bare",
    "map_or_none", "any_or_none", "list_or_none", "many_defaults", "empty_tuple", "hard_names", "root_alternatives",
    "conditions", "lists_of_types", "tuples", "all_of",
}  # fmt: skip


def test_a_tool_is_strict_unless_it_has_a_reason_not_to_be():
    assert {name for name in TABLE if not rendered(name, "responses").schema["strict"]} == NOT_STRICT


@pytest.mark.parametrize("name", TABLE)
def test_the_reasons_why_a_tool_is_not_strict_are_reported(name):
    rendering = rendered(name, "openai_strict")
    reasons = [loss for loss in rendering.losses if loss.keyword == "strict"]
    assert rendering.schema["function"]["strict"] == (not reasons)
    for reason in reasons:
        assert reason.path.startswith("parameters")
        assert reason.moved_to.startswith("dropped: ")
        assert len(reason.moved_to) > 12
