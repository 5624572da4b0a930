"""Tools whose arguments stand together in one class, and tools that are classes."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field, model_validator

from agentkit import DefinitionError, ExceptionInfo, JsonAgent, JsonTool, ToolRegistry, call_function
from agentkit.schemas.signature import to_snake_case
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.definition import ToolExecutor


class GetWeatherArgs(BaseModel):
    """Retrieves the current weather of a place."""

    location: str = Field(description="City and country")
    units: Literal["celsius", "fahrenheit"] = "celsius"


class Range(BaseModel):
    start: int
    end: int

    @model_validator(mode="after")
    def in_order(self) -> "Range":
        if self.end < self.start:
            raise ValueError("end lies before start")
        return self


@dataclass
class MoveArgs:
    """Moves a piece.

    Attributes:
        square: Where to.
    """

    square: str
    hops: list[int] = field(default_factory=list)


class BookArgs(TypedDict):
    """Books a seat."""

    seat: Annotated[str, "Row and letter"]


class PairArgs(NamedTuple):
    """Adds a pair."""

    x: int
    y: int = 7


class TreeArgs(BaseModel):
    """Plants a tree."""

    value: int
    kids: list["TreeArgs"] = []


def get_weather(args: GetWeatherArgs) -> str:
    return f"{args.location} in {args.units}"


def test_a_function_over_an_args_model_is_a_flat_tool():
    tool = JsonTool(get_weather)
    assert (tool.name, tool.description) == ("get_weather", "Retrieves the current weather of a place.")
    assert tool.parameters["required"] == ["location"]
    assert tool.parameters["properties"]["location"] == {"type": "string", "description": "City and country"}
    assert "description" not in tool.parameters, "it is the tool's"
    assert tool.call_with_raw_arguments('{"location": "Rome"}') == "Rome in celsius"


def test_a_single_model_that_is_not_an_args_model_is_one_parameter():
    def draw(range: Range) -> int:
        """Draws."""
        return range.end - range.start

    assert JsonTool(draw).call_with_raw_arguments({"range": {"start": 1, "end": 5}}) == 4


@pytest.mark.parametrize(
    ("model", "name", "description", "arguments", "instance"),
    [
        (GetWeatherArgs, "get_weather", "Retrieves the current weather of a place.", {"location": "Rome"}, GetWeatherArgs(location="Rome")),
        (MoveArgs, "move", "Moves a piece.", {"square": "e4"}, MoveArgs("e4")),
        (BookArgs, "book", "Books a seat.", {"seat": "1A"}, {"seat": "1A"}),
        (PairArgs, "pair", "Adds a pair.", {"x": 1}, PairArgs(1)),
        (TreeArgs, "tree", "Plants a tree.", {"value": 1, "kids": [{"value": 2}]}, TreeArgs(value=1, kids=[TreeArgs(value=2)])),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_a_tool_from_a_model_and_a_handler(model, name, description, arguments, instance):
    def handler(args):
        return args

    tool = JsonTool.from_model(model, handler)
    assert (tool.name, tool.description) == (name, description)
    assert tool.parameters["type"] == "object"
    assert "title" not in tool.parameters
    value = tool.call_with_raw_arguments(arguments)
    assert value == instance
    assert type(value) is type(instance)
    assert isinstance(tool.call_with_raw_arguments({"nothing": 1}), ExceptionInfo)


def test_the_fields_of_a_named_tuple_have_their_types():
    tool = JsonTool.from_model(PairArgs, lambda pair: pair)
    assert tool.parameters["properties"] == {"x": {"type": "integer"}, "y": {"default": 7, "type": "integer"}}
    assert tool.call({"x": "1"}) == PairArgs(1)
    assert isinstance(tool.call_with_raw_arguments({"x": "one"}), ExceptionInfo)


def test_texts_of_the_fields_are_read_from_the_class():
    assert JsonTool.from_model(MoveArgs, print).parameters["properties"]["square"]["description"] == "Where to."
    assert JsonTool.from_model(BookArgs, print).parameters["properties"]["seat"]["description"] == "Row and letter"


def test_an_async_handler_is_awaited():
    async def handler(args: GetWeatherArgs) -> str:
        return args.location

    assert JsonTool.from_model(GetWeatherArgs, handler).call_with_raw_arguments({"location": "Rome"}) == "Rome"


def test_a_validator_of_the_model_tells_the_model():
    class RangeArgs(Range):
        """Takes a range."""

    info = JsonTool.from_model(RangeArgs, print).call_with_raw_arguments({"start": 5, "end": 1})
    assert "end lies before start" in info.message


def test_a_pydantic_model_as_a_tool_has_the_types_of_its_fields_and_returns_its_instance(world):
    tool = JsonTool(Range, description="Takes a range.")
    assert tool.parameters["properties"] == {"start": {"type": "integer"}, "end": {"type": "integer"}}
    problem = tool.call_with_raw_arguments('{"start": "one"}')
    assert problem.message.startswith("start: input should be a valid integer")
    assert "end lies before start" in tool.call_with_raw_arguments('{"start": 2, "end": 1}').message
    model = ScriptedModel(call("get_weather", location="Rome"), answer("done"))
    result = world.run(JsonAgent(GetWeatherArgs, model=model), "Go.")
    assert result.calls[0].value == GetWeatherArgs(location="Rome")
    assert call_function(GetWeatherArgs, '{"location": "Rome"}') == GetWeatherArgs(location="Rome")


@pytest.mark.parametrize("wrong", [int, str, dict, object])
def test_a_class_that_holds_no_arguments_is_refused(wrong):
    with pytest.raises(DefinitionError, match="cannot describe a tool's arguments"):
        JsonTool.from_model(wrong, print)


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("GetWeatherArgs", "get_weather"),
        ("HTTPGetArgs", "http_get"),
        ("GetURLArgs", "get_url"),
        ("Args", "args"),
        ("WeatherTool", "weather"),
        ("Search2Args", "search2"),
    ],
)
def test_the_name_of_a_class_in_snake_case(class_name, name):
    assert to_snake_case(class_name) == name


class WeatherTool(ToolExecutor[GetWeatherArgs]):
    """Tells the weather."""

    def __init__(self, answer: str = "sunny") -> None:
        self.answer = answer

    def execute(self, args: GetWeatherArgs) -> str:
        return f"{args.location}: {self.answer}"


class NamedTool(ToolExecutor[MoveArgs]):
    name = "make_a_move"
    description = "Makes a move."

    async def execute(self, args: MoveArgs) -> str:
        return args.square


def test_a_tool_as_a_class():
    registry = ToolRegistry(WeatherTool("rainy"), NamedTool)
    assert list(registry) == ["weather", "make_a_move"]
    assert registry["weather"].description == "Tells the weather."
    assert registry["make_a_move"].description == "Makes a move."
    assert registry.execute("weather", '{"location": "Rome"}').value == "Rome: rainy"
    assert registry.execute("make_a_move", '{"square": "e4"}').value == "e4"


def test_a_tool_as_a_class_in_an_agent(world):
    model = ScriptedModel(
        {"tool_calls": [{"name": "weather", "arguments": {"location": "Rome"}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]},
    )
    result = world.run(JsonAgent(WeatherTool, model=model), "weather?")
    assert result.messages[3]["content"] == "Rome: sunny"


def test_a_class_that_needs_arguments_is_refused_and_an_instance_taken():
    class Greeter(ToolExecutor[GetWeatherArgs]):
        """Greets."""

        def __init__(self, text: str) -> None:
            self.text = text

        def execute(self, args: GetWeatherArgs) -> str:
            return self.text

    with pytest.raises(DefinitionError, match=r"Greeter: its constructor needs arguments .*Pass an instance"):
        ToolRegistry(Greeter)
    assert ToolRegistry(Greeter("hi")).execute("greeter", '{"location": "x"}').value == "hi"


def test_a_class_without_declared_arguments_is_refused():
    class Nothing(ToolExecutor):
        """Nothing."""

        def execute(self, args):
            return None

    with pytest.raises(DefinitionError, match=r"class Nothing\(ToolExecutor\[MyArgs\]\)"):
        ToolRegistry(Nothing)


class Shop:
    def __init__(self) -> None:
        self.sold: list[str] = []

    def sell(self, item: str, note: Optional[str] = None) -> str:
        """Sells an item."""
        self.sold.append(item)
        return f"sold {item}"

    def stock(self) -> int:
        """Counts the stock."""
        return 3

    @staticmethod
    def hours() -> str:
        """Opening hours."""
        return "9 to 17"

    @classmethod
    def brand(cls) -> str:
        """The brand."""
        return cls.__name__

    @property
    def rent(self) -> int:
        raise RuntimeError("a property is not looked at")

    @cached_property
    def catalogue(self) -> dict[str, int]:
        raise RuntimeError("a cached property is not looked at")

    def _secret(self) -> None: ...


def test_all_methods_of_an_object_at_once():
    shop = Shop()
    registry = ToolRegistry.from_object(shop)
    assert set(registry) == {"sell", "stock", "hours", "brand"}
    registry.execute("sell", '{"item": "tea"}')
    assert shop.sold == ["tea"]
    assert set(ToolRegistry.from_object(Shop)) == {"hours", "brand"}
    assert list(ToolRegistry.from_object(shop, include=["stock", "sell"])) == ["stock", "sell"]
    assert set(ToolRegistry.from_object(shop, exclude=["sell"])) == {"stock", "hours", "brand"}


def test_a_class_without_methods_of_its_own_is_refused_with_how_to_name_an_object():
    class Till:
        def count(self) -> int:
            """Counts the money."""
            return 3

    with pytest.raises(DefinitionError, match=r"Till: the class has no .*ToolRegistry.from_object\(Till\(\.\.\.\)\)"):
        ToolRegistry.from_object(Till)
    assert set(ToolRegistry.from_object(Till())) == {"count"}


def test_a_method_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(DefinitionError, match=r"no public method 'sel'. Did you mean 'sell'\?"):
        ToolRegistry.from_object(Shop(), include=["sel"])
