"""What the model wrote as arguments -> a call that is ready to be made, or what is wrong with them, for the model."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import from_json

from .errors import ExceptionInfo
from .schemas import JsonSchema

SHOWN = 80
"""How many characters of a wrong value the model is shown."""
NAMED = 5
"""How many mistakes the model is told at once."""
WRAPPERS = ("arguments", "args", "input", "parameters")
"""Under which key call objects and models put the arguments."""


class Arguments(Protocol):
    """The arguments of one tool: their plain JSON Schema, and what turns a model's text into a call."""

    injected: Mapping[str, Any]

    @property
    def parameters(self) -> JsonSchema: ...

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """The call that is ready to be made; raises `pydantic.ValidationError` or `ValueError`."""
        ...


def bound(
    schema: Arguments, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None
) -> Callable[[], Any] | ExceptionInfo:
    """The call that `arguments` (JSON text or a mapping) asks for, or what is wrong with them, in the model's words.

    `""` and `"null"` stand for no arguments at all; null for a parameter that does not take it but has a default
    stands for the default (strict schemas make models write it).
    """
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = "{}"
    try:
        return schema.bind(arguments, injected)
    except ValidationError as error:
        if (mended := _without_nulls(arguments, error, schema.parameters)) is not None:
            return bound(schema, mended, injected)
        return ExceptionInfo("ValidationError", explain(error, schema.parameters))
    except ValueError as error:
        return ExceptionInfo("ValidationError", str(error))


def arguments_in(call: Any, parameters: JsonSchema) -> str | Mapping[str, Any]:
    """The arguments in whatever a call is given as: JSON text or a mapping, of the arguments or of the whole call.

    Known wholes: an OpenAI tool call (`function.arguments`), a Responses function call (`arguments`), an Anthropic
    `tool_use` block (`input`), a Gemini `functionCall` (`args`), and `{"arguments": ...}`; each may be an SDK's object,
    and the inside may be JSON text once more.  A parameter of such a name is a parameter, not a wrapping.
    """
    if isinstance(call, str):
        try:
            call = from_json(call)
        except ValueError:
            return str(call)
    if hasattr(call, "model_dump"):
        call = call.model_dump(exclude_none=True)
    if not isinstance(call, Mapping):
        return call if isinstance(call, str) else json.dumps(call)
    for key in ("function", "functionCall", "function_call", *WRAPPERS):
        is_wrapping = key in call and key not in parameters.get("properties", {})
        if is_wrapping and isinstance(call[key], str | Mapping):
            return arguments_in(call[key], parameters)
    return call


def _without_nulls(arguments: str | Mapping[str, Any], error: ValidationError, parameters: JsonSchema) -> str | None:
    """The arguments without the nulls that are no valid values of keys that can be left out; None if there are none."""
    paths = [detail["loc"] for detail in error.errors(include_url=False) if detail["input"] is None and detail["loc"]]
    if not paths:
        return None
    given = from_json(arguments if isinstance(arguments, str) else json.dumps(arguments, default=str))
    required = parameters.get("required", ())
    dropped = [_drop_null(given, path) for path in paths if path[0] not in required or len(path) > 1]
    return json.dumps(given) if any(dropped) else None


def _drop_null(given: Any, path: tuple[int | str, ...]) -> bool:
    """Remove the null that `path` leads to, if an object holds it; steps that are no keys (union tags) are skipped."""
    holder: Any = None
    key: Any = None
    node: Any = given
    for step in path:
        is_key = step in node if isinstance(node, dict) else isinstance(node, list) and isinstance(step, int)
        if is_key:
            holder, key, node = node, step, node[step]
    if node is not None or not isinstance(holder, dict) or key not in holder:
        return False
    del holder[key]
    return True


def explain(error: ValidationError, parameters: JsonSchema) -> str:
    """pydantic's findings as short lines `path: message`, without its web addresses."""
    details = error.errors(include_url=False, include_context=False)
    lines = [_line(detail["type"], detail["loc"], detail["msg"], detail["input"], parameters) for detail in details]
    if len(lines) > NAMED:
        lines = [*lines[:NAMED], f"and {len(lines) - NAMED} more"]
    return "; ".join(lines)


def _line(kind: str, location: tuple[int | str, ...], message: str, value: Any, parameters: JsonSchema) -> str:
    path = ".".join(map(str, location))
    names = ", ".join(parameters.get("properties", {})) or "none"
    if kind == "json_invalid":
        return f"the arguments are not valid JSON ({message.removeprefix('Invalid JSON: ')})"
    if not location or kind == "unexpected_positional_argument":
        return f"the arguments must be one JSON object with the parameters {names}"
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{path}: there is no such parameter; the parameters are: {names}"
    if kind.startswith("missing"):
        return f"{path}: missing, it is required"
    return f"{path}: {message[:1].lower()}{message[1:]} (got {_shown(value)})"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
