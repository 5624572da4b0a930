"""Processes that fork after a request: each has connections of its own."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentkit.testing.wires import find_wire
from agentkit.testing.wires.reply import drop_missing

FORKS = """
import os, sys
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.tools.registry import ToolRegistry
model = LiteLLMModel("openai/gpt-4o", api_base=sys.argv[1], api_key="sk-test")
ask = lambda: list(model.ask(Request((user("hi"),), ToolRegistry([]), "auto")))
ask()
if pid := os.fork():
    status = os.waitpid(pid, 0)[1]
    ask()
    sys.exit(status)
status = 1
try:
    ask()
    status = 0
finally:
    os._exit(status)
"""


class KeepAlive(BaseHTTPRequestHandler):
    """Keeps its connections, which `ModelServer` ends after each reply."""

    protocol_version = "HTTP/1.1"
    connections: list[object]

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def setup(self) -> None:
        super().setup()
        self.connections.append(self.client_address)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = find_wire(self.path).build_reply({"content": "hello"}, "gpt-4o")
        body = json.dumps(drop_missing(reply)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_does_not_send_on_a_connection_of_its_parent():
    connections: list[object] = []
    handler = type("Counted", (KeepAlive,), {"connections": connections})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, url], check=True)
        server.shutdown()
    assert len(connections) == 2  # one of the parent, which keeps it, and one of the child
