"""`@tool` makes a function a tool."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from ..schemas import Choice, Duplicates, FieldText
from .json_tool import JsonTool
from .settings import ToolSettings

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> JsonTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, FieldText] | None = None,
    duplicates: Duplicates = "dedupe",
    overload: Choice | None = None,
    **settings: Unpack[ToolSettings],
) -> Callable[[Callable[P, R]], JsonTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a function a tool that stays callable: `@tool`, or `@tool(name=..., ...)` with keywords of `JsonTool`."""
    return partial(JsonTool, **settings) if function is None else JsonTool(function, **settings)
