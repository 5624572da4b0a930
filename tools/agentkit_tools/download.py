"""A guarded GET request: public addresses only, redirects checked one by one, limited in time and size.

It uses `http.client` over its own socket, because no HTTP library offers these three properties together. The
connection goes to the checked address, while the certificate and the `Host` header use the name. One time limit covers
everything from the lookup to the last byte. A proxy from the environment is *not* used, because it would resolve the
name itself.
"""

import zlib
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import urljoin

from agentkit import ToolError

from .addresses import Target, parse_url, truncate
from .exchange import Deadline, describe_error, exchange
from .fetch_settings import FetchSettings

MAX_REDIRECTS = 5
_HEADERS = {"Accept": "text/html, application/xhtml+xml, text/plain, application/json, */*;q=0.5"}


@dataclass(frozen=True, slots=True)
class Download:
    """The content of a URL: the media type in lower case, the charset if one was named, the decoded body."""

    url: str
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """Whether the body was longer than the limit."""


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
        raise ToolError(f"{target.host} could not be read: {describe_error(error)}.") from error
    raise ToolError(f"{truncate(url)} leads through more than {MAX_REDIRECTS} redirects.")


def _get(target: Target, deadline: Deadline) -> Download | Target:
    """Make one GET request, and return the download or the target of a redirect."""
    answer = exchange(target, deadline, "GET", _HEADERS)
    if answer.status in (301, 302, 303, 307, 308) and answer.location:
        return _parse_location(target, answer.location)
    if not 200 <= answer.status < 300:
        raise ToolError(f"{truncate(target.url)} answered {_describe_status(answer.status)}.")
    return Download(target.url, answer.media_type, answer.charset, answer.body, answer.is_cut)


def _parse_location(target: Target, location: str) -> Target:
    """Return the target of a `Location` header, which is relative, and often raw UTF-8 contrary to RFC 9110."""
    try:
        return parse_url(urljoin(target.url, location.encode("latin-1").decode("utf-8", "replace")))
    except ValueError:
        raise ToolError(f"{truncate(target.url)} redirects to an invalid URL.") from None


def _describe_status(status: int) -> str:
    """Return a status with its name from RFC 9110, not with the server's reason phrase."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
