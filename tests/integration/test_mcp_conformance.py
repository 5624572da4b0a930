"""The conformance suite of the protocol against our server, over HTTP."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port, is_open
from waiting import wait_until

HERE = Path(__file__).parent
SUITE = HERE.parents[1] / ".cache/integration/node_modules/@modelcontextprotocol/conformance/dist/index.js"
NOT_OFFERED = {
    "logging-set-level": "the server sends no log: what a tool prints goes to standard error",
    "tools-call-with-logging": "the server sends no log",
    "completion-complete": "there are no prompts and templates whose arguments could be completed",
    "tools-call-audio": "results of tools are text, images and structured content",
    "tools-call-embedded-resource": "results of tools are text, images and structured content",
    "tools-call-mixed-content": "the scenario wants an embedded resource beside text and image",
    "tools-call-sampling": "tools ask no model of the client: an agent that is served has its own",
    "server-sse-polling": "a stream that broke is not resumed: the server keeps no events",
    "resources-list": "the server has no resources",
    "resources-read-text": "the server has no resources",
    "resources-read-binary": "the server has no resources",
    "resources-templates-read": "the server has no resources",
    "resources-subscribe": "the server has no resources",
    "resources-unsubscribe": "the server has no resources",
    "prompts-list": "the server has no prompts",
    "prompts-get-simple": "the server has no prompts",
    "prompts-get-with-args": "the server has no prompts",
    "prompts-get-embedded-resource": "the server has no prompts",
    "prompts-get-with-image": "the server has no prompts",
}
OFFERED = {
    "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-error",
    "tools-call-with-progress", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
    "json-schema-2020-12", "server-sse-multiple-streams", "dns-rebinding-protection",
}  # fmt: skip

pytestmark = pytest.mark.integration


@pytest.fixture
def url():
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, str(HERE / "conformance_server.py"), str(port)], env=environment)
    try:
        wait_until(lambda: process.poll() is not None or is_open(port))
        assert process.poll() is None, "the server ended"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(
    not SUITE.exists(),
    reason="the npm package @modelcontextprotocol/conformance is missing: tests/integration/install.sh",
)
def test_the_conformance_suite_of_servers_passes(url, tmp_path):
    expected = tmp_path / "not_offered.yml"
    expected.write_text("server:\n" + "".join(f"  - {name}  # {reason}\n" for name, reason in NOT_OFFERED.items()))
    command = ["node", str(SUITE), "server", "--url", url, "--suite", "all", "--expected-failures", str(expected)]
    done = subprocess.run(
        [*command, "--output-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    assert done.returncode == 0, summary + done.stderr  # also not 0 if a scenario passes that is expected to fail
    assert set(re.findall(r"^✓ ([\w-]+): ", summary, re.MULTILINE)) == OFFERED
