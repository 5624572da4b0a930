"""Arguments of a tool call: parse, validate, repair, and bind them to the function."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic_core import from_json

from ...core.errors import ExceptionInfo
from ...core.portable import copy_value, find_flaw, iterate_scalars, truncate_masked
from ...core.values import frozen
from ...schemas.walk import JsonSchema
from ..settings import RepairMode
from .explain import explain_invalid_json, explain_problems, explain_wrong_type
from .fixes import WRAPPER_KEYS, Repair, RepairTarget, fix_nulls, repair_arguments, repair_in_place
from .json_text import InvalidJson, ParsedJson, is_strict_object, iter_not_finite, parse_lenient, parse_strict
from .validation_errors import ArgumentProblem, CheckFailed, find_schemas, list_problems, list_types


class ArgumentsSchema(Protocol):
    """The schema of one tool's arguments, and the validation that binds them to the function."""

    injected: Mapping[str, inspect.Parameter]

    @property
    def parameters(self) -> JsonSchema: ...

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """Validate `arguments` and return the prepared call; raise `ValueError` if they are invalid."""
        ...


@frozen
class BoundArguments:
    """The outcome of binding: the prepared call, or the error that the model reads.

    `arguments` are a JSON object for the history, repaired; `{}` where the model wrote no object, because providers
    refuse a history with anything else.
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
    """Validate arguments, repair them where the repair is certain, and return the prepared call or the error.

    Valid arguments are not changed.  `""` and `"null"` mean no arguments.  A null for a parameter that has a default
    and does not accept null means the default, because strict schemas make models write it; this holds for
    `repair="off"` too, which reports all other mistakes.  A mapping of JSON data is validated as its text is, so that
    the function gets the same values.  The call never shares objects with a mapping.  `name` is the tool's name, which
    models put around the arguments at times.
    """
    if not isinstance(arguments, str) and _is_json_data(given := dict(arguments)):
        arguments = json.dumps(given, ensure_ascii=False)
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = "{}"
    try:
        if not isinstance(arguments, str):
            return BoundArguments(_bind(schema, copy_value(dict(arguments)), injected), _dump(arguments))
        if is_strict_object(arguments):
            return BoundArguments(_bind(schema, arguments, injected), arguments)
    except (ValueError, RecursionError):
        pass

    def validate(given: Any) -> Callable[[], Any]:
        """Validate in the form that the model used, JSON text or Python values; raise `ValueError`."""
        if found := _find_out_of_range(given, schema.parameters):
            raise InvalidJson(found[0].message)
        return _bind(schema, _dump(given) if isinstance(arguments, str) else copy_value(given), injected)

    try:
        return _bind_with_repairs(arguments, RepairTarget(name, schema.parameters, validate), repair)
    except InvalidJson as error:
        reason = str(error)
    except RecursionError:
        reason = "nested too deeply"
    return _refuse(explain_invalid_json(reason, schema.parameters, validate))


_JSON_SCALARS = (str, int, float, bool, type(None))


def _is_json_data(arguments: dict[str, Any]) -> bool:
    """Return whether arguments are JSON; a member of an enum that is a text is a Python value."""
    return find_flaw(arguments) is None and all(type(entry) in _JSON_SCALARS for entry in iterate_scalars(arguments))


def _bind(
    schema: ArgumentsSchema, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None
) -> Callable[[], Any]:
    try:
        return schema.bind(arguments, injected)
    except (ValueError, RecursionError):
        raise
    except Exception as error:  # of a validator or a constructor, which may raise anything
        raise CheckFailed(f"could not be checked: {type(error).__name__}: {error}") from error


def _bind_with_repairs(arguments: str | Mapping[str, Any], target: RepairTarget, repair: RepairMode) -> BoundArguments:
    """Bind arguments that are invalid as written; raises `InvalidJson`."""
    parsed = _parse(arguments, repair) if isinstance(arguments, str) else ParsedJson(copy_value(dict(arguments)))
    given = parsed.value
    parameters = target.parameters
    if not isinstance(given, dict):
        return _refuse(explain_wrong_type(given, parameters, target.validate))
    text = arguments if isinstance(arguments, str) and not parsed.syntax_errors else _dump(given)
    repairs: tuple[Repair, ...] = ()
    if parsed.syntax_errors:
        kinds = ", ".join(dict.fromkeys(parsed.syntax_errors))
        repairs = (Repair("", kinds, truncate_masked(str(arguments)), truncate_masked(text)),)
    if found := _find_out_of_range(given, parameters):
        return _refuse(explain_problems(found, given, parameters, target.validate), repairs=repairs)
    try:
        return BoundArguments(target.validate(given), text, repairs)
    except ValueError as error:
        found = list_problems(error, given, parameters)
    done = repair_arguments(given, target) if repair == "safe" else repair_in_place(given, target, fix_nulls)
    if done is None:
        return _refuse(explain_problems(found, given, parameters, target.validate), text, repairs)
    return BoundArguments(done.call, _dump(done.value), (*repairs, *done.repairs))


def _parse(text: str, repair: RepairMode) -> ParsedJson:
    parsed = parse_lenient(text)  # also for repair='off', because its errors are the most precise
    if repair == "off" and parsed.syntax_errors:
        parse_strict(text)
        raise InvalidJson(", ".join(parsed.syntax_errors))
    return parsed


def _find_out_of_range(given: Any, parameters: JsonSchema) -> list[ArgumentProblem]:
    """Return the numbers that JSON does not have (NaN, infinity) or that exceed the range of a float."""
    found = []
    for path, value in iter_not_finite(given):
        wanted = list_types(find_schemas(parameters, path))
        is_float = "number" in wanted and "string" not in wanted
        if isinstance(value, float) or (is_float and (isinstance(value, str) or "integer" not in wanted)):
            found.append(
                ArgumentProblem(path, "value", "input should be a finite number: JSON has no NaN and no infinity")
            )
    return found


def _refuse(message: str, arguments: str = "{}", repairs: tuple[Repair, ...] = ()) -> BoundArguments:
    return BoundArguments(ExceptionInfo("ValidationError", message), arguments, repairs)


def _dump(given: Mapping[str, Any]) -> str:
    return json.dumps(dict(given), ensure_ascii=False, default=str)


def extract_arguments(call: Any, parameters: JsonSchema) -> str | Mapping[str, Any]:
    """Return the arguments in a tool call of any form, as JSON text or as a mapping.

    Supported: an OpenAI tool call (`function.arguments`), a Responses function call (`arguments`), an Anthropic
    `tool_use` block (`input`), a Gemini `functionCall` (`args`), `{"arguments": ...}`, and the arguments themselves.
    Each may be an SDK's object, and the inner value may be JSON text.  A key that is a parameter of the tool is not a
    wrapper.
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
