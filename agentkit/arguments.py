"""What the model wrote as arguments -> a call that is ready to be made, or what is wrong with them, for the model."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from .errors import ExceptionInfo
from .schemas import JsonSchema

SHOWN = 80
"""How many characters of a wrong value the model is shown."""
NAMED = 5
"""How many mistakes the model is told at once."""


class Arguments(Protocol):
    """The arguments of one tool: their plain JSON Schema, and what turns a model's text into a call."""

    @property
    def parameters(self) -> JsonSchema: ...

    def bind(self, arguments: str | Mapping[str, Any]) -> Callable[[], Any]:
        """The call that is ready to be made; raises `pydantic.ValidationError` or `ValueError`."""
        ...


def bound(schema: Arguments, arguments: str | Mapping[str, Any]) -> Callable[[], Any] | ExceptionInfo:
    """The call that `arguments` (JSON text or a mapping) asks for, or what is wrong with them, in the model's words.

    `""` and `"null"` stand for no arguments at all.
    """
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = "{}"
    try:
        return schema.bind(arguments)
    except ValidationError as error:
        return ExceptionInfo("ValidationError", explain(error, schema.parameters))
    except ValueError as error:
        return ExceptionInfo("ValidationError", str(error))


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
    if kind in ("arguments_type", "unexpected_positional_argument"):
        return f"the arguments must be one JSON object with the parameters {names}"
    if kind == "unexpected_keyword_argument":
        return f"{path}: there is no such parameter; the parameters are: {names}"
    if kind.startswith("missing"):
        return f"{path}: missing, it is required"
    return f"{path}: {message[:1].lower()}{message[1:]} (got {_shown(value)})"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
