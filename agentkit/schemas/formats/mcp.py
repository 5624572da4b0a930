"""The Model Context Protocol's tool: flat, the schema under `inputSchema`.

Source: MCP specification 2025-11-25, server/tools: `inputSchema` is JSON Schema, draft 2020-12 unless `$schema` says
otherwise, of type object.
"""

from .declaration import Declaration, Loss, RenderedTool
from .structure import dereference_root, make_answer_root


def to_mcp(declaration: Declaration) -> RenderedTool:
    """Return the tool as an MCP server lists it."""
    losses: list[Loss] = []
    schema = dereference_root(declaration.parameters)
    if schema.get("type") != "object":
        schema = {**schema, "type": "object"} if "properties" in schema else make_answer_root(schema, losses)
    text = {"description": declaration.description} if declaration.description else {}
    return RenderedTool({"name": declaration.name, **text, "inputSchema": schema}, tuple(losses))
