"""The program around agentkit: whether it is a notebook, and the versions that a run depends on."""

import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("agentkit", "litellm", "pydantic")


@cache
def find_versions() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def find_kernel() -> Any:
    """Return the kernel whose cells run the program, or None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_ipython(), "kernel", None) if get_ipython is not None else None
