"""A guarded GET request: public addresses only, redirects checked one by one, limited in time and size.

It uses `http.client` over its own socket, because no HTTP library offers these three properties together. The
connection goes to the checked address, while the certificate and the `Host` header use the name. One time limit covers
everything from the lookup to the last byte. A proxy from the environment is *not* used, because it would resolve the
name itself.
"""

import io
import socket
import ssl
import time
import zlib
from contextlib import closing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, cast
from urllib.parse import urljoin

from agentkit import ToolError

from .addresses import Target, find_endpoints, parse_url, truncate
from .fetch_settings import FetchSettings

MAX_CONNECT_SECONDS = 5.0
"""Time for one of a host's several addresses."""
MAX_REDIRECTS = 5
CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Download:
    """The content of a URL: the media type in lower case, the charset if one was named, the decoded body."""

    url: str
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """Whether the body was longer than the limit."""


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


def download(url: str, limits: FetchSettings | None = None) -> Download:
    """Fetch a URL, following at most five redirects.

    Args:
        url: An http or https URL.
        limits: Time, size and allowed hosts; the defaults if None.

    Raises:
        ToolError: The URL, or one that it redirects to, is not allowed, cannot be reached, or is answered with an
            error. Also: too many redirects, too slow, or no byte for `idle_seconds`.
    """
    limits = limits or FetchSettings()
    deadline, target = Deadline(limits), parse_url(url)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _get(target, deadline)
            if isinstance(answer, Download):
                return answer
            target = answer
    except TimeoutError:
        if deadline.is_over:
            raise ToolError(f"{target.host} took longer than {limits.seconds:g} seconds.") from None
        raise ToolError(f"{target.host} sent nothing for {limits.idle_seconds:g} seconds.") from None
    except (OSError, HTTPException, zlib.error) as error:
        raise ToolError(f"{target.host} could not be read: {_describe_error(error)}.") from error
    raise ToolError(f"{truncate(url)} leads through more than {MAX_REDIRECTS} redirects.")


def _get(target: Target, deadline: Deadline) -> Download | Target:
    """Make one request, and return the download or the target of a redirect."""
    with closing(_connect(target, deadline)) as connection:
        connection.settimeout(deadline.wait_seconds())
        connection.sendall(_build_request(target))
        with closing(HTTPResponse(cast(socket.socket, _TimedSocket(connection, deadline)), method="GET")) as response:
            response.begin()
            location = response.getheader("Location")
            if response.status in (301, 302, 303, 307, 308) and location:
                return _parse_location(target, location)
            if not 200 <= response.status < 300:
                raise ToolError(f"{truncate(target.url)} answered {_describe_status(response.status)}.")
            body, is_cut = _read_body(response, deadline.limits.max_bytes)
            media_type, charset = response.headers.get_content_type(), response.headers.get_content_charset()
            has_type = "Content-Type" in response.headers
            return Download(target.url, media_type if has_type else "", charset, body, is_cut)


def _connect(target: Target, deadline: Deadline) -> socket.socket:
    """Connect to the first checked address that accepts."""
    failure: OSError = OSError("the host has no address")
    for endpoint in find_endpoints(target, deadline.wait_seconds(), deadline.limits.hosts):
        connection = socket.socket(endpoint.family, socket.SOCK_STREAM)
        connection.settimeout(deadline.wait_seconds(MAX_CONNECT_SECONDS))
        try:
            connection.connect(endpoint.address)
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


def _build_request(target: Target) -> bytes:
    lines = (
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: Mozilla/5.0 (compatible; agentkit)",
        "Accept: text/html, application/xhtml+xml, text/plain, application/json, */*;q=0.5",
        "Accept-Encoding: gzip",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _parse_location(target: Target, location: str) -> Target:
    """Return the target of a `Location` header, which is relative, and often raw UTF-8 contrary to RFC 9110."""
    try:
        return parse_url(urljoin(target.url, location.encode("latin-1").decode("utf-8", "replace")))
    except ValueError:
        raise ToolError(f"{truncate(target.url)} redirects to an invalid URL.") from None


def _read_body(response: HTTPResponse, max_bytes: int) -> tuple[bytes, bool]:
    """Return the decompressed body up to `max_bytes`, and whether it was longer."""
    encoding = response.getheader("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise ToolError(f"The page is compressed in a way that was not requested: {truncate(encoding, 20)}.")
    gzip = None if encoding == "identity" else zlib.decompressobj(wbits=31)
    body, received = bytearray(), 0
    while max(len(body), received) <= max_bytes and (chunk := response.read(CHUNK_BYTES)):
        received += len(chunk)
        body += gzip.decompress(chunk, max_bytes + 1) if gzip else chunk
        if gzip and gzip.eof:  # later bytes are not part of the body
            break
    return bytes(body[:max_bytes]), max(len(body), received) > max_bytes


def _describe_status(status: int) -> str:
    """Return a status with its name from RFC 9110, not with the server's reason phrase."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


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
