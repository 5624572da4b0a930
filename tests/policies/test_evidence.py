"""Which parts of an answer the input of the model supports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import ToolError
from agentkit.core.messages import ToolCall, assistant, system, tool_message, user
from agentkit.policies.answer_checks import Material
from agentkit.policies.evidence import evidence, find_unsupported

SOURCE = (
    "What is 15% of 2,340 on 2026-03-12? The total was 3412345 euros at 14:05. Temp 21.46. "
    "See https://www.example.org/a/b?x=1. He said: the quick, brown fox. Ratio 0.153 and 1.234.567,89; also 2 million; "
    "distance 3200 m. three apples, due by April 5, 2027 or 01.06.2027"
)


ID = "4929123456789012"


@pytest.mark.parametrize(
    ("answer", "source", "holds"),
    [
        (f"card {ID}", f"the card {ID}.", True),
        (f"card {ID}", "the card 4929 1234 5678 9012, expires 12 30", True),
        (f"card {ID}", "the card 4929-1234-5678-9012", True),
        (f"card {ID}", f"the card {ID[:-1]}3", False),
        (f"card {ID}", f"the card {ID}4", False),
        (f"card {ID}", f"the card 1{ID}", False),
        (f"card {ID}", f"the card 00{ID}", True),
        (int(ID), f"the card {ID[:-1]}3", False),
        ("in all 12,345,678,901,234,567", "in all 12345678901234567", True),
        ("in all 12,345,678,901,234,567", "in all 12345678901234568", False),
        ("about 12000000000000000000", "in all 12000000000000000123", True),
        ("9" * 400, "1", False),
        ("9" * 400, "9" * 400, True),
        ("1e999", "1", False),
        ("1e999", "1e999", True),
        ("9" + "0" * 400, "1", False),
    ],
)
def test_long_runs_of_digits_must_be_the_same(answer, source, holds):
    assert (find_unsupported(answer, source) == []) is holds


@pytest.mark.parametrize(
    "answer",
    [
        "15 % of 2340",
        "2,340.00 €",
        "about 3.4 million",
        "around 3,400,000",
        "3,412,345",
        "21.5 degrees",
        "21 degrees",
        "15.3 percent",
        "15.3%",
        "1234567.89",
        "1,234,568",
        "2,000,000",
        "2 million",
        "3.2 km",
        "3 apples",
        "on 12 March 2026",
        "March 12th, 2026",
        "12.03.2026",
        "2026/3/12",
        "in March 2026",
        "on 5 April",
        "in 2026",
        "the 12th",
        "June 1, 2027",
        "at 2:05 pm",
        "at 14:05",
        "https://example.org/a/b?x=1.",
        'He said "The quick brown fox".',
        "the “quick ... fox”",
        "1. first\n2. second",
        "GPT-4 and v3.2.1",
        "no figures at all",
        {"total": 3412345, "day": "2026-03-12", "certain": True, "note": None},
        [15, 2340.0],
    ],
)
def test_a_statement_in_other_words_is_supported(answer):
    assert find_unsupported(answer, SOURCE) == []


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("it is 351", "351"),
        ("16%", "16%"),
        ("about 3.5 million", "3.5 million"),
        ("3,412,346", "3,412,346"),
        ("22 degrees", "22"),
        ("4 apples", "4"),
        ("3.3 km", "3.3 km"),
        ("13 March 2026", "13 March 2026"),
        ("12 March 2025", "12 March 2025"),
        ("in 2025", "2025"),
        ("at 2:06 pm", "2:06 pm"),
        ("https://example.org/a", "https://example.org/a"),
        ('He said "a slow fox".', "a slow fox"),
        ({"total": 3412346}, "3412346"),
    ],
)
def test_an_unsupported_statement_is_found(answer, missing):
    assert [claim.text for claim in find_unsupported(answer, SOURCE)] == [missing]


def test_results_are_evidence_and_a_note_on_an_earlier_answer_is_not():
    said = [
        system("Today is 2026-11-21."),
        user("How many?"),
        assistant(None, [ToolCall("1", "count", '{"n": 99}'), ToolCall("2", "final_answer")]),
        tool_message(ToolCall("1", "count"), "there are 42"),
        tool_message(ToolCall("2", "final_answer"), "nobody says 43"),
    ]
    material = Material(said, "final_answer")
    assert material.query == "How many?"
    assert material.results == ["there are 42"]
    check = evidence()
    check("42 on 21 November 2026", material)
    for wrong in ("43", "99"):
        with pytest.raises(ToolError, match=rf"says {wrong} \(number\)"):
            check(wrong, material)


def test_the_list_of_what_is_missing_is_bounded():
    with pytest.raises(ToolError, match="and 20 more"):
        evidence()(" ".join(f"{number}.5" for number in range(30)), Material([]))


@pytest.mark.parametrize("text", ["1" * 400, "1e999", "0e999", "1e-999", "1,234" * 50, "9" * 400 + "%", "0.5e5"])
def test_numbers_out_of_reach_are_not_an_error(text):
    find_unsupported(text, f"1 and {text}")


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_read_without_an_error(answer, source):
    find_unsupported(answer, source)


@given(st.integers(min_value=101, max_value=10**12))
def test_a_number_is_found_in_all_its_ways_to_be_written_and_its_neighbour_is_not(number):
    for written in (
        str(number),
        f"{number:,}",
        f"{number:,}".replace(",", "."),
        f"{number}.00",
        f"{number / 1e6} million",
    ):
        assert find_unsupported(written, f"n={number}!") == []
        assert find_unsupported(str(number), f"n: {written}") == []
    if number % 10:
        assert find_unsupported(str(number), f"{number + 1} or {number - 1}")
