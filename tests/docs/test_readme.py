"""Every snippet of the README runs, offline, and prints what it shows."""

import socket
from pathlib import Path

import pytest
from snippets import run_document

import agentkit

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """Simulate a machine without a network: names do not resolve."""

    def no_such_host(host, *_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no network here")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)


def test_the_snippets_of_the_readme_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        assert run_document(README, lambda: "".join(capsys.readouterr())) >= 2
    finally:
        agentkit.log.hide()


def test_the_readme_is_one_page():
    assert len(README.read_text().splitlines()) <= 170


def test_the_readme_names_both_commands_and_the_first_steps():
    for part in ("make demo", "make test", "pip install", "AGENTKIT_MODEL", "agentkit run"):
        assert part in README.read_text()
