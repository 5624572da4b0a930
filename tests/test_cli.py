"""The terminal."""

import json
import re
import subprocess
import sys
from pathlib import Path

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


def test_tools_as_json_hold_names_descriptions_and_parameters(run):
    add, greet = json.loads(run("tools", "--tools", "mytools.py", "--json").stdout)
    assert (add["name"], add["description"]) == ("add", "Adds two integers.")
    assert add["parameters"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert greet["parameters"]["required"] == ["name"]


FORMATS = ["json", "openai", "openai_strict", "responses", "response_format", "anthropic", "gemini", "mcp"]


@pytest.mark.parametrize("dialect", FORMATS)
def test_schema_knows_every_dialect_and_names_it_in_the_help(run, dialect):
    result = run("schema", "greet", "--tools", "mytools.py", "--format", dialect)
    assert "Whom to greet." in result.stdout
    assert json.loads(result.stdout)
    assert dialect in " ".join(run("schema", "--help").stdout.split())


def test_schema_keeps_references_on_request(run, tmp_path):
    (tmp_path / "nested.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n\n"
        'def draw(start: Point, end: Point) -> None:\n    """Draws a line."""\n'
    )
    arguments = ("schema", "draw", "--tools", "nested.py", "--references")
    kept, inlined = (json.loads(run(*arguments, choice).stdout) for choice in ("keep", "inline"))
    assert kept["properties"]["end"] == {"$ref": "#/$defs/Point"}
    assert "$defs" not in inlined
    assert run(*arguments, "drop").exit_code == 2


def test_schema_prints_losses_one_line_each(run):
    result = run("schema", "greet", "--tools", "mytools.py", "--format", "gemini", "--losses")
    assert "parameters.properties.loud default false: description" in result.stdout.splitlines()
    assert run("schema", "greet", "--tools", "mytools.py", "--losses").stdout == ""


def test_lint_prints_findings_and_what_the_tools_cost(run):
    result = run("lint", "mytools.py")
    *findings, summary = result.stdout.splitlines()
    assert "warning add a: has no description: say what it is, in which unit or form" in findings
    assert all(line.split()[0] in ("error", "warning", "hint") for line in findings)
    assert re.fullmatch(
        r"tokens per request \(characters of the OpenAI JSON / 4\): \d+ \(add \d+, greet \d+\)", summary
    )


def test_lint_fails_for_errors_and_with_strict_for_warnings(run, tmp_path):
    (tmp_path / "bare.py").write_text("def bare(a: int) -> int:\n    return a\n")
    assert run("lint").exit_code == 0
    assert run("lint", "--strict").exit_code == 0
    assert run("lint", "mytools.py").exit_code == 0
    assert run("lint", "mytools.py", "--strict").exit_code == 1
    result = run("lint", "mytools.py:add", "bare.py")
    assert result.exit_code == 1
    assert "error bare: the tool 'bare' has no description" in result.stdout
    assert run("lint", "missing.py").exit_code == 2


def test_lint_as_json_holds_findings_and_tokens(run):
    result = run("lint", "mytools.py:add", "--json")
    data = json.loads(result.stdout)
    assert [finding["path"] for finding in data["findings"]] == ["a", "b"]
    assert set(data["findings"][0]) == {"tool", "path", "rule", "message", "severity"}
    assert list(data["tokens"]) == ["add"]


def test_tools_as_classes_are_found_and_functions_that_became_tools_only_once(run, tmp_path):
    (tmp_path / "classes.py").write_text(
        "from dataclasses import dataclass\nfrom agentkit import JsonTool, ToolExecutor\n\n"
        "@dataclass\nclass Args:\n    word: str\n\n"
        'class FindTool(ToolExecutor[Args]):\n    """Finds a word in the text."""\n'
        "    def execute(self, args: Args) -> str:\n        return args.word\n\n"
        'class NeedyTool(FindTool):\n    """Finds a word in its book."""\n'
        "    def __init__(self, book: str) -> None:\n        self.book = book\n\n"
        "needy = NeedyTool('a text')\n\n"
        'def add(a: int) -> int:\n    """Adds one to a number."""\n    return a + 1\n\nincrement = JsonTool(add)\n'
    )
    names = [line.split("(")[0] for line in run("tools", "--tools", "classes.py").stdout.splitlines()[::2]]
    assert names == ["find", "needy", "add"]
    assert run("lint", "classes.py").exit_code == 0


def test_lock_writes_what_check_compares(run, tmp_path):
    assert run("lock", "--check", "--tools", "mytools.py").exit_code == 2
    result = run("lock", "--tools", "mytools.py")
    assert (result.exit_code, result.stdout) == (0, "agentkit.lock.json: 2 tools\n")
    text = (tmp_path / "agentkit.lock.json").read_text()
    assert list(json.loads(text)["tools"]) == ["add", "greet"]
    assert str(tmp_path) not in text
    unchanged = run("lock", "--check", "--tools", "mytools.py")
    assert (unchanged.exit_code, unchanged.stdout) == (0, "")


def test_lock_check_tells_breaking_changes_from_compatible_ones(run, tmp_path):
    source = (tmp_path / "mytools.py").read_text()
    (tmp_path / "later.py").write_text(source.replace("a: int, b: int", "a: float, b: int, c: int = 0"))
    (tmp_path / "broken.py").write_text(
        source.replace("name: str", "name: int").replace("loud: bool = False", "soft: str")
    )
    assert run("lock", "--tools", "mytools.py", "--file", "my.json").exit_code == 0

    compatible = run("lock", "--check", "--tools", "later.py", "--file", "my.json")
    assert compatible.exit_code == 0
    assert set(compatible.stdout.splitlines()) == {
        "compatible add.a: type integer -> number",
        "compatible add.c: added, optional",
    }
    breaking = run("lock", "--check", "--tools", "broken.py", "--file", "my.json")
    assert breaking.exit_code == 1
    assert set(breaking.stdout.splitlines()) == {
        "breaking greet.name: type string -> integer",
        "breaking greet.loud: removed",
        "breaking greet.soft: added, required",
    }
    alone = run("lock", "--check", "--tools", "mytools:add", "--file", "my.json")
    assert (alone.exit_code, alone.stdout) == (1, "breaking greet: removed\n")


@pytest.mark.parametrize("text", ["no json", "[]", '{"version": 99, "tools": {}}'])
def test_a_file_that_is_no_lock_is_wrong_usage(run, tmp_path, text):
    (tmp_path / "agentkit.lock.json").write_text(text)
    result = run("lock", "--check", "--tools", "mytools.py")
    assert result.exit_code == 2
    assert "lock file" in result.stderr


def test_a_lock_that_cannot_be_written_is_wrong_usage(run):
    result = run("lock", "--tools", "mytools.py", "--file", "missing/my.json")
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr


def test_an_unknown_tool_or_format_is_wrong_usage(run):
    assert "there are: add, greet" in run("schema", "nope", "--tools", "mytools.py").stderr
    result = run("schema", "greet", "--tools", "mytools.py", "--format", "antropic")
    assert result.exit_code == 2
    assert "did you mean 'anthropic'" in result.stderr


def test_a_module_of_the_folder_one_stands_in_is_found(tmp_path):
    (tmp_path / "own_tools_here.py").write_text('def ping() -> str:\n    """Pings."""\n    return "pong"\n')
    script = Path(sys.executable).with_name("agentkit")
    command = [script] if script.exists() else [sys.executable, "-m", "agentkit.cli"]
    done = subprocess.run(
        [*command, "tools", "--tools", "own_tools_here"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith("ping()"), done.stderr


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


def test_the_nearest_pyproject_has_the_defaults(run, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.agentkit]\ntools = ["mytools.py"]\nmodel = "offline"\nmax-steps = 3\n'
    )
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    assert run("tools").stdout.startswith("add(a, b)")
    assert "5" in run("run", "-q", "Add 2 and 3").stdout
    monkeypatch.chdir(folder)
    (tmp_path / "pyproject.toml").write_text('[tool.agentkit]\nmodle = "offline"\n')
    refused = run("tools")
    assert refused.exit_code == 2
    assert "[tool.agentkit] has no setting 'modle'" in refused.stderr
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    assert "pyproject.toml: cannot be read" in run("tools").stderr


def test_the_environment_has_the_defaults(run, monkeypatch):
    monkeypatch.setenv("AGENTKIT_TOOLS", "mytools:greet mytools:add")
    assert [line for line in run("tools").stdout.splitlines() if line[0] != " "] == ["greet(name, loud?)", "add(a, b)"]


def test_a_file_of_tools_may_be_called_like_a_module_of_python(run, tmp_path):
    (tmp_path / "statistics.py").write_text('def count(n: int) -> int:\n    """Counts."""\n    return n\n')
    assert run("tools", "--tools", "statistics.py").stdout.startswith("count(n)")
    assert "statistics" not in sys.modules or hasattr(sys.modules["statistics"], "median")
