"""The supervisor of an isolated call on Linux: it ends the call with every process that the call started.

It is a fork of the child before that does anything.  As a subreaper it inherits processes whose parents ended, so that
also a daemon with a session of its own is a descendant.  It never runs the tool, so a tool that holds the interpreter
lock cannot block it.  See prctl(2): PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
EXIT_SECONDS = 0.2
"""How long a call may take to end after the other process closed the connection, which it also does after a result."""
CHILD_POLL_SECONDS = 0.02
"""Seconds between two looks at the call where the kernel has no pidfd_open(2)."""


def supervise() -> bool:
    """Fork, and return True in the process that is to run the call; the supervisor never returns.

    Returns False, without a fork, on other systems than Linux.
    """
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it ended before the call above
            os._exit(1)
        return True
    signal.signal(signal.SIGTERM, lambda *_: _end())
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    os.close(1)  # else the reader would not see the end of the worker's output
    _wait(worker)
    raise AssertionError("the supervisor has exited")


def _wait(worker: int) -> None:
    """Wait until the worker exits, and exit as it did; end it when the other process closes the connection."""
    poll = select.poll()
    poll.register(0, 0)  # reports POLLHUP only
    with suppress(OSError):
        poll.register(os.pidfd_open(worker), select.POLLIN)
    while not _is_over(worker):
        if any(
            event & (select.POLLHUP | select.POLLERR) for fd, event in poll.poll(CHILD_POLL_SECONDS * 1000) if fd == 0
        ):
            deadline = time.monotonic() + EXIT_SECONDS
            while not _is_over(worker) and time.monotonic() < deadline:
                time.sleep(0.002)
            _end()


def _is_over(worker: int) -> bool:
    """Reap ended processes; exits in the way of the worker when it is among them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                _exit_like(status)
            if pid == 0:
                break
    return False


def _exit_like(status: int) -> None:
    if _has_children():  # the worker left them, and they became those of this process
        _kill_descendants()
    if os.WIFSIGNALED(status):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end() -> None:
    """Kill all descendants and exit."""
    _kill_descendants()
    os._exit(1)


def _kill_descendants() -> None:
    """Kill all descendants; stopped processes cannot start further ones meanwhile."""
    stopped: set[int] = set()
    while found := [pid for pid in _descendants(os.getpid()) if pid not in stopped]:
        for pid in found:
            _send(pid, signal.SIGSTOP)
        stopped.update(found)
    for pid in stopped:
        _send(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while stopped:
            stopped.discard(os.waitpid(-1, 0)[0])


def _descendants(root: int) -> Iterator[int]:
    """Yield the processes below `root` by the parents in /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
