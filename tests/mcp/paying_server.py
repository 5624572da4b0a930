"""One of several servers with a dangerous tool on one journal: `python paying_server.py PORT JOURNAL EFFECTS`."""

import sys
from pathlib import Path

from agentkit import tool
from agentkit.mcp import serve


@tool(effect="danger")
def pay(to: str) -> str:
    """Pay a person."""
    with Path(sys.argv[3]).open("a") as effects:
        effects.write(f"{to}\n")
    return f"paid {to}"


if __name__ == "__main__":
    serve([pay], http=True, port=int(sys.argv[1]), keys=["k" * 32], journal=sys.argv[2])
