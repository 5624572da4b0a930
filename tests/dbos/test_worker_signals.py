"""A worker is stopped from a signal handler, wherever it interrupts the process."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from waiting import HANGS

from agentkit import DefinitionError
from agentkit.dbos.database import check_sqlite

CODE = """
import signal
from agentkit import JsonAgent
from agentkit.dbos import Worker

def add(a: int, b: int) -> int:
    '''Add two integers.'''
    return a + b

worker = Worker({"agent": JsonAgent(add)}, "sqlite:///runs.db")
signal.signal(signal.SIGALRM, lambda *_: worker.stop())
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
for _ in range(100_000):
    worker.stop()
signal.setitimer(signal.ITIMER_REAL, 0)
print("stopped")
"""


def test_a_signal_may_interrupt_the_handler_of_another_one(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", CODE], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert child.communicate(timeout=HANGS)[0] == "stopped\n"
    finally:
        child.kill()
        child.communicate()


LATE_CODE = """
from agentkit import JsonAgent
from agentkit.dbos import Worker

def add(a: int, b: int) -> int:
    '''Add two integers.'''
    return a + b

for total, is_late in ((2, False), (7, True)):
    worker = Worker({"agent": JsonAgent(add)}, "sqlite:///runs.db", total=total)
    if is_late:
        worker.stop()
    worker.serve(grace=0, ready=worker.stop)
"""


def test_a_worker_that_is_stopped_before_it_is_ready_leaves_the_limits_of_the_others(tmp_path):
    """A process that was forked just before its parent was killed."""
    try:
        check_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])
    except DefinitionError as error:
        pytest.skip(str(error))
    subprocess.run([sys.executable, "-c", LATE_CODE], cwd=tmp_path, check=True, timeout=HANGS)
    with closing(sqlite3.connect(tmp_path / "runs.db-queue")) as queue:
        assert queue.execute("SELECT concurrency FROM queues").fetchall() == [(2,)]
