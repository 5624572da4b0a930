import json
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from agentkit import ToolError
from agentkit_tools import get_weather
from agentkit_tools.weather import OpenMeteo, find_forecast, find_weather

KOLKATA = {
    "name": "Kolkata",
    "admin1": "West Bengal",
    "country": "India",
    "country_code": "IN",
    "latitude": 22.56,
    "longitude": 88.36,
}
PARISES = [
    {
        "name": "Paris",
        "admin1": "Île-de-France",
        "country": "France",
        "country_code": "FR",
        "latitude": 48.85,
        "longitude": 2.35,
    },
    {
        "name": "Paris",
        "admin1": "Texas",
        "country": "United States",
        "country_code": "US",
        "latitude": 33.66,
        "longitude": -95.55,
    },
]
CURRENT = {
    "time": "2025-11-21T06:45",
    "interval": 900,
    "temperature_2m": 25.9,
    "apparent_temperature": 27.0,
    "relative_humidity_2m": 60,
    "precipitation": 0.0,
    "wind_speed_10m": 8.9,
    "wind_direction_10m": 310,
    "weather_code": 2,
}


@pytest.fixture
def open_meteo(server):
    server.meteo = OpenMeteo(geocoding_url=f"{server.url}/search", forecast_url=f"{server.url}/forecast")
    server.answer("/search", json.dumps({"results": [KOLKATA]}))
    server.answer("/forecast", json.dumps({"timezone": "Asia/Kolkata", "current": CURRENT}))
    return server


def parameters(server, number):
    return {name: value for name, [value] in parse_qs(server.requests[number][0].partition("?")[2]).items()}


def test_the_weather_is_one_line_of_text(open_meteo):
    assert str(find_weather("Kolkata", servers=open_meteo.meteo)) == (
        "Kolkata, West Bengal, India, 2025-11-21 06:45 (Asia/Kolkata): partly cloudy, 25.9 °C (feels like 27 °C), "
        "humidity 60 %, precipitation 0 mm, wind 8.9 km/h from NW (310°)"
    )


def test_imperial_units_are_requested_and_shown(open_meteo):
    found = find_weather("Kolkata", "imperial", servers=open_meteo.meteo)
    asked = parameters(open_meteo, 1)
    assert (asked["temperature_unit"], asked["wind_speed_unit"], asked["precipitation_unit"]) == (
        "fahrenheit",
        "mph",
        "inch",
    )
    assert "25.9 °F" in str(found)
    assert "0 in, wind 8.9 mph" in str(found)


def test_the_place_is_encoded_and_its_coordinates_are_asked_for(open_meteo):
    find_weather("Sankt Pölten & x=1", servers=open_meteo.meteo)
    assert parameters(open_meteo, 0)["name"] == "Sankt Pölten & x=1"
    assert parameters(open_meteo, 0)["count"] == "10"
    forecast = parameters(open_meteo, 1)
    assert (forecast["latitude"], forecast["longitude"], forecast["timezone"]) == ("22.56", "88.36", "auto")
    assert set(forecast["current"].split(",")) == set(CURRENT) - {"time", "interval"}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("Paris", "Paris, Île-de-France, France"),
        ("Paris, Texas", "Paris, Texas, United States"),
        ("Paris, texas, USA", "Paris, Texas, United States"),
        ("Paris, US", "Paris, Texas, United States"),
        ("Paris, ile-de-france", "Paris, Île-de-France, France"),
        ("Paris,", "Paris, Île-de-France, France"),
    ],
)
def test_what_follows_the_comma_chooses_among_places_of_one_name(open_meteo, place, found):
    open_meteo.answer("/search", json.dumps({"results": PARISES}))
    assert find_weather(place, servers=open_meteo.meteo).place == found
    assert parameters(open_meteo, 0)["name"] == "Paris"


def test_a_place_that_is_elsewhere_is_answered_with_where_it_is(open_meteo):
    open_meteo.answer("/search", json.dumps({"results": PARISES}))
    with pytest.raises(ToolError) as error:
        find_weather("Paris, Ontario", servers=open_meteo.meteo)
    assert str(error.value) == (
        "No 'Paris' is in 'Ontario'. Known are: Paris, Île-de-France, France; Paris, Texas, United States."
    )


def test_a_place_without_a_region_is_named_as_far_as_it_is_known(open_meteo):
    open_meteo.answer(
        "/search", json.dumps({"results": [KOLKATA | {"name": "Singapore", "admin1": "", "country": "Singapore"}]})
    )
    assert find_weather("Singapore", servers=open_meteo.meteo).place == "Singapore"


def test_an_unknown_place_is_reported_and_no_weather_is_requested(open_meteo):
    open_meteo.answer("/search", json.dumps({"generationtime_ms": 0.5}))
    with pytest.raises(ToolError, match="No place is called 'Xyzzy'"):
        find_weather("Xyzzy", servers=open_meteo.meteo)
    assert len(open_meteo.requests) == 1


@pytest.mark.parametrize("place", ["", "  ", ", France"])
def test_an_empty_place_asks_nothing(open_meteo, place):
    with pytest.raises(ToolError, match="empty"):
        find_weather(place, servers=open_meteo.meteo)
    assert open_meteo.requests == []


def test_an_unknown_weather_code_is_given_as_it_is(open_meteo):
    open_meteo.answer("/forecast", json.dumps({"timezone": "UTC", "current": CURRENT | {"weather_code": 42}}))
    assert find_weather("Kolkata", servers=open_meteo.meteo).description == "weather code 42"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"timezone": "UTC", "current": CURRENT | {"temperature_2m": None}},
        {"timezone": "UTC", "current": CURRENT | {"temperature_2m": "warm"}},
        {"current": None},
    ],
)
def test_missing_values_are_not_weather(open_meteo, reply):
    open_meteo.answer("/forecast", json.dumps(reply))
    with pytest.raises(ToolError, match="no complete current weather for Kolkata, West Bengal, India"):
        find_weather("Kolkata", servers=open_meteo.meteo)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            429,
            '{"error": true, "reason": "Daily API request limit exceeded"}',
            r"refused the request \(429\): Daily API request limit",
        ),
        (
            400,
            '{"error": true, "reason": "Parameter name is bad"}',
            r"refused the request \(400\): Parameter name is bad",
        ),
        (500, "<html>oops</html>", r"refused the request \(500\): Internal Server Error"),
        (200, "<html>captive portal</html>", "did not answer with JSON"),
        (200, "[]", "did not answer with JSON"),
    ],
)
def test_a_refusal_is_passed_on_with_its_reason(open_meteo, status, body, message):
    open_meteo.answer("/search", body, status=status)
    with pytest.raises(ToolError, match=message):
        find_weather("Kolkata", servers=open_meteo.meteo)


def test_a_hung_server_is_a_timeout(open_meteo):
    open_meteo.hang("/search")
    servers = replace(open_meteo.meteo, seconds=0.1)
    with pytest.raises(ToolError) as error:
        find_weather("Kolkata", servers=servers)
    assert str(error.value) == "127.0.0.1 did not answer within 0.1 seconds."


def test_a_reply_that_drips_is_a_timeout(open_meteo):
    open_meteo.hang("/search", first=b"HTTP/1.0 200 OK\r\n\r\n", then=b" ")
    servers = replace(open_meteo.meteo, seconds=0.3)
    with pytest.raises(ToolError, match=r"did not answer within 0\.3 seconds"):
        find_weather("Kolkata", servers=servers)


def test_a_huge_reply_is_not_read_to_its_end(open_meteo):
    open_meteo.answer("/search", "[" + " " * 2_000_000 + "]")
    with pytest.raises(ToolError, match="did not answer with JSON"):
        find_weather("Kolkata", servers=open_meteo.meteo)


def test_a_redirect_is_not_followed(open_meteo):
    open_meteo.answer("/search", "", status=302, Location=f"{open_meteo.url}/elsewhere")
    with pytest.raises(ToolError, match="did not answer with JSON"):
        find_weather("Kolkata", servers=open_meteo.meteo)
    assert [path.partition("?")[0] for path, _ in open_meteo.requests] == ["/search"]


def test_a_long_place_asks_nothing(open_meteo):
    with pytest.raises(ToolError, match="The place is too long: 300 characters, at most 200"):
        find_weather("x" * 300, servers=open_meteo.meteo)
    assert open_meteo.requests == []


@pytest.mark.parametrize("results", [None, "x", [None, 1, {}], [{"name": "Kolkata"}]])
def test_results_that_are_not_places_are_ignored(open_meteo, results):
    open_meteo.answer("/search", json.dumps({"results": results}))
    with pytest.raises(ToolError, match="No place is called 'Kolkata'"):
        find_weather("Kolkata", servers=open_meteo.meteo)


def test_long_names_and_reasons_are_cut(open_meteo):
    open_meteo.answer("/search", json.dumps({"results": [KOLKATA | {"country": "x" * 500, "admin1": None}]}))
    assert find_weather("Kolkata", servers=open_meteo.meteo).place == f"Kolkata, {'x' * 100}"
    open_meteo.answer("/search", json.dumps({"reason": "y" * 500}), status=400)
    with pytest.raises(ToolError, match=f"{'y' * 100}\\.$"):
        find_weather("Kolkata", servers=open_meteo.meteo)


def test_offline_names_the_host_and_nothing_else(internet):
    internet.names["geocoding-api.open-meteo.com"] = [[]]
    with pytest.raises(ToolError) as error:
        get_weather("Kolkata")
    assert str(error.value) == "geocoding-api.open-meteo.com could not be reached."


DAILY = {
    "time": ["2025-11-21", "2025-11-22"],
    "weather_code": [2, 61],
    "temperature_2m_min": [18.1, 17],
    "temperature_2m_max": [27.5, 24],
    "precipitation_sum": [0, 4.2],
    "precipitation_probability_max": [5, None],
    "wind_speed_10m_max": [12, 20.5],
    "sunrise": ["2025-11-21T06:01", "2025-11-22T06:02"],
    "sunset": ["2025-11-21T16:51", "2025-11-22T16:51"],
}
HOURLY = {
    "time": ["2025-11-21T07:00"],
    "weather_code": [3],
    "temperature_2m": [26],
    "precipitation": [0.1],
    "precipitation_probability": [10],
    "wind_speed_10m": [9],
}


class TestForecast:
    def test_days_and_hours_are_a_line_each(self, open_meteo):
        open_meteo.answer("/forecast", json.dumps({"timezone": "Asia/Kolkata", "daily": DAILY, "hourly": HOURLY}))
        found = find_forecast("Kolkata", 2, 1, servers=open_meteo.meteo)
        assert str(found).splitlines() == [
            "Kolkata, West Bengal, India (Asia/Kolkata)",
            "2025-11-21: partly cloudy, 18.1 to 27.5 °C, precipitation 0 mm (5 %), wind up to 12 km/h, sun 06:01 to 16:51",
            "2025-11-22: slight rain, 17 to 24 °C, precipitation 4.2 mm (? %), wind up to 20.5 km/h, sun 06:02 to 16:51",
            "2025-11-21 07:00: overcast, 26 °C, precipitation 0.1 mm (10 %), wind 9 km/h",
        ]
        assert found.days[1].temperature_max == 24
        assert found.hours[0].time == "2025-11-21T07:00"

    @pytest.mark.parametrize(
        ("days", "hours", "asked", "not_asked"),
        [
            (2, 0, {"forecast_days": "2"}, {"hourly", "forecast_hours"}),
            (0, 5, {"forecast_hours": "5"}, {"daily", "forecast_days"}),
            (99, 999, {"forecast_days": "16", "forecast_hours": "72"}, set()),
        ],
    )
    def test_only_what_is_wanted_is_asked_for(self, open_meteo, days, hours, asked, not_asked):
        open_meteo.answer("/forecast", json.dumps({"timezone": "UTC", "daily": DAILY, "hourly": HOURLY}))
        find_forecast("Kolkata", days, hours, "imperial", servers=open_meteo.meteo)
        sent = parameters(open_meteo, 1)
        assert asked.items() <= sent.items()
        assert not not_asked & sent.keys()
        assert sent["temperature_unit"] == "fahrenheit"

    def test_nothing_wanted_asks_nothing(self, open_meteo):
        with pytest.raises(ToolError, match="days and hours are both 0"):
            find_forecast("Kolkata", 0, 0, servers=open_meteo.meteo)
        assert open_meteo.requests == []

    @pytest.mark.parametrize(
        "reply",
        [
            {},
            {"timezone": "UTC"},
            {"timezone": "UTC", "daily": []},
            {"timezone": "UTC", "daily": DAILY | {"sunset": []}},
            {"timezone": "UTC", "daily": {name: [] for name in DAILY}},
            {"timezone": "UTC", "daily": DAILY | {"temperature_2m_min": ["cold", "cold"]}},
        ],
    )
    def test_missing_values_are_no_forecast(self, open_meteo, reply):
        open_meteo.answer("/forecast", json.dumps(reply))
        with pytest.raises(ToolError, match="no complete forecast for Kolkata, West Bengal, India"):
            find_forecast("Kolkata", servers=open_meteo.meteo)
