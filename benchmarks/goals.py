"""Small costs beside what they cannot go below: `python benchmarks/goals.py [--rounds N]`.

Every round measures all rows in turn, ours next to its control, so that a ratio is meaningful on a busy machine.  Shown
are the least CPU times in microseconds.  The last row counts tokens with the tokenizer that litellm brings.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from adapters.schemas import schema_of
from worker import tools_of

from agentkit import JsonAgent, JsonTool, Session
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.final_answer import make_answer_tool

RUNS = 100
MESSAGES = 5_000


class Caller:
    """A model that answers each query after `turns` calls of `add`."""

    name = "caller"

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def ask(self, request: Any) -> Iterator[Any]:
        made = sum(message["role"] == "assistant" for message in request.messages)
        reply = answer("done") if made >= self.turns else call("add", a=made, b=2)
        yield from ScriptedModel(reply).ask(request)

    async def aask(self, request: Any) -> Any:
        for piece in self.ask(request):
            yield piece


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def runs_of(turns: int) -> Callable[[], object]:
    """Return a function that makes runs with so many turns before the answer."""
    agent = JsonAgent(add, model=Caller(turns))
    return lambda: [agent.run("Go on.", session=Session()) for _ in range(RUNS)]


def maps_of(turns: int) -> Callable[[], object]:
    """Return a function that maps queries with so many turns before the answer."""
    agent = JsonAgent(add, model=Caller(turns))
    return lambda: agent.map([f"Go on {number}." for number in range(RUNS)])


def messages(number: int) -> list[dict[str, Any]]:
    """Return a conversation: a question, a call, its result and an answer in turn."""
    found: list[dict[str, Any]] = []
    for place in range(number // 4):
        function = {"name": "weather", "arguments": json.dumps({"city": f"city {place}", "day": "tomorrow"})}
        found += [
            {"role": "user", "content": f"What is the weather in city {place}? " + "word " * 10},
            {"role": "assistant", "tool_calls": [{"id": f"call_{place}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"call_{place}", "content": "sunny, 20 degrees; " + "some text " * 30},
            {"role": "assistant", "content": "It is sunny there. " + "more text " * 10},
        ]
    return found


def write(conversation: Sequence[Any], path: Path) -> None:
    """Write messages as lines of JSON, unmasked and in place."""
    path.write_text("".join(f"{json.dumps(message)}\n" for message in conversation))


def least(rows: dict[str, tuple[Callable[[], object], Callable[[], object]]], rounds: int) -> dict[str, list[float]]:
    """Return the least CPU time of each row and of its control, in seconds."""
    times = {name: [float("inf")] * 2 for name in rows}
    for _ in range(rounds + 1):
        for name, pair in rows.items():
            for side, action in enumerate(pair):
                begun = process_time()
                action()
                times[name][side] = min(times[name][side], process_time() - begun)
    return times


def count_tokens() -> tuple[int, int]:
    """Return the tokens of the requests of a run of 20 turns with 20 tools: ours, and those of a loop by hand."""
    folder = Path(*find_spec("litellm").submodule_search_locations, "litellm_core_utils", "tokenizers")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    encode = __import__("tiktoken").get_encoding("cl100k_base").encode
    functions = tools_of(20)
    asked = list[Any]()
    script = ScriptedModel(*(call("add", a=turn, b=2) for turn in range(19)), answer("done"))

    class Watched(Caller):
        def ask(self, request: Any) -> Iterator[Any]:
            asked.append(json.loads(json.dumps(list(request.messages))))
            return script.ask(request)

    JsonAgent(functions, model=Watched(0)).run("Go on.")
    ours = [JsonTool(function).openai_schema for function in functions] + [make_answer_tool().openai_schema]
    hand = [schema_of(function) for function in functions]
    kept = ("role", "content", "tool_calls", "tool_call_id")

    def count(value: Any) -> int:
        return len(encode(json.dumps(value, separators=(",", ":"))))

    own = 0
    other = 0
    for request in asked:
        sent = [{name: message[name] for name in kept if name in message} for message in request]
        own += count(ours) + count(sent)
        other += count(hand) + count([{"role": "system", "content": "Use the tools."}, *sent[1:]])
    return own, other


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    conversation = messages(MESSAGES)
    session = Session.from_dict({**Session().as_dict(), "messages": conversation})
    with TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        rows = {
            "a run of one reply / the same with one turn more": (runs_of(0), runs_of(1)),
            "map, two steps a query / its runs, blocking": (maps_of(1), runs_of(1)),
            "save of 5,000 messages / json.dumps of each": (
                lambda: session.save(path),
                lambda: write(conversation, path),
            ),
        }
        figures = least(rows, rounds)
    print("| row | us | control, us | ratio |\n|---|---|---|---|")
    for name, (own, control) in figures.items():
        times = 1 if "save" in name else RUNS
        print(f"| {name} | {own / times * 1e6:,.0f} | {control / times * 1e6:,.0f} | {own / control:.2f} |")
    one, two = (seconds / RUNS * 1e6 for seconds in figures["a run of one reply / the same with one turn more"])
    print(
        f"| begin and end of a run / a turn: the first row without a turn | {2 * one - two:,.0f} | {two - one:,.0f} | |"
    )
    tokens, by_hand = count_tokens()
    print(f"| tokens, 20 tools x 20 turns / by hand | {tokens:,} | {by_hand:,} | {tokens / by_hand:.3f} |")


if __name__ == "__main__":
    main()
