"""The Model Context Protocol's tool: flat, the schema under `inputSchema`.

Source: MCP specification 2025-11-25, server/tools: `inputSchema` is JSON Schema, draft 2020-12 unless `$schema` states
another, of type object; so is the optional `outputSchema`, which describes `structuredContent`.  A result that is not
an object stands under the key "result", as servers of the Python SDK send it.
"""

from typing import Any

from ..walk import JsonSchema, dereference_root, inline
from .declaration import Declaration, Loss, RenderedTool, tidy
from .structure import make_answer_root

RESULT = "result"
"""The key of a result that is not an object."""


def to_mcp(declaration: Declaration) -> RenderedTool:
    """Return the tool as an MCP server lists it."""
    losses: list[Loss] = []
    schema = dereference_root(declaration.parameters)
    if schema.get("type") != "object":
        schema = {**schema, "type": "object"} if "properties" in schema else make_answer_root(schema, losses)
    text = {"description": declaration.description} if declaration.description else {}
    output = declaration.output()
    result = {} if output is None else {"outputSchema": _make_object(tidy(inline(output), losses))}
    return RenderedTool({"name": declaration.name, **text, "inputSchema": schema, **result}, tuple(losses))


def _make_object(schema: JsonSchema) -> JsonSchema:
    """Return an output schema of type object; another type is wrapped."""
    schema = dereference_root(schema)
    if schema.get("type") == "object":
        return schema
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {RESULT: schema}, "required": [RESULT], **definitions}


def to_structured_content(value: Any) -> dict[str, Any]:
    """Return a result, as JSON data, in the form that the tool's `outputSchema` describes."""
    return value if isinstance(value, dict) else {RESULT: value}
