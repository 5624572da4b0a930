"""A call of a server's tool through agentkit beside the official SDK alone: `python benchmarks/mcp_calls.py`.

Both talk to the same small program over standard input and output; they take turns in every round.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

ROUNDS = 15
CALLS = 100
AT_ONCE = 50


def serve() -> None:
    """Answer each request at once."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "echo", "description": "Echoes.", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": "hi"}]},
    }
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            known = request["method"] in results
            part = (
                {"result": results[request["method"]]} if known else {"error": {"code": -32601, "message": "unknown"}}
            )
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **part}), flush=True)


async def time_calls(call: Callable[[], Awaitable[object]]) -> tuple[float, ...]:
    """Return milliseconds of a call: among `CALLS` in a row, its CPU there, and among `AT_ONCE` at once."""
    start = time.perf_counter()
    cpu = time.process_time()
    for _ in range(CALLS):
        await call()
    alone = time.perf_counter() - start
    cpu = time.process_time() - cpu
    start = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return alone / CALLS * 1000, cpu / CALLS * 1000, (time.perf_counter() - start) / AT_ONCE * 1000


async def compare() -> None:
    """Print the medians of the rounds, in ms, and their ratios."""
    from mcp import Client, StdioServerParameters

    from agentkit.mcp import MCPServer

    command = [sys.executable, __file__, "serve"]
    found: dict[str, list[tuple[float, ...]]] = {"SDK": [], "agentkit": []}
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(parameters) as client, MCPServer(command) as server:
        tools = server.tools
        contestants = {
            "SDK": lambda: client.call_tool("echo", {"text": "hi"}),
            "agentkit": lambda: tools.aexecute("echo", '{"text": "hi"}'),
        }
        for call in contestants.values():  # warm up
            await time_calls(call)
        for _ in range(ROUNDS):
            for name, call in contestants.items():
                found[name].append(await time_calls(call))
    for place, what in enumerate((f"{CALLS} in a row", f"{CALLS} in a row, CPU", f"{AT_ONCE} at once")):
        sdk, own = (statistics.median(entry[place] for entry in found[name]) for name in ("SDK", "agentkit"))
        print(f"a call, {what}: SDK {sdk:.2f} ms, agentkit {own:.2f} ms, {own - sdk:+.2f} ms, ratio {own / sdk:.2f}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else asyncio.run(compare())
