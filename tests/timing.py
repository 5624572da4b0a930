"""Time in tests that also holds on a machine that is slow or busy: no test compares with a number of seconds.

A test waits for an event, not for a moment. What must not be waited for lasts `HANGS` seconds, longer than a test may
take. CPU time is compared with a control that is measured beside it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANGS = 600.0
"""Seconds that a tool, a server or a wait lasts that a test abandons: pytest ends a test that waits for it."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition; pytest ends a test in which it never holds."""
    while not condition():
        time.sleep(0.002)


def control_seconds() -> float:
    """Return the CPU seconds that this machine takes now for a fixed piece of Python: about 0.01."""
    began = time.process_time()
    table: dict[int, str] = {}
    for number in range(100_000):
        table[number % 100] = str(number)
    return time.process_time() - began


@contextmanager
def takes_at_most(controls: float) -> Iterator[None]:
    """Fail when a block takes more CPU time than `controls` times the control, which is measured before and after it."""
    before = control_seconds()
    began = time.process_time()
    yield
    taken = time.process_time() - began
    control = max(before, control_seconds())
    assert taken <= controls * control, f"{taken:.3f} s of CPU: {taken / control:.0f} controls, at most {controls}"
