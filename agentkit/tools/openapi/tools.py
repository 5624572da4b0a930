"""Make tools of the operations of an OpenAPI document (3.1, 3.0, or Swagger 2.0).

`OpenApiDocument` has the operations, with references resolved.

A call is an HTTP request: each argument goes where the operation wants it, and the status tells what the answer means.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from ...core.errors import DefinitionError, ToolError
from ...core.portable import find_free_name, parse_json
from ...core.values import frozen
from ...schemas import JsonSchema, unknown_name_error
from ...schemas.models import RawSchema
from ..definition import Definition
from ..http.addresses import parse_url
from ..http.addresses import settings as read_fetch_settings
from ..http.download import MAX_REDIRECTS, Deadline, Response, find_codec, send_request
from ..json_tool import JsonTool, make_defined_tool
from ..settings import ToolSettings

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
MAX_REFERENCES = 20
"""References that follow each other before one counts as a circle."""


@frozen
class Operation:
    """One operation of a document; `parameters` are those of path and operation, resolved.

    `name` is a valid tool name, made of the operation's id, else of method and path.
    """

    name: str
    method: str
    path: str
    content: Mapping[str, Any]
    parameters: tuple[Mapping[str, Any], ...] = field(repr=False)


class OpenApiDocument:
    """An OpenAPI document; raises `DefinitionError` if it cannot be read, or is something else."""

    def __init__(self, source: "Mapping[str, Any] | str | Path") -> None:
        self.name = "the OpenAPI document" if isinstance(source, Mapping) else str(source)
        self.root: Mapping[str, Any] = source if isinstance(source, Mapping) else _read_file(Path(source))
        version = str(self.root.get("openapi", self.root.get("swagger", "")))
        if not re.match(r"3\.[01]|2\.0", version) or not isinstance(self.root.get("paths", {}), Mapping):
            raise DefinitionError(
                f"{self.name}: not an OpenAPI document: expected openapi 3.0 or 3.1, or swagger 2.0, got "
                f"{version or 'no version'!r}."
            )
        self.is_swagger = version.startswith("2")
        self._names: dict[str, str] = {}

    def resolve(self, node: Any) -> Any:
        """Return the target of a local reference; any other value unchanged."""
        for _ in range(MAX_REFERENCES):
            if not (isinstance(node, Mapping) and isinstance(reference := node.get("$ref"), str)):
                return node
            node = self._follow(reference)
        raise DefinitionError(f"{self.name}: references refer to each other in a circle.")

    def _follow(self, reference: str) -> Any:
        node: Any = self.root
        for step in reference.split("/")[1:] if reference.startswith("#/") else ("",):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
        if node is None:
            raise DefinitionError(
                f"{self.name}: the reference {reference!r} leads nowhere. Bundle external references into the document."
            )
        return node

    def find_base_url(self) -> str:
        """Return the address of the API's first server; raises `DefinitionError` if the document names none."""
        if self.is_swagger and self.root.get("host"):
            schemes = self.root.get("schemes") or ["https"]
            scheme = "https" if "https" in schemes else schemes[0]
            return f"{scheme}://{self.root['host']}{self.root.get('basePath', '')}"
        server: Mapping[str, Any] = next(iter(self.root.get("servers") or ()), {})
        url = str(server.get("url", ""))
        for name, variable in (server.get("variables") or {}).items():
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
        for path, item in self.root.get("paths", {}).items():
            item = self.resolve(item)
            for method in METHODS:
                if isinstance(content := item.get(method), Mapping):
                    name = _make_name(str(content.get("operationId") or f"{method}_{path.strip('/')}"), taken)
                    taken.add(name)
                    yield Operation(name, method.upper(), path, content, self._merge_parameters(item, content))

    def _merge_parameters(self, item: Any, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        found = [self.resolve(entry) for entry in (*item.get("parameters", ()), *content.get("parameters", ()))]
        return tuple({(entry.get("in"), entry.get("name")): entry for entry in found}.values())

    def build_schema(self, node: Any, definitions: JsonSchema) -> Any:
        """Return a schema as JSON Schema (draft 2020-12) with the schemas that it refers to in `definitions`."""
        if isinstance(node, list):
            return [self.build_schema(entry, definitions) for entry in node]
        if not isinstance(node, Mapping):
            return node
        if isinstance(reference := node.get("$ref"), str):
            name = self._name_definition(reference)
            if name not in definitions:
                definitions[name] = {}  # a type may contain itself
                definitions[name] = self.build_schema(self._follow(reference), definitions)
            return {"$ref": f"#/$defs/{name}"}
        return _modernize({key: self.build_schema(value, definitions) for key, value in node.items()})

    def _name_definition(self, reference: str) -> str:
        """Return the last word of a reference, with a number where another reference has the same."""
        if reference not in self._names:
            word = re.sub(r"\W", "_", reference.rpartition("/")[2])
            self._names[reference] = find_free_name(word, self._names.values())
        return self._names[reference]


def _modernize(schema: JsonSchema) -> JsonSchema:
    """Return a schema of OpenAPI 3.0 as draft 2020-12: `nullable`, exclusive bounds as flags, and one `example`."""
    if schema.get("nullable") is True:
        schema.pop("nullable")
        if isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema and None not in schema["enum"]:
                schema["enum"] = [*schema["enum"], None]
        elif schema:
            schema = {"anyOf": [schema, {"type": "null"}]}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if "example" in schema and not isinstance(schema["example"], Mapping | list):
        schema["examples"] = [schema.pop("example")]
    return schema


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path}: the OpenAPI document cannot be read: {error}") from error
    try:
        found = json.loads(text)
    except ValueError:
        found = _read_yaml(path, text)
    if not isinstance(found, Mapping):
        raise DefinitionError(f"{path}: not an OpenAPI document: expected an object, got {type(found).__name__}.")
    return found


def _read_yaml(path: Path, text: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise DefinitionError(f"{path}: to read YAML, pip install pyyaml; or convert the document to JSON.") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise DefinitionError(f"{path}: neither JSON nor YAML: {str(error).splitlines()[0]}") from error


def _make_name(text: str, taken: set[str]) -> str:
    """Return a free tool name that every provider accepts."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")[:60] or "operation"
    name = name if name[0].isalpha() else f"call_{name}"[:60]
    return find_free_name(name, taken)


def _list_labels(operation: Operation) -> set[str]:
    tags = [str(tag) for tag in operation.content.get("tags", ())]
    identity = str(operation.content.get("operationId", operation.name))
    return {operation.name, identity, f"{operation.method} {operation.path}", *tags}


ApiAuth: TypeAlias = "str | tuple[str, str] | Mapping[str, str] | Callable[[], Mapping[str, str]] | None"
"""A token, user name and password, headers, or a function that returns headers for each request."""

Credentials: TypeAlias = Callable[[], tuple[Mapping[str, str], Mapping[str, str]]]
"""Returns the headers and the query parameters for authentication."""

MAX_ERROR_BODY_CHARS = 1_000
"""Characters of an error's body that the model reads."""
_SAFE = "-._~"


@frozen
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


@frozen
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
        path = self.path
        pairs = list(query.items())
        headers = {"Accept": "application/json, */*;q=0.5"}
        cookies = []
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


def make_credentials(auth: ApiAuth, scheme: Mapping[str, Any]) -> Credentials:
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
    text = answer.body.decode(find_codec(answer.charset), "replace") if is_text or answer.status >= 400 else ""
    if answer.status >= 400:
        names = [status.phrase for status in HTTPStatus if status == answer.status]
        raise ToolError(f"{answer.status} {' '.join(names)}: {text[:MAX_ERROR_BODY_CHARS]}".rstrip(": "))
    if not answer.body:
        return {"status": answer.status}
    if "json" in answer.media_type and not answer.is_cut:
        return parse_json(text)
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


MAX_OPERATION_DESCRIPTION_CHARS = 2_000
MAX_EXAMPLE_CHARS = 400
_BODY_TYPES = ("application/json", "application/x-www-form-urlencoded")
_SKIPPED_HEADERS = frozenset({"accept", "authorization", "content-type", "content-length", "host", "cookie"})
"""Header parameters that OpenAPI ignores, and those that the request sets."""


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
    url = base_url or document.find_base_url()
    credentials = make_credentials(auth, _find_security_scheme(document))
    for operation in document.list_operations(include):
        schema = OperationSchema(document, operation)
        schema.endpoint = partial(_make_endpoint, schema, url, credentials, is_trusted=bool(base_url))
        effect = "read" if operation.method in ("GET", "HEAD", "OPTIONS") else "write"
        own: ToolSettings = {"effect": effect, "trust": "untrusted", **settings}  # type: ignore[typeddict-item]
        definition = Definition(schema.call, schema, operation.name, _describe(document, operation))
        yield make_defined_tool(definition, own)


def _make_endpoint(schema: "OperationSchema", url: str, credentials: Credentials, *, is_trusted: bool) -> Endpoint:
    operation = schema.operation
    arguments = schema.arguments  # the arguments decide on the media type
    return Endpoint(url, operation.method, operation.path, arguments, schema.media_type, credentials, is_trusted)


class OperationSchema:
    """The arguments of an operation: its parameters and its body as one object; built when it is first used."""

    injected: Mapping[str, Any] = {}
    endpoint: Callable[[], Endpoint]

    def __init__(self, document: OpenApiDocument, operation: Operation) -> None:
        self._document = document
        self.operation = operation
        self.media_type = "application/json"

    def call(self, **given: Any) -> Any:
        """Send the request of the operation and return the content of the answer."""
        return self.endpoint()(**given)

    @cached_property
    def _built(self) -> tuple[RawSchema, dict[str, Argument]]:
        definitions: JsonSchema = {}
        places: dict[str, tuple[Any, bool, Argument]] = {}
        for entry in self.operation.parameters:
            if entry.get("in") in ("path", "query", "header", "cookie"):
                self._add_parameter(places, entry, definitions)
        self._add_body(places, definitions)
        parameters: JsonSchema = {
            "type": "object",
            "properties": {name: schema for name, (schema, _, _) in places.items()},
            "required": [name for name, (_, is_required, _) in places.items() if is_required],
            "additionalProperties": False,
            **({"$defs": definitions} if definitions else {}),
        }
        arguments = {name: argument for name, (_, _, argument) in places.items()}
        return RawSchema(self.operation.name, parameters, self.call), arguments

    @property
    def arguments(self) -> dict[str, Argument]:
        """Where each argument goes in the request."""
        return self._built[1]

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
        content = next(iter((entry.get("content") or {}).values()), None)
        raw = content.get("schema", {}) if content else entry.get("schema", entry if self._document.is_swagger else {})
        keys = {"name", "in", "required", "description", "collectionFormat", "allowEmptyValue"}
        raw = {key: value for key, value in raw.items() if key not in keys} if raw is entry else raw
        schema = self._document.build_schema(raw, definitions)
        text = "\n".join(filter(None, [entry.get("description", ""), _show_example(entry)]))
        style = str(entry.get("style", "form"))
        explode = bool(entry.get("explode", style == "form" and entry.get("collectionFormat", "multi") == "multi"))
        argument = Argument(name, place, style, explode, content is not None)
        own = name if name not in places else f"{name}_{place}"
        places[own] = (_add_text(schema, text), bool(entry.get("required")) or place == "path", argument)

    def _add_body(self, places: dict[str, Any], definitions: JsonSchema) -> None:
        found = self._find_body()
        if found is None:
            return
        self.media_type, raw, is_required, text = found
        fields = self._document.resolve(raw)
        names = fields.get("properties", {}) if isinstance(fields, Mapping) else {}
        required = fields.get("required", []) if isinstance(fields, Mapping) else []
        is_flat = names and not ({"allOf", "anyOf", "oneOf", "nullable"} & set(fields)) and not set(names) & set(places)
        is_closed = fields.get("additionalProperties") in (None, False) if isinstance(fields, Mapping) else False
        if is_flat and is_closed and (is_required or not required):
            for name, schema in names.items():
                if not (isinstance(schema, Mapping) and schema.get("readOnly")):
                    built = self._document.build_schema(schema, definitions)
                    places[name] = (built, name in required, Argument(name, "field"))
        else:
            own = "body" if "body" not in places else "request_body"
            schema = _add_text(self._document.build_schema(raw, definitions), text)
            places[own] = (schema, is_required, Argument(own, "body"))

    def _find_body(self) -> tuple[str, Any, bool, str] | None:
        """Return media type, schema, whether it is required, and description of the request's body."""
        if self._document.is_swagger:
            for entry in self.operation.parameters:
                if entry.get("in") == "body":
                    is_required = bool(entry.get("required"))
                    return "application/json", entry.get("schema", {}), is_required, entry.get("description", "")
            forms = [entry for entry in self.operation.parameters if entry.get("in") == "formData"]
            if not forms:
                return None
            keys = {"name", "in", "required", "collectionFormat"}
            fields = {entry["name"]: {k: v for k, v in entry.items() if k not in keys} for entry in forms}
            needed = [entry["name"] for entry in forms if entry.get("required")]
            return _BODY_TYPES[1], {"type": "object", "properties": fields, "required": needed}, True, ""
        body = self._document.resolve(self.operation.content.get("requestBody"))
        if not isinstance(body, Mapping) or not body.get("content"):
            return None
        types = body["content"]
        media_type = next((kind for kind in (*_BODY_TYPES, *types) if kind in types), "")
        is_text = "json" not in media_type and media_type not in _BODY_TYPES
        schema = {"type": "string"} if is_text else types[media_type].get("schema", {})
        text = "\n".join(filter(None, [body.get("description", ""), _show_example(types[media_type])]))
        return media_type.replace("*/*", "application/json"), schema, bool(body.get("required")), text


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
    body = None if document.is_swagger else document.resolve(content.get("requestBody"))
    types = (body.get("content") or {}) if isinstance(body, Mapping) else {}
    lines += [_show_example(types[kind]).replace("Example:", "Example of the body:") for kind in types][:1]
    if content.get("deprecated"):
        lines.append("Deprecated.")
    text = "\n\n".join(dict.fromkeys(line.strip() for line in lines if isinstance(line, str) and line.strip()))
    return text[:MAX_OPERATION_DESCRIPTION_CHARS] or f"{operation.method} {operation.path}"


def _find_security_scheme(document: OpenApiDocument) -> Mapping[str, Any]:
    """Return the first security scheme that takes a single token."""
    components = document.root if document.is_swagger else document.root.get("components") or {}
    schemes = components.get("securityDefinitions" if document.is_swagger else "securitySchemes") or {}
    try:
        found = [document.resolve(scheme) for scheme in schemes.values()]
    except DefinitionError:
        return {}
    return next((scheme for scheme in found if scheme.get("type") in ("apiKey", "http", "oauth2")), {})
