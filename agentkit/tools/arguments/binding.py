"""What the model wrote as arguments -> a call that is ready to be made, or what is wrong with them, for the model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_core import from_json

from ...core.errors import ExceptionInfo
from ...schemas import JsonSchema
from ..settings import RepairMode
from .explain import explain_invalid_json, explain_problems, explain_wrong_type
from .fixes import WRAPPER_KEYS, RepairTarget, copy_value, fix_nulls, repair_arguments, repair_in_place
from .json_reader import InvalidJson
from .json_text import ParsedJson, is_strict_object, iter_not_finite, parse_lenient, parse_strict
from .repair import Repair, truncate
from .schema_places import find_schemas, list_types
from .validation_errors import ArgumentProblem, list_problems


class ArgumentsSchema(Protocol):
    """The arguments of one tool: their plain JSON Schema, and what turns a model's text into a call."""

    injected: Mapping[str, Any]

    @property
    def parameters(self) -> JsonSchema: ...

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """The call that is ready to be made; raises `pydantic.ValidationError` or `ValueError`."""
        ...


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """What came of arguments: the call that is ready to be made, or what is wrong with them in words for the model.

    `arguments` is the JSON object that a history can hold for them (repaired; `{}` for what is no object at all, which
    providers refuse ever after), and `repairs` are the repairs.
    """

    ready: Callable[[], Any] | ExceptionInfo
    arguments: str
    repairs: tuple[Repair, ...] = ()


def bind_arguments(
    schema: ArgumentsSchema,
    arguments: str | Mapping[str, Any],
    injected: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    repair: RepairMode = "safe",
) -> BoundArguments:
    """The call of the tool `name` that `arguments` (JSON text or a mapping) ask for, or what is wrong with them.

    Valid arguments are taken as they are.  `""` and `"null"` stand for no arguments at all, and null for a parameter
    that does not take it but has a default stands for the default (strict schemas make models write it), with
    `repair="off"` too.  The call never holds a part of a mapping that was given.
    """
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = "{}"
    try:
        if not isinstance(arguments, str):
            return BoundArguments(schema.bind(copy_value(dict(arguments)), injected), _dump(arguments))
        if is_strict_object(arguments):
            return BoundArguments(schema.bind(arguments, injected), arguments)
    except (ValueError, RecursionError):
        pass
    attempt = _Attempt(schema, injected, isinstance(arguments, str))
    try:
        return _bind_with_repairs(arguments, RepairTarget(name, schema.parameters, attempt), repair)
    except InvalidJson as error:
        return BoundArguments(_validation_error(explain_invalid_json(str(error), schema.parameters, attempt)), "{}")
    except RecursionError:
        return BoundArguments(
            _validation_error(explain_invalid_json("nested too deeply", schema.parameters, attempt)), "{}"
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Validates arguments as the model's text would be; raises `ValueError`, `Unreadable` for numbers out of reach."""

    schema: ArgumentsSchema
    injected: Mapping[str, Any] | None
    is_text: bool

    def __call__(self, given: Any) -> Callable[[], Any]:
        if found := _find_out_of_range(given, self.schema.parameters):
            raise InvalidJson(found[0].message)
        return self.schema.bind(_dump(given) if self.is_text else copy_value(given), self.injected)


def _bind_with_repairs(arguments: str | Mapping[str, Any], target: RepairTarget, repair: RepairMode) -> BoundArguments:
    """What comes of arguments that are not valid as they stand; raises `Unreadable`."""
    reading = _parse(arguments, repair) if isinstance(arguments, str) else ParsedJson(copy_value(dict(arguments)))
    given, parameters = reading.value, target.parameters
    if not isinstance(given, dict):
        return BoundArguments(_validation_error(explain_wrong_type(given, parameters, target.validate)), "{}")
    text = arguments if isinstance(arguments, str) and not reading.syntax_errors else _dump(given)
    repairs: tuple[Repair, ...] = ()
    if reading.syntax_errors:
        repairs = (
            Repair("", ", ".join(dict.fromkeys(reading.syntax_errors)), truncate(str(arguments)), truncate(text)),
        )
    if found := _find_out_of_range(given, parameters):
        return BoundArguments(
            _validation_error(explain_problems(found, given, parameters, target.validate)), "{}", repairs
        )
    try:
        return BoundArguments(target.validate(given), text, repairs)
    except ValueError as error:
        found = list_problems(error, given, parameters)
    done = repair_arguments(given, target) if repair == "safe" else repair_in_place(given, target, fix_nulls)
    if done is None:
        return BoundArguments(
            _validation_error(explain_problems(found, given, parameters, target.validate)), text, repairs
        )
    return BoundArguments(done.call, _dump(done.value), (*repairs, *done.repairs))


def _parse(text: str, repair: RepairMode) -> ParsedJson:
    reading = parse_lenient(text)  # even if nothing is repaired: it knows best what is wrong
    if repair == "off" and reading.syntax_errors:
        parse_strict(text)
        raise InvalidJson(", ".join(reading.syntax_errors))
    return reading


def _find_out_of_range(given: Any, parameters: JsonSchema) -> list[ArgumentProblem]:
    """The numbers that are none in JSON (NaN, infinity) or that the float they would become cannot hold."""
    found = []
    for path, value in iter_not_finite(given):
        wanted = list_types(find_schemas(parameters, path))
        is_float = "number" in wanted and "string" not in wanted
        if isinstance(value, float) or (is_float and (isinstance(value, str) or "integer" not in wanted)):
            found.append(
                ArgumentProblem(path, "value", "input should be a finite number: JSON has no NaN and no infinity")
            )
    return found


def _validation_error(message: str) -> ExceptionInfo:
    return ExceptionInfo("ValidationError", message)


def _dump(given: Mapping[str, Any]) -> str:
    return json.dumps(dict(given), ensure_ascii=False, default=str)


def extract_arguments(call: Any, parameters: JsonSchema) -> str | Mapping[str, Any]:
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
    for key in ("function", "functionCall", "function_call", *WRAPPER_KEYS):
        is_wrapping = key in call and key not in parameters.get("properties", {})
        if is_wrapping and isinstance(call[key], str | Mapping):
            return extract_arguments(call[key], parameters)
    return call
