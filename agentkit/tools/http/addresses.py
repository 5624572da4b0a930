"""The addresses that a request may go to: the public internet, and the hosts that the operator allows.

A URL from a model could reach the network of the program: localhost, the intranet, the metadata service of the cloud.
Therefore a name is resolved once and *every* one of its addresses is checked. The connection is made to the checked
address, never to the name again, because a second lookup could differ ("DNS rebinding"). The resolver normalizes
unusual spellings (0x7f.1, 2130706433) before the check.

`FetchSettings` has these hosts and the limits of a download: set in the program, in the environment, or left at their
defaults.
"""

import math
import os
import re
import socket
from collections.abc import Container, Iterable
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, TypedDict, Unpack
from urllib.parse import quote, urljoin, urlsplit

from ...core.errors import ToolError
from ...core.portable import truncate
from ...core.threads import run_within
from ...core.values import frozen

VARIABLES = {
    "seconds": "AGENTKIT_FETCH_SECONDS",
    "idle_seconds": "AGENTKIT_FETCH_IDLE_SECONDS",
    "max_bytes": "AGENTKIT_FETCH_MAX_BYTES",
    "hosts": "AGENTKIT_FETCH_ALLOW",
}
"""The environment variable of each setting; `hosts` is written as `host:port,host:port`."""


@frozen(kw_only=True)
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


MAX_URL_CHARS = 8_000
"""The length that RFC 9110 (section 4.1) recommends every server and client to support."""

_PORTS = {"http": 80, "https": 443}

_NOT_PUBLIC = [
    ip_network(network)
    for network in (
        # IANA IPv4 Special-Purpose Address Registry; listed here because `ipaddress` differs between Python versions
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # Azure's host: not in a private range, but not public
        # IANA IPv6 Special-Purpose Address Registry, within 2000::/3: Teredo and others, documentation, 6to4
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
_GLOBAL_UNICAST = ip_network("2000::/3")  # RFC 4291: all IPv6 addresses that are assigned to the public internet
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052: how an IPv6-only network reaches IPv4


@frozen
class Target:
    """A parsed URL: where to connect and what to request."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query, percent-encoded."""

    @property
    def authority(self) -> str:
        """Host and port for the `Host` header; the port only if it is not the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as in an `Origin` header."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def join(self, location: str) -> "Target":
        """Return the target of a `Location` header, which is relative, and often raw UTF-8 contrary to RFC 9110."""
        try:
            return parse_url(urljoin(self.url, location.encode("latin-1").decode("utf-8", "replace")))
        except ValueError:
            raise ToolError(f"{truncate(self.url)} redirects to an invalid URL.") from None


@frozen
class CheckedAddress:
    """A checked address in the form of the socket module."""

    family: socket.AddressFamily
    address: tuple[Any, ...]


def parse_url(url: str) -> Target:
    """Parse a URL strictly.

    Raises:
        ToolError: The URL is not http or https, has no host, a user name or password, a control character or an invalid
            port, or is too long.
    """
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        raise ToolError(f"The URL is too long: {len(url):,} characters, at most {MAX_URL_CHARS:,}.")
    if any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise ToolError("The URL contains a control character.")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~") + ("?" if parts.query else "")
        path += quote(parts.query, safe="/?%:@!$&'()*+,;=~")
    except ValueError:
        raise ToolError(f"This is not a valid URL: {truncate(url)!r}.") from None
    if parts.scheme not in _PORTS:
        raise ToolError(f"Only http:// and https:// URLs can be fetched, not {truncate(url)!r}.")
    if "@" in parts.netloc:
        raise ToolError("A URL with a user name or password is not fetched.")
    if not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*", host) or port == 0:
        raise ToolError(f"The URL has no valid host: {truncate(url)!r}.")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


def resolve_target(target: Target, timeout: float, hosts: Container[str] = ()) -> list[CheckedAddress]:
    """Resolve a target and check every one of its addresses.

    Args:
        target: The parsed URL.
        timeout: Seconds for the lookup.
        hosts: `host:port` entries that need not be public.

    Returns:
        The addresses, in the resolver's order.

    Raises:
        ToolError: The name has no address, or one that is neither public nor allowed. The message does not contain the
            address, which would describe the internal network to a model.
        TimeoutError: The lookup took longer than `timeout` seconds.
    """
    found = _look_up(target, timeout)
    if f"{target.host}:{target.port}" not in hosts and not all(is_public(str(each.address[0])) for each in found):
        shown = truncate(target.host)
        raise ToolError(f"{shown} is not on the public internet and not allowed in {VARIABLES['hosts']}.")
    return found


def is_public(address: str) -> bool:
    """Return whether a numeric IPv4 or IPv6 address is on the public internet."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        embedded = ip.ipv4_mapped or (IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
        if embedded is None and ip not in _GLOBAL_UNICAST:
            return False
        ip = embedded or ip
    return not any(ip.version == network.version and ip in network for network in _NOT_PUBLIC)


_PRIVATE_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "test", "invalid")
"""Last labels of names that no public server has: RFC 6761, RFC 6762, RFC 8375, and what companies use."""


def is_public_url(url: str) -> bool:
    """Return whether a web address may be on the public internet, by its text alone: nothing is looked up.

    It is http or https, without a user name, and its host is neither a number of a network of one's own nor a name that
    exists only in one.
    """
    try:
        host = parse_url(url).host.rstrip(".")
    except ToolError:
        return False
    last = host.rpartition(".")[2]
    if ":" in host or re.fullmatch(r"\d+(\.\d+){3}", host):
        try:
            return is_public(host)
        except ValueError:
            return False
    is_number = re.fullmatch(r"\d+|0x[0-9a-f]*", last)  # 2130706433, 0x7f.1
    return "." in host and not is_number and last not in _PRIVATE_NAMES and not host.endswith(".home.arpa")


def _look_up(target: Target, timeout: float) -> list[CheckedAddress]:
    """Call `getaddrinfo` in a thread, because a lookup that hangs cannot be interrupted otherwise."""
    look_up = partial(socket.getaddrinfo, target.host, target.port, type=socket.SOCK_STREAM)
    try:
        found = run_within(timeout, look_up)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
        raise ToolError(f"The host {truncate(target.host)} could not be found.") from error
    return [CheckedAddress(family, address) for family, _, _, _, address in found]
