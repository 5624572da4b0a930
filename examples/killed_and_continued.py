"""A run whose process is killed resumes in another process: no request is paid twice, no call is repeated.

It runs without a key and without a network, as the model is a script; model="openai/gpt-4o-mini" asks a real one.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, tool
from agentkit.journal import runs, show
from agentkit.testing import ScriptedModel, answer, call, calls

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else None
REPLIES = [
    calls(call("pay", bill="gas"), call("pay", bill="water")),
    call("list_payments"),
    answer("Gas and water are paid, each once."),
]


def next_reply(request) -> dict:
    """Return the model's next reply, by the number of replies in the conversation."""
    count = sum(message["role"] == "assistant" for message in request.messages)
    print(f"  the model is asked for reply {count + 1}", flush=True)
    return REPLIES[count]


def make_agent(folder: Path) -> JsonAgent:
    def pay(bill: str) -> str:
        """Pay a bill."""
        with (folder / "payments.txt").open("a") as file:
            file.write(f"{bill}\n")
        if bill == "water" and FOLDER:  # the worst moment: paid, but not yet recorded
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return "paid"

    @tool(effect="read")
    def list_payments() -> list[str]:
        """List the bills that are paid."""
        return (folder / "payments.txt").read_text().split()

    model = ScriptedModel(*[next_reply] * 9)
    return JsonAgent(pay, list_payments, model=model, journal=folder / "runs.db", sequential=True)


if FOLDER:
    make_agent(FOLDER)("Pay my bills.")
else:
    with TemporaryDirectory() as name:
        print("exit code:", subprocess.run([sys.executable, __file__, name]).returncode)
        (run,) = runs(Path(name) / "runs.db", unfinished=True)
        print(f"{run.state} while {run.last}: {run.query!r}")
        print(make_agent(Path(name)).resume(run.id).answer)
        print(show(run.id, store=Path(name) / "runs.db"))
