"""A server of the official SDK in the stateless era: `python sdk_server.py [PORT [TRANSPORT]]`.

Without a port it is on standard input.  With NEW_KEYS in the environment, each process has its own key for states.
"""

import os
import sys

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity

security = RequestStateSecurity(keys=["0123456789abcdef" * 2])
if "NEW_KEYS" in os.environ:
    security = RequestStateSecurity.ephemeral()
server = MCPServer("shop", request_state_security=security)


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


@server.tool(description="Reports progress, then returns as many characters.")
async def write(characters: int, context: Context) -> str:
    await context.report_progress(1, 2, "half")
    return "x" * characters


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


@server.tool(description="Packs an item; asks for the roots, a name and how many, all at once.")
def pack(item: str, context: Context) -> str | types.InputRequiredResult:
    given = context.input_responses or {}
    if len(given) < 3:
        schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
        asked = types.ElicitRequestFormParams(message=f"How many {item}?", requested_schema=schema)
        sampled = types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text="A name?"))], max_tokens=9
        )
        requests = {
            "roots": types.ListRootsRequest(),
            "name": types.CreateMessageRequest(params=sampled),
            "count": types.ElicitRequest(params=asked),
        }
        return types.InputRequiredResult(input_requests=requests, request_state=f"{sorted(given)}")
    return f"{given['count'].content['count']} {item}, {given['name'].content.text}, {given['roots'].roots[0].name}"


@server.tool(description="Lists the items.")
def items() -> list[str]:
    return ["tea", "coffee"]


@server.tool(description="Lists the prices.")
def prices() -> list[dict[str, float]]:
    return [{"tea": 3.5}, {"coffee": 4.25}]


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("sse" if "sse" in sys.argv else "streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
