"""Kill runs by SIGKILL at random times, resume them, also twice at a time, and check what they did; print the figures.

Some of the resumed runs fail by themselves: what decides about a call raises, or a write of the journal fails.

    python kills.py SECONDS [SEED [URL|lines]]

It takes these seconds, or longer on a machine where they are too short for enough kills.
The journal is a SQLite file, the PostgreSQL database of the URL, or a file of lines.  A run has parallel calls and an agent as a tool.  Each effect is appended to a file, so a repeated one is found.
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
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from stores import patch_append
from waiting import wait_until

from agentkit import JsonAgent, Paused, Session, tool
from agentkit.core.messages import calls_of
from agentkit.engine.history import check_history
from agentkit.journal import Journal, JournalError, RunInfo, runs
from agentkit.testing import ScriptedModel, answer, call, calls

MEMORY = Path("/dev/shm")
PAUSE = 0.003
"""Seconds of each step, over which the kills are spread."""
MAX_DELAY = 0.09
ON_PURPOSE = "this write fails on purpose"
BROKEN = 4
"""The exit status of a process in which something fails on purpose."""
FAULTS = (None, "asking", "approval", "write")
"""What fails in a process; None for nothing."""
EFFECTS = ("pay a", "mail b", "book c", "pay d")
REPLIES = [
    [call("pay", to="a"), call("mail", to="b"), call("look", at="x"), call("clerk", query="Book c.")],
    [call("pay", to="d"), call("look", at="y")],
    [answer("all done")],
]


STORE = sys.argv[3] if len(sys.argv) > 3 else ""
IS_SERVER = "://" in STORE


def journal_of(folder: Path) -> str:
    return STORE if IS_SERVER else str(folder / ("runs.jsonl" if STORE else "runs.db"))


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
    wait_until(lambda: all(run.state != "running" for run in recorded(folder)))


def wait_for_exit(children: list[int]) -> None:
    """Wait until the processes have ended by themselves, at most a few seconds; they can be waited for again."""
    end = time.monotonic() + 3
    for child in children:
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < end:
            time.sleep(0.005)


def empty_database() -> None:
    if IS_SERVER:
        import psycopg

        while True:
            with suppress(psycopg.OperationalError), psycopg.connect(STORE) as connection:
                connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")
                return
            time.sleep(0.05)  # the server is started again


class Broken(Exception):
    """What fails on purpose."""


def break_down(*_: object) -> None:
    raise Broken


def fail_a_write() -> None:
    left = random.randint(0, 12)

    def write_or_fail(write, _, statements):
        nonlocal left
        left -= 1
        if left == 0:
            raise JournalError(ON_PURPOSE)
        write(statements)

    patch_append(pytest.MonkeyPatch(), write_or_fail)


def agent_of(folder: Path, fault: str | None) -> JsonAgent:
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
        replies = sum(message["role"] == "assistant" for message in request.messages)
        return calls(*REPLIES[min(replies, len(REPLIES) - 1)])  # an answer that failed is given again

    def reply_inside(request):
        return call("book", what="c") if request.messages[-1]["role"] == "user" else answer("booked")

    clerk = JsonAgent(book, model=ScriptedModel(*[reply_inside] * 9), description="Books.")
    tools = [pay, mail, look, clerk.as_tool("clerk")]
    decide = (lambda call: "mail" not in call.name or break_down()) if fault == "approval" else None
    journal = Journal(journal_of(folder), errors="raise" if fault == "write" else "warn")
    return JsonAgent(tools, model=ScriptedModel(*[reply] * 9), journal=journal, approve=decide)


def work(folder: Path, fault: str | None) -> None:
    """Begin the run of a folder, or resume it; write its result."""
    begun = recorded(folder)
    agent = agent_of(folder, fault if begun else None)
    if begun and fault == "write":
        fail_a_write()
    asked = break_down if fault == "asking" else None
    session = Session.resumed(begun[0].id, agent.journal, on_uncertain=asked) if begun else None
    query = None if begun else "Do it all"
    if random.random() < 0.5:
        result = asyncio.run(agent.arun(query, session=session))
    else:
        result = agent.run(query, session=session)
    asked_for = {
        call.id: " ".join([call.name, *json.loads(call.arguments).values()])
        for message in result.messages
        for call in calls_of(message)
    }
    results = {asked_for[m["tool_call_id"]]: m["content"] for m in result.messages if m["role"] == "tool"}
    data = {"answer": result.answer, "wrong": [str(entry) for entry in check_history(result.messages)]}
    (folder / f"result-{os.getpid()}").write_text(json.dumps({**data, "results": results}))


def start(folder: Path, fault: str | None = None) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        random.seed(os.getpid())
        work(folder, fault)
        status = 0
    except Broken:
        status = BROKEN
    except Paused as error:  # an agent inside a call cannot write
        status = BROKEN if ON_PURPOSE in str(error) else 1
    except JournalError as error:
        status = 3 if "in progress" in str(error) or "continued elsewhere" in str(error) else 1
        status = BROKEN if ON_PURPOSE in str(error) else status
        sys.stderr.write(f"{error}\n" if status == 1 else "")
    except BaseException:
        traceback.print_exc()  # the exit below shows none
    finally:
        sys.stderr.flush()
        os._exit(status)


def play(folder: Path, chance: random.Random, figures: dict[str, int]) -> None:
    """Kill the run of a folder some times, then let it end, and check it."""
    for _ in range(chance.randint(1, 4)):
        has_begun = bool(recorded(folder))
        fault = chance.choice(FAULTS) if has_begun else None
        children = [start(folder, fault) for _ in range(chance.choice((1, 1, 2)) if has_begun else 1)]
        if fault is None or chance.random() < 0.3:
            time.sleep(chance.uniform(0, MAX_DELAY * (2 if IS_SERVER else 1)))  # a connection takes longer
        else:
            wait_for_exit(children)  # so that it fails
        for child in children:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL, 3 << 8, BROKEN << 8), (folder, status)
            figures["kills"] += status == signal.SIGKILL
            figures["failed"] += status == BROKEN << 8
        figures["double"] += len(children) == 2
        wait_for_the_dead(folder)
    child = start(folder)
    status = os.waitpid(child, 0)[1]
    assert status == 0, (folder, status)
    result = json.loads((folder / f"result-{child}").read_text())
    assert (result["answer"], result["wrong"]) == ("all done", []), (folder, result)
    did = (folder / "log").read_text().split("\n")
    for effect in EFFECTS:
        text = result["results"].get(effect, "")
        is_open = "not known whether it had an effect" in text
        is_done = did.count(effect) > 0
        is_told = text.startswith("Not run") or "before this call began; it had no effect" in text
        wrong = {
            "repeated": did.count(effect) > 1,
            "lost": not is_done and not is_open and not is_told and effect != "book c",
            "untrue": is_done and not is_open and text != effect and effect != "book c",
        }
        for name in filter(wrong.get, wrong):
            figures[name] += 1
            sys.stderr.write(f"{name}: {effect}, which had the result {text!r}; done: {did}\n")
    figures["runs"] += 1
    figures["unfinished"] += [run.state for run in recorded(folder)] != ["finished"]


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    kills = seconds / (10 if IS_SERVER else 2)
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    figures = dict.fromkeys(("runs", "kills", "failed", "double", "repeated", "lost", "untrue", "unfinished"), 0)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as base:
        while time.monotonic() < end or figures["kills"] <= kills:
            folder = Path(base) / str(figures["runs"])
            folder.mkdir()
            empty_database()
            play(folder, chance, figures)
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
