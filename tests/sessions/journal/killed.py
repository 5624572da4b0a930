"""A program that kills its own runs at every boundary, one after the other, and continues them; prints the outcomes.

    python killed.py FOLDER sync|async|stream|astream [URL|lines]

Each run is a forked process, which dies by SIGKILL at its n-th boundary: before and after each write of the journal,
and before and after what each tool and each request does.
"""

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from stores import patch_append

from agentkit import JsonAgent, Session, tool
from agentkit.core.messages import assistant
from agentkit.engine.history import check_history
from agentkit.engine.model import Reply
from agentkit.engine.result import RunFinished
from agentkit.journal import JournalError, RunInfo, runs
from agentkit.testing import ScriptedModel

QUERY = "Do it all"
TURNS = [
    [("pay", {"to": "a"}), ("mail", {"to": "b"}), ("look", {"at": "c"})],
    [("pay", {"to": "d"}), ("mark", {"as_": "e"}), ("look", {"at": "f"})],
    [("final_answer", {"text": "all done"})],
]


class Fate:
    """When this process dies; what it does is in a file by then."""

    def __init__(self, log: Path, deadly: int) -> None:
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.left = deadly

    def boundary(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def act(self, what: str) -> None:
        self.boundary()
        os.write(self.log, f"{what}\n".encode())
        self.boundary()


STORE = sys.argv[3] if len(sys.argv) > 3 else ""
IS_SERVER = "://" in STORE


def journal_of(folder: Path, deadly: int) -> str:
    return STORE if IS_SERVER else str(folder / f"{deadly}.{'jsonl' if STORE else 'db'}")


def recorded(journal: str) -> list[RunInfo]:
    """The runs of the journal, when the server has noticed that their process is dead."""
    try:
        while any(run.state == "running" for run in runs(journal)):
            time.sleep(0.002)
        return runs(journal)
    except JournalError as error:
        if "does not exist" in str(error) or "has no journal" in str(error):
            return []
        raise


def empty_database() -> None:
    if IS_SERVER:
        import psycopg

        with psycopg.connect(STORE) as connection:
            connection.execute("DROP SCHEMA IF EXISTS agentkit CASCADE")


def agent_of(fate: Fate, journal: str) -> JsonAgent:
    def pay(to: str) -> str:
        """Pays."""
        fate.act(f"pay {to}")
        return f"paid {to}"

    async def mail(to: str) -> str:
        """Mails."""
        fate.act(f"mail {to}")
        return f"mailed {to}"

    @tool(effect="read")
    def look(at: str) -> str:
        """Looks."""
        fate.act(f"look {at}")
        return f"saw {at}"

    @tool(effect="idempotent")
    def mark(as_: str) -> str:
        """Marks."""
        fate.act(f"mark {as_}")
        return f"marked {as_}"

    def reply(request) -> Reply:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        fate.act(f"request {turn}")
        calls = [{"name": name, "arguments": arguments} for name, arguments in TURNS[turn]]
        *_, made = ScriptedModel({"tool_calls": calls}).ask(request)
        return Reply(
            assistant(None, [])
            | {
                "tool_calls": [
                    {**call, "id": f"{turn}_{place}"} for place, call in enumerate(made.message["tool_calls"])
                ]
            }
        )

    return JsonAgent([pay, mail, look, mark], model=ScriptedModel(*[reply] * 9), journal=journal)


def finished(agent: JsonAgent, mode: str, query: str | None, session: Session | None):
    if mode == "sync":
        return agent.run(query, session=session)
    if mode == "async":
        return asyncio.run(agent.arun(query, session=session))
    if mode == "stream":
        return [event for event in agent.stream(query, session=session) if isinstance(event, RunFinished)][-1].result

    async def collected():
        events = [event async for event in agent.astream(query, session=session)]
        return events[-1].result

    return asyncio.run(collected())


def begin(folder: Path, mode: str, deadly: int) -> None:
    fate = Fate(folder / f"{deadly}.log", deadly)

    def deadly_write(write, _, statements):
        fate.boundary()
        write(statements)
        fate.boundary()

    patch_append(pytest.MonkeyPatch(), deadly_write)
    finished(agent_of(fate, journal_of(folder, deadly)), mode, QUERY, None)


def go_on(folder: Path, mode: str, deadly: int) -> None:
    journal = journal_of(folder, deadly)
    kept = recorded(journal)
    query, session = (None, Session.resumed(kept[0].id, journal)) if kept else (QUERY, None)
    before = len(session.messages) if session else 0
    result = finished(agent_of(Fate(folder / f"{deadly}.log", -1), journal), mode, query, session)
    told = {
        "answer": result.answer,
        "steps": result.steps,
        "requests": result.usage.requests,
        "wrong": [str(violation) for violation in check_history(result.messages)],
        "results": {m["tool_call_id"]: m["content"] for m in result.messages if m["role"] == "tool"},
        "begun_with": before,
        "states": [run.state for run in runs(journal)],
        "did": (folder / f"{deadly}.log").read_text().split("\n")[:-1],
    }
    (folder / f"{deadly}.json").write_text(json.dumps(told))


def forked(function, *args) -> int:
    """The exit status of `function` in a process of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function(*args)
            status = 0
        except BaseException:
            traceback.print_exc()  # the exit below shows none
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main() -> None:
    folder = Path(sys.argv[1])
    mode = sys.argv[2]
    deaths = []
    for deadly in range(200):
        empty_database()
        died = forked(begin, folder, mode, deadly)
        assert died in (0, signal.SIGKILL), died
        assert forked(go_on, folder, mode, deadly) == 0, deadly
        deaths.append(json.loads((folder / f"{deadly}.json").read_text()))
        if died == 0:
            break
    print(json.dumps(deaths))


if __name__ == "__main__":
    main()
