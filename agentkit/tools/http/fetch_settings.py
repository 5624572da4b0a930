"""The limits of a download: set in the program, in the environment, or left at their defaults."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

VARIABLES = {
    "seconds": "AGENTKIT_FETCH_SECONDS",
    "idle_seconds": "AGENTKIT_FETCH_IDLE_SECONDS",
    "max_bytes": "AGENTKIT_FETCH_MAX_BYTES",
    "hosts": "AGENTKIT_FETCH_ALLOW",
}
"""The environment variable of each setting; `hosts` is written as `host:port,host:port`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """The limits of one download.

    Attributes:
        seconds: Time for the whole download: lookup, redirects and body.
        idle_seconds: Time without a byte from the server after which the download is abandoned.
        max_bytes: Size of a body, as sent and after decompression; the rest is not read.
        hosts: Hosts outside the public internet that may be read, as `host:port`.
        chunk_bytes: Size of the pieces in which a body is read.
    """

    seconds: float = 20.0
    idle_seconds: float = 8.0
    max_bytes: int = 5_000_000
    hosts: frozenset[str] = frozenset()
    chunk_bytes: int = 65_536


class Changes(TypedDict, total=False):
    """The arguments of `settings`; None returns a setting to its environment variable or its default."""

    seconds: float | None
    idle_seconds: float | None
    max_bytes: int | None
    hosts: Iterable[str] | None


_in_process: dict[str, Any] = {}


def settings(**changes: Unpack[Changes]) -> FetchSettings:
    """Change the limits of `fetch_page` and other downloads for this process, and return the limits in force.

    A value that is set here has precedence over its environment variable (`AGENTKIT_FETCH_SECONDS`,
    `AGENTKIT_FETCH_IDLE_SECONDS`, `AGENTKIT_FETCH_MAX_BYTES`, `AGENTKIT_FETCH_ALLOW`), which has precedence over the
    default.

    Args:
        changes: `seconds` (default 20), `idle_seconds` (8), `max_bytes` (5,000,000) and `hosts`, an iterable of
            `host:port` (empty). None resets a setting. A setting that is not named does not change.

    Returns:
        The limits in force.

    Raises:
        TypeError: A setting is unknown.
        ValueError: A value here or in the environment is invalid.
    """
    if unknown := sorted(changes.keys() - VARIABLES.keys()):
        raise TypeError(f"settings() got an unexpected setting {unknown[0]!r}. Settings: {', '.join(VARIABLES)}.")
    given: dict[str, Any] = {**changes}
    checked = {name: _check(name, name, value) for name, value in given.items() if value is not None}
    for name in given:
        _in_process.pop(name, None)
    _in_process.update(checked)
    return FetchSettings(**{**_read_environment(), **_in_process})


def _read_environment() -> dict[str, Any]:
    texts = {name: os.environ.get(variable, "").strip() for name, variable in VARIABLES.items()}
    return {
        name: _check(name, VARIABLES[name], text.split(",") if name == "hosts" else _parse_number(text))
        for name, text in texts.items()
        if text and name not in _in_process
    }


def _parse_number(text: str) -> float | int | str:
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def _check(name: str, shown: str, value: Any) -> Any:
    """Return the value of a setting in its own type.

    Raises:
        ValueError: It is not one; the message calls it `shown`.
    """
    if name == "hosts":
        return _check_hosts(shown, value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if name == "max_bytes" and not (isinstance(value, int) and is_number and value >= 1):
        raise ValueError(f"{shown} must be an integer >= 1, got {value!r}")
    if not (is_number and value > 0):
        raise ValueError(f"{shown} must be a number of seconds > 0, got {value!r}")
    return value


def _check_hosts(shown: str, value: Any) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{shown} must be a list of 'host:port', got {value!r}")
    entries = [str(entry).strip().lower() for entry in value]
    for entry in entries:
        host, _, port = entry.rpartition(":")
        if entry and not (host and port.isdecimal() and int(port) < 65_536):
            raise ValueError(f"{shown} must contain 'host:port', got {entry!r}. Add the port, for example {entry}:443.")
    return frozenset(entry.replace("[", "").replace("]", "") for entry in entries if entry)
