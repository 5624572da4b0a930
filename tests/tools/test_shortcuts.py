"""The short ways."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel

from agentkit import DefinitionError, JsonTool, call_function, function_to_json, schema


def add(a: int, b: int = 2) -> int:
    return a + b


@dataclass
class Point:
    """A point."""

    x: float
    y: float = 0.0


class Pair(BaseModel):
    left: Point
    right: Point


def test_function_to_json_is_the_openai_dict_without_filler():
    assert function_to_json(add) == {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }


def test_any_type_has_a_schema():
    assert schema(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert schema(Literal["a", "b"]) == {"type": "string", "enum": ["a", "b"]}
    assert schema(Point)["properties"]["x"] == {"type": "number"}
    assert schema(Point)["description"] == "A point."
    assert schema(Point, format="openai")["function"]["name"] == "point"
    assert schema(list[int], format="openai")["function"]["parameters"]["properties"]["answer"]["type"] == "array"
    assert schema(Point, format="response_format")["type"] == "json_schema"


def test_references_are_inlined_or_kept():
    assert "$ref" not in json.dumps(schema(Pair))
    kept = schema(Pair, references="keep")
    assert kept["properties"]["left"] == {"$ref": "#/$defs/Point"}


def test_what_cannot_be_described_is_refused():
    class Opaque:
        def __init__(self, *, secret):
            self.secret = secret

    with pytest.raises(DefinitionError):
        schema(Opaque)
    with pytest.raises(DefinitionError, match="no tool format"):
        schema(add, format="opnai")


FORMS = [
    {"a": 1, "b": 4},
    '{"a": 1, "b": 4}',
    {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 4}'}},
    {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1, "b": 4}'},
    {"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1, "b": 4}},
    {"functionCall": {"name": "add", "args": {"a": 1, "b": 4}}},
    {"name": "add", "args": {"a": 1, "b": 4}},
    {"arguments": '{"a": 1, "b": 4}'},
    {"arguments": {"a": 1, "b": 4}},
    '{"arguments": "{\\"a\\": 1, \\"b\\": 4}"}',
    '"{\\"a\\": 1, \\"b\\": 4}"',
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_call_is_taken_in_every_form(form):
    assert call_function(add, form) == 5
    assert JsonTool(add, description="Adds.").call(form) == 5


def test_an_sdks_object_is_taken_too():
    class Function(BaseModel):
        name: str
        arguments: str

    class Call(BaseModel):
        id: str
        function: Function

    assert call_function(add, Call(id="c", function=Function(name="add", arguments='{"a": 3}'))) == 5


def test_a_parameter_called_like_a_wrapping_is_a_parameter():
    def run(input: dict, arguments: str = "-") -> tuple:
        """Runs."""
        return input, arguments

    assert call_function(run, {"input": {"a": 1}, "arguments": "x"}) == ({"a": 1}, "x")


def test_wrong_arguments_are_a_value_error_and_own_errors_pass():
    with pytest.raises(ValueError, match="a: missing"):
        call_function(add, {})

    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call_function(fail, {})
    with pytest.raises(ValueError, match="JSON"):
        call_function(add, "{broken")


def test_a_coroutine_function_is_awaited_and_a_lambda_called():
    async def later(a: int) -> int:
        return a

    assert call_function(later, {"a": 1}) == 1
    assert call_function(lambda a: a, {"a": 2}) == 2
