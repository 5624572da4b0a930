"""Arguments as models write them: accepted, repaired with a record, or explained."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal

import pytest
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentkit import ExceptionInfo, JsonAgent, JsonTool, ToolError, ToolRegistry, secrets, tool
from agentkit.core.messages import ToolCall
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call_tools import ToolStarted
from agentkit.views.log import render_event


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    item: str
    count: int = 1
    note: str | None = None


@dataclass
class Cat:
    kind: Literal["Cat"]
    lives: int


@dataclass
class Dog:
    kind: Literal["Dog"]
    barks: bool


def forecast(
    city: str,
    days: int = 1,
    unit: Literal["Celsius", "Fahrenheit"] = "Celsius",
    tags: list[str] | None = None,
    limits: dict[str, int] | None = None,
    ratio: float | None = 0.5,
    nick: str | None = None,
) -> dict[str, Any]:
    """Forecasts."""
    return {name: value for name, value in locals().items() if value != DEFAULTS.get(name, "?")}


DEFAULTS = {"days": 1, "unit": "Celsius", "tags": None, "limits": None, "ratio": 0.5, "nick": None}


def buy(order: Order, express: bool = False) -> dict[str, Any]:
    """Buys."""
    return {"order": order.model_dump(exclude_defaults=True), **({"express": True} if express else {})}


def choose(level: Literal[1, 2, 3], size: Size = Size.SMALL, mixed: Literal["ab", "AB", "c"] = "c") -> dict[str, Any]:
    """Chooses."""
    return {"level": level, "size": size.value, "mixed": mixed}


def pets(animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]], user_name: str = "") -> dict[str, Any]:
    """Keeps."""
    return {"animals": [vars(animal) for animal in animals], **({"user_name": user_name} if user_name else {})}


def wrapping(arguments: dict[str, int], input: str = "") -> dict[str, Any]:
    """Takes parameters that are called like wrappings."""
    return {"arguments": arguments, **({"input": input} if input else {})}


def ping(count: int = 1) -> dict[str, Any]:
    """Pings."""
    return {} if count == 1 else {"count": count}


RAW = JsonTool.from_schema(
    name="raw",
    description="Raw.",
    call=lambda **given: given,
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1},
            "share": {"type": "number"},
            "on": {"type": "boolean"},
            "code": {"anyOf": [{"type": "string", "pattern": "^x"}, {"type": "integer"}]},
            "unit": {"enum": ["C", "F", 7]},
            "day": {"type": ["string", "null"], "pattern": "^[0-9]{4}$"},
            "place": {"$ref": "#/$defs/Place"},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "Place": {"type": "object", "properties": {"northEast": {"type": "boolean"}}, "required": ["northEast"]}
        },
    },
)
SHOOT = JsonTool.from_schema(
    name="shoot",
    description="Required keys with defaults, as zod lists them.",
    call=lambda **given: given,
    parameters={
        "type": "object",
        "properties": {
            "scale": {"enum": ["css", "device"], "default": "css"},
            "size": {
                "type": "object",
                "properties": {"width": {"type": "integer", "default": 5}, "height": {"type": "integer"}},
                "required": ["width", "height"],
            },
            "area": {
                "anyOf": [
                    {"type": "object", "properties": {"x": {"default": 0}, "y": {}}, "required": ["x"]},
                    {"type": "object", "properties": {"left": {}, "y": {}}, "required": ["left"]},
                ]
            },
        },
        "required": ["scale"],
    },
)
TOOLS = ToolRegistry(forecast, buy, choose, pets, wrapping, ping, RAW, SHOOT)
ROME = {"city": "Rome"}

# name, what the model wrote, the value (None: refused), kinds of the receipts, or what the refusal says
SLIPS = [
    # syntax
    ("forecast", '```json\n{"city": "Rome"}\n```', ROME, "code fence"),
    ("forecast", '```\n{"city": "Rome"}```', ROME, "code fence"),
    ("forecast", '```{"city": "Rome"}```', ROME, "code fence"),
    ("forecast", '{"city": "Rome",}', ROME, "trailing comma"),
    ("forecast", '{"city": "Rome", "tags": ["a",],}', ROME | {"tags": ["a"]}, "trailing comma"),
    ("forecast", "{'city': 'Rome'}", ROME, "single quotes"),
    ("forecast", "{'city': 'say \"hi\"'}", {"city": 'say "hi"'}, "single quotes"),
    ("forecast", "{'city': \"it's\"}", {"city": "it's"}, "single quotes"),
    ("forecast", "{'city': 'it\\'s'}", {"city": "it's"}, "single quotes, escaped single quote"),
    ("forecast", '{"city": "it\\\'s"}', {"city": "it's"}, "escaped single quote"),
    ("forecast", '{city: "Rome"}', ROME, "unquoted key"),
    ("forecast", '{"city": "Rome", "tags": None}', ROME, "Python literal"),
    ("buy", "{'order': {'item': 'tea'}, 'express': True}", {"order": {"item": "tea"}, "express": True},
     "single quotes, Python literal"),
    ("forecast", '<|python_tag|>{"city": "Rome"}<|eom_id|>', ROME, "special token"),
    ("forecast", '{"city": "Rome"}</tool_call>', ROME, "special token"),
    ("forecast", '{"city": "Rome"}<｜tool▁call▁end｜>', ROME, "special token"),
    ("forecast", '{"city": "a<|b|>"}', {"city": "a<|b|>"}, ""),
    ("forecast", '{"city": "Rome"}{"city": "Rome"}', ROME, "concatenated objects"),
    ("forecast", '{}{"city": "Rome"}', ROME, "concatenated objects"),
    ("forecast", '{"city": "Rome"}}', ROME, "surplus bracket"),
    ("forecast", '{"city": "two\nlines\t"}', {"city": "two\nlines\t"}, "line break in a string"),
    ("forecast", '\ufeff{"city": "Rome"}', ROME, "white space"),
    ("forecast", '"{\\"city\\": \\"Rome\\"}"', ROME, "double encoding"),
    ("forecast", '{\\"city\\": \\"Rome\\"}', ROME, "double encoding"),
    ("forecast", '{"city": "x\\ud800y"}', {"city": "x\ufffdy"}, "half a surrogate pair"),
    ("forecast", '{"city": "\\ud83d\\ude00"}', {"city": "\U0001f600"}, ""),
    ("forecast", '{"city": "Rome", "city": "Rome"}', ROME, ""),
    # values
    ("forecast", '{"city": "Rome", "tags": "[\\"a\\", \\"b\\"]"}', ROME | {"tags": ["a", "b"]}, "array as a string"),
    ("forecast", '{"city": "Rome", "tags": "[\'a\']"}', ROME | {"tags": ["a"]}, "array as a string"),
    ("forecast", '{"city": "Rome", "limits": "{\\"a\\": 1}"}', ROME | {"limits": {"a": 1}}, "object as a string"),
    ("buy", '{"order": "{\\"item\\": \\"tea\\"}"}', {"order": {"item": "tea"}}, "object as a string"),
    ("forecast", '{"city": "Rome", "tags": "null"}', ROME, "null as a string"),
    ("forecast", '{"city": "Rome", "tags": ""}', ROME, "null as a string"),
    ("forecast", '{"city": "Rome", "ratio": "None"}', ROME | {"ratio": None}, "null as a string"),
    ("forecast", '{"city": "null", "nick": "None"}', {"city": "null", "nick": "None"}, ""),
    ("forecast", '{"city": ""}', {"city": ""}, ""),
    ("forecast", '{"city": "Rome", "days": null, "unit": null}', ROME, "null for the default; null for the default"),
    ("buy", '{"order": {"item": "tea", "count": null}}', {"order": {"item": "tea"}}, "null for the default"),
    ("forecast", '{"city": "Rome", "unit": "celsius"}', ROME, "spelling of an option"),
    ("forecast", '{"city": "Rome", "unit": "FAHRENHEIT"}', ROME | {"unit": "Fahrenheit"}, "spelling of an option"),
    ("choose", '{"level": "2"}', {"level": 2, "size": "small", "mixed": "c"}, "spelling of an option"),
    ("choose", '{"level": 1, "size": "LARGE"}', {"level": 1, "size": "large", "mixed": "c"}, "spelling of an option"),
    ("pets", '{"animals": [{"kind": "cat", "lives": 9}]}', {"animals": [{"kind": "Cat", "lives": 9}]},
     "spelling of an option"),
    ("raw", '{"city": "Rome", "days": "3", "share": "0.5", "on": "true"}', ROME | {"days": 3, "share": 0.5, "on": True},
     "integer as a string; number as a string; boolean as a string"),
    ("raw", '{"city": "Rome", "unit": "c"}', ROME | {"unit": "C"}, "spelling of an option"),
    ("raw", '{"city": "Rome", "unit": "7"}', ROME | {"unit": 7}, "spelling of an option"),
    ("raw", '{"city": "Rome", "day": "None"}', ROME | {"day": None}, "null as a string"),
    ("raw", '{"city": "Rome", "tags": "[\\"a\\"]"}', ROME | {"tags": ["a"]}, "array as a string"),
    ("raw", '{"city": "Rome", "days": null}', ROME, "null for the default"),
    # shapes and keys
    ("forecast", '{"arguments": {"city": "Rome"}}', ROME, "wrapped in 'arguments'"),
    ("forecast", '{"parameters": {"city": "Rome"}}', ROME, "wrapped in 'parameters'"),
    ("forecast", '{"input": "{\\"city\\": \\"Rome\\"}"}', ROME, "wrapped in 'input'"),
    ("forecast", '{"forecast": {"city": "Rome"}}', ROME, "wrapped in 'forecast'"),
    ("forecast", '{"name": "forecast", "arguments": {"city": "Rome"}}', ROME, "wrapped in 'arguments'"),
    ("raw", '{"parameters": {"City": "Rome"}}', ROME, "wrapped in 'parameters'; spelling of a key"),
    ("wrapping", '{"arguments": {"arguments": 1}}', {"arguments": {"arguments": 1}}, ""),
    ("wrapping", '{"arguments": {"a": 1}, "input": "x"}', {"arguments": {"a": 1}, "input": "x"}, ""),
    ("buy", '{"item": "tea", "count": 2}', {"order": {"item": "tea", "count": 2}}, "fields laid flat"),
    ("buy", '{"item": "tea", "express": true}', {"order": {"item": "tea"}, "express": True}, "fields laid flat"),
    ("buy", '{"arguments": {"item": "tea"}}', {"order": {"item": "tea"}}, "wrapped in 'arguments'; fields laid flat"),
    ("forecast", '{"City": "Rome"}', ROME, "spelling of a key"),
    ("pets", '{"animals": [], "userName": "Ann"}', {"animals": [], "user_name": "Ann"}, "spelling of a key"),
    ("buy", '{"order": {"Item": "tea"}}', {"order": {"item": "tea"}}, "spelling of a key"),
    ("raw", '{"city": "Rome", "place": {"north_east": true}}', ROME | {"place": {"northEast": True}},
     "spelling of a key"),
    ("forecast", "```json\n{'arguments': {'CITY': 'Rome', 'tags': '[\"a\",]', 'unit': 'celsius',}}\n```",
     ROME | {"tags": ["a"]}, "code fence, single quotes, trailing comma; wrapped in 'arguments'; spelling of a key; "
     "spelling of an option; array as a string"),
    ("shoot", "{}", {"scale": "css"}, "default for a missing key"),
    ("shoot", '{"scale": "device"}', {"scale": "device"}, ""),
    ("shoot", '{"Scale": "device"}', {"scale": "device"}, "spelling of a key"),
    ("shoot", '{"arguments": {"scale": "device"}}', {"scale": "device"}, "wrapped in 'arguments'"),
    ("shoot", '{"arguments": {}}', {"scale": "css"}, "wrapped in 'arguments'; default for a missing key"),
    ("shoot", '{"size": {"height": 2}}', {"size": {"height": 2, "width": 5}, "scale": "css"},
     "default for a missing key; default for a missing key"),
    # nothing at all
    ("ping", "", {}, ""),
    ("ping", "null", {}, ""),
    ("ping", " {} ", {}, ""),
    ("ping", '{"arguments": {}}', {}, "wrapped in 'arguments'"),
    # refused
    ("shoot", '{"scal": "device"}', None, "scale: missing"),
    ("shoot", '{"size": {}}', None, "size.height: missing"),
    ("shoot", '{"scale": "css", "area": {"y": 1}}', None, "area.x: missing"),
    ("forecast", '{"city": "Ro', None, "cut off after 12 characters"),
    ("forecast", '{"city": "Rome"', None, "cut off"),
    ("forecast", '{"city": "Rome", "days": 1', None, "cut off"),
    ("forecast", '```json\n{"city": "Rome", "tags": ["a', None, "cut off"),
    ("forecast", "{'city': 'Ro", None, "cut off"),
    ("forecast", '{"city": "Rome"}assistant', None, "expected the end at character 16"),
    ("forecast", "<city>Rome</city>", None, "expected a JSON value at character 6"),
    ("forecast", '{"city": "Rome"}{"city": "Paris"}', None, "several objects"),
    ("forecast", '{"city": "Rome"} and more', None, "not valid JSON"),
    ("forecast", '{"city": "say "hi""}', None, "character 15"),
    ("forecast", "{'city': 'it's'}", None, "not valid JSON"),
    ("forecast", '{"city": Rome}', None, "not valid JSON"),
    ("forecast", '{"city": "C:\\dir"}', None, "a backslash itself is written twice"),
    ("forecast", "Rome", None, "not valid JSON"),
    ("forecast", '[{"city": "Rome"}]', None, "one JSON object with the parameters city, days"),
    ("forecast", '"Rome"', None, "not a text"),
    ("forecast", '{"city": "Rome", "city": "Paris"}', None, "the key 'city' is given twice"),
    ("forecast", '{"city": "Rome", "days": NaN}', None, "days: input should be a finite number"),
    ("forecast", '{"city": "Rome", "ratio": Infinity}', None, "ratio: input should be a finite number"),
    ("forecast", '{"city": "Rome", "ratio": "-inf"}', None, "ratio: input should be a finite number"),
    ("forecast", '{"city": "nan"}', {"city": "nan"}, ""),
    ("forecast", '{"city": "Rome", "ratio": 1e999}', None, "ratio: input should be a finite number"),
    ("forecast", '{"city": "Rome", "ratio": 1' + "0" * 400 + "}", None, "ratio: input should be a finite number"),
    ("forecast", '{"city": "Rome", "days": 1' + "0" * 400 + "}", ROME | {"days": 10**400}, ""),
    ("forecast", '{"city": "Rome", "days": 1' + "0" * 5000 + "}", None, "digits"),
    ("forecast", '{"arguments": "{\\"city\\": \\"Rome\\", \\"ratio\\": NaN}"}', None, "arguments: there is no such"),
    ("forecast", "[" * 100_000, None, "nested too deeply"),
    ("forecast", '{"city": ' + "[" * 100_000, None, "nested too deeply"),
    ("forecast", '{"city": ' + "[" * 300 + "]" * 300 + "}", None, "nested too deeply"),
    ("raw", '{"city": ' + '{"a":' * 5_000, None, "nested too deeply"),
    ("forecast", '{"city": 5}', None, "city: input should be a valid string (got 5)"),
    ("forecast", '{"city": null}', None, "city: input should be a valid string (got null)"),
    ("forecast", '{"city": ["Rome"]}', None, "city: "),
    ("forecast", '{"city": "Rome", "tags": "a, b"}', None, "tags: "),
    ("forecast", '{"city": "Rome", "days": "null"}', None, "days: "),
    ("forecast", '{"city": "Rome", "unit": "Kelvin"}', None, "unit: "),
    ("forecast", '{"City": "Rome", "CITY": "Paris"}', None, "city: missing"),
    ("forecast", '{"city": "Rome", "foo": null}', None, "foo: there is no such parameter"),
    ("choose", '{"level": 1, "mixed": "Ab"}', None, "mixed: "),
    ("choose", '{"level": 1, "mixed": "C"}', {"level": 1, "size": "small", "mixed": "c"}, "spelling of an option"),
    ("buy", '{"item": "tea", "colour": "red"}', None, "there is no such parameter"),
    ("raw", '{"city": 1}', None, "city: is not of type 'string' (got 1)"),
    ("raw", '{"city": "Rome", "days": 0}', None, "less than the minimum of 1"),
    ("raw", '{"city": "Rome", "share": NaN}', None, "share: input should be a finite number"),
    ("raw", '{"city": "Rome", "days": "three"}', None, "days: is not of type 'integer'"),
    ("raw", '{"city": "Rome", "code": "12"}', None, "code: "),
    ("wrapping", '{"arguments": {"arguments": {"a": 1}}}', None, "arguments.arguments: "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "written", "value", "said"), SLIPS, ids=range(len(SLIPS)))
def test_mistakes(name, written, value, said):
    result = TOOLS.execute(name, written)
    kept = json.loads(result.call.arguments)
    assert isinstance(kept, dict), "what goes back into the history is a JSON object"
    if value is None:
        assert isinstance(result.value, ExceptionInfo), result.value
        assert said in result.content
        assert len(result.content) <= 400
        assert "http" not in result.content
        return
    assert result.value == value
    assert "; ".join(repair.kind for repair in result.repairs) == said
    if result.repairs:
        again = TOOLS.execute(name, result.call.arguments)
        assert (again.value, again.repairs) == (value, ()), "what goes back is valid as it stands"


@pytest.mark.parametrize("call", ["call_with_raw_arguments", "acall_with_raw_arguments"])
def test_a_tool_by_itself_repairs_too(call):
    value = getattr(TOOLS["forecast"], call)("{'city': 'Rome',}")
    assert (asyncio.run(value) if asyncio.iscoroutine(value) else value) == ROME
    assert TOOLS["forecast"].call_with_raw_arguments({"CITY": "Rome", "tags": "['a']"}) == ROME | {"tags": ["a"]}


def test_a_repair_record_has_place_problem_and_remedy():
    result = TOOLS.execute("buy", '{"order": {"Item": "tea", "count": null}}')
    assert [str(repair) for repair in result.repairs] == [
        'order.item: spelling of a key: "Item" -> "item"',
        'order.count: null for the default: null -> "(left out)"',
    ]
    (long,) = TOOLS.execute("forecast", "{'city': '" + "x" * 10_000 + "'}").repairs
    assert len(str(long)) < 500


def bare(**given):
    """Bare."""
    return given


OFF = {
    "tools": ToolRegistry(
        tool(repair="off")(forecast),
        JsonTool.from_schema(name="bare", description="Bare.", call=bare, parameters=RAW.parameters, repair="off"),
    ),
    "registry": ToolRegistry(forecast, RAW.renamed("bare"), repair="off"),
}
"""Registries that repair nothing, by the place of the setting."""


@pytest.mark.parametrize("place", OFF)
@pytest.mark.parametrize("name", ["forecast", "bare"])
@pytest.mark.parametrize(
    "mistake",
    ["{'city': 'Rome'}", '{"City": "Rome"}', '{"city": "Rome", "unit": "x"}', '{"arguments": {"city": "R"}}'],
)
def test_off_reports_every_mistake(place, name, mistake):
    result = OFF[place].execute(name, mistake)
    assert isinstance(result.value, ExceptionInfo)
    assert result.repairs == ()


@pytest.mark.parametrize("place", OFF)
def test_off_accepts_null_for_the_default(place):
    assert "cut off" in OFF[place].execute("forecast", '{"city": "Ro').content
    assert OFF[place].execute("forecast", '{"city": "Rome", "days": null}').value == ROME


def test_a_valid_call_is_validated_once_and_stays_as_it_is():
    class Counting:
        injected = {}
        parameters = {"type": "object", "properties": {}}
        seen = []

        def bind(self, arguments, injected=None):
            self.seen.append(arguments)
            return lambda: None

    tool_ = JsonTool(ping)
    tool_.arguments = Counting()
    written = '{"count":   2}'
    bound = ToolRegistry(tool_).bind(call := ToolCall("1", "ping", written))
    assert bound.call is call
    assert Counting.seen == [written]


def test_arguments_are_the_tools_own():
    def spoil(rows: list[Any], more: dict[str, Any]) -> None:
        """Spoils."""
        rows.append(1)
        more["x"] = 1
        if more.get("inner"):
            more["inner"].append(1)

    given = {"rows": [], "more": {"inner": [0]}}
    raw = JsonTool.from_schema(
        name="raw", description="Raw.", call=spoil, parameters={"properties": {"rows": {}, "more": {}}}
    )
    for each in (JsonTool(spoil), raw):
        assert each.call_with_raw_arguments(given) is None
        assert given == {"rows": [], "more": {"inner": [0]}}
        call = ToolCall("1", each.name, json.dumps(given))
        bound = ToolRegistry(each).bind(call)
        bound.invoke()
        assert json.loads(bound.call.arguments) == given


def test_several_mistakes_are_reported_at_once_with_received_wanted_and_an_example():
    content = TOOLS.execute("buy", '{"order": {"count": "many"}, "express": 7, "colour": "red"}').content
    for part in (
        "order.item: missing",
        "order.count: ",
        '(got "many")',
        "express",
        "colour: there is no such parameter",
    ):
        assert part in content, content
    assert len(content) <= 400
    assert TOOLS.execute("buy", '{"order": {"count": "many"}}').content == (
        'ValidationError: order.item: missing, it is required, schema {"type":"string"}; order.count: input should be a '
        'valid integer, unable to parse string as an integer (got "many"), schema {"type":"integer"}\n'
        'Valid, for example: {"order": {"item": "text"}}'
    )


class Tagged(BaseModel):
    kind: str
    note: str | None = "none"
    tags: list[str]


class Counted(BaseModel):
    kind: Literal["A"]
    note: str = ""
    count: int


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"kind": "a", "tags": "['t']"}, Tagged(kind="a", tags=["t"])),
        ({"kind": "A", "tags": "['t']"}, Tagged(kind="A", tags=["t"])),
        ({"kind": "b", "note": None, "tags": "['t']"}, Tagged(kind="b", note=None, tags=["t"])),
        ({"kind": "a", "count": 3}, Counted(kind="A", count=3)),
        ({"kind": "A", "note": None, "count": 3}, Counted(kind="A", count=3)),
    ],
)
def test_a_value_that_an_alternative_takes_is_repaired_only_where_nothing_else_is(given, value):
    def store(entry: Tagged | Counted) -> Tagged | Counted:
        """Stores an entry."""
        return entry

    result = ToolRegistry(store).execute("store", json.dumps({"entry": given}))
    assert result.value == value
    assert len(result.repairs) == 1


class Trip(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    stops: set[int]


def test_a_mapping_of_json_gives_the_function_what_its_text_gives():
    def plan(trip: Trip, until: date | str) -> tuple[Trip, date | str]:
        """Plans a trip."""
        return trip, until

    tool = JsonTool(plan)
    given = {"trip": {"day": "2024-01-31", "stops": [1, 2]}, "until": "2024-02-01"}
    planned = (Trip(day=date(2024, 1, 31), stops={1, 2}), date(2024, 2, 1))
    assert tool.call(json.dumps(given)) == tool.call(given) == planned
    assert tool.call({"trip": planned[0], "until": Day.MONDAY}) == (planned[0], Day.MONDAY)  # values of Python


class Day(StrEnum):
    MONDAY = "2024-01-01"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def price(amounts: dict[Colour, str], counts: dict[int, str] | None = None) -> None:
    """Sets prices."""


PRICE = JsonTool.from_schema(
    name="price", description="Sets prices.", parameters=JsonTool(price).parameters, call=print
)


@pytest.mark.parametrize("tool", [JsonTool(price), PRICE], ids=["function", "schema"])
def test_an_invalid_key_of_a_mapping_is_named_as_the_key(tool):
    error = tool.call_with_raw_arguments('{"amounts": {"Red": "blue"}}')
    assert error.message.startswith('amounts: the key "Red": ')
    assert "'red'" in error.message
    assert "(got" not in error.message
    if tool is not PRICE:
        error = tool.call_with_raw_arguments('{"amounts": {}, "counts": {"x": "1"}}')
        assert error.message.startswith('counts: the key "x": input should be a valid integer')


def test_however_much_is_wrong_the_text_stays_short():
    wide = JsonTool.from_schema(
        name="wide",
        description="Wide.",
        call=print,
        parameters={
            "properties": {
                f"parameter_{number}": {"type": "string", "minLength": 30, "pattern": "^x+$"} for number in range(40)
            },
            "required": [f"parameter_{number}" for number in range(40)],
            "additionalProperties": False,
        },
    )
    registry = ToolRegistry(forecast, wide)
    for arguments in (
        "{}",
        json.dumps({f"p{'x' * 300}{number}": "y" * 500 for number in range(300)}),
        "x" * 10_000,
        json.dumps({f"parameter_{number}": "y" * 500 for number in range(40)}),
        json.dumps(["x" * 10_000]),
        json.dumps({"city": {"x" * 1_000: 1}, "days": "y" * 10_000, "tags": ["z" * 1_000] * 100, "limits": 5}),
    ):
        for name in ("forecast", "wide"):
            content = registry.execute(name, arguments).content
            assert content.startswith("ValidationError")
            assert len(content) <= 400, content


class TestOnError:
    def registry(self, on_error="raise"):
        @tool(on_error=on_error)
        def fail(how: str) -> str:
            """Fails."""
            raise {"own": ToolError("Ask otherwise."), "key": KeyError("x")}[how]

        return ToolRegistry(fail, ping)

    @staticmethod
    def script(how):
        return ScriptedModel(
            {
                "tool_calls": [
                    {"name": "ping", "arguments": {"count": 2}},
                    {"name": "fail", "arguments": {"how": how}},
                    {"name": "ping", "arguments": {}},
                ]
            },
            {"tool_calls": [{"name": "final_answer", "arguments": {"text": "Done."}}]},
        )

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_an_error_of_the_tool_is_raised_to_the_caller_and_the_conversation_continues(self, is_async):
        agent = JsonAgent(self.registry(), model=self.script("key"))
        with pytest.raises(KeyError):
            asyncio.run(agent.arun("Go.")) if is_async else agent("Go.")
        answers = [message["content"] for message in agent.history if message["role"] == "tool"]
        assert answers == ['{"count":2}', "KeyError: 'x'", "{}"]
        assert (
            agent(
                "Go on.",
                model=ScriptedModel(
                    {
                        "tool_calls": [
                            {"name": "final_answer", "arguments": {"text": "Done."}},
                        ]
                    }
                ),
            )
            == "Done."
        )

    def test_errors_for_the_model_and_mistakes_of_the_model_are_reported(self):
        assert JsonAgent(self.registry(), model=self.script("own"))("Go.") == "Done."
        assert self.registry().execute("fail", "{}").error.name == "ValidationError"

    def test_without_it_the_model_reads_the_error(self):
        assert JsonAgent(self.registry("tell"), model=self.script("key"))("Go.") == "Done."


def test_a_run_has_all_repair_records_and_the_log_a_line_for_each():
    model = ScriptedModel(
        {
            "tool_calls": [
                {"name": "functions.forecast", "arguments": "{'city': 'Rome'}"},
                {"name": "ping", "arguments": {}},
            ]
        },
        {"tool_calls": [{"name": "final_answer", "arguments": '{"arguments": {"text": "Done."}}'}]},
    )
    said = []
    sink = logger.add(lambda message: said.append(message.record), level="WARNING")
    logger.enable("agentkit")
    try:
        result = JsonAgent([forecast, ping], model=model).run("Go.")
    finally:
        logger.disable("agentkit")
        logger.remove(sink)
    assert result.answer == "Done."
    assert [repair.kind for repair in result.repairs] == ["name of the tool", "single quotes", "wrapped in 'arguments'"]
    assert [(record["level"].name, record["message"].partition(": ")[0].split()) for record in said] == [
        ("WARNING", ["warning", name]) for name in ("forecast", "forecast", "final_answer")
    ]
    sent = [call["function"]["arguments"] for message in result.messages for call in message.get("tool_calls", ())]
    assert sent == ['{"city": "Rome"}', "{}", '{"text": "Done."}']


def test_a_line_of_the_log_is_one_line():
    bound = TOOLS.bind(ToolCall("1", "forecast", '```json\n{"city": "Rome"}\n```'))
    *_, line = render_event(ToolStarted(bound))
    assert (line.level, "\n" in line.text) == ("WARNING", False)


class Branch(BaseModel):
    value: int
    branches: list["Branch"] = []
    size: Size = Size.SMALL


def grow(branch: Branch, size: Size) -> str:
    """Grows."""
    return str(branch)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"branch": 3, "size": "small"}', '"size":{"enum":["small","large"],"type":"string"}'),
        ('{"branch": {"value": 1, "branches": [7]}, "size": "small"}', '{"properties":{"value":{"type":"integer"},'),
        ('{"size": "small"}', '"branches":{"items":{"type":"object"},"type":"array"}'),
        ('{"branch": {"value": 1}, "size": "tiny"}', 'schema {"enum":["small","large"],"type":"string"}'),
    ],
)
def test_an_error_shows_no_reference_that_the_model_cannot_follow(arguments, shown):
    message = JsonTool(grow).call_with_raw_arguments(arguments).message
    assert shown in message or "..." in message
    assert "$ref" not in message


@pytest.mark.parametrize("before", range(0, 200, 9))
@pytest.mark.parametrize("text", ['{{"side": "{}"}}', '{{"side": [], "{}": 1}}', '{{"side": "1", "note": "{}",}}'])
def test_no_error_and_no_repair_shows_a_part_of_a_secret(text, before, monkeypatch):
    key = "Zq7KpLm2Wv9XtR4sBn8YcD3f"
    monkeypatch.setenv("SHOP_API_KEY", key)

    def draw(side: int, note: str = "") -> str:
        """Draws."""
        return "drawn"

    bound = ToolRegistry(draw).bind(ToolCall("1", "draw", text.format("z" * before + key)))
    shown = bound.problem.message if bound.problem else repr(bound.repairs)
    assert "zzzz" in shown or before < 4
    assert key[:8] not in secrets.mask(shown)


class Picky(BaseModel):
    size: str

    @field_validator("size")
    @classmethod
    def find(cls, size: str) -> str:
        return {"s": "small"}[size]


@dataclass
class Built:
    size: str

    def __post_init__(self) -> None:
        self.size = {"s": "small"}[self.size]


@pytest.mark.parametrize("kind", [Picky, Built])
def test_an_exception_of_a_validator_is_read_by_the_model_and_does_not_end_the_run(kind):
    def cut(shape):
        """Cut a shape."""
        return shape.size

    cut.__annotations__ = {"shape": kind}
    replies = [call("cut", shape={"size": "xl"}), call("cut", shape={"size": "s"}), answer(size="xl"), answer(size="s")]
    result = JsonAgent(cut, model=ScriptedModel(*replies), answer=kind).run("Cut it.")
    assert "could not be checked: KeyError: 'xl'" in result.calls[0].content
    assert result.calls[1].content == "small"
    assert "could not be checked: KeyError: 'xl'" in result.calls[2].content
    assert result.answer.size == "small"


class Shift(BaseModel):
    start: datetime
    length: timedelta | None = None


def plan(
    day: date | None = None,
    at: time | None = None,
    shifts: list[Shift] | None = None,
    notes: dict[datetime, str] | None = None,
    stamp: datetime | int | None = None,
    label: date | str | None = None,
) -> dict[str, Any]:
    """Plans."""
    return {name: value for name, value in locals().items() if value is not None}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"day": "20240131"}, {"day": date(2024, 1, 31)}),
        ({"shifts": [{"start": "20240131"}]}, {"shifts": [Shift(start=datetime(2024, 1, 31))]}),
        ({"notes": {"20240131": "n"}}, {"notes": {datetime(2024, 1, 31): "n"}}),
        ({"stamp": "20240131"}, {"stamp": datetime(2024, 1, 31)}),
        ({"stamp": 20240131}, {"stamp": 20240131}),
        ({"label": "20240131"}, {"label": "20240131"}),
    ],
)
def test_a_date_of_eight_digits_is_a_date_and_no_number_of_seconds(given, value):
    for arguments in (given, json.dumps(given)):
        assert JsonTool(plan).call_with_raw_arguments(arguments) == value


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"day": 1706659200}, "day: input should be a date"),
        ({"day": "1706659200"}, "day: input should be a date"),
        ({"at": 90}, "at: input should be a time"),
        ({"shifts": [{"start": "2024"}]}, "shifts.0.start: input should be a date-time"),
        ({"shifts": [{"start": "2024-01-31", "length": 90}]}, "shifts.0.length: input should be a duration"),
        ({"notes": {"2024": "n"}}, 'notes: the key "2024": input should be a date-time'),
        ({"stamp": "2024.5"}, "stamp: input should be a date-time"),
    ],
)
def test_a_number_in_the_place_of_a_date_is_an_error_that_names_the_form(given, path):
    for arguments in (given, json.dumps(given)):
        error = JsonTool(plan).call_with_raw_arguments(arguments)
        assert error.message.startswith(f"{path} in ISO 8601, not a number")


def test_a_validator_before_a_date_gets_the_number():
    class Event(BaseModel):
        at: datetime

        @field_validator("at", mode="before")
        @classmethod
        def read_seconds(cls, value: Any) -> Any:
            return datetime.fromtimestamp(value, UTC) if isinstance(value, int) else value

    def store(event: Event) -> datetime:
        """Stores."""
        return event.at

    assert JsonTool(store).call({"event": {"at": 1706659200}}) == datetime(2024, 1, 31, tzinfo=UTC)
