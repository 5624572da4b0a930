"""`agentkit map`: a file of queries, a file of answers."""

import json
import os
import sys

import pytest

if sys.platform != "win32":
    import fcntl

OFFERS = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer

@dataclass
class Offer:
    item: str
    day: date
    euros: Decimal

agent = JsonAgent(model=ScriptedModel(answer(item="tea", day="2026-11-29", euros="3.50")), answer=Offer)
"""
QUERIES = "Add 2 and 3\n\nAdd 4 and 3\n  Add 2 and 3  \nDelete file a.txt\n"


@pytest.fixture
def answers(run, folder):
    """Answer the queries; the exit code, what stood on standard error, and the lines of the file."""
    (folder / "queries.txt").write_text(QUERIES)

    def call(*options):
        arguments = ("queries.txt", "--out", "answers.jsonl", "--tools", "mytools.py", "--tools", "more:delete_file")
        result = run("map", *arguments, *options)
        return result, [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]

    return call


def test_every_query_has_its_line_once(answers):
    result, entries = answers()
    assert result.exit_code == 1
    assert result.stdout == ""
    said = {entry["query"]: entry.get("answer") for entry in entries}
    assert said == {"Add 2 and 3": "5", "Add 4 and 3": "7", "Delete file a.txt": None}
    assert len(entries) == 3
    failed = next(entry for entry in entries if "error" in entry)
    assert failed["error"].startswith("Paused: delete_file needs an approval")
    assert {"requests", "input_tokens", "cost"} <= set(entries[0].get("usage") or entries[1]["usage"])
    assert "total    5 requests, " in result.stderr
    assert "1 of 3 queries failed; --retry-failed asks them again" in result.stderr


def test_a_file_of_windows_is_read_without_its_mark(run, folder):
    (folder / "queries.txt").write_bytes(b"\xef\xbb\xbfAdd 2 and 3\r\nAdd 4 and 3\r\n")
    lines = run("map", "queries.txt", "--tools", "mytools.py").stdout.splitlines()
    assert {json.loads(line)["query"] for line in lines} == {"Add 2 and 3", "Add 4 and 3"}


def test_what_is_answered_is_skipped_and_what_failed_asked_again_on_request(answers):
    answers()
    again, entries = answers()
    assert (again.exit_code, len(entries)) == (1, 3)
    assert again.stderr == (
        "2 of 3 queries are answered already\n1 of 3 queries failed before\n"
        "agentkit: 1 of 3 queries failed; --retry-failed asks them again\n"
    )
    retried, entries = answers("--retry-failed")
    assert (retried.exit_code, len(entries)) == (1, 4)
    assert entries[-1]["error"].startswith("Paused: delete_file needs an approval")


def test_a_failed_query_that_is_answered_later_counts_as_answered(run, folder):
    (folder / "queries.txt").write_text("Add 2 and 3\n")
    failed = {"query": "Add 2 and 3", "error": "ModelError: the provider is away"}
    (folder / "answers.jsonl").write_text(json.dumps(failed) + "\n")
    arguments = ("map", "queries.txt", "--out", "answers.jsonl", "--tools", "mytools.py")
    assert run(*arguments).exit_code == 1
    assert run(*arguments, "--retry-failed").exit_code == 0
    assert run(*arguments).exit_code == 0
    errors, answered = map(json.loads, (folder / "answers.jsonl").read_text().splitlines())
    assert ("error" in errors, answered["answer"]) == (True, "5")


def test_a_line_that_was_cut_short_is_answered_anew(answers, folder):
    answers()
    file = folder / "answers.jsonl"
    first, *_ = file.read_text().splitlines(keepends=True)
    file.write_text(first + '{"query": "Add 4')
    result, entries = answers()
    assert len({entry["query"] for entry in entries}) == len(entries) == 3
    assert "1 of 3" in result.stderr


@pytest.mark.parametrize("text", ["my notes\n", "my notes", '{"name": 1}\n', "[1]\n"])
def test_a_file_of_something_else_is_not_touched(run, folder, text):
    (folder / "queries.txt").write_text(QUERIES)
    (folder / "notes.txt").write_text(text)
    result = run("map", "queries.txt", "--out", "notes.txt", "--tools", "mytools.py")
    assert result.exit_code == 2
    assert "notes.txt: line 1 is no answer of agentkit map" in result.stderr
    assert (folder / "notes.txt").read_text() == text


def test_queries_are_piped_in_and_answers_out(run):
    result = run("map", "-", "--tools", "mytools.py", input="Add 2 and 3\n")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["answer"] == "5"
    assert result.stderr.startswith("total    2 requests, ")


def test_an_answer_of_a_declared_type_is_a_line_of_plain_data(run, folder):
    (folder / "offers.py").write_text(OFFERS)
    entry = json.loads(run("map", "offers.py:agent", "-", input="Offer tea\n").stdout)
    assert entry["answer"] == {"item": "tea", "day": "2026-11-29", "euros": "3.50"}


def test_a_query_ends_only_at_the_end_of_its_line(run):
    queries = "Greet Ada\u2028Byron\nGreet Bob\x0cDylan\r\n"
    lines = run("map", "-", "--tools", "mytools.py:greet", input=queries).stdout.split("\n")
    assert sorted(json.loads(line)["query"] for line in lines if line) == ["Greet Ada\u2028Byron", "Greet Bob\x0cDylan"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock(2)")
def test_a_file_that_another_command_writes_to_is_refused_and_nothing_asked(run, folder):
    (folder / "queries.txt").write_text("Add 2 and 3\n")
    arguments = ("map", "queries.txt", "--out", "answers.jsonl", "--tools", "mytools.py")
    with (folder / "answers.jsonl").open("a") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        refused = run(*arguments)
    assert refused.exit_code == 2
    assert "answers.jsonl: another agentkit map writes to it. Wait until it ends, or name another" in refused.stderr
    assert (folder / "answers.jsonl").read_text() == ""
    assert run(*arguments).exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_answers_go_to_a_pipe_that_the_shell_names(run, folder):
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("map", "-", "--out", "pipe", "--tools", "mytools.py", input="Add 2 and 3\n").exit_code == 0
    assert json.loads(os.read(reader, 10_000))["answer"] == "5"
    os.close(reader)


def test_secrets_are_masked_in_the_query_too(run, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "tr0ub4dor-and-3")
    result = run("map", "-", "--tools", "mytools.py:greet", input="Greet tr0ub4dor-and-3\n")
    entry = json.loads(result.stdout)
    assert entry["query"] == "Greet ***"
    assert "***" in entry["answer"]
    assert "tr0ub4dor" not in entry["answer"]


def test_a_place_that_cannot_be_written_is_wrong_usage(run):
    result = run("map", "-", "--out", "missing/a.jsonl", "--tools", "mytools.py", input="Add 2 and 3\n")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


class TestAtATerminal:
    def test_a_bar_shows_how_far_it_is(self, terminal, folder):
        (folder / "queries.txt").write_text("Add 2 and 3\nAdd 3 and 4\n")
        shown = terminal("map", "queries.txt", "--out", "a.jsonl", "--tools", "mytools.py", width=60)
        assert shown.end() == 0
        assert "###############] 2/2 done" in shown.text  # as wide as the rest of the line leaves it
        assert all(len(line) <= 60 for line in shown.text.replace("\n", "").split("\r"))

    def test_an_interrupt_keeps_what_is_answered(self, terminal, folder, run):
        (folder / "queries.txt").write_text("Add 2 and 3\nWait for 30 seconds\n")
        shown = terminal("map", "queries.txt", "--out", "a.jsonl", "--tools", "mytools.py", "--tools", "more.py")
        shown.expect("1/2 done")
        shown.send("\x03")
        shown.expect("interrupted; 1 of 2 are done")
        assert shown.end() == 130
        assert json.loads((folder / "a.jsonl").read_text())["answer"] == "5"


def test_a_secret_in_a_query_is_masked_and_its_line_found_again(run, folder):
    keys = [f"sk-proj-abcDEF1234567890abcd_{number}" for number in range(2)]
    (folder / "queries.txt").write_text("".join(f"Add {place} and 3, with {key}\n" for place, key in enumerate(keys)))
    arguments = ("map", "queries.txt", "--out", "answers.jsonl", "--tools", "mytools.py")
    assert run(*arguments).exit_code == 0
    text = (folder / "answers.jsonl").read_text()
    assert not any(key in text for key in keys)
    assert sorted(json.loads(line)["query"] for line in text.splitlines()) == [
        "Add 0 and 3, with ***",
        "Add 1 and 3, with ***",
    ]
    assert "2 of 2 queries are answered already" in run(*arguments).stderr
