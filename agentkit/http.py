"""Requests of tools to addresses that a model chose: only to public ones, limited in time and size."""

import warnings
from typing import Any

from . import tools
from .tools.http.addresses import FetchSettings, is_public_url, settings
from .tools.http.download import Download, download, find_codec

__all__ = ["Download", "FetchSettings", "download", "find_codec", "is_public_url", "settings"]


def __getattr__(name: str) -> Any:
    """Return a name that was here before, with a warning that states its new place."""
    if name not in ("run_within", "truncate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"agentkit.http.{name} has moved. Import it from agentkit.tools.", DeprecationWarning, stacklevel=2)
    return getattr(tools, name)
