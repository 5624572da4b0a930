"""Tools: from a function with a docstring to something a model can call."""

import asyncio
import json

import pytest
from pydantic import BaseModel

from agentkit import DefinitionError, ExceptionInfo, JsonTool, ToolError, ToolRegistry, tool


@tool
def add(a: int, b: int) -> int:
    """Adds two integers.

    Args:
        a: The first integer.
        b: The second integer.
    """
    return a + b


@tool(name="times", description="Multiplies.")
async def multiply(a: int, b: int) -> int:
    return a * b


def test_a_decorated_function_is_still_the_function():
    assert add(2, 3) == 5
    assert add.__name__ == "add"
    assert add.__doc__.startswith("Adds two integers.")
    assert asyncio.run(multiply(2, 3)) == 6


def test_the_tool_knows_its_name_description_and_parameters():
    assert (add.name, add.description) == ("add", "Adds two integers.")
    assert (multiply.name, multiply.description) == ("times", "Multiplies.")
    assert add.parameters["properties"]["a"] == {"type": "integer", "description": "The first integer."}
    assert "add" in repr(add)


def test_raw_arguments_are_validated_and_the_function_called():
    assert add.call_with_raw_arguments('{"a": 2, "b": "3"}') == 5
    assert add.call_with_raw_arguments({"a": 2, "b": 3}) == 5
    assert multiply.call_with_raw_arguments('{"a": 2, "b": 3}') == 6
    assert asyncio.run(multiply.acall_with_raw_arguments('{"a": 2, "b": 3}')) == 6
    assert asyncio.run(add.acall_with_raw_arguments('{"a": 2, "b": 3}')) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"a": 2}', "b: missing"),
        ('{"a": 2, "b": "five"}', 'b: input should be a valid integer, unable to parse string as an integer (got "five")'),
        ('{"a": 2, "b": 3, "c": 4}', "c: there is no such parameter; the parameters are: a, b"),
        ("[2, 3]", "one JSON object with the parameters a, b"),
        ('{"a": 2, ', "not valid JSON"),
        ('"2"', "one JSON object"),
        ('{"a": NaN, "b": 1}', "a: input should be a finite number"),
        ("", "a: missing"),
    ],
)  # fmt: skip
def test_bad_arguments_are_reported_with_parameter_and_reason(arguments, said):
    info = add.call_with_raw_arguments(arguments)
    assert isinstance(info, ExceptionInfo)
    assert info.name == "ValidationError"
    assert said in info.message
    assert "http" not in info.message


def test_many_mistakes_are_reported_briefly():
    info = add.call_with_raw_arguments(json.dumps({f"p{number}": "x" * 500 for number in range(30)}))
    assert len(info.message) < 600
    assert "more" in info.message


@pytest.mark.parametrize("nothing", ["", "null", "{}", {}])
def test_nothing_and_null_are_fine_for_a_tool_without_required_parameters(nothing):
    @tool
    def ping(count: int = 1) -> str:
        """Pings."""
        return "pong" * count

    assert ping.call_with_raw_arguments(nothing) == "pong"


def test_what_a_tool_raises_becomes_a_value():
    @tool
    def fail(how: str) -> None:
        """Fails."""
        raise {"own": ToolError("Ask for a city in Europe."), "key": KeyError("x")}[how]

    assert str(fail.call_with_raw_arguments({"how": "own"})) == "Ask for a city in Europe."
    assert fail.call_with_raw_arguments({"how": "key"}) == ExceptionInfo("KeyError", "'x'")


def test_an_exception_without_a_text_is_reported_by_its_class():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def fail() -> None:
        """Fails."""
        raise Mute

    assert str(fail.call_with_raw_arguments("{}")) == "Mute"


def test_a_tool_without_description_is_refused_and_shown_what_to_write():
    with pytest.raises(DefinitionError, match=r"'bare' has no description.*def bare"):

        @tool
        def bare(a: int) -> int:
            return a


def test_a_decorated_function_without_wraps_is_refused_and_shown_what_to_write():
    def logged(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @logged
    def double(a: int) -> int:
        """Double a number."""
        return a * 2

    with pytest.raises(
        DefinitionError, match=r"'wrapper' has no description.*write @functools\.wraps\(function\) above"
    ):
        JsonTool(double)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(DefinitionError, match=r"must be a text, got 3\. Write @tool\(name='add'\)"):
        JsonTool(int.bit_length, name=3)


def test_a_lambda_needs_a_name():
    with pytest.raises(DefinitionError, match="a lambda has no name"):
        JsonTool(lambda a: a, description="Gives back.")
    assert JsonTool(lambda a: a, name="same", description="Gives back.").call_with_raw_arguments({"a": 1}) == 1


@pytest.mark.parametrize("name", ["get weather", "a.b", "1st", "x" * 65, "größe", "", "-x"])
def test_a_name_that_a_provider_would_refuse_is_refused_with_a_better_one(name):
    with pytest.raises(DefinitionError, match=r"name=|has no name") as caught:
        JsonTool.from_schema(name=name, description="Does.", parameters={}, call=print)
    suggestion = str(caught.value).partition("name='")[2].partition("'")[0]
    JsonTool.from_schema(name=suggestion, description="Does.", parameters={}, call=print)


def test_methods_can_be_tools():
    class Shop:
        def __init__(self, price: int) -> None:
            self.price = price

        @tool(parameters={"count": "How many."})
        def total(self, count: int) -> int:
            """Price of several."""
            return self.price * count

    assert Shop(3).total(count=2) == 6
    assert Shop(3).total.parameters["properties"] == {"count": {"type": "integer", "description": "How many."}}
    assert ToolRegistry.from_object(Shop(3))["total"].parameters == Shop(3).total.parameters
    assert Shop(3).total.call_with_raw_arguments('{"count": 4}') == 12


class TestRawSchemas:
    SCHEMA = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
        "additionalProperties": False,
    }

    def make(self, **changes):
        settings = {"name": "forecast", "description": "Forecasts.", "parameters": self.SCHEMA} | changes
        return JsonTool.from_schema(call=lambda **given: given, **settings)

    def test_the_schema_is_offered_as_it_is_and_arguments_are_checked_against_it(self):
        tool = self.make()
        assert tool.parameters == self.SCHEMA
        assert tool.openai_schema["function"]["parameters"] == self.SCHEMA
        assert tool.call_with_raw_arguments('{"city": "Rome", "days": 2}') == {"city": "Rome", "days": 2}

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ("{}", "city: missing, it is required"),
            ('{"city": "Rome", "days": 0}', "days: is less than the minimum of 1 (got 0)"),
            ('{"city": "Rome", "wind": 1}', "wind"),
            ('{"city": "Ro', "JSON"),
            ("[1]", "one JSON object"),
            ('{"city": "Rome", "days": NaN}', "JSON"),
        ],
    )
    def test_bad_arguments_are_reported(self, arguments, said):
        info = self.make().call_with_raw_arguments(arguments)
        assert info.name == "ValidationError"
        assert said in info.message

    def test_an_invalid_schema_is_refused(self):
        with pytest.raises(DefinitionError, match=r"'forecast'.*\$\.properties\.a\.type"):
            self.make(parameters={"type": "object", "properties": {"a": {"type": "text"}}})
        with pytest.raises(DefinitionError, match="type 'object'"):
            self.make(parameters={"type": "string"})

    @pytest.mark.parametrize("reference", ["http://127.0.0.1:1/x", "file:///etc/hosts", "#/$defs/Missing"])
    def test_a_reference_that_leads_nowhere_is_refused_not_fetched(self, reference):
        with pytest.raises(DefinitionError, match="only references within"):
            self.make(parameters={"type": "object", "properties": {"a": {"$ref": reference}}})

    def test_without_parameters_it_takes_an_empty_object(self):
        assert self.make(parameters={}).call_with_raw_arguments("") == {}


def test_models_as_parameters_arrive_as_models():
    class Order(BaseModel):
        item: str
        count: int = 1

    @tool
    def buy(order: Order) -> str:
        """Buys."""
        return f"{order.count} {order.item}"

    assert buy.call_with_raw_arguments({"order": {"item": "tea", "count": "2"}}) == "2 tea"


def test_a_subclass_makes_tools_of_its_own_kind():
    class Own(JsonTool):
        """A tool of a kind of its own."""

    class Item(BaseModel):
        """An item."""

        name: str

    schema = {"type": "object", "properties": {}}
    assert isinstance(Own.from_schema(name="ping", description="Ping it.", parameters=schema, call=dict), Own)
    assert isinstance(Own.from_model(Item, lambda item: item.name), Own)
    assert isinstance(Own(add).renamed("plus"), Own)
