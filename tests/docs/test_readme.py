"""The README does what it says: every snippet runs, offline."""

import socket
from pathlib import Path

import pytest
from snippets import run_document

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """A machine without a network: names do not resolve (which is an answer of the world, not a fault of the test)."""

    def no_such_host(host, *_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no network here")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)


def test_the_snippets_of_the_readme_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_document(README, lambda: capsys.readouterr().out) >= 3


def test_the_readme_is_one_page():
    assert len(README.read_text().splitlines()) <= 250


def test_the_readme_tells_of_every_floor_and_command():
    for part in ("make demo", "make test", "pip install", "AGENTKIT_MODEL", "agentkit run"):
        assert part in README.read_text()
