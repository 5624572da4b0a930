"""A person is asked: what the question shows, and that only what is entered after it counts."""

import json
import threading

import pytest
from terminal import Terminal

from agentkit import Question, ToolCall
from agentkit.core.ask_person import Person
from agentkit.core.pending import MAX_ARGUMENT_CHARS, Pending, describe_call

KEY = "Zq7KpLm2Wv9XtR4sBn8YcD3f"
SCRIPT = """
from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call

@tool(effect="danger")
def delete(path: str) -> str:
    "Deletes a file."
    print("deleting", path)
    return "deleted"

print("ready")
print(JsonAgent(delete, model=ScriptedModel(call("delete", path="a.txt"), answer("done")), approve="ask")("go"))
"""


@pytest.mark.parametrize(("entered", "is_allowed"), [("y\n", True), ("n\n", False), ("y\nls\n", False)])
def test_input_from_before_the_question_is_not_a_decision(tmp_path, entered, is_allowed):
    (tmp_path / "script.py").write_text(SCRIPT)
    shown = Terminal(program=(str(tmp_path / "script.py"),))
    try:
        shown.send("yes\ny\nye")
        shown.expect("}: ")
        shown.send(entered)
        shown.expect("done")
        assert shown.end() == 0
    finally:
        shown.close()
    assert ("deleting a.txt" in shown.text) is is_allowed


def test_the_prompt_obeys_no_control_characters():
    text = describe_call(ToolCall("1", "del\x1b[31mete", json.dumps({"pa\nth\x9b": "a\x1b[2K\r\u202etxt\x85", "n": 3})))
    assert all(mark.isprintable() or mark == "\n" for mark in text)
    assert len(text.splitlines()) == 3
    assert "\\u202e" in text


@pytest.mark.parametrize(
    ("entered", "decision"),
    [
        ("y", True), ("Yes", True), ("yes please", True), ("Yes, please!", True), ("ok.", True), ("allow", True),
        ("n", False), ("No", False), ("yes, but only once", "yes, but only once"), ("okra", "okra"),
        (f"yes{' ' * 40}but not now", f"yes{' ' * 40}but not now"),
    ],
)  # fmt: skip
def test_words_of_consent_allow_and_other_words_are_the_reason_of_a_refusal(entered, decision):
    call = ToolCall("1", "f")
    assert Person(lambda prompt: entered)(call) == decision
    both = [Pending.decision(call), Pending.decision(ToolCall("2", "f"))]
    answers = Person(lambda prompt: f"1 2 {entered}").ask_about(both)
    assert [answers[one].decision for one in "12"] == [decision] * 2


@pytest.mark.parametrize("given", ["[1, 2", "[" * 100_000])
def test_arguments_that_are_no_json_are_shown_as_text(given):
    assert f'arguments: "{given[:1_000]}' in describe_call(ToolCall("1", "f", given))


def test_a_long_argument_is_truncated_with_a_note():
    text = describe_call(ToolCall("1", "f", json.dumps({"a": "x" * 50_000 + "; rm -r /", "b": "end"})))
    assert len(text) < 11_000
    assert "characters left out" in text
    assert 'x; rm -r /"' in text, "the end of a long argument can matter most"
    assert '"end"' in text


def test_one_person_is_asked_one_thing_at_a_time():
    at_once = []
    most = []

    def read(prompt: str) -> str:
        at_once.append(1)
        most.append(len(at_once))
        threading.Event().wait(0.01)
        at_once.pop()
        return "y"

    threads = [threading.Thread(target=Person(read), args=(ToolCall("1", "f"),)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5


def test_the_terminal_shows_no_secret_in_calls_and_questions(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", KEY)
    prompts = []

    def read(prompt):
        prompts.append(prompt)
        return "y"

    text = "x" * (MAX_ARGUMENT_CHARS // 2 - 12) + KEY + "x" * MAX_ARGUMENT_CHARS
    person = Person(read)
    person.ask_about([Pending.decision(ToolCall("1", "pay", json.dumps({KEY: KEY, "text": text})), f"so says {KEY}")])
    person.answer(Question(f"Is {KEY} the key?"))
    assert len(prompts) == 2
    assert [prompt for prompt in prompts if KEY[:8] in prompt or KEY[-8:] in prompt] == []
