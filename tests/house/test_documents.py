"""The README and the examples do what they say: every snippet runs, offline."""

import re
import runpy
import socket
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """A machine without a network: names do not resolve (which is an answer of the world, not a fault of the test)."""

    def no_such_host(host, *_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no network here")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)


def test_the_snippets_of_the_readme_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert len(SNIPPETS) >= 3
    namespace: dict[str, object] = {"__name__": "readme"}
    for place, snippet in enumerate(SNIPPETS):
        exec(compile(snippet, f"README.md, snippet {place + 1}", "exec"), namespace)
        out = capsys.readouterr().out
        for said in re.findall(r"^ *print\(.*#> (.*)$", snippet, re.MULTILINE):
            assert said in out


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_run_and_say_something(path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(path)])
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.modules["agentkit"].log.hide()
    out = capsys.readouterr().out
    assert "📌 Final answer" in out
    assert len(path.read_text().splitlines()) <= 60


def test_the_readme_tells_of_every_floor_and_command():
    for part in ("make demo", "make test", "pip install", "AGENTKIT_MODEL", "agentkit run"):
        assert part in README
