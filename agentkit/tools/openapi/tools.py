"""Make tools of the operations of an OpenAPI document (3.2, 3.1, 3.0, or Swagger 2.0).

`OpenApiDocument` has the operations, with references resolved; those to other files are followed if these lie in the
folder of the document or below it.

A call is an HTTP request: each argument goes where the operation wants it, and the status tells what the answer means.
Sources: OpenAPI 3.2.0, "Style Values", "Encoding Object"; Swagger 2.0, `collectionFormat`; RFC 7578 for
`multipart/form-data`.
"""

import json
import posixpath
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlencode, urlsplit

from ...core.errors import DefinitionError, ToolError
from ...core.portable import find_free_name, parse_json
from ...core.values import frozen
from ...schemas.annotations import unknown_name_error
from ...schemas.models import RawSchema
from ...schemas.walk import JsonSchema
from ..definition import Definition
from ..http.addresses import parse_url
from ..http.addresses import settings as read_fetch_settings
from ..http.download import MAX_REDIRECTS, Deadline, Response, describe_status, find_codec, send_request
from ..json_tool import JsonTool, make_defined_tool
from ..settings import ToolSettings

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "query")
MAX_REFERENCES = 20
"""References that follow each other before one counts as a circle."""
_MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "definitions", "$defs"})
_DATA = frozenset({"default", "example", "examples", "enum", "const"})
"""Keywords of a schema whose values are no schemas."""
_DROPPED = frozenset({"$recursiveAnchor", "$recursiveRef", "$dynamicAnchor", "$dynamicRef", "$schema", "$id"})
"""Keywords that mean something only in the document itself; a recursive reference becomes any value."""


@frozen
class Operation:
    """One operation of a document; `parameters` are those of path and operation, resolved.

    `name` is a valid tool name, made of the operation's id, else of method and path.  `servers` are those of the
    operation, else those of its path, else those of the document.
    """

    name: str
    method: str
    path: str
    content: Mapping[str, Any]
    parameters: tuple[Mapping[str, Any], ...] = field(repr=False)
    servers: Sequence[Mapping[str, Any]] = field(repr=False)

    @property
    def label(self) -> str:
        """The method and the path: "GET /pets"."""
        return f"{self.method} {self.path}"


class OpenApiDocument:
    """An OpenAPI document; raises `DefinitionError` if it cannot be read, or is something else."""

    def __init__(self, source: "Mapping[str, Any] | str | Path") -> None:
        if isinstance(source, str) and re.match(r"https?://|\s*\{", source):
            raise DefinitionError(
                f"{source:.80}: expected an OpenAPI document as a dict, or the path of its file. For an address: "
                "ToolRegistry.from_openapi(httpx.get(address).json()); for a text: json.loads(text)."
            )
        self.name = "the OpenAPI document" if isinstance(source, Mapping) else str(source)
        self._folder = None if isinstance(source, Mapping) else Path(source).resolve().parent
        self._files: dict[str, Any] = {}
        self.root: Mapping[str, Any] = source if isinstance(source, Mapping) else _read_file(Path(source))
        if not isinstance(self.root, Mapping):
            got = type(self.root).__name__
            raise DefinitionError(f"{self.name}: not an OpenAPI document: expected an object, got {got}.")
        version = str(self.root.get("openapi", self.root.get("swagger", "")))
        self._paths = self.root.get("paths") or {}
        if not re.match(r"3\.[0-2]|2\.0", version) or not isinstance(self._paths, Mapping):
            raise DefinitionError(
                f"{self.name}: not an OpenAPI document: expected openapi 3.0 to 3.2, or swagger 2.0, got "
                f"{version or 'no version'!r}."
            )
        self.is_swagger = version.startswith("2")
        self._keeps_siblings = not version.startswith(("2", "3.0"))
        """Whether a schema with a reference has other keywords: "This object cannot be extended" (OpenAPI 3.0.3)."""
        self._names: dict[str, str] = {}

    def resolve(self, node: Any) -> Any:
        """Return the target of a reference; any other value unchanged."""
        for _ in range(MAX_REFERENCES):
            if not (isinstance(node, Mapping) and isinstance(reference := node.get("$ref"), str)):
                return node
            node = self._follow(reference)
        raise DefinitionError(f"{self.name}: references refer to each other in a circle.")

    def read_object(self, node: Any, what: str) -> Mapping[str, Any]:
        """Return an object, or the target of a reference to one; `{}` for null.  `what` names it in the error."""
        return self._check(self.resolve(node), Mapping, what) or {}

    def read_list(self, node: Any, what: str) -> Sequence[Any]:
        """Return a list, as `read_object` does."""
        return self._check(self.resolve(node), list | tuple, what) or []

    def _check(self, found: Any, kind: Any, what: str) -> Any:
        if found is None or isinstance(found, kind):
            return found
        wanted = "an object" if kind is Mapping else "a list"
        raise DefinitionError(f"{self.name}: {what} must be {wanted}, got {found!r:.60}. Mend it in the document.")

    def _follow(self, reference: str) -> Any:
        file, _, pointer = reference.partition("#")
        node: Any = self._open(file, reference) if file else self.root
        for step in unquote(pointer).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                node = node.get(step) if isinstance(node, Mapping) else None
        if node is None or not (file or pointer):
            raise DefinitionError(f"{self.name}: the reference {reference!r} leads nowhere. Mend it in the document.")
        return node

    def _open(self, file: str, reference: str) -> Any:
        """Return what another file has, its references relative to the folder of the document."""
        if file not in self._files:
            folder = None if "://" in file else self._folder
            if folder is None or not (path := (folder / unquote(file)).resolve()).is_relative_to(folder):
                raise DefinitionError(
                    f"{self.name}: the reference {reference!r} leads out of the document and its folder. "
                    "Bundle external references into the document."
                )
            self._files[file] = _move_references(_read_file(path), file)
        return self._files[file]

    def find_base_url(self, servers: Sequence[Mapping[str, Any]]) -> str:
        """Return the address of the first of an operation's servers; Swagger 2.0 has one for all.

        Raises:
            DefinitionError: The document names none.
        """
        if self.is_swagger and self.root.get("host"):
            schemes = self.root.get("schemes") or ["https"]
            scheme = "https" if "https" in schemes else schemes[0]
            return f"{scheme}://{self.root['host']}{self.root.get('basePath', '')}"
        server = self.read_object(next(iter(servers), {}), "a server")
        url = str(server.get("url", ""))
        for name, given in self.read_object(server.get("variables"), "the variables of a server").items():
            variable = self.read_object(given, f"the variable {name} of a server")
            url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
        if urlsplit(url).scheme not in ("http", "https"):
            raise DefinitionError(
                f"{self.name}: it names no server with an address of its own. Pass base_url='https://...'."
            )
        return url

    def list_operations(self, include: Iterable[str] | None = None) -> list[Operation]:
        """Return the operations, or those whose tool name, id, tag or `GET /path` is in `include`."""
        found = list(self._iter_operations())
        if include is None:
            return found
        labels = {operation.name: _list_labels(operation) for operation in found}
        known = {label for names in labels.values() for label in names}
        wanted = [include] if isinstance(include, str) else list(include)
        for label in wanted:
            if label not in known:
                raise unknown_name_error(self.name, "operation or tag", label, sorted(labels))
        return [operation for operation in found if labels[operation.name] & set(wanted)]

    def _iter_operations(self) -> Iterator[Operation]:
        taken: set[str] = set()
        for path, item in self._paths.items():
            if str(path).startswith("x-"):  # an extension
                continue
            item = self.read_object(item, path)
            methods = {method: item.get(method) for method in METHODS}
            for method, given in {**methods, **self.read_object(item.get("additionalOperations"), path)}.items():
                if given is not None:
                    label = f"{method.upper()} {path}"
                    content = self.read_object(given, label)
                    name = _make_name(str(content.get("operationId") or f"{method}_{path.strip('/')}"), taken)
                    taken.add(name)
                    given = content.get("servers") or item.get("servers") or self.root.get("servers")
                    servers = self.read_list(given, f"servers of {path}")
                    parameters = self._merge_parameters(item, content, label)
                    yield Operation(name, method.upper(), path, content, parameters, servers)

    def _merge_parameters(
        self, item: Mapping[str, Any], content: Mapping[str, Any], operation: str
    ) -> tuple[Mapping[str, Any], ...]:
        what = f"parameters of {operation}"
        given = (*self.read_list(item.get("parameters"), what), *self.read_list(content.get("parameters"), what))
        found = [self.read_object(entry, f"each of the {what}") for entry in given]
        return tuple({(str(entry.get("in")), str(entry.get("name"))): entry for entry in found}.values())

    def build_schema(self, node: Any, definitions: JsonSchema) -> Any:
        """Return a schema as JSON Schema (draft 2020-12) with the schemas that it refers to in `definitions`."""
        if isinstance(node, list):
            return [self.build_schema(entry, definitions) for entry in node]
        if not isinstance(node, Mapping):
            return _to_data(node)
        if isinstance(reference := node.get("$ref"), str):
            name = self._name_definition(reference)
            if name not in definitions:
                definitions[name] = {}  # a type may contain itself
                definitions[name] = self.build_schema(self._follow(reference), definitions)
            rest = {key: value for key, value in node.items() if key != "$ref"} if self._keeps_siblings else {}
            return {**self.build_schema(rest, definitions), "$ref": f"#/$defs/{name}"}
        built: JsonSchema = {}
        for key, value in node.items():
            if key in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
                schemas = self.resolve(value).items()
                built[key] = {str(name): self.build_schema(schema, definitions) for name, schema in schemas}
            elif key in _DATA:
                built[key] = _to_data(value)
            elif key not in _DROPPED:
                built[key] = self.build_schema(value, definitions)
        return _write_as_json_schema(built)

    def _name_definition(self, reference: str) -> str:
        """Return the last word of a reference, with a number where another reference has the same."""
        if reference not in self._names:
            word = re.sub(r"\W", "_", reference.rstrip("#").rpartition("/")[2])
            self._names[reference] = find_free_name(word, self._names.values())
        return self._names[reference]


def _to_data(value: Any) -> Any:
    """Return a value as JSON has it: YAML reads a date as an object."""
    if isinstance(value, Mapping):
        return {str(key): _to_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_data(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _write_as_json_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema of OpenAPI as JSON Schema has it, without what only answers have.

    OpenAPI 3.0 has `nullable` and one `example`; Swagger 2.0 the type `file`.
    """
    properties = schema.get("properties")
    if isinstance(properties, dict):
        answered = [name for name, one in properties.items() if isinstance(one, dict) and one.get("readOnly") is True]
        for name in answered:
            del properties[name]
        if answered and isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if name not in answered]
    if schema.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    if schema.get("nullable") is True:
        schema.pop("nullable")
        if isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema and None not in schema["enum"]:
                schema["enum"] = [*schema["enum"], None]
        elif schema:
            schema = {"anyOf": [schema, {"type": "null"}]}
    if "example" in schema and not isinstance(schema["example"], Mapping | list):
        schema["examples"] = [schema.pop("example")]
    return schema


def _read_file(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path}: the OpenAPI document cannot be read: {error}") from error
    try:
        return json.loads(text)
    except ValueError:
        return _read_yaml(path, text)


def _read_yaml(path: Path, text: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise DefinitionError(f"{path}: to read YAML, pip install pyyaml; or convert the document to JSON.") from None
    try:
        return yaml.load(text, Loader=_make_loader(yaml))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DefinitionError(f"{path}: neither JSON nor YAML: {str(error).splitlines()[0]}") from error


@cache
def _make_loader(yaml: Any) -> Any:
    """Return a loader in which `NO`, `on` and 2026-01-02 are texts, as in the "JSON schema" of YAML 1.2.

    Source: OpenAPI 3.2.0, "Format": "Tags MUST be limited to those allowed by YAML's JSON schema ruleset".
    """
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("_Loader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("merge", r"<<", "<"),
    ):
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    loader.add_constructor("tag:yaml.org,2002:int", lambda self, node: _to_integer(self.construct_scalar(node)))
    loader.add_constructor("tag:yaml.org,2002:float", lambda self, node: float(self.construct_scalar(node)))
    return loader


def _to_integer(text: str) -> int:
    return int(text, 0 if text[:2] in ("0o", "0x") else 10)


def _move_references(found: Any, file: str) -> Any:
    """Write the references in the content of a file, in place, relative to the folder of the document."""
    waiting = [found]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, dict | list):
            continue
        seen.add(id(node))
        if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str) and "://" not in reference:
            other, _, pointer = reference.partition("#")
            place = posixpath.normpath(posixpath.join(posixpath.dirname(file), other)) if other else file
            node["$ref"] = f"{place}#{pointer}"
        waiting += node.values() if isinstance(node, dict) else node
    return found


def _make_name(text: str, taken: set[str]) -> str:
    """Return a free tool name that every provider accepts."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")[:60] or "operation"
    name = name if name[0].isalpha() else f"call_{name}"[:60]
    return find_free_name(name, taken)


def _list_labels(operation: Operation) -> set[str]:
    tags = [str(tag) for tag in operation.content.get("tags") or ()]
    identity = str(operation.content.get("operationId", operation.name))
    return {operation.name, identity, operation.label, *tags}


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
    elif auth and _is_basic(scheme):
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


def _write_pairs(argument: Argument, value: Any) -> Iterator[tuple[str, str]]:
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


MAX_OPERATION_DESCRIPTION_CHARS = 2_000
MAX_EXAMPLE_CHARS = 400
_READING = ("GET", "HEAD", "OPTIONS", "QUERY")
_SKIPPED_HEADERS = frozenset({"accept", "authorization", "content-type", "content-length", "host", "cookie"})
"""Header parameters that OpenAPI ignores, and those that the request sets."""
_COLLECTION_STYLES = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}
"""The styles of OpenAPI 3 for the values of `collectionFormat` in Swagger 2.0, whose default is "csv"."""


def make_operation_tools(
    source: "Mapping[str, Any] | str | Path",
    *,
    base_url: str | None = None,
    auth: ApiAuth = None,
    include: Iterable[str] | None = None,
    **settings: Any,
) -> Iterator[JsonTool[..., Any]]:
    """Yield a tool for each operation; see `ToolRegistry.from_openapi`."""
    document = OpenApiDocument(source)
    credentials = make_credentials(auth, {} if auth is None else _find_security_scheme(document))
    for operation in document.list_operations(include):
        url = base_url or document.find_base_url(operation.servers)
        schema = OperationSchema(document, operation, url, credentials, is_trusted=bool(base_url))
        effect = "read" if operation.method in _READING else "write"
        own: ToolSettings = {"effect": effect, "trust": "untrusted", **settings}  # type: ignore[typeddict-item]
        definition = Definition(schema.call, schema, operation.name, _describe(document, operation))
        yield make_defined_tool(definition, own)


class OperationSchema:
    """An operation as a function: the schema of its arguments, and the request that a call sends.

    The arguments are its parameters and its body as one object, which is built when it is first used.  `credentials`
    returns headers and query parameters for authentication.  `is_trusted` is set if the developer named the address,
    which may then be inside the own network.
    """

    injected: Mapping[str, Any] = {}

    def __init__(
        self, document: OpenApiDocument, operation: Operation, url: str, credentials: Credentials, *, is_trusted: bool
    ) -> None:
        self._document = document
        self._operation = operation
        self._url = url
        self._credentials = credentials
        self._is_trusted = is_trusted
        self._media_type = JSON_TYPE
        self._has_body = False
        """Whether a body is sent even without a field."""

    @cached_property
    def _built(self) -> tuple[RawSchema, dict[str, Argument]]:
        """The schema, and where each argument goes in the request."""
        definitions: JsonSchema = {}
        places: dict[str, tuple[Any, bool, Argument]] = {}
        for entry in self._operation.parameters:
            if entry.get("in") in ("path", "query", "querystring", "header", "cookie"):
                self._add_parameter(places, entry, definitions)
        in_path = {argument.name for _, _, argument in places.values() if argument.place == "path"}
        for name in re.findall(r"\{([^{}]+)\}", self._operation.path):
            if name not in in_path:  # the document forgot it
                self._add_parameter(places, {"name": name, "in": "path", "schema": {"type": "string"}}, definitions)
        self._add_body(places, definitions)
        parameters: JsonSchema = {
            "type": "object",
            "properties": {name: schema for name, (schema, _, _) in places.items()},
            "required": [name for name, (_, is_required, _) in places.items() if is_required],
            "additionalProperties": False,
            **({"$defs": definitions} if definitions else {}),
        }
        arguments = {name: argument for name, (_, _, argument) in places.items()}
        return RawSchema(self._operation.name, parameters, self.call), arguments

    @property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the arguments."""
        return self._built[0].parameters

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """Validate `arguments` and return the prepared call; raises `ValueError`."""
        return self._built[0].bind(arguments, injected)

    def _add_parameter(self, places: dict[str, Any], entry: Mapping[str, Any], definitions: JsonSchema) -> None:
        place = str(entry["in"])
        name = str(entry["name"])
        if place == "header" and name.lower() in _SKIPPED_HEADERS:
            return
        what = f"content of the parameter {name}"
        media_type, content = next(iter(self._document.read_object(entry.get("content"), what).items()), ("", None))
        if content is not None:
            raw = self._document.read_object(content, what).get("schema", {})
        elif self._document.is_swagger and "schema" not in entry:
            keys = {"name", "in", "required", "description", "collectionFormat", "allowEmptyValue"}
            raw = {key: value for key, value in entry.items() if key not in keys}
        else:
            raw = entry.get("schema") or {}
        schema = self._document.build_schema(raw, definitions)
        text = "\n".join(filter(None, [_text(entry.get("description")), _show_example(entry)]))
        media_type = "" if place == "querystring" and FORM_TYPE in media_type else media_type
        style, explode = self._find_style(entry, place)
        argument = Argument(name, place, style, explode, media_type)
        own = name if name not in places else f"{name}_{place}"
        places[own] = (_add_text(schema, text), bool(entry.get("required")) or place == "path", argument)

    def _find_style(self, entry: Mapping[str, Any], place: str) -> tuple[str, bool]:
        """Return how a parameter writes arrays and objects, and whether each item stands alone."""
        if self._document.is_swagger:
            collection = str(entry.get("collectionFormat", "csv"))
            return _COLLECTION_STYLES.get(collection, "form"), collection == "multi"
        style = str(entry.get("style") or ("simple" if place in ("path", "header") else "form"))
        return style, bool(entry.get("explode", style == "form"))

    def _add_body(self, places: dict[str, Any], definitions: JsonSchema) -> None:
        found = self._find_swagger_body() if self._document.is_swagger else self._find_body()
        if found is None:
            return
        self._media_type, raw, self._has_body, text, encodings = found
        what = f"the body of {self._operation.label}"
        found_fields = self._document.resolve(raw)
        fields = found_fields if isinstance(found_fields, Mapping) else {}  # a schema may be true
        names = self._document.read_object(fields.get("properties"), f"properties of {what}")
        required = self._document.read_list(fields.get("required"), f"required of {what}")
        is_flat = names and not ({"allOf", "anyOf", "oneOf", "nullable"} & set(fields)) and not set(names) & set(places)
        is_closed = fields.get("additionalProperties") in (None, False)
        if is_flat and is_closed and (self._has_body or not required):
            built = self._document.build_schema({"properties": names, "required": [*required]}, definitions)
            given = {str(name): schema for name, schema in names.items()}
            for name, schema in built["properties"].items():
                encoding = self._document.read_object(encodings.get(name), f"encoding of {name} in {what}")
                argument = self._make_field(name, given[name], encoding)
                places[name] = (schema, name in built["required"], argument)
        else:
            own = "body" if "body" not in places else "request_body"
            schema = _add_text(self._document.build_schema(raw, definitions), text)
            places[own] = (schema, self._has_body, Argument(own, "body"))

    def _make_field(self, name: str, schema: Any, encoding: Mapping[str, Any]) -> Argument:
        """Return where a property of a body goes; its encoding says how it is written in a form."""
        if self._document.is_swagger:
            return Argument(name, "field", *self._find_style(schema, "field"), is_file=schema.get("type") == "file")
        media_type = str(encoding.get("contentType") or "").partition(",")[0].strip()
        style = str(encoding.get("style") or "form")
        kind = self._document.resolve(schema)
        kind = self._document.resolve(kind.get("items")) if isinstance(kind, Mapping) and "items" in kind else kind
        is_file = isinstance(kind, Mapping) and (kind.get("format") == "binary" or "contentMediaType" in kind)
        if self._media_type == FORM_TYPE and "json" not in media_type:
            media_type = ""  # the text of a value is the same for each other media type
        return Argument(name, "field", style, bool(encoding.get("explode", True)), media_type, is_file)

    def _find_swagger_body(self) -> "_Body | None":
        parameters = self._operation.parameters
        given = self._operation.content.get("consumes") or self._document.root.get("consumes")
        kinds = [*map(str, self._document.read_list(given, "consumes"))]
        for entry in parameters:
            if entry.get("in") == "body":
                media_type = next((kind for kind in kinds if "json" in kind), JSON_TYPE)
                is_required = bool(entry.get("required"))
                return media_type, entry.get("schema") or {}, is_required, _text(entry.get("description")), {}
        forms = [entry for entry in parameters if entry.get("in") == "formData"]
        if not forms:
            return None
        has_file = any(entry.get("type") == "file" for entry in forms)
        media_type = MULTIPART_TYPE if has_file or (MULTIPART_TYPE in kinds and FORM_TYPE not in kinds) else FORM_TYPE
        keys = {"name", "in", "required"}
        fields = {entry["name"]: {key: value for key, value in entry.items() if key not in keys} for entry in forms}
        needed = [entry["name"] for entry in forms if entry.get("required")]
        return media_type, {"type": "object", "properties": fields, "required": needed}, True, "", {}

    def _find_body(self) -> "_Body | None":
        read = self._document.read_object
        what = f"the body of {self._operation.label}"
        body = read(self._operation.content.get("requestBody"), what)
        contents = read(body.get("content"), f"content of {what}")
        if not contents:
            return None
        media_type, given = min(contents.items(), key=lambda item: _rank(item[0]))
        content = read(given, f"content of {what}")
        media_type = JSON_TYPE if media_type in ("*/*", "application/*") else media_type
        is_text = "json" not in media_type and _rank(media_type) == len(_BODY_TYPES)
        schema = {"type": "string"} if is_text else content.get("schema") or {}
        text = "\n".join(filter(None, [_text(body.get("description")), _show_example(content)]))
        encodings = read(content.get("encoding"), f"encoding of {what}")
        return media_type, schema, bool(body.get("required")), text, encodings

    def call(self, **given: Any) -> Any:
        """Send the request of the operation and return the content of the answer."""
        operation = self._operation
        headers, query = self._credentials()
        url, sent, body = self._build_request(given, query)
        target = origin = parse_url(url)
        limits = read_fetch_settings()
        if self._is_trusted:
            limits = replace(limits, hosts=limits.hosts | {f"{origin.host}:{origin.port}"})
        deadline = Deadline(limits)
        for _ in range(MAX_REDIRECTS + 1):
            answer = send_request(target, deadline, operation.method, {**sent, **headers}, body)
            if not (300 <= answer.status < 400 and answer.location):
                return _read(answer)
            target = target.join(answer.location)
            if operation.method not in ("GET", "HEAD") or target.origin != origin.origin:
                raise ToolError(f"{operation.label} is redirected to another address, which is not followed.")
        raise ToolError(f"{operation.label} leads through more than {MAX_REDIRECTS} redirects.")

    def _build_request(self, given: Mapping[str, Any], query: Mapping[str, str]) -> tuple[str, dict[str, str], bytes]:
        arguments = self._built[1]  # they decide on the body
        path = self._operation.path
        pairs = list(query.items())
        headers = {"Accept": "application/json, */*;q=0.5"}
        cookies = []
        fields: list[tuple[Argument, Any]] = []
        body: Any = None
        for name, value in given.items():
            argument = arguments[name]
            match argument.place:
                case "path":
                    path = path.replace(f"{{{argument.name}}}", _write_segment(argument, value))
                case "query" | "querystring":
                    pairs += _write_pairs(argument, value)
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
        if fields or body is not None or self._has_body:
            headers["Content-Type"], data = self._write_body(fields, body)
        url = self._url.rstrip("/") + "/" + path.lstrip("/")
        return f"{url}?{urlencode(pairs)}" if pairs else url, headers, data

    def _write_body(self, fields: Sequence[tuple[Argument, Any]], body: Any) -> tuple[str, bytes]:
        """Return the media type and the content of the body."""
        kind = self._media_type.partition(";")[0].strip().lower()
        if kind in (FORM_TYPE, MULTIPART_TYPE):
            if isinstance(body, Mapping):
                fields = [(Argument(str(name), "field"), value) for name, value in body.items()]
            if fields or body is None:
                if kind == MULTIPART_TYPE:
                    return _write_parts(fields)
                pairs = [pair for argument, value in fields for pair in _write_pairs(argument, value)]
                return self._media_type, urlencode(pairs).encode()
        if isinstance(body, str) and "json" not in kind:
            return self._media_type, body.encode()
        content = {argument.name: value for argument, value in fields} if body is None else body
        return self._media_type, json.dumps(content, ensure_ascii=False).encode()


_Body = tuple[str, Any, bool, str, Mapping[str, Any]]
"""Media type, schema, whether it is required, description, and encodings of the properties of a request's body."""
_BODY_TYPES = (JSON_TYPE, FORM_TYPE, MULTIPART_TYPE)


def _rank(media_type: str) -> int:
    """Return the place of a media type among those that are preferred for a body."""
    kind = media_type.partition(";")[0].strip().lower()
    return _BODY_TYPES.index(kind) if kind in _BODY_TYPES else len(_BODY_TYPES)


def _text(node: Any) -> str:
    return node if isinstance(node, str) else ""


def _add_text(schema: Any, text: str) -> Any:
    if not text or not isinstance(schema, dict):
        return schema
    return {**schema, "description": text}


def _show_example(node: Mapping[str, Any]) -> str:
    """Return the example of a parameter or a body as a line of text."""
    example = node.get("example")
    if example is None:
        given = node.get("examples")
        named: Any = next(iter(given.values()), None) if isinstance(given, dict) else None
        example = named.get("value") if isinstance(named, Mapping) else None
    if example is None:
        return ""
    text = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False, default=str)
    return f"Example: {text}" if len(text) <= MAX_EXAMPLE_CHARS else ""


def _describe(document: OpenApiDocument, operation: Operation) -> str:
    content = operation.content
    lines = [content.get("summary"), content.get("description")]
    what = f"the body of {operation.label}"
    body = document.read_object(None if document.is_swagger else content.get("requestBody"), what)
    types = document.read_object(body.get("content"), f"content of {what}")
    examples = (_show_example(document.read_object(types[kind], f"content of {what}")) for kind in types)
    lines += [next(examples, "").replace("Example:", "Example of the body:")]
    if content.get("deprecated"):
        lines.append("Deprecated.")
    text = "\n\n".join(dict.fromkeys(line.strip() for line in lines if isinstance(line, str) and line.strip()))
    return text[:MAX_OPERATION_DESCRIPTION_CHARS] or operation.label


def _find_security_scheme(document: OpenApiDocument) -> Mapping[str, Any]:
    """Return the first security scheme that takes a single token, else one with a password.

    Those that the document demands for all operations come first.
    """
    root = document.root
    place = root if document.is_swagger else document.read_object(root.get("components"), "components")
    key = "securityDefinitions" if document.is_swagger else "securitySchemes"
    schemes = document.read_object(place.get(key), key)
    entries = [
        document.read_object(entry, "each of security")
        for entry in document.read_list(root.get("security"), "security")
    ]
    demanded = [name for entry in entries for name in entry if name in schemes]
    found = [document.read_object(schemes[name], f"{key}.{name}") for name in dict.fromkeys([*demanded, *schemes])]
    usable = [
        scheme for scheme in found if scheme.get("type") in ("apiKey", "http", "oauth2", "openIdConnect", "basic")
    ]
    return min(usable, key=_is_basic, default={})


def _is_basic(scheme: Mapping[str, Any]) -> bool:
    kind = scheme.get("type")
    return kind == "basic" or (kind == "http" and str(scheme.get("scheme")).lower() == "basic")
