"""A guarded GET request: public addresses only, redirects followed by hand, bounded in time and size.

It is made with `http.client` over a socket of our own, because three things must hold that no HTTP library offers
together: the connection goes to the address that was checked, while the certificate and the `Host` header keep the
name; one time limit covers everything from the lookup to the last byte; and a proxy from the environment is *not* used,
since it would look the name up by itself.
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

from .guard import Target, clipped, endpoints, read_url

TIME_LIMIT = 20.0
"""Seconds for one download: lookups, redirects and body together."""
CONNECT_LIMIT = 5.0
"""Seconds for one of a host's several addresses."""
SIZE_LIMIT = 5_000_000
"""Bytes of a body, as it is sent and after decompression; the rest is not read."""
MAX_REDIRECTS = 5

_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class Download:
    """What a URL was answered with: the media type in lower case, the charset if one was named, the decoded body."""

    url: str
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """Whether the body was longer than `SIZE_LIMIT`."""


class Deadline:
    """The moment at which a download must be over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left.

        Raises:
            TimeoutError: There are none.
        """
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


class _Wire(io.RawIOBase):
    """What `HTTPResponse` needs of a socket: reading, with a deadline that holds however slowly the bytes drip."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        return self._connection.recv_into(buffer)


def download(url: str) -> Download:
    """Fetch `url`, following at most five redirects.

    Raises:
        ToolError: The URL or one it leads to is not allowed, cannot be reached, or is answered with an error; too many
            redirects; longer than `TIME_LIMIT` seconds.
    """
    deadline = Deadline(TIME_LIMIT)
    target = read_url(url)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _get(target, deadline)
            if isinstance(answer, Download):
                return answer
            target = answer
    except TimeoutError:
        raise ToolError(f"{target.host} took longer than {TIME_LIMIT:g} seconds.") from None
    except (OSError, HTTPException, zlib.error) as error:
        raise ToolError(f"{target.host} could not be read: {_reason(error)}.") from error
    raise ToolError(f"{clipped(url)} leads through more than {MAX_REDIRECTS} redirects.")


def _get(target: Target, deadline: Deadline) -> Download | Target:
    """One request: the download, or where it is redirected to."""
    with closing(_connect(target, deadline)) as connection:
        connection.settimeout(deadline.left())
        connection.sendall(_request(target))
        with closing(HTTPResponse(cast(socket.socket, _Wire(connection, deadline)), method="GET")) as response:
            response.begin()
            location = response.getheader("Location")
            if response.status in (301, 302, 303, 307, 308) and location:
                return _redirection(target, location)
            if not 200 <= response.status < 300:
                raise ToolError(f"{clipped(target.url)} answered {_words(response.status)}.")
            body, is_cut = _body(response)
            media_type, charset = response.headers.get_content_type(), response.headers.get_content_charset()
            named = "Content-Type" in response.headers
            return Download(target.url, media_type if named else "", charset, body, is_cut)


def _connect(target: Target, deadline: Deadline) -> socket.socket:
    """A connection to the first of the checked addresses that takes one."""
    failure: OSError = OSError("the host has no address")
    for endpoint in endpoints(target, deadline.left()):
        connection = socket.socket(endpoint.family, socket.SOCK_STREAM)
        connection.settimeout(min(CONNECT_LIMIT, deadline.left()))
        try:
            connection.connect(endpoint.address)
        except OSError as error:
            connection.close()
            failure = error
            continue
        return _encrypted(connection, target.host) if target.scheme == "https" else connection
    deadline.left()
    raise ConnectionError(_reason(failure)) from failure


def _encrypted(connection: socket.socket, host: str) -> socket.socket:
    """The same connection under TLS, its certificate checked against the system's authorities and certifi's."""
    context = ssl.create_default_context()
    with suppress(ImportError):  # comes with requests; some systems have no authorities that Python finds
        import certifi

        context.load_verify_locations(certifi.where())
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError:
        connection.close()
        raise


def _request(target: Target) -> bytes:
    lines = (
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: Mozilla/5.0 (compatible; agentkit)",
        "Accept: text/html, application/xhtml+xml, text/plain, application/json, */*;q=0.5",
        "Accept-Encoding: gzip",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _redirection(target: Target, location: str) -> Target:
    """The target of a `Location` header: relative to the one before, and often raw UTF-8 whatever RFC 9110 says."""
    try:
        return read_url(urljoin(target.url, location.encode("latin-1").decode("utf-8", "replace")))
    except ValueError:
        raise ToolError(f"{clipped(target.url)} redirects to an invalid URL.") from None


def _body(response: HTTPResponse) -> tuple[bytes, bool]:
    """The decompressed body, read until it is over or longer than `SIZE_LIMIT`, and whether that cut it."""
    encoding = response.getheader("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise ToolError(f"The page is compressed in a way that was not asked for: {clipped(encoding, 20)}.")
    gzip = None if encoding == "identity" else zlib.decompressobj(wbits=31)
    body, received = bytearray(), 0
    while max(len(body), received) <= SIZE_LIMIT and (piece := response.read(_PIECE)):
        received += len(piece)
        body += gzip.decompress(piece, SIZE_LIMIT + 1) if gzip else piece
        if gzip and gzip.eof:  # whatever follows would only be collected
            break
    return bytes(body[:SIZE_LIMIT]), max(len(body), received) > SIZE_LIMIT


def _words(status: int) -> str:
    """A status with the name that it has in RFC 9110, not with what the server calls it."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _reason(error: Exception) -> str:
    """What went wrong, in words for a reader: no class, no address of an object, no text that the server chose."""
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
