"""Types without a JSON Schema, undefined names, and enum values: reported by name, and never silently dropped."""

import gc
import re
import typing
import weakref
from collections.abc import Callable
from enum import Enum, IntEnum
from functools import partial, singledispatchmethod
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt
from typing_extensions import TypedDict, Unpack

from agentkit import DefinitionError, JsonAgent, JsonTool, annotate, lint


class Missing:
    """A sentinel."""


MISSING: Any = Missing()


def search(query: str, limit: int | Missing = MISSING, store: Missing = MISSING) -> Any:
    """Searches the shop for articles.

    Args:
        query: The words to look for.
        limit: How many to return.
        store: Where to look.
    """
    return query, limit


def test_an_alternative_without_a_schema_is_left_out_and_reported():
    tool = JsonTool(search)
    assert tool.parameters["properties"]["limit"] == {"type": "integer", "description": "How many to return."}
    assert list(tool.parameters["properties"]) == ["query", "limit"]
    assert tool.call_with_raw_arguments('{"query": "tea", "limit": 3}') == ("tea", 3)
    assert tool.call_with_raw_arguments('{"query": "tea"}') == ("tea", MISSING)
    found = {(finding.path, finding.message) for finding in lint(tool) if finding.rule == "omitted-type"}
    remedy = "remove it, or mark the parameter as Injected"
    assert found == {
        ("limit", f"the type Missing has no JSON Schema, so models see the rest of it: {remedy}"),
        ("store", f"the type Missing has no JSON Schema, so models do not see it: {remedy}"),
    }


def keep(path: str, log: Callable[[str], None] = print, *rest: str) -> Any:
    return path, log, rest


def place(log: Callable[[str], None] = print, depth: int = 1, /) -> Any:
    return log, depth


def test_a_parameter_that_is_left_out_keeps_its_place_before_others():
    assert JsonTool(keep, description="Keeps.").call({"path": "a", "rest": ["b", "c"]}) == ("a", print, ("b", "c"))
    assert JsonTool(place, description="Places.").call({"depth": 3}) == (print, 3)


class Order(BaseModel):
    item: "Undefined"  # noqa: F821


class UndefinedArgs(BaseModel):
    """Orders."""

    item: "Undefined"  # noqa: F821


def test_an_undefined_name_inside_a_type_is_refused_with_or_without_a_default():
    def needed(order: Order):
        """Orders."""

    def optional(order: Order = None):
        """Orders."""

    for function in (needed, optional):
        name = function.__name__
        with pytest.raises(
            DefinitionError, match=rf"{name}: the parameter 'order' .*Order.* undefined name 'Undef"
        ) as error:
            JsonTool(function)
        assert "twin" not in str(error.value)
        assert "TypeAdapter" not in str(error.value)
    with pytest.raises(DefinitionError, match="UndefinedArgs refers to the undefined name 'Undefined'"):
        JsonTool.from_model(UndefinedArgs, lambda args: None)


@pytest.mark.parametrize("default", [..., "b"])
def test_a_pattern_that_pydantic_refuses_is_reported_with_its_place(default):
    def find(name: Annotated[str, Field(pattern="^(?!a)b")] = default):
        """Finds."""
        return name

    if default is ...:
        find.__defaults__ = None
    with pytest.raises(DefinitionError, match=r"find: the parameter 'name' .*look-around.*re.compile") as error:
        JsonTool(find)
    assert "twin" not in str(error.value)
    assert [finding.rule for finding in lint(find)] == ["definition"]


def test_a_compiled_pattern_may_look_around():
    def find(name: Annotated[str, Field(pattern=re.compile("^(?!a)b"))]):
        """Finds."""
        return name

    assert JsonTool(find).call_with_raw_arguments('{"name": "b"}') == "b"
    assert JsonTool(find).bind('{"name": "ab"}').ready.name == "ValidationError"


class Color(Enum):
    red = "r"
    blue = "b"


class Level(IntEnum):
    low = 1
    high = 2


ENUMS = [
    (int, [1, 2, 1], {"type": "integer", "enum": [1, 2]}, 2, 3),
    (str, list(Color), {"type": "string", "enum": ["r", "b"]}, "b", "Color.blue"),
    (str, Color, {"type": "string", "enum": ["r", "b"]}, "r", "x"),
    (int, Level, {"type": "integer", "enum": [1, 2]}, 1, 3),
    (list[str], ["a", "b"], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["b"], ["c"]),
    (str | None, ["a", "b"], {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}, None, "c"),
]


@pytest.mark.parametrize(("kind", "values", "schema", "valid", "invalid"), ENUMS)
def test_given_enum_values_are_json_and_are_validated(kind, values, schema, valid, invalid):
    def choose(x):
        """Chooses."""
        return x

    choose.__annotations__ = {"x": kind}
    tool = JsonTool(choose, parameters={"x": {"enum": values}}, repair="off")
    assert tool.parameters["properties"]["x"] == schema
    assert tool.call_with_raw_arguments({"x": valid}) == valid
    assert tool.call_with_raw_arguments({"x": invalid}).name == "ValidationError"


def test_an_enum_value_of_another_type_is_refused():
    def choose(x: int):
        """Chooses."""

    with pytest.raises(DefinitionError, match="x: the enum value '1' does not fit the type int"):
        JsonTool(choose, parameters={"x": {"enum": ["1"]}})
    with pytest.raises(DefinitionError, match=r"x: the enum value <object .* is not a string, number"):
        JsonTool(choose, parameters={"x": {"enum": [object()]}})


def test_enum_values_of_a_foreign_types_field_keep_their_type():
    class Lamp(BaseModel):
        level: int
        color: str | None = None

    annotate(Lamp, fields={"level": {"enum": [1, 2]}, "color": {"enum": Color}})

    def switch(lamp: Lamp):
        """Switches."""

    fields = JsonTool(switch).parameters["properties"]["lamp"]
    fields = fields.get("properties") or JsonTool(switch).schema()["properties"]["lamp"]["properties"]
    assert fields["level"]["enum"] == [1, 2]
    assert fields["color"]["anyOf"][0]["enum"] == ["r", "b"]


def test_annotate_names_what_is_not_a_class():
    with pytest.raises(DefinitionError, match=r"annotate: search is not a class.*JsonTool\(function, parameters="):
        annotate(search, description="Searches.")


class Size(TypedDict, total=False):
    """A size.

    Attributes:
        width: In centimetres.
    """

    width: int
    height: int
    """Also in centimetres."""


def test_a_typed_dict_is_freed_with_the_tool_that_it_was_made_for():
    def make() -> weakref.ref[type]:
        class Box(typing.TypedDict):
            width: int

        def pack(box: Box) -> int:
            """Packs a box."""
            return box["width"]

        assert JsonTool(pack).call_with_raw_arguments('{"box": {"width": 3}}') == 3
        return weakref.ref(Box)

    box = make()
    gc.collect()
    assert box() is None


def test_keys_of_an_unpacked_typed_dict_are_described():
    def cut(**size: Unpack[Size]):
        """Cuts."""

    places = JsonTool(cut).parameters["properties"]
    assert {name: place["description"] for name, place in places.items()} == {
        "width": "In centimetres.",
        "height": "Also in centimetres.",
    }


def test_other_keys_are_described_by_the_docstring():
    def tag(name: str, **tags: str):
        """Tags.

        Args:
            name: The name.
            **tags: More of them.
        """

    assert JsonTool(tag).parameters["additionalProperties"] == {"type": "string", "description": "More of them."}


def test_a_partial_may_have_a_docstring_of_its_own():
    first = partial(search, "tea")
    assert JsonTool(first).description == "Searches the shop for articles."
    first.__doc__ = "Searches for tea."
    assert JsonTool(first).description == "Searches for tea."


class Printer:
    @singledispatchmethod
    def show(self, value: object) -> str:
        """Shows a value."""
        return "other"

    @show.register
    def _(self, value: int) -> str:
        return f"number {value}"

    @show.register
    def _(self, value: str) -> str:
        return f"text {value}"


def test_a_dispatching_method_is_shown_without_self():
    tool = JsonTool(Printer().show)
    assert tool.parameters["properties"] == {"value": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    assert tool.call_with_raw_arguments('{"value": 3}') == "number 3"
    assert tool.call_with_raw_arguments('{"value": "a"}') == "text a"


class Scanner:
    @singledispatchmethod
    def scan(self, value: int) -> str:
        """Scans a value."""
        return "other"


class ScannerOfTexts:
    @singledispatchmethod
    def scan(self, value: int) -> str:
        """Scans a value."""
        return "other"

    @scan.register
    def _(self, value: str) -> str:
        return f"text {value}"


@pytest.mark.parametrize("scanner", [Scanner(), ScannerOfTexts()], ids=["no case", "one case"])
def test_a_dispatching_method_with_less_than_two_cases_is_shown_without_self(scanner):
    tool = JsonTool(scanner.scan)
    assert tool.parameters["properties"] == {"value": {"type": "integer"}}
    assert tool.call_with_raw_arguments('{"value": 3}') == "other"


class Shelf:
    """A shelf of books.

    Args:
        place: Where the shelf stands.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def __call__(self, place: int) -> str:
        return f"{self.place}: {place}"


class NumpyShelf(Shelf):
    """A shelf of books.

    Parameters
    ----------
    place : str
        Where the shelf stands.
    """


@pytest.mark.parametrize("cls", [Shelf, NumpyShelf])
def test_a_constructors_parameters_do_not_describe_those_of_the_call(cls):
    tool = JsonTool(cls("hall"))
    assert tool.description == "A shelf of books."
    assert tool.parameters["properties"] == {"place": {"type": "integer"}}


@pytest.mark.parametrize(("kind", "text"), [(StrictInt, '"3"'), (StrictFloat, '"1.5"'), (StrictBool, '"true"')])
def test_a_strict_type_takes_no_text(kind, text):
    def count(x):
        """Counts."""
        return x

    count.__annotations__ = {"x": kind}
    tool = JsonTool(count)
    found = tool.bind(f'{{"x": {text}}}')
    assert found.ready.name == "ValidationError"
    assert found.repairs == ()


def test_a_strict_field_takes_no_text():
    class Entry(BaseModel):
        count: int = Field(strict=True)

    def add(entry: Entry, size: int):
        """Adds."""

    found = JsonTool(add).bind('{"entry": {"count": "3"}, "size": "3"}')
    assert "entry.count" in found.ready.message


def test_arguments_that_are_a_text_are_not_an_object():
    def add(a: int):
        """Adds."""

    message = JsonTool(add).bind('"x"').ready.message
    assert message.startswith('the arguments must be one JSON object with the parameters a, not a text (got "x")')
    assert "cut off" in JsonTool(add).bind('"x').ready.message
    assert "cut off" in JsonTool(add).bind('"{\\"a\\": 1"').ready.message


class Offer(BaseModel):
    item: str = "tea"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Missing, "answer=Missing: a model cannot write this type"),
        (list[Missing], r"answer=list\[.*Missing\]: a model cannot write this type"),
        ([Offer], r"For a list of answers: list\[Offer\]"),
        (Offer(), r"answer=.*It is an object\. Pass its class: answer=Offer"),
        ({"item": str}, "answer: a mapping is not a type: .* Use a TypedDict"),
    ],
)
def test_an_unusable_type_of_the_answer_is_named(answer, message):
    with pytest.raises(DefinitionError, match=message) as error:
        JsonAgent(search, answer=answer, model="offline")
    assert "locals" not in str(error.value)
    assert "Injected" not in str(error.value)


def test_a_mapping_among_the_tools_is_refused_with_the_remedy():
    with pytest.raises(DefinitionError, match=r"got (a mapping|dict).*JsonTool.from_schema\("):
        JsonAgent([{"type": "function", "function": {"name": "f"}}], model="offline")


class Broken:
    """A type whose hook for pydantic fails."""

    @classmethod
    def __get_pydantic_core_schema__(cls):
        return {}


class Rows(TypedDict):
    rows: "NowhereDefined"  # noqa: F821 - that is the point


def of_a_module(image: "re.Nothing"):
    """Draws."""


def of_a_broken_type(image: Broken):
    """Draws."""


def of_keys(**rows: Unpack[Rows]):
    """Draws."""


def of_an_alias(rows: "dict[str, NowhereDefined]"):  # noqa: F821 - that is the point
    """Draws."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_a_module, "of_a_module: the parameter 'image' names the type 'Nothing', which cannot be found"),
        (of_a_broken_type, "of_a_broken_type: the parameter 'image' has the type Broken, which a model cannot write"),
        (of_keys, "of_keys: the parameter 'rows' names the type 'NowhereDefined', which cannot be found"),
        (of_an_alias, "of_an_alias: the parameter 'rows' names the type 'NowhereDefined', which cannot be found"),
    ],
)
def test_an_error_in_a_type_names_the_function_and_the_parameter(function, message):
    with pytest.raises(DefinitionError, match=re.escape(message)):
        JsonTool(function)
