"""Make tools of the operations of an OpenAPI document (3.2, 3.1, 3.0, or Swagger 2.0)."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ...core.errors import DefinitionError
from ...schemas import JsonSchema
from ...schemas.models import RawSchema
from ..definition import Definition
from ..json_tool import JsonTool, make_defined_tool
from ..settings import ToolSettings
from .document import OpenApiDocument, Operation
from .requests import FORM_TYPE, JSON_TYPE, MULTIPART_TYPE, ApiAuth, Argument, Credentials, Endpoint, make_credentials

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
    credentials = make_credentials(auth, _find_security_scheme(document))
    for operation in document.list_operations(include):
        schema = OperationSchema(document, operation)
        url = base_url or document.find_base_url(operation.servers)
        schema.endpoint = partial(_make_endpoint, schema, url, credentials, is_trusted=bool(base_url))
        effect = "read" if operation.method in _READING else "write"
        own: ToolSettings = {"effect": effect, "trust": "untrusted", **settings}  # type: ignore[typeddict-item]
        definition = Definition(schema.call, schema, operation.name, _describe(document, operation))
        yield make_defined_tool(definition, own)


def _make_endpoint(schema: "OperationSchema", url: str, credentials: Credentials, *, is_trusted: bool) -> Endpoint:
    operation = schema.operation
    arguments = schema.arguments  # the arguments decide on the media type
    return Endpoint(
        url,
        operation.method,
        operation.path,
        arguments,
        schema.media_type,
        schema.has_body,
        credentials,
        is_trusted=is_trusted,
    )


class OperationSchema:
    """The arguments of an operation: its parameters and its body as one object; built when it is first used."""

    injected: Mapping[str, Any] = {}
    endpoint: Callable[[], Endpoint]

    def __init__(self, document: OpenApiDocument, operation: Operation) -> None:
        self._document = document
        self.operation = operation
        self.media_type = JSON_TYPE
        self.has_body = False

    def call(self, **given: Any) -> Any:
        """Send the request of the operation and return the content of the answer."""
        return self.endpoint()(**given)

    @cached_property
    def _built(self) -> tuple[RawSchema, dict[str, Argument]]:
        definitions: JsonSchema = {}
        places: dict[str, tuple[Any, bool, Argument]] = {}
        for entry in self.operation.parameters:
            if entry.get("in") in ("path", "query", "querystring", "header", "cookie"):
                self._add_parameter(places, entry, definitions)
        in_path = {argument.name for _, _, argument in places.values() if argument.place == "path"}
        for name in re.findall(r"\{([^{}]+)\}", self.operation.path):
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
        media_type, content = next(iter((entry.get("content") or {}).items()), ("", None))
        if content is not None:
            raw = self._document.resolve(content).get("schema", {})
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
        self.media_type, raw, self.has_body, text, encodings = found
        fields = self._document.resolve(raw)
        names = self._document.resolve(fields.get("properties") or {}) if isinstance(fields, Mapping) else {}
        required = (fields.get("required") or []) if isinstance(fields, Mapping) else []
        is_flat = names and not ({"allOf", "anyOf", "oneOf", "nullable"} & set(fields)) and not set(names) & set(places)
        is_closed = fields.get("additionalProperties") in (None, False) if isinstance(fields, Mapping) else False
        if is_flat and is_closed and (self.has_body or not required):
            for name, schema in names.items():
                if not (isinstance(schema, Mapping) and schema.get("readOnly")):
                    built = self._document.build_schema(schema, definitions)
                    argument = self._make_field(str(name), schema, encodings.get(name) or {})
                    places[str(name)] = (built, name in required, argument)
        else:
            own = "body" if "body" not in places else "request_body"
            schema = _add_text(self._document.build_schema(raw, definitions), text)
            places[own] = (schema, self.has_body, Argument(own, "body"))

    def _make_field(self, name: str, schema: Any, encoding: Mapping[str, Any]) -> Argument:
        """Return where a property of a body goes; its encoding says how it is written in a form."""
        if self._document.is_swagger:
            return Argument(name, "field", *self._find_style(schema, "field"), is_file=schema.get("type") == "file")
        media_type = str(encoding.get("contentType") or "").partition(",")[0].strip()
        style = str(encoding.get("style") or "form")
        kind = self._document.resolve(schema)
        kind = self._document.resolve(kind.get("items")) if isinstance(kind, Mapping) and "items" in kind else kind
        is_file = isinstance(kind, Mapping) and (kind.get("format") == "binary" or "contentMediaType" in kind)
        if self.media_type == FORM_TYPE and "json" not in media_type:
            media_type = ""  # the text of a value is the same for each other media type
        return Argument(name, "field", style, bool(encoding.get("explode", True)), media_type, is_file)

    def _find_swagger_body(self) -> "_Body | None":
        parameters = self.operation.parameters
        kinds = [*map(str, self.operation.content.get("consumes") or self._document.root.get("consumes") or ())]
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
        body = self._document.resolve(self.operation.content.get("requestBody"))
        if not isinstance(body, Mapping) or not body.get("content"):
            return None
        media_type, content = min(body["content"].items(), key=lambda item: _rank(item[0]))
        content = self._document.resolve(content) or {}
        media_type = JSON_TYPE if media_type in ("*/*", "application/*") else media_type
        is_text = "json" not in media_type and _rank(media_type) == len(_BODY_TYPES)
        schema = {"type": "string"} if is_text else content.get("schema") or {}
        text = "\n".join(filter(None, [_text(body.get("description")), _show_example(content)]))
        return media_type, schema, bool(body.get("required")), text, content.get("encoding") or {}


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
    body = None if document.is_swagger else document.resolve(content.get("requestBody"))
    types = (body.get("content") or {}) if isinstance(body, Mapping) else {}
    examples = (_show_example(document.resolve(types[kind]) or {}) for kind in types)
    lines += [next(examples, "").replace("Example:", "Example of the body:")]
    if content.get("deprecated"):
        lines.append("Deprecated.")
    text = "\n\n".join(dict.fromkeys(line.strip() for line in lines if isinstance(line, str) and line.strip()))
    return text[:MAX_OPERATION_DESCRIPTION_CHARS] or f"{operation.method} {operation.path}"


def _find_security_scheme(document: OpenApiDocument) -> Mapping[str, Any]:
    """Return the first security scheme that takes a single token, else one with a password.

    Those that the document demands for all operations come first.
    """
    components = document.root if document.is_swagger else document.root.get("components") or {}
    schemes = components.get("securityDefinitions" if document.is_swagger else "securitySchemes") or {}
    demanded = [name for entry in document.root.get("security") or () for name in entry if name in schemes]
    try:
        found = [document.resolve(schemes[name]) for name in dict.fromkeys([*demanded, *schemes])]
    except DefinitionError:
        return {}
    usable = [
        scheme for scheme in found if scheme.get("type") in ("apiKey", "http", "oauth2", "openIdConnect", "basic")
    ]
    return min(usable, key=_is_basic, default={})


def _is_basic(scheme: Mapping[str, Any]) -> bool:
    return scheme["type"] == "basic" or str(scheme.get("scheme", "")).lower() == "basic"
