"""From plain JSON Schema to the providers' dialects, by example; the rules in full are in tests/schemas/formats."""

import json
from enum import IntEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentkit import DefinitionError, JsonTool
from agentkit.schemas.formats import Declaration, Loss, RenderedTool, render


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = Field(9, gt=0)


class Dog(BaseModel):
    kind: Literal["dog"]


class Tree(BaseModel):
    value: int
    kids: list["Tree"] = []


def walk(
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]],
    level: Level,
    place: tuple[float, str],
    when: Literal["now", "later"] | None = None,
    tags: Annotated[set[str], Field(min_length=1)] = {"x"},
):
    """Takes the pets for a walk."""


def plant(tree: Tree):
    """Plants a tree."""


def count(words: dict[str, int]):
    """Counts."""


def rest():
    """Does nothing."""


def of(function, format, references="inline") -> RenderedTool:
    return render(Declaration(function.__name__, function.__doc__, JsonTool(function).parameters), format, references)


def raw(properties, format, **root) -> RenderedTool:
    return render(Declaration("f", "F.", {"type": "object", "properties": properties, **root}), format)


def moved(rendering):
    return {
        (loss.path.removeprefix("parameters.properties."), loss.keyword): loss.moved_to for loss in rendering.losses
    }


def test_openai_wraps_the_schema():
    assert of(rest, "openai").schema == {
        "type": "function",
        "function": {
            "name": "rest",
            "description": "Does nothing.",
            "parameters": {"additionalProperties": False, "properties": {}, "type": "object"},
        },
    }


def test_anthropic_and_mcp_are_flat():
    assert list(of(walk, "anthropic").schema) == ["name", "description", "input_schema"]
    assert list(of(walk, "mcp").schema) == ["name", "description", "inputSchema"]
    assert of(walk, "mcp").losses == ()


def test_the_plain_schema_is_described_and_has_no_title():
    schema = of(walk, "json").schema
    assert schema["description"] == "Takes the pets for a walk."
    assert "title" not in schema
    assert "oneOf" in schema["properties"]["pets"]["items"]
    assert of(walk, "json").losses == ()


def test_the_responses_api_has_the_strict_fields_flat():
    chat = of(walk, "openai_strict").schema
    responses = of(walk, "responses").schema
    assert responses == {"type": "function", **chat["function"]}
    assert responses["strict"] is True


def test_a_strict_tool_requires_everything_and_takes_null_for_what_has_a_default():
    parameters = of(walk, "openai_strict").schema["function"]["parameters"]
    properties = parameters["properties"]
    assert parameters["required"] == ["pets", "level", "place", "when", "tags"]
    assert properties["level"] == {"enum": [1, 2], "type": "integer"}
    assert properties["tags"]["anyOf"][1] == {"type": "null"}
    assert properties["tags"]["description"] == 'default: ["x"]; each item once'
    assert properties["place"]["items"] == {"anyOf": [{"type": "number"}, {"type": "string"}]}
    assert properties["place"]["description"] == "in this order: number, string"
    cat = properties["pets"]["items"]["anyOf"][0]
    assert cat["properties"]["lives"] == {
        "exclusiveMinimum": 0,
        "type": ["integer", "null"],
        "description": "default: 9",
    }


def test_a_tool_that_cannot_be_strict_is_sent_without_and_has_a_reason():
    rendering = of(count, "openai_strict")
    assert rendering.schema["function"]["strict"] is False
    assert rendering.schema["function"]["parameters"] == of(count, "openai").schema["function"]["parameters"]
    assert rendering.losses == (
        Loss("parameters.properties.words", "strict", True, "dropped: the keys of an open mapping cannot be listed"),
    )


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({f"p{number}": {"type": "string"} for number in range(5001)}, "5001 properties, 5000 are allowed"),
        ({"e": {"enum": [f"v{number}" for number in range(1001)]}}, "enum values, 1000 are allowed"),
        ({"e": {"enum": ["v" * 60 + str(number) for number in range(251)]}}, "characters in an enum of more than 250"),
        ({"n" * 120_001: {"type": "string"}}, "characters of names and values, 120000 are allowed"),
    ],
)
def test_a_tool_too_large_for_strict_has_a_reason(properties, reason):
    rendering = raw(properties, "openai_strict")
    assert rendering.schema["function"]["strict"] is False
    assert reason in rendering.losses[-1].moved_to


@pytest.mark.parametrize(("depth", "strict"), [(9, True), (10, False)])
def test_strict_has_ten_levels_of_objects(depth, strict):
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"inner": schema}}
    assert raw({"x": schema}, "openai_strict").schema["function"]["strict"] is strict


def test_strict_keeps_what_it_supports_and_reports_the_rest():
    told = {
        "a": {"type": "string", "format": "uri", "minLength": 3, "description": "A link."},
        "b": {"type": "string", "format": "uuid", "pattern": "^a"},
        "c": {"type": "string", "pattern": "(?!x)y"},
        "d": {"$ref": "#/$defs/D", "description": "The D."},
    }
    definitions = {"D": {"type": "object", "properties": {"d": {"$ref": "#/$defs/D"}}}}
    rendering = raw(told, "openai-strict", required=[*told], **{"$defs": definitions})
    assert rendering.schema["function"]["parameters"]["properties"] == {
        "a": {"type": "string", "description": "A link. (format: uri; at least 3 characters)"}
        | {"description": "A link. (at least 3 characters; format: uri)"},
        "b": {"type": "string", "format": "uuid", "pattern": "^a"},
        "c": {"type": "string", "description": "pattern: (?!x)y"},
        "d": {"description": "The D.", "anyOf": [{"$ref": "#/$defs/D"}]},
    }
    assert moved(rendering) == {
        ("a", "minLength"): "description",
        ("a", "format"): "description",
        ("c", "pattern"): "description",
    }


def test_the_format_of_gemini_reports_what_it_cannot_hold():
    rendering = of(walk, "gemini")
    properties = rendering.schema["parameters"]["properties"]
    assert properties["level"] == {"type": "string", "enum": ["1", "2"], "format": "enum"}
    assert properties["when"] == {"enum": ["now", "later"], "type": "string", "format": "enum", "nullable": True}
    assert properties["place"]["minItems"] == properties["place"]["maxItems"] == 2
    assert properties["tags"]["description"] == 'default: ["x"]; each item once'
    cat = properties["pets"]["items"]["anyOf"][0]
    assert cat["properties"]["kind"] == {"type": "string", "enum": ["cat"], "format": "enum"}
    assert cat["properties"]["lives"] == {"type": "integer", "minimum": 1, "description": "default: 9"}
    assert moved(rendering)["level", "enum"] == "replaced by enum of strings"
    assert moved(rendering)["parameters", "additionalProperties"] == "dropped: validated by agentkit all the same"
    words = of(count, "gemini").schema["parameters"]["properties"]["words"]
    assert words == {"type": "object", "description": "any keys, each value: integer"}


def test_gemini_has_nothing_beside_any_of():
    either = {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "description": "Either."}
    assert raw({"x": either}, "gemini").schema["parameters"]["properties"]["x"] == {
        "anyOf": [
            {"type": "integer", "description": "Either.", "nullable": True},
            {"type": "string", "nullable": True},
        ]
    }


def test_gemini_unrolls_a_recursive_type_to_a_depth():
    rendering = of(plant, "gemini")
    assert "$ref" not in json.dumps(rendering.schema)
    assert json.dumps(rendering.schema).count('"kids"') == 3
    assert [loss.moved_to for loss in rendering.losses if loss.keyword == "$ref"] == [
        "dropped: Tree is followed to depth 3"
    ]


def test_a_large_recursive_type_is_followed_less_deeply_for_gemini():
    """Each level of a type that contains itself 20 times is 20 times as large: three levels would be 8,000 schemas."""
    node = {"type": "object", "properties": {f"part_{place}": {"$ref": "#/$defs/Node"} for place in range(20)}}
    tool = JsonTool.from_schema(
        name="draw",
        description="Draw.",
        parameters={"properties": {"node": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}},
        call=dict,
    )
    assert {loss.moved_to for loss in tool.losses("gemini")} == {"dropped: Node is followed to depth 2"}
    parts = tool.schema("gemini")["parameters"]["properties"]["node"]["properties"]
    assert parts["part_1"]["properties"]["part_7"] == {"type": "object", "description": "another Node"}


def test_gemini_leaves_empty_parameters_out():
    assert of(rest, "gemini").schema == {"name": "rest", "description": "Does nothing."}


@pytest.mark.parametrize(("format", "alias"), [("anthropic", "gro_e"), ("gemini", "gro_e")])
def test_names_that_a_provider_refuses_have_an_alias_and_come_back(format, alias):
    inner = {"type": "array", "items": {"type": "object", "properties": {"größe": {"type": "integer"}}}}
    rendering = raw({"größe": {"type": "integer", "description": "In cm."}, "list": inner, "groe": {}}, format)
    parameters = rendering.schema["input_schema" if format == "anthropic" else "parameters"]
    (alias,) = rendering.aliases
    assert parameters["properties"][alias]["description"] == 'In cm. (named "größe")'
    assert list(parameters["properties"]) == [alias, "list", "groe"]
    assert rendering.restore_names({alias: 1, "list": [{alias: 2}], "groe": 3}) == {
        "größe": 1,
        "list": [{"größe": 2}],
        "groe": 3,
    }
    assert ("parameters", "properties") in moved(rendering)


def test_alternatives_at_the_root_become_one_object():
    root = {
        "oneOf": [
            {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {
                "type": "object",
                "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
                "required": ["name"],
            },
        ]
    }
    assert render(Declaration("f", "F.", root), "anthropic").schema["input_schema"] == {
        "type": "object",
        "properties": {"id": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "name": {"type": "string"}},
        "required": [],
        "description": "either id or name, [id]",
    }


def test_a_response_format_is_an_object_or_wrapped():
    tree = of(plant, "response_format").schema
    assert tree["type"] == "json_schema"
    assert list(tree["json_schema"]) == ["name", "description", "strict", "schema"]
    numbers = render(Declaration("numbers", "", {"type": "array", "items": {"type": "integer"}}), "response_format")
    assert numbers.schema["json_schema"] == {
        "name": "numbers",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"answer": {"type": "array", "items": {"type": "integer"}}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    }
    assert numbers.losses == (Loss("parameters", "type", "array", "replaced by an object with the property answer"),)
    either = {"anyOf": [Cat.model_json_schema(), Dog.model_json_schema()]}
    assert (
        "answer"
        in render(Declaration("pet", "", either), "response_format").schema["json_schema"]["schema"]["properties"]
    )


def test_a_long_description_is_cut_for_openai_alone_and_continues_in_the_schema():
    text = "\n\n".join(f"Paragraph {number}. " + "word " * 40 for number in range(10)).strip()
    declaration = Declaration("f", text, {"type": "object", "properties": {}})
    function = render(declaration, "openai").schema["function"]
    assert len(function["description"]) <= 1024
    assert f"{function['description']}\n\n{function['parameters']['description']}" == text
    assert [loss.moved_to for loss in render(declaration, "openai").losses] == ["parameters.description"]
    assert render(declaration, "anthropic").schema["description"] == text
    for unbroken in ("x" * 1500, "word " * 300):
        function = render(Declaration("f", unbroken, {"type": "object"}), "responses").schema
        whole = function["description"] + function["parameters"]["description"]
        assert whole.replace(" ", "") == unbroken.replace(" ", "")


def test_references_are_kept_where_asked_for():
    def feed(first: Cat, second: Cat):
        """Feeds."""

    assert "$defs" not in of(feed, "openai").schema["function"]["parameters"]
    kept = of(feed, "openai", "keep").schema["function"]["parameters"]
    assert kept["properties"] == {"first": {"$ref": "#/$defs/Cat"}, "second": {"$ref": "#/$defs/Cat"}}
    assert list(kept["$defs"]) == ["Cat"]


def test_numbers_that_json_does_not_have_are_dropped():
    rendering = raw({"x": {"type": "number", "maximum": float("inf"), "default": [float("nan")]}}, "json")
    assert rendering.schema["properties"] == {"x": {"type": "number"}}
    assert {loss.keyword for loss in rendering.losses} == {"maximum", "default"}


def test_a_misspelt_format_is_refused_with_the_names_there_are():
    tool = Declaration("f", "", {})
    with pytest.raises(DefinitionError, match=r"Did you mean 'openai'\?.*anthropic, gemini"):
        render(tool, "openia")
    assert render(tool, "openai-strict") == render(tool, "openai_strict")
    with pytest.raises(DefinitionError, match="Formats: json"):
        render(tool, "zzz")
