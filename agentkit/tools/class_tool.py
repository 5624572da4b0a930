"""Tools as classes: a name, a description, and `execute` over one class of arguments."""

import inspect
from abc import ABC, abstractmethod
from difflib import get_close_matches
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from ..core.errors import DefinitionError
from ..schemas import is_arguments_model
from .settings import DEFAULTS, ToolSettings, complete_settings, explain_unknown_setting

A = TypeVar("A")
_KEYWORDS = ("name", "description", *DEFAULTS)


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
        for name, value in settings.items():
            if name not in _KEYWORDS:
                raise TypeError(explain_unknown_setting(cls.__name__, name, _KEYWORDS))
            setattr(cls, name, value)
        for name, value in vars(cls).items():
            close = get_close_matches(name, _KEYWORDS, 1, cutoff=0.85)
            if close and name not in _KEYWORDS and not callable(value) and not hasattr(value, "__get__"):
                raise DefinitionError(
                    f"{cls.__name__}.{name}: no such setting. Did you mean {close[0]!r}? If not, rename it to _{name}."
                )
        complete_settings(cls.__name__, _read_settings(cls))
        if "description" not in cls.__dict__ and (text := inspect.cleandoc(cls.__dict__.get("__doc__") or "")):
            cls.description = text

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
