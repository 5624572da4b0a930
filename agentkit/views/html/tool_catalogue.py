"""Tools as HTML: what a model reads of them, and how each provider is told."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ...schemas.formats import FORMATS, Loss
from .figures import counted
from .markup import Html, block, page, tag, view


class Tool(Protocol):
    """What this file needs of a tool."""

    name: str
    description: str

    @property
    def parameters(self) -> dict[str, Any]: ...

    def schema(self, format: str = "json") -> dict[str, Any]:
        """The tool in a provider's dialect."""
        ...

    def losses(self, format: str) -> tuple[Loss, ...]:
        """What the dialect cannot hold."""
        ...


def catalogue_page(tools: Mapping[str, Tool]) -> str:
    """A page of all tools with their schemas in every format."""
    entries = [(tool, f"t{place}") for place, tool in enumerate(tools.values())]
    contents = [
        tag("li", tag("a", tool.name, href=f"#{anchor}"), "  ", tag("span", _first(tool), class_="dim"))
        for tool, anchor in entries
    ]
    told = (tag("article", *_told(tool), id=anchor) for tool, anchor in entries)
    return page("agentkit: tools", tag("h1", counted(len(entries), "tool")), tag("ul", *contents), *told)


def tool_view(tool: Tool) -> Html:
    """One tool for a notebook."""
    return view(*_told(tool))


def registry_view(tools: Mapping[str, Tool]) -> Html:
    """The tools of a registry for a notebook."""
    return view(*folded(tools))


def folded(tools: Mapping[str, Tool]) -> Iterator[Html]:
    """Each tool by its name and first line; the rest of it is folded up."""
    for tool in tools.values():
        head = tag("summary", tag("b", tool.name), "  ", tag("span", _first(tool), class_="dim"))
        yield tag("details", head, *_body(tool), class_="tool")


def _told(tool: Tool) -> Iterator[Html]:
    yield tag("h2", tag("code", tool.name))
    yield from _body(tool)


def _body(tool: Tool) -> Iterator[Html]:
    yield tag("div", tool.description, class_="said")
    required = tool.parameters.get("required", [])
    rows = [
        tag("tr", *(tag("td", cell) for cell in (
            tag("code", name), _type(schema), "required" if name in required else _default(schema),
            str(schema.get("description", "")) if isinstance(schema, dict) else "",
        )))
        for name, schema in tool.parameters.get("properties", {}).items()
    ]  # fmt: skip
    if rows:
        head = tag("tr", *(tag("th", title) for title in ("parameter", "type", "", "what the model reads of it")))
        yield tag("div", tag("table", head, *rows), class_="wide")
    yield tag("div", *(_format(tool, name) for name in FORMATS), class_="formats")


def _format(tool: Tool, name: str) -> Html:
    notes = [tag("div", f"{loss.path}: {loss.keyword}: {loss.moved_to}", class_="note") for loss in tool.losses(name)]
    lost = tag("span", f"  {len(notes)} lost or moved", class_="dim") if notes else None
    return tag("details", tag("summary", name, lost), *notes, block(tool.schema(name), 20_000, folded=False))


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_type(option) for option in schema["anyOf"])
    kind = schema.get("type", str(schema.get("$ref", "any")).rpartition("/")[2])
    inner = f"[{_type(schema['items'])}]" if isinstance(schema.get("items"), dict) else ""
    return f"{' | '.join(map(str, kind)) if isinstance(kind, list) else kind}{inner}"


def _default(schema: Any) -> str:
    return f"default {schema['default']!r}" if isinstance(schema, dict) and "default" in schema else "optional"


def _first(tool: Tool) -> str:
    return tool.description.splitlines()[0]
