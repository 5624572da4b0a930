"""Whether the program runs in a notebook: in a kernel with IPython, not merely beside one that is installed."""

import sys
from typing import Any


def find_kernel() -> Any:
    """The kernel whose cells run the program; None without one."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_ipython(), "kernel", None) if get_ipython is not None else None
