"""Cases: what a file may have, and the errors of one that is wrong."""

import json

import pytest

from agentkit import DefinitionError
from agentkit.evals import Case, read_cases

YAML = """
defaults: {limits: {steps: 4}, approve: true}
cases:
- query: What does tea cost on 2026-11-23?
  calls: [price_of, {price_of: {item: tea, pieces: {one_of: [1, 2]}}}]
  not_called: [refund]
  answer: {contains: ["3.50", tea], pattern: "^[0-9]", schema: {type: string}}
- name: no
  query: |
    Pay it back.
    Now!
  user: [yes, 12:30]
  limits: {dollars: 1e-3}
  answer: 2026-11-23
- {query: Judge it, answer: {judge: checks.py:is_short, rubric: It is short, model: offline}}
- {query: Ask, user: {instruction: You want tea., model: offline, turns: 3}}
"""


def test_a_file_has_cases_and_their_defaults(tmp_path):
    (tmp_path / "checks.py").write_text("def is_short(answer):\n    return len(answer) < 10\n")
    (tmp_path / "cases.yaml").write_text(YAML)
    first, second, third, fourth = read_cases(tmp_path / "cases.yaml")
    assert first.name == "What does tea cost on 2026-11-23?"
    assert first.expected_calls == [("price_of", {}), ("price_of", {"item": "tea", "pieces": {"one_of": [1, 2]}})]
    assert (first.limits, first.approve, first.not_called) == ({"steps": 4}, True, ["refund"])
    assert (second.name, second.query) == ("no", "Pay it back.\nNow!\n")
    assert second.user == ["yes", "12:30"], "words and times are texts, as in JSON"
    assert (second.limits, second.answer) == ({"dollars": 0.001}, "2026-11-23")
    assert third.answer["judge"]("short") is True
    assert fourth.user["turns"] == 3


def test_json_and_python_have_the_same_cases(tmp_path):
    cases = [{"query": "What does tea cost?", "answer": 3.5}, {"query": "Hello", "name": "greets"}]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "my_eval_cases.py").write_text(f"CASES = {cases!r}")
    assert read_cases(tmp_path / "cases.json") == [Case(**case) for case in cases]
    assert read_cases(f"{tmp_path / 'my_eval_cases.py'}:CASES") == read_cases(tmp_path / "cases.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cases: expected a list of cases, got None"),
        ("[]", "cases: the list is empty. Write - query: ..."),
        ("hello", "expected a list of cases, got 'hello'"),
        ("query: hi", "unknown key 'query'. It belongs to a case"),
        ("case: [{query: hi}]", "unknown key 'case'. Did you mean 'cases'?"),
        ("{defaults: {lmits: {}}, cases: [{query: hi}]}", "defaults: unknown key 'lmits'. Did you mean 'limits'?"),
        ("- hello", "entry 1: expected a mapping, got 'hello'. Write query: ..."),
        ("- name: tea", "entry 1: case 'tea': it has no query. Write query: ..."),
        ("- qery: hi", "entry 1: unknown key 'qery'. Did you mean 'query'?"),
        ("- {query: hi, expected: x}", "entry 1: case 'hi': unknown key 'expected'. Use answer."),
        ("- {query: hi, query: ho}", "it is no YAML: the key 'query' is repeated"),
        ("- {query: 'hi}", "it is no YAML:"),
        ("- query: hi\n- query: hi", "entry 2: the name 'hi' is that of entry 1. Give it another one: name: ..."),
        ("- query: 3", "query: expected a text, got 3"),
        ("- {query: hi, name: 3}", "name: expected a text, got 3"),
        ("- {query: hi, calls: price_of}", "case 'hi': calls: expected a list, got 'price_of'"),
        ("- {query: hi, calls: [{tool: a, arguments: {}}]}", "calls, entry 1: expected the name of a tool"),
        ("- {query: hi, calls: [{a: tea}]}", "calls, entry 1: expected arguments by their names, got 'tea'"),
        ("- {query: hi, calls: [{a: {b: {matches: x}}}]}", "calls, entry 1: a.b: unknown key 'matches'. Use pattern."),
        (
            "- {query: hi, calls: [{a: {b: {}}}]}",
            "a.b: the mapping is empty. A mapping as a value stands under equals.",
        ),
        ("- {query: hi, not_called: refund}", "not_called: expected a list of names of tools"),
        ("- {query: hi, answer: {contain: x}}", "answer: unknown key 'contain'. Did you mean 'contains'?"),
        ("- {query: hi, answer: {contains: 3.50}}", "answer.contains: expected a text or a list of texts, got 3.5"),
        ("- {query: hi, answer: {pattern: '['}}", "answer.pattern: '[' is no regular expression"),
        ("- {query: hi, answer: {one_of: x}}", "answer.one_of: expected a list of values"),
        ("- {query: hi, answer: {schema: {type: txt}}}", "answer.schema: it is no JSON Schema: 'txt'"),
        ("- {query: hi, answer: {judge: mine:f}}", "answer.judge: expected file.py:name, got 'mine:f'"),
        ("- {query: hi, answer: {judge: none.py:f}}", "answer.judge: no such file:"),
        ("- {query: hi, answer: {judge: judges.py:shrt}}", "judges.py has no 'shrt'. Did you mean 'short'?"),
        ("- {query: hi, answer: {judge: broken.py:f}}", "cannot be imported: ValueError: broken"),
        ("- {query: hi, answer: {model: offline, equals: 1}}", "answer.model: it judges by a rubric. Write rubric:"),
        ("- {query: hi, answer: {rubric: ''}}", "answer.rubric: expected a text, got ''"),
        ("- {query: hi, limits: 3}", "limits: expected a mapping, got 3"),
        ("- {query: hi, limits: {step: 3}}", "limits: unknown key 'step'. Did you mean 'steps'?"),
        ("- {query: hi, limits: {calls: 3}}", "limits: unknown key 'calls'. Use tool_calls."),
        ("- {query: hi, limits: {steps: many}}", "limits.steps: expected a number >= 0, got 'many'"),
        ("- {query: hi, user: [3.5]}", "user: expected a list of texts"),
        ("- {query: hi, user: {instruction: x, turn: 3}}", "user: unknown key 'turn'. Did you mean 'turns'?"),
        ("- {query: hi, user: {model: x}}", "user.instruction: expected a text, got None"),
        ("- {query: hi, user: {function: speak}}", "user.function: expected file.py:name, got 'speak'"),
        (
            "- {query: hi, user: {function: judges.py:short, instruction: x}}",
            "user: instruction and function exclude each other. Write one of them.",
        ),
        ("- {query: hi, user: {instruction: x, turns: 0}}", "user.turns: expected an integer >= 1, got 0"),
        ("- {query: hi, approve: perhaps}", "approve: expected true or false, got 'perhaps'"),
    ],
)
def test_an_error_names_the_file_the_case_the_key_and_the_remedy(tmp_path, text, message):
    (tmp_path / "judges.py").write_text("def short(answer): ...")
    (tmp_path / "broken.py").write_text("raise ValueError('broken')")
    (tmp_path / "cases.yaml").write_text(text)
    with pytest.raises(DefinitionError) as caught:
        read_cases(tmp_path / "cases.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'cases.yaml'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cases.txt", "expected a file .yaml, .yml or .json, or file.py:NAME"),
        ("cases.py", r"which list of it\? Write .*cases.py:CASES"),
        ("cases.json", "it is no JSON: Expecting value"),
        ("latin.yaml", "latin.yaml: it is no UTF-8: .*. Save it in this encoding."),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, name, message):
    (tmp_path / name).write_text("- query: Zürich?" if name == "latin.yaml" else "?", encoding="latin-1")
    with pytest.raises(DefinitionError, match=message):
        read_cases(tmp_path / name)


def test_a_case_in_python_is_checked_where_it_is_made():
    with pytest.raises(DefinitionError, match=r"case 'tea': answer.judge: expected a function, got 'short'"):
        Case("What does tea cost?", name="tea", answer={"judge": "short"})
