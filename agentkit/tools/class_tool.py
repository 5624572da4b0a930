"""Tools as classes: a name, a description, and `execute` over one class of arguments."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar, get_args, get_origin

from ..core.errors import DefinitionError
from ..schemas import is_arguments_model

A = TypeVar("A")


class ToolExecutor(ABC, Generic[A]):
    """A tool as a class: `class WeatherTool(ToolExecutor[WeatherArgs])` with `execute(self, args)`.

    `name` defaults to the class's name without `Tool`, in snake case; `description` to the docstring.  The parameters
    are the fields of the arguments' class: a pydantic model, a dataclass, a TypedDict or a NamedTuple.  An instance is
    accepted wherever tools are, and so is the class itself if its constructor needs no arguments.
    """

    name: str = ""
    description: str = ""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "description" not in cls.__dict__ and (text := inspect.cleandoc(cls.__dict__.get("__doc__") or "")):
            cls.description = text

    @abstractmethod
    def execute(self, args: A) -> Any:
        """Do the work with validated arguments; may be a coroutine function."""

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
