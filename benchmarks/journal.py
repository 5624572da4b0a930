"""What a journal costs per step, beside no journal and LangGraph's SQLite saver: `python benchmarks/journal.py`.

A step is a reply with one call and the call; the model is a script, so all that is measured is the machine.  The runs
are made in turn, each kind in one file, which a first run has made; the medians and the best are shown.  LangGraph is
measured if it can be imported (`pip install langgraph langgraph-checkpoint-sqlite`); its graph has the same two nodes and
keeps the same messages.
"""

import argparse
import secrets
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from agentkit import JsonAgent
from agentkit.journal import Journal
from agentkit.sessions.journal.connections import close_idle_stores
from agentkit.testing import ScriptedModel

TEXT = "x" * 400


def note(number: int) -> str:
    """Notes a number."""
    return f"{number} {TEXT}"


def ours(steps: int, journal: Journal | None) -> None:
    """A run of so many steps."""
    calls = [{"tool_calls": [{"name": "note", "arguments": {"number": number}}]} for number in range(steps)]
    end = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}
    JsonAgent(note, model=ScriptedModel(*calls, end), max_steps=steps + 2, journal=journal)("Go")


def langgraph(steps: int, path: Path | None) -> None:
    """The same in LangGraph: two nodes in turn, the whole state saved after each."""
    graph_module = import_module("langgraph.graph")
    messages = import_module("langchain_core.messages")
    graph = graph_module.StateGraph(graph_module.MessagesState)

    def ask(state: Any) -> Any:
        number = len(state["messages"])
        call = {"name": "note", "args": {"number": number}, "id": f"call_{number}"}
        return {"messages": [messages.AIMessage("", tool_calls=[call])]}

    def run(state: Any) -> Any:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [messages.ToolMessage(note(**call["args"]), tool_call_id=call["id"])]}

    graph.add_node("ask", ask)
    graph.add_node("run", run)
    graph.add_edge(graph_module.START, "ask")
    graph.add_edge("ask", "run")
    graph.add_conditional_edges("run", lambda state: "ask" if len(state["messages"]) < 2 * steps else graph_module.END)
    settings = {"recursion_limit": 10 * steps, "configurable": {"thread_id": secrets.token_hex(6)}}
    begin = {"messages": [messages.HumanMessage("Go")]}
    if path is None:
        graph.compile().invoke(begin, settings)
        return
    saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    with closing(sqlite3.connect(path, check_same_thread=False)) as file, file:
        graph.compile(checkpointer=saver(file)).invoke(begin, settings, durability="sync")
    file.close()


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.iterdir())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--url", help="also a journal in this PostgreSQL database")
    given = parser.parse_args()
    rows: dict[str, Callable[[int, Path], None]] = {
        "no journal": lambda steps, _: ours(steps, None),
        'Journal(sync="normal")': lambda steps, folder: ours(steps, Journal(folder / "runs.db")),
        'Journal(sync="full")': lambda steps, folder: ours(steps, Journal(folder / "runs.db", sync="full")),
    }
    if given.url:
        rows["PostgreSQL"] = lambda steps, _: ours(steps, Journal(given.url))
    if find_spec("langgraph") and find_spec("langgraph.checkpoint.sqlite"):
        rows["LangGraph, no saver"] = lambda steps, _: langgraph(steps, None)
        rows["LangGraph, SqliteSaver"] = lambda steps, folder: langgraph(steps, folder / "runs.db")
    for steps in given.steps:
        seconds: dict[str, list[float]] = {name: [] for name in rows}
        sizes = dict.fromkeys(rows, 0)
        with tempfile.TemporaryDirectory() as name:
            folders = {kind: Path(name, str(number)) for number, kind in enumerate(rows)}
            for kind, run in rows.items():
                folders[kind].mkdir()
                run(1, folders[kind])
                close_idle_stores()
            for _ in range(given.rounds):
                for kind, run in rows.items():
                    before = size(folders[kind])
                    start = perf_counter()
                    run(steps, folders[kind])
                    seconds[kind].append(perf_counter() - start)
                    close_idle_stores()  # a file has its final size when it is closed
                    sizes[kind] = size(folders[kind]) - before
        print(f"{steps} steps{'':<22} ms a step   at best   kB a run")
        for kind, taken in seconds.items():
            times = f"{1000 * median(taken) / steps:9.3f} {1000 * min(taken) / steps:9.3f}"
            print(f"  {kind:<28} {times} {sizes[kind] / 1000:10,.0f}")


if __name__ == "__main__":
    main()
