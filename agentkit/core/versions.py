"""The versions that a run depends on, for recordings and reports."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

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
