"""Which addresses a model may make this computer connect to: the public internet's, and what the operator allows.

A URL in a model's hands is a way into the network that the program runs in: localhost, the intranet, the metadata
service of the cloud. So a name is resolved once, *every* address it has is checked, and the connection is made to what
was checked, never to the name again (a second lookup could answer differently: "DNS rebinding"). However an address is
spelled (0x7f.1, 2130706433), the resolver turns it into the one that is checked.
"""

import os
import re
import socket
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import quote, urlsplit

from agentkit import ToolError

from .patience import within

ALLOW_VARIABLE = "AGENTKIT_FETCH_ALLOW"
"""The environment variable with the hosts that are let through unchecked, as they stand in the URL: `host:port,...`."""

MAX_URL = 8_000
"""Characters; what RFC 9110 (section 4.1) has every server and client take."""

_PORTS = {"http": 80, "https": 443}

_NOT_PUBLIC = [
    ip_network(network)
    for network in (
        # IANA IPv4 Special-Purpose Address Registry; listed here as `ipaddress` differs between versions of Python
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # Azure's host: outside the private ranges, yet not public
        # IANA IPv6 Special-Purpose Address Registry, within 2000::/3: Teredo and others, documentation, 6to4
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
_GLOBAL_UNICAST = ip_network("2000::/3")  # RFC 4291: all IPv6 addresses that are assigned to the public internet
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052: how an IPv6-only network reaches IPv4


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL asks for: where to connect, what to ask for there, and the URL itself, tidied."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query, percent-encoded."""

    @property
    def authority(self) -> str:
        """Host and port as the `Host` header wants them: the port only if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that was checked, as the socket module wants it."""

    family: socket.AddressFamily
    address: tuple[Any, ...]


def read_url(url: str) -> Target:
    """Take a URL apart, strictly.

    Raises:
        ToolError: Not http or https, no host, a user name or password, a control character, an impossible port, too
            long.
    """
    url = url.strip()
    if len(url) > MAX_URL:
        raise ToolError(f"The URL is too long: {len(url):,} characters, at most {MAX_URL:,}.")
    if any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise ToolError("The URL has a control character in it.")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~") + ("?" if parts.query else "")
        path += quote(parts.query, safe="/?%:@!$&'()*+,;=~")
    except ValueError:
        raise ToolError(f"This is not a valid URL: {clipped(url)!r}.") from None
    if parts.scheme not in _PORTS:
        raise ToolError(f"Only http:// and https:// URLs can be fetched, not {clipped(url)!r}.")
    if "@" in parts.netloc:
        raise ToolError("A URL with a user name or password is not fetched.")
    if not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*", host) or port == 0:
        raise ToolError(f"The URL has no valid host: {clipped(url)!r}.")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


def clipped(text: str, most: int = 200) -> str:
    """A text that a server or a model chose, as long as an error may show it."""
    return text if len(text) <= most else f"{text[:most]}..."


def endpoints(target: Target, timeout: float) -> list[Endpoint]:
    """The addresses of the target, all of them checked.

    Raises:
        ToolError: The name has no address, or one that is not public and not allowed.
        TimeoutError: The lookup took longer than `timeout` seconds.
    """
    found = _look_up(target, timeout)
    if f"{target.host}:{target.port}" not in _allowed():
        for endpoint in found:
            address = str(endpoint.address[0])
            if not is_public(address):
                shown = address if address == target.host else f"{target.host} ({address})"
                raise ToolError(f"{shown} is not on the public internet and not allowed in {ALLOW_VARIABLE}.")
    return found


def is_public(address: str) -> bool:
    """Whether a numeric IPv4 or IPv6 address is one of the public internet."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        embedded = ip.ipv4_mapped or (IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
        if embedded is None and ip not in _GLOBAL_UNICAST:
            return False
        ip = embedded or ip
    return not any(ip.version == network.version and ip in network for network in _NOT_PUBLIC)


def _allowed() -> set[str]:
    entries = os.environ.get(ALLOW_VARIABLE, "").lower().split(",")
    return {entry.strip().replace("[", "").replace("]", "") for entry in entries}


def _look_up(target: Target, timeout: float) -> list[Endpoint]:
    """`getaddrinfo` in a thread of its own, since nothing else can end a lookup that hangs."""
    look_up = partial(socket.getaddrinfo, target.host, target.port, type=socket.SOCK_STREAM)
    try:
        found = within(timeout, look_up)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
        raise ToolError(f"The host {clipped(target.host)} could not be found.") from error
    return [Endpoint(family, address) for family, _, _, _, address in found]
