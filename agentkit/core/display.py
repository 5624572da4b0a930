"""How values show themselves: by functions far above them, which are loaded when something is shown."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def display_with(place: str) -> Callable[..., Any]:
    """A method that calls the function at `place`, "agentkit.views.html:tool_view" say, with the value."""

    def method(value: Any, *args: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(value, *args)

    return method
