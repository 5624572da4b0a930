"""What a model reads about types and parameters, and who has the last word."""

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum, IntEnum, auto
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import BaseModel, Field

from agentkit import DefinitionError, JsonTool, schema, tool
from agentkit.schemas.annotations import annotate
from agentkit.schemas.formats import FORMATS


class Speed(Enum):
    """How fast.

    Attributes:
        SLOW: At walking pace.
    """

    SLOW = "slow"
    FAST = "fast"
    """As fast as it goes."""


class Order(BaseModel):
    """An order of the shop.

    Attributes:
        item: From the class.
        count: From the class.
        note: From the class.
    """

    item: str
    count: int = Field(1, description="From the field.")
    note: str = ""
    """From under the attribute."""
    speed: Speed = Speed.SLOW


@dataclass
class Address:
    """Where to.

    :param street: The street.
    :param city: The city.
    """

    street: Annotated[str, "From the annotation."]
    city: str


class Corner(NamedTuple):
    """A corner."""

    x: int
    """To the right."""
    y: int


class Visit(typing_extensions.TypedDict):
    """A visit.

    Attributes:
        who: The visitor.
    """

    who: str


def deliver(order: Order, to: Address, at: Corner, visit: Visit) -> None:
    """Delivers.

    Args:
        order: What to deliver.
        item: not the order's.
    """


def properties(tool, name):
    return tool.standard_schema["properties"][name]


def text(schema):
    return schema.get("description")


def test_nested_types_keep_their_own_texts():
    tool = JsonTool(deliver)
    order = properties(tool, "order")
    assert text(order) == "What to deliver."
    assert {name: text(field) for name, field in order["properties"].items() if name != "speed"} == {
        "item": "From the class.",
        "count": "From the field.",
        "note": "From under the attribute.",
    }
    assert text(order["properties"]["speed"]) == "How fast. slow: At walking pace.; fast: As fast as it goes."
    to = properties(tool, "to")
    assert text(to) == "Where to."
    assert text(to["properties"]["street"]) == "From the annotation."
    assert text(to["properties"]["city"]) == "The city."
    at = properties(tool, "at")
    assert text(at) == "A corner."
    assert [text(place) for place in at["prefixItems"]] == ["x: To the right.", "y"]
    assert text(properties(tool, "visit")["properties"]["who"]) == "The visitor."


def test_a_function_without_a_docstring_has_no_description():
    class Bare(BaseModel):
        a: int

    @dataclass
    class Bare2:
        a: int

    def f(bare: Bare, bare2: Bare2, c: str):
        """Does."""

    assert "description" not in json.dumps(JsonTool(f).parameters)


def test_the_last_word_has_the_one_who_makes_the_tool():
    def f(a: Annotated[int, Field(description="field")], unit: str = "m"):
        """Does.

        Args:
            a: docstring
        """
        return unit

    tool = JsonTool(f, parameters={"a": "mine", "unit": {"description": "The unit.", "enum": ["m", "km", "m"]}})
    assert text(properties(tool, "a")) == "mine"
    assert properties(tool, "unit")["enum"] == ["m", "km"]
    for dialect in ("openai", "anthropic", "gemini", "json"):
        assert '"km"' in json.dumps(tool.schema(dialect))
    assert tool.call_with_raw_arguments({"a": 1, "unit": "km"}) == "km"
    assert "'m' or 'km'" in tool.call_with_raw_arguments({"a": 1, "unit": "mile"}).message


def test_repeated_enum_values_can_be_refused():
    def f(unit: str):
        """Does."""

    with (
        pytest.raises(DefinitionError, match="'m' is repeated"),
        pytest.warns(DeprecationWarning, match="duplicates='error' is deprecated: leave it out"),
    ):
        JsonTool(f, parameters={"unit": {"enum": ["m", "m"]}}, duplicates="error")


@pytest.mark.parametrize(
    "make", [lambda f, **how: JsonTool(f, **how), lambda f, **how: tool(f, **how), lambda f, **how: tool(**how)(f)]
)
def test_the_warning_about_repeated_enum_values_names_the_line_of_the_caller(make):
    def f(unit: str):
        """Does."""

    with pytest.warns(DeprecationWarning, match="duplicates=") as warned:
        make(f, duplicates="dedupe")
    assert [one.filename for one in warned] == [__file__]


def test_a_text_for_a_parameter_that_does_not_exist_is_refused():
    with pytest.raises(DefinitionError, match=r"deliver: no parameter 'ordr'. Did you mean 'order'\?"):
        JsonTool(deliver, parameters={"ordr": "x"})
    with pytest.raises(DefinitionError, match=r"'descripton'.*Did you mean 'description'"):
        JsonTool(deliver, parameters={"order": {"descripton": "x"}})


def test_types_that_are_not_yours_can_be_annotated():
    class Theirs(BaseModel):
        """Theirs."""

        name: str = Field(description="theirs")
        unit: str = "m"

    class Kind(Enum):
        A = "a"

    def f(x: Theirs, kind: Kind):
        """Does."""

    annotate(Theirs, description="A thing of theirs.", fields={"name": "mine", "unit": {"enum": ["m", "km"]}})
    annotate(Kind, description="Kinds.", fields={"A": "the first"})
    tool = JsonTool(f)
    assert text(properties(tool, "x")) == "A thing of theirs."
    assert properties(tool, "x")["properties"]["name"]["description"] == "mine"
    assert properties(tool, "x")["properties"]["unit"]["enum"] == ["m", "km"]
    assert text(properties(tool, "kind")) == "Kinds. a: the first"


def test_an_annotation_of_a_field_that_does_not_exist_is_refused():
    with pytest.raises(DefinitionError, match=r"annotate\(Order\): no field 'itm'. Did you mean 'item'\?"):
        annotate(Order, fields={"itm": "x"})
    with pytest.raises(DefinitionError, match="is repeated"):
        annotate(Order, fields={"item": {"enum": ["a", "a"]}}, duplicates="error")


def test_doc_is_read_like_a_text():
    def f(a: Annotated[int, typing_extensions.Doc("The a.")]):
        """Does."""

    assert text(properties(JsonTool(f), "a")) == "The a."


def tool_of_two(docstring: str) -> JsonTool:
    """A tool with the parameters `a` and `b`."""

    def f(a, b):
        return a, b

    f.__doc__ = docstring
    return JsonTool(f)


@pytest.mark.parametrize(
    "docstring",
    [
        "Does.\n\nArgs:\n    a: The a.\n    a line without colon\n    b: The b.",
        "Does.\n\nArgs:\n    a (int, optional): The a. a line without colon\n    b (list[str]): The b.",
        "Does.\n\nArguments:\n  a: The a.\n     a line without colon\n  b: The b.\n\nReturns:\n  int: b: nothing.",
    ],
)
def test_one_malformed_line_does_not_lose_the_others(docstring):
    tool = tool_of_two(docstring)
    assert text(properties(tool, "a")) == "The a. a line without colon"
    assert text(properties(tool, "b")) == "The b."
    assert tool.description == "Does."


@pytest.mark.parametrize(
    "section",
    [
        "Args:\n    - a: The a.\n    - b (int): The b.",
        "Args:\n    * `a`: The a.\n    * `b`: The b.",
        "Args:\n    **a**: The a.\n    **b** (int): The b.",
        "Arguments:\n    a -- The a.\n    b -- The\n         b.",
        "Args:\n    a (int) - The a.\n    b - The b.",
    ],
)
def test_entries_are_read_as_items_of_a_list_and_behind_a_dash(section):
    tool = tool_of_two(f"Does.\n\n{section}")
    assert (text(properties(tool, "a")), text(properties(tool, "b"))) == ("The a.", "The b.")
    assert tool.description == "Does."


def test_a_list_below_an_entry_belongs_to_it():
    def f(mode):
        """Does.

        Args:
            mode: How:
            - fast: quickly
            well - slowly
        """

    assert text(properties(JsonTool(f), "mode")) == "How: - fast: quickly well - slowly"


def test_a_section_of_another_form_stays_in_the_description():
    def f(a, b):
        """Does.

        Args:
            both numbers
              in metres

        Returns:
            Nothing.
        """

    assert JsonTool(f).description == "Does.\n\nArgs:\n    both numbers\n      in metres"


def test_notes_stay_in_the_description_and_sections_go():
    def f(a):
        """Does it.

        Note:
            Only on Mondays.

        Args:
            a: The a.

        Returns:
            Nothing.

        Raises:
            ValueError: never.
        """

    assert JsonTool(f).description == "Does it.\n\nNote:\n    Only on Mondays."


def test_a_docstring_of_nothing_but_parameters_is_not_a_description():
    def f(a):
        """Args:
        a: The a.
        """

    with pytest.raises(DefinitionError, match="no description"):
        JsonTool(f)
    assert text(properties(JsonTool(f, description="Does."), "a")) == "The a."


class Shade(Enum):
    """A shade"""

    RED = auto()
    DARK_BLUE = auto()


class TestCountedEnums:
    """The values of `auto()` mean nothing: the model reads the names."""

    @staticmethod
    def paint(shade: Shade, others: list[Shade] | None = None, last: Shade = Shade.RED) -> list[Shade]:
        """Paints the wall."""
        return [shade, *(others or []), last]

    def test_the_names_are_offered_and_accepted_and_so_are_the_values(self):
        tool = JsonTool(self.paint)
        names = ["RED", "DARK_BLUE"]
        assert properties(tool, "shade") == {"type": "string", "enum": names, "description": "A shade"}
        assert properties(tool, "others")["anyOf"][0]["items"]["enum"] == names
        assert properties(tool, "last")["default"] == "RED"
        assert tool.call({"shade": "DARK_BLUE", "others": ["RED", 2]}) == [
            Shade.DARK_BLUE,
            Shade.RED,
            Shade.DARK_BLUE,
            Shade.RED,
        ]

    def test_an_error_names_the_names(self):
        problem = JsonTool(self.paint).call_with_raw_arguments('{"shade": "BLACK"}')
        assert problem.message.startswith("shade: input should be 'RED' or 'DARK_BLUE' (got \"BLACK\")")

    def test_the_fields_of_a_class_offer_the_names_and_take_the_values_as_well(self):
        class Wall(BaseModel):
            shade: Shade
            other: Shade = Shade.RED
            label: Shade | str = ""
            inside: list["Wall"] = []

        def paint(wall: Wall) -> Wall:
            """Paints the wall."""
            return wall

        tool = JsonTool(paint)
        plain = json.dumps(tool.parameters)
        wall = tool.parameters["$defs"]["Wall"]["properties"]
        assert tool.parameters["$defs"]["Shade"] == {
            "type": "string",
            "enum": ["RED", "DARK_BLUE"],
            "description": "A shade",
        }
        assert wall["other"]["default"] == "RED"
        text = '{"wall": {"shade": "DARK_BLUE", "label": "RED", "inside": [{"shade": "RED"}, {"shade": 2}]}}'
        for given in (text, json.loads(text)):
            painted = tool.call(given)
            assert (painted.shade, painted.label) == (Shade.DARK_BLUE, "RED")
            assert [each.shade for each in painted.inside] == [Shade.RED, Shade.DARK_BLUE]
        problem = tool.call_with_raw_arguments('{"wall": {"shade": "BLACK"}}')
        assert problem.message.startswith("wall.shade: input should be 'RED' or 'DARK_BLUE' (got \"BLACK\")")
        assert tool.call({"wall": {"shade": "dark_blue"}}).shade is Shade.DARK_BLUE
        assert json.dumps(tool.parameters) == plain
        assert tool.output_schema["$defs"]["Shade"]["enum"] == [1, 2]  # what the result has

    def test_the_keys_of_a_mapping_in_a_class_are_names_as_well(self):
        class Wall(BaseModel):
            layers: dict[Shade, int]

        def paint(wall: Wall) -> Wall:
            """Paints the wall."""
            return wall

        tool = JsonTool(paint)
        given = {"wall": {"layers": {"RED": 1, "DARK_BLUE": 2}}}
        for arguments in (given, json.dumps(given)):
            assert tool.call(arguments).layers == {Shade.RED: 1, Shade.DARK_BLUE: 2}
        problem = tool.call_with_raw_arguments('{"wall": {"layers": {"BLACK": 1}}}')
        assert problem.message.startswith("wall.layers: the key \"BLACK\": input should be 'RED' or 'DARK_BLUE'")

    def test_an_enum_of_objects_in_a_class_is_read_by_its_names(self):
        class Planet(Enum):
            EARTH = (5.976e24, 6.37814e6)
            MARS = (6.421e23, 3.3972e6)

        class Trip(BaseModel):
            goal: Planet
            start: Planet = Planet.EARTH
            days: dict[Planet, int] = {}

        def travel(trip: Trip) -> Trip:
            """Travels."""
            return trip

        tool = JsonTool(travel)
        assert tool.parameters["$defs"]["Planet"] == {"type": "string", "enum": ["EARTH", "MARS"]}
        assert tool.parameters["$defs"]["Trip"]["properties"]["start"]["default"] == "EARTH"
        given = {"trip": {"goal": "MARS", "days": {"EARTH": 1}}}
        for arguments in (given, json.dumps(given)):
            assert tool.call(arguments) == Trip(goal=Planet.MARS, days={Planet.EARTH: 1})
        assert tool.call({"trip": {"goal": "mars"}}).goal is Planet.MARS

    def test_a_class_of_arguments_and_the_schema_of_a_type_have_the_names(self):
        @dataclass
        class Palette:
            primary: Shade
            second: Shade | None = None

        for described in (schema(Palette), schema(list[Palette])["items"]):
            assert described["properties"]["primary"] == {
                "type": "string",
                "enum": ["RED", "DARK_BLUE"],
                "description": "A shade",
            }
        tool = JsonTool.from_model(Palette, lambda palette: palette, description="Chooses.")
        for given in ('{"primary": "DARK_BLUE", "second": "RED"}', {"primary": "DARK_BLUE", "second": 1}):
            assert tool.call(given) == Palette(Shade.DARK_BLUE, Shade.RED)
        assert not [name for name in FORMATS if "x-members" in json.dumps(tool.schema(name))]

    def test_numbers_that_mean_something_stay(self):
        class Grade(IntEnum):
            GOOD = 1
            BAD = 2

        class Size(Enum):
            SMALL = 10
            LARGE = 20

        def judge(grade: Grade, size: Size) -> str:
            """Judges."""
            return f"{grade} {size}"

        assert properties(JsonTool(judge), "grade")["enum"] == [1, 2]
        assert properties(JsonTool(judge), "size")["enum"] == [10, 20]


class TestRequired:
    """Fields and parameters with a default that a model must give all the same; and the name of a type."""

    def test_annotate_names_a_type_and_its_required_fields(self):
        @dataclass
        class Inquiry:
            text: str
            limit: int = 10
            unit: str = "m"

        annotate(Inquiry, name="ask_library", required=["limit"], fields={"unit": {"required": True, "enum": ["m"]}})
        plain = schema(Inquiry)
        assert plain["required"] == ["text", "limit", "unit"]
        assert schema(Inquiry, format="response_format")["json_schema"]["name"] == "ask_library"
        assert JsonTool.from_model(Inquiry, lambda inquiry: inquiry, description="Asks.").name == "ask_library"

    def test_required_of_a_parameter(self):
        def find(text: str, limit: int = 10) -> str:
            """Finds."""
            return text * limit

        tool = JsonTool(find, parameters={"limit": {"description": "How many.", "required": True}})
        assert tool.parameters["required"] == ["text", "limit"]
        with pytest.raises(DefinitionError, match=r"'text' has no default, so it is required. Give it a default"):
            _ = JsonTool(find, parameters={"text": {"required": False}}).parameters
        with pytest.raises(DefinitionError, match="required must be True or False, got 'yes'"):
            JsonTool(find, parameters={"text": {"required": "yes"}})
        with pytest.raises(DefinitionError, match=r"annotate\(Shade\): no field 'BLACK'"):
            annotate(Shade, required=["BLACK"])


class TestKeysThatAreNumbers:
    """JSON has keys that are texts alone: those are offered, and read as the members of an enum or a Literal."""

    class Level(IntEnum):
        LOW = 10
        HIGH = 20

    class Size(Enum):
        SMALL = 0.5
        LARGE = 20

    class Stock(BaseModel):
        levels: dict["TestKeysThatAreNumbers.Level", int] = {}
        sizes: dict["TestKeysThatAreNumbers.Size", int] = {}
        more: dict["TestKeysThatAreNumbers.Size", date] = {}

    @pytest.mark.parametrize(
        ("type_", "keys", "value"),
        [
            (Level, ["10", "20"], Level.HIGH),
            (Size, ["0.5", "20"], Size.LARGE),
            (Literal[1, 20], ["1", "20"], 20),
            (Literal[20], ["20"], 20),
        ],
    )
    def test_a_mapping_offers_texts_and_reads_them(self, type_, keys, value):
        def count(amounts: dict[type_, int]) -> dict[type_, int]:
            """Counts."""
            return amounts

        tool = JsonTool(count)
        for place in (tool.parameters["properties"]["amounts"], tool.output_schema):
            assert place["propertyNames"] == {"type": "string", "enum": keys}
        for arguments in ({"amounts": {"20": 3}}, '{"amounts": {"20": 3}}'):
            assert tool.call(arguments) == {value: 3}
        error = tool.call_with_raw_arguments('{"amounts": {"3": 3}}')
        assert error.message.startswith('amounts: the key "3": input should be ')

    def test_a_mapping_in_a_class_does_so_as_well(self):
        def fill(stock: TestKeysThatAreNumbers.Stock, level: TestKeysThatAreNumbers.Level) -> Any:
            """Fills."""
            return stock

        tool = JsonTool(fill)
        assert tool.parameters["$defs"]["Level"]["enum"] == [10, 20]
        fields = tool.parameters["$defs"]["Stock"]["properties"]
        assert [fields[name]["propertyNames"]["enum"] for name in fields] == [["10", "20"], *[["0.5", "20"]] * 2]
        given = {"stock": {"levels": {"10": 1}, "sizes": {"0.5": 2}, "more": {"20": "2024-01-31"}}, "level": 20}
        for arguments in (given, json.dumps(given)):
            stock = tool.call(arguments)
            assert stock.levels == {self.Level.LOW: 1}
            assert stock.sizes == {self.Size.SMALL: 2}
            assert stock.more == {self.Size.LARGE: date(2024, 1, 31)}
