"""Journals, recordings, reports and answers are created for their owner only."""

import os
import stat
import sys
import threading

import pytest

from agentkit import JsonAgent
from agentkit.core.private_files import open_private, write_atomically
from agentkit.testing import ScriptedModel, answer, call

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0o000)
    yield
    os.umask(before)


def test_what_a_run_writes_is_for_its_owner_only(tmp_path):
    agent = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), answer("3")), journal=tmp_path / "runs.db")
    agent.run("1 + 2?", record=tmp_path / "run.jsonl").to_html(tmp_path / "run.html")
    agent.session.save(tmp_path / "session.json")
    agent.session.to_html(tmp_path / "session.html")
    agent.tools.to_html(tmp_path / "tools.html")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"runs.db", "run.jsonl", "run.html", "session.json", "session.html", "tools.html"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


def test_an_existing_file_keeps_its_permissions(tmp_path):
    file = tmp_path / "shared.html"
    file.touch(mode=0o640)
    with open_private(file) as opened:
        opened.write("text")
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (0o640, "text")


def test_a_pipe_gets_the_content_and_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_atomically, args=(pipe, b"a run"))
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that opening it waits for no writer
    writer.start()
    writer.join()
    assert os.read(reading, 100) == b"a run"
    os.close(reading)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
