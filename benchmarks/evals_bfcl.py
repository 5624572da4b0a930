"""The Berkeley Function Calling Leaderboard (v4) through `agentkit.evals`, category by category.

    pip download bfcl-eval==2026.3.23 --no-deps
    python benchmarks/evals_bfcl.py bfcl_eval-2026.3.23-py3-none-any.whl MODEL [CATEGORY ...] [--first N]

MODEL is a name ("offline", "local/smollm2", "openai/gpt-4o-mini"), or "gold": a script that makes the calls of the data,
which shows that the cases can be passed.  A row is one case.  Its calls must be those that the leaderboard allows, and no
others; all calls of a run count, not those of its first reply alone.  In the conversations (multi_turn) the objects must
end in the state that the calls of the data lead to, as the leaderboard compares them.

Left out are simple_java and simple_javascript (values written in those languages), multi_turn_miss_func (tools that come in the middle) and multi_turn_long_context, memory and web_search, which
need the backends of the leaderboard, format_sensitivity, which is about prompts without tools, and rows without tools.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from code_mode import WAYS, add_wheel, list_functions, make_objects, read_tasks, run_gold, script, state_of
from code_mode import make_tools as make_object_tools
from everyday import is_allowed, read_rows
from local import make_tools

from agentkit import JsonAgent
from agentkit.evals import Attempt, Case, evaluate
from agentkit.testing import ScriptedModel, answer, call, calls

NO_CALLS = ("irrelevance", "live_irrelevance")
SOME_CALL = ("live_relevance",)
CALLS = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
TALKS = ("multi_turn_base", "multi_turn_miss_param")
MAX_STEPS = 20


class Row(NamedTuple):
    """A case, and a function that returns an agent with the tools of the row, whose model has these replies."""

    case: Case
    make: Any
    gold: list[Any]


def list_rows(path: str, category: str) -> Iterator[Row]:
    """Yield the rows of a category with one query each."""
    answers = {row["id"]: row["ground_truth"] for row in read_rows(path, f"possible_answer/BFCL_v4_{category}")}
    for row in read_rows(path, f"BFCL_v4_{category}"):
        tools = make_tools(row)
        if not tools:  # an agent has tools
            continue
        names = {tool.name: name for name, tool in tools.items()}
        written = {name: tool.name for name, tool in tools.items()}
        truth = answers.get(row["id"], [])
        query = "\n\n".join(message["content"] for message in row["question"][0])
        expected: dict[str, Any] = {"answer": {"judge": make_judge(names, truth)}} if truth else {}
        if category in NO_CALLS:
            expected = {"limits": {"tool_calls": 0}}
        elif category in SOME_CALL:
            expected = {"answer": {"judge": lambda _, attempt: bool(attempt.calls)}}
        made = [
            call(written[name], **choose_all(given, tools[name].parameters.get("required", ())))
            for entry in truth
            for name, given in entry.items()
        ]
        yield Row(
            Case(query, name=row["id"], **expected),
            lambda model, tools=tools: JsonAgent([*tools.values()], model=model, max_steps=MAX_STEPS),
            [*([calls(*made)] if made else []), answer("Done.")],
        )


def make_judge(names: Mapping[str, str], truth: list[Any]) -> Any:
    """Return a function that compares all calls of an attempt with those of the data, in any order."""

    def judge(_: Any, attempt: Attempt) -> None:
        made = [(names.get(each.name, each.name), dict(each.arguments)) for each in attempt.calls]
        left = [*truth]
        for one in made:
            fitting = next((entry for entry in left if is_allowed(one, entry)), None)
            assert fitting is not None, f"not allowed, or once too often: {one}"
            left.remove(fitting)
        assert not left, f"not called: {left}"

    return judge


def choose_all(allowed: Mapping[str, Any], required: Collection[str] = ()) -> dict[str, Any]:
    """Return arguments that the data allow, without those that may be left out."""
    listed = {key: values if isinstance(values, list) else [values] for key, values in allowed.items()}
    return {key: choose(values) for key, values in listed.items() if values and ("" not in values or key in required)}


def choose(values: list[Any]) -> Any:
    """Return the first allowed value; of an object the first of each of its fields."""
    first = values[0]
    if isinstance(first, dict):
        return choose_all(first)
    return [choose([entry]) for entry in first] if isinstance(first, list) else first


def list_talks(path: str, category: str) -> Iterator[Row]:
    """Yield the conversations of a category."""
    add_wheel(Path(path))
    for task in read_tasks(Path(path), category):

        def judge(_: Any, attempt: Attempt, task: Any = task) -> bool:
            return state_of(attempt.agent.deps) == state_of(run_gold(task))

        def make(model: Any, task: Any = task) -> JsonAgent[str]:
            objects = make_objects(task)
            return JsonAgent(
                make_object_tools(objects), model=model, deps=objects, max_steps=MAX_STEPS, sequential=True
            )

        functions = list_functions(make_objects(task))
        gold = [reply for turn in task.turns for reply in script(WAYS[1], turn, functions)]
        case = Case(task.questions[0], name=task.name, user=task.questions[1:], answer={"judge": judge})
        yield Row(case, make, gold)


def main(path: str, model: str, *words: str) -> None:
    chosen = [*words[: words.index("--first")]] if "--first" in words else [*words]
    first = int(words[len(chosen) + 1]) if "--first" in words else None
    listed = [*CALLS, *NO_CALLS, *TALKS] if model == "gold" else [*CALLS, *NO_CALLS, *SOME_CALL, *TALKS]
    for category in chosen or listed:  # the data have no calls for live_relevance, where any call is right
        rows = {row.case.name: row for row in (list_talks if category in TALKS else list_rows)(path, category)}
        cases = [row.case for row in rows.values()][:first]

        def make(case: Case, rows: Mapping[str, Row] = rows) -> JsonAgent[Any]:
            row = rows[case.name]
            made: JsonAgent[Any] = row.make(ScriptedModel([*row.gold], name="gold") if model == "gold" else model)
            return made

        report = evaluate(make, cases, concurrency=1 if model.startswith("local/") else 8)
        (figures,) = map(report.figures, report.models)
        estimate, low, high = figures["pass"]["1"]
        print(
            f"{category}: {figures['passed']} of {figures['cases']} ({estimate:.3f} [{low:.3f}, {high:.3f}]), "
            f"{figures['errors']} errors, {figures['steps']:.2f} steps, {figures['median_seconds']:.3f} s",
            flush=True,
        )
        for trial in report.failed[:3]:
            print(f"    {trial.case}: {trial.failures[0]:.160}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
