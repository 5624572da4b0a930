"""Steps a second of workers, beside bare DBOS: `python benchmarks/workers.py --db postgresql://USER@HOST/DATABASE`.

The database should be empty: its tables of agentkit and DBOS are filled.  A step is a request to a model that answers at
once, or a call of a tool that does nothing; in bare DBOS, a step that does nothing.  The time is that from the first run
that begins to the last one that ends, with all runs in the queue before.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from agentkit import JsonAgent, Usage, tool
from agentkit.dbos import Client
from agentkit.engine.model import Reply
from agentkit.journal import runs

BARE = "bare"


class QuickModel:
    """Calls the tool as often as the query says, then answers."""

    name = "quick"

    async def aask(self, request: Any) -> Any:
        turns = int(next(message["content"] for message in request.messages if message["role"] == "user"))
        done = sum(message["role"] == "tool" for message in request.messages)
        name, arguments = ("nothing", f'{{"number": {done}}}') if done < turns else ("final_answer", '{"text": "x"}')
        call = {"id": f"call_{done}", "type": "function", "function": {"name": name, "arguments": arguments}}
        yield Reply({"role": "assistant", "content": None, "tool_calls": [call]}, Usage(1, 1, 1))


@tool(effect="read")
async def nothing(number: int) -> int:
    """Does nothing."""
    return number


agent = JsonAgent(nothing, model=QuickModel())


def serve_bare(url: str, concurrency: int) -> None:
    """A worker of DBOS alone, in a process of its own."""
    DBOS(
        config={
            "name": BARE,
            "system_database_url": url,
            "application_version": "1",
            "log_level": "ERROR",
            "executor_id": str(os.getpid()),
            "serializer": DBOSPortableJSONSerializer(),
        }
    )

    @DBOS.step(name="nothing")
    async def step(number: int) -> int:
        return number

    @DBOS.workflow(name=BARE)
    async def workflow(steps: int) -> int:
        for number in range(steps):
            await step(number)
            await asyncio.sleep(0)
        return steps

    DBOS.launch()
    DBOS.register_queue(BARE, worker_concurrency=concurrency, polling_interval_sec=0.2)
    print("executes", flush=True)
    time.sleep(3600)


def start(kind: str, url: str, concurrency: int) -> subprocess.Popen[str]:
    here = Path(__file__).resolve()
    words = ["-m", "agentkit", "worker", f"{here}:agent", "--db", url, "--concurrency", str(concurrency)]
    command = words if kind == "agentkit" else [str(here), "--bare", "--db", url, "--concurrency", str(concurrency)]
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def measure(kind: str, url: str, workers: int, number: int, turns: int, concurrency: int) -> float:
    """Return steps a second of a number of workers."""
    steps = 2 * turns + 1
    with Client(url) as client:
        queue = DBOSClient(system_database_url=url, serializer=DBOSPortableJSONSerializer(), application_name=BARE)
        if kind == "agentkit":
            ids = [client.submit("agent", str(turns)).id for _ in range(number)]
        else:
            options: Any = {"workflow_name": BARE, "queue_name": BARE, "app_version": "1"}
            ids = [queue.enqueue(options, steps).get_workflow_id() for _ in range(number)]
        processes = [start(kind, url, concurrency) for _ in range(workers)]
        while True:
            found = queue.list_workflows(workflow_ids=ids, load_input=False, load_output=False)
            if all(one.status == "SUCCESS" for one in found):
                break
            time.sleep(0.3)
        for process in processes:
            process.kill()
            process.wait()
        queue.destroy()
    seconds = (max(one.completed_at or 0 for one in found) - min(one.dequeued_at or 0 for one in found)) / 1000
    return number * steps / seconds


def measure_one(url: str, workers: int, turns: int, concurrency: int) -> tuple[float, float]:
    """Return the seconds from submission to end of a key's only run, beside the crowd: median and maximum of ten."""
    ages = []
    with Client(url) as client:
        processes = [start("agentkit", url, concurrency) for _ in range(workers)]
        for _ in range(11):
            one = client.submit("agent", str(turns), key="one")
            one.result()
            ages.append(one.status.age)
        for process in processes:
            process.kill()
            process.wait()
    return statistics.median(ages[1:]), max(ages[1:])  # the first one has waited for the processes


def measure_fairness(url: str, crowd: int, turns: int, concurrency: int) -> None:
    """Print how long a key's only run takes beside `crowd` runs of another key."""
    with Client(url) as client:
        last = [client.submit("agent", str(turns), key="crowd") for _ in range(crowd)][-1]
        for workers in (1, 2):
            median, most = measure_one(url, workers, turns, concurrency)
            assert last.status.state == "queued", "the crowd was done before"
            print(f"{workers} workers: one run beside {crowd} took {median:.2f} s, at most {most:.2f} s", flush=True)


def fill(url: str, number: int) -> None:
    """Add finished runs of one turn: copies of the rows of a real one."""
    with Client(url) as client:
        run = client.submit("agent", "1").id
        process = start("agentkit", url, 1)
        client.run(run).result()
        process.kill()
        process.wait()
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT conversation FROM agentkit.runs WHERE id = %s", (run,)).fetchone()
        assert row
        copies = [
            ("dbos.workflow_status", "workflow_uuid", "'{}-' || n"),
            ("dbos.workflow_input", "workflow_uuid", "'{}-' || n"),
            ("dbos.workflow_output", "workflow_uuid", "'{}-' || n"),
            ("agentkit.runs", "id", "'{}-' || n"),
            ("agentkit.steps", "run", "'{}-' || n"),
            ("agentkit.messages", "conversation", "{} + n"),
        ]
        for table, key, value in copies:
            schema, name = table.split(".")
            sql = (
                "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
                "AND is_identity = 'NO' AND is_generated = 'NEVER' AND column_default IS NULL"
            )
            names = [one for (one,) in connection.execute(sql, (schema, name))]
            have = [one for (one,) in connection.execute(sql.rpartition(" AND column_default")[0], (schema, name))]
            names = [one for one in have if one in names or table == "dbos.workflow_status"]
            source = row[0] if key == "conversation" else run
            values = [value.format(source) if one == key else f'"{one}"' for one in names]
            connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {table}, "
                f"generate_series(1, {number}) n WHERE {key} = %s".encode(),
                (source,),
            )
        connection.execute("VACUUM ANALYZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", required=True)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--finished", type=int, nargs="*", default=[])
    parser.add_argument("--crowd", type=int, help="Measure a key's only run beside this many of another key instead.")
    given = parser.parse_args()
    if given.bare:
        serve_bare(given.db, given.concurrency)
    if given.crowd:
        measure_fairness(given.db, given.crowd, given.turns, given.concurrency)
        return
    for workers in (1, 2, 4):
        rates: dict[str, list[float]] = {"agentkit": [], BARE: []}
        for _ in range(given.rounds):
            for kind, found in rates.items():
                found.append(measure(kind, given.db, workers, given.runs, given.turns, given.concurrency))
        shown = "  ".join(f"{kind} {statistics.median(found):.0f} steps/s" for kind, found in rates.items())
        print(f"{workers} workers: {shown}", flush=True)
    filled = 0
    for number in given.finished:
        fill(given.db, number - filled)
        filled = number
        rate = measure("agentkit", given.db, 1, given.runs, given.turns, given.concurrency)
        began = time.perf_counter()
        runs(given.db, limit=20)
        listed = time.perf_counter() - began
        with Client(given.db) as client:
            began = time.perf_counter()
            client.runs(limit=20)
            states = time.perf_counter() - began
        print(
            f"{number} finished runs: {rate:.0f} steps/s, journal.runs {listed:.3f} s, client.runs {states:.3f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
