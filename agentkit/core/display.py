"""Let values of lower rooms be displayed by functions of higher rooms, which are imported when they are called."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def display_with(place: str) -> Callable[..., Any]:
    """Return a method that calls the function at `place` ("agentkit.views.html:tool_view", say) with the value."""

    def method(value: Any, *args: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(value, *args)

    return method
