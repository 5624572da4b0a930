"""Everyday questions over eight tools, answered by a local model: `python benchmarks/local.py [MODEL] [COUNT]`.

A call is right if the first call names the tool and holds the argument; an answer is right if it holds the result.

`python benchmarks/local.py bfcl PATH CATEGORY FIRST END [MODEL]` makes the first request of an agent for rows of the
Berkeley Function Calling Leaderboard; PATH is as for `everyday.py`, CATEGORY `simple_python` or `multiple`.
"""

# ruff: noqa: ARG001 (the tools have fixed results)

import json
import sys
import time
from typing import Any, NamedTuple

from everyday import is_allowed, read_rows

from agentkit import JsonAgent, JsonTool, RunError, ToolRegistry
from agentkit.core.messages import calls_of
from agentkit.engine.model import Reply, Request
from agentkit.models.local import LocalModel
from agentkit.policies.text_tool_mode import SchemaCallModel
from agentkit.tools.final_answer import make_answer_tool


def price_of(item: str) -> float:
    """Return the price of an item in euros."""
    return 4.25


def get_weather(city: str) -> str:
    """Tell the weather and the temperature in a city."""
    return "12 degrees, rain"


def convert_currency(amount: float, source: str, target: str) -> float:
    """Convert an amount of money from one currency to another."""
    return 21.7


def stock_of(product: str) -> int:
    """Return how many pieces of a product are left in stock."""
    return 17


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def opening_hours(shop: str) -> str:
    """Tell when a shop opens and closes."""
    return "9:00 to 18:00"


def translate(text: str, language: str) -> str:
    """Translate a text into another language."""
    return "bonjour"


def phone_of(person: str) -> str:
    """Look up the phone number of a person."""
    return "555-0142"


TOOLS = [price_of, get_weather, convert_currency, stock_of, add, opening_hours, translate, phone_of]


MAX_SECONDS = 10
"""Seconds of an answer."""


class Row(NamedTuple):
    """A question, the tool of the right call, a part of its arguments, and a part of the result."""

    query: str
    tool: str
    argument: str
    result: str


ROWS = [
    Row("What is the price of coffee?", "price_of", "coffee", "4.25"),
    Row("Is it raining in Kolkata?", "get_weather", "kolkata", "rain"),
    Row("Do we still have blue mugs?", "stock_of", "mug", "17"),
    Row("Convert 20 euros to dollars.", "convert_currency", "20", "21.7"),
    Row("What is 2 plus 3?", "add", "3", "5"),
    Row("When does the bakery open?", "opening_hours", "bakery", "9:00"),
    Row("How do you say hello in French?", "translate", "hello", "bonjour"),
    Row("What is Anna's phone number?", "phone_of", "anna", "555-0142"),
    Row("How much does tea cost?", "price_of", "tea", "4.25"),
    Row("What is the weather in Paris?", "get_weather", "paris", "12 degrees"),
    Row("How many chairs are left in stock?", "stock_of", "chair", "17"),
    Row("Add 14 and 28.", "add", "28", "42"),
    Row("What does an umbrella cost?", "price_of", "umbrella", "4.25"),
    Row("Tell me the price of a ticket.", "price_of", "ticket", "4.25"),
    Row("How warm is it in Rome today?", "get_weather", "rome", "12 degrees"),
    Row("Do I need a coat in Oslo?", "get_weather", "oslo", "rain"),
    Row("Exchange 50 pounds into euros.", "convert_currency", "50", "21.7"),
    Row("How many yen are 10 dollars?", "convert_currency", "10", "21.7"),
    Row("How many red pens do we have left?", "stock_of", "pen", "17"),
    Row("Are there any lamps in stock?", "stock_of", "lamp", "17"),
    Row("What is the sum of 7 and 8?", "add", "8", "15"),
    Row("How much is 100 plus 250?", "add", "250", "350"),
    Row("When does the library close?", "opening_hours", "library", "18:00"),
    Row("What are the opening hours of the museum?", "opening_hours", "museum", "9:00"),
    Row("Until when is the pharmacy open?", "opening_hours", "pharmacy", "18:00"),
    Row("Translate good morning into Spanish.", "translate", "good morning", "bonjour"),
    Row("What is thank you in German?", "translate", "thank you", "bonjour"),
    Row("What number do I dial to reach Peter?", "phone_of", "peter", "555-0142"),
    Row("Find the phone number of Maria Lopez.", "phone_of", "maria", "555-0142"),
    Row("Give me Tom's telephone number.", "phone_of", "tom", "555-0142"),
]


def main(model: str = "local/smollm2", count: str = "30") -> None:
    tools = calls = answers = repeated = slow = 0
    for row in ROWS[: int(count)]:
        agent = JsonAgent(TOOLS, model=model, max_steps=3)
        began = time.monotonic()
        began_cpu = time.process_time()
        try:
            answer = agent(row.query)
        except RunError as error:
            answer = f"{type(error).__name__}: {error}"
        made = [call["function"] for message in agent.history for call in message.get("tool_calls") or ()]
        own = [(call["name"], call["arguments"]) for call in made if call["name"] != "final_answer"]
        is_tool = bool(own) and own[0][0] == row.tool
        tools += is_tool
        calls += is_tool and row.argument in own[0][1].lower()
        answers += row.result in answer.lower()
        repeated += len(own) > len(set(own))
        cpu = time.process_time() - began_cpu
        slow += cpu >= MAX_SECONDS
        print(f"{time.monotonic() - began:5.1f} s, {cpu:4.1f} s of CPU  {row.query} {own} -> {answer}", flush=True)
    print(f"right tool {tools}, right call {calls}, answer with the result {answers}, repeated calls {repeated}")
    print(f"longer than {MAX_SECONDS} s of CPU, which is one thread's time on a quiet machine: {slow}")


TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def to_json_schema(node: Any) -> Any:
    """Return a schema of the leaderboard with the types of JSON Schema; "any" is no type."""
    if isinstance(node, list):
        return [to_json_schema(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {key: to_json_schema(value) for key, value in node.items() if (key, value) != ("type", "any")}
    if isinstance(made.get("type"), str):
        made["type"] = TYPES.get(made["type"], made["type"])
    return {key: value for key, value in made.items() if key != "optional"}


def make_tools(row: dict[str, Any]) -> dict[str, JsonTool[..., Any]]:
    """Return the tools of a row by their original names; a name has no dots."""
    return {
        one["name"]: JsonTool.from_schema(
            name=one["name"].replace(".", "_"),
            description=one["description"],
            parameters=to_json_schema(one["parameters"]),
            call=lambda **given: given,
        )
        for one in row["function"]
    }


def measure_bfcl(path: str, category: str, first: str, end: str, model: str = "local/smollm2") -> None:
    answers = {row["id"]: row["ground_truth"] for row in read_rows(path, f"possible_answer/BFCL_v4_{category}")}
    rows = read_rows(path, f"BFCL_v4_{category}")[int(first) : int(end)]
    backend = SchemaCallModel(LocalModel(model))
    right = named = valid = 0
    began = time.monotonic()
    for row in rows:
        tools = make_tools(row)
        names = {tool.name: name for name, tool in tools.items()}
        registry = ToolRegistry(*tools.values(), answer=make_answer_tool(str))
        request = Request([{"role": "user", "content": row["question"][0][-1]["content"]}], registry)
        replies = [piece for piece in backend.ask(request) if isinstance(piece, Reply)]
        calls = calls_of(replies[-1].message)
        valid += bool(calls) and all(registry.bind(call).problem is None for call in calls)
        made = [(names.get(call.name, ""), json.loads(call.arguments)) for call in calls]
        truth = answers[row["id"]]
        named += bool(made) and made[0][0] in truth[0]
        is_right = len(made) == len(truth) and all(map(is_allowed, made, truth))
        right += is_right
        print("right" if is_right else f"wrong {row['id']}", made, flush=True)
    seconds = (time.monotonic() - began) / max(1, len(rows))
    print(f"{category} {first} to {end}: right {right}, right tool {named}, valid {valid}, {seconds:.1f} s each")


if __name__ == "__main__":
    if sys.argv[1:2] == ["bfcl"]:
        measure_bfcl(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
