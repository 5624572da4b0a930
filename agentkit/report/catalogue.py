"""Tools as HTML: what a model reads of them, and how each provider is told."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..formats import FORMATS
from ..json_tool import JsonTool
from .markup import Html, page, tag, value, view, visible


def catalogue_page(tools: Mapping[str, JsonTool[..., Any]]) -> str:
    """A page of all tools with their schemas in every format."""
    contents = tag("ul", *(tag("li", tag("a", name, href=f"#{name}")) for name in tools))
    return page("agentkit: tools", tag("h1", f"{len(tools)} tools"), contents, *map(_whole, tools.values()))


def tool_view(tool: JsonTool[..., Any]) -> Html:
    """One tool for a notebook."""
    return view(*_told(tool), _formats(tool))


def registry_view(tools: Mapping[str, JsonTool[..., Any]]) -> Html:
    """The tools of a registry for a notebook."""
    return view(*(tag("details", tag("summary", tag("b", name), f"  {_first(tool)}"), *_told(tool))
                  for name, tool in tools.items()))  # fmt: skip


def _whole(tool: JsonTool[..., Any]) -> Html:
    return tag("article", *_told(tool), _formats(tool), id=tool.name)


def _told(tool: JsonTool[..., Any]) -> Iterator[Html]:
    yield tag("h2", tag("code", tool.name))
    yield tag("div", visible(tool.description), class_="said")
    required = tool.parameters.get("required", [])
    rows = [
        tag("tr", *(tag("td", cell) for cell in (
            tag("code", name), _type(schema), "required" if name in required else _default(schema),
            visible(schema.get("description", "")),
        )))
        for name, schema in tool.parameters["properties"].items()
    ]  # fmt: skip
    if rows:
        yield tag("table", *rows)


def _formats(tool: JsonTool[..., Any]) -> Html:
    def shown(name: str) -> Html:
        losses = [f"{loss.path} {loss.keyword}: {loss.moved_to}" for loss in tool.losses(name)]
        notes = [tag("div", visible(loss), class_="note") for loss in losses]
        return tag("details", tag("summary", name), *notes, value(tool.schema(name)))

    return tag("div", *map(shown, FORMATS))


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_type(option) for option in schema["anyOf"])
    inner = f"[{_type(schema['items'])}]" if isinstance(schema.get("items"), dict) else ""
    return f"{schema.get('type', schema.get('$ref', 'any').rpartition('/')[2])}{inner}"


def _default(schema: Mapping[str, Any]) -> str:
    return f"default {schema['default']!r}" if "default" in schema else "optional"


def _first(tool: JsonTool[..., Any]) -> str:
    return visible(tool.description.splitlines()[0])
