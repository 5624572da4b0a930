"""Validation errors of arguments as plain values: from pydantic and from jsonschema, in one form.

The path of an error leads to the part of the JSON Schema that it is about.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ...core.values import frozen
from ...schemas.walk import JsonSchema, Nodes, expand_schemas, iter_child_schemas, json_type
from .json_text import InvalidJson, ValuePath

STRICT_TYPES = frozenset({"int_type", "float_type", "bool_type"})
"""pydantic's errors for a text where a strict type stands; other types report that the text cannot be parsed."""

KEY_STEP = "[key]"
"""The step behind a key in the location of an error that is about the key and not about its value."""


@frozen
class ArgumentProblem:
    """One problem of the arguments: an invalid value, a missing key, an unknown key or an invalid key of a mapping.

    For a problem of a key, `path` ends with that key. `message` is the validator's, empty for a missing or an unknown
    key.
    `is_strict` is set where the type converts no text: `StrictInt`, for example.
    """

    path: ValuePath
    kind: Literal["value", "missing", "unknown", "key"]
    message: str = ""
    is_strict: bool = False


class CheckFailed(ValueError):
    """Raised in the place of an exception of a type's own code, a validator, say, that is no `ValueError`."""


def list_problems(error: ValueError, given: Any, parameters: JsonSchema) -> list[ArgumentProblem]:
    """Return the distinct problems behind `error`, which the validation of `given` raised.

    For an error that is not pydantic's, jsonschema validates `given` again.

    Raises:
        InvalidJson: the arguments are nested more deeply than pydantic supports.
    """
    if isinstance(error, CheckFailed):
        return [ArgumentProblem((), "value", str(error))]
    if not isinstance(error, ValidationError):
        return list(dict.fromkeys(_iter_schema_problems(given, parameters)))
    details = error.errors(include_url=False)
    if details[0]["type"] == "json_invalid":  # the text was parsed before, so only its depth can be the reason
        raise InvalidJson("nested too deeply")
    return list(dict.fromkeys(_make_problem(detail, given, parameters) for detail in details))


def _make_problem(detail: ErrorDetails, given: Any, parameters: JsonSchema) -> ArgumentProblem:
    kind = detail["type"]
    message = detail["msg"]
    path, holder = follow_location(detail["loc"], given)
    last = detail["loc"][-1] if detail["loc"] else ""
    if kind == "missing" or kind.startswith("missing_"):
        return ArgumentProblem((*path, last), "missing")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return ArgumentProblem(path, "unknown")
    is_key = KEY_STEP in detail["loc"] and KEY_STEP not in path
    if kind == "enum":
        nodes = _find_key_schemas(parameters, path[:-1]) if is_key else find_schemas(parameters, path)
        message = _name_options(detail, nodes) or message
    if is_key:
        return ArgumentProblem(path, "key", message)
    discriminator = str(detail.get("ctx", {}).get("discriminator", "")).strip("'")
    if kind == "union_tag_invalid" and isinstance(holder, dict) and discriminator in holder:
        return ArgumentProblem((*path, discriminator), "value", message)
    if kind == "union_tag_not_found":
        return ArgumentProblem((*path, discriminator), "missing")
    return ArgumentProblem(path, "value", message, kind in STRICT_TYPES and isinstance(holder, str))


def _name_options(detail: ErrorDetails, nodes: Nodes) -> str:
    """Return the message of an enum whose names the schema offers, where pydantic's has their values; else ""."""
    offered = [repr(option) for option in list_options(nodes)]
    values = detail.get("ctx", {}).get("expected", "")
    if not offered or any(option in values for option in offered):
        return ""
    return f"Input should be {' or '.join(offered)}"


def follow_location(location: tuple[int | str, ...], given: Any) -> tuple[ValuePath, Any]:
    """Return the path that pydantic's `location` has in `given`, and the value there.

    Names of union members and of validator functions, which are steps of a location, are not steps of the path.
    """
    path: list[int | str] = []
    node = given
    for step in location:
        is_key = step in node if isinstance(node, dict) else False
        is_place = isinstance(node, list) and isinstance(step, int) and step < len(node)
        if is_key or is_place:
            path.append(step)
            node = node[step]
    return tuple(path), node


def find_value(given: Any, path: ValuePath) -> Any:
    """Return the value at `path`, or None if the path leads nowhere."""
    followed, value = follow_location(path, given)
    return value if followed == path else None


def _iter_schema_problems(given: Any, parameters: JsonSchema) -> Iterator[ArgumentProblem]:
    """Yield the problems that jsonschema finds; of alternatives that all fail, the problems in each."""
    from ...schemas.safe_validator import SafeValidator, TooManyReferences  # imports jsonschema

    try:
        for error in SafeValidator(parameters).iter_errors(given):
            yield from _iter_problems(error, given)
    except TooManyReferences as error:
        yield ArgumentProblem((), "value", str(error))


def _iter_problems(error: Any, whole: Any) -> Iterator[ArgumentProblem]:
    """Yield the problems of a `jsonschema.ValidationError` about the arguments `whole`."""
    path = tuple(error.absolute_path)
    given = error.instance
    wanted = error.validator_value
    if error.context:
        yield from (problem for inner in error.context for problem in _iter_problems(inner, whole))
    elif error.validator == "required" and isinstance(given, dict):
        yield from (ArgumentProblem((*path, key), "missing") for key in wanted if key not in given)
    elif error.validator == "additionalProperties" and isinstance(given, dict) and wanted is False:
        declared = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        yield from (ArgumentProblem((*path, key), "unknown") for key in given if key not in declared)
    else:
        message = error.message.removeprefix(repr(given)).strip()  # the message repeats the value at any length
        if isinstance(given, str) and isinstance(find_value(whole, path), dict):  # what `propertyNames` refuses
            yield ArgumentProblem((*path, given), "key", message or error.message)
        else:
            yield ArgumentProblem(path, "value", message or error.message)


def find_schemas(root: JsonSchema, path: ValuePath) -> Nodes:
    """Return the schemas at `path`, alternatives included; an empty list where the schema does not constrain it."""
    nodes = expand_schemas([root], root)
    for step in path:
        nodes = expand_schemas((inner for node in nodes for inner in iter_child_schemas(node, step)), root)
    return nodes


def _find_key_schemas(root: JsonSchema, path: ValuePath) -> Nodes:
    """Return the schemas of the keys of the object at `path`."""
    return expand_schemas((node.get("propertyNames") for node in find_schemas(root, path)), root)


def list_properties(nodes: Nodes) -> list[str]:
    """Return the names of the declared keys."""
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", {})))


def list_options(nodes: Nodes) -> list[Any]:
    """Return the distinct values of `enum` and `const`."""
    values = [
        value for node in nodes for value in (*node.get("enum", ()), *([node["const"]] if "const" in node else ()))
    ]
    return list({repr(value): value for value in values}.values())


def list_types(nodes: Nodes) -> set[str]:
    """Return the JSON types that the schemas allow, as far as they name them."""
    named: set[str] = {json_type(value) for value in list_options(nodes)}
    for node in nodes:
        kind = node.get("type", [])
        named.update([kind] if isinstance(kind, str) else kind)
    return named
