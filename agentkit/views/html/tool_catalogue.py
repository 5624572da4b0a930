"""Tools as HTML: what the model reads of them, and their schemas in every format."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ...schemas.formats import FORMATS
from ...tools.final_answer import FINAL_ANSWER
from ...tools.json_tool import JsonTool
from .markup import Html, build_page, format_count, render_block, render_table, tag, wrap_view

Tool: TypeAlias = JsonTool[..., Any]


def catalogue_page(tools: Mapping[str, Tool]) -> str:
    """Return a page of all tools with their schemas in every format."""
    entries = [(tool, f"t{place}") for place, tool in enumerate(order_tools(tools))]
    contents = [
        tag("li", tag("a", tool.name, href=f"#{anchor}"), "  ", tag("span", _first_line(tool), class_="dim"))
        for tool, anchor in entries
    ]
    articles = (tag("article", *_tool_parts(tool), id=anchor) for tool, anchor in entries)
    return build_page("agentkit: tools", tag("h1", format_count(len(entries), "tool")), tag("ul", *contents), *articles)


def tool_view(tool: Tool) -> Html:
    """Return the view of one tool for a notebook."""
    return wrap_view(*_tool_parts(tool))


def registry_view(tools: Mapping[str, Tool]) -> Html:
    """Return the view of a registry's tools for a notebook."""
    return wrap_view(*folded_tools(tools))


def order_tools(tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools as a person reads them: the one that gives the answer is the last."""
    return sorted(tools.values(), key=lambda tool: tool.name == FINAL_ANSWER)


def folded_tools(tools: Mapping[str, Tool]) -> Iterator[Html]:
    """Yield each tool, folded behind its name and the first line of its description."""
    for tool in order_tools(tools):
        head = tag("summary", tag("b", tool.name), "  ", tag("span", _first_line(tool), class_="dim"))
        yield tag("details", head, *_body(tool), class_="tool")


def _tool_parts(tool: Tool) -> Iterator[Html]:
    yield tag("h2", tag("code", tool.name))
    yield from _body(tool)


def _body(tool: Tool) -> Iterator[Html]:
    yield tag("div", tool.description, class_="text")
    required = tool.parameters.get("required", [])
    rows = []
    for name, schema in tool.parameters.get("properties", {}).items():
        keys = schema if isinstance(schema, dict) else {}
        default = f"default {keys['default']!r}" if "default" in keys else "optional"
        presence = "required" if name in required else default
        rows.append((tag("code", name), _type(schema), presence, str(keys.get("description", ""))))
    if rows:
        yield render_table(("parameter", "type", "", "description"), rows)
    yield tag("div", *(_format(tool, name) for name in FORMATS), class_="formats")


def _format(tool: Tool, name: str) -> Html:
    notes = [tag("div", f"{loss.path}: {loss.keyword}: {loss.moved_to}", class_="note") for loss in tool.losses(name)]
    lost = tag("span", f"  {len(notes)} lost or moved", class_="dim") if notes else None
    return tag("details", tag("summary", name, lost), *notes, render_block(tool.schema(name), 20_000, folded=False))


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


def _first_line(tool: Tool) -> str:
    return tool.description.splitlines()[0]
