"""How a run is shown while it works: alive for a person who is looking, in plain lines otherwise."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import agentkit


@contextmanager
def watching(quiet: bool = False) -> Iterator[Callable[[Any], object]]:
    """A listener that shows a run on standard error; `quiet` shows nothing."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        with import_module("agentkit.listeners.live").LiveView() as view:
            yield view
    else:
        yield agentkit.log.printer(sys.stderr, colour=colour_of(sys.stderr)).listen


def colour_of(file: Any) -> bool:
    """Whether colours may be used (https://no-color.org)."""
    return file.isatty() and not os.environ.get("NO_COLOR")
