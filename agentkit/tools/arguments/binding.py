"""What the model wrote as arguments -> a call that is ready to be made, or what is wrong with them, for the model."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from ...core.errors import ExceptionInfo
from ...schemas import JsonSchema
from ...schemas.formats import RenderedTool
from ..settings import Repairing
from . import (
    WRAPPERS,
    Finding,
    Reading,
    Repair,
    Target,
    Unreadable,
    at,
    clipped,
    copied,
    explain,
    explain_kind,
    explain_text,
    findings,
    fix_nulls,
    is_sound,
    mended,
    mended_in_place,
    not_finite,
    read,
    strictly,
    types,
)


class Arguments(Protocol):
    """The arguments of one tool: their plain JSON Schema, and what turns a model's text into a call."""

    injected: Mapping[str, Any]

    @property
    def parameters(self) -> JsonSchema: ...

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """The call that is ready to be made; raises `pydantic.ValidationError` or `ValueError`."""
        ...


@dataclass(frozen=True, slots=True)
class Bound:
    """What came of arguments: the call that is ready to be made, or what is wrong with them in words for the model.

    `arguments` is the JSON object that a history can hold for them (repaired; `{}` for what is no object at all, which
    providers refuse ever after), and `repairs` are the receipts.
    """

    ready: Callable[[], Any] | ExceptionInfo
    arguments: str
    repairs: tuple[Repair, ...] = ()


def bound(
    schema: Arguments,
    arguments: str | Mapping[str, Any],
    injected: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    repair: Repairing = "safe",
) -> Bound:
    """The call of the tool `name` that `arguments` (JSON text or a mapping) ask for, or what is wrong with them.

    Valid arguments are taken as they are.  `""` and `"null"` stand for no arguments at all, and null for a parameter
    that does not take it but has a default stands for the default (strict schemas make models write it), with
    `repair="off"` too.  The call never holds a part of a mapping that was given.
    """
    if isinstance(arguments, str) and arguments.strip() in ("", "null"):
        arguments = "{}"
    try:
        if not isinstance(arguments, str):
            return Bound(schema.bind(copied(dict(arguments)), injected), _text(arguments))
        if is_sound(arguments):
            return Bound(schema.bind(arguments, injected), arguments)
    except (ValueError, RecursionError):
        pass
    attempt = _Attempt(schema, injected, isinstance(arguments, str))
    try:
        return _mended(arguments, Target(name, schema.parameters, attempt), repair)
    except Unreadable as error:
        return Bound(_problem(explain_text(str(error), schema.parameters, attempt)), "{}")
    except RecursionError:
        return Bound(_problem(explain_text("nested too deeply", schema.parameters, attempt)), "{}")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Validates arguments as the model's text would be; raises `ValueError`, `Unreadable` for numbers out of reach."""

    schema: Arguments
    injected: Mapping[str, Any] | None
    is_text: bool

    def __call__(self, given: Any) -> Callable[[], Any]:
        if found := _out_of_reach(given, self.schema.parameters):
            raise Unreadable(found[0].message)
        return self.schema.bind(_text(given) if self.is_text else copied(given), self.injected)


def _mended(arguments: str | Mapping[str, Any], target: Target, repair: Repairing) -> Bound:
    """What comes of arguments that are not valid as they stand; raises `Unreadable`."""
    reading = _reading(arguments, repair) if isinstance(arguments, str) else Reading(copied(dict(arguments)))
    given, parameters = reading.value, target.parameters
    if not isinstance(given, dict):
        return Bound(_problem(explain_kind(given, parameters, target.validate)), "{}")
    text = arguments if isinstance(arguments, str) and not reading.slips else _text(given)
    receipts: tuple[Repair, ...] = ()
    if reading.slips:
        receipts = (Repair("", ", ".join(dict.fromkeys(reading.slips)), clipped(str(arguments)), clipped(text)),)
    if found := _out_of_reach(given, parameters):
        return Bound(_problem(explain(found, given, parameters, target.validate)), "{}", receipts)
    try:
        return Bound(target.validate(given), text, receipts)
    except ValueError as error:
        found = findings(error, given, parameters)
    done = mended(given, target) if repair == "safe" else mended_in_place(given, target, fix_nulls)
    if done is None:
        return Bound(_problem(explain(found, given, parameters, target.validate)), text, receipts)
    return Bound(done.call, _text(done.value), (*receipts, *done.repairs))


def _reading(text: str, repair: Repairing) -> Reading:
    reading = read(text)  # even if nothing is repaired: it knows best what is wrong
    if repair == "off" and reading.slips:
        strictly(text)
        raise Unreadable(", ".join(reading.slips))
    return reading


def _out_of_reach(given: Any, parameters: JsonSchema) -> list[Finding]:
    """The numbers that are none in JSON (NaN, infinity) or that the float they would become cannot hold."""
    found = []
    for path, value in not_finite(given):
        wanted = types(at(parameters, path))
        is_float = "number" in wanted and "string" not in wanted
        if isinstance(value, float) or (is_float and (isinstance(value, str) or "integer" not in wanted)):
            found.append(Finding(path, "value", "input should be a finite number: JSON has no NaN and no infinity"))
    return found


def _problem(message: str) -> ExceptionInfo:
    return ExceptionInfo("ValidationError", message)


def _text(given: Mapping[str, Any]) -> str:
    return json.dumps(dict(given), ensure_ascii=False, default=str)


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


def real_names(arguments: str | Mapping[str, Any], aliased: Iterable[RenderedTool]) -> str | Mapping[str, Any]:
    """The arguments with the parameters' own names in the place of those that a provider was given for them."""
    try:
        given = from_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
    if isinstance(given, Mapping):
        for rendering in aliased:
            given = rendering.restore_names(given)
    return to_json(given).decode() if isinstance(arguments, str) else given
