"""Spans over OTLP/HTTP on the loopback in a real backend, whose API then returns the trees of the runs."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from ports import free_port
from waiting import HANGS

ROOT = Path(__file__).parents[2]
PHOENIX = ROOT / ".cache" / "integration" / "phoenix" / "bin" / "phoenix"

PROGRAM = """
import asyncio
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
import agentkit.telemetry
from agentkit import JsonAgent, ModelError, RunError
from agentkit.testing import ScriptedModel, answer, call

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
agentkit.telemetry.instrument()

def add(a: int, b: int) -> int:
    "Adds two integers."
    return a + b

begun = asyncio.Event()

async def wait() -> str:
    "Waits."
    begun.set()
    await asyncio.sleep(600)

clerk = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), answer("3")), description="Knows sums.")
JsonAgent(clerk.as_tool("clerk"), model=ScriptedModel(call("clerk", query="1 + 2"), answer("3")))("What is 1 + 2?")
try:
    JsonAgent(add, model=ScriptedModel(ModelError("no key", kind="authentication"), name="failing"))("?")
except RunError:
    pass

async def cancel():
    task = asyncio.create_task(JsonAgent(wait, model=ScriptedModel(call("wait"), name="cancelled")).arun("?"))
    await begun.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass

asyncio.run(cancel())
provider.shutdown()
"""


@pytest.fixture
def phoenix(tmp_path):
    if not PHOENIX.exists():
        pytest.skip("arize-phoenix is not installed: run tests/integration/install.sh")
    port = free_port()
    own = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(tmp_path),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen([PHOENIX, "serve"], env={**os.environ, **own}, stdout=log, stderr=log)
        try:
            wait_for(lambda: urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).status == 200 or server.poll())
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def wait_for(find):
    """Return what the server has, as soon as it has it."""
    while True:
        with suppress(URLError, ConnectionError, TimeoutError):
            if found := find():
                return found
        time.sleep(0.2)


def tree(spans, parent=None):
    inside = sorted((span for span in spans if span["parent_id"] == parent), key=lambda span: span["start_time"])
    return [[span["name"], *tree(spans, span["context"]["span_id"])] for span in inside]


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_a_real_backend_shows_the_trees_and_the_ends_of_failed_and_cancelled_runs(phoenix):
    exporter = {"OTEL_EXPORTER_OTLP_ENDPOINT": phoenix, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **exporter}, check=True)

    def fetch():
        with urlopen(f"{phoenix}/v1/projects/default/spans?limit=100", timeout=60) as response:
            spans = json.load(response)["data"]
        return spans if len(spans) >= 13 else None

    spans = wait_for(fetch)
    chat = ["chat scripted"]
    inner = ["invoke_agent clerk", chat, ["execute_tool add"], chat]
    assert tree(spans) == [
        ["invoke_agent", chat, ["execute_tool clerk", inner], chat],
        ["invoke_agent", ["chat failing"]],
        ["invoke_agent", ["chat cancelled"], ["execute_tool wait"]],
    ]
    found = {span["name"]: span for span in spans if span["status_code"] == "ERROR" and span["name"] != "invoke_agent"}
    kinds = {name: span["attributes"]["error.type"] for name, span in found.items()}
    assert kinds == {"chat failing": "authentication", "execute_tool wait": "cancelled"}
    roots = sorted((span["start_time"], span) for span in spans if span["name"] == "invoke_agent")
    outcomes = [span["attributes"]["agentkit.run.outcome"] for _, span in roots]
    assert outcomes == ["answer", "error", "cancelled"]
    assert all(span["end_time"] for span in spans)
