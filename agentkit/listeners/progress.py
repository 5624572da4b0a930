"""A bar that shows how far many runs are, in a terminal or a notebook."""

import time
from typing import TextIO

from .log import printer

WIDTH = 30
"""Characters of the bar."""
PAUSE = 0.1
"""Seconds between two drawings."""


class ProgressBar:
    """A bar in one line that is drawn anew; a context manager.  `total` is None where nobody knows how many there are.

    With `show` None it is drawn where there is a terminal or a notebook.
    """

    def __init__(self, total: int | None, show: bool | None = None, file: TextIO | None = None) -> None:
        out = printer(file)
        self._file = out.file if show or (show is None and out.colour) else None
        self._total = total
        self._done = 0
        self._failed = 0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def __enter__(self) -> "ProgressBar":
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        if self._file is not None:
            self._file.write("\n")
            self._file.flush()

    def advance(self, *, failed: bool = False) -> None:
        """One more is done."""
        self._done += 1
        self._failed += failed
        if time.monotonic() - self._drawn >= PAUSE:
            self._draw()

    def _draw(self) -> None:
        if self._file is None:
            return
        self._drawn = time.monotonic()
        line = self._line()
        self._file.write(f"\r{line:<{self._width}}")
        self._file.flush()
        self._width = len(line)

    def _line(self) -> str:
        whole = f"{self._done}/{self._total}" if self._total else f"{self._done}"
        filled = WIDTH * self._done // self._total if self._total else 0
        bar = f"[{'#' * filled}{'-' * (WIDTH - filled)}] " if self._total else ""
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{bar}{whole} done{failed}, {time.monotonic() - self._started:.0f} s"
