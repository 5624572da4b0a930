"""Make the journals in this folder: run it with the interpreter of the version that is to write one.

    python make.py runs-478a9fd.db

The runs are finished, finished in a named conversation (with a title, where the version has titles), paused, interrupted in a call and, where the version has
workers, queued.
"""

import gzip
import os
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

from agentkit import JsonAgent, Paused, Session, tool
from agentkit.testing import ScriptedModel


@tool(effect="write")
def book(place: str) -> str:
    """Books."""
    if place == "die":
        os._exit(9)
    return f"booked {place}"


@tool(effect="danger")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def call(name, **arguments):
    return {"content": None, "tool_calls": [{"name": name, "arguments": arguments}]}


def run(path, query, *replies, session=None):
    agent = JsonAgent(book, pay, model=ScriptedModel(*replies), journal=path)
    with suppress(Paused):
        agent.run(query, session=session or Session())


def make(path):
    run(path, "finished", call("book", place="a"), call("final_answer", text="one"))
    named = Session.open("ada", store=path)
    run(path, "named", call("book", place="b"), call("final_answer", text="two"), session=named)
    with suppress(ImportError):
        from agentkit.extend import list_conversations, rename_conversation

        rename_conversation(list_conversations(path)[0].key, "Bookings", store=path)
    run(path, "paused", call("book", place="c"), call("pay", amount=7))
    if os.fork() == 0:
        run(path, "interrupted", call("book", place="d"), call("book", place="die"))
    os.wait()
    try:
        from agentkit.dbos import Client
    except ImportError:
        return
    client = Client(f"sqlite:///{path}")
    client.submit("agent", "effect 2 0.01 queued", id="queued-1")
    client.close()


def main():
    path = os.path.abspath(sys.argv[1])
    make(path)
    for name in (path, f"{path}-queue"):
        if os.path.exists(name):
            file = sqlite3.connect(name, isolation_level=None)
            for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                file.execute(statement)
            file.close()
            Path(f"{name}.gz").write_bytes(gzip.compress(Path(name).read_bytes(), mtime=0))
    for other in Path(path).parent.glob(f"{Path(path).name}*"):
        if other.suffix != ".gz":
            other.unlink()


if __name__ == "__main__":
    main()
