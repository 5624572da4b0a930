"""Read an OpenAPI document (3.2, 3.1, 3.0, or Swagger 2.0): its operations, with references resolved, and its schemas.

References to other files are followed if these lie in the folder of the document or below it.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...core.errors import DefinitionError
from ...core.portable import find_free_name
from ...core.values import frozen
from ...schemas import JsonSchema, unknown_name_error

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


class OpenApiDocument:
    """An OpenAPI document; raises `DefinitionError` if it cannot be read, or is something else."""

    def __init__(self, source: "Mapping[str, Any] | str | Path") -> None:
        self.name = "the OpenAPI document" if isinstance(source, Mapping) else str(source)
        self._folder = None if isinstance(source, Mapping) else Path(source).resolve().parent
        self._files: dict[str, Any] = {}
        self.root: Mapping[str, Any] = source if isinstance(source, Mapping) else self._read_root(Path(source))
        version = str(self.root.get("openapi", self.root.get("swagger", "")))
        self._paths = self.root.get("paths") or {}
        if not re.match(r"3\.[0-2]|2\.0", version) or not isinstance(self._paths, Mapping):
            raise DefinitionError(
                f"{self.name}: not an OpenAPI document: expected openapi 3.0 to 3.2, or swagger 2.0, got "
                f"{version or 'no version'!r}."
            )
        self.is_swagger = version.startswith("2")
        self._names: dict[str, str] = {}

    def _read_root(self, path: Path) -> Mapping[str, Any]:
        found = _read_file(path)
        if not isinstance(found, Mapping):
            raise DefinitionError(f"{path}: not an OpenAPI document: expected an object, got {type(found).__name__}.")
        return found

    def resolve(self, node: Any) -> Any:
        """Return the target of a reference; any other value unchanged."""
        for _ in range(MAX_REFERENCES):
            if not (isinstance(node, Mapping) and isinstance(reference := node.get("$ref"), str)):
                return node
            node = self._follow(reference)
        raise DefinitionError(f"{self.name}: references refer to each other in a circle.")

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
            path = None if self._folder is None or "://" in file else (self._folder / unquote(file)).resolve()
            if self._folder is None or path is None or not path.is_relative_to(self._folder):
                raise DefinitionError(
                    f"{self.name}: the reference {reference!r} leads out of the document and its folder. "
                    "Bundle external references into the document."
                )
            self._files[file] = _move_references(_read_file(path), file)
        return self._files[file]

    def find_base_url(self, servers: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the address of the first server; raises `DefinitionError` if the document names none.

        Args:
            servers: Those of an operation; Swagger 2.0 has one for all.
        """
        if self.is_swagger and self.root.get("host"):
            schemes = self.root.get("schemes") or ["https"]
            scheme = "https" if "https" in schemes else schemes[0]
            return f"{scheme}://{self.root['host']}{self.root.get('basePath', '')}"
        server: Mapping[str, Any] = next(iter(servers), {})
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
        for path, item in self._paths.items():
            item = self.resolve(item)
            if not isinstance(item, Mapping):
                continue
            methods = {method: item.get(method) for method in METHODS} | (item.get("additionalOperations") or {})
            for method, given in methods.items():
                if isinstance(content := self.resolve(given), Mapping):
                    name = _make_name(str(content.get("operationId") or f"{method}_{path.strip('/')}"), taken)
                    taken.add(name)
                    servers = content.get("servers") or item.get("servers") or self.root.get("servers") or ()
                    parameters = self._merge_parameters(item, content)
                    yield Operation(name, method.upper(), path, content, parameters, servers)

    def _merge_parameters(self, item: Any, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        given = (*(item.get("parameters") or ()), *(content.get("parameters") or ()))
        found = [self.resolve(entry) for entry in given]
        return tuple({(entry.get("in"), entry.get("name")): entry for entry in found}.values())

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
            return {"$ref": f"#/$defs/{name}"}
        built: JsonSchema = {}
        for key, value in node.items():
            if key in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
                schemas = self.resolve(value).items()
                built[key] = {str(name): self.build_schema(schema, definitions) for name, schema in schemas}
            elif key in _DATA:
                built[key] = _to_data(value)
            elif key not in _DROPPED:
                built[key] = self.build_schema(value, definitions)
        return _modernize(built)

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


def _modernize(schema: JsonSchema) -> JsonSchema:
    """Return a schema as draft 2020-12 has it, without what only answers have.

    OpenAPI 3.0 has `nullable`, exclusive bounds as flags, and one `example`; Swagger 2.0 the type `file`.
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
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)
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
    return {operation.name, identity, f"{operation.method} {operation.path}", *tags}
