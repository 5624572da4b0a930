"""An agent that works on files: it may read as it likes, and asks before it deletes.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, Paused, ToolCall, ToolError, tool


def inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if path.parent != folder.resolve() or not path.is_file():
        raise ToolError(f"there is no file {name!r}; there are {sorted(p.name for p in folder.iterdir())}")
    return path


def file_tools(folder: Path) -> list:
    @tool(effect="read")
    def list_files() -> list[str]:
        """Lists the files of the folder."""
        return sorted(path.name for path in folder.iterdir())

    @tool(effect="read")
    def read_file(path: str) -> str:
        """Reads a file."""
        return inside(folder, path).read_text()

    @tool(effect="danger")  # a call of it waits for somebody's word
    def delete_file(path: str) -> str:
        """Deletes a file for good."""
        inside(folder, path).unlink()
        return "deleted"

    return [list_files, read_file, delete_file]


def logs_only(call: ToolCall) -> bool | str:
    """The decision about a call: True, or why not; approve="ask" would ask the person at the terminal."""
    return call.name != "delete_file" or ".log" in call.arguments or "only logs may be deleted"


with TemporaryDirectory() as name:
    for file, text in {"notes.txt": "buy tea", "build.log": "done", "old.log": "done", "keys.txt": "4711"}.items():
        (Path(name) / file).write_text(text)

    agent = JsonAgent(file_tools(Path(name)), approve=logs_only)
    print(agent("Read notes.txt, and delete build.log and keys.txt."), end="\n\n")

    careful = JsonAgent(file_tools(Path(name)))  # nobody decides, so the run waits: hours, if need be
    try:
        careful("Delete old.log.")
    except Paused as pause:
        print("waits for a word:", [f"{call.name}({call.arguments})" for call in pause.calls])
        print(careful(session=pause.session, approvals={call.id: True for call in pause.calls}), end="\n\n")
    print("left:", careful("List the files."))
