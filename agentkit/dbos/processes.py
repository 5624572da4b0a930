"""Several workers of one command: processes that are forked when everything is imported, and replaced when they die.

A worker that starts by itself needs a second or more for its imports, and a forked one some hundredths of a second.
"""

import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TypeAlias

from .. import DefinitionError

MODULES = ("dbos", "psycopg", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite")
"""What a worker imports when it starts."""
ENDING = (signal.SIGTERM, signal.SIGINT)
LONG_LIFE_SECONDS = 1.0
MIN_PAUSE = 0.1
MAX_PAUSE = 5.0
"""Seconds before a process is replaced that did not live long."""


Serve: TypeAlias = Callable[[Callable[[Callable[[], None]], None], Callable[[], object]], None]


class Processes:
    """Keeps a number of processes running.

    Args:
        serve: Runs a worker until it shall end; called in each process with a function that registers what ends
            it, and a function to call when the worker is ready.
        number: The number of processes.

    Raises:
        DefinitionError: This platform cannot fork.
    """

    def __init__(self, serve: Serve, number: int) -> None:
        if not hasattr(os, "fork"):
            raise DefinitionError("worker: this platform has no fork. Start several workers instead of --processes")
        self._serve = serve
        self._number = number
        self._running: dict[int, float] = {}
        self._is_over = False
        self._pause = 0.0
        self._life = os.pipe()
        """A pipe whose writing end only this process has: it closes when the process ends, however it does."""
        self._ready = os.pipe()
        """A pipe into which each process writes when its worker is ready."""
        os.set_blocking(self._ready[0], False)

    def run(self) -> int:
        """Run the processes until SIGTERM or SIGINT.

        Returns:
            The exit code of a process that failed before any worker was ready, else 0.
        """
        for module in MODULES:
            with suppress(ImportError):
                import_module(module)
        gc.freeze()  # the processes share what is not touched
        for number in ENDING:
            signal.signal(number, lambda *_: self._end())
        was_ready = False
        failure = 0
        while self._running or not self._is_over:
            while not self._is_over and len(self._running) < self._number:
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the process has handlers of its own
                self._running[self._start()] = time.monotonic()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            pid, status = os.wait()
            lived = time.monotonic() - self._running.pop(pid, 0.0)
            code = os.waitstatus_to_exitcode(status)
            with suppress(BlockingIOError):
                was_ready = was_ready or bool(os.read(self._ready[0], 1))
            if not was_ready and code > 0:  # it would fail again: the database is wrong, for example
                failure = failure or code
                self._end()
            elif not self._is_over and lived < LONG_LIFE_SECONDS:
                time.sleep(self._pause)
                self._pause = min(2 * self._pause or MIN_PAUSE, MAX_PAUSE)
            else:
                self._pause = 0.0
        return failure

    def _end(self) -> None:
        self._is_over = True
        for pid in [*self._running]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _start(self) -> int:
        """Fork a process, which ends when this one is killed."""
        if child := os.fork():
            return child
        code = 1
        try:
            os.close(self._life[1])
            random.seed()
            self._serve(lambda stop: _watch(self._life[0], stop), lambda: os.write(self._ready[1], b"."))
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException as error:
            os.write(2, f"agentkit: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)


def _watch(life: int, stop: Callable[[], None]) -> None:
    """Call `stop` at SIGTERM, at SIGINT, and when the parent process has ended."""
    for number in ENDING:
        signal.signal(number, lambda *_: stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def wait() -> None:
        os.read(life, 1)
        stop()

    threading.Thread(target=wait, daemon=True).start()
