"""What a tool is made of: a function, or a class with a name, a description, and `execute` over its arguments.

Objects that cannot be a tool are refused.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

from ..core.errors import DefinitionError, plain_signature, suggest
from ..core.values import frozen
from ..schemas.annotations import FieldText
from ..schemas.functions import Choice
from ..schemas.models import (
    ModelSchema,
    build_arguments,
    derive_description,
    derive_name,
    is_arguments_model,
)
from ..schemas.signature import to_snake_case
from .arguments.binding import ArgumentsSchema
from .settings import DEFAULTS, ToolSettings, complete_settings, explain_unknown_setting

A = TypeVar("A")
_KEYWORDS = ("name", "description", *DEFAULTS)
MIN_SETTING_LIKENESS = 0.85
"""Similarity from which an attribute of a class is taken for a misspelt setting."""


class ToolExecutor(ABC, Generic[A]):
    """A tool as a class: `class WeatherTool(ToolExecutor[WeatherArgs])` with `execute(self, args)`.

    `name` defaults to the class's name without `Tool`, in snake case; `description` to the docstring.  The parameters
    are the fields of the arguments' class: a pydantic model, a dataclass, a TypedDict or a NamedTuple.  An instance is
    accepted wherever tools are, and so is the class itself if its constructor needs no arguments.

    Each of `ToolSettings` may be an attribute (`effect = "danger"`) or a keyword of the class
    (`class DeleteFile(ToolExecutor[Args], effect="danger")`).
    """

    name: str = ""
    description: str = ""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__()
        cls._configure(settings)
        for name, value in vars(cls).items():
            if name in _KEYWORDS or callable(value) or hasattr(value, "__get__"):
                continue
            if hint := suggest(name, _KEYWORDS, likeness=MIN_SETTING_LIKENESS):
                raise DefinitionError(f"{cls.__name__}.{name}: no such setting. {hint} If not, rename it to _{name}.")
        if "description" not in cls.__dict__ and (text := inspect.cleandoc(cls.__dict__.get("__doc__") or "")):
            cls.description = text

    @classmethod
    def _configure(cls, settings: Mapping[str, Any]) -> None:
        """Set attributes of the class, the keywords of `@tool` or of the class statement."""
        for name, value in settings.items():
            if name not in _KEYWORDS:
                raise TypeError(explain_unknown_setting(cls.__name__, name, _KEYWORDS))
            setattr(cls, name, value)
        complete_settings(cls.__name__, _read_settings(cls))

    @abstractmethod
    def execute(self, args: A) -> Any:
        """Do the work with validated arguments; may be a coroutine function."""

    @property
    def __agentkit__(self) -> ToolSettings:
        """The settings of the tool."""
        return _read_settings(self)

    @classmethod
    def arguments_model(cls) -> type:
        """Return the class of the arguments; raises `DefinitionError` if the class names none."""
        for base in cls.__mro__:
            for parent in getattr(base, "__orig_bases__", ()):
                if get_origin(parent) is ToolExecutor and is_arguments_model(model := get_args(parent)[0]):
                    found: type = model
                    return found
        raise DefinitionError(
            f"{cls.__name__}: the class of its arguments is missing. Write class {cls.__name__}(ToolExecutor[MyArgs])"
        )


def _read_settings(owner: Any) -> ToolSettings:
    """Return the settings among the attributes of a class or an instance; methods of the same names do not count."""
    found = {name: getattr(owner, name) for name in DEFAULTS if hasattr(owner, name)}
    return cast("ToolSettings", {name: value for name, value in found.items() if not callable(value)})


SchemaOptions: TypeAlias = tuple[Mapping[str, FieldText] | None, Choice | None]
"""The keywords `parameters` and `overload` of a tool."""
NO_OPTIONS: SchemaOptions = (None, None)


@frozen
class Definition:
    """A function, the schema of its arguments, and the texts that the model reads.

    Attributes:
        options: How the schema was built from the function; None if it is built from something else.
    """

    function: Callable[..., Any]
    schema: ArgumentsSchema
    name: str
    description: str
    options: SchemaOptions | None = None

    def redefine(self, name: str | None, description: str | None, options: SchemaOptions) -> "Definition":
        """Return the definition with other texts; raises `DefinitionError` for options that it cannot have."""
        name = name or self.name
        description = description or self.description
        if options == NO_OPTIONS:
            return replace(self, name=name, description=description)
        if self.options is None:
            raise _refuse_options(f"the tool {self.name!r}")
        return define(self.function, name, description, options)

    def bind_to(self, instance: object, owner: type | None) -> "Definition":
        """Return the definition of the method that the function is on `instance`."""
        method = self.function.__get__(instance, owner)
        return replace(self, function=method, schema=build_arguments(method, *(self.options or NO_OPTIONS)))


def define(function: Any, name: str | None, description: str | None, options: SchemaOptions = NO_OPTIONS) -> Definition:
    """Return the definition of a function or a `ToolExecutor` (class, instance); raise `DefinitionError` for others."""
    check_can_be_tool(function)
    if isinstance(function, type) and issubclass(function, ToolExecutor):
        try:
            function = function()
        except TypeError as error:
            raise DefinitionError(
                f"{function.__name__}: its constructor needs arguments ({error}). Pass an instance."
            ) from error
    if isinstance(function, ToolExecutor):
        if options != NO_OPTIONS:
            raise _refuse_options(type(function).__name__)
        execute = function.execute
        model = ModelSchema(function.arguments_model(), function.execute)
        name = name or function.name or to_snake_case(type(function).__name__)
        description = description or function.description or derive_description(execute, model)
        return Definition(execute, model, name, description)
    schema = build_arguments(function, *options)
    name = name or derive_name(function, schema)
    description = description or derive_description(function, schema)
    return Definition(function, schema, name, description, options)


def check_can_be_tool(entry: Any) -> None:
    """Raise `DefinitionError` for an agent, a class, an instance or a dict, with what to pass instead."""
    function = entry
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else function
    if callable(getattr(type(owner), "as_tool", None)):
        raise DefinitionError(
            f"{type(owner).__name__}: an agent is not a tool, because its parameters are not for a model "
            '(approvals=, journal=). Pass agent.as_tool("name", "What it does.") instead.'
        )
    if isinstance(function, type) and not (issubclass(function, ToolExecutor) or is_arguments_model(function)):
        name = function.__name__
        raise DefinitionError(
            f"{name}: a class is not a tool. For its methods: ToolRegistry.from_object({name}(...)). For one of them: "
            f"{name}(...).method."
        )
    if callable(function) or isinstance(function, ToolExecutor):
        return
    name = type(function).__name__
    if isinstance(function, Mapping):
        remedy = "Pass functions, in a list. For a JSON Schema: JsonTool.from_schema(name=, description=, ...)."
    elif isinstance(function, str | int | float | None):
        remedy = "Pass the function itself."
        if isinstance(function, str) and (function == "offline" or ("/" in function and " " not in function)):
            remedy = f"Pass functions. For a model: model={function!r}."
        elif isinstance(function, str) and not function.isidentifier():
            remedy = "Pass functions. What the agent is for: description=..."
    elif inspect.iscoroutine(function) or inspect.isasyncgen(function):
        remedy = f"Pass the function itself: {function.__name__}, not {function.__name__}(...)."
    elif isinstance(function, classmethod):
        remedy = "Write @tool below @classmethod."
    else:
        remedy = f"For the methods of an object: ToolRegistry.from_object({name.lower()})."
    raise DefinitionError(f"a tool must be a function or a JsonTool, got {name}: {function!r:.80}. {remedy}")


def check_is_bound(function: Any) -> None:
    """Raise `DefinitionError` for a function of a class that lacks its object, like `Shop.price`."""
    holder, _, name = getattr(function, "__qualname__", "").rpartition(".")
    if not inspect.isfunction(function) or not holder or holder.endswith("<locals>"):
        return
    first = next(iter(plain_signature(function).parameters.values()), None)
    if first is not None and first.name == "self" and first.annotation is first.empty:
        holder = holder.rpartition(".")[2]
        raise DefinitionError(
            f"{holder}.{name}: a method needs its object. Pass {holder}(...).{name}, or all methods of an object: "
            f"ToolRegistry.from_object({holder}(...))."
        )


def explain_wrapper(function: Any) -> str:
    """Return what to write where `function` comes from a decorator without `functools.wraps`, else ""."""
    if not inspect.isfunction(function) or "<locals>" not in function.__qualname__:
        return ""
    kinds = [parameter.kind for parameter in plain_signature(function).parameters.values()]
    if kinds != [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return ""
    return (
        f"If a decorator returned it, write @functools.wraps(function) above `def {function.__name__}`: then the tool "
        "has the name, the docstring and the parameters of your function. Else write a docstring."
    )


def _refuse_options(name: str) -> DefinitionError:
    return DefinitionError(
        f"{name}: parameters= and overload= are for functions. Describe the parameters in the class or "
        "the schema of the arguments."
    )
