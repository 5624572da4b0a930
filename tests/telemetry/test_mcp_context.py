"""The trace context of a call reaches an MCP server, whose SDK sends it."""

import json
import subprocess
import sys

SERVER = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("shop")


@server.tool(description="Return the trace context of the request.")
def read_context(context: Context) -> str:
    return context.request_context.meta["traceparent"]


server.run()
"""
PROGRAM = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from agentkit import JsonAgent
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, answer, call

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
shop = MCPServer([sys.executable, sys.argv[1]], name="shop")
result = JsonAgent(shop, model=ScriptedModel(call("read_context"), answer("x")), telemetry=True).run("?")
spans = {f"{span.context.span_id:016x}": [span.name, span.parent and f"{span.parent.span_id:016x}"]
         for span in exporter.get_finished_spans()}
print(json.dumps([result.calls[0].value["result"], spans]))
"""


def test_a_call_of_an_mcp_server_carries_the_context_of_its_span(tmp_path):
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    command = [sys.executable, "-c", PROGRAM, str(server)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    context, spans = json.loads(done.stdout)
    sent = context.split("-")[2]
    assert spans[spans[sent][1]][0] == "execute_tool read_context"
