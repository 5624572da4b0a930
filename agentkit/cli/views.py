"""How a run is shown while it works: alive for a person who is looking, in plain lines otherwise."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def followed(events: Generator[Any, None, None], *listeners: Callable[[Any], None]) -> Any:
    """Show all events of a streamed run to `listeners`; returns the result, which the last one brings."""
    last: Any = None
    with closing(events):
        for last in events:
            for listen in listeners:
                listen(last)
    return last.result


def view(*, quiet: bool = False) -> Any:
    """A listener, and a context manager, that shows a run on standard error; with `read`, which asks the person."""
    if quiet:
        return import_module("agentkit.views.plain_text").Silence()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        return import_module("agentkit.views.terminal").LiveView()
    return import_module("agentkit.views.plain_text").PlainView()
