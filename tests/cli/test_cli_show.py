"""`agentkit show` and `agentkit models`."""

import json
import sys

import pytest
from report_pages import Page

from agentkit import JsonAgent
from agentkit.cli.models import PROVIDERS
from agentkit.testing import ScriptedModel, answer, call


def failing(word: str) -> str:
    """Fails."""
    raise ValueError(f"no {word}")


@pytest.fixture
def kept(run, folder):
    """A result, a recorded run and a session in files."""
    files = ("--session", "session.json", "--record", "run.jsonl")
    done = run("run", "-q", "--json", "Add 2 and 3", "--tools", "mytools.py", *files)
    (folder / "result.json").write_text(done.stdout)
    for name, flag in (("lines.jsonl", "--jsonl"), ("events.jsonl", "--jsonl=events")):
        (folder / name).write_text(run("run", flag, "Add 2 and 3", "--tools", "mytools.py").stdout)
    return folder


@pytest.mark.parametrize("name", ["result.json", "lines.jsonl", "events.jsonl", "session.json", "run.jsonl"])
def test_what_was_kept_is_shown_as_text_and_as_a_page(kept, run, name):
    shown = run("show", name)
    assert shown.exit_code == 0
    for text in (
        "query    Add 2 and 3\n",
        "call     add(a=2, b=3)\n",
        "result   add: 5\n",
        "answer   5\n",
        "total    2 requests",
    ):
        assert text in shown.stdout
    assert ("stopped: answer" in shown.stdout) == (name != "session.json")
    assert "\033" not in shown.stdout
    written = run("show", name, "--html", "page.html")
    assert written.stdout.startswith("page.html: ")
    page = (kept / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Add 2 and 3" in page
    assert run("show", name, "--html", "-").stdout == page
    assert run("show", "-", input=(kept / name).read_text()).stdout == shown.stdout


def test_two_results_are_shown_side_by_side(kept, run):
    assert run("show", "result.json", "--html", "page.html", "--compare", "lines.jsonl").exit_code == 0
    assert "the same calls and results" in (kept / "page.html").read_text()
    refused = run("show", "result.json", "--compare", "events.jsonl")
    assert refused.exit_code == 2
    assert "--compare needs --html" in refused.stderr
    (kept / "x.json").write_text("{}")
    refused = run("show", "result.json", "--html", "page.html", "--compare", "x.json")
    assert refused.exit_code == 2
    assert "x.json: not a result" in refused.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"messages": [1], "usage": {}}',
        '{"messages": [], "usage": {"x": 1}}',
        '{"event": "RunStarted"}',
        '{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}], "usage": {}}',
        '{"messages": [{"role": "assistant", "tool_calls": 3}], "usage": {}}',
        "[" * 100_000,
        '{"messages": [], "usage": {}, "a": ' + "[" * 100_000,
        '{"messages": [], "usage": {}, "seconds": "long"}',
        '{"messages": [], "usage": {"cost": "much"}}',
        '{"messages": {"role": "user"}, "usage": {}}',
        '{"messages": [], "usage": {}, "answer": 1, "trace": 3}',
    ],
)
def test_anything_else_is_wrong_usage(run, folder, text):
    (folder / "x.json").write_text(text)
    result = run("show", "x.json")
    assert result.exit_code == 2
    assert "x.json: not a result" in result.stderr


@pytest.mark.parametrize(
    "trace",
    [
        {"spans": [{"kind": "tool"}]},
        {"spans": 3},
        {"notes": [{}]},
        {"spans": [{"call": 1}]},
        {"spans": [{"kind": "model", "name": "m", "start": 0, "end": 10**400}]},
    ],
)
def test_a_page_of_a_damaged_trace_is_wrong_usage(run, folder, trace):
    (folder / "x.json").write_text(
        json.dumps({"messages": [], "usage": {}, "answer": 1, "stopped": "", "trace": trace})
    )
    result = run("show", "x.json", "--html", "page.html")
    assert result.exit_code == 2
    assert "x.json: not a result" in result.stderr


def test_a_page_that_cannot_be_written_is_wrong_usage(kept, run):
    result = run("show", "result.json", "--html", "missing/page.html")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_what_is_shown_holds_no_control_characters_and_no_secret(run, folder, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "correct-horse-battery")
    messages = [{"role": "user", "content": "clear \033[2J the \a screen, correct-horse-battery"}]
    (folder / "x.json").write_text(json.dumps({"messages": messages, "usage": {}}))
    shown = run("show", "x.json").stdout
    assert r"clear \x1b[2J the \x07 screen, ***" in shown


def test_history_session_result_and_journal_have_one_rendering(run, folder, capsys):
    agent = JsonAgent(failing, model=ScriptedModel(call("Failing", word="1"), answer("done")), journal="runs.db")
    result = agent.run("Try")
    agent.session.save("session.json")
    (folder / "result.json").write_text(json.dumps(result.as_dict()))
    agent.show_history()
    *lines, total = run("show", "result.json").stdout.splitlines()
    assert lines[1:] == [
        "query    Try",
        'call     failing(word="1")',
        "warning  failing: " + str(result.repairs[0]),
        "error    failing: ValueError: no 1",
        "answer   done",
    ]
    assert total.endswith("stopped: answer")
    plain = [line.replace("error    ", "result   ") for line in lines if not line.startswith("warning")]
    assert capsys.readouterr().out.splitlines() == plain, "a conversation alone does not tell which call failed"
    assert run("show", "session.json").stdout.splitlines()[:-1] == plain
    journaled = run("runs", result.run_id).stdout.splitlines()[:-1]
    assert journaled == [line for line in lines if not line.startswith("warning")]
    page = Page(result.to_html()).text
    assert all(line[9:].partition(": ")[2] in page for line in lines[3:5])
    roles = [text for text in Page(result.to_html()).texts if text in ("query", "model", "the answer, shown above")]
    assert roles == ["query", "model", "model", "the answer, shown above"]


@pytest.fixture
def no_keys(run, monkeypatch):
    for variables, _ in PROVIDERS.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
    return run


def test_models_tells_what_is_configured_and_what_misses(no_keys, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "gsk-very-secret-thing")
    monkeypatch.setenv("AZURE_API_KEY", "azure-very-secret")
    shown = no_keys("models")
    assert shown.exit_code == 0
    rows = {
        line.split()[0]: " ".join(line.split()[1:]) for line in shown.stdout.splitlines() if line and line[0] != " "
    }
    assert rows["openai/gpt-4o-mini"] == "set OPENAI_API_KEY"
    assert rows["groq/llama-3.1-8b-instant"] == "ready"
    assert rows["azure/YOUR-DEPLOYMENT"] == "set AZURE_API_BASE, AZURE_API_VERSION"
    assert shown.stdout.startswith("default: offline (AGENTKIT_MODEL is not set)\n")
    assert "secret" not in shown.stdout


def test_models_tells_what_the_default_needs(no_keys, monkeypatch):
    monkeypatch.setenv("AGENTKIT_MODEL", "anthropic/claude-sonnet-4-5")
    assert no_keys("models").stdout.startswith(
        "default: anthropic/claude-sonnet-4-5 (AGENTKIT_MODEL) set ANTHROPIC_API_KEY\n"
    )
    entries = json.loads(no_keys("models", "--json").stdout)
    assert entries["default"] == "anthropic/claude-sonnet-4-5"
    assert {"provider": "offline", "missing": [], "model": "offline"} in entries["providers"]


def test_models_loads_no_litellm(no_keys):
    before = set(sys.modules)
    no_keys("models")
    assert "litellm" not in set(sys.modules) - before
