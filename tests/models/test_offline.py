"""The embedded model: queries and tools go in, calls come out; no model, no network, no clock."""

import asyncio
import dataclasses
import datetime
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from timing import takes_at_most

from agentkit import JsonAgent, NoAnswer, tool
from agentkit.core.messages import ToolCall, assistant, calls_of, system, tool_message, user
from agentkit.engine.model import Reply, Request
from agentkit.events import AnswerForming
from agentkit.models.offline import OfflineModel, plan
from agentkit.models.offline.model import AnsweredCall, compose_arguments, compose_text
from agentkit.models.offline.planning import CallPlan
from agentkit.tools.final_answer import make_answer_tool
from agentkit.tools.registry import ToolRegistry, make_tool

WEDNESDAY = datetime.date(2024, 5, 15)


def offer(name, description, properties, required=None):
    parameters = {"type": "object", "properties": properties, "required": list(required or properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def param(type, description="", **more):
    return {"type": type, "description": description, **more}


WEATHER = offer("get_weather", "Get the weather of a city.", {"city": param("string", "The city")})
ROMAN = offer("text.roman_numeral", "Write a number as a roman numeral", {"number": param("integer")})
RENT = offer(
    "cityRent",
    "Average rent in a city in a year",
    {"city": param("string", "Name of the city"), "year": param("integer", "The year")},
    ["city"],
)
CURTAIN = offer(
    "curtain_price",
    "Price of a curtain",
    {"width": param("number", "Width of the curtain"), "height": param("number", "Height of the curtain")},
)
RUG = offer("rug_price", "Price of a round rug", {"diameter": param("float", "Diameter of the rug")})
MEETING = offer(
    "create_meeting",
    "Create a meeting in the calendar",
    {
        "title": param("string", "Title of the meeting"),
        "date": param("string", "Date, YYYY-MM-DD"),
        "time": param("string", "Start in HH:MM, 24 h"),
        "attendees": param("array", "E-mail addresses", items={"type": "string"}),
    },
    ["date"],
)


def only(query, *tools):
    calls = plan(query, tools, WEDNESDAY)
    assert len(calls) == 1, calls
    return calls[0][1]


@pytest.mark.parametrize(
    ("schema", "query", "value"),
    [
        (param("integer", "How many items"), "order 12 items", 12),
        (param("integer", "How many items"), "order twenty-five items", 25),
        (param("integer", "How many items"), "order 3 million items", 3_000_000),
        (param("integer", "How many items"), "order a dozen items", 12),
        (param("integer", "How many items"), "order 5k items", 5000),
        (param("number", "Annual rate"), "order at a rate of 5%", 0.05),
        (param("number", "Annual rate in percent"), "order at a rate of 5%", 5),
        (param("number", "Weight in kg"), "order with a weight of 2.5 kg", 2.5),
        (param("string", "When", format="date"), "order on March 3rd, 2023", "2023-03-03"),
        (param("string", "Day, MM/DD/YYYY"), "order for 2024-06-01", "06/01/2024"),
        (param("string", "Day (month-day-year)"), "order for 2024-06-01", "06-01-2024"),
        (param("string", "Day, DD.MM.YY"), "order for 2024-06-01", "01.06.24"),
        (param("string", "Day, YYYY-MM-DD"), "order for tomorrow", "2024-05-16"),
        (param("string", "Day, YYYY-MM-DD"), "order for next Friday", "2024-05-17"),
        (param("string", "Title"), "order 'The Long Way'", "The Long Way"),
        (param("string", "Link"), "order https://example.org/a?b=c please", "https://example.org/a?b=c"),
        (param("string", "File"), "order from /var/data/list.csv", "/var/data/list.csv"),
        (param("string", "File"), "order from archive.tar.gz", "archive.tar.gz"),
        (param("string", "Size", enum=["small", "extra_large"]), "order an extra large one", "extra_large"),
        (param("string", "City, State"), "order in Austin, Texas", "Austin, Texas"),
        (param("array", "Numbers", items={"type": "integer"}), "order 1, 2 and 3", [1, 2, 3]),
        (param("array", "Numbers", items={"type": "integer"}), "order [4, 5]", [4, 5]),
        (param("array", "Point", items={"type": "number"}), "order (1.5, 2)", [1.5, 2]),
        (param("object", "Amounts"), 'order {"a": 1, "b": true}', {"a": 1, "b": True}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "order 7", 7),
        ({"$ref": "#/$defs/Count"}, "order 8", 8),
    ],
)
def test_a_value_becomes_what_the_schema_asks_for(schema, query, value):
    tool = offer("order", "Order something", {"value": schema})
    tool["function"]["parameters"]["$defs"] = {"Count": {"type": "integer"}}
    found = only(query, tool)["value"]
    assert found == value
    assert type(found) is type(value) or isinstance(value, float)


@pytest.mark.parametrize(
    ("parameter", "value"), [("file", "build.log"), ("file", "/var/log/build.log"), ("expression", "12 * 3.5")]
)
@pytest.mark.parametrize("end", ["", ".", "?", " please."])
def test_the_full_stop_behind_a_value_is_not_part_of_the_value(parameter, value, end):
    tool = offer("order", "Order something", {parameter: param("string", f"The {parameter}")})
    assert only(f"Order {value}{end}", tool) == {parameter: value}


def test_each_number_goes_to_the_parameter_whose_words_are_nearest():
    assert only("price of a curtain, height 3 and width of 10", CURTAIN) == {"width": 10, "height": 3}


def test_names_go_where_their_prepositions_point():
    tool = offer("find_flight", "Find a flight", {"origin": param("string"), "destination": param("string")})
    assert only("Find a flight to Berlin from New York", tool) == {"origin": "New York", "destination": "Berlin"}


def test_nested_objects_are_filled():
    person = {"type": "object", "properties": {"name": param("string"), "age": param("integer")}, "required": ["name"]}
    tool = offer("create_user", "Create a user", {"person": person})
    assert only("Create a user for Maria Lopez, age 34", tool) == {"person": {"name": "Maria Lopez", "age": 34}}


def test_a_schema_that_contains_itself_ends():
    node = {"type": "object", "properties": {"name": param("string"), "next": {"$ref": "#/$defs/Node"}}}
    tool = offer("create_node", "Create a node", {"node": {"$ref": "#/$defs/Node"}})
    tool["function"]["parameters"]["$defs"] = {"Node": node}
    assert plan("Create a node", [tool]) is not None


@pytest.mark.parametrize(("query", "value"), [("with photos", True), ("without photos", False)])
def test_a_flag_is_set_as_the_query_states(query, value):
    tool = offer("find_recipe", "Find a recipe", {"name": param("string"), "photos": param("boolean")}, ["name"])
    assert only(f"Find the recipe 'Carrot cake' {query}", tool) == {"name": "Carrot cake", "photos": value}


def test_of_two_options_with_one_meaning_the_one_in_the_query_is_taken():
    tool = offer("order", "Order something", {"value": param("string", enum=["photo", "image"])})
    assert [only(f"order the {word}", tool)["value"] for word in ("photo", "image")] == ["photo", "image"]


def test_a_flag_with_several_words_and_lists_of_options_are_found():
    colors = {"type": "array", "items": {"type": "string", "enum": ["red", "green", "blue"]}}
    tool = offer("order_paint", "Order some paint", {"with_brush": param("boolean"), "colors": colors}, ["colors"])
    assert only("order paint in red, green and blue with a brush", tool) == {
        "with_brush": True,
        "colors": ["red", "green", "blue"],
    }


def test_an_optional_parameter_without_a_value_in_the_query_is_left_out():
    assert only("rent in Paris", RENT) == {"city": "Paris"}


def test_a_meeting_gets_its_title_date_time_and_people():
    query = "Create a meeting titled 'Sync' on 2024-03-12 at 3:30 PM with ann@x.org and bob@x.org"
    assert only(query, MEETING) == {
        "title": "Sync",
        "date": "2024-03-12",
        "time": "15:30",
        "attendees": ["ann@x.org", "bob@x.org"],
    }


def test_a_list_where_one_value_fits_makes_a_call_for_each():
    assert plan("roman numeral of 5, 10 and 15", [ROMAN]) == [
        ("text.roman_numeral", {"number": n}) for n in (5, 10, 15)
    ]
    assert plan("What's the weather in Rome and Paris?", [WEATHER]) == [
        ("get_weather", {"city": "Rome"}),
        ("get_weather", {"city": "Paris"}),
    ]


def test_a_value_that_occurs_once_is_shared_by_the_calls():
    assert plan("Rent of Paris and of Rome in 2020", [RENT]) == [
        ("cityRent", {"city": "Paris", "year": 2020}),
        ("cityRent", {"city": "Rome", "year": 2020}),
    ]


def test_several_sets_of_values_make_several_calls():
    query = "price of a curtain with width 6 and height 10, and of another with width 8 and height 5"
    assert plan(query, [CURTAIN]) == [
        ("curtain_price", {"width": 6, "height": 10}),
        ("curtain_price", {"width": 8, "height": 5}),
    ]


def test_tasks_for_different_tools_are_distinguished():
    query = (
        "Find the price of a curtain with width 5 and height 3, and a rug with diameter 2. Also the weather in Oslo?"
    )
    assert plan(query, [WEATHER, RUG, ROMAN, CURTAIN]) == [
        ("curtain_price", {"width": 5, "height": 3}),
        ("rug_price", {"diameter": 2}),
        ("get_weather", {"city": "Oslo"}),
    ]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("Who left the door open?", ROMAN),
        ("Tell me a joke", WEATHER),
        ("What is the weather?", WEATHER),
        ("What is the price of a curtain with width 5?", CURTAIN),
        ("", WEATHER),
    ],
)
def test_nothing_is_called_that_does_not_fit_or_cannot_be_filled(query, tool):
    assert plan(query, [tool]) == []


def test_a_tool_of_which_only_common_words_are_known_is_meant_by_its_name():
    tools = (
        offer("find_room", "Finds a room", {"room": param("integer")}),
        offer("describe_number", "", {"value": param("integer")}),
    )
    assert plan("Find room 7, and describe the number 41.", tools) == [
        ("find_room", {"room": 7}),
        ("describe_number", {"value": 41}),
    ]


def test_no_tools_no_calls():
    assert plan("weather in Rome", []) == []


def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: The city.
    """
    return f"sunny in {city}"


def final_answer(text: str) -> str:
    """End with the answer.

    Args:
        text: The answer.
    """
    return text


def ask(*messages, tool_choice="auto"):
    tools = ToolRegistry(get_weather, answer=make_tool(final_answer))
    (reply,) = OfflineModel(today=lambda: WEDNESDAY).ask(Request(messages, tools, tool_choice))
    assert isinstance(reply, Reply)
    return reply.message


def told(message):
    (call,) = calls_of(message)
    assert call.name == "final_answer"
    return json.loads(call.arguments)["text"]


QUERY = [system("You help."), user("Weather in Rome and Oslo?")]
ROME = ToolCall("call_1", "get_weather", '{"city": "Rome"}')
OSLO = ToolCall("call_2", "get_weather", '{"city": "Oslo"}')


def test_calls_go_out_as_json_text_with_unique_ids():
    assert calls_of(ask(*QUERY)) == [ROME, OSLO]


def test_the_answer_tells_results_and_errors_one_to_a_line():
    results = [tool_message(ROME, "sunny"), tool_message(OSLO, "ConnectionError: no route")]
    text = told(ask(*QUERY, assistant(calls=[ROME, OSLO]), *results))
    assert text == "get_weather (Rome): sunny\nget_weather could not answer for Oslo: ConnectionError: no route"


def test_a_call_that_failed_is_not_repeated():
    history = [user("Weather in Oslo?"), assistant(calls=[OSLO]), tool_message(OSLO, "TimeoutError")]
    assert "could not answer" in told(ask(*history))


def test_a_later_query_is_planned_anew():
    finished = ToolCall("call_3", "final_answer", '{"text": "sunny"}')
    history = [*QUERY[:1], user("Weather in Rome?"), assistant(calls=[ROME]), tool_message(ROME, "sunny")]
    history += [assistant(calls=[finished]), tool_message(finished, "sunny"), user("Weather in Rome?")]
    (call,) = calls_of(ask(*history))
    assert call.name == "get_weather"
    assert call.id not in ("", "call_1", "call_3")


def test_a_reminder_of_the_loop_is_not_a_query():
    reminder = user("Go on by calling a tool. When the task is done, call final_answer with the answer.")
    assert calls_of(ask(*QUERY, assistant("hm"), reminder)) == [ROME, OSLO]


def test_the_answer_is_given_at_once_when_it_is_the_tool_chosen():
    assert "get_weather" in told(ask(*QUERY, tool_choice="final_answer"))


def test_without_a_fitting_tool_the_answer_names_the_tools():
    assert told(ask(user("Tell me a joke"))) == "I found no tool that fits this query. The tools I have: get_weather."


def test_a_missing_argument_is_named():
    assert told(ask(user("What is the weather?"))) == "I could not call get_weather: the query does not say city."


def test_a_long_result_is_cut_at_a_word():
    text = compose_text([AnsweredCall("read", {}, "word " * 1000)], CallPlan([], {}, {}, []), ["read"])
    assert len(text) < 2100
    assert text.endswith("word ...")


@dataclasses.dataclass
class Weather:
    city: str
    temperature: float
    wind: float | None = None


class Page(BaseModel):
    pageTitle: str
    words: int = Field(ge=0)


class Site(BaseModel):
    pages: list[Page]


PAGE = {"pageTitle": "The 3 winding roads", "words": 120}
WRITTEN = '{"page_title": "The 3 winding roads", "words": 120, "read": true}'


@pytest.mark.parametrize(
    ("type_", "contents", "value"),
    [
        (int, ["42"], 42),
        (float, ["It is 21.5 degrees."], 21.5),
        (bool, ["true"], True),
        (list[str], ['["a", "b"]'], ["a", "b"]),
        (list[str], ["a b", "c"], ["a b", "c"]),
        (list[str], ["a b"], ["a b"]),
        (list[int], ["The numbers are 4, 5 and 6."], [4, 5, 6]),
        (Literal["low", "high"], ["The risk is high."], "high"),
        (datetime.date, ["It was on May 3rd, 2024."], "2024-05-03"),
        (int | str, ["seven"], "seven"),
        (Any, ['{"a": 1}'], {"a": 1}),
        (dict[str, float], ['{"a": 1.5}'], {"a": 1.5}),
        (str | None, ["rain", "sun"], "said so"),
        (float, ['{"item": "tea", "euros": 3.5}'], 3.5),
        (list[float], ['["3.5", "4 euros"]'], [3.5, 4]),
        (list[float], ["3.5", "ValueError: boom", "4"], [3.5, 4]),
        (list[Page], [WRITTEN], [PAGE]),
        (list[Page], [f"[{WRITTEN}]"], [PAGE]),
        (int, ["no numbers here"], None),
        (int, ["either 3 or 4"], None),
        (int, ["A has 3. The other one, B, has 4."], None),
        (int, ["ValueError: 3 is wrong"], None),
        (list[str], ["ValueError: 3 is wrong"], None),
    ],
)
def test_a_typed_answer_is_taken_from_the_results_or_not_given(type_, contents, value):
    answered = [AnsweredCall("tool", {"city": "Rome"}, content) for content in contents]
    found = compose_arguments(make_answer_tool(type_), answered, "said so")
    assert found == (None if value is None else {"answer": value})


@pytest.mark.parametrize(
    ("type_", "content", "fields"),
    [
        (Weather, "a temperature of 21.5 degrees", {"city": "Rome", "temperature": 21.5}),
        (Weather, "temperature 21.5, wind 12 km/h", {"city": "Rome", "temperature": 21.5, "wind": 12}),
        (Weather, '{"temperature": "21.5 C", "wind": null}', {"city": "Rome", "temperature": 21.5}),
        (Page, WRITTEN, PAGE),
        (Site, f'{{"pages": [{WRITTEN}]}}', {"pages": [PAGE]}),
        (Page, '{"pageTitle": "Roads", "words": -1}', None),
        (Page, "sunny, 3 degrees", None),
        (Weather, "ConnectionError: temperature 3", None),
    ],
)
def test_the_fields_of_an_answer_are_read_from_results_arguments_and_texts(type_, content, fields):
    assert (
        compose_arguments(make_answer_tool(type_), [AnsweredCall("tool", {"city": "Rome"}, content)], content) == fields
    )


def test_a_typed_answer_that_cannot_be_given_is_refused_in_text():
    tools = ToolRegistry(get_weather, answer=make_tool(count_answer))
    history = [user("Weather in Rome?"), assistant(calls=[ROME]), tool_message(ROME, "sunny")]
    (reply,) = OfflineModel().ask(Request(history, tools))
    assert calls_of(reply.message) == []
    assert reply.message["content"].startswith("I cannot give the answer in the shape asked for.")


def count_answer(answer: int) -> int:
    """End with a number."""
    return answer


count_answer.__name__ = "final_answer"


async def replies(request):
    return [reply async for reply in OfflineModel().aask(request)]


def test_asking_asynchronously_gives_the_same_reply():
    request = Request(QUERY, ToolRegistry(get_weather, answer=make_tool(final_answer)))
    assert asyncio.run(replies(request)) == list(OfflineModel().ask(request))


def test_the_same_query_gives_the_same_plan():
    assert plan("roman numeral of 3 and 4", [ROMAN]) == plan("roman numeral of 3 and 4", [ROMAN])


def test_as_many_numbers_as_parameters_are_given_in_order():
    tool = offer("solve_system", "Solve a system", {f"p{n}": param("integer") for n in range(7)})
    assert only("Solve a system with 1, 2, 3, 4, 5, 6 and 7", tool) == {f"p{n}": n + 1 for n in range(7)}


@pytest.mark.parametrize("schema", [True, {}, {"type": ["null", "integer"], "minimum": "x"}, {"enum": [3, 4]}])
def test_a_loose_schema_is_not_an_error(schema):
    assert plan("order 3 at 99:99 on 2024-13-45", [offer("order", "Order something", {"value": schema})]) is not None


def test_a_call_with_fewer_arguments_than_another_is_left_out():
    tool = offer("cancel_event", "Cancel an event", {"title": param("string"), "notify": param("boolean")}, ["title"])
    assert only("Cancel the event 'Review' and notify everyone", tool) == {"title": "Review", "notify": True}


def test_a_range_gives_the_lower_and_the_upper_bound():
    bounds = {"min": param("integer"), "max": param("integer")}
    assert only("a random number between 10 and 20", offer("random_number", "Random", bounds)) == {"min": 10, "max": 20}


PLACES = offer("get_places", "Weather at a place", {"place": param("string", 'A city, for example "Oslo"')})
CLOCK = offer("current_time", "Tell the time in a zone", {"zone": param("string", 'Such as "Lima"')}, [])
WEB = offer("search_text", "Search the web", {"query": param("string", "What to look for")})


def test_an_optional_argument_that_the_description_names_is_taken():
    assert plan("What time is it in Lima, and how is the weather in Oslo?", [CLOCK, WEATHER]) == [
        ("current_time", {"zone": "Lima"}),
        ("get_weather", {"city": "Oslo"}),
    ]


def test_calls_come_in_the_order_of_the_query():
    assert [call["place"] for _, call in plan("Weather in Cork, Oslo and Rome", [PLACES])] == ["Cork", "Oslo", "Rome"]


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("Where should I eat in Cork today?", [("search_text", {"query": "eat in Cork today"})]),
        ("Search the web for quiet beaches in Crete", [("search_text", {"query": "quiet beaches in Crete"})]),
        ("Tell me a joke", []),
        ("Hello, how are you?", []),
        ("Weather in Cork?", [("get_weather", {"city": "Cork"})]),
    ],
)
def test_a_search_of_the_web_serves_a_question_that_no_other_tool_fits(query, calls):
    assert plan(query, [WEB, WEATHER]) == calls


@pytest.mark.parametrize(
    "text", ["a" * 6000, "(" * 6000, "Aa " * 3000, "1, " * 2500, "2**" * 2000, "weather in Rome? " * 500]
)
def test_odd_long_text_is_read_in_bounded_time(text):
    with takes_at_most(50):
        plan(text, [WEATHER, CLOCK, WEB])


def test_arithmetic_in_words_goes_to_the_tool_that_takes_a_formula():
    solve = {
        "name": "solve",
        "description": "Works a formula out.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    }
    look = {
        "name": "look_up",
        "description": "Searches the web.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    }
    for query, expression in (("What is 15% of 2,340?", "15% of 2,340"), ("How much is 12 * 7?", "12 * 7")):
        assert plan(query, [look, solve]) == [("solve", {"expression": expression})]


def test_an_answer_with_fields_of_its_own_is_filled_from_the_results():
    @dataclasses.dataclass
    class Offer:
        item: str
        euros: float

    def price_of(item: str) -> dict:
        """Looks up the price of an item of the shop, in euros."""
        return {"item": item, "euros": 3.5}

    assert JsonAgent(price_of, answer=Offer)("What is the price of tea?") == Offer("tea", 3.5)
    with pytest.raises(NoAnswer):
        JsonAgent(price_of, answer=Offer)("Sing a song")


@pytest.mark.parametrize(
    ("parameter", "query", "value"),
    [
        ("serial", "order 0417 please", "0417"),
        ("serial", "order the one with number 318-77", "318-77"),
        ("train", "order a seat on RE 4711", "RE 4711"),
        ("zone", "order for Asia/Tokyo", "Asia/Tokyo"),
        ("repository", "order acme/website", "acme/website"),
        ("mask", "order what matches C?T*", "C?T*"),
        ("vitamin", "order some vitamin C", "vitamin C"),
        ("dish", "order which soup goes with dumplings", "dumplings"),
        ("task", "remind Ann to feed the cat at 7:00 and order it", "feed the cat"),
        ("message", "order this and tell Ann Bell that we are late.", "we are late"),
    ],
)
def test_codes_signs_and_sentences_are_values(parameter, query, value):
    assert only(query, offer("order", "Order something", {parameter: param("string")})) == {parameter: value}


def test_a_number_belongs_to_the_words_that_it_counts():
    tool = offer("plan_garden", "Plan a garden", {"rows": param("integer"), "depth": param("integer", "Depth in cm")})
    assert only("Plan a garden with 12 rows 30 cm deep", tool) == {"rows": 12, "depth": 30}
    stock = offer("add_stock", "Add stock", {"item": param("string"), "quantity": param("integer")}, ["item"])
    assert plan("Add stock: 4 lemons, 2 jars of honey and 9 limes", [stock]) == [
        ("add_stock", {"item": item, "quantity": count}) for item, count in (("lemons", 4), ("honey", 2), ("limes", 9))
    ]


def test_the_unit_that_a_description_names_tells_of_an_optional_parameter():
    tool = offer(
        "toast_bread", "Toast bread", {"slices": param("integer"), "power": param("integer", "In kW")}, ["slices"]
    )
    assert only("Toast 2 slices of bread at 3 kW", tool) == {"slices": 2, "power": 3}


def test_one_option_for_two_parameters_goes_where_its_preposition_points():
    scale = param("string", enum=["acre", "hectare"])
    tool = offer("convert_area", "Convert an area", {"area": param("number"), "from_unit": scale, "to_unit": scale})
    assert only("Convert 7 hectares to acres", tool) == {"area": 7, "from_unit": "hectare", "to_unit": "acre"}


@pytest.mark.parametrize(
    ("description", "query", "value"),
    [
        ("Code of the currency", "pay in Swiss francs", "CHF"),
        ("Language code", "pay in Portuguese", "pt"),
        ("Two-letter code of the country", "pay in Norway", "NO"),
        ("Name of the country", "pay in Norway", "Norway"),
        ("The country, for example 'Peru'", "pay in Norway", "Norway"),
    ],
)
def test_a_parameter_for_a_code_gets_the_code_of_a_name_in_the_query(description, query, value):
    assert only(query, offer("pay_bill", "Pay a bill", {"with": param("string", description)})) == {"with": value}


ROUTE = offer(
    "route_length",
    "Length of a route",
    {"start": param("string"), "end": param("string"), "unit": param("string", enum=["km", "miles"])},
    ["start", "end"],
)


def test_a_value_at_the_end_of_the_query_holds_for_all_calls():
    expected = [
        ("route_length", {"start": start, "end": end, "unit": "miles"})
        for start, end in (("Bern", "Basel"), ("Graz", "Linz"))
    ]
    assert plan("Length of the route from Bern to Basel, and from Graz to Linz, in miles", [ROUTE]) == expected
    assert plan("Route length from Bern to Basel and from Graz to Linz? In miles please.", [ROUTE]) == expected


def test_a_clause_that_gives_parameters_anew_makes_a_call():
    lamp = offer("dim_lamp", "Dim a lamp", {"place": param("string"), "level": param("integer")})
    assert plan("Dim the lamp in the attic to 20 and the cellar to 35", [lamp]) == [
        ("dim_lamp", {"place": "attic", "level": 20}),
        ("dim_lamp", {"place": "cellar", "level": 35}),
    ]
    assert plan("Write 8 as a roman numeral, and another one for 12", [ROMAN]) == [
        ("text.roman_numeral", {"number": n}) for n in (8, 12)
    ]


def test_a_pronoun_stands_for_a_value_of_another_task():
    born = offer("birth_year", "Year in which a painter was born", {"painter": param("string")})
    museum = offer("find_works", "Find the works of a painter", {"painter": param("string")})
    assert plan("In which year was the painter Frida Kahlo born, and find her works", [born, museum]) == [
        ("birth_year", {"painter": "Frida Kahlo"}),
        ("find_works", {"painter": "Frida Kahlo"}),
    ]


def test_the_words_of_a_quotation_request_no_call():
    close = offer("close_window", "Close a window", {"window": param("string")})
    post = offer("post_letter", "Post a letter", {"subject": param("string"), "body": param("string")})
    query = "Post a letter with the subject 'Cold' and the body 'Close the window'"
    assert plan(query, [close, post]) == [("post_letter", {"subject": "Cold", "body": "Close the window"})]


def test_a_value_that_a_preposition_leads_to_is_not_lost():
    tool = offer("hire_clown", "Hire a clown", {"date": param("string"), "venue": param("string")}, ["date"])
    assert only("Hire a clown for 2024-07-01 under the tent of Rosalba", tool) == {
        "date": "2024-07-01",
        "venue": "Rosalba",
    }


@pytest.mark.parametrize(
    "identifier",
    [
        "payment-api", "shop.example.com", "2.4.1", "v1.0.3-rc1", "team/app:v2", "node@host-1", "db.primary", "host:8080",
        "auth_service", "logs-2024-01-05", "shop.example.com:8080",
    ],
)  # fmt: skip
@pytest.mark.parametrize("query", ["Restart {}", "restart the service {}, please", "Restart {} and auth-service."])
def test_an_identifier_is_one_value(identifier, query):
    tool = offer("restart", "Restarts a service.", {"service": param("string", "The service")})
    calls = plan(query.format(identifier), [tool], WEDNESDAY)
    assert calls[0] == ("restart", {"service": identifier})
    assert all(arguments["service"] in (identifier, "auth-service") for _, arguments in calls)


def test_words_with_a_hyphen_stay_together_and_abbreviations_are_words():
    tool = offer("get_price", "Gets the price of an item.", {"item": param("string")})
    assert only("the price of well-known tea", tool) == {"item": "well-known tea"}
    assert only("e.g. the price of tea", tool) == {"item": "tea"}


@pytest.mark.parametrize("quotes", ['""', "''", "“”", "‘’", "``", "«»"])
def test_quotes_around_the_whole_query_are_removed(quotes):
    assert plan(f" {quotes[0]}weather in Rome{quotes[1]} ", [WEATHER], WEDNESDAY) == plan("weather in Rome", [WEATHER])
    assert plan(f"{quotes[0]}weather in Rome{quotes[1]}", [WEATHER])


@pytest.mark.parametrize(
    ("query", "unused"),
    [
        ("What is the weather in Rome, and book a flight", "book a flight"),
        ("weather in Rome at 10:30", "10:30"),
        ("weather in Rome for order #4711", "#4711"),
        ("What's the weather in Rome and the capital of France?", "the capital of France"),
        ("weather in Rome and a hotel in Paris", "a hotel in Paris"),
    ],
)
def test_the_answer_names_the_parts_of_the_query_that_were_not_used(query, unused):
    result = JsonAgent([tool(get_weather, effect="read")], model="offline").run(query)
    assert "Rome" in str(result.answer) or "sunny" in str(result.answer)
    assert result.answer.endswith(f"I did not use this part of the query: {unused}.")


def test_a_request_for_something_else_is_not_a_further_call():
    assert plan("What's the weather in Rome and the capital of France?", [WEATHER]) == [
        ("get_weather", {"city": "Rome"})
    ]
    assert plan("weather in Rome and then in beautiful Oslo", [WEATHER]) == [
        ("get_weather", {"city": city}) for city in ("Rome", "Oslo")
    ]


@pytest.mark.parametrize("verb", ["Rent", "Fathom", "then fathom", "please fathom"])
def test_the_verb_that_opens_a_request_is_not_a_value(verb):
    assert plan(f"{verb} of Paris and of Rome in 2020 as the rent in the city", [RENT]) == [
        ("cityRent", {"city": city, "year": 2020}) for city in ("Paris", "Rome")
    ]


def test_the_parts_that_were_not_used_are_not_part_of_a_typed_answer():
    agent = JsonAgent([tool(get_weather, effect="read")], model="offline", answer=list[str])
    assert agent("weather in Rome at 10:30") == ["sunny in Rome"]


@pytest.mark.parametrize(
    ("query", "unsure"),
    [
        ("Restart the thing that is broken", "service (thing)"),  # merely the rest of the text
        ("restart checkout in Frankfurt", "service (Frankfurt)"),  # or checkout
        ("Open report.txt", "the tool"),  # no word asks for it
    ],
)
def test_a_tool_with_side_effects_is_not_called_with_uncertain_values(query, unsure):
    ran = []

    @tool(effect="write")
    def restart(service: str) -> str:
        """Restarts a service."""
        ran.append(service)
        return "done"

    @tool(effect="danger")
    def delete_file(path: str) -> str:
        """Deletes a file."""
        ran.append(path)
        return "gone"

    answer = JsonAgent([restart, delete_file], model="offline", approve=lambda *_: True)(query)
    assert ran == []
    assert f"which is not declared as effect='read', because I am not certain of {unsure}" in answer
    assert JsonAgent([restart, delete_file], model="offline", approve=lambda *_: True)("Restart the service 'thing'")
    assert ran == ["thing"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("the forecast for Rome", "get_weather"),
        ("how much does 'tea' cost", "get_price"),
        ("remove 'old.log'", "delete_file"),
        ("generate 'a summary'", "create_text"),
        ("mail to ada@example.com", "send_email"),
    ],
)
def test_synonyms_of_common_words_choose_the_tool(query, name):
    tools = [
        offer("get_weather", "", {"city": param("string")}),
        offer("get_price", "", {"item": param("string")}),
        offer("delete_file", "", {"file": param("string")}),
        offer("create_text", "", {"text": param("string")}),
        offer("send_email", "", {"to": param("string")}),
    ]
    assert [call[0] for call in plan(query, tools)] == [name]


def act(query, *functions, effect=None):
    """Return the calls that an agent over the functions makes, and its answer."""
    tools = [tool(function, effect=effect) if effect else function for function in functions]
    model = OfflineModel(today=lambda: WEDNESDAY)
    result = JsonAgent(tools, model=model, approve=lambda *_: True).run(query)
    calls = [(each.call.name, json.loads(each.call.arguments)) for each in result.calls]
    return [call for call in calls if call[0] != "final_answer"], str(result.answer)


def deploy(service: str, environment: Literal["staging", "production"], version: str | None = None) -> str:
    """Deploy a service."""
    return f"{service} {environment} {version}"


def cancel_event(event_id: str, notify: bool = True) -> str:
    """Cancel an event."""
    return f"{event_id} {notify}"


def merge_pull_request(number: int, method: Literal["merge", "squash"] = "merge") -> str:
    """Merge a pull request."""
    return f"{number} {method}"


def refund_order(order_id: str) -> str:
    """Refund an order."""
    return order_id


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def move_files(source: str, target: str) -> str:
    """Move files."""
    return f"{source} {target}"


def list_orders(status: str | None = None) -> str:
    """List the orders."""
    return f"{status}"


ACTING = [deploy, cancel_event, merge_pull_request, refund_order, add, move_files]


@pytest.mark.parametrize("effect", [None, "write", "danger"])
@pytest.mark.parametrize(
    ("query", "call"),
    [
        ("Deploy billing v2.4.1 to staging", ("deploy", {"service": "billing", "environment": "staging", "version": "v2.4.1"})),
        ("Deploy billing to staging, not production", ("deploy", {"service": "billing", "environment": "staging"})),
        ("Cancel EV-2041 without notifying anybody", ("cancel_event", {"event_id": "EV-2041", "notify": False})),
        ("Cancel EV-2041 but don't notify anybody", ("cancel_event", {"event_id": "EV-2041", "notify": False})),
        ("Squash and merge 482", ("merge_pull_request", {"number": 482, "method": "squash"})),
        ("Refund order A-55021", ("refund_order", {"order_id": "A-55021"})),
        ("Add 2 and 3", ("add", {"a": 2, "b": 3})),
        ("Move files from a.txt to b.txt", ("move_files", {"source": "a.txt", "target": "b.txt"})),
    ],
)  # fmt: skip
def test_a_tool_that_may_write_is_called_where_every_word_has_its_place(query, call, effect):
    assert act(query, *ACTING, effect=effect)[0] == [call]


@pytest.mark.parametrize("effect", [None, "write", "danger"])
@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("Refund 19.90 of order A-55021", "19.90"),
        ("Refund half of order A-55021", "half"),
        ("Cancel EV-2041 if nobody comes", "if nobody comes"),
        ("Cancel EV-2041 at 18:00", "18:00"),
        ("Please don't cancel EV-2041", "don't"),
        ("Never merge 482", "Never"),
        ("Cancel EV-2041 or EV-2042", "or"),
        ("Deploy billing to staging at 22:00", "22:00"),
        ("Add 2 plus 3 plus 4", "4"),
    ],
)
def test_a_tool_that_may_write_is_not_called_while_a_part_of_the_query_has_no_place(query, part, effect):
    calls, answer = act(query, *ACTING, effect=effect)
    assert calls == []
    assert f'the part "{part}"' in answer


def test_a_tool_that_may_write_is_not_called_where_two_fillings_or_two_tools_are_equally_good():
    def swap(first: str, second: str) -> str:
        """Swap two shifts."""
        return first + second

    def cancel_trip(trip_id: str) -> str:
        """Cancel a trip."""
        return trip_id

    calls, answer = act("Swap the shifts 'early' for 'late'", swap)
    assert calls == []
    assert "first or second ('early')" in answer
    calls, answer = act("Cancel EV-2041", cancel_event, cancel_trip)
    assert calls == []
    assert "the tool" in answer


@pytest.mark.parametrize("query", ["Do I have to cancel EV-2041?", "Is EV-2041 cancelled?", "How do I cancel EV-2041?"])
def test_a_question_about_an_action_does_not_act(query):
    assert act(query, *ACTING)[0] == []


@pytest.mark.parametrize("query", ["Could you cancel EV-2041?", "Can you please cancel EV-2041?"])
def test_a_request_in_the_form_of_a_question_acts(query):
    assert act(query, *ACTING)[0] == [("cancel_event", {"event_id": "EV-2041"})]


def scale_service(service: str, replicas: int) -> str:
    """Scale a service to a number of replicas."""
    return f"{service} {replicas}"


def ban_user(user: str, days: int = 7) -> str:
    """Ban a user for some days."""
    return f"{user} {days}"


def close_ticket(ticket: str, comment: str = "") -> str:
    """Close a support ticket."""
    return f"{ticket} {comment}"


def rename_file(old: str, new: str) -> str:
    """Rename a file."""
    return f"{old} {new}"


def order_food(dish: str, quantity: int = 1) -> str:
    """Order a dish."""
    return f"{dish} {quantity}"


def refund(order_id: str, amount: float | None = None) -> str:
    """Refund an order, all of it or an amount."""
    return f"{order_id} {amount}"


def change_price(product: str, price: float) -> str:
    """Change the price of a product."""
    return f"{product} {price}"


def merge(number: int, method: str = "merge") -> str:
    """Merge a pull request."""
    return f"{number} {method}"


def forward_mail(mail_id: str, to: str) -> str:
    """Forward a mail to an address."""
    return f"{mail_id} {to}"


def lock_door(door: str, locked: bool = True) -> str:
    """Lock or unlock a door."""
    return f"{door} {locked}"


def transfer(source: str, target: str, amount: float) -> str:
    """Transfer money from one account to another account."""
    return f"{source} {target} {amount}"


EVERYDAY = [scale_service, ban_user, close_ticket, rename_file, order_food, refund, change_price, merge, forward_mail]
EVERYDAY += [lock_door, transfer, add]


@pytest.mark.parametrize(
    "query",
    [
        "Ban everyone in the thread except miller",
        "Order no pizza",
        "Ban miller forever",
        "Ban miller weekly",
        "Scale billing down by 3",
        "Scale billing by 3 replicas",
        "Change the price of 'tea' by 0.50",
        "Refund 20% of order A-55021",
        "Merge 482 into release-2.0",
        "Squash and merge 482",
        "Ask Ada to close T-17",
        "Tell Ada to close T-17",
        "I want Ada to close T-17",
        "Somebody closed T-17",
        "Tell me how to close T-17",
        "Add 2 and 3 and 4",
        "Rename a.txt to b.txt and c.txt to d.txt",
        "Forward mail M-7 from ada@example.com",
        "Don't lock the front door",
        "Transfer 100 from savings to checking and 50 to rent",
        "Order 3 burgers and 2 salads from Luigi",
    ],
)
def test_a_tool_that_may_write_is_not_called_for_another_request_than_the_words_make(query):
    assert act(query, *EVERYDAY)[0] == []


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("Scale billing from 5 to 3 replicas", [("scale_service", {"service": "billing", "replicas": 3})]),
        ("Change the price of 'tea' to 3.50", [("change_price", {"product": "tea", "price": 3.5})]),
        ("Forward mail M-7 to ada@example.com", [("forward_mail", {"mail_id": "M-7", "to": "ada@example.com"})]),
        ("Rename a.txt to b.txt", [("rename_file", {"old": "a.txt", "new": "b.txt"})]),
        ("Close T-17 because 'who knows why'", [("close_ticket", {"ticket": "T-17", "comment": "who knows why"})]),
        ("Close T-17 because 'done'", [("close_ticket", {"ticket": "T-17", "comment": "done"})]),
        ("Ban miller for 30 days", [("ban_user", {"user": "miller", "days": 30})]),
        ("Order 2 pizzas and 3 salads", [("order_food", {"dish": "pizzas", "quantity": 2}), ("order_food", {"dish": "salads", "quantity": 3})]),
    ],
)  # fmt: skip
def test_a_plain_request_is_made_beside_tools_that_are_alike(query, calls):
    assert sorted(act(query, *EVERYDAY)[0], key=str) == sorted(calls, key=str)


def test_a_contrast_before_a_flag_does_not_deny_the_flag():
    def cancel(event_id: str, notify: bool = False) -> str:
        """Cancel an event and notify the guests."""
        return f"{event_id} {notify}"

    query = "Cancel EV-2041 but notify the guests"
    assert act(query, cancel)[0][0][1] == {"event_id": "EV-2041", "notify": True}


def test_a_question_prefers_a_tool_that_reads():
    read = tool(list_orders, effect="read")
    assert act("Which orders are there?", tool(refund_order, effect="danger"), read)[0] == [("list_orders", {})]


@pytest.mark.parametrize(
    "query", ["What is 2 plus 3?", "What is 2 + 3?", "How much is 2 plus 3?", "the sum of 2 and 3"]
)
def test_a_sum_in_a_question_goes_to_a_tool_with_two_numbers(query):
    assert act(query, add)[0] == [("add", {"a": 2, "b": 3})]


def test_a_tool_that_reads_is_called_with_what_fits_and_the_answer_names_the_rest():
    def get_rent(city: str) -> str:
        """Get the rent in a city."""
        return "900"

    calls, answer = act("Rent in Rome for 4 people", get_rent, effect="read")
    assert calls == [("get_rent", {"city": "Rome"})]
    assert "I did not use this part of the query: 4." in answer
    assert act("Rent in Rome for 4 people", get_rent)[0] == []
    assert act("Don't get the rent in Rome", get_rent, effect="read")[0] == []


def test_the_description_tells_which_preposition_leads_to_a_parameter():
    def assign_client(partner: str, client: str) -> str:
        """Assign a client to a partner."""
        return f"{client} {partner}"

    assert act("Assign miller to jones", assign_client)[0] == [
        ("assign_client", {"partner": "jones", "client": "miller"})
    ]


@pytest.mark.parametrize("query", ["Close EV-7 without notifying them", "Close EV-7 and do not notify anybody"])
def test_a_denied_word_of_a_flag_makes_it_false(query):
    def close_event(event_id: str, notify_guests: bool = True) -> str:
        """Close an event."""
        return event_id

    assert act(query, close_event)[0] == [("close_event", {"event_id": "EV-7", "notify_guests": False})]


@pytest.mark.parametrize(("query", "room"), [("in the living room", "living room"), ("in the attic", "attic")])
def test_a_word_that_names_nothing_alone_keeps_the_noun_behind_it(query, room):
    def dim_light(room: str) -> str:
        """Dim the light in a room."""
        return room

    assert act(f"Dim the light {query}", dim_light)[0] == [("dim_light", {"room": room})]


def test_an_optional_number_takes_a_number_that_counts_nothing():
    def refund(order_id: str, amount: float | None = None) -> str:
        """Refund an order."""
        return f"{order_id} {amount}"

    assert act("Refund 19.90 of A-55021", refund)[0] == [("refund", {"order_id": "A-55021", "amount": 19.9})]
    assert act("Refund 2 items of A-55021", refund)[0] == []


def test_listed_values_are_one_argument_of_a_parameter_that_takes_a_list():
    def tag_photo(photo: str, tags: list[str]) -> str:
        """Add tags to a photo."""
        return photo

    query = "Add the tags 'beach' and 'sun' to cat.png"
    assert act(query, tag_photo)[0] == [("tag_photo", {"photo": "cat.png", "tags": ["beach", "sun"]})]


def test_the_answer_is_streamed_word_by_word(world):
    def price_of(item: str) -> str:
        """Return the price of an item."""
        return f"The price of {item} is 3.50 euros today"

    events = world.stream(JsonAgent(price_of, model="offline"), 'What is the price of "tea"?')
    streamed = [event.added for event in events if isinstance(event, AnswerForming)]
    assert len(streamed) > 5
    assert "".join(streamed) == "The price of tea is 3.50 euros today"


def open_garage(door: Literal["left", "right"] = "left") -> str:
    """Open a garage door."""
    return door


def archive_project(name: str) -> str:
    """Archive a project."""
    return name


def raise_salary(employee: str, percent: float) -> str:
    """Raise the salary of an employee."""
    return f"{employee} {percent}"


def apply_discount(cart: str, discount: float) -> str:
    """Give a discount on a cart."""
    return f"{cart} {discount}"


def delete_rows(table: str, ids: list[int]) -> str:
    """Delete rows of a table by their ids."""
    return f"{table} {ids}"


def play(track: str, room: str | None = None) -> str:
    """Play a track."""
    return f"{track} {room}"


def grant_access(user: str, resource: str) -> str:
    """Grant a user access to a resource."""
    return f"{user} {resource}"


def order_product(product: str, quantity: int = 1) -> str:
    """Order a product."""
    return f"{product} {quantity}"


def book_table(restaurant: str, guests: int) -> str:
    """Book a table in a restaurant."""
    return f"{restaurant} {guests}"


def pay_bill(bill_id: str, amount: float | None = None, note: str | None = None) -> str:
    """Pay a bill."""
    return f"{bill_id} {amount} {note}"


def subscribe(email: str, newsletter: str, frequency: Literal["daily", "weekly"] = "weekly") -> str:
    """Subscribe an address to a newsletter."""
    return f"{email} {newsletter} {frequency}"


@pytest.mark.parametrize(
    ("query", "function"),
    [
        ("Forward mail M-7 to tim@example.com without the attachments", forward_mail),
        ("Open both garage doors", open_garage),
        ("Archive my oldest project", archive_project),
        ("Archive the projects of Anna", archive_project),
        ("Raise the salary of Ana to 5000", raise_salary),
        ("Give a 10% discount on cart C-881", apply_discount),
        ("Delete the rows 5 to 9 of users", delete_rows),
        ("Delete the first 10 rows of users", delete_rows),
        ("Play Thriller by Michael Jackson", play),
        ("Play something relaxing", play),
        ("Grant Ana the same access as Bob", grant_access),
        ("Order 3 chairs and a table", order_product),
        ("Move *.log to logs", move_files),
        ("Deploy billing and search to production", deploy),
    ],
)
def test_a_value_that_describes_limits_or_is_shared_is_no_certain_value(query, function):
    assert act(query, function)[0] == []


@pytest.mark.parametrize(
    ("query", "function", "arguments"),
    [
        ("Raise the salary of Ana by 5%", raise_salary, {"employee": "Ana", "percent": 5}),
        ("Book a table at Luigi's for 4", book_table, {"restaurant": "Luigi's", "guests": 4}),
        ("Merge PR 12", merge_pull_request, {"number": 12, "method": "merge"}),
        ("Play 'Hello' in the kitchen", play, {"track": "Hello", "room": "kitchen"}),
        ("Subscribe ana@example.com to 'Weekly News'", subscribe, {"email": "ana@example.com", "newsletter": "Weekly News"}),
        ("Cancel EV-2041 but do not notify anybody", cancel_event, {"event_id": "EV-2041", "notify": False}),
        ("Pay 12.50 on bill 88213", pay_bill, {"bill_id": "88213", "amount": 12.5}),
    ],
)  # fmt: skip
def test_a_value_is_read_in_the_form_that_its_neighbours_give(query, function, arguments):
    assert act(query, function)[0] == [(function.__name__, arguments)]


def test_what_writes_is_called_only_if_the_whole_query_can_be_done():
    calls, answer = act("Cancel EV-2041 and scale billing", cancel_event, scale_service)
    assert calls == []
    assert "I did not call cancel_event" in answer
    assert "the query does not say replicas" in answer


def test_two_values_are_exchanged_where_both_fit_better():
    def add_note(text: str, tags: list[str] | None = None) -> str:
        """Save a note."""
        return f"{text} {tags}"

    calls, _ = act("Add a note 'Buy milk' tagged shopping and home", add_note)
    assert calls == [("add_note", {"text": "Buy milk", "tags": ["shopping", "home"]})]


def test_the_verb_of_a_request_announces_no_parameter():
    def assign_ticket(ticket_id: str, assignee: str) -> str:
        """Assign a ticket to somebody."""
        return f"{ticket_id} {assignee}"

    calls, _ = act("Assign T-100 and T-101 to Sarah", assign_ticket)
    given = sorted((call["ticket_id"], call["assignee"]) for _, call in calls)
    assert given == [("T-100", "Sarah"), ("T-101", "Sarah")]


def test_a_currency_in_words_is_an_option_with_its_code():
    def send_money(to: str, amount: float, currency: Literal["EUR", "USD"] = "EUR") -> str:
        """Send money to somebody."""
        return f"{to} {amount} {currency}"

    calls, _ = act("Send 25 dollars to Lena", send_money)
    assert calls == [("send_money", {"to": "Lena", "amount": 25, "currency": "USD"})]
    assert act("Send 60 yen to Kenji", send_money)[0] == []


def test_a_percentage_in_a_question_goes_to_a_tool_with_a_percentage():
    def percent_of(percent: float, number: float) -> float:
        """Return a percentage of a number."""
        return percent * number / 100

    assert act("What is 15 percent of 80?", percent_of)[0] == [("percent_of", {"percent": 15, "number": 80})]
    assert act("What is 15 percent of 80?", add)[0] == []


def test_a_tool_that_moves_takes_the_new_start_behind_to():
    def move_meeting(meeting_id: str, start: str) -> str:
        """Move a meeting to another time.

        Args:
            meeting_id: Id of the meeting.
            start: The new start time, HH:MM.
        """
        return f"{meeting_id} {start}"

    assert act("Move M-17 to 15:30", move_meeting)[0] == [("move_meeting", {"meeting_id": "M-17", "start": "15:30"})]
