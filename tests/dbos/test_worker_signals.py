"""A worker is stopped from a signal handler, wherever it interrupts the process."""

import subprocess
import sys

from waiting import HANGS

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
