"""The view of a run while it works: live at a terminal, plain lines elsewhere."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def follow(events: Generator[Any, None, None], *listeners: Callable[[Any], None]) -> Any:
    """Send all events of a streamed run to `listeners`; return the result in the last event."""
    last: Any = None
    with closing(events):
        for last in events:
            for listen in listeners:
                listen(last)
    return last.result


def make_view(*, quiet: bool = False) -> Any:
    """Return a listener and context manager that shows a run on standard error; its `read` asks the person."""
    if quiet:
        return import_module("agentkit.views.log").SilentView()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        return import_module("agentkit.views.terminal").LiveView()
    return import_module("agentkit.views.log").PlainView()
