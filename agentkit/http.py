"""Requests of tools to addresses that a model chose: only to public ones, limited in time and size."""

from .core.portable import truncate
from .core.threads import run_within
from .tools.http.download import Download, download
from .tools.http.fetch_settings import FetchSettings, settings

__all__ = ["Download", "FetchSettings", "download", "run_within", "settings", "truncate"]
