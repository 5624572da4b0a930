"""The suite itself: interrupts arrive wherever it is started, and a failure is always listed."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port
from sources import TESTS, each_path, nodes_of

INTERRUPTED = """
import os, signal, subprocess, sys
import pytest

def test_in_this_program():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)

def test_in_a_program_that_a_test_starts():
    shown = "import signal; print(*map(signal.getsignal, (signal.SIGINT, signal.SIGQUIT)))"
    out = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True).stdout
    assert "default_int_handler" in out
    assert "IGN" not in out
"""
PARSING_FINALIZER = '''
import ast, gc

class Late:
    """Garbage that each collection frees, parses at that moment, deeper in the stack, and leaves new garbage."""

    left = True

    def __init__(self):
        self.itself = self

    def __del__(self):
        parse(50)
        if self.left:
            Late()

def parse(depth):
    return parse(depth - 1) if depth else ast.parse("1 + 1")

def test_that_fails():
    Late()
    gc.set_threshold(1)
    assert gc.get_threshold() == 0

def test_that_comes_later():
    Late.left = False
    gc.collect()
    gc.set_threshold(700, 10, 10)
'''


SHARED = ("run", "reply", "call")
"""The names of helpers that `conftest.py`, `refunding.py` and `agentkit.testing` have for all tests."""


@each_path(sorted(TESTS.rglob("test_*.py")))
def test_a_shared_helper_is_not_written_again(path):
    functions = [node for node in nodes_of(path)[0].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert not [node.name for node in functions if node.name in SHARED and not node.decorator_list]


FASTER = ("-p", "no:hypothesispytest", "-p", "no:respx", "--assert=plain")
"""Plugins that are slow to import and rewritten assertions have no part in these tests."""


def suite(folder: Path, *options: str) -> str:
    """Return what pytest prints for the tests in a folder: with the settings of this suite, in a shell's background."""
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", TESTS.parent / "pyproject.toml", *FASTER]

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)

    done = subprocess.run(
        [*command, *options, "-rA", "--rootdir", folder, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        preexec_fn=ignore,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> str:
    """Return what pytest prints for all of these tests in one process."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_interrupted.py").write_text(INTERRUPTED)
    (folder / "test_parsing.py").write_text(PARSING_FINALIZER)
    return suite(folder)


def test_interrupts_arrive_where_the_suite_is_started_in_the_background(output):
    assert "PASSED test_interrupted.py::test_in_this_program" in output, output
    assert "PASSED test_interrupted.py::test_in_a_program_that_a_test_starts" in output, output


def test_interrupts_arrive_in_the_workers_of_a_suite_in_the_background(tmp_path):
    (tmp_path / "test_interrupted.py").write_text(INTERRUPTED)
    out = suite(tmp_path, "-n1")
    assert "2 passed" in out, out


def test_a_failure_is_listed_although_garbage_is_parsing(output):
    assert "INTERNALERROR" not in output, output
    assert "FAILED test_parsing.py::test_that_fails" in output, output
    assert "1 failed, 3 passed" in output, output


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell their range of ports in a file")
def test_the_port_of_a_server_of_a_test_is_outside_the_range_of_the_system():
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert {free_port() < first for _ in range(100)} == {True}
