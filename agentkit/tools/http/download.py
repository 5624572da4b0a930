"""A guarded GET request: public addresses only, redirects checked one by one, limited in time and size.

Each request has a socket of its own.  The connection goes to the checked address, while the certificate and the `Host`
header use the name.  One time limit covers everything from the lookup to the last byte.  A proxy from the environment
is *not* used, because it would resolve the name itself.
"""

import codecs
import io
import re
import socket
import ssl
import time
import zlib
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, cast

from ...core.errors import ToolError
from ...core.portable import truncate
from ...core.values import frozen
from .addresses import FetchSettings, Target, parse_url, resolve_target

MAX_CONNECT_SECONDS = 5.0
"""Time for one of a host's several addresses."""
MAX_REDIRECTS = 5
_CHARSETS = re.compile(
    r"utf_?(7|8|8_sig|16|16_[lb]e|32|32_[lb]e)|ascii|latin_1|iso8859_\d+|cp\d+|koi8_\w|mac_\w+|hz|kz1048|ptcp154|tis_620|"
    r"(gb|big5|euc_|iso2022_|shift_?jis|johab)\w*"
)
"""Python's names of the codecs for charsets. It has other codecs, some of which take hours for a long text."""


def find_codec(charset: str | None) -> str:
    """Return the name of Python's codec for the charset of a text from outside.

    Args:
        charset: The charset that the server or the text names, None if neither does.

    Returns:
        The name of the codec; "utf-8" for an unknown charset, and for a codec that decodes something else.
    """
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, UnicodeError, ValueError):
        return "utf-8"
    return name if _CHARSETS.fullmatch(name.replace("-", "_")) else "utf-8"


@frozen
class Response:
    """The answer to one request.

    Attributes:
        status: The status code.
        media_type: In lower case; "" without one.
        charset: The charset that the answer names.
        body: The decoded body, up to the limit; empty for a redirect.
        is_cut: Whether the body was longer.
        location: The target of a redirect; "" without one.
    """

    status: int
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    location: str


class Deadline:
    """The time limit of a download, and the shorter one for a single answer of the server."""

    def __init__(self, limits: FetchSettings) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.seconds

    @property
    def is_over(self) -> bool:
        """Whether the download has used its time."""
        return time.monotonic() >= self._end

    def wait_seconds(self, max_seconds: float | None = None) -> float:
        """Return how long the next operation may wait.

        Args:
            max_seconds: The limit of the operation itself; `idle_seconds` of the settings if None.

        Raises:
            TimeoutError: The download has used its time.
        """
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return min(seconds, self.limits.idle_seconds, max_seconds or seconds)


class _TimedSocket(io.RawIOBase):
    """The part of a socket that `HTTPResponse` needs, with a deadline for each read."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.wait_seconds())
        return self._connection.recv_into(buffer)


def send_request(
    target: Target, deadline: Deadline, method: str, headers: Mapping[str, str], body: bytes = b""
) -> Response:
    """Send one request, and return the answer, also one with an error or a redirect.

    Args:
        target: The URL, see `parse_url`.
        deadline: The time that is left; it has the other limits too.
        method: In upper case.
        headers: Added to `Host`, `User-Agent`, `Accept-Encoding`, `Connection` and `Content-Length`.
        body: The body; no body if empty, except for the methods that require one.

    Raises:
        ToolError: The address is not allowed or cannot be reached, or the answer is too slow.
    """
    try:
        return _exchange(target, deadline, method, headers, body)
    except TimeoutError:
        if deadline.is_over:
            raise ToolError(f"{target.host} took longer than {deadline.limits.seconds:g} seconds.") from None
        raise ToolError(f"{target.host} sent nothing for {deadline.limits.idle_seconds:g} seconds.") from None
    except (OSError, HTTPException, zlib.error) as error:
        raise ToolError(f"{target.host} could not be read: {_describe_error(error)}.") from error


def _exchange(target: Target, deadline: Deadline, method: str, headers: Mapping[str, str], body: bytes) -> Response:
    with closing(_connect(target, deadline)) as connection:
        connection.settimeout(deadline.wait_seconds())
        connection.sendall(_build_request(target, method, headers, body))
        with closing(HTTPResponse(cast(socket.socket, _TimedSocket(connection, deadline)), method=method)) as response:
            response.begin()
            location = response.getheader("Location") or ""
            is_redirect = 300 <= response.status < 400
            content, is_cut = (b"", False) if is_redirect else _read_body(response, deadline.limits)
            media_type = response.headers.get_content_type()
            charset = response.headers.get_content_charset()
            media_type = media_type if "Content-Type" in response.headers else ""
            return Response(response.status, media_type, charset, content, is_cut, location)


def _connect(target: Target, deadline: Deadline) -> socket.socket:
    """Connect to the first checked address that accepts."""
    failure: OSError = OSError("the host has no address")
    for found in resolve_target(target, deadline.wait_seconds(), deadline.limits.hosts):
        connection = socket.socket(found.family, socket.SOCK_STREAM)
        connection.settimeout(deadline.wait_seconds(MAX_CONNECT_SECONDS))
        try:
            connection.connect(found.address)
        except OSError as error:
            connection.close()
            failure = error
            continue
        return _encrypt(connection, target.host, deadline) if target.scheme == "https" else connection
    deadline.wait_seconds()
    raise ConnectionError(_describe_error(failure)) from failure


def _encrypt(connection: socket.socket, host: str, deadline: Deadline) -> socket.socket:
    """Start TLS, and check the certificate against the authorities of the system and of certifi."""
    context = ssl.create_default_context()
    with suppress(ImportError):  # a dependency of requests; Python finds no authorities on some systems
        import certifi

        context.load_verify_locations(certifi.where())
    try:
        connection.settimeout(deadline.wait_seconds())
        return context.wrap_socket(connection, server_hostname=host)
    except OSError as error:
        connection.close()
        if isinstance(error, TimeoutError) and not deadline.is_over:
            raise ConnectionError("the TLS handshake took too long") from None
        raise


def _build_request(target: Target, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"{method} {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: Mozilla/5.0 (compatible; agentkit)",
        *(f"{name}: {value}" for name, value in headers.items()),
        "Accept-Encoding: gzip",
        "Connection: close",
    ]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    for line in lines:
        if not line.isprintable():
            raise ToolError("A header contains a control character.")
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace") + body


def _read_body(response: HTTPResponse, limits: FetchSettings) -> tuple[bytes, bool]:
    """Return the decompressed body up to `max_bytes`, and whether it was longer."""
    max_bytes = limits.max_bytes
    encoding = response.getheader("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise ToolError(f"The page is compressed in a way that was not requested: {truncate(encoding, 20)}.")
    gzip = None if encoding == "identity" else zlib.decompressobj(wbits=31)
    body = bytearray()
    received = 0
    while max(len(body), received) <= max_bytes and (chunk := response.read(limits.chunk_bytes)):
        received += len(chunk)
        body += gzip.decompress(chunk, max_bytes + 1) if gzip else chunk
        if gzip and gzip.eof:  # later bytes are not part of the body
            break
    else:
        if response.length and max(len(body), received) <= max_bytes:  # read() with a size does not check it
            raise IncompleteRead(b"", response.length)
    return bytes(body[:max_bytes]), max(len(body), received) > max_bytes


def _describe_error(error: Exception) -> str:
    """Return the reason of a failure without class names, object addresses or text that the server chose."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or 'unknown reason'}"
        case HTTPException():
            return "the answer is not complete, valid HTTP"
        case zlib.error():
            return "the compressed body is damaged"
        case OSError(strerror=str() as words):
            return words
    return str(error) or type(error).__name__


_HEADERS = {"Accept": "text/html, application/xhtml+xml, text/plain, application/json, */*;q=0.5"}


@frozen
class Download:
    """The content of a URL: the media type in lower case, the charset if one was named, the decoded body."""

    url: str
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """Whether the body was longer than the limit."""


def download(
    url: str,
    limits: FetchSettings | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    origins: Collection[str] | None = None,
) -> Download:
    """Fetch a URL, following at most five redirects.

    Args:
        url: An http or https URL.
        limits: Time, size and allowed hosts; the defaults if None.
        headers: Sent with each request, such as a key.  Give `origins` with them, so that no other host receives them.
        origins: The only places that are asked, redirects included, such as "https://api.example.com"; None for all.

    Raises:
        ToolError: The URL, or one that it redirects to, is not allowed, cannot be reached, or is answered with an
            error. Also: too many redirects, too slow, or no byte for `idle_seconds`.
    """
    deadline = Deadline(limits or FetchSettings())
    target = parse_url(url)
    declared = None if origins is None else {parse_url(origin).origin for origin in origins}
    for _ in range(MAX_REDIRECTS + 1):
        if declared is not None and target.origin not in declared:
            raise ToolError(f"{truncate(target.origin)} may not be asked. Allowed: {', '.join(sorted(declared))}.")
        answer = send_request(target, deadline, "GET", {**_HEADERS, **(headers or {})})
        if answer.status in (301, 302, 303, 307, 308) and answer.location:
            target = target.join(answer.location)
        elif 200 <= answer.status < 300:
            return Download(target.url, answer.media_type, answer.charset, answer.body, answer.is_cut)
        else:
            raise ToolError(f"{truncate(target.url)} answered {describe_status(answer.status)}.")
    raise ToolError(f"{truncate(url)} leads through more than {MAX_REDIRECTS} redirects.")


def describe_status(status: int) -> str:
    """Return a status with its name from RFC 9110, not with the server's reason phrase."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
