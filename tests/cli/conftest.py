"""A folder with tools, the command line called in this process, and the command line at a terminal."""

import os
from typing import Any

import pytest
from cli_tools import MORE, TOOLS
from click.testing import CliRunner
from terminal import Terminal

from agentkit.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mytools.py").write_text(TOOLS)
    (tmp_path / "more.py").write_text(MORE)
    for name in [name for name in os.environ if name.startswith("AGENTKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def run(folder):
    """Call the command line: its arguments, and the settings of click's runner (`input`, `env`)."""
    runner = CliRunner()
    return lambda *arguments, **settings: runner.invoke(main, arguments, **settings)


@pytest.fixture
def terminal(folder):
    """Start the command line at a terminal: `terminal("chat", ..., width=60)`."""
    begun: list[Terminal] = []

    def start(*arguments: str, width: int = 80, **options: Any) -> Terminal:
        begun.append(Terminal(*arguments, width=width, **options))
        return begun[-1]

    yield start
    for one in begun:
        one.close()
