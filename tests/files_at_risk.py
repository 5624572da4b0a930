"""Two tools of files, a dangerous one and one that reads, which note what they did in `DONE`."""

from agentkit import tool

DONE: list[str] = []


@tool(effect="danger")
def delete(path: str, force: bool = False) -> str:
    """Deletes a file."""
    DONE.append(path)
    return f"deleted {path}{' by force' if force else ''}"


@tool(effect="read")
def look(path: str) -> str:
    """Looks at a file."""
    DONE.append(f"look {path}")
    return "a file"
