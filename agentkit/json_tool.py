"""A tool: a callable with a name, a description and the schema of its arguments."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from .arguments import Arguments, bound
from .errors import DefinitionError, ExceptionInfo
from .formats import format_named
from .schemas import FunctionSchema, JsonSchema, name_of, plain_function
from .workers import run_coroutine

P = ParamSpec("P")
R = TypeVar("R")

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider takes as a tool's name (OpenAI and Anthropic: 64 characters; Gemini: no digit first)."""


class JsonTool(Generic[P, R]):
    """A function that a model can call.

    Args:
        function: Any callable with a docstring and typed parameters; coroutine functions are awaited.
        name: What the model calls it; without it, the function's own name.
        description: What the model reads about it; without it, the docstring's text.

    Raises:
        DefinitionError: the name, the description or a parameter's type is missing or cannot be used.
    """

    def __init__(self, function: Callable[P, R], /, *, name: str | None = None, description: str | None = None) -> None:
        schema = FunctionSchema(function)
        self._set_up(function, schema, name or _own_name(function), description or schema.documentation.description)

    @classmethod
    def from_schema(
        cls, *, name: str, description: str, parameters: Mapping[str, Any], call: Callable[..., R]
    ) -> "JsonTool[..., R]":
        """A tool whose arguments are described by a JSON Schema of type object; `call` gets them by keyword.

        Raises `DefinitionError` when `parameters` is not a valid JSON Schema (draft 2020-12) of an object.
        """
        from .schemas.raw import RawSchema  # imports jsonschema

        tool = cast("JsonTool[..., R]", cls.__new__(cls))
        tool._set_up(call, RawSchema(name, parameters, call), name, description)
        return tool

    def _set_up(self, function: Callable[..., R], schema: Arguments, name: str, description: str) -> None:
        if not NAME.fullmatch(name):
            raise DefinitionError(
                f"{name!r} cannot be a tool's name: providers take letters, digits, _ and -, not starting with a digit "
                f"or -, at most 64 characters. Give another one: @tool(name={_suggested(name)!r})."
            )
        if not description.strip():
            raise DefinitionError(
                f"the tool {name!r} has no description, and a model must know what it is for. "
                f'Write a docstring under `def {name}(...)`, for example """Looks up ... and returns ...""", '
                'or give JsonTool(..., description="...").'
            )
        self.function = function
        self.name = name
        self.description = description.strip()
        self.arguments = schema
        self.is_async = inspect.iscoroutinefunction(plain_function(function))
        self._schemas: dict[str, dict[str, Any]] = {}
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "JsonTool[..., R]":
        if instance is None:
            return self
        return JsonTool(self.function.__get__(instance, owner), name=self.name, description=self.description)

    def renamed(self, name: str) -> "JsonTool[P, R]":
        """The same tool under another name."""
        copy: JsonTool[P, R] = JsonTool.__new__(type(self))
        copy._set_up(self.function, self.arguments, name, self.description)
        return copy

    def __repr__(self) -> str:
        return f"JsonTool({self.name}: {self.description.splitlines()[0]})"

    @property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the arguments; shared, so copy it before changing it."""
        return self.arguments.parameters

    def schema(self, format: str = "json") -> dict[str, Any]:
        """The tool in a provider's dialect ("json", "openai", "anthropic", "gemini"), built once and shared."""
        if format not in self._schemas:
            self._schemas[format] = format_named(format)(self.name, self.description, self.parameters)
        return self._schemas[format]

    @cached_property
    def standard_schema(self) -> dict[str, Any]:
        """Plain JSON Schema (draft 2020-12)."""
        return self.schema("json")

    @cached_property
    def openai_schema(self) -> dict[str, Any]:
        """The tool as OpenAI's chat completions, and most other providers, take it."""
        return self.schema("openai")

    @cached_property
    def anthropic_schema(self) -> dict[str, Any]:
        """The tool as Anthropic's messages API takes it."""
        return self.schema("anthropic")

    @cached_property
    def gemini_schema(self) -> dict[str, Any]:
        """The tool as a Gemini function declaration."""
        return self.schema("gemini")

    def call_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """Validate `arguments` (JSON text or a mapping), call the function, and return its value or what went wrong."""
        try:
            outcome = self._begin(arguments)
            return cast(R, run_coroutine(outcome)) if inspect.iscoroutine(outcome) else cast(R, outcome)
        except Exception as error:
            return ExceptionInfo.of(error)

    async def acall_with_raw_arguments(self, arguments: str | Mapping[str, Any]) -> R | ExceptionInfo:
        """`call_with_raw_arguments` for coroutine functions, awaited on the running loop."""
        try:
            outcome = self._begin(arguments)
            return cast(R, await outcome) if inspect.isawaitable(outcome) else cast(R, outcome)
        except Exception as error:
            return ExceptionInfo.of(error)

    def _begin(self, arguments: str | Mapping[str, Any]) -> Any:
        call = bound(self.arguments, arguments)
        return call if isinstance(call, ExceptionInfo) else call()


@overload
def tool(function: Callable[P, R], /) -> JsonTool[P, R]: ...
@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[Callable[P, R]], JsonTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a function a tool: `@tool`, or `@tool(name=..., description=...)`; it can still be called as before."""
    if function is None:
        return lambda function: JsonTool(function, **settings)
    return JsonTool(function, **settings)


def as_tool(entry: Callable[..., Any]) -> JsonTool[..., Any]:
    """`entry` itself if it is a tool, else the tool made of it; `DefinitionError` if it is no callable."""
    if isinstance(entry, JsonTool):
        return entry
    if not callable(entry):
        raise DefinitionError(f"a tool must be a function or a JsonTool, not {type(entry).__name__}: {entry!r:.80}")
    return JsonTool(entry)


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(plain_function(function), "__name__", "")
    if name == "__call__":
        name = type(function).__name__
    if name == "<lambda>":
        raise DefinitionError(
            f"{name_of(function)}: a lambda has no name a model could call. "
            'Give one: JsonTool(lambda ..., name="add", description="Adds ...").'
        )
    return str(name)


def _suggested(name: str) -> str:
    text = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:64]
    return text if NAME.fullmatch(text) else f"tool_{text}"[:64]
