"""A run as plain lines on standard error, for files, pipes and service logs."""

import sys
from typing import Self

from ..core.ask_person import ask_terminal
from ..core.flow import Event
from .lines import render_progress
from .log import make_printer


class PlainView:
    """A listener that writes a run to standard error, line by line; a context manager like `LiveView`."""

    def __init__(self) -> None:
        self._printer = make_printer(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        """Write the lines of `event`."""
        for line in render_progress(event):
            self._printer.write(line)

    def read(self, prompt: str) -> str:
        """Ask the person at the terminal; raise `EOFError` without a terminal."""
        return ask_terminal(prompt)


class SilentView(PlainView):
    """A view that shows nothing but can still ask."""

    def __call__(self, event: Event) -> None:
        """Ignore `event`."""
