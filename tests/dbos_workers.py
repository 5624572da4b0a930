"""Waiting for what other processes do."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Fail unless a condition holds in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
