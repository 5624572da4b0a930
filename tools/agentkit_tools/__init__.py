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
from .shell import shell_tool
from .tables import table_tools
from .weather import get_weather
from .web import fetch_page, search_text

ALL_TOOLS: tuple[Callable[..., Any], ...] = (
    search_text,
    fetch_page,
    get_weather,
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
    "get_weather",
    "search_text",
    "settings",
    "shell_tool",
    "shift_date",
    "table_tools",
]
