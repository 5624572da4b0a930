"""The suite itself: interrupts arrive wherever it is started, and a failure is always listed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
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


def suite(folder: Path, text: str, *options: str, ignored: tuple[signal.Signals, ...] = ()) -> str:
    """What pytest prints for the tests in `text`, which run with the settings of this suite and `ignored` signals."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", TESTS.parent / "pyproject.toml", *options]

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    done = subprocess.run(
        [*command, "--rootdir", folder, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        preexec_fn=ignore,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one-process", "workers"])
def test_interrupts_arrive_where_the_suite_is_started_in_the_background(tmp_path, options):
    out = suite(tmp_path, INTERRUPTED, *options, ignored=(signal.SIGINT, signal.SIGQUIT))
    assert "2 passed" in out, out


def test_a_failure_is_listed_although_garbage_is_parsing(tmp_path):
    out = suite(tmp_path, PARSING_FINALIZER)
    assert "INTERNALERROR" not in out, out
    assert "1 failed, 1 passed" in out, out
