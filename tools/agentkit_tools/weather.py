"""The current weather, from Open-Meteo (https://open-meteo.com): no key; free for non-commercial use, 10,000 requests a
day; the data is licensed CC BY 4.0 and must be attributed to Open-Meteo.com."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agentkit import ToolError

from .marks import marked
from .patience import within

GEOCODING_URL = "https://geocoding-api.open-meteo.com/v1/search"
FORECAST_URL = "https://api.open-meteo.com/v1/forecast"
TIMEOUT = 10.0
"""Seconds for one request, from the lookup of the name to the last byte of the reply."""
MAX_REPLY = 200_000
"""Bytes of a reply; some 10,000 are usual."""
MAX_PLACE = 200
MAX_SHOWN = 100
"""Characters of a name or a reason that Open-Meteo gives."""

Units = Literal["metric", "imperial"]

_CURRENT = (
    *("temperature_2m", "apparent_temperature", "relative_humidity_2m", "precipitation", "weather_code"),
    *("wind_speed_10m", "wind_direction_10m"),
)
_PARAMETERS: Mapping[Units, dict[str, str]] = {
    "metric": {"temperature_unit": "celsius", "wind_speed_unit": "kmh", "precipitation_unit": "mm"},
    "imperial": {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"},
}
_SYMBOLS: Mapping[Units, tuple[str, str, str]] = {"metric": ("°C", "km/h", "mm"), "imperial": ("°F", "mph", "in")}
_COUNTRIES = {"usa": "us", "u.s.": "us", "u.s.a.": "us", "uk": "gb", "u.k.": "gb", "great britain": "gb", "uae": "ae"}
"""What people write for a country, where Open-Meteo knows only its name and its ISO 3166 code."""

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
"""WMO weather interpretation codes, in the words of https://open-meteo.com/en/docs."""


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
            f"wind {self.wind_speed:g} {speed} from {_compass(self.wind_direction)} ({self.wind_direction:g}°)"
        )


@marked(effect="read")
def get_weather(place: str, units: Literal["metric", "imperial"] = "metric") -> Weather:
    """Get the current weather at a place.

    Args:
        place: A city; after a comma its region or country, where several have this name: "Paris", "Paris, Texas".
        units: "metric" (°C, km/h, mm) or "imperial" (°F, mph, inch).

    Returns:
        The weather now, with the full name of the place that was found.

    Raises:
        ToolError: No such place, or Open-Meteo cannot be reached or refuses.
    """
    found = _locate(place)
    name = _full_name(found)
    where = {"latitude": found["latitude"], "longitude": found["longitude"], "timezone": "auto"}
    reply = _get_json(FORECAST_URL, where | {"current": ",".join(_CURRENT)} | _PARAMETERS[units])
    current = reply.get("current", {})
    try:
        return Weather(
            place=name,
            time=current["time"],
            timezone=reply["timezone"],
            description=WMO_CODES.get(current["weather_code"], f"weather code {current['weather_code']}"),
            temperature=float(current["temperature_2m"]),
            apparent_temperature=float(current["apparent_temperature"]),
            humidity=float(current["relative_humidity_2m"]),
            precipitation=float(current["precipitation"]),
            wind_speed=float(current["wind_speed_10m"]),
            wind_direction=float(current["wind_direction_10m"]),
            units=units,
        )
    except (KeyError, TypeError, ValueError):  # a value is missing, null or no number
        raise ToolError(f"Open-Meteo has no complete current weather for {name}.") from None


def _locate(place: str) -> Mapping[str, Any]:
    """The first (best known) place with this name that lies where the words after the comma say.

    A qualifier in the name itself finds nothing at Open-Meteo ("Portland Oregon"), so they are compared here.
    """
    name, *qualifiers = (part.strip() for part in place.split(","))
    if not name:
        raise ToolError('The place is empty. Write a city, for example "Kolkata" or "Paris, Texas".')
    if len(place) > MAX_PLACE:
        raise ToolError(f"The place is too long: {len(place):,} characters, at most {MAX_PLACE}.")
    parameters = {"name": name, "count": 10, "language": "en", "format": "json"}
    found = _get_json(GEOCODING_URL, parameters).get("results")
    results: list[dict[str, Any]] = [entry for entry in found if _is_place(entry)] if isinstance(found, list) else []
    if not results:
        raise ToolError(f"No place is called {name!r}. Write a city's name alone or with its region or country.")
    for result in results:
        if all(_lies_in(result, qualifier) for qualifier in qualifiers if qualifier):
            return result
    known = dict.fromkeys(_full_name(result) for result in results)
    raise ToolError(f"No {name!r} is in {', '.join(qualifiers)!r}. Known are: {'; '.join(known)}.")


def _is_place(entry: Any) -> bool:
    return isinstance(entry, dict) and {"name", "latitude", "longitude"} <= entry.keys()


def _full_name(result: Mapping[str, Any]) -> str:
    """Name, region, country, as far as Open-Meteo gives them; a city state is named once."""
    names = (str(result.get(key) or "")[:MAX_SHOWN] for key in ("name", "admin1", "country"))
    return ", ".join(dict.fromkeys(filter(None, names)))


def _lies_in(result: Mapping[str, Any], qualifier: str) -> bool:
    wanted = _plain(qualifier)
    keys = ("country", "country_code", "admin1", "admin2", "admin3", "admin4")
    return _COUNTRIES.get(wanted, wanted) in {_plain(str(result.get(key) or "")) for key in keys}


def _plain(name: str) -> str:
    """Without accents and case: "Île-de-France" -> "ile-de-france"."""
    letters = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).strip().casefold()


def _compass(degrees: float) -> str:
    return ("N", "NE", "E", "SE", "S", "SW", "W", "NW")[round(degrees / 45) % 8]


def _get_json(url: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """One GET request; the JSON object it is answered with, or an error with Open-Meteo's own reason."""
    try:
        import requests
    except ImportError:
        raise ImportError("get_weather needs the package requests: pip install ddgs requests") from None
    host = urlsplit(url).hostname

    def get() -> tuple[requests.Response, bytes]:
        body = bytearray()
        with requests.get(url, params=parameters, timeout=TIMEOUT, stream=True, allow_redirects=False) as response:
            for piece in response.iter_content(65_536):
                body += piece
                if len(body) > MAX_REPLY:
                    return response, b""
        return response, bytes(body)

    try:
        response, body = within(TIMEOUT, get)
    except (requests.Timeout, TimeoutError) as error:
        raise ToolError(f"{host} did not answer within {TIMEOUT:g} seconds.") from error
    except requests.RequestException as error:
        raise ToolError(f"{host} could not be reached.") from error
    try:
        reply = json.loads(body)
    except ValueError:
        reply = None
    if not response.ok:
        reason = reply.get("reason") if isinstance(reply, dict) else None
        shown = str(reason or response.reason)[:MAX_SHOWN]
        raise ToolError(f"{host} refused the request ({response.status_code}): {shown}.")
    if not isinstance(reply, dict):
        raise ToolError(f"{host} did not answer with JSON.")
    return reply
