import datetime

import pytest

from agentkit import ToolError
from agentkit_tools import current_time, days_between, shift_date
from agentkit_tools.clock import parse_date, tell_time

NOW = datetime.datetime(2024, 12, 31, 22, 30, 15, 999, tzinfo=datetime.UTC)


def read_clock(zone: datetime.tzinfo | None) -> datetime.datetime:
    """Now is late in the evening of December 31, 2024, UTC; this computer is in UTC."""
    return NOW.astimezone(zone or datetime.UTC)


@pytest.mark.parametrize(
    ("timezone", "expected"),
    [
        ("UTC", "2024-12-31T22:30:15+00:00 (Tuesday, UTC)"),
        ("Asia/Kolkata", "2025-01-01T04:00:15+05:30 (Wednesday, Asia/Kolkata)"),
        ("asia/kolkata", "2025-01-01T04:00:15+05:30 (Wednesday, Asia/Kolkata)"),
        ("Tokyo", "2025-01-01T07:30:15+09:00 (Wednesday, Asia/Tokyo)"),
        (" new york ", "2024-12-31T17:30:15-05:00 (Tuesday, America/New_York)"),
        ("America/New York", "2024-12-31T17:30:15-05:00 (Tuesday, America/New_York)"),
        ("UTC+2", "2025-01-01T00:30:15+02:00 (Wednesday, UTC+02:00)"),
        ("GMT+2", "2025-01-01T00:30:15+02:00 (Wednesday, UTC+02:00)"),
        ("gmt -3:30", "2024-12-31T19:00:15-03:30 (Tuesday, UTC-03:30)"),
        ("+0530", "2025-01-01T04:00:15+05:30 (Wednesday, UTC+05:30)"),
        ("Etc/GMT+2", "2024-12-31T20:30:15-02:00 (Tuesday, Etc/GMT+2)"),
        ("GMT+0", "2024-12-31T22:30:15+00:00 (Tuesday, UTC)"),
        ("Istanbul", "2025-01-01T01:30:15+03:00 (Wednesday, Europe/Istanbul)"),
    ],
)
def test_the_time_in_a_zone_or_a_city(timezone, expected):
    assert str(tell_time(timezone, read_clock)) == expected


def test_without_a_zone_it_is_utc():
    assert current_time().timezone == "UTC"


@pytest.mark.parametrize(
    ("timezone", "message"),
    [
        ("Pariss", "Did you mean Europe/Paris"),
        ("Europe/Lodnon", "Europe/London"),
        ("Paris, Texas", "No time zone"),
        ("xyzzyq", "Write an IANA name"),
        ("../../etc/passwd", "No time zone"),
        ("", "empty"),
    ],
)
def test_an_unknown_zone_is_answered_with_those_that_come_close(timezone, message):
    with pytest.raises(ToolError) as error:
        tell_time(timezone, read_clock)
    assert message in str(error.value)


def test_a_name_of_several_zones_is_answered_with_all():
    zones = {"west": ["Europe/Lisbon", "America/Los_Angeles"]}
    with pytest.raises(ToolError, match="Several time zones are called 'West': America/Los_Angeles, Europe/Lisbon"):
        tell_time("West", read_clock, lambda: zones)


def test_without_zone_data_utc_works_and_other_zones_name_what_to_install():
    assert tell_time("utc", index_zones=dict).timezone == "UTC"
    with pytest.raises(ToolError, match="pip install tzdata"):
        tell_time("Tokyo", index_zones=dict)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({}, "2024-01-31 (Wednesday)"),
        ({"days": 1}, "2024-02-01 (Thursday)"),
        ({"weeks": -1, "days": -1}, "2024-01-23 (Tuesday)"),
        ({"months": 1}, "2024-02-29 (Thursday)"),
        ({"months": 13}, "2025-02-28 (Friday)"),
        ({"months": -2}, "2023-11-30 (Thursday)"),
        ({"months": 1, "days": 1}, "2024-03-01 (Friday)"),
        ({"years": 1}, "2025-01-31 (Friday)"),
    ],
)
def test_shifting_clamps_to_the_end_of_the_month(span, expected):
    assert str(shift_date("2024-01-31", **span)) == expected


def test_a_leap_day_a_year_later_is_the_last_of_february():
    assert shift_date("2024-02-29", years=1).date == "2025-02-28"


def test_today_is_understood():
    assert parse_date("Today", read_clock) == datetime.date(2024, 12, 31)
    assert days_between("today", shift_date("today", days=1).date) in (1, 0)  # midnight may come between


@pytest.mark.parametrize("span", [{"years": 8000}, {"days": 10**12}, {"days": 3_000_000}, {"months": -(10**30)}])
def test_a_result_outside_the_calendar_is_refused(span):
    with pytest.raises(ToolError, match="years 1 to 9999"):
        shift_date("2024-01-31", **span)


def test_days_between_counts_in_both_directions():
    assert days_between("2024-02-28", "2024-03-01") == 2
    assert days_between("2024-03-01", "2024-02-28") == -2


@pytest.mark.parametrize("date", ["", "31.01.2024", "2024-02-30", "2024-01-31T10:00", "tomorrow"])
@pytest.mark.parametrize(
    "attempt",
    [shift_date, lambda date: days_between(date, "today"), lambda date: days_between("today", date)],
    ids=["shift", "from", "until"],
)
def test_an_invalid_date_is_answered_with_the_right_form(date, attempt):
    with pytest.raises(ToolError, match=r"is not a date\. Write YYYY-MM-DD"):
        attempt(date)
