"""Detect a notebook: the program runs in an IPython kernel; an installed IPython is not enough."""

import sys
from typing import Any


def find_kernel() -> Any:
    """Return the kernel whose cells run the program, or None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_ipython(), "kernel", None) if get_ipython is not None else None
