"""An agent behind ACP, driven by a client from npm: `acpx` starts the command as an editor does."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = HERE.parents[1] / ".cache" / "integration" / "node_modules"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def ask(tmp_path, policy, query):
    """Send one prompt; return the messages of the protocol in both directions, and the answer."""
    if shutil.which("node") is None or not (MODULES / "acpx").exists():
        pytest.skip("missing: node with acpx from npm (tests/integration/install.sh)")
    served = shlex.join([sys.executable, "-m", "agentkit", "acp", f"{HERE / 'web_shop.py'}:agent"])
    command = [
        MODULES / ".bin" / "acpx",
        "--agent",
        served,
        policy,
        "--format",
        "json",
        "--cwd",
        tmp_path,
        "exec",
        query,
    ]
    environment = {**ENVIRONMENT, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return messages, [message["params"]["update"] for message in messages if message.get("method") == "session/update"]


def text_of(updates):
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk")


@pytest.mark.integration
def test_acpx_shows_the_calls_of_an_agent_with_their_results(tmp_path):
    messages, updates = ask(tmp_path, "--deny-all", "price of tea")
    calls = [update for update in updates if update["sessionUpdate"] == "tool_call"]
    assert [call["rawInput"] for call in calls] == [{"item": "tea"}, {"item": "gold"}]
    results = {update["rawOutput"]: update["status"] for update in updates if "rawOutput" in update}
    assert results == {"3.5": "completed", "KeyError: 'gold'": "failed"}
    assert text_of(updates).startswith("The price is **3.50 euros**.")
    assert messages[-1]["result"]["stopReason"] == "end_turn"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("policy", "status", "text"),
    [
        ("--approve-all", "completed", "It is done: 4.0 euros went to Ada"),
        ("--deny-all", "failed", "It is done: Denied: this call was not allowed."),
    ],
)
def test_acpx_is_asked_for_permission_and_the_model_reads_the_outcome(policy, status, text, tmp_path):
    messages, updates = ask(tmp_path, policy, "refund")
    (asked,) = [message for message in messages if message.get("method") == "session/request_permission"]
    assert [option["kind"] for option in asked["params"]["options"]] == ["allow_once", "reject_once"]
    assert [update["status"] for update in updates if "status" in update] == ["pending", "in_progress", status]
    assert text_of(updates) == text


@pytest.mark.integration
def test_acpx_gets_the_error_of_a_run_that_fails(tmp_path):
    messages, _ = ask(tmp_path, "--deny-all", "fail")
    assert "the key was refused" in str(messages[-1])
    assert any("error" in message for message in messages)


@pytest.mark.integration
def test_a_question_of_a_server_in_the_middle_of_a_call_is_a_form_of_the_editor():
    if shutil.which("node") is None or not (MODULES / "@agentclientprotocol" / "sdk").exists():
        pytest.skip("missing: node with @agentclientprotocol/sdk from npm (tests/integration/install.sh)")
    served = [sys.executable, "-m", "agentkit", "acp", f"{HERE / 'asking_shop.py'}:agent"]
    command = ["node", str(HERE / "editor.mjs"), *served]
    environment = {**ENVIRONMENT, "MODULES": str(MODULES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found = json.loads(done.stdout)
    assert found["asked"] == ["The server 'everything' asks: Please provide inputs for the following fields:"]
    assert (text_of(found["updates"]), found["stopReason"]) == ("- Name: Ada", "end_turn")
