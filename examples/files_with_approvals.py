"""An agent that works on files: reading is free, deleting needs approval.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, Paused, ToolCall, ToolError, tool


def resolve(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if path.parent != folder.resolve() or not path.is_file():
        raise ToolError(f"no file is called {name!r}. Files: {sorted(p.name for p in folder.iterdir())}")
    return path


def make_tools(folder: Path) -> list:
    @tool(effect="read")
    def list_files() -> list[str]:
        """List the files of the folder."""
        return sorted(path.name for path in folder.iterdir())

    @tool(effect="read")
    def read_file(path: str) -> str:
        """Read a file."""
        return resolve(folder, path).read_text()

    @tool(effect="danger")  # each call waits for approval
    def delete_file(path: str) -> str:
        """Delete a file permanently."""
        resolve(folder, path).unlink()
        return "deleted"

    return [list_files, read_file, delete_file]


def approve_logs(call: ToolCall) -> bool | str:
    """Return True to approve a call, or the reason for a refusal; approve="ask" would ask at the terminal."""
    return call.name != "delete_file" or ".log" in call.arguments or "only logs may be deleted"


with TemporaryDirectory() as name:
    for file, text in {"notes.txt": "buy tea", "build.log": "done", "old.log": "done", "keys.txt": "4711"}.items():
        (Path(name) / file).write_text(text)

    agent = JsonAgent(make_tools(Path(name)), approve=approve_logs)
    print(agent("Read notes.txt, and delete build.log and keys.txt."), end="\n\n")

    careful = JsonAgent(make_tools(Path(name)))  # without approve= the run pauses, for hours if necessary
    try:
        careful("Delete old.log.")
    except Paused as pause:
        print("waits for approval:", [f"{call.name}({call.arguments})" for call in pause.calls])
        print(careful(session=pause.session, approvals=dict.fromkeys(pause.calls, True)), end="\n\n")
    print("left:", careful("List the files."))
