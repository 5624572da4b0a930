"""A clock that can be put forward, so that time is up when a test says so, however busy the machine is."""

import time


class Clock:
    """Stands for the module `time`: the time that it is, and `ahead` seconds more."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def perf_counter(self) -> float:
        return time.perf_counter() + self.ahead
