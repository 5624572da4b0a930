"""Where options come from, what `--help` loads, and completion."""

import os
import subprocess
import sys

from agentkit.cli import COMMANDS


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom agentkit.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'litellm', 'pydantic', 'requests', 'ddgs', 'rich', 'jsonschema', 'httpx', 'docstring_parser'}), file=sys.stderr)"
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
    for damaged in ("tool = 3", "[tool]\nagentkit = 3", f"a = {'[' * 10_000}"):
        (tmp_path / "pyproject.toml").write_text(damaged)
        assert "pyproject.toml: cannot be read" in run("tools").stderr, damaged[:30]


def test_the_environment_has_the_defaults(run, monkeypatch):
    monkeypatch.setenv("AGENTKIT_TOOLS", "mytools:greet mytools:add")
    assert [line for line in run("tools").stdout.splitlines() if line[0] != " "] == ["greet(name, loud?)", "add(a, b)"]


def test_a_table_of_tools_is_found_from_below_it(run, folder, monkeypatch):
    (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = "mytools.py more:wait_for"\n')
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    listed = run("tools").stdout
    assert [line.split("(")[0] for line in listed.splitlines()[::2]] == ["add", "greet", "wait_for"]


def test_what_is_said_counts_before_the_environment_and_that_before_the_table(run, folder, monkeypatch):
    (folder / "pyproject.toml").write_text('[tool.agentkit]\ntools = ["mytools:add"]\n')
    assert run("tools").stdout.startswith("add")
    monkeypatch.setenv("AGENTKIT_TOOLS", "mytools:greet")
    assert run("tools").stdout.startswith("greet")
    assert run("tools", "--tools", "more:wait_for").stdout.startswith("wait_for")


def test_each_command_says_what_it_does(run):
    listed = run("--help").stdout
    assert "AGENTKIT_MODEL" in listed
    assert 'eval "$(_AGENTKIT_COMPLETE=bash_source agentkit)"' in listed
    assert "..." not in listed.partition("Commands:")[2].replace("ARGS...", "")
    for command in COMMANDS:
        assert run(command.name, "-h").exit_code == 0


def test_the_shell_completes_commands_options_and_models(folder):
    def completed(words: str, place: int) -> list[str]:
        said = {"_AGENTKIT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        code = "from agentkit.cli import main; main(prog_name='agentkit')"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **said}, capture_output=True, text=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert {"run", "chat", "map", "models"} <= set(completed("agentkit ", 1))
    assert "--jsonl" in completed("agentkit run --js", 2)
    assert completed("agentkit run --model gro", 3) == ["groq/llama-3.1-8b-instant"]
