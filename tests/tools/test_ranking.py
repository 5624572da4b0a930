"""Tools are found by the words of a sentence and, where embeddings are installed, by its meaning."""

import pytest

from agentkit import JsonTool
from agentkit.tools.ranking import (
    ToolIndex,
    WordIndex,
    count_words,
    describe_tool,
    find_weights,
    list_groups,
    list_stems,
    stem_word,
)


def make(name, text, **properties):
    parameters = {"type": "object", "properties": properties, "required": [*properties][:1]}
    return JsonTool.from_schema(name=name, description=text, parameters=parameters, call=lambda **given: given)


TOOLS = [
    make("getWeather", "Returns the forecast.", city={"type": "string"}),
    make("convert_currency", "Converts an amount.", amount={"type": "number"}, unit={"enum": ["EUR", "USD"]}),
    make("book_flight", "Books a seat.", trip={"type": "object", "properties": {"airline": {"type": "string"}}}),
    make("repair_vehicle", "Makes an appointment for the maintenance of an automobile."),
]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("What is the weather?", "getWeather"),
        ("FORECASTS please", "getWeather"),
        ("which cities", "getWeather"),
        ("converting currencies", "convert_currency"),
        ("usd", "convert_currency"),
        ("the airlines", "book_flight"),
        ("book" + " the" * 5_000, "book_flight"),
    ],
)
@pytest.mark.parametrize(
    "meanings", [False, pytest.param(True, marks=pytest.mark.skipif(not find_weights(), reason="no weights"))]
)
def test_a_tool_is_found_by_the_words_of_its_name_description_and_parameters(query, name, meanings):
    assert ToolIndex(TOOLS, meanings=meanings).find(query, 1)[0].name == name


def test_a_sentence_without_a_known_word_finds_no_tool_by_words():
    index = ToolIndex(TOOLS, meanings=False)
    assert index.find("quantum") == index.find("the and of") == index.find("") == []
    assert ToolIndex([]).find("weather") == []


@pytest.mark.skipif(not find_weights(), reason="the extra search is not installed")
def test_a_tool_is_found_by_its_meaning():
    index = ToolIndex(TOOLS)
    assert index.find("my car is broken")[0].name == "repair_vehicle"
    assert len(index.find("quantum", 3)) == 3
    assert ToolIndex([]).find("weather") == []


def test_equal_tools_keep_their_order_and_the_limit_holds():
    tools = [make(f"look_{letter}", "Looks.") for letter in "abcdefg"]
    assert ToolIndex(tools, meanings=False).find("look", 3) == tools[:3]


def test_a_word_of_the_name_counts_more_than_one_of_a_parameter():
    inside = make("send", "Sends.", invoice={"type": "string"})
    named = make("invoice", "Sends.", body={"type": "string"})
    assert ToolIndex([inside, named], meanings=False).find("invoice")[0] is named


def test_words_are_split_and_stemmed():
    assert [*list_stems("getHTTPHeaders of user_names-v2")] == ["http", "header", "user", "nam", "v", "2"]
    assert [*list_stems("Größe прайс")] == ["größ", "прайс"]
    assert [*list_stems("Cafe\u0301")] == ["café"]


def test_a_word_is_found_in_text_without_spaces():
    assert [*list_stems("東京へ go")] == ["東京へ", "東", "京", "へ", "東京", "京へ", "go"]
    index = WordIndex([count_words("travel", text) for text in ("東京へ行く。", "京都へ行く。", "서울에 간다")])
    scores = index.score("東京")
    assert max(scores, key=scores.__getitem__) == 0
    assert [*index.score("서울")] == [2]
    assert stem_word("bus") == "bus"


@pytest.mark.parametrize("group", ["price prices pricing priced", "stop stops stopping stopped", "city cities"])
def test_the_forms_of_a_word_have_one_stem(group):
    assert len(set(map(stem_word, group.split()))) == 1


def test_tools_are_described_in_a_line_each_and_in_groups():
    assert describe_tool(TOOLS[1]) == "convert_currency(amount, unit?): Converts an amount."
    tools = [make(f"mail_{name}", "Does.") for name in ("send", "list", "send_all")] + TOOLS
    assert list_groups(tools) == [
        "- mail_* (3): send, list, all",
        "- 4 others: get, weather, convert, currency, book, flight, repair, vehicle",
    ]


def test_the_tools_near_the_best_are_selected_in_their_order():
    tools = [make("read_mail", "Reads a mail."), make("send_mail", "Sends a mail."), make("book_flight", "Books.")]
    index = ToolIndex(tools, meanings=False)
    assert index.select("the mail", 0.8) == tools[:2]
    assert index.select("read the mail", 0.8) == tools[:1]
    assert index.select("quantum", 0.8) == []
