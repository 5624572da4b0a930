"""The HTTP request of an operation: each argument goes where the operation wants it, and the status tells the outcome.

Sources: OpenAPI 3.2.0, "Style Values", "Encoding Object"; Swagger 2.0, `collectionFormat`; RFC 7578 for
`multipart/form-data`.
"""

import json
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from ...core.errors import DefinitionError, ToolError
from ...core.portable import parse_json
from ...core.values import frozen
from ..http.addresses import parse_url
from ..http.addresses import settings as read_fetch_settings
from ..http.download import MAX_REDIRECTS, Deadline, Response, describe_status, find_codec, send_request

ApiAuth: TypeAlias = "str | tuple[str, str] | Mapping[str, str] | Callable[[], Mapping[str, str]] | None"
"""A token, user name and password, headers, or a function that returns headers for each request."""

Credentials: TypeAlias = Callable[[], tuple[Mapping[str, str], Mapping[str, str]]]
"""Returns the headers and the query parameters for authentication."""

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
MULTIPART_TYPE = "multipart/form-data"
MAX_ERROR_BODY_CHARS = 1_000
"""Characters of an error's body that the model reads."""
_SAFE = "-._~"
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}


@frozen
class Argument:
    """Where an argument of a tool goes, and how it is written there.

    Attributes:
        name: Its name in the request.
        place: "path", "query", "querystring" for all of the query, "header", "cookie", "field" of the body, or the
            whole "body".
        style: How arrays and objects are written, as OpenAPI defines it.
        explode: Whether each item is a parameter of its own.
        media_type: That of the value, which is then one text: JSON for a parameter with `content`; of a field of
            `multipart/form-data`, that of its part.
        is_file: Whether the value is the content of a file in `multipart/form-data`.
    """

    name: str
    place: str
    style: str = "form"
    explode: bool = True
    media_type: str = ""
    is_file: bool = False


@frozen
class Endpoint:
    """An operation as a function of its arguments, which are given by their names in the tool.

    `credentials` returns headers and query parameters for authentication.  `has_body` is set if a body is sent even
    without a field.  `is_trusted` is set if the developer named the address, which may then be inside the own network.
    """

    base_url: str
    method: str
    path: str
    arguments: Mapping[str, Argument]
    media_type: str
    has_body: bool
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
        path = self.path
        pairs = list(query.items())
        headers = {"Accept": "application/json, */*;q=0.5"}
        cookies = []
        fields: list[tuple[Argument, Any]] = []
        body: Any = None
        for name, value in given.items():
            argument = self.arguments[name]
            match argument.place:
                case "path":
                    path = path.replace(f"{{{argument.name}}}", _write_segment(argument, value))
                case "query" | "querystring":
                    pairs += write_pairs(argument, value)
                case "header" if value is not None:
                    headers[argument.name] = _write_line(argument, value)
                case "cookie" if value is not None:
                    cookies.append(f"{quote(argument.name)}={quote(_write_line(argument, value))}")
                case "field":
                    fields.append((argument, value))
                case "body":
                    body = value
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        data = b""
        if fields or body is not None or self.has_body:
            headers["Content-Type"], data = self._write_body(fields, body)
        url = self.base_url.rstrip("/") + "/" + path.lstrip("/")
        return f"{url}?{urlencode(pairs)}" if pairs else url, headers, data

    def _write_body(self, fields: Sequence[tuple[Argument, Any]], body: Any) -> tuple[str, bytes]:
        """Return the media type and the content of the body."""
        kind = self.media_type.partition(";")[0].strip().lower()
        if kind in (FORM_TYPE, MULTIPART_TYPE):
            if isinstance(body, Mapping):
                fields = [(Argument(str(name), "field"), value) for name, value in body.items()]
            if fields or body is None:
                if kind == MULTIPART_TYPE:
                    return _write_parts(fields)
                pairs = [pair for argument, value in fields for pair in write_pairs(argument, value)]
                return self.media_type, urlencode(pairs).encode()
        if isinstance(body, str) and "json" not in kind:
            return self.media_type, body.encode()
        content = {argument.name: value for argument, value in fields} if body is None else body
        return self.media_type, json.dumps(content, ensure_ascii=False).encode()


def make_credentials(auth: ApiAuth, scheme: Mapping[str, Any]) -> Credentials:
    """Return a function that gives the headers and the query parameters of `auth`.

    A token is sent as `scheme`, the document's security scheme, says, else as a bearer token.

    Raises:
        DefinitionError: `auth` is a token, and the scheme takes a user name and a password.
    """
    if callable(auth):
        return lambda: (auth(), {})
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    kind = scheme.get("type")
    if isinstance(auth, Mapping):
        headers = auth
    elif isinstance(auth, tuple):
        headers = {"Authorization": f"Basic {b64encode(':'.join(auth).encode()).decode()}"}
    elif auth and (kind == "basic" or (kind == "http" and str(scheme.get("scheme")).lower() == "basic")):
        raise DefinitionError("from_openapi: the API takes a user name and a password. Give auth=(user, password).")
    elif auth and kind == "apiKey" and scheme.get("in") == "query":
        query = {str(scheme["name"]): auth}
    elif auth and kind == "apiKey":
        name = str(scheme["name"])
        headers = {"Cookie": f"{name}={auth}"} if scheme.get("in") == "cookie" else {name: auth}
    elif auth:
        headers = {"Authorization": f"Bearer {auth}"}
    return lambda: (headers, query)


def _read(answer: Response) -> Any:
    """Return the body as data, text or bytes; raise `ToolError` for an error status."""
    is_text = answer.media_type.startswith("text/") or "json" in answer.media_type or "xml" in answer.media_type
    text = answer.body.decode(find_codec(answer.charset), "replace") if is_text or answer.status >= 400 else ""
    if answer.status >= 400:
        raise ToolError(f"{describe_status(answer.status)}: {text[:MAX_ERROR_BODY_CHARS]}".rstrip(": "))
    if not answer.body:
        return {"status": answer.status}
    if "json" in answer.media_type and not answer.is_cut:
        return parse_json(text)
    return text if is_text else answer.body


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_pairs(argument: Argument, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and values of one argument in a query or in a form; none for null."""
    if value is None:
        return
    if argument.media_type or not isinstance(value, list | dict):
        yield argument.name, _write(value)
    elif argument.style == "deepObject":
        yield from _write_deep(argument.name, value)
    elif argument.explode:
        items = value.items() if isinstance(value, dict) else ((argument.name, item) for item in value)
        yield from ((key, _write(item)) for key, item in items)
    else:
        yield argument.name, _SEPARATORS.get(argument.style, ",").join(_list_pieces(value, explode=False))


def _write_deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _write_deep(f"{name}[{key}]", item)
    elif value is not None:
        yield name, _write(value)


def _list_pieces(value: Any, *, explode: bool) -> list[str]:
    """Return the texts of a value: its items, and of an object `key=value` or both apart."""
    if isinstance(value, dict):
        if explode:
            return [f"{key}={_write(item)}" for key, item in value.items()]
        return [text for key, item in value.items() for text in (str(key), _write(item))]
    return [*map(_write, value)] if isinstance(value, list) else [_write(value)]


def _write_segment(argument: Argument, value: Any) -> str:
    """Return a value for the path; a value can neither add a segment nor leave the one that it stands in."""
    pieces = [_write(value)] if argument.media_type else _list_pieces(value, explode=argument.explode)
    if ",".join(pieces) in (".", "..", ""):
        raise ToolError(f"{argument.name}: {','.join(pieces)!r} is not allowed in a path.")
    texts = [quote(piece, safe=f"{_SAFE}=" if isinstance(value, dict) else _SAFE) for piece in pieces]
    match argument.style:
        case "label":
            return "." + ("." if argument.explode else ",").join(texts)
        case "matrix" if argument.explode and isinstance(value, dict):
            return "".join(f";{text}" for text in texts)
        case "matrix":
            return f";{argument.name}=" + (f";{argument.name}=" if argument.explode else ",").join(texts)
    return _SEPARATORS.get(argument.style, ",").join(texts)


def _write_line(argument: Argument, value: Any) -> str:
    pieces = [_write(value)] if argument.media_type else _list_pieces(value, explode=argument.explode)
    text = _SEPARATORS.get(argument.style, ",").join(pieces)
    if not text.isprintable():
        raise ToolError(f"{argument.name}: a header cannot hold line breaks and control characters.")
    if argument.place == "header" and not text.isascii():
        raise ToolError(f"{argument.name}: a header holds ASCII characters only, got {text[:80]!r}.")
    return text


def _write_parts(fields: Sequence[tuple[Argument, Any]]) -> tuple[str, bytes]:
    """Return the media type and the content of `multipart/form-data`; each item of an array is a part."""
    boundary = secrets.token_hex(16)
    content = bytearray()
    for argument, value in fields:
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            name = _escape(argument.name)
            file = f'; filename="{name}"' if argument.is_file else ""
            kind = argument.media_type or (JSON_TYPE if isinstance(item, dict | list) else "")
            kind = kind or ("application/octet-stream" if argument.is_file else "")
            content += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n'.encode()
            content += (f"Content-Type: {kind}\r\n\r\n" if kind else "\r\n").encode()
            content += _write(item).encode() + b"\r\n"
    content += f"--{boundary}--\r\n".encode()
    return f"{MULTIPART_TYPE}; boundary={boundary}", bytes(content)


def _escape(name: str) -> str:
    """Return a name for a header of a part, escaped as browsers do it (HTML, "Multipart form data")."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
