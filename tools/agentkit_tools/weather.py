"""The weather from Open-Meteo (https://open-meteo.com), without a key.

The service is free for non-commercial use, 10,000 requests a day. The data is licensed CC BY 4.0 and must be attributed
to Open-Meteo.com.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agentkit import ToolError
from agentkit.tools import run_within

from .declarations import declare

MAX_REPLY_BYTES = 200_000
"""A reply has usually some 10,000 bytes."""
MAX_PLACE_CHARS = 200
MAX_SHOWN_CHARS = 100
"""Length of a name or a reason from Open-Meteo."""

Units = Literal["metric", "imperial"]

_CURRENT = (
    *("temperature_2m", "apparent_temperature", "relative_humidity_2m", "precipitation", "weather_code"),
    *("wind_speed_10m", "wind_direction_10m"),
)
_DAILY = (
    *("weather_code", "temperature_2m_min", "temperature_2m_max", "precipitation_sum"),
    *("precipitation_probability_max", "wind_speed_10m_max", "sunrise", "sunset"),
)
_HOURLY = ("weather_code", "temperature_2m", "precipitation", "precipitation_probability", "wind_speed_10m")
MAX_DAYS = 16
MAX_HOURS = 72
_PARAMETERS: Mapping[Units, dict[str, str]] = {
    "metric": {"temperature_unit": "celsius", "wind_speed_unit": "kmh", "precipitation_unit": "mm"},
    "imperial": {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"},
}
_SYMBOLS: Mapping[Units, tuple[str, str, str]] = {"metric": ("°C", "km/h", "mm"), "imperial": ("°F", "mph", "in")}
_COUNTRIES = {"usa": "us", "u.s.": "us", "u.s.a.": "us", "uk": "gb", "u.k.": "gb", "great britain": "gb", "uae": "ae"}
"""Common names of countries, for which Open-Meteo has only the full name and the ISO 3166 code."""

WMO_CODES: Mapping[int, str] = {
    0: "clear sky",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "depositing rime fog",
    51: "light drizzle",
    53: "moderate drizzle",
    55: "dense drizzle",
    56: "light freezing drizzle",
    57: "dense freezing drizzle",
    61: "slight rain",
    63: "moderate rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "heavy freezing rain",
    71: "slight snowfall",
    73: "moderate snowfall",
    75: "heavy snowfall",
    77: "snow grains",
    80: "slight rain showers",
    81: "moderate rain showers",
    82: "violent rain showers",
    85: "slight snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with slight hail",
    99: "thunderstorm with heavy hail",
}
"""WMO weather interpretation codes, as documented at https://open-meteo.com/en/docs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMeteo:
    """The servers that are asked: those of Open-Meteo, or your own.

    Attributes:
        geocoding_url: Where places are searched by their names.
        forecast_url: Where the weather at coordinates is asked for.
        seconds: Time for one request, from the lookup of the name to the last byte of the reply.
    """

    geocoding_url: str = "https://geocoding-api.open-meteo.com/v1/search"
    forecast_url: str = "https://api.open-meteo.com/v1/forecast"
    seconds: float = 10.0


PUBLIC_SERVERS = OpenMeteo()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The weather at one place: °C, km/h and mm in metric units, °F, mph and inches in imperial ones."""

    place: str
    time: str
    """Local, ISO 8601 to the minute, without an offset."""
    timezone: str
    description: str
    temperature: float
    apparent_temperature: float
    humidity: float
    """Percent."""
    precipitation: float
    """In the last 15 minutes or hour."""
    wind_speed: float
    wind_direction: float
    """Where the wind comes from: degrees, clockwise from north."""
    units: Units

    def __str__(self) -> str:
        degrees, speed, depth = _SYMBOLS[self.units]
        return (
            f"{self.place}, {self.time.replace('T', ' ')} ({self.timezone}): {self.description}, "
            f"{self.temperature:g} {degrees} (feels like {self.apparent_temperature:g} {degrees}), "
            f"humidity {self.humidity:g} %, precipitation {self.precipitation:g} {depth}, "
            f"wind {self.wind_speed:g} {speed} from {_name_direction(self.wind_direction)} ({self.wind_direction:g}°)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DayForecast:
    """The weather of a day, in the units of its `Forecast`; None for a value that is not known."""

    date: str
    description: str
    temperature_min: float | None
    temperature_max: float | None
    precipitation: float | None
    precipitation_probability: float | None
    """Percent."""
    wind_speed_max: float | None
    sunrise: str
    """Local, HH:MM."""
    sunset: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HourForecast:
    """The weather of an hour, in the units of its `Forecast`; None for a value that is not known."""

    time: str
    """Local, ISO 8601 to the minute, without an offset."""
    description: str
    temperature: float | None
    precipitation: float | None
    precipitation_probability: float | None
    """Percent."""
    wind_speed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The weather of the next days and hours at one place, in the units of `Weather`."""

    place: str
    timezone: str
    days: Sequence[DayForecast]
    hours: Sequence[HourForecast]
    units: Units

    def __str__(self) -> str:
        degrees, speed, depth = _SYMBOLS[self.units]
        lines = [f"{self.place} ({self.timezone})"]
        for day in self.days:
            lines.append(
                f"{day.date}: {day.description}, "
                f"{_show(day.temperature_min)} to {_show(day.temperature_max)} {degrees}, "
                f"precipitation {_show(day.precipitation)} {depth} ({_show(day.precipitation_probability)} %), "
                f"wind up to {_show(day.wind_speed_max)} {speed}, sun {day.sunrise} to {day.sunset}"
            )
        for hour in self.hours:
            lines.append(
                f"{hour.time.replace('T', ' ')}: {hour.description}, {_show(hour.temperature)} {degrees}, "
                f"precipitation {_show(hour.precipitation)} {depth} ({_show(hour.precipitation_probability)} %), "
                f"wind {_show(hour.wind_speed)} {speed}"
            )
        return "\n".join(lines)


@declare(effect="read")
def get_forecast(
    place: str, days: int = 3, hours: int = 0, units: Literal["metric", "imperial"] = "metric"
) -> Forecast:
    """Get the weather forecast for a place.

    Args:
        place: A city, optionally with its region or country after a comma: "Paris", "Paris, Texas".
        days: The number of days from today on, 0 to 16.
        hours: The number of hours from now on, 0 to 72.
        units: "metric" (°C, km/h, mm) or "imperial" (°F, mph, inch).

    Returns:
        A line for each day and for each hour, with the full name of the place.

    Raises:
        ToolError: The place is unknown, or Open-Meteo cannot be reached or refuses the request.
    """
    return find_forecast(place, days, hours, units)


def find_forecast(
    place: str, days: int = 3, hours: int = 0, units: Units = "metric", servers: OpenMeteo = PUBLIC_SERVERS
) -> Forecast:
    """Do `get_forecast` with these servers."""
    days = min(max(days, 0), MAX_DAYS)
    hours = min(max(hours, 0), MAX_HOURS)
    if days == hours == 0:
        raise ToolError("days and hours are both 0. Ask for at least one of them.")
    found = _locate(place, servers)
    asked: dict[str, Any] = {"latitude": found["latitude"], "longitude": found["longitude"], "timezone": "auto"}
    if days:
        asked |= {"daily": ",".join(_DAILY), "forecast_days": days}
    if hours:
        asked |= {"hourly": ",".join(_HOURLY), "forecast_hours": hours}
    reply = _get_json(servers.forecast_url, asked | _PARAMETERS[units], servers.seconds)
    try:
        forecast = Forecast(
            place=_format_name(found),
            timezone=str(reply["timezone"])[:MAX_SHOWN_CHARS],
            days=[_to_day(row) for row in _list_rows(reply, "daily", _DAILY, days)],
            hours=[_to_hour(row) for row in _list_rows(reply, "hourly", _HOURLY, hours)],
            units=units,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ToolError(f"Open-Meteo has no complete forecast for {_format_name(found)}.") from None
    return forecast


def _list_rows(reply: Mapping[str, Any], part: str, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return the columns of a reply as rows."""
    if count == 0:
        return []
    columns = {name: reply[part][name] for name in ("time", *names)}
    rows = list(zip(*columns.values(), strict=True))[:count]
    if not rows:
        raise ValueError(part)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _to_day(row: Mapping[str, Any]) -> DayForecast:
    return DayForecast(
        date=str(row["time"])[:MAX_SHOWN_CHARS],
        description=_describe_code(row["weather_code"]),
        temperature_min=_to_number(row["temperature_2m_min"]),
        temperature_max=_to_number(row["temperature_2m_max"]),
        precipitation=_to_number(row["precipitation_sum"]),
        precipitation_probability=_to_number(row["precipitation_probability_max"]),
        wind_speed_max=_to_number(row["wind_speed_10m_max"]),
        sunrise=str(row["sunrise"])[-5:],
        sunset=str(row["sunset"])[-5:],
    )


def _to_hour(row: Mapping[str, Any]) -> HourForecast:
    return HourForecast(
        time=str(row["time"])[:MAX_SHOWN_CHARS],
        description=_describe_code(row["weather_code"]),
        temperature=_to_number(row["temperature_2m"]),
        precipitation=_to_number(row["precipitation"]),
        precipitation_probability=_to_number(row["precipitation_probability"]),
        wind_speed=_to_number(row["wind_speed_10m"]),
    )


def _to_number(value: Any) -> float | None:
    return None if value is None else float(value)


def _show(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"


def _describe_code(code: Any) -> str:
    if code is None:
        return "unknown weather"
    return WMO_CODES.get(code, f"weather code {str(code)[:MAX_SHOWN_CHARS]}")


@declare(effect="read")
def get_weather(place: str, units: Literal["metric", "imperial"] = "metric") -> Weather:
    """Get the current weather at a place.

    Args:
        place: A city, optionally with its region or country after a comma: "Paris", "Paris, Texas".
        units: "metric" (°C, km/h, mm) or "imperial" (°F, mph, inch).

    Returns:
        The current weather, with the full name of the place.

    Raises:
        ToolError: The place is unknown, or Open-Meteo cannot be reached or refuses the request.
    """
    return find_weather(place, units)


def find_weather(place: str, units: Units = "metric", servers: OpenMeteo = PUBLIC_SERVERS) -> Weather:
    """Do `get_weather` with these servers."""
    found = _locate(place, servers)
    name = _format_name(found)
    where = {"latitude": found["latitude"], "longitude": found["longitude"], "timezone": "auto"}
    reply = _get_json(
        servers.forecast_url, where | {"current": ",".join(_CURRENT)} | _PARAMETERS[units], servers.seconds
    )
    current = reply.get("current", {})
    try:
        return Weather(
            place=name,
            time=current["time"],
            timezone=reply["timezone"],
            description=_describe_code(current["weather_code"]),
            temperature=float(current["temperature_2m"]),
            apparent_temperature=float(current["apparent_temperature"]),
            humidity=float(current["relative_humidity_2m"]),
            precipitation=float(current["precipitation"]),
            wind_speed=float(current["wind_speed_10m"]),
            wind_direction=float(current["wind_direction_10m"]),
            units=units,
        )
    except (KeyError, TypeError, ValueError):  # a value is missing, null or not a number
        raise ToolError(f"Open-Meteo has no complete current weather for {name}.") from None


def _locate(place: str, servers: OpenMeteo) -> Mapping[str, Any]:
    """Return the first (best known) place with this name whose region matches the words after the comma.

    Open-Meteo finds nothing for a name with a qualifier ("Portland Oregon"), so the qualifiers are compared here.
    """
    name, *qualifiers = (part.strip() for part in place.split(","))
    if not name:
        raise ToolError('The place is empty. Write a city, for example "Kolkata" or "Paris, Texas".')
    if len(place) > MAX_PLACE_CHARS:
        raise ToolError(f"The place is too long: {len(place):,} characters, at most {MAX_PLACE_CHARS}.")
    parameters = {"name": name, "count": 10, "language": "en", "format": "json"}
    found = _get_json(servers.geocoding_url, parameters, servers.seconds).get("results")
    results: list[dict[str, Any]] = [entry for entry in found if _is_place(entry)] if isinstance(found, list) else []
    if not results:
        raise ToolError(f"No place is called {name!r}. Write a city's name alone or with its region or country.")
    for result in results:
        if all(_is_in(result, qualifier) for qualifier in qualifiers if qualifier):
            return result
    known = dict.fromkeys(_format_name(result) for result in results)
    raise ToolError(f"No {name!r} is in {', '.join(qualifiers)!r}. Known are: {'; '.join(known)}.")


def _is_place(entry: Any) -> bool:
    return isinstance(entry, dict) and {"name", "latitude", "longitude"} <= entry.keys()


def _format_name(result: Mapping[str, Any]) -> str:
    """Return name, region and country, as far as Open-Meteo has them, without repetition."""
    names = (str(result.get(key) or "")[:MAX_SHOWN_CHARS] for key in ("name", "admin1", "country"))
    return ", ".join(dict.fromkeys(filter(None, names)))


def _is_in(result: Mapping[str, Any], qualifier: str) -> bool:
    wanted = _normalize(qualifier)
    keys = ("country", "country_code", "admin1", "admin2", "admin3", "admin4")
    return _COUNTRIES.get(wanted, wanted) in {_normalize(str(result.get(key) or "")) for key in keys}


def _normalize(name: str) -> str:
    """Remove accents and case: "Île-de-France" -> "ile-de-france"."""
    letters = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).strip().casefold()


def _name_direction(degrees: float) -> str:
    return ("N", "NE", "E", "SE", "S", "SW", "W", "NW")[round(degrees / 45) % 8]


def _get_json(url: str, parameters: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Make one GET request and return its JSON object.

    Raises:
        ToolError: The request failed; the message contains Open-Meteo's reason, if it gave one.
    """
    try:
        import requests
    except ImportError:
        raise ImportError("get_weather needs the package requests: pip install requests") from None
    host = urlsplit(url).hostname

    def get() -> tuple[requests.Response, bytes]:
        body = bytearray()
        with requests.get(url, params=parameters, timeout=seconds, stream=True, allow_redirects=False) as response:
            for chunk in response.iter_content(65_536):
                body += chunk
                if len(body) > MAX_REPLY_BYTES:
                    return response, b""
        return response, bytes(body)

    try:
        response, body = run_within(seconds, get)
    except (requests.Timeout, TimeoutError) as error:
        raise ToolError(f"{host} did not answer within {seconds:g} seconds.") from error
    except requests.RequestException as error:
        raise ToolError(f"{host} could not be reached.") from error
    try:
        reply = json.loads(body)
    except ValueError:
        reply = None
    if not response.ok:
        reason = reply.get("reason") if isinstance(reply, dict) else None
        shown = str(reason or response.reason)[:MAX_SHOWN_CHARS]
        raise ToolError(f"{host} refused the request ({response.status_code}): {shown}.")
    if not isinstance(reply, dict):
        raise ToolError(f"{host} did not answer with JSON.")
    return reply
