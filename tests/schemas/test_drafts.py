"""Schemas of drafts 4 and 7, which servers and generators still write, are read as those drafts mean them."""

import pytest
from jsonschema import Draft4Validator, Draft7Validator

from agentkit import DefinitionError, ExceptionInfo, JsonTool

POINT = {"type": "array", "items": [{"type": "number"}, {"type": "number"}]}
DRAFTS = {
    "a tuple": (Draft7Validator, POINT, [[1, 2], [1, "x"], [1, 2, "x"], [1], []]),
    "a closed tuple": (Draft7Validator, {**POINT, "additionalItems": False}, [[1, 2], [1, 2, 3]]),
    "a tuple with a rest": (
        Draft7Validator,
        {**POINT, "additionalItems": {"type": "array", "items": [{"type": "string"}]}},
        [[1, 2, ["a"]], [1, 2, [3]], [1, 2, 3]],
    ),
    "a tuple in a tuple": (Draft7Validator, {"items": [POINT]}, [[[1, 2]], [["x"]], [1]]),
    "an empty tuple": (Draft7Validator, {"items": [], "additionalItems": False}, [[], [1]]),
    "no tuple": (Draft7Validator, {"items": {"type": "string"}, "additionalItems": False}, [["a"], [1]]),
    "exclusive bounds": (
        Draft4Validator,
        {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
        [0, 1, 9, 10],
    ),
    "dependencies": (
        Draft7Validator,
        {"dependencies": {"card": ["name"], "cash": {"required": ["currency"], "properties": {"currency": POINT}}}},
        [{"card": 1}, {"card": 1, "name": 2}, {"cash": 1}, {"cash": 1, "currency": [1]}, {"cash": 1, "currency": [""]}],
    ),
    "addresses inside": (
        Draft7Validator,
        {"$id": "#/properties/value", "items": [{"$id": "#/properties/value/items", "type": "string"}]},
        [["a"], [1]],
    ),
    "a pattern of another dialect": (
        Draft7Validator,
        {"patternProperties": {"^(?P<name>[a-z]+)$": {"type": "integer"}}, "dependencies": {}},
        [{"a": 1}, {"a": "x"}, {"A": "x"}],
    ),
}


@pytest.mark.parametrize("name", DRAFTS)
def test_values_are_judged_as_the_draft_judges_them(name):
    validator, schema, values = DRAFTS[name]
    tool = JsonTool.from_schema(
        name="take", description="Take it.", parameters={"properties": {"value": schema}}, call=lambda value: value
    )
    for value in values:
        got = tool.call_with_raw_arguments({"value": value})
        assert isinstance(got, ExceptionInfo) is not validator(schema).is_valid(value), (value, got)
    for dialect in ("openai", "openai_strict", "responses", "anthropic", "gemini", "mcp"):
        assert tool.schema(dialect)


def test_definitions_are_read_alike():
    parameters = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/take.json",
        "definitions": {"point": POINT},
        "properties": {"value": {"$ref": "#/definitions/point"}},
        "examples": "one",
    }
    tool = JsonTool.from_schema(name="take", description="Take it.", parameters=parameters, call=lambda value: value)
    assert tool.call_with_raw_arguments({"value": [1, 2]}) == [1, 2]
    assert "is not of type 'number'" in tool.call_with_raw_arguments({"value": [1, "x"]}).message
    assert "prefixItems" not in str(parameters)


def test_what_no_draft_allows_is_refused():
    with pytest.raises(DefinitionError, match=r"not a valid JSON Schema at \$.properties.value.type"):
        JsonTool.from_schema(
            name="take", description="T.", parameters={"properties": {"value": {"type": "text"}}}, call=dict
        )
