"""Read an OpenAPI document (3.1, 3.0, or Swagger 2.0): its operations, with references resolved."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...core.errors import DefinitionError
from ...core.portable import find_free_name
from ...schemas import JsonSchema, unknown_name_error

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
MAX_REFERENCES = 20
"""References that follow each other before one counts as a circle."""


@dataclass(frozen=True, slots=True)
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
