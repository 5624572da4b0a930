"""Wait for what another process or thread does, where no event tells that it is done."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Return as soon as a condition holds; fail if it does not within `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.005)
