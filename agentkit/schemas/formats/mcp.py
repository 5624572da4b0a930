"""The Model Context Protocol's tool: flat, the schema under `inputSchema`.

Source: MCP specification 2025-11-25, server/tools: `inputSchema` is JSON Schema, draft 2020-12 unless `$schema` says
otherwise, of type object.
"""

from .declaration import Declaration, Loss, Rendering
from .structure import answer_root, dereferenced


def mcp(declaration: Declaration) -> Rendering:
    """The tool as a server lists it."""
    losses: list[Loss] = []
    schema = dereferenced(declaration.parameters)
    if schema.get("type") != "object":
        schema = {**schema, "type": "object"} if "properties" in schema else answer_root(schema, losses)
    text = {"description": declaration.description} if declaration.description else {}
    return Rendering({"name": declaration.name, **text, "inputSchema": schema}, tuple(losses))
