"""An agent that works on files: reading is free, deleting needs approval.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, Paused, ToolCall
from agentkit_tools import files_tools


def approve_logs(call: ToolCall) -> bool | str:
    """Return True to approve a call, or the reason for a refusal; approve="ask" would ask at the terminal."""
    return call.name != "delete_file" or ".log" in call.arguments or "only logs may be deleted"


with TemporaryDirectory() as name:
    for file, text in {"notes.txt": "buy tea", "build.log": "done", "old.log": "done", "keys.txt": "4711"}.items():
        (Path(name) / file).write_text(text)

    agent = JsonAgent(files_tools(name), approve=approve_logs)
    print(agent("Read notes.txt, and delete build.log and keys.txt."), end="\n\n")

    careful = JsonAgent(files_tools(name))  # without approve= the run pauses, for hours if necessary
    try:
        careful("Delete old.log.")
    except Paused as pause:
        print("waits for approval:", [f"{call.name}({call.arguments})" for call in pause.calls])
        print(careful(session=pause.session, approvals=dict.fromkeys(pause.calls, True)), end="\n\n")
    print("left:", careful("List the files."))
