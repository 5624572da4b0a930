"""Tools for any agent: plain typed functions, written as a user writes them.

`get_weather` needs `requests` and `search_text` needs `ddgs` (`pip install ddgs requests`); both are imported at the
first call, as are `trafilatura` and `pypdf`, with which `fetch_page` finds the main content and reads a PDF.
`ask_user` is not in `ALL_TOOLS`: with it, a model could pause a run where no person waits.
"""

from collections.abc import Callable
from typing import Any

from agentkit.http import FetchSettings, settings

from .ask_user import ask_user
from .calculator import calculate
from .clock import current_time, days_between, shift_date
from .files import files_tools
from .http_json import http_json_tool
from .shell import shell_tool
from .tables import table_tools
from .weather import get_forecast, get_weather
from .web import fetch_page, search_text
from .wikipedia import read_wikipedia

ALL_TOOLS: tuple[Callable[..., Any], ...] = (
    search_text,
    fetch_page,
    read_wikipedia,
    get_weather,
    get_forecast,
    calculate,
    current_time,
    shift_date,
    days_between,
)

__all__ = [
    "ALL_TOOLS",
    "FetchSettings",
    "ask_user",
    "calculate",
    "current_time",
    "days_between",
    "fetch_page",
    "files_tools",
    "get_forecast",
    "get_weather",
    "http_json_tool",
    "read_wikipedia",
    "search_text",
    "settings",
    "shell_tool",
    "shift_date",
    "table_tools",
]
