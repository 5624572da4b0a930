"""Tools that ask a person, and what they did."""

import asyncio
import json

from agentkit import InputRequired, Question, RunContext, ask_question

RUNS: list[object] = []
WRONG_ANSWERS = [
    ({"call_9": 1}, r"answers: nothing waits with the id 'call_9'\. Waiting: 'call_1_1'\."),
    ({"call_1_1": "two"}, r"answers\['call_1_1'\]: 'two' is not of type 'integer'\. Expected: .*for example 1"),
    ({"call_1_1": object()}, r"answers\['call_1_1'\]: Object of type object is not JSON serializable\. Expected"),
]
"""Answers to the question of `book` that cannot be, each with the error."""


def book(city: str) -> str:
    """Books a room."""
    RUNS.append(city)
    nights = ask_question("How many nights?", int)
    return f"{city}: {nights} nights, breakfast: {ask_question('Breakfast?', bool)}"


async def abook(city: str) -> str:
    """Books a room."""
    await asyncio.sleep(0)
    return book(city)


abook.__name__ = "book"


def note(text: str) -> str:
    """Notes."""
    RUNS.append(text)
    return f"noted {text}"


def pay(to: str, run: RunContext) -> str:
    """Pays."""
    RUNS.append(run.answered)
    if run.answered is None:
        raise InputRequired(
            Question("Code?", id="code"), Question("Sure?", {"type": "boolean"}, "sure"), state={"t": 1}
        )
    return json.dumps([dict(run.answered.values), run.answered.state])
