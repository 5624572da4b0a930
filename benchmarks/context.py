"""Measure long conversations: what stays reachable, what is sent, what a prompt cache keeps, and the time of a turn.

    python benchmarks/context.py

A scripted model plants 50 facts in 300 turns, then looks each up with the tools that it is offered.  Tokens are
characters / 4.  "without" is the same conversation with a model that names no window.
"""

import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from agentkit import JsonAgent, JsonTool, Session
from agentkit.core.messages import Usage
from agentkit.engine.model import Reply
from agentkit.events import Compacted, ToolFinished

TURNS = 300
FACTS = 50
WINDOWS = (8_000, 32_000)
WORDS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "river",
    "market",
    "letter",
    "window",
    "garden",
    "number",
    "morning",
    "station",
    "paper",
    "light",
    "question",
    "answer",
    "table",
    "music",
    "report",
    "budget",
    "meeting",
    "winter",
    "summer",
    "engine",
    "signal",
    "harbour",
    "bridge",
    "copper",
    "silver",
    "forest",
    "valley",
    "history",
    "science",
]


def make_text(number: int, chars: int = 2_000) -> str:
    """Return a text of `chars` characters that is the same for the same number."""
    chance = random.Random(number)
    words = []
    size = 0
    while size < chars:
        words.append(chance.choice(WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)


def name_fact(number: int) -> str:
    """Return the name of a fact: two syllables that no text has."""
    return "".join(random.Random(f"name {number}").choices("bdfgklmnprstvz", k=7)).capitalize()


def make_facts(turns: int, count: int) -> dict[int, tuple[str, str]]:
    """Return the names and values of the facts, by the turns in which they are planted."""
    places = sorted(random.Random(7).sample(range(turns), count))
    return {place: (name_fact(place), f"{random.Random(place).randrange(10**8, 10**9)}") for place in places}


def count_tokens(tools) -> int:
    """Return the tokens of tools: the characters of their schemas / 4."""
    return len(json.dumps(tools.schemas("openai"))) // 4


class Reader:
    """A model that calls `page` in each turn, and looks up facts when it is asked to."""

    def __init__(self, window: int | None, *, steps: int = 1) -> None:
        self.name = "reader"
        self.context_window = window
        self.steps = steps
        self.tokens: list[int] = []
        self.broken = 0
        self.found: dict[str, str] = {}
        self.asked = 0
        self.is_measured = True
        self._before: list[str] = []
        self._written: dict[int, tuple[object, str]] = {}
        self._number = 0

    def ask(self, request):
        """Yield the reply to a request."""
        used = 0
        if self.is_measured:
            texts = [self._write(message) for message in request.messages]
            used = sum(map(len, texts)) // 4 + count_tokens(request.tools)
            if self.context_window:
                assert used <= self.context_window, "the request exceeds the window"
            self.tokens.append(used)
            self.broken += texts[: len(self._before)] != self._before
            self._before = texts
        yield Reply(self._reply(request), Usage(1, used, 10), "stop", self.name)

    async def aask(self, request):
        """Yield the reply to a request."""
        for piece in self.ask(request):
            yield piece

    def _write(self, message) -> str:
        """Return a message as JSON; the same object is written once."""
        if self._written.setdefault(id(message), (message, ""))[0] is not message or not self._written[id(message)][1]:
            self._written[id(message)] = message, json.dumps(message)
        return self._written[id(message)][1]

    def _call(self, name, **arguments):
        self._number += 1
        call = {
            "id": f"c{self._number}_{len(self.tokens)}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def _reply(self, request):
        last = request.messages[-1]
        query = next(m["content"] for m in reversed(request.messages) if m["role"] == "user")
        if wanted := re.search(r"What is the code of (\w+)\?$", query):
            if last["role"] == "user":
                if "search_conversation" not in request.tools:
                    return self._call("final_answer", text="unknown")
                self.asked += 1
                return self._call("search_conversation", query=f"code of {wanted[1]}")
            text = str(last["content"])
            if code := re.search(rf"code of {wanted[1]} is (\d+)", text):
                self.found[wanted[1]] = code[1]
                return self._call("final_answer", text=code[1])
            if last.get("name") != "read_more" and (place := re.search(r"\[(\w+:\d+)\]", text)):
                return self._call("read_more", at=place[1])
            return self._call("final_answer", text="unknown")
        turn = int(re.search(r"turn (\d+)", query)[1])
        if self.steps > 1:
            done = self._number
            return self._call("page", number=done) if done < self.steps else self._call("final_answer", text="done")
        if last["role"] == "user":
            return self._call("page", number=turn)
        return self._call("final_answer", text=f"Turn {turn} is done.")


def make_agent(model, facts, clock=None, **options) -> tuple[JsonAgent, list[Compacted]]:
    """Return an agent whose tool returns the texts with the facts, and the list of its events."""

    def page(number: int) -> str:
        """Return a page.

        Args:
            number: Which one.
        """
        text = make_text(number)
        if number in facts:
            half = len(text) // 2
            text = f"{text[:half]} The code of {facts[number][0]} is {facts[number][1]}. {text[half:]}"
        return text

    events: list[Compacted] = []

    def listen(event) -> None:
        if isinstance(event, Compacted):
            events.append(event)

    tool = JsonTool(page, effect="read", trust="trusted")
    return JsonAgent(
        [tool], model=model, listeners=[listen, *([clock] if clock else [])], max_steps=10**6, **options
    ), events


def measure(window: int | None, shape: str) -> dict:
    """Return the figures of one conversation: 300 queries, or one query with 300 steps."""
    facts = make_facts(TURNS, FACTS)
    model = Reader(window, steps=TURNS if shape == "steps" else 1)
    agent, events = make_agent(model, facts)
    session = Session()
    if shape == "steps":
        agent.run("Begin with turn 0.", session=session)
    else:
        for turn in range(TURNS):
            agent.run(f"This is turn {turn}.", session=session)
    tokens = sum(model.tokens)
    figures = {"tokens": tokens, "requests": len(model.tokens), "compactions": len(events), "broken": model.broken}
    model.steps = 1
    if window is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.jsonl"
            session.save(path)
            session = Session.load(path)  # as another process has it
        for name, _ in facts.values():
            agent.run(f"What is the code of {name}?", session=session)
        values = dict(facts.values())
        figures["reachable"] = sum(model.found.get(name) == code for name, code in values.items())
    return figures


def time_turns(window: int, lengths: tuple[int, ...], shape: str) -> list[float]:
    """Return the CPU seconds of a turn when a conversation has these lengths, the mean of the 100 turns before."""
    model = Reader(window, steps=max(lengths) if shape == "steps" else 1)
    model.is_measured = False
    times = [0.0]

    class Clock:
        def __call__(self, event) -> None:
            if isinstance(event, ToolFinished):
                times.append(time.process_time())

    agent, _ = make_agent(model, {}, clock=Clock())
    session = Session()
    if shape == "steps":
        agent.run("Begin with turn 0.", session=session)
    else:
        for turn in range(max(lengths)):
            agent.run(f"This is turn {turn}.", session=session)
    each = 1 if shape == "steps" else 2  # the answer is a call, too
    return [(times[length * each] - times[(length - 100) * each]) / 100 for length in lengths]


def main() -> None:
    """Print the figures."""
    for shape in ("queries", "steps"):
        without = measure(None, shape)
        for window in WINDOWS:
            found = measure(window, shape)
            share = found["tokens"] / without["tokens"]
            print(
                f"{shape}, window {window:,}: {found['reachable']} of {FACTS} facts reachable; {share:.1%} of "
                f"{without['tokens']:,} tokens; {found['requests']} requests, {found['compactions']} times shortened, "
                f"{found['broken']} did not begin with the request before"
            )
        short, long = time_turns(8_000, (200, 2_000), shape)
        print(
            f"{shape}: CPU of a turn {short * 1000:.2f} ms at 200 turns, {long * 1000:.2f} ms at 2,000 "
            f"({long / short:.2f} times)"
        )


if __name__ == "__main__":
    sys.exit(main())
