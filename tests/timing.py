"""CPU time in tests that also holds on a slow or busy machine: a control is measured beside it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


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
