"""A tool: a callable with a name, a description and the schema of its arguments; `@tool` makes one of a function.

A tool knows its schema in the dialect of each provider.  `schema`, `function_to_json` and `call_function` are for a
single task: the schema of a callable or a type, or one call.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, NewType, ParamSpec, TypeVar, Unpack, cast, get_origin, overload

from pydantic_core import from_json, to_json
from typing_extensions import TypeAliasType

from ..core.background import aresolve, is_async, resolve, run_in_thread
from ..core.context import RunContext, find_injected
from ..core.errors import DefinitionError, ExceptionInfo
from ..core.lazy_names import display_with
from ..core.threads import FifoLock
from ..schemas.annotations import FieldText, check_duplicates, read_field_text, texts_of
from ..schemas.formats import Declaration, Loss, References, RenderedTool, render
from ..schemas.functions import Choice, build_output_schema, build_type_schema, describe_returns
from ..schemas.models import (
    ModelSchema,
    RawSchema,
    build_arguments,
    derive_description,
    derive_name,
    is_arguments_model,
    name_of_model,
)
from ..schemas.signature import check_description, check_name, iter_wrapped, name_of
from ..schemas.walk import JsonSchema
from . import settings as kinds
from .arguments.binding import BoundArguments, bind_arguments, extract_arguments
from .definition import Definition, ToolExecutor, define, explain_wrapper
from .isolation.process import check_isolable, run_isolated
from .settings import DEFAULTS, RepairMode, ToolSettings, complete_settings, label_results, read_declared_settings

P = ParamSpec("P")
R = TypeVar("R")


def _schema_property(format: str) -> "cached_property[dict[str, Any]]":
    return cached_property(lambda tool: tool.schema(format))


class JsonTool(Generic[P, R]):
    """A function that a model can call.

    Args:
        function: Any callable with a docstring and typed parameters.  Coroutine functions are awaited.
        name: The tool's name for the model; default: the function's name.
        description: The tool's description for the model; default: the text of the docstring.
        parameters: For each parameter a description, or a mapping with `description` and `enum`.  They take precedence
            over the function's own.
        overload: Which of several signatures: its index, its types, or a predicate; default: all of them.
        **settings: See `ToolSettings`.

    Raises:
        DefinitionError: the name, the description or a parameter's type is missing or unusable.
    """

    repair: RepairMode
    on_error: kinds.OnError
    max_result: int | None
    timeout: kinds.Timeout
    effect: kinds.ToolEffect | None
    retries: int
    sequential: bool
    isolate: kinds.Isolation | None
    trust: kinds.Trust | kinds.TrustedFields | None
    egress: bool | None
    readers: Sequence[str] | None
    describe_returns: bool
    always_offered = False
    """Whether a search among many tools (`ToolSearch`) offers the tool in each request; a copy does not."""

    def __init__(
        self,
        function: Callable[P, R],
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, FieldText] | None = None,
        overload: Choice | None = None,
        **settings: Unpack[ToolSettings],
    ) -> None:
        _take_duplicates(function, parameters or {}, settings)
        options = (parameters, overload)
        if isinstance(function, JsonTool):
            self._set_up(function._definition.redefine(name, description, options), function, settings)
        else:
            definition = define(function, name, description, options)
            self._set_up(definition, definition.function, settings)

    @classmethod
    def from_schema(
        cls,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        call: Callable[..., R],
        **settings: Unpack[ToolSettings],
    ) -> "JsonTool[..., R]":
        """Make a tool of a JSON Schema of type object; `call` receives the arguments by keyword.

        Raises:
            DefinitionError: `parameters` is not a valid JSON Schema (draft 2020-12) of an object.
        """
        definition = Definition(call, RawSchema(name, parameters, call), name, description)
        return make_defined_tool(definition, settings, cls)

    @classmethod
    def from_model(
        cls,
        model: type,
        handler: Callable[..., R],
        *,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[ToolSettings],
    ) -> "JsonTool[..., R]":
        """Make a tool whose parameters are the fields of `model`; `handler` is called with one instance.

        `model` (pydantic model, dataclass, TypedDict, NamedTuple) names the tool, without `Args`, and describes it.
        """
        schema = ModelSchema(model, handler)
        text = description or derive_description(handler, schema)
        return make_defined_tool(Definition(handler, schema, name or name_of_model(model), text), settings, cls)

    def _set_up(self, definition: Definition, source: Callable[..., Any], settings: ToolSettings) -> None:
        """Set the attributes; settings that are not given, and the lock, come from the function or tool `source`."""
        check_name(definition.name)
        check_description(definition.name, definition.description, explain_wrapper(definition.function))
        self._definition = definition
        self.function: Callable[..., R] = definition.function
        self.name = definition.name
        self.arguments = definition.schema
        vars(self).update(complete_settings(self.name, {**read_declared_settings(source), **settings}))
        self.label = label_results(self.name, self.trust, self.readers)
        returns = describe_returns(self.output_schema) if self.describe_returns else ""
        self.description = f"{definition.description.strip()}\n\n{returns}".strip()
        if self.isolate:
            check_isolable(self.name, self.function, self.arguments.injected)
        self.fifo_lock = (_find_lock(source) or FifoLock()) if self.sequential else None
        self.is_async = is_async(self.function) and not self.isolate
        self._rendered: dict[tuple[str, References], RenderedTool] = {}
        self._aliased: list[RenderedTool] = []
        update_wrapper(self, self.function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "JsonTool[..., R]":
        if instance is None:
            return self
        return self._copy(self._definition.bind_to(instance, owner))

    def renamed(self, name: str) -> "JsonTool[P, R]":
        """Return the same tool under another name."""
        return cast("JsonTool[P, R]", self._copy(replace(self._definition, name=name)))

    def offered(self) -> "JsonTool[P, R]":
        """Return the same tool as one that a search among many tools offers in each request."""
        copy = cast("JsonTool[P, R]", self._copy(self._definition))
        copy.always_offered = True
        return copy

    def _copy(self, definition: Definition) -> "JsonTool[..., R]":
        copy: JsonTool[..., R] = JsonTool.__new__(type(self))
        copy._set_up(definition, self, {})
        return copy

    @property
    def __agentkit__(self) -> ToolSettings:
        """The settings, which a tool made from this one inherits."""
        return cast("ToolSettings", {setting: getattr(self, setting) for setting in DEFAULTS})

    @property
    def is_untrusted(self) -> bool:
        """Whether anyone may have written what the tool returns, or all of it but the trusted fields."""
        return self.label.is_untrusted

    def __repr__(self) -> str:
        return f"JsonTool({self.name}: {self.description.splitlines()[0]})"

    @property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the arguments; shared, so copy it before changing it."""
        return self.arguments.parameters

    @cached_property
    def output_schema(self) -> JsonSchema | None:
        """The JSON Schema of the result: of the return type, with the text of `Returns:`; None without both."""
        return build_output_schema(self.function)

    def schema(self, format: str = "json", *, references: References = "inline") -> dict[str, Any]:
        """Return the tool in a provider's dialect; the dict is shared, so copy it before changing it.

        Args:
            format: json, openai, openai_strict, responses, response_format, anthropic, gemini or mcp.
            references: "inline", or "keep" for `$defs` where the dialect supports them.  Recursive types keep them.
        """
        return self._render(format, references).schema

    def json_schema(self) -> dict[str, Any]:
        """Return the tool for chat completions, `schema("openai")`: the name that other libraries have for it."""
        return self.schema("openai")

    @property
    def fn(self) -> Callable[..., R]:
        """The function, `function`: the name that other libraries have for it."""
        return self.function

    def losses(self, format: str) -> tuple[Loss, ...]:
        """Return the schema keywords that the dialect cannot express, each with its place and its replacement."""
        return self._render(format).losses

    def _render(self, format: str, references: References = "inline") -> RenderedTool:
        """Return the tool in a dialect; the first call for a dialect renders it."""
        key = (format, references)
        if key not in self._rendered:
            output = partial(getattr, self, "output_schema")
            declaration = Declaration(self.name, self.description, self.parameters, output)
            rendered = self._rendered[key] = render(declaration, format, references)
            self._aliased += [rendered] if rendered.aliases else []
        return self._rendered[key]

    def _restore_names(self, arguments: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
        """Return the arguments under the parameters' own names, where a rendered dialect had to replace them."""
        try:
            given = from_json(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return arguments
        if isinstance(given, Mapping):
            for rendered in self._aliased:
                given = rendered.restore_names(given)
        return to_json(given).decode() if isinstance(arguments, str) else given

    standard_schema = _schema_property("json")
    """Plain JSON Schema (draft 2020-12)."""
    openai_schema = _schema_property("openai")
    """The tool for chat completions, as OpenAI and most other providers accept it."""
    openai_strict_schema = _schema_property("openai_strict")
    """The tool for chat completions in strict mode, where its schema allows that mode."""
    openai_responses_schema = _schema_property("responses")
    """The tool for OpenAI's Responses API."""
    anthropic_schema = _schema_property("anthropic")
    """The tool for Anthropic's Messages API."""
    gemini_schema = _schema_property("gemini")
    """The tool as a Gemini function declaration."""
    _repr_html_ = display_with("agentkit.views.html:tool_view")

    def bind(
        self,
        arguments: str | Mapping[str, Any],
        context: RunContext[Any] | None = None,
        *,
        repair: RepairMode | None = None,
    ) -> BoundArguments:
        """Validate arguments and return the prepared call, or the error that the model reads.

        Args:
            arguments: JSON text or a mapping.
            context: The run, which fills the injected parameters.
            repair: Overrides the tool's own setting.
        """
        context = context or RunContext(None)
        injected = self.arguments.injected
        values = {name: find_injected(parameter, context) for name, parameter in injected.items()} if injected else {}
        arguments = self._restore_names(arguments) if self._aliased else arguments
        found = bind_arguments(self.arguments, arguments, values, name=self.name, repair=repair or self.repair)
        if self.isolate and not isinstance(found.ready, ExceptionInfo):
            found = replace(found, ready=partial(run_isolated, self.name, found.ready))
        return found

    def call(self, call: Any) -> R:
        """Call the function with the arguments of `call`, and return its value.

        Args:
            call: A mapping, JSON text, or a tool call as any provider writes it.

        Raises:
            ValueError: the arguments are invalid.
            Exception: anything that the function raises.
        """
        if isinstance(ready := self.bind(extract_arguments(call, self.parameters)).ready, ExceptionInfo):
            raise ValueError(f"{self.name}: {ready.message}")
        return cast(R, resolve(ready()))

    def call_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """Validate `arguments` (JSON text or a mapping), call the function, and return its value or the error."""
        try:
            ready = self.bind(arguments).ready
            return ready if isinstance(ready, ExceptionInfo) else cast(R, resolve(ready()))
        except (Exception, SystemExit) as error:
            return ExceptionInfo.of(error)

    async def acall_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """Like `call_with_raw_arguments`; a coroutine function is awaited on the running loop."""
        try:
            if isinstance(ready := self.bind(arguments).ready, ExceptionInfo):
                return ready
            return cast(R, await aresolve(ready() if self.is_async else await run_in_thread(ready)))
        except (Exception, SystemExit) as error:
            return ExceptionInfo.of(error)


def make_defined_tool(
    definition: Definition, settings: ToolSettings, cls: type[JsonTool[..., Any]] = JsonTool
) -> JsonTool[..., Any]:
    """Return the tool of a complete definition; it inherits the settings that its function declares."""
    tool = cls.__new__(cls)
    tool._set_up(definition, definition.function, settings)
    return tool


def _take_duplicates(function: Any, parameters: Mapping[str, FieldText], settings: Any) -> None:
    """Remove the option `duplicates` of the last release from the settings, and check the parameters by it."""
    if "duplicates" not in settings:
        return
    how = settings.pop("duplicates")
    text = f"duplicates={how!r} is deprecated: leave it out. Repeated values of an enum are dropped"
    frame = sys._getframe(1)
    level = 2
    while frame.f_globals is globals() and frame.f_back is not None:  # `tool`, too, calls `JsonTool`
        frame = frame.f_back
        level += 1
    warnings.warn(text, DeprecationWarning, stacklevel=level)
    check_duplicates(name_of(function), how)
    for name, given in parameters.items():
        read_field_text(f"{name_of(function)}: {name}", given, how)


def _find_lock(function: Any) -> FifoLock | None:
    """Return the lock of the sequential tool that `function` wraps, so that both tools share it."""
    tools = (layer for layer in iter_wrapped(function) if isinstance(layer, JsonTool))
    return next((tool.fifo_lock for tool in tools if tool.fifo_lock), None)


@overload
def tool(function: Callable[P, R], /) -> JsonTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, FieldText] | None = None,
    overload: Choice | None = None,
    **settings: Unpack[ToolSettings],
) -> Callable[[Callable[P, R]], JsonTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a function a tool that stays callable: `@tool`, or `@tool(name=..., ...)` with keywords of `JsonTool`.

    A class, a `ToolExecutor`, is returned as it is, with these settings.
    """
    if function is None:
        return partial(_decorate, **settings)
    if isinstance(function, str) and function.isidentifier():
        raise DefinitionError(f"@tool: expected a function, got {function!r:.80}. For a name: @tool(name=...).")
    return _decorate(function, **settings)


def _decorate(function: Callable[..., Any], **settings: Any) -> Any:
    if isinstance(function, type) and issubclass(function, ToolExecutor):
        function._configure(settings)
        return function
    return JsonTool(function, **settings)


def schema(of: Any, *, format: str = "json", references: References = "inline") -> dict[str, Any]:
    """Return the schema of a callable, a tool or a type, in a provider's dialect.

    Args:
        of: A callable (a docstring is not required here), a tool, or any type that pydantic can validate.  A class with
            fields is described by them.  Any other type is under `answer`, except in plain JSON Schema.
        format: json, openai, openai_strict, responses, response_format, anthropic, gemini or mcp.
        references: "inline", or "keep" for `$defs` where the dialect supports them.

    Raises:
        DefinitionError: the callable or the type cannot be described.
    """
    return render(_declare(of, format), format, references).schema


def function_to_json(function: Callable[..., Any]) -> dict[str, Any]:
    """Return OpenAI's tool dict: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
    return schema(function, format="openai")


def call_function(function: Callable[..., R], call: Any) -> R:
    """Call `function` with the arguments of `call`: a mapping, JSON text, or a call as any provider writes it.

    Raises:
        ValueError: the arguments are invalid.
        Exception: anything that the function raises.
    """
    if isinstance(function, JsonTool):
        return cast(R, function.call(call))
    name = getattr(function, "__name__", "function")
    return JsonTool(function, name="function" if name == "<lambda>" else None, description=name).call(call)


def _declare(of: Any, format: str) -> Declaration:
    if is_arguments_model(of):
        model = ModelSchema(of, of)
        is_type = format in ("json", "response_format")
        name = texts_of(of).name or of.__name__ if is_type else name_of_model(of)
        return Declaration(name, texts_of(of).description, model.parameters)
    if isinstance(of, JsonTool):
        return Declaration(of.name, of.description, of.parameters)
    if _is_type(of):
        plain = build_type_schema(of)
        if format != "json":
            definitions = {"$defs": plain.pop("$defs")} if "$defs" in plain else {}
            plain = {"type": "object", "properties": {"answer": plain}, "required": ["answer"], **definitions}
        return Declaration(getattr(of, "__name__", "answer"), "", plain)
    arguments = build_arguments(of)
    return Declaration(derive_name(of, arguments), derive_description(of, arguments), arguments.parameters)


def _is_type(of: Any) -> bool:
    is_special = of is None or of is Any or isinstance(of, NewType | TypeAliasType)
    return is_special or isinstance(of, type) or get_origin(of) is not None
