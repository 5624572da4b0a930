"""The HTTP request of an operation: where each argument goes, and what the answer means."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from ...core.errors import ToolError
from ..http.addresses import parse_url
from ..http.exchange import MAX_REDIRECTS, Deadline, Response, send_request
from ..http.fetch_settings import settings as read_fetch_settings

Auth: TypeAlias = "str | tuple[str, str] | Mapping[str, str] | Callable[[], Mapping[str, str]] | None"
"""A token, user name and password, headers, or a function that returns headers for each request."""

Credentials: TypeAlias = Callable[[], tuple[Mapping[str, str], Mapping[str, str]]]
"""Returns the headers and the query parameters for authentication."""

MAX_ERROR_CHARS = 1_000
"""Characters of an error's body that the model reads."""
_SAFE = "-._~"


@dataclass(frozen=True, slots=True)
class Argument:
    """Where an argument of a tool goes: "path", "query", "header", "cookie", "field" of the body, or the whole "body".

    `style` is how arrays and objects are written, as OpenAPI defines it; with `explode` each item of an array is a
    parameter of its own.
    """

    name: str
    place: str
    style: str = "form"
    explode: bool = True
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An operation as a function of its arguments, which are given by their names in the tool.

    `credentials` returns headers and query parameters for authentication. `is_trusted` is set if the developer named
    the address, which may then be inside the own network.
    """

    base_url: str
    method: str
    path: str
    arguments: Mapping[str, Argument]
    media_type: str
    credentials: Credentials
    is_trusted: bool

    def __call__(self, **given: Any) -> Any:
        headers, query = self.credentials()
        url, sent, body = self._build(given, query)
        target = origin = parse_url(url)
        limits = read_fetch_settings()
        if self.is_trusted:
            limits = replace(limits, hosts=limits.hosts | {f"{origin.host}:{origin.port}"})
        deadline = Deadline(limits)
        for _ in range(MAX_REDIRECTS + 1):
            answer = send_request(target, deadline, self.method, {**sent, **headers}, body)
            if not (300 <= answer.status < 400 and answer.location):
                return _read(answer)
            target = target.join(answer.location)
            same = (target.scheme, target.authority) == (origin.scheme, origin.authority)
            if self.method not in ("GET", "HEAD") or not same:
                raise ToolError(f"{self.method} {self.path} is redirected to another address, which is not followed.")
        raise ToolError(f"{self.method} {self.path} leads through more than {MAX_REDIRECTS} redirects.")

    def _build(self, given: Mapping[str, Any], query: Mapping[str, str]) -> tuple[str, dict[str, str], bytes]:
        path, pairs, headers, cookies = self.path, list(query.items()), {"Accept": "application/json, */*;q=0.5"}, []
        fields: dict[str, Any] = {}
        body: Any = None
        for name, value in given.items():
            argument = self.arguments[name]
            match argument.place:
                case "path":
                    path = path.replace(f"{{{argument.name}}}", _write_segment(argument, value))
                case "query":
                    pairs += _write_query(argument, value)
                case "header":
                    headers[argument.name] = _write_line(argument, value)
                case "cookie":
                    cookies.append(f"{quote(argument.name)}={quote(_write_line(argument, value))}")
                case "field":
                    fields[argument.name] = value
                case _:
                    body = value
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        url = self.base_url.rstrip("/") + "/" + path.lstrip("/")
        content = fields if fields else body
        data = b"" if content is None else self._write_body(content)
        if data or (content is not None):
            headers["Content-Type"] = self.media_type
        return f"{url}?{urlencode(pairs)}" if pairs else url, headers, data

    def _write_body(self, content: Any) -> bytes:
        if self.media_type == "application/x-www-form-urlencoded" and isinstance(content, Mapping):
            return urlencode([(key, _write(value)) for key, value in content.items()]).encode()
        if isinstance(content, str) and "json" not in self.media_type:
            return content.encode()
        return json.dumps(content, ensure_ascii=False).encode()


def make_credentials(auth: Auth, scheme: Mapping[str, Any]) -> Credentials:
    """Return a function that gives the headers and the query parameters of `auth`.

    A token is sent as `scheme`, the document's security scheme, says, else as a bearer token.
    """
    if callable(auth):
        return lambda: (auth(), {})
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    if isinstance(auth, Mapping):
        headers = auth
    elif isinstance(auth, tuple):
        headers = {"Authorization": f"Basic {b64encode(':'.join(auth).encode()).decode()}"}
    elif auth and scheme.get("type") == "apiKey" and scheme.get("in") == "query":
        query = {str(scheme["name"]): auth}
    elif auth and scheme.get("type") == "apiKey":
        name = str(scheme["name"])
        headers = {"Cookie": f"{name}={auth}"} if scheme.get("in") == "cookie" else {name: auth}
    elif auth:
        headers = {"Authorization": f"Bearer {auth}"}
    return lambda: (headers, query)


def _read(answer: Response) -> Any:
    """Return the body as data, text or bytes; raise `ToolError` for an error status."""
    is_text = answer.media_type.startswith("text/") or "json" in answer.media_type or "xml" in answer.media_type
    text = answer.body.decode(answer.charset or "utf-8", "replace") if is_text or answer.status >= 400 else ""
    if answer.status >= 400:
        names = [status.phrase for status in HTTPStatus if status == answer.status]
        raise ToolError(f"{answer.status} {' '.join(names)}: {text[:MAX_ERROR_CHARS]}".rstrip(": "))
    if not answer.body:
        return {"status": answer.status}
    if "json" in answer.media_type and not answer.is_cut:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text if is_text else answer.body


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_segment(argument: Argument, value: Any) -> str:
    """Return a value for the path; a value can neither add a segment nor leave the one that it stands in."""
    text = ",".join(map(_write, value)) if isinstance(value, list) and not argument.is_json else _write(value)
    if text in (".", "..", ""):
        raise ToolError(f"{argument.name}: {text!r} is not allowed in a path.")
    return quote(text, safe=_SAFE)


def _write_query(argument: Argument, value: Any) -> Iterator[tuple[str, str]]:
    if argument.is_json or not isinstance(value, list | dict):
        yield argument.name, _write(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{argument.name}[{key}]" if argument.style == "deepObject" else key, _write(item)
    elif argument.explode:
        yield from ((argument.name, _write(item)) for item in value)
    else:
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(argument.style, ",")
        yield argument.name, separator.join(map(_write, value))


def _write_line(argument: Argument, value: Any) -> str:
    text = ",".join(map(_write, value)) if isinstance(value, list) and not argument.is_json else _write(value)
    if not text.isprintable():
        raise ToolError(f"{argument.name}: a header cannot hold line breaks and control characters.")
    return text
