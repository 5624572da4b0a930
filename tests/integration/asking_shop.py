"""The agent of the tests whose MCP server asks the person in the middle of a call."""

from pathlib import Path

from agentkit import JsonAgent
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, answer, call

MODULES = Path(__file__).parents[2] / ".cache" / "integration" / "node_modules"
EVERYTHING = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
server = MCPServer(["node", str(EVERYTHING)], name="everything", trust="trusted", effects={"*": "read"})
model = ScriptedModel(
    call("trigger-elicitation-request"), lambda request: answer(request.messages[-1]["content"].splitlines()[2])
)
agent = JsonAgent(server, model=model)
