"""From plain JSON Schema to the providers' dialects."""

import json
from enum import IntEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from agentkit import DefinitionError, JsonTool
from agentkit.formats import FORMATS
from agentkit.schemas import children


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, gt=0)


class Dog(BaseModel):
    kind: Literal["dog"]


class Tree(BaseModel):
    value: int
    kids: list["Tree"] = []


def walk(
    pets: list[Cat | Dog],
    level: Level,
    place: tuple[float, str],
    when: Literal["now", "later"] | None = None,
    weights: dict[str, float] = {},
):
    """Takes the pets for a walk."""


def plant(tree: Tree):
    """Plants a tree."""


def rest():
    """Does nothing."""


def nodes(schema):
    yield schema
    for _, inner in children(schema):
        yield from nodes(inner)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("function", [walk, plant, rest])
def test_every_format_is_plain_json_that_is_built_once(function, format):
    tool = JsonTool(function)
    json.dumps(tool.schema(format), allow_nan=False)
    assert tool.schema(format) is tool.schema(format)


def test_openai_wraps_the_schema():
    schema = JsonTool(walk).openai_schema
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "walk"
    assert schema["function"]["description"] == "Takes the pets for a walk."
    assert schema["function"]["parameters"]["type"] == "object"


def test_anthropic_is_flat_with_an_input_schema():
    assert set(JsonTool(walk).anthropic_schema) == {"name", "description", "input_schema"}
    assert JsonTool(walk).anthropic_schema["input_schema"]["type"] == "object"


def test_the_plain_schema_is_an_object_schema():
    assert JsonTool(walk).standard_schema["type"] == "object"
    assert JsonTool(walk).standard_schema["description"] == "Takes the pets for a walk."


def test_gemini_holds_only_what_its_parser_knows():
    known = {
        "type", "format", "description", "nullable", "enum", "items", "properties", "required", "minItems", "maxItems",
        "minLength", "maxLength", "minimum", "maximum", "pattern", "anyOf",
    }  # fmt: skip
    for function in (walk, plant):
        for node in nodes(JsonTool(function).gemini_schema["parameters"]):
            assert set(node) <= known
            if "anyOf" in node:
                assert set(node) == {"anyOf"}, "nothing stands beside anyOf"
            else:
                assert isinstance(node["type"], str)
            if "enum" in node:
                assert node["type"] == "string"
                assert all(isinstance(value, str) for value in node["enum"])
            if node.get("type") == "array":
                assert "items" in node


def test_gemini_says_in_the_description_what_it_cannot_hold():
    properties = JsonTool(walk).gemini_schema["parameters"]["properties"]
    assert properties["level"]["type"] == "integer"
    assert "one of: 1, 2" in properties["level"]["description"]
    cat = properties["pets"]["items"]["anyOf"][0]
    assert cat["properties"]["kind"]["enum"] == ["cat"]
    assert cat["properties"]["lives"]["minimum"] == 1
    assert properties["when"] == {"type": "string", "enum": ["now", "later"], "format": "enum", "nullable": True}
    assert "any keys" in properties["weights"]["description"]
    assert properties["place"]["minItems"] == 2


def test_gemini_unrolls_a_recursive_type_to_a_depth():
    text = json.dumps(JsonTool(plant).gemini_schema)
    assert "$ref" not in text
    assert text.count('"kids"') >= 2


def test_gemini_leaves_empty_parameters_out():
    assert "parameters" not in JsonTool(rest).gemini_schema


def test_a_misspelt_format_is_refused_with_the_names_there_are():
    with pytest.raises(DefinitionError, match=r"did you mean 'openai'\?.*anthropic, gemini"):
        JsonTool(rest).schema("openia")
