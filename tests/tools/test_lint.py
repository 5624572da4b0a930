"""The linter: what it finds, and what it leaves alone."""

import re
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

import agentkit_tools
from agentkit import Injected, JsonAgent, JsonTool, ToolExecutor, ToolRegistry, tool
from agentkit.core.messages import Destination
from agentkit.tools.lint import LintFinding, estimate_tokens, lint


def described(text: str, hint: Any = str, name: str = "word") -> JsonTool[..., Any]:
    """A sound tool with one parameter."""

    def look_up(**given: Any) -> None:
        """Looks a word up in the dictionary."""

    model = create_model(
        "LookUpArgs", __doc__="Looks a word up in the dictionary.", **{name: (hint, Field(description=text))}
    )
    return JsonTool.from_model(model, lambda args: None)


def rules(*tools: Any) -> set[tuple[str, str]]:
    return {(finding.path, finding.rule) for finding in lint(tools)}


def test_the_bundled_tools_are_clean():
    assert lint(agentkit_tools.ALL_TOOLS) == []


def test_a_fully_described_tool_is_clean():
    class Order(Enum):
        UP = "up"

    @dataclass
    class Line:
        """A line of the bill.

        Attributes:
            item: What was bought, as printed on it.
            pieces: How many are wanted.
        """

        item: str
        pieces: int = 1

    @tool
    def make_bill(lines: list[Line], day: date, order: Order, prices: dict[str, float], note: str | None = None) -> str:
        """Makes the bill of a customer.

        Args:
            lines: What was bought.
            day: When it was bought.
            order: How to sort the lines.
            prices: The price of each item in euros.
            note: A free text under the bill, such as 'thank you' or 'pay soon'.
        """
        return ""

    findings = lint(make_bill)
    assert {finding.severity for finding in findings} <= {"hint"}
    assert [finding.rule for finding in findings] == ["not-strict"]
    assert "prices: the keys of an open mapping" in findings[0].message


def test_what_cannot_be_a_tool_is_an_error_and_the_rest_is_still_read():
    def bare(a: int) -> int:
        return a

    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    findings = lint([bare, 3, add])
    assert [(finding.tool, finding.rule) for finding in findings if finding.severity == "error"] == [
        ("test_what_cannot_be_a_tool_is_an_error_and_the_rest_is_still_read.<locals>.bare", "definition"),
        ("int", "definition"),
    ]
    assert (
        LintFinding(
            "add", "a", "parameter-description", "has no description: say what it is, in which unit or form", "warning"
        )
        in findings
    )


GOOGLE = """Shift a number to the left.

Args:
    a: The number to shift.
    places: How far, in bits.
"""
NUMPY = """Shift a number to the left.

Parameters
----------
a : int
    The number to shift.
places : int
    How far, in bits.
"""
SPHINX = """Shift a number to the left.

:param a: The number to shift.
:param places: How far, in bits.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_a_description_of_a_parameter_that_does_not_exist_is_found(text):
    def shift(a: int, place: int) -> int:
        return a << place

    shift.__doc__ = text
    found = [(finding.path, finding.rule, finding.severity) for finding in lint(shift)]
    assert found == [
        ("places", "unknown-parameter", "warning"),
        ("place", "parameter-description", "warning"),
    ]
    assert lint(shift)[0].message == (
        "is described, but no parameter has this name, so models do not read the text. Did you mean 'place'? "
        "Rename it, or remove it."
    )


def test_a_description_of_a_parameter_that_models_do_not_fill_is_not_a_finding():
    def search(query: Annotated[str, "What to search."], context: Injected[str]) -> str:
        """Search the catalogue for a text.

        Args:
            query: What to search for.
            context: Where the search is made.

        Attributes:
            other: No parameter.
        """
        return query + context

    def draw(shape: str, **options: str) -> str:
        """Draw a shape with options.

        Args:
            shape: The name of the shape, in English.
            colour: The colour of its line.
        """
        return shape + str(options)

    rules = {finding.rule for finding in lint([search, draw])}
    assert "unknown-parameter" not in rules


def test_two_tools_of_one_name_are_an_error():
    def add(a: Annotated[int, "The first summand."]) -> int:
        """Adds one to a number."""
        return a

    assert [(f.tool, f.rule, f.severity) for f in lint([add, JsonTool(add)])] == [("add", "duplicate-name", "error")]


@pytest.mark.parametrize(
    "text", ["Gets the weather.", "Get weather", "Weather tool", "get_weather", "Reports.", "Weather now."]
)
def test_an_empty_description_is_a_warning(text):
    (finding,) = lint(JsonTool(lambda: None, name="get_weather", description=text))
    assert (finding.tool, finding.path, finding.rule, finding.severity) == (
        "get_weather",
        "",
        "tool-description",
        "warning",
    )


def test_metadata_that_nothing_reads_is_found():
    class Text:
        def __init__(self, text: str) -> None:
            self.text = text

        def __repr__(self) -> str:
            return "Text()"

    @dataclass
    class Described:
        description: str

    def search(
        query: Annotated[str, {"description": "What is searched."}],
        where: Annotated[str, Described("Which shelf, by its letter.")],
        count: Annotated[int, Text("The count"), Field(gt=0)],
        to: Annotated[str, Destination(), "Whom to send it."],
    ) -> str:
        """Searches the library for a text."""
        return query

    found = [(finding.rule, finding.path, finding.message) for finding in lint(search)]
    assert [entry[:2] for entry in found] == [("unused-metadata", "count"), ("parameter-description", "count")]
    assert found[0][2].startswith("the metadata Text() of the type is not read")
    texts = [place.get("description") for place in JsonTool(search).parameters["properties"].values()]
    assert texts == ["What is searched.", "Which shelf, by its letter.", None, "Whom to send it."]


def test_a_tool_that_prints_its_result_is_found():
    def show_price(item: Annotated[str, "What is bought."]) -> None:
        """Shows the price of an item in euros."""
        if not item:
            return
        print(item, 3.5)

    async def show_later(item: Annotated[str, "What is bought."]) -> None:
        """Tells much later what an item costs."""
        print(item)

    def log_price(item: Annotated[str, "What is bought."]) -> str:
        """Finds the price of an item in euros."""
        print(item)
        return "3.5"

    def keep(item: Annotated[str, "What is bought."]) -> None:
        """Stores the item for the next order."""

    def list_items(item: Annotated[str, "What is bought."]) -> Any:
        """Lists what is like an item."""
        print(item)
        yield item

    found = [(finding.tool, finding.rule) for finding in lint([show_price, show_later, log_price, keep, list_items])]
    assert found == [("show_price", "no-result"), ("show_later", "no-result")]


@pytest.mark.parametrize("text", ["Tells the weather at a place.", "天気を調べる", "Search the web."])
def test_a_useful_description_is_fine(text):
    assert lint(JsonTool(lambda: None, name="get_weather", description=text)) == []


def test_a_description_longer_than_a_provider_takes_is_a_warning():
    (finding,) = lint(JsonTool(lambda: None, name="f", description="Tells the weather. " * 60))
    assert (finding.rule, finding.severity) == ("long-description", "warning")
    assert "1139 characters; OpenAI takes 1024" in finding.message


@pytest.mark.parametrize(
    ("text", "name", "severity"),
    [
        ("", "word", "warning"),
        ("The word.", "word", "warning"),
        ("The user ids", "userId", "warning"),
        ("Word (string)", "word", "warning"),
        ("Text.", "word", "hint"),
    ],
)
def test_a_useless_text_of_a_parameter_is_found(text, name, severity):
    (finding,) = lint(described(text, name=name))
    assert (finding.path, finding.rule, finding.severity) == (name, "parameter-description", severity)


def test_texts_are_looked_for_at_any_depth_and_a_models_own_text_counts():
    class Item(BaseModel):
        """A thing on sale."""

        name: str
        price: float = Field(description="In euros, with tax.")
        parts: "list[Item]" = Field([], description="What it consists of.")

    def sell(item: Item, others: list[Item] | None = None) -> None:
        """Sells an item of the shop."""

    assert rules(sell) == {
        ("item.name", "parameter-description"),
        ("others", "parameter-description"),
        ("others[].name", "parameter-description"),
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The order, one of: up, down.", ["up", "down"]),
        ("One of low, medium or high.", ["low", "medium", "high"]),
        ("'asc' or 'desc'", ["asc", "desc"]),
        ('"metric" (°C, km/h) or "imperial" (°F, mph).', ["metric", "imperial"]),
        ("The kind: `a`, `b` or `c`.", ["a", "b", "c"]),
        ("Allowed values: last day, last week", ["last day", "last week"]),
        ("Must be 'a', 'b'", ["a", "b"]),
        ("The order (asc | desc)", ["asc", "desc"]),
        ("Either 'on' or 'off'.", ["on", "off"]),
    ],
)
@pytest.mark.parametrize("hint", [str, str | None, list[str]])
def test_values_that_only_the_text_lists_are_found(text, values, hint):
    (finding,) = lint(described(text, hint))
    assert (finding.path, finding.rule, finding.severity) == ("word", "enum-in-text", "warning")
    assert finding.message.endswith(f"Literal[{', '.join(map(repr, values))}]")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("The order, one of: up, down.", Literal["up", "down"]),
        ("The order, one of: 1, 2.", int),
        ("'a' or 'b'", Annotated[str, Field(pattern="^[ab]$")]),
        ('A zone such as "Europe/Paris" or "Asia/Tokyo".', str),
        ('The date, as YYYY-MM-DD, or "today".', str),
        ("'a', 'b' or any other word", str),
        ("For example 'a' or 'b'.", str),
        ('A city: "Paris", "Paris, Texas"', str),
        ("Either a city or a country", str),
        ("One of the words of the text", str),
        ("It's the user's name or the group's name", str),
        ("Begins with http:// or https://", str),
    ],
)
def test_other_texts_are_not_lists_of_values(text, hint):
    assert lint(described(text, hint)) == []


@pytest.mark.parametrize(
    ("hint", "path"),
    [
        (Any, "word"),
        (dict, "word"),
        (dict[str, Any], "word"),
        (list, "word"),
        (list[Any], "word[]"),
        (dict[str, list[Any]], "word.*[]"),
        (tuple[int, Any], "word[1]"),
    ],
)
def test_a_type_without_information_is_a_warning(hint, path):
    found = [finding for finding in lint(described("What to look up.", hint)) if finding.rule == "untyped"]
    assert {(finding.path, finding.severity) for finding in found} <= {
        (path, "warning"),
        (f"{path}[]", "warning"),
        (f"{path}.*", "warning"),
    }
    assert found


@pytest.mark.parametrize("hint", [dict[str, int], list[str], tuple[int, str], int | str, Literal[1], None, object])
def test_other_types_are_precise_enough(hint):
    found = [finding for finding in lint(described("What to look up.", hint)) if finding.rule == "untyped"]
    assert bool(found) == (hint is object)


@pytest.mark.parametrize(
    ("name", "said"),
    [("größe", "Anthropic and Gemini"), ("unit price", "Anthropic and Gemini"), ("a-b", "Gemini"), ("a.b", "Gemini")],
)
def test_names_that_a_provider_refuses_are_found(name, said):
    schema = {"properties": {name: {"type": "integer", "description": "A number to look up."}}}
    raw = JsonTool.from_schema(name="look_up", description="Looks a number up.", parameters=schema, call=dict)
    (finding,) = [finding for finding in lint(raw) if finding.rule == "parameter-name"]
    assert (finding.path, finding.severity) == (name, "warning")
    assert re.match(rf"{said} refuse", finding.message)


def test_schemas_too_large_for_strict_mode_are_found():
    deep: Any = create_model("Deep", __doc__="The end.", word=(str, Field(description="Some word.")))
    for level in range(11):
        deep = create_model(f"Level{level}", __doc__="One level.", below=(deep, Field(description="The next level.")))
    many = Enum("Many", {f"m{number}": f"v{number}" for number in range(1001)})
    for hint, said in ((deep, "levels of objects, 10 are allowed"), (many, "1001 enum values, 1000 are allowed")):
        (finding,) = [finding for finding in lint(described("What to look up.", hint)) if finding.rule == "too-large"]
        assert (finding.path, finding.severity) == ("", "warning")
        assert said in finding.message


def named(name: str, description: str) -> JsonTool[..., Any]:
    return JsonTool(lambda: None, name=name, description=description)


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        (("get_weather", "Tells the weather."), ("weather_get", "What is it like outside?"), "warning"),
        (("getWeather", "Tells the weather."), ("get_weathers", "What is it like outside?"), "warning"),
        (("search", "Search the web for a phrase."), ("look_up", "Search the web for a phrase!"), "warning"),
        (("list_user", "Lists the users of the shop."), ("list_users", "Lists each user of a shop."), "warning"),
        (
            ("find_user", "Finds a user by the mail address."),
            ("find_users", "Finds users by a mail address."),
            "warning",
        ),
        (
            ("get_orders", "Reads the open orders of a customer."),
            ("get_order2", "Reads one order of a customer."),
            "hint",
        ),
    ],
)
def test_tools_that_are_easily_mixed_up_are_found(first, second, severity):
    (finding,) = lint([named(*first), named(*second)])
    assert (finding.tool, finding.rule, finding.severity) == (second[0], "similar-tools", severity)
    assert first[0] in finding.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("read_file", "Reads a text file."), ("write_file", "Writes a text file.")),
        (("add", "Adds two numbers."), ("subtract", "Subtracts two numbers.")),
        (("get_weather", "Tells the weather now."), ("get_forecast", "Tells the weather of the next days.")),
    ],
)
def test_tools_that_differ_are_left_alone(first, second):
    assert lint([named(*first), named(*second)]) == []


def test_too_much_for_one_request_is_reported_once_for_all_tools():
    tools = [
        named(f"{'abcdefghijklmnopqrstuvwxyz'[n % 26] * (5 + n // 26)}", f"{n * 7919**3:x} {n * 104729:b} {n**9}.")
        for n in range(129)
    ]
    found = [(f.tool, f.path, f.rule, f.severity, f.message) for f in lint(tools) if not f.tool]
    assert found == [
        ("", "", "too-many-tools", "error", "129 tools in one request; OpenAI takes 128"),
        ("", "", "anthropic-strict", "hint", "129 tools; Anthropic takes 20 in one request of strict tools"),
    ]


def test_a_registry_an_agents_tools_classes_and_iterables_can_be_read():
    class Args(BaseModel):
        word: str

    class FindTool(ToolExecutor[Args]):
        """Finds a word in the text."""

        def execute(self, args: Args) -> str:
            return args.word

    expected = {("word", "parameter-description")}
    for tools in (
        FindTool,
        FindTool(),
        [[FindTool]],
        ToolRegistry(FindTool),
        JsonAgent(FindTool, model="offline").tools,
    ):
        assert rules(tools) == expected


def test_tokens_are_a_quarter_of_the_characters_and_leave_out_what_is_not_a_tool():
    sound = described("What to look up.")
    assert list(estimate_tokens([sound, 3])) == [sound.name]
    short = estimate_tokens(described("What to look up."))["look_up"]
    long = estimate_tokens(described("What to look up." + "!" * 400))["look_up"]
    assert long - short == 100
