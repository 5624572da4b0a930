"""Make tools of the operations of an OpenAPI document."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ...core.errors import DefinitionError
from ...schemas import JsonSchema
from ...schemas.raw import RawSchema
from ..definition import Definition
from ..json_tool import JsonTool, make_defined_tool
from ..settings import ToolSettings
from .document import OpenApiDocument, Operation
from .request import Argument, Auth, Credentials, Endpoint, make_credentials

MAX_DESCRIPTION_CHARS = 2_000
MAX_EXAMPLE_CHARS = 400
_BODY_TYPES = ("application/json", "application/x-www-form-urlencoded")
_SKIPPED_HEADERS = frozenset({"accept", "authorization", "content-type", "content-length", "host", "cookie"})
"""Header parameters that OpenAPI ignores, and those that the request sets."""


def make_operation_tools(
    source: "Mapping[str, Any] | str | Path",
    *,
    base_url: str | None = None,
    auth: Auth = None,
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
    operation, arguments = schema.operation, schema.arguments  # the arguments decide on the media type
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
        place, name = str(entry["in"]), str(entry["name"])
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
    return text[:MAX_DESCRIPTION_CHARS] or f"{operation.method} {operation.path}"


def _find_security_scheme(document: OpenApiDocument) -> Mapping[str, Any]:
    """Return the first security scheme that takes a single token."""
    components = document.root if document.is_swagger else document.root.get("components") or {}
    schemes = components.get("securityDefinitions" if document.is_swagger else "securitySchemes") or {}
    try:
        found = [document.resolve(scheme) for scheme in schemes.values()]
    except DefinitionError:
        return {}
    return next((scheme for scheme in found if scheme.get("type") in ("apiKey", "http", "oauth2")), {})
