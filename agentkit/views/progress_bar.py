"""A progress bar for many runs, in a terminal or a notebook."""

import shutil
import sys
import threading
import time
from typing import TextIO

from ..core.host import find_kernel

BAR_COLUMNS = 30
"""Characters of the bar; in a narrow terminal, a quarter of its columns."""
MIN_REDRAW_SECONDS = 0.1
"""Seconds between two redraws, at least."""
MAX_REDRAW_SECONDS = 0.5
"""Seconds between two redraws, at most."""


class ProgressBar:
    """A bar that redraws one line; a context manager.

    `total`: None if unknown. `show=None` draws in a terminal or a notebook only, to standard output in a notebook,
    else to standard error.
    """

    def __init__(self, total: int | None, show: bool | None = None, file: TextIO | None = None) -> None:
        in_notebook = find_kernel() is not None
        file = file or (sys.stdout if in_notebook else sys.stderr)
        self._file = file if show or (show is None and (in_notebook or file.isatty())) else None
        self._total = total
        self._length = min(BAR_COLUMNS, shutil.get_terminal_size().columns // 4) if file.isatty() else BAR_COLUMNS
        self._done = 0
        self._failed = 0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._drawing = threading.Lock()
        self._over = threading.Event()
        self._width = 0
        self._note = ""

    def __enter__(self) -> "ProgressBar":
        self._draw()
        if self._file is not None:
            threading.Thread(target=self._tick, daemon=True, name="agentkit-progress").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._draw()
        with self._drawing:
            if self._file is not None:
                self._file.write("\n")
                self._file.flush()
                self._file = None

    def advance(self, *, failed: bool = False) -> None:
        """Count one run as done."""
        self._done += 1
        self._failed += failed
        if time.monotonic() - self._drawn >= MIN_REDRAW_SECONDS:
            self._draw()

    def note(self, text: str) -> None:
        """Show what is in progress, behind the counts."""
        self._note = text
        self._draw()

    def _tick(self) -> None:
        """Redraw without new runs too, because the elapsed time changes."""
        while not self._over.wait(MAX_REDRAW_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._drawing:
            if self._file is None:
                return
            self._drawn = time.monotonic()
            line = self._line()
            self._file.write(f"\r{line:<{self._width}}")
            self._file.flush()
            self._width = len(line)

    def _line(self) -> str:
        count = f"{self._done}/{self._total}" if self._total else f"{self._done}"
        filled = self._length * self._done // self._total if self._total else 0
        bar = f"[{'#' * filled}{'-' * (self._length - filled)}] " if self._total else ""
        failed = f", {self._failed} failed" if self._failed else ""
        note = f", {self._note}" if self._note else ""
        return f"{bar}{count} done{failed}, {time.monotonic() - self._started:.0f} s{note}"
