"""A tool: a callable with a name, a description and the schema of its arguments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

from ..core.background import aresolve, is_async, resolve, run_in_thread
from ..core.context import RunContext, find_injected
from ..core.display import display_with
from ..core.errors import ExceptionInfo
from ..core.threads import FifoLock
from ..schemas import (
    Choice,
    Duplicates,
    FieldText,
    JsonSchema,
    ModelSchema,
    build_arguments,
    check_description,
    check_name,
    derive_description,
    derive_name,
    to_snake_case,
)
from ..schemas.formats import Declaration, Loss, References, RenderedTool, render
from .arguments.binding import ArgumentsSchema, BoundArguments, bind_arguments, extract_arguments, restore_names
from .isolation.process import check_isolable, run_isolated
from .settings import (
    DEFAULTS,
    Isolation,
    OnError,
    RepairMode,
    Timeout,
    ToolEffect,
    ToolSettings,
    Trust,
    complete_settings,
    read_declared_settings,
)

P = ParamSpec("P")
R = TypeVar("R")


def _schema_property(format: str) -> "cached_property[dict[str, Any]]":
    return cached_property(lambda tool: tool.schema(format))


class JsonTool(Generic[P, R]):
    """A function that a model can call.

    Args:
        function: Any callable with a docstring and typed parameters; coroutine functions are awaited.
        name: What the model calls it; without it, the function's own name.
        description: What the model reads about it; without it, the docstring's text.
        parameters: What the model reads about parameters, above all that the function says: a description, or a
            mapping with `description` and `enum`.
        duplicates: Whether repeated enum values are dropped ("dedupe") or refused ("error").
        overload: Which of several signatures: its index, its types, or a predicate of it; without it, all of them.
        repair: "off" to tell the model of every slip in the arguments, also where it is certain what was meant.
        on_error: "raise" to end the run with what the function raises (`ToolError` is for the model in any case).
        max_result: Characters of a result that the model reads at once; without it, what the agent says.
        timeout: Seconds, retries included, after which a call in a run is given up and the model told; None is never.
        effect: "read" (it only looks: calls overlap, equal ones of a turn run once), "idempotent" (twice does what once
            does), "write" or "danger" (a person should know): these run alone, in the model's order.  Without it, calls
            overlap and run exactly as often as asked.
        retries: How often a failed call ("read" or "idempotent") is made again, unless it failed with `ToolError`.
        sequential: Whether its calls are kept apart, those of other runs too, as it is not safe in several threads.
        isolate: "process" runs each call in a process that is killed on a timeout or a cancel.  The conditions are
            documented in `agentkit.tools.isolation.process`.
        trust: "untrusted" for what others may have written: the model reads it as data, see `policies.taint`.

    Raises:
        DefinitionError: the name, the description or a parameter's type is missing or cannot be used.
    """

    repair: RepairMode
    on_error: OnError
    max_result: int | None
    timeout: Timeout
    effect: ToolEffect | None
    retries: int
    sequential: bool
    isolate: Isolation | None
    trust: Trust | None
    _chosen: Mapping[str, Any] = {}

    def __init__(
        self,
        function: Callable[P, R],
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, FieldText] | None = None,
        duplicates: Duplicates = "dedupe",
        overload: Choice | None = None,
        **settings: Unpack[ToolSettings],
    ) -> None:
        schema = build_arguments(function, parameters, duplicates, overload)
        self._chosen = {"parameters": parameters, "duplicates": duplicates, "overload": overload}
        description = description or derive_description(function, schema)
        settings = {**read_declared_settings(function), **settings}
        self._set_up(function, schema, name or derive_name(function, schema), description, **settings)

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
        """A tool whose arguments are described by a JSON Schema of type object; `call` gets them by keyword.

        Raises `DefinitionError` when `parameters` is not a valid JSON Schema (draft 2020-12) of an object.
        """
        from ..schemas.raw import RawSchema  # imports jsonschema

        tool = cast("JsonTool[..., R]", cls.__new__(cls))
        tool._set_up(call, RawSchema(name, parameters, call), name, description, **settings)
        return tool

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
        """A tool whose parameters are the fields of `model`; `handler` is called with one instance of it.

        `model` is a pydantic model, a dataclass, a TypedDict or a NamedTuple.  Its name without `Args`, in snake case,
        and its docstring are the tool's, unless others are given.
        """
        tool = cast("JsonTool[..., R]", cls.__new__(cls))
        schema = ModelSchema(model, handler)
        description = description or derive_description(handler, schema)
        tool._set_up(handler, schema, name or to_snake_case(model.__name__), description, **settings)
        return tool

    def _set_up(
        self,
        function: Callable[..., R],
        schema: ArgumentsSchema,
        name: str,
        description: str,
        **settings: Unpack[ToolSettings],
    ) -> None:
        check_name(name)
        check_description(name, description)
        self.function = function
        self.name = name
        self.description = description.strip()
        self.arguments = schema
        vars(self).update(complete_settings(name, settings))
        if self.isolate:
            check_isolable(name, function, schema.injected)
        self.fifo_lock = FifoLock() if self.sequential else None
        self.is_async = is_async(function) and not self.isolate
        self._renderings: dict[tuple[str, str], RenderedTool] = {}
        self._aliased: list[RenderedTool] = []
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "JsonTool[..., R]":
        if instance is None:
            return self
        method = self.function.__get__(instance, owner)
        bound_method = JsonTool(method, name=self.name, description=self.description, **self._chosen, **self._settings)
        bound_method.fifo_lock = self.fifo_lock
        return bound_method

    def renamed(self, name: str) -> "JsonTool[P, R]":
        """The same tool under another name."""
        copy: JsonTool[P, R] = JsonTool.__new__(type(self))
        copy._set_up(self.function, self.arguments, name, self.description, **self._settings)
        copy.fifo_lock = self.fifo_lock
        return copy

    @property
    def _settings(self) -> ToolSettings:
        return cast("ToolSettings", {setting: getattr(self, setting) for setting in DEFAULTS})

    def __repr__(self) -> str:
        return f"JsonTool({self.name}: {self.description.splitlines()[0]})"

    @property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the arguments; shared, so copy it before changing it."""
        return self.arguments.parameters

    def schema(self, format: str = "json", *, references: References = "inline") -> dict[str, Any]:
        """The tool in a provider's dialect, built once and shared, so copy it before changing it.

        `format` is json, openai, openai_strict, responses, response_format, anthropic, gemini or mcp; `references` is
        "inline", or "keep" for `$defs` where the dialect has them (a recursive type keeps them anyway).
        """
        return self._rendering(format, references).schema

    def losses(self, format: str) -> tuple[Loss, ...]:
        """What the dialect cannot hold of this tool's schema: each keyword, where it was and where it went."""
        return self._rendering(format, "inline").losses

    def _rendering(self, format: str, references: References) -> RenderedTool:
        key = (format, references)
        if key not in self._renderings:
            declaration = Declaration(self.name, self.description, self.parameters)
            rendering = self._renderings[key] = render(declaration, format, references)
            self._aliased += [rendering] if rendering.aliases else []
        return self._renderings[key]

    standard_schema = _schema_property("json")
    """Plain JSON Schema (draft 2020-12)."""
    openai_schema = _schema_property("openai")
    """The tool as OpenAI's chat completions, and most other providers, take it."""
    openai_strict_schema = _schema_property("openai_strict")
    """The tool for chat completions in strict mode, where it can be strict."""
    openai_responses_schema = _schema_property("responses")
    """The tool as OpenAI's Responses API takes it."""
    anthropic_schema = _schema_property("anthropic")
    """The tool as Anthropic's messages API takes it."""
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
        """The call with validated arguments, or what is wrong with them; `context` fills the injected parameters."""
        if self._aliased:
            arguments = restore_names(arguments, self._aliased)
        context = context or RunContext(None)
        values = {name: find_injected(hint, context) for name, hint in self.arguments.injected.items()}
        found = bind_arguments(self.arguments, arguments, values, name=self.name, repair=repair or self.repair)
        if self.isolate and not isinstance(found.ready, ExceptionInfo):
            found = replace(found, ready=partial(run_isolated, self.name, found.ready))
        return found

    def call(self, call: Any) -> R:
        """Call the function with the arguments of `call`: a mapping, JSON text, or a call as any provider writes it.

        Raises `ValueError` with what is wrong about the arguments, and whatever the function raises.
        """
        if isinstance(ready := self.bind(extract_arguments(call, self.parameters)).ready, ExceptionInfo):
            raise ValueError(f"{self.name}: {ready.message}")
        return cast(R, resolve(ready()))

    def call_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """Validate `arguments` (JSON text or a mapping), call the function, and return its value or what went wrong."""
        try:
            ready = self.bind(arguments).ready
            return ready if isinstance(ready, ExceptionInfo) else cast(R, resolve(ready()))
        except Exception as error:
            return ExceptionInfo.of(error)

    async def acall_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """`call_with_raw_arguments` for coroutine functions, awaited on the running loop."""
        try:
            if isinstance(ready := self.bind(arguments).ready, ExceptionInfo):
                return ready
            return cast(R, await aresolve(ready() if self.is_async else await run_in_thread(ready)))
        except Exception as error:
            return ExceptionInfo.of(error)
