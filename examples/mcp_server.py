"""An agent with the tools of an MCP server, a program that the run starts; the server asks the person a question.

The server is this file itself, run with the word "serve"; both sides need `pip install "mcp>=2,<3"`.
A script replaces the model; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

import os
import sys

from agentkit import JsonAgent, Paused
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, answer, call


def serve() -> None:
    """Serve two tools on standard input and output, with the official SDK."""
    import mcp_types as types
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context

    server = Server("shop")

    @server.tool(description="Count the items in stock.")
    def count_stock(item: str) -> int:
        return {"tea": 12}.get(item, 0)

    @server.tool(description="Order an item; the shop asks how many.")
    def order(item: str, context: Context) -> str | types.InputRequiredResult:
        if context.input_responses is None:
            schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
            asked = types.ElicitRequestFormParams(message=f"How many {item}?", requested_schema=schema)
            return types.InputRequiredResult(input_requests={"count": types.ElicitRequest(params=asked)})
        return f"ordered {context.input_responses['count'].content['count']} {item}"

    server.run()


def main() -> None:
    script = call("count_stock", item="tea"), call("order", item="coffee"), answer("Coffee is on its way.")
    effects = {"count_*": "read", "order": "write"}
    with MCPServer([sys.executable, __file__, "serve"], effects=effects, trust="trusted") as shop:
        agent = JsonAgent(shop, model=os.environ.get("AGENTKIT_MODEL") or ScriptedModel(*script))
        try:
            agent.run("How much tea is there? And order coffee.")
        except Paused as pause:
            (question,) = pause.questions
            print(question.text)
            agent.run(session=pause.session, answers={question.id: {"count": 3}})
    agent.show_history()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
