"""Code mode beside plain calls on the same tasks: requests, tokens, final states.

    pip download bfcl-eval==2026.3.23 --no-deps
    python benchmarks/code_mode.py bfcl_eval-2026.3.23-py3-none-any.whl

The tasks are the multi-turn ones of BFCL (https://gorilla.cs.berkeley.edu/leaderboard.html): turns of gold calls on
objects with a state, whose sources the wheel has.  A scripted model makes the gold calls of each turn, and no others: one
after the other, all in one reply, or as one program.  Their order is kept in each case.  So the figures say what a model
saves that makes no mistakes; they do not say how often a model writes a right program.

A second task has what programs are for: a list, and a call for each of its 40 entries.
Tokens are characters / 4 of the requests as OpenAI gets them, and of the replies.
"""

import ast
import copy
import importlib
import json
import sys
import types
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from agentkit import CodeMode, JsonAgent, JsonTool
from agentkit.testing import ScriptedModel, answer, call, calls

CHARS_PER_TOKEN = 4
WAYS = ("one call a reply", "a turn's calls in one reply", "a program that prints all", "a program that prints nothing")
FOLDER = "bfcl_eval/data"
SOURCES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


@dataclass(frozen=True)
class Task:
    """A task: its questions, its objects and the gold calls of each turn, as Python expressions."""

    name: str
    questions: list[str]
    config: dict[str, Any]
    classes: list[str]
    turns: list[list[str]]


def add_wheel(wheel: Path) -> None:
    """Let Python import the sources of the wheel, which need no package but `mpmath` for one function."""
    sys.path.insert(0, str(wheel))
    for name in ("mpmath",):
        if PathFinder.find_spec(name) is None:
            sys.modules.setdefault(name, types.ModuleType(name))


def read_tasks(wheel: Path, category: str = "multi_turn_base") -> Iterator[Task]:
    """Yield the tasks of a category."""
    with zipfile.ZipFile(wheel) as archive:

        def rows(path: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in archive.read(f"{FOLDER}/{path}").decode().splitlines()]

        gold = {row["id"]: row["ground_truth"] for row in rows(f"possible_answer/BFCL_v4_{category}.json")}
        for row in rows(f"BFCL_v4_{category}.json"):
            asked = ["\n".join(message["content"] for message in turn) for turn in row["question"]]
            yield Task(row["id"], asked, row["initial_config"], row["involved_classes"], gold[row["id"]])


def make_objects(task: Task) -> dict[str, Any]:
    """Return the objects of a task in their first state."""
    objects = {}
    for name in task.classes:
        made = getattr(importlib.import_module(f"{SOURCES}.{MODULES[name]}"), name)()
        if name != "MathAPI":
            made._load_scenario(copy.deepcopy(task.config.get(name, {})), long_context=False)
        objects[name] = made
    return objects


def list_functions(objects: dict[str, Any]) -> dict[str, Any]:
    """Return the public methods of the objects, by name."""
    return {
        name: getattr(made, name)
        for made in objects.values()
        for name in dir(made)
        if not name.startswith("_") and callable(getattr(made, name))
    }


def make_tools(objects: dict[str, Any]) -> list[JsonTool]:
    """Return the methods of the objects as tools; any may change its object, so they run one after the other."""
    return [
        JsonTool(method, name=name, repair="off", effect="write") for name, method in list_functions(objects).items()
    ]


def run_gold(task: Task) -> dict[str, Any]:
    """Return the objects after the gold calls, made by Python itself."""
    objects = make_objects(task)
    names = list_functions(objects)
    for turn in task.turns:
        for text in turn:
            try:
                eval(text, {**names})
            except Exception:  # a gold call may fail, as the checker of BFCL lets it
                continue
    return objects


def write_program(turn: list[str]) -> str:
    """Return the calls of a turn as a program, which continues after a failed call."""
    lines = []
    for text in turn:
        lines.append(f"try:\n    print({text})\nexcept RuntimeError as error:\n    print('failed:', error)")
    return "\n".join(lines) or "pass"


def list_calls(turn: list[str], functions: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and the arguments of calls; an argument that is a call has its value when it is made."""
    found = []
    for text in turn:
        node = ast.parse(text, mode="eval").body
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        names = list(functions[node.func.id].__code__.co_varnames[1:])
        given = dict(zip(names, node.args, strict=False)) | {str(entry.arg): entry.value for entry in node.keywords}
        found.append((node.func.id, {name: ast.literal_eval(value) for name, value in given.items()}))
    return found


def state_of(objects: dict[str, Any]) -> dict[str, Any]:
    """Return what the checker of BFCL compares: the public attributes of each object."""
    return {
        name: {key: repr_of(value) for key, value in vars(made).items() if not key.startswith("_")}
        for name, made in objects.items()
    }


def repr_of(value: Any) -> Any:
    """Return a value that can be compared, with the contents of files and folders instead of their addresses."""
    if hasattr(value, "contents"):
        return {name: repr_of(inside) for name, inside in value.contents.items()}
    if hasattr(value, "content"):
        return value.content
    if isinstance(value, dict):
        return {name: repr_of(inside) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [repr_of(inside) for inside in value]
    return value if isinstance(value, str | int | float | bool | None) else str(type(value))


def script(way: str, turn: list[str], functions: dict[str, Any]) -> list[Any]:
    """Return the replies of a turn."""
    if way in WAYS[:2]:
        made = [call(name, **arguments) for name, arguments in list_calls(turn, functions)]
        return [*(made if way == WAYS[0] else [calls(*made)] if made else []), answer("done")]
    program = write_program(turn) if way == WAYS[2] else "\n".join(turn)
    return [call("run_code", code=program or "pass"), answer("done")]


def count(model: ScriptedModel) -> tuple[int, int, int]:
    """Return the requests of a run, and the tokens of these and of the replies."""
    sent = 0
    replied = 0
    for request in model.requests:
        tools = request.tools.schemas("openai")
        messages = [{key: value for key, value in message.items() if key != "label"} for message in request.messages]
        sent += len(json.dumps([tools, messages], ensure_ascii=False, separators=(",", ":")))
    for entry in model.replies:
        replied += len(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    return len(model.requests), sent // CHARS_PER_TOKEN, replied // CHARS_PER_TOKEN


class CountingModel(ScriptedModel):
    """A scripted model that knows its replies."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies)
        self.replies = replies


def run_task(task: Task, way: str) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """Return the state after a task, and its figures."""
    objects = make_objects(task)
    functions = list_functions(objects)
    model = CountingModel([reply for turn in task.turns for reply in script(way, turn, functions)])
    extensions = [CodeMode()] if way in WAYS[2:] else []
    agent = JsonAgent(make_tools(objects), model=model, extensions=extensions, max_steps=200)
    for question in task.questions:
        agent.run(question)
    return state_of(objects), count(model)


def run_list(way: str) -> tuple[int, int, int]:
    """Return the figures of a task with a call for each entry of a list."""

    def list_orders(customer: str) -> list[int]:
        """List the numbers of a customer's orders."""
        return [*range(1, 41)] if customer else []

    def get_order(number: int) -> dict[str, Any]:
        """Get an order by its number."""
        return {"number": number, "euros": 2.5 * number, "address": "12 Long Street, Springfield", "state": "shipped"}

    made = [call("get_order", number=number) for number in range(1, 41)]
    plain = [call("list_orders", customer="Ann"), *(made if way == WAYS[0] else [calls(*made)])]
    program = "orders = [get_order(number) for number in list_orders('Ann')]\nprint(sum(o['euros'] for o in orders))"
    replies = [*(plain if way in WAYS[:2] else [call("run_code", code=program)]), answer("2,050 euros.")]
    model = CountingModel(replies)
    JsonAgent([list_orders, get_order], model=model, extensions=[CodeMode()] if way in WAYS[2:] else []).run(
        "How much?"
    )
    return count(model)


def main(wheel: Path) -> None:
    add_wheel(wheel)
    tasks = [*read_tasks(wheel)]
    gold = {task.name: state_of(run_gold(task)) for task in tasks}
    print(
        "| BFCL multi_turn_base | same final states | requests | tokens sent | tokens replied |\n|---|---|---|---|---|"
    )
    for way in WAYS:
        runs = [(task, *run_task(task, way)) for task in tasks]
        same = sum(state == gold[task.name] for task, state, _ in runs)
        sums = [sum(figures[place] for *_, figures in runs) for place in range(3)]
        print(f"| {way} | {same} of {len(tasks)} | {sums[0]:,} | {sums[1]:,} | {sums[2]:,} |", flush=True)
    print(
        "\n| a list, and a call for each of its 40 entries | requests | tokens sent | tokens replied |\n|---|---|---|---|"
    )
    for way in WAYS[:3]:
        figures = run_list(way)
        print(f"| {way} | {figures[0]:,} | {figures[1]:,} | {figures[2]:,} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
