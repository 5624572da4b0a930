"""A run that dies in the middle of its work, and goes on in another process: nothing is paid for or done twice.

It runs without a key and without a network, as the model is a script; model="openai/gpt-4o-mini" asks a real one.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, tool
from agentkit.sessions.journal import runs, show
from agentkit.testing import ScriptedModel

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else None
CALLS = [
    [("pay", {"bill": "gas"}), ("pay", {"bill": "water"})],
    [("payments", {})],
    [("final_answer", {"text": "Gas and water are paid, each once."})],
]


def next_reply(request) -> dict:
    """What the model says, by how much it has said so far."""
    said = sum(message["role"] == "assistant" for message in request.messages)
    print(f"  the model is asked for reply {said + 1}", flush=True)
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in CALLS[said]]}


def agent_in(folder: Path) -> JsonAgent:
    def pay(bill: str) -> str:
        """Pays a bill."""
        with (folder / "payments.txt").open("a") as file:
            file.write(f"{bill}\n")
        if bill == "water" and FOLDER:  # the worst moment: it is paid, and nobody has heard of it
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return "paid"

    @tool(effect="read")
    def payments() -> list[str]:
        """Lists the bills that are paid."""
        return (folder / "payments.txt").read_text().split()

    model = ScriptedModel(*[next_reply] * 9)
    return JsonAgent(pay, payments, model=model, journal=folder / "runs.db", sequential=True)


if FOLDER:
    agent_in(FOLDER)("Pay my bills.")
else:
    with TemporaryDirectory() as name:
        print("exit code:", subprocess.run([sys.executable, __file__, name]).returncode)
        (run,) = runs(Path(name) / "runs.db", unfinished=True)
        print(f"{run.state} while {run.last}: {run.query!r}")
        print(agent_in(Path(name)).resume(run.id).answer)
        print(show(run.id, store=Path(name) / "runs.db"))
