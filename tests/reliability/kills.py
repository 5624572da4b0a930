"""Kill runs by SIGKILL at random times, resume them, also twice at a time, and check what they did; print the figures.

    python kills.py SECONDS [SEED [URL]]

The journal is a file, or the PostgreSQL database of the URL.  A run has parallel calls and an agent as a tool.  Each effect is appended to a file, so a repeated one is found.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from agentkit import JsonAgent, Session, tool
from agentkit.engine.history import check_history
from agentkit.journal import JournalError, RunInfo, runs
from agentkit.testing import ScriptedModel, answer, call, calls

MEMORY = Path("/dev/shm")
PAUSE = 0.003
"""Seconds of each step, over which the kills are spread."""
MAX_DELAY = 0.09
EFFECTS = ("pay a", "mail b", "book c", "pay d")
REPLIES = [
    [call("pay", to="a"), call("mail", to="b"), call("look", at="x"), call("clerk", query="Book c.")],
    [call("pay", to="d"), call("look", at="y")],
    [answer("all done")],
]


def journal_of(folder: Path) -> str:
    return sys.argv[3] if len(sys.argv) > 3 else str(folder / "runs.db")


def recorded(folder: Path) -> list[RunInfo]:
    """The runs of the journal, when no dead process is at work any more: a server notices that after a moment."""
    try:
        found = runs(journal_of(folder))
    except JournalError as error:
        if "does not exist" in str(error) or "has no journal" in str(error):
            return []
        raise
    return found


def wait_for_the_dead(folder: Path) -> None:
    end = time.monotonic() + 10
    while any(run.state == "running" for run in recorded(folder)):
        assert time.monotonic() < end, recorded(folder)
        time.sleep(0.002)


def empty_database() -> None:
    if len(sys.argv) > 3:
        import psycopg

        with psycopg.connect(sys.argv[3]) as connection:
            connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")


def agent_of(folder: Path) -> JsonAgent:
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def act(what: str) -> str:
        time.sleep(PAUSE)
        os.write(log, f"{what}\n".encode())
        time.sleep(PAUSE)
        return what

    @tool(effect="write")
    async def pay(to: str) -> str:
        """Pays."""
        await asyncio.sleep(PAUSE)
        return act(f"pay {to}")

    @tool(effect="write")
    def mail(to: str) -> str:
        """Mails."""
        return act(f"mail {to}")

    @tool(effect="write")
    def book(what: str) -> str:
        """Books."""
        return act(f"book {what}")

    @tool(effect="read")
    def look(at: str) -> str:
        """Looks."""
        return act(f"look {at}")

    def reply(request):
        time.sleep(PAUSE)
        return calls(*REPLIES[sum(message["role"] == "assistant" for message in request.messages)])

    def reply_inside(request):
        return call("book", what="c") if request.messages[-1]["role"] == "user" else answer("booked")

    clerk = JsonAgent(book, model=ScriptedModel(*[reply_inside] * 9), description="Books.")
    tools = [pay, mail, look, clerk.as_tool("clerk")]
    return JsonAgent(tools, model=ScriptedModel(*[reply] * 9), journal=journal_of(folder))


def work(folder: Path) -> None:
    """Begin the run of a folder, or resume it; write its result."""
    begun = recorded(folder)
    agent = agent_of(folder)
    session = Session.resumed(begun[0].id, journal_of(folder)) if begun else None
    query = None if begun else "Do it all"
    if random.random() < 0.5:
        result = asyncio.run(agent.arun(query, session=session))
    else:
        result = agent.run(query, session=session)
    data = {"answer": result.answer, "wrong": [str(entry) for entry in check_history(result.messages)]}
    (folder / f"result-{os.getpid()}").write_text(json.dumps({**data, "texts": json.dumps(result.messages)}))


def start(folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        random.seed(os.getpid())
        work(folder)
        status = 0
    except JournalError as error:
        status = 3 if "in progress" in str(error) or "continued elsewhere" in str(error) else 1
        sys.stderr.write(f"{error}\n" if status == 1 else "")
    except BaseException:
        traceback.print_exc()  # the exit below shows none
    finally:
        sys.stderr.flush()
        os._exit(status)


def play(folder: Path, chance: random.Random, figures: dict[str, int]) -> None:
    """Kill the run of a folder some times, then let it end, and check it."""
    for _ in range(chance.randint(1, 4)):
        children = [start(folder) for _ in range(chance.choice((1, 1, 2)) if recorded(folder) else 1)]
        time.sleep(chance.uniform(0, MAX_DELAY * (2 if len(sys.argv) > 3 else 1)))  # a connection takes longer
        for child in children:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL, 3 << 8), (folder, status)
            figures["kills"] += status == signal.SIGKILL
        figures["double"] += len(children) == 2
        wait_for_the_dead(folder)
    child = start(folder)
    status = os.waitpid(child, 0)[1]
    assert status == 0, (folder, status)
    result = json.loads((folder / f"result-{child}").read_text())
    assert (result["answer"], result["wrong"]) == ("all done", []), (folder, result)
    did = (folder / "log").read_text().split("\n")
    for effect in EFFECTS:
        figures["repeated"] += did.count(effect) > 1
        figures["lost"] += did.count(effect) == 0 and "OutcomeUnknown" not in result["texts"] and effect != "book c"
    figures["runs"] += 1
    figures["unfinished"] += [run.state for run in recorded(folder)] != ["finished"]


def main() -> None:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance, end = random.Random(seed), time.monotonic() + seconds
    figures = dict.fromkeys(("runs", "kills", "double", "repeated", "lost", "unfinished"), 0)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as base:
        while time.monotonic() < end:
            folder = Path(base) / str(figures["runs"])
            folder.mkdir()
            empty_database()
            play(folder, chance, figures)
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
