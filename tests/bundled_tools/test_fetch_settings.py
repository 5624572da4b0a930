"""The limits of `fetch_page` come from the program, then from the environment, then from the defaults."""

import pytest

from agentkit import ToolError
from agentkit_tools import FetchSettings, fetch_page, settings


@pytest.fixture(autouse=True)
def _reset(monkeypatch):
    for name in ("SECONDS", "IDLE_SECONDS", "MAX_BYTES", "ALLOW"):
        monkeypatch.delenv(f"AGENTKIT_FETCH_{name}", raising=False)
    yield
    monkeypatch.undo()
    settings(seconds=None, idle_seconds=None, max_bytes=None, hosts=None)


def test_the_defaults_are_those_of_the_documentation():
    assert settings() == FetchSettings(seconds=20, idle_seconds=8, max_bytes=5_000_000, hosts=frozenset())


def test_the_program_has_precedence_over_the_environment_and_that_over_the_default(monkeypatch):
    monkeypatch.setenv("AGENTKIT_FETCH_SECONDS", "3.5")
    monkeypatch.setenv("AGENTKIT_FETCH_IDLE_SECONDS", "2")
    assert settings(seconds=1) == FetchSettings(seconds=1, idle_seconds=2)
    assert settings(seconds=None).seconds == 3.5


def test_a_setting_that_is_not_named_does_not_change():
    settings(seconds=1)
    assert settings(max_bytes=10) == FetchSettings(seconds=1, max_bytes=10)


def test_hosts_are_normalized():
    assert settings(hosts=["Wiki.Example:443", "[::1]:8000"]).hosts == {"wiki.example:443", "::1:8000"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "seconds must be a number of seconds > 0, got 0"),
        ({"seconds": "3"}, "seconds must be a number of seconds > 0, got '3'"),
        ({"idle_seconds": float("inf")}, "idle_seconds must be a number of seconds > 0, got inf"),
        ({"idle_seconds": True}, "idle_seconds must be a number of seconds > 0, got True"),
        ({"max_bytes": 0.5}, "max_bytes must be an integer >= 1, got 0.5"),
        ({"hosts": "wiki.example:443"}, "hosts must be a list of 'host:port', got 'wiki.example:443'"),
        ({"hosts": ["wiki.example"]}, "hosts must contain 'host:port', got 'wiki.example'. Add the port"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_it_and_changes_nothing(changes, message):
    with pytest.raises(ValueError) as error:
        settings(max_bytes=7) and settings(**changes)
    assert message in str(error.value)
    assert settings() == FetchSettings(max_bytes=7)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AGENTKIT_FETCH_SECONDS", "soon", "AGENTKIT_FETCH_SECONDS must be a number of seconds > 0, got 'soon'"),
        ("AGENTKIT_FETCH_MAX_BYTES", "1e6", "AGENTKIT_FETCH_MAX_BYTES must be an integer >= 1, got 1000000.0"),
        ("AGENTKIT_FETCH_ALLOW", "127.0.0.1", "AGENTKIT_FETCH_ALLOW must contain 'host:port', got '127.0.0.1'"),
    ],
)
def test_an_invalid_variable_is_an_error_that_names_it(variable, value, message, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match="must") as error:
        settings()
    assert message in str(error.value)


def test_an_unknown_setting_is_refused():
    with pytest.raises(TypeError, match=r"unexpected setting 'timeout'\. Settings: seconds, idle_seconds"):
        settings(timeout=3)


def test_fetch_page_obeys_the_settings(server):
    server.answer("/", "x" * 500, Content_Type="text/plain")
    server.hang("/slow")
    settings(hosts=[server.host], max_bytes=100, idle_seconds=0.2)
    assert fetch_page(server.url).endswith("[100 of 100 characters of the first 100 bytes]")
    with pytest.raises(ToolError, match=r"127\.0\.0\.1 sent nothing for 0\.2 seconds"):
        fetch_page(f"{server.url}/slow")
