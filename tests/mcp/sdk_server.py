"""A server of the official SDK in the stateless era: `python sdk_server.py [PORT]`, without a port on standard input."""

import sys

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity

server = MCPServer("shop", request_state_security=RequestStateSecurity(keys=["0123456789abcdef" * 2]))


@server.tool(description="Adds integers.")
def add(a: int, b: int) -> int:
    return a + b


@server.tool(description="Offers one more tool.")
async def grow(context: Context) -> str:
    server.add_tool(fresh, description="Is new.")
    await context.notify_tools_changed()
    return "grown"


def fresh() -> str:
    return "fresh"


@server.tool(description="Reports progress.")
async def work(context: Context) -> str:
    await context.report_progress(1, 2, "half")
    return "worked"


@server.tool(description="Orders an item; asks how many.")
def order(item: str, context: Context) -> str | types.InputRequiredResult:
    if context.input_responses is None:
        schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
        asked = types.ElicitRequestFormParams(message=f"How many {item}?", requested_schema=schema)
        requests = {"count": types.ElicitRequest(params=asked)}
        return types.InputRequiredResult(input_requests=requests, request_state=f"ordering {item}")
    return f"{context.request_state}: {context.input_responses['count'].content['count']}"


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
