"""A guarded GET request: public addresses only, redirects checked one by one, limited in time and size.

A proxy from the environment is *not* used, because it would resolve the name itself.
"""

from dataclasses import dataclass
from http import HTTPStatus

from ...core.errors import ToolError
from .addresses import Target, parse_url, truncate
from .exchange import MAX_REDIRECTS, Deadline, send_request
from .fetch_settings import FetchSettings

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
    deadline, target = Deadline(limits or FetchSettings()), parse_url(url)
    for _ in range(MAX_REDIRECTS + 1):
        answer = _get(target, deadline)
        if isinstance(answer, Download):
            return answer
        target = answer
    raise ToolError(f"{truncate(url)} leads through more than {MAX_REDIRECTS} redirects.")


def _get(target: Target, deadline: Deadline) -> Download | Target:
    """Make one GET request, and return the download or the target of a redirect."""
    answer = send_request(target, deadline, "GET", _HEADERS)
    if answer.status in (301, 302, 303, 307, 308) and answer.location:
        return target.join(answer.location)
    if not 200 <= answer.status < 300:
        raise ToolError(f"{truncate(target.url)} answered {_describe_status(answer.status)}.")
    return Download(target.url, answer.media_type, answer.charset, answer.body, answer.is_cut)


def _describe_status(status: int) -> str:
    """Return a status with its name from RFC 9110, not with the server's reason phrase."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
