"""The time in a zone, and arithmetic with calendar dates, which models do badly by themselves."""

import calendar
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from agentkit import ToolError

from .declarations import declare

ReadClock: TypeAlias = Callable[[datetime.tzinfo | None], datetime.datetime]
"""Returns the time in a zone; None is the zone of this computer."""
Zones: TypeAlias = dict[str, list[str]]
_OFFSET = re.compile(r"(?:UTC|GMT)?\s?([+\u2212-])(0?\d|1[0-4])(?::?([0-5]\d))?", re.IGNORECASE)
"""How people write an offset from UTC.  The IANA names Etc/GMT+2 and GMT+2 mean the opposite: two hours behind it."""


def _read_clock(zone: datetime.tzinfo | None) -> datetime.datetime:
    return datetime.datetime.now(zone)


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The time in one zone: ISO 8601 to the second with the offset from UTC, the weekday, the zone's IANA name."""

    time: str
    weekday: str
    timezone: str

    def __str__(self) -> str:
        return f"{self.time} ({self.weekday}, {self.timezone})"


@dataclass(frozen=True, slots=True)
class Day:
    """A calendar date (YYYY-MM-DD) and its weekday."""

    date: str
    weekday: str

    def __str__(self) -> str:
        return f"{self.date} ({self.weekday})"


@declare(effect="read")
def current_time(timezone: str = "UTC") -> LocalTime:
    """Get the current date, time and weekday in a time zone.

    Args:
        timezone: An IANA name such as "Europe/Paris", a city with its own zone, such as "Tokyo", or "UTC+2".

    Returns:
        The local time with its offset from UTC, the weekday and the zone's name.

    Raises:
        ToolError: No zone has this name, or several have it. The message lists similar names.
    """
    return tell_time(timezone)


def tell_time(
    timezone: str, read_clock: ReadClock = _read_clock, index_zones: Callable[[], Zones] | None = None
) -> LocalTime:
    """Do `current_time` by a clock, with the zones of this computer or those that `index_zones` returns."""
    if offset := _OFFSET.fullmatch(timezone.strip()):
        ahead = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        zone = datetime.timezone(-ahead if offset[1] in "-\u2212" else ahead)
        moment = read_clock(zone)
        return LocalTime(moment.isoformat(timespec="seconds"), _name_weekday(moment), str(zone))
    name = _find_zone(timezone, read_clock(datetime.UTC), index_zones or _index_zones)
    moment = read_clock(datetime.UTC if name == "UTC" else ZoneInfo(name))
    return LocalTime(moment.isoformat(timespec="seconds"), _name_weekday(moment), name)


@declare(effect="read")
def shift_date(date: str, days: int = 0, weeks: int = 0, months: int = 0, years: int = 0) -> Day:
    """Add a span of time to a date, or subtract it with negative numbers.

    Years and months come first; a day that the month does not have becomes its last: January 31 and one month is
    February 28 or 29.

    Args:
        date: The date to start from, as YYYY-MM-DD, or "today" (by this computer's clock).
        days: Days to add.
        weeks: Weeks to add.
        months: Months to add.
        years: Years to add.

    Returns:
        The new date and its weekday.

    Raises:
        ToolError: The date is invalid, or the result is outside the years 1 to 9999.
    """
    start = parse_date(date)
    month = start.year * 12 + start.month - 1 + years * 12 + months
    try:
        first = start.replace(year=month // 12, month=month % 12 + 1, day=1)
        last_day = calendar.monthrange(first.year, first.month)[1]
        result = first.replace(day=min(start.day, last_day)) + datetime.timedelta(days=days, weeks=weeks)
    except (ValueError, OverflowError):
        raise ToolError("The result is outside the years 1 to 9999.") from None
    return Day(result.isoformat(), _name_weekday(result))


@declare(effect="read")
def days_between(start: str, end: str) -> int:
    """Count the days from one date to another.

    Args:
        start: The first date, as YYYY-MM-DD, or "today" (by this computer's clock).
        end: The second date, as YYYY-MM-DD, or "today".

    Returns:
        The number of days: 1 from a day to the next, negative when the end comes before the start.

    Raises:
        ToolError: A date is invalid.
    """
    return (parse_date(end) - parse_date(start)).days


def _name_weekday(day: datetime.date) -> str:
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return names[day.weekday()]  # strftime would use the language of the machine


def parse_date(text: str, read_clock: ReadClock = _read_clock) -> datetime.date:
    """Parse an ISO date; "today" is today on this computer."""
    if text.strip().lower() == "today":
        return read_clock(None).date()
    try:
        return datetime.date.fromisoformat(text.strip())
    except ValueError:
        raise ToolError(f'{text!r} is not a date. Write YYYY-MM-DD, for example "2025-02-28", or "today".') from None


@cache
def _index_zones() -> Zones:
    """Map the names of zones (full name and city; lower case, with spaces) to the matching IANA names.

    The preferred name is last: of two links to one zone, the longer name is nearly always the one in use.
    """
    zones: Zones = {}
    for name in sorted(available_timezones(), key=lambda name: (len(name), name)):
        for called in {_normalize(name), _normalize(name.rpartition("/")[2])}:
            zones.setdefault(called, []).append(name)
    return zones


def _normalize(name: str) -> str:
    return " ".join(name.replace("_", " ").lower().split())


def _find_zone(timezone: str, now: datetime.datetime, index_zones: Callable[[], Zones]) -> str:
    """Return the IANA name of the one zone that is called `timezone`."""
    wanted = _normalize(timezone)
    if wanted in ("utc", "etc/utc", "z"):
        return "UTC"
    if not wanted:
        raise ToolError('The time zone is empty. Write an IANA name such as "Europe/Paris", or a city such as "Tokyo".')
    zones = index_zones()
    if not zones:
        raise ToolError("This computer has no time zone data, only UTC is available (pip install tzdata).")
    names = zones.get(wanted, [])
    for name in names:
        if _normalize(name) == wanted:
            return name
    if len({now.astimezone(ZoneInfo(name)).utcoffset() for name in names}) == 1:
        return names[-1]
    if names:
        raise ToolError(f"Several time zones are called {timezone!r}: {', '.join(sorted(names))}.")
    close = [zones[called][-1] for called in get_close_matches(wanted, zones, n=5, cutoff=0.6)]
    hint = (
        f" Did you mean {', '.join(dict.fromkeys(close))}?"
        if close
        else " Write an IANA name (Europe/Paris) or a city."
    )
    raise ToolError(f"No time zone is called {timezone!r}.{hint}")
