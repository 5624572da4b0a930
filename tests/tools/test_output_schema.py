"""What a tool returns: its output schema, in MCP's form, and in the description where that is wanted."""

from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from agentkit import JsonTool, ToolExecutor, tool


class Weather(BaseModel):
    """The weather of a day."""

    degrees: float = Field(description="In Celsius.")
    rain: bool = False


WEATHER = {
    "type": "object",
    "description": "The weather of a day.",
    "properties": {
        "degrees": {"type": "number", "description": "In Celsius."},
        "rain": {"type": "boolean", "default": False},
    },
    "required": ["degrees"],
}


def forecast(place: str) -> Weather:
    """Forecasts the weather of tomorrow.

    Args:
        place: A city.

    Returns:
        The weather at noon,
        local time.
    """
    return Weather(degrees=20)


def returning(annotation: Any) -> JsonTool[..., Any]:
    def act():
        """Acts."""

    act.__annotations__ = {"return": annotation}
    return JsonTool(act)


def test_the_return_type_and_the_docstring_are_the_output_schema():
    schema = JsonTool(forecast).output_schema
    assert schema == {**WEATHER, "description": "The weather at noon, local time.", "required": schema["required"]}
    assert returning(Weather).output_schema["description"] == "The weather of a day."
    assert "noon" not in JsonTool(forecast).description


KINDS = [
    (str, {"type": "string"}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Annotated[int, Field(ge=0)], {"type": "integer", "minimum": 0}),
    (Iterator[int], {"type": "array", "items": {"type": "integer"}}),
    (Generator[str, None, None], {"type": "array", "items": {"type": "string"}}),
    (AsyncIterator[str], {"type": "array", "items": {"type": "string"}}),
    (Awaitable[int], {"type": "integer"}),
    (Coroutine[Any, Any, int], {"type": "integer"}),
    (None, None),
    (Any, None),
    (object(), None),
]


@pytest.mark.parametrize(("annotation", "schema"), KINDS, ids=[str(kind).split(" at 0x")[0] for kind, _ in KINDS])
def test_return_types(annotation, schema):
    assert returning(annotation).output_schema == schema


def test_a_type_without_a_schema_leaves_the_text():
    class Frame:
        pass

    def load() -> Frame:
        """Loads a table.

        Returns:
            The table.
        """

    assert JsonTool(load).output_schema == {"description": "The table."}


STYLES = [
    "Counts.\n\nReturns:\n    How many there are.",
    "Counts.\n\nReturns:\n    int: How many there are.",
    "Counts.\n\nReturns\n-------\nint\n    How many there are.",
    "Counts.\n\n:returns: How many there are.",
    "Counts.\n\n@return: How many there are.",
]


@pytest.mark.parametrize("text", STYLES)
def test_every_style_of_docstring_has_returns(text):
    def count() -> int:
        return 1

    count.__doc__ = text
    assert JsonTool(count).output_schema == {"type": "integer", "description": "How many there are."}


def test_mcp_has_an_object_as_the_output():
    assert JsonTool(forecast).schema("mcp")["outputSchema"]["properties"].keys() == {"degrees", "rain"}
    assert returning(list[Weather]).schema("mcp")["outputSchema"] == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": returning(Weather).output_schema}},
        "required": ["result"],
    }
    assert "outputSchema" not in returning(Any).schema("mcp")


class Tree(BaseModel):
    """A tree."""

    trees: "list[Tree]" = []


@pytest.mark.parametrize("annotation", [Tree, list[Tree]])
def test_a_recursive_output_keeps_its_definitions_at_the_root(annotation):
    schema = returning(annotation).schema("mcp")["outputSchema"]
    assert schema["type"] == "object"
    assert list(schema["$defs"]) == ["Tree"]


@pytest.mark.parametrize("format", ["json", "openai", "openai_strict", "anthropic", "gemini", "responses"])
def test_other_formats_do_not_state_the_output(format):
    described = JsonTool(forecast).schema(format)
    assert "outputSchema" not in str(described)
    assert "noon" not in str(described)


def test_returns_stand_in_the_description_where_wanted():
    described = tool(describe_returns=True)(forecast)
    assert described.description.startswith(
        "Forecasts the weather of tomorrow.\n\nReturns: The weather at noon, local time."
    )
    assert '"degrees":{"description":"In Celsius.","type":"number"}' in described.description
    assert described.openai_schema["function"]["description"] == described.description
    assert described.renamed("other").description == described.description
    assert JsonTool(described).description == described.description


def test_scalars_and_missing_types_are_described_briefly():
    def count() -> int:
        """Counts."""

    def act():
        """Acts."""

    assert JsonTool(count, describe_returns=True).description == "Counts.\n\nReturns: an integer"
    assert JsonTool(act, describe_returns=True).description == "Acts."


def test_the_setting_means_the_same_for_every_way_to_make_a_tool():
    class Args(BaseModel):
        place: str

    class ForecastTool(ToolExecutor[Args]):
        """Forecasts."""

        describe_returns = True

        def execute(self, args: Args) -> int:
            return 1

    def handle(args: Args) -> int:
        """Forecasts."""

    schema = {"type": "object", "properties": {}}
    made = [
        JsonTool(ForecastTool()),
        JsonTool.from_model(Args, handle, name="f", description="Forecasts.", describe_returns=True),
        JsonTool.from_schema(name="f", description="Forecasts.", parameters=schema, call=handle, describe_returns=True),
        JsonTool(partial(forecast, "Rome"), description="Forecasts.", describe_returns=True),
    ]
    assert all("\n\nReturns: " in tool.description for tool in made)
