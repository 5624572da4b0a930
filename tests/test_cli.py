"""The terminal."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from agentkit.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "mytools.py").write_text(
        'from os.path import join\n\ndef add(a: int, b: int) -> int:\n    """Adds two integers."""\n    return a + b\n\n'
        'def greet(name: str, loud: bool = False) -> str:\n    """Greets a person.\n\n    Args:\n        name: Whom to greet.\n    """\n'
        '    return f"Hello {name}!"\n\ndef _private() -> None:\n    pass\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = CliRunner()
    return lambda *arguments, **settings: runner.invoke(main, arguments, **settings)


def test_run_answers_on_stdout_and_shows_the_run_on_stderr(run):
    result = run("run", "Add 2 and 3", "--tools", "mytools.py")
    assert result.exit_code == 0, result.output
    assert "5" in result.stdout
    assert "Tool" not in result.stdout
    assert "⚙️ Tool: add" in result.stderr
    assert "✅ add: 5" in result.stderr


def test_quiet_shows_nothing_but_the_answer(run):
    result = run("run", "-q", "Add 2 and 3", "--tools", "mytools.py")
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_question_may_stand_on_standard_input(run):
    for arguments in (("run",), ("run", "-")):
        result = run(*arguments, "--tools", "mytools.py", input="Add 20 and 3\n")
        assert result.exit_code == 0
        assert "23" in result.stdout


def test_json_is_the_whole_result(run):
    result = run("run", "Add 2 and 3", "--tools", "mytools:add", "--json", "--model", "offline")
    data = json.loads(result.stdout)
    assert "5" in data["answer"]
    assert data["stopped"] == "answer"
    assert data["messages"][1]["content"] == "Add 2 and 3"
    assert data["usage"]["requests"] == data["steps"] == 2


def test_without_tools_the_bundled_ones_are_used(run):
    result = run("run", "Calculate 6 * 7")
    assert result.exit_code == 0
    assert "42" in result.stdout


@pytest.mark.parametrize("question", ["", "   "])
def test_no_question_is_wrong_usage(run, question):
    result = run("run", "--tools", "mytools.py", question, input="")
    assert result.exit_code == 2
    assert "no question" in result.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("missing.py", "no such file"),
        ("missing_module", "No module named"),
        ("broken.py", "SyntaxError"),
        ("raising.py", "RuntimeError: at import"),
        ("mytools.py:nope", "has no 'nope'"),
        ("empty.py", "defines no public function"),
        ("bare.py", "'bare' has no description"),
    ],
)
def test_tools_that_cannot_be_had_are_wrong_usage(run, tmp_path, target, said):
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "raising.py").write_text("raise RuntimeError('at import')\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "bare.py").write_text("def bare(a: int) -> int:\n    return a\n")
    result = run("run", "hello", "--tools", target)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_failed_run_is_exit_code_1(run, monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    result = run("run", "hello", "--tools", "mytools.py", "--model", "groq/llama-3.1-8b-instant")
    assert result.exit_code == 1
    assert "GROQ_API_KEY" in result.stderr
    assert result.stdout == ""


def test_tools_lists_names_parameters_and_descriptions(run):
    result = run("tools", "--tools", "mytools.py")
    assert result.stdout == "add(a, b)\n    Adds two integers.\ngreet(name, loud?)\n    Greets a person.\n"
    bundled = run("tools").stdout
    for name in ("search_text", "fetch_page", "get_weather", "calculate", "current_time"):
        assert f"{name}(" in bundled


def test_schema_prints_a_dialect(run):
    result = run("schema", "greet", "--tools", "mytools.py", "--format", "anthropic")
    assert json.loads(result.stdout)["input_schema"]["properties"]["name"]["description"] == "Whom to greet."
    assert json.loads(run("schema", "greet", "--tools", "mytools.py").stdout)["type"] == "object"


def test_an_unknown_tool_or_format_is_wrong_usage(run):
    assert "there are: add, greet" in run("schema", "nope", "--tools", "mytools.py").stderr
    result = run("schema", "greet", "--tools", "mytools.py", "--format", "antropic")
    assert result.exit_code == 2
    assert "did you mean 'anthropic'" in result.stderr


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom agentkit.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'litellm', 'pydantic', 'requests', 'ddgs', 'rich', 'jsonref', 'jsonschema', 'httpx', 'docstring_parser'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Agents from plain Python functions" in done.stdout
    assert done.stderr.strip() == "[]"
