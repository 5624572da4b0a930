"""`agentkit tools`, `schema`, `lint` and `lock`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def test_tools_lists_names_parameters_and_descriptions(run):
    result = run("tools", "--tools", "mytools.py")
    assert result.stdout == (
        "add(a, b)\n    Adds two integers.\n    effect not declared\n"
        "greet(name, loud?)\n    Greets a person.\n    effect not declared\n"
    )
    bundled = run("tools").stdout
    for name in ("search_text", "fetch_page", "get_weather", "calculate", "current_time"):
        assert f"{name}(" in bundled


@pytest.mark.parametrize("command", ["tools", "lint", "lock"])
def test_targets_may_be_arguments(run, command):
    both = run(command, "mytools.py:add", "--tools", "mytools.py:greet")
    assert both.exit_code == 0
    assert both.stdout == run(command, "--tools", "mytools.py").stdout == run(command, "mytools.py").stdout


def test_targets_as_arguments_take_the_place_of_those_of_the_settings(run, folder):
    (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = ["more.py"]\n')
    for command in ("tools", "lint", "lock"):
        assert run(command).exit_code == 2  # no person is there to allow the code of the folder
        assert run(command, "mytools.py", env={"AGENTKIT_TOOLS": "missing.py"}).exit_code == 0


def test_a_name_that_a_file_does_not_have_is_refused_with_those_that_it_has(run):
    refused = run("tools", "--tools", "mytools.py:nope")
    assert refused.exit_code == 2
    assert "mytools.py:nope: mytools.py has no 'nope'. It has: add, greet." in refused.stderr
    close = run("tools", "--tools", "mytools.py:gret")
    assert "has no 'gret'. Did you mean 'greet'? It has: add, greet." in close.stderr


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
    names = [line.split("(")[0] for line in run("tools", "--tools", "classes.py").stdout.splitlines() if line[0] != " "]
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


def test_skills_are_locked_and_checked(run, tmp_path):
    place = tmp_path / "skills" / "refunds"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: refunds\ndescription: Give money back.\n---\nOnce.")
    result = run("lock", "--skills", "skills")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'skills.lock.json'}: 1 skills\n")
    assert run("lock", "--skills", "skills", "--check").exit_code == 0
    (place / "more.md").write_text("Twice.")
    changed = run("lock", "--skills", "skills", "--check")
    assert (changed.exit_code, changed.stdout) == (1, "refunds: more.md added\n")
    assert run("lock", "--skills", "missing").exit_code == 2
    assert run("lock", "--skills", "skills", "--check", "--file", "other.json").exit_code == 2


def test_lock_check_tells_breaking_changes_from_compatible_ones(run, tmp_path):
    source = (tmp_path / "mytools.py").read_text()
    (tmp_path / "later.py").write_text(source.replace("a: int, b: int", "a: int | None, b: int, c: int = 0"))
    (tmp_path / "broken.py").write_text(
        source.replace("name: str", "name: int").replace("loud: bool = False", "soft: str")
    )
    assert run("lock", "--tools", "mytools.py", "--file", "my.json").exit_code == 0

    compatible = run("lock", "--check", "--tools", "later.py", "--file", "my.json")
    assert compatible.exit_code == 0
    assert set(compatible.stdout.splitlines()) == {
        "compatible add.a: added: null",
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


def test_the_hooks_of_pre_commit_check_the_tools_that_their_arguments_name(run, tmp_path):
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    arguments = {"agentkit-lint": ["mytools.py"], "agentkit-lock": ["--tools", "mytools.py"]}
    assert run("lock", "--tools", "mytools.py").exit_code == 0

    def check(name):
        program, *command = hooks[name]["entry"].split()
        assert program == "agentkit"
        assert not hooks[name]["pass_filenames"]
        return run(*command, *arguments[name]).exit_code

    assert [check(name) for name in hooks] == [0, 0]
    source = (tmp_path / "mytools.py").read_text()
    (tmp_path / "mytools.py").write_text(source.replace("name: str", "name: list[int]"))
    assert check("agentkit-lock") == 1


@pytest.mark.parametrize("text", ["no json", "[]", '{"version": 99, "tools": {}}'])
def test_a_file_that_is_not_a_lock_is_wrong_usage(run, tmp_path, text):
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
    assert "Did you mean 'anthropic'" in result.stderr


def test_a_module_of_the_folder_one_stands_in_is_found(tmp_path):
    (tmp_path / "own_tools_here.py").write_text('def ping() -> str:\n    """Pings."""\n    return "pong"\n')
    script = Path(sys.executable).with_name("agentkit")
    command = [script] if script.exists() else [sys.executable, "-m", "agentkit"]
    done = subprocess.run(
        [*command, "tools", "--tools", "own_tools_here"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith("ping()"), done.stderr


def test_a_file_of_tools_may_be_called_like_a_module_of_python(run, tmp_path):
    (tmp_path / "statistics.py").write_text('def count(n: int) -> int:\n    """Counts."""\n    return n\n')
    assert run("tools", "--tools", "statistics.py").stdout.startswith("count(n)")
    assert "statistics" not in sys.modules or hasattr(sys.modules["statistics"], "median")


def test_tools_lists_what_counts_after_untrusted_text(run):
    listed = run("tools", "--tools", "more:delete_file", "--tools", "agentkit_tools:fetch_page").stdout
    assert "danger; name: plain" in listed
    assert "returns untrusted text; read and sends data outside; url: destination; max_characters: content" in listed
    listed = run("tools", "--tools", "agentkit_tools:search_text", "--json").stdout
    (shown,) = json.loads(listed)
    assert (shown["trust"], shown["egress"], shown["roles"]["query"]) == ({"url": "trusted"}, True, "content")
