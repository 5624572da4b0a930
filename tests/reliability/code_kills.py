"""Kill random programs of code mode by SIGKILL, resume each until it has ended, and check what they did; print the figures.

    python code_kills.py PROGRAMS [SEED]

A program chooses its calls by random numbers of its own, some side by side, some in functions and loops, and keeps what
they return in a variable of the interpreter.  Each effect is appended to a file.  So a repeated effect is found, a lost
one, and a program that went another way after it was resumed.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from agentkit import CodeMode, JsonAgent, Session, tool
from agentkit.journal import runs
from agentkit.sessions.journal.store import ConversationBusy
from agentkit.testing import ScriptedModel, answer, call

MEMORY = Path("/dev/shm")
PAUSE = 0.002
MIN_DELAY = 0.01
MAX_KILLS = 8
AFTER_END = 0.5
AFTER_KILL = 1.35
"""Factors for the longest delay of a kill, which follows the speed of a busy machine: about two kills a program."""
BUSY = 3
"""The exit status of a process that finds the run in use: a child of the killed one has not begun its own program yet."""
UNKNOWN = "unknown"
PREPARE = """
import random
import asyncio
done = []
async def act(function, what):
    try:
        done.append([what, await function(what)])
    except RuntimeError as error:
        done.append([what, "unknown" if "not known whether" in str(error) else str(error)])
"""
LAST = "import json\nprint(json.dumps(done))"


def write_program(dice: random.Random, number: int) -> str:
    """Return a random program; what it calls is not known before."""
    lines = []
    names = (f"{number}.{place}" for place in range(1_000))
    for _ in range(dice.randint(1, 4)):
        kind = dice.choice(["one", "one", "loop", "gather", "branch", "function"])
        name = next(names)
        tool = dice.choice(["pay", "mail"])
        if kind == "one":
            lines.append(f"await act({tool}, '{name}')")
        elif kind == "loop":
            lines.append(f"for n in range({dice.randint(1, 4)}):\n    await act({tool}, f'{name}.{{n}}')")
        elif kind == "gather":
            count = dice.randint(2, 4)
            lines.append(
                f"await asyncio.gather(*[act(note, f'{name}.{{n}}') for n in range({count})], act(look, '{name}.read'))"
            )
        elif kind == "branch":
            lines.append(
                f"if random.random() < 0.5:\n    await act({tool}, '{name}.yes')\nelse:\n    await act(look, '{name}.no.read')"
            )
        else:
            lines.append(
                f"async def both(x):\n    await act(pay, x + '.a')\n    await act(mail, x + '.b')\nawait both('{name}')"
            )
    return "\n".join(lines)


def agent_of(folder: Path, programs: list[str]) -> JsonAgent:
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def run(what: str) -> str:
        time.sleep(PAUSE)
        os.write(log, f"{what}\n".encode())
        time.sleep(PAUSE)
        return what

    @tool(effect="write")
    def pay(what: str) -> str:
        """Pays."""
        return run(what)

    @tool
    def mail(what: str) -> str:
        """Mails."""
        return run(what)

    @tool
    def note(what: str) -> str:
        """Notes."""
        return run(what)

    @tool(effect="read")
    def look(what: str) -> str:
        """Looks."""
        return what

    def reply(request):
        count = sum(message["role"] == "assistant" for message in request.messages)
        return call("run_code", code=programs[count]) if count < len(programs) else answer("done")

    model = ScriptedModel(*[reply] * 20)
    return JsonAgent([pay, mail, note, look], model=model, journal=folder / "runs.db", extensions=[CodeMode()])


def work(folder: Path, programs: list[str]) -> None:
    """Begin the run of a folder, or resume it; write what the last program printed."""
    agent = agent_of(folder, programs)
    begun = runs(folder / "runs.db") if (folder / "runs.db").exists() else []
    session = Session.resumed(begun[0].id, agent.journal) if begun else None
    result = agent.run(None if begun else "Do it all", session=session)
    printed = [message["content"] for message in result.messages if message["role"] == "tool"]
    (folder / "result").write_text(json.dumps(printed))


def start(folder: Path, programs: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work(folder, programs)
        status = 0
    except ConversationBusy:
        status = BUSY
    except BaseException:
        traceback.print_exc()  # the exit below shows none
    finally:
        sys.stderr.flush()
        os._exit(status)


def check(folder: Path) -> Counter[str]:
    """Return how many effects were repeated, lost, not told or of another way of the program."""
    printed = json.loads((folder / "result").read_text())
    problems = [text for text in printed[:-1] if "Traceback" in text]
    found = Counter((folder / "log").read_text().split())
    told = dict(json.loads(printed[-2])) if not problems else {}
    figures = Counter(effects=len(found), wrong=len(problems), unknown=sum(one == UNKNOWN for one in told.values()))
    figures["repeated"] = sum(count > 1 for count in found.values())
    made = {what for what, outcome in told.items() if outcome == what and not what.endswith(".read")}
    figures["lost"] = len(made - found.keys())
    for what, outcome in told.items():
        if outcome not in (what, UNKNOWN):
            figures["wrong"] += 1
            sys.stderr.write(f"{what}: {outcome}\n")
    figures["strays"] = len(found.keys() - told.keys())
    if figures["strays"] or figures["lost"]:
        sys.stderr.write(f"{found}\n{told}\n")
    for text in problems:
        sys.stderr.write(f"{text}\n")
    return figures


def write_programs(dice: random.Random) -> list[str]:
    return [PREPARE, *(write_program(dice, place) for place in range(dice.randint(1, 3))), LAST]


def open_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None)


def measure_seconds(dice: random.Random) -> float:
    """Return the seconds of a program without a kill on this machine: the median of five."""
    seconds = []
    for _ in range(5):
        with open_folder() as name:
            begin = time.monotonic()
            os.waitpid(start(Path(name), write_programs(dice)), 0)
            seconds.append(time.monotonic() - begin)
    return sorted(seconds)[2]


def main(count: int, seed: int) -> None:
    dice = random.Random(seed)
    figures: Counter[str] = Counter()
    longest = measure_seconds(random.Random(seed))
    for number in range(count):
        programs = write_programs(dice)
        with open_folder() as name:
            folder = Path(name)
            for attempt in range(3 * MAX_KILLS):
                child = start(folder, programs)
                delay = dice.uniform(MIN_DELAY, longest)
                end = time.monotonic() + (delay if attempt < MAX_KILLS else 60)
                while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
                    time.sleep(0.002)
                if ended[0] and os.waitstatus_to_exitcode(ended[1]) == BUSY:
                    time.sleep(0.05)
                    continue
                if ended[0]:
                    figures["failed"] += ended[1] != 0
                    longest = max(MIN_DELAY, longest * AFTER_END)
                    break
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                figures["kills"] += 1
                longest *= AFTER_KILL
            if (folder / "result").exists():
                figures += check(folder)
                figures["programs"] += 1
            else:
                figures["unfinished"] += 1
                sys.stderr.write(f"unfinished: {number}\n")
    names = ("programs", "kills", "effects", "unknown", "repeated", "lost", "strays", "wrong", "failed", "unfinished")
    print(json.dumps({name: figures[name] for name in names}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
