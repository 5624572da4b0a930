"""The run as plain lines, where nobody looks on: in a file, in a pipe, in the output of a service."""

import sys
from typing import Self

from ..core.ask_person import ask_terminal
from ..core.flow import Event
from .lines import watched
from .log import printer


class PlainView:
    """A listener that writes a run to standard error, line by line; a context manager like the live view."""

    def __init__(self) -> None:
        self._printer = printer(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        for line in watched(event):
            self._printer.write(line)

    def read(self, prompt: str) -> str:
        """Ask the person; raises `EOFError` when nobody is there."""
        return ask_terminal(prompt)


class Silence(PlainView):
    """A view that shows nothing, and asks all the same."""

    def __call__(self, event: Event) -> None:
        """Show nothing."""
