"""The schemas of one tool in the providers' dialects."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from ..schemas.formats import Declaration, References, RenderedTool, render


class SchemaCache:
    """Renders a tool in each dialect once, and restores the parameter names that a dialect replaced."""

    def __init__(self, declare: Callable[[], Declaration]) -> None:
        self._declare = declare
        self._rendered: dict[tuple[str, References], RenderedTool] = {}
        self._aliased: list[RenderedTool] = []

    def render(self, format: str, references: References = "inline") -> RenderedTool:
        """Return the tool in a dialect; the first call for a dialect renders it."""
        key = (format, references)
        if key not in self._rendered:
            rendered = self._rendered[key] = render(self._declare(), format, references)
            self._aliased += [rendered] if rendered.aliases else []
        return self._rendered[key]

    def restore_names(self, arguments: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
        """Return the arguments under the parameters' own names, where a rendered dialect had to replace them."""
        if not self._aliased:
            return arguments
        try:
            given = from_json(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return arguments
        if isinstance(given, Mapping):
            for rendered in self._aliased:
                given = rendered.restore_names(given)
        return to_json(given).decode() if isinstance(arguments, str) else given
