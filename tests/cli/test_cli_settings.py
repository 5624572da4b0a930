"""Where options come from, what `--help` loads, and completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import TOOLS

from agentkit.cli import COMMANDS


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom agentkit.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'litellm', 'pydantic', 'requests', 'ddgs', 'rich', 'jsonschema', 'httpx', 'docstring_parser'}), file=sys.stderr)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('agentkit.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Agents from plain Python functions" in done.stdout
    heavy, modules = done.stderr.splitlines()
    assert heavy == "[]"
    assert modules == "agentkit.cli.output", "no command is imported"


@pytest.fixture
def allowed(run):
    """Call the command line, and allow the tools of the folder."""
    return lambda *arguments: run(*arguments, obj=lambda question: "y")


def test_the_nearest_pyproject_has_the_defaults(tmp_path, monkeypatch, allowed):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.agentkit]\ntools = ["mytools.py"]\nmodel = "offline"\nmax-steps = 3\n'
    )
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    assert allowed("tools").stdout.startswith("add(a, b)")
    assert "5" in allowed("run", "-q", "Add 2 and 3").stdout
    monkeypatch.chdir(folder)
    (tmp_path / "pyproject.toml").write_text('[tool.agentkit]\nmodle = "offline"\n')
    refused = allowed("tools")
    assert refused.exit_code == 2
    assert "[tool.agentkit] has no setting 'modle'. Did you mean 'model'?" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    "damaged",
    ["[tool\n", "tool = 3", "[tool]\nagentkit = 3", f"a = {'[' * 10_000}", "[tool.agentkit]\ntools = 3"],
    ids=["cut off", "tool is no table", "agentkit is no table", "deep", "tools is no list"],
)
def test_a_damaged_pyproject_is_named(tmp_path, allowed, damaged):
    (tmp_path / "pyproject.toml").write_text(damaged)
    assert "pyproject.toml: cannot be read" in allowed("tools").stderr


def test_the_environment_has_the_defaults(run, monkeypatch):
    monkeypatch.setenv("AGENTKIT_TOOLS", "mytools:greet mytools:add")
    assert [line for line in run("tools").stdout.splitlines() if line[0] != " "] == ["greet(name, loud?)", "add(a, b)"]


def test_a_table_of_tools_is_found_from_below_it(folder, monkeypatch, allowed):
    (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = "mytools.py more:wait_for"\n')
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    listed = allowed("tools").stdout
    names = [line.partition("(")[0] for line in listed.splitlines() if not line.startswith(" ")]
    assert names == ["add", "greet", "wait_for"]


def test_options_precede_the_environment_and_that_the_table(folder, monkeypatch, allowed):
    (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = ["mytools:add"]\n')
    assert allowed("tools").stdout.startswith("add")
    monkeypatch.setenv("AGENTKIT_TOOLS", "mytools:greet")
    assert allowed("tools").stdout.startswith("greet")
    assert allowed("tools", "--tools", "more:wait_for").stdout.startswith("wait_for")


class TestToolsOfTheFolder:
    """The tools that a pyproject.toml names are code of the author of the folder."""

    @pytest.fixture
    def project(self, folder):
        (folder / "theirs.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n{TOOLS}")
        (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = ["theirs.py"]\n')
        return folder

    @pytest.mark.parametrize(
        "command",
        [["run", "Add 2 and 3"], ["tools"], ["schema", "add"], ["chat"], ["map", "-"], ["lock"], ["mcp", "serve"]],
        ids="_".join,
    )
    def test_without_a_terminal_they_are_refused(self, run, project, command):
        refused = run(*command, input="y\n")
        assert refused.exit_code == 2
        assert "its tools are not allowed: " in refused.stderr
        assert "name others with --tools" in refused.stderr
        assert not (project / "ran").exists()

    def test_what_needs_no_tools_needs_no_consent(self, run, project):
        assert run("run", "--help").exit_code == run("models").exit_code == 0
        (project / "mine.py").write_text(
            "from agentkit import JsonAgent\nfrom mytools import add\nagent = JsonAgent(add, model='offline')\n"
        )
        assert run("run", "mine.py:agent", "Add 2 and 3", "-q").stdout == "5\n"
        assert not (project / "ran").exists()

    def test_they_are_asked_about_once(self, terminal, run, project):
        asked = terminal("tools", width=200)
        asked.expect("Allow it from now on? y, n: ")
        asked.send("n\n")
        assert asked.end() == 2
        assert not (project / "ran").exists()
        asked = terminal("tools", width=200)
        asked.expect("theirs.py")
        asked.expect("Allow it from now on? y, n: ")
        asked.send("y\n")
        assert asked.end() == 0
        assert "add(a, b)" in asked.text
        assert run("tools").stdout.startswith("add(a, b)")
        (stored,) = project.rglob("allowed_tools.json")
        assert stored.stat().st_mode & 0o077 == 0

    def test_other_tools_of_the_folder_are_asked_about_anew(self, run, project, allowed):
        assert allowed("tools").exit_code == 0
        assert run("tools").exit_code == 0
        (project / "pyproject.toml").write_text('[tool.agentkit]\ntools = ["theirs.py", "more.py"]\n')
        assert "more.py" in run("tools").stderr

    def test_named_tools_need_no_question(self, run, project):
        assert run("tools", "--tools", "theirs.py").exit_code == 0
        assert run("tools", env={"AGENTKIT_TOOLS": "theirs.py"}).exit_code == 0


def test_each_command_has_a_description(run):
    listed = run("--help").stdout
    assert "AGENTKIT_MODEL" in listed
    assert 'eval "$(_AGENTKIT_COMPLETE=bash_source agentkit)"' in listed
    assert "..." not in listed.partition("Commands:")[2].replace("ARGS...", "")
    for command in COMMANDS:
        assert run(command, "-h").exit_code == 0


def test_the_shell_completes_commands_options_and_models(folder):
    def completed(words: str, place: int) -> list[str]:
        said = {"_AGENTKIT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        code = "from agentkit.cli import main; main(prog_name='agentkit')"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **said}, capture_output=True, text=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert {"run", "chat", "map", "models"} <= set(completed("agentkit ", 1))
    assert "--jsonl" in completed("agentkit run --js", 2)
    assert completed("agentkit run --model gro", 3) == ["groq/llama-3.1-8b-instant"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runs --html page.html", "--html needs the id of a run"),
        ("runs --delete", "--delete needs the id of a run"),
        ("runs --export run.jsonl", "--export needs the id of a run"),
        ("runs --json --prune 3", "--json and --prune exclude each other"),
        ("runs --check --salvage sound.db", "--check and --salvage exclude each other"),
        ("runs abc --check", "--check is about the whole journal"),
        ("runs abc --salvage sound.db", "--salvage is about the whole journal"),
        ("runs abc --prune 0", "--prune is about the whole journal"),
        ("runs --prune -1", "-1.0 is not in the range x>=0"),
        ("map queries.txt --retry-failed", "--retry-failed needs --out"),
        ("replay queries.txt --journal runs.db", "a replayed run is not stored"),
        ("run hello --model offline --session missing/ada.json", "the folder missing does not exist"),
        ("chat --model offline --session missing/ada.json", "the folder missing does not exist"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(run, words, message):
    Path("queries.txt").write_text("What is 2 + 3?\n")
    done = run(*words.split())
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert not Path("runs.db").exists()


def test_the_package_is_run_as_a_module(folder):
    for words, text in (("--version",), "agentkit"), (("run", "--help"), "Usage: python -m agentkit run"):
        done = subprocess.run([sys.executable, "-m", "agentkit", *words], capture_output=True, text=True, check=True)
        assert text in done.stdout
