"""The Berkeley Function Calling Leaderboard (v4) through `agentkit.evals`, category by category.

    pip download bfcl-eval==2026.3.23 --no-deps
    pip install -r benchmarks/requirements-bfcl.txt
    python benchmarks/evals_bfcl.py bfcl_eval-2026.3.23-py3-none-any.whl MODEL [CATEGORY ...] [--first N] [--show]

MODEL is a name ("offline", "local/smollm2", "openai/gpt-4o-mini"), or "gold": a script that makes the calls of the data,
which shows that the cases can be passed.  A row is one case, and the leaderboard's own checkers decide.

- One query (simple, multiple, parallel, live): all calls of the run count, not those of its first reply alone.
- irrelevance, live_irrelevance, live_relevance: no call, or at least one.
- multi_turn: the leaderboard makes the calls once more on objects of its own, and compares the states and the results.
  In miss_func, tools come in the middle.
- memory: the model first has the conversations of each scenario, then a question is one case.  memory_vector needs the
  packages sentence-transformers and faiss-cpu, and weights that are downloaded.
- web_search needs google-search-results, html2text, beautifulsoup4, the network and a key of SerpApi.
- format_sensitivity: the model gets no tools but the leaderboard's instruction, and writes its calls as text.

A category that needs what is missing is named, and left out.
"""

import argparse
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from bfcl import NO_TRUTH, Calls, Entry, Leaderboard
from code_mode import list_calls, list_functions
from local import to_json_schema

from agentkit import JsonAgent, JsonTool, RunContext, RunError, Session
from agentkit.evals import Attempt, Case, evaluate
from agentkit.testing import ScriptedModel, answer, call, calls

MAX_STEPS = 20
"""Requests for a query; the leaderboard has the same limit."""
GOLD = "gold"
REFUSED = ("ValidationError", "UnknownTool")
"""The errors of calls that did not run."""
MEMORY = {"memory_kv": ("archival_memory_add", "archival_memory_retrieve"), "memory_rec_sum": ("memory_append", "")}
"""For each memory, how the script keeps a text, and how it reads it again; "" if the memory has one text."""


class Row(NamedTuple):
    """A case, a function of a model that returns an agent with the tools of the row, and the replies of the script."""

    case: Case
    make: Callable[[Any], JsonAgent[Any]]
    gold: list[Any]


def make_tools(functions: Sequence[Mapping[str, Any]], run: Mapping[str, Any] | None = None) -> dict[str, JsonTool]:
    """Return tools by the names of the leaderboard's functions; a tool's name has no dots.

    Args:
        functions: The functions, as the leaderboard describes them.
        run: The functions themselves; without them, a tool returns its arguments.
    """
    return {
        one["name"]: JsonTool.from_schema(
            name=one["name"].replace(".", "_"),
            description=one["description"],
            parameters=to_json_schema(one["parameters"]),
            call=run[one["name"]] if run else lambda **given: given,
        )
        for one in functions
    }


def list_rows(board: Any, category: str, entries: Sequence[Entry]) -> Iterator[Row]:
    """Yield the rows of a category."""
    if category.startswith("multi_turn"):
        make = make_talk
    elif category == "format_sensitivity":
        make = make_text_row
    else:
        make = make_question if category.startswith(("memory", "web_search")) else make_row
    yield from (make(board, entry) for entry in entries)


def make_row(board: Any, entry: Entry) -> Row:
    """Return a row with one query, whose calls are compared."""
    category, shown, plain, truth = entry
    tools = make_tools(shown["function"])
    names = {tool.name: name for name, tool in tools.items()}

    def judge(_: Any, attempt: Attempt) -> None:
        made: Calls = [{names.get(each.name, each.name): dict(each.arguments)} for each in attempt.calls]
        wrong = board.check_calls(category, plain["function"], made, truth)
        assert not wrong, wrong

    expected: dict[str, Any] = {"answer": {"judge": judge}}
    if "irrelevance" in category:
        expected = {"limits": {"tool_calls": 0}}
    elif category in NO_TRUTH:
        expected = {"answer": {"judge": lambda _, attempt: bool(attempt.calls)}}
    wanted = list_gold(entry)
    made = [call(tools[name].name, **arguments) for name, arguments in wanted]
    return Row(
        Case(_join(shown["question"][0]), name=shown["id"], **expected),
        partial(_make_agent, [*tools.values()], _join(shown["question"][0], "system")),
        [*([calls(*made)] if made else []), answer("Done.")],
    )


def make_talk(board: Any, entry: Entry) -> Row:
    """Return a conversation about objects with a state."""
    _, shown, plain, truth = entry
    later = {int(turn): functions for turn, functions in shown.get("missed_function", {}).items()}
    asked = [_join(turn) or board.more_functions for turn in shown["question"]]

    def make(model: Any) -> JsonAgent[str]:
        functions = list_functions(board.make_objects(shown))
        more = {turn: [*make_tools(described, functions).values()] for turn, described in later.items()}

        def select(context: RunContext[Any]) -> list[JsonTool]:
            turn = sum(message["role"] == "user" for message in context.messages) - 1
            return [tool for first, tools in more.items() for tool in tools if first <= turn]

        tools = [*make_tools(shown["function"], functions).values()]
        return JsonAgent(*tools, tools=select, model=model, max_steps=MAX_STEPS, sequential=True)

    def judge(_: Any, attempt: Attempt) -> None:
        wrong = board.check_talk(plain, [*read_turns(attempt)], truth)
        assert not wrong, wrong

    functions = list_functions(board.make_objects(shown))
    gold = []
    for turn in truth:
        made = [call(name, **arguments) for name, arguments in list_calls(turn, functions)]
        gold += [*([calls(*made)] if made else []), answer("Done.")]
    return Row(Case(asked[0], name=shown["id"], user=asked[1:], answer={"judge": judge}), make, gold)


def read_turns(attempt: Attempt) -> Iterator[list[list[str]]]:
    """Yield for each turn the calls that ran, reply by reply, as Python writes them."""
    begin = 0
    for result in attempt.results:
        refused = {entry.call.id for entry in result.calls if entry.error and entry.error.name in REFUSED}
        replies = []
        for message in result.messages[begin:]:
            made = [
                f"{one['function']['name']}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
                for one in message.get("tool_calls") or ()
                if one["function"]["name"] != "final_answer" and one["id"] not in refused
                for given in [json.loads(one["function"]["arguments"] or "{}")]
            ]
            replies += [made] if made else []
        begin = len(result.messages)
        yield replies


def make_question(board: Any, entry: Entry) -> Row:
    """Return a question whose answer stands in a memory or in the web."""
    category, shown, _, truth = entry
    is_memory = category.startswith("memory")

    def make(model: Any) -> JsonAgent[str]:
        objects = [*board.make_objects(shown, _configure(board, category, shown)).values()]
        (made,) = objects
        parts = [board.describe_memory(category, shown["scenario"], made)] if is_memory else []
        tools = make_tools(shown["function"], list_functions(dict(enumerate(objects))))
        return _make_agent([*tools.values()], "\n\n".join([*parts, _join(shown["question"][0], "system")]), model)

    right = truth["ground_truth"] if is_memory else truth

    def judge(said: Any, _: Attempt) -> None:
        wrong = board.check_answer(said, right)
        assert not wrong, wrong

    read = MEMORY[category][1] if category in MEMORY else None
    looked_up = [call(read, key=key_of(truth)) if read else call("memory_retrieve")] if category in MEMORY else []

    def tell(request: Any) -> Any:
        """Answer with what is right, unless the memory has nothing."""
        is_known = '"error"' not in str(request.messages[-1]["content"])
        return answer(f"{{'answer': {right[0] if is_known else 'I do not know'!r}, 'context': 'You said so.'}}")

    gold = [*looked_up, tell]
    return Row(Case(_join(shown["question"][0]), name=shown["id"], answer={"judge": judge}), make, gold)


def remember(board: Any, category: str, entries: Sequence[Entry], make_model: Callable[[list[Any]], Any]) -> None:
    """Have the conversations before these questions, so that the model can keep what it reads."""
    questions = [(entry.shown["scenario"], entry.truth) for entry in entries]
    for talk in board.read_earlier_talks(category):
        facts = [truth for scenario, truth in questions if scenario == talk["scenario"]]
        if not facts:
            continue
        objects = [*board.make_objects(talk, _configure(board, category, talk)).values()]
        (memory,) = objects
        kept = {key_of(truth): truth["source"] for truth in facts} if talk["id"].endswith("-0") else {}
        keep, read = MEMORY.get(category, ("", ""))
        made = [call(keep, **({"key": key} if read else {}), text=text) for key, text in kept.items()]
        if read:
            made = [call(keep, key=key, value=text) for key, text in kept.items()]
        replies = [*([calls(*made)] if made else []), *[answer("Noted.")] * len(talk["question"])]
        tools = make_tools(talk["function"], list_functions(dict(enumerate(objects))))
        description = board.describe_memory(category, talk["scenario"], memory)
        agent = _make_agent([*tools.values()], description, make_model(replies))
        session = Session()
        for turn in talk["question"]:
            try:
                agent.run(_join(turn), session=session)
            except RunError as error:  # the conversation continues, as the leaderboard's does
                print(f"    {talk['id']}: {type(error).__name__}: {error}", flush=True)
        memory._flush_memory_to_local_file()


def key_of(truth: Mapping[str, Any]) -> str:
    """Return the key under which the script keeps the answer of a question."""
    return f"fact_{truth['id'].split('_')[1].split('-')[0]}"


def _configure(board: Any, category: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first state of the memory, or of the search, of a row."""
    about = {"scenario": row.get("scenario"), "test_id": row["id"], "test_category": category}
    (name,) = row["involved_classes"]
    return {name: {**about, "model_result_dir": board.results, "show_snippet": "no_snippet" not in row["id"]}}


def make_text_row(board: Any, entry: Entry) -> Row:
    """Return a row whose calls are written as text."""
    _, shown, plain, truth = entry
    _, config, origin = shown["id"].split(":")

    def judge(said: Any, _: Attempt) -> None:
        try:
            made = board.read_text(str(said), config)
        except Exception as error:  # whatever the leaderboard's reader raises about a text
            raise ValueError(f"the text has no calls: {type(error).__name__}: {error}") from error
        wrong = board.check_calls(origin, plain["function"], made, truth)
        assert not wrong, wrong

    description = "\n\n".join(
        [board.describe_format(config, shown["function"]), _join(shown["question"][0], "system")]
    ).strip()
    return Row(
        Case(_join(shown["question"][0]), name=shown["id"], answer={"judge": judge}),
        partial(_make_agent, [], description),
        [answer(write_text(list_gold(entry), config))],
    )


def write_text(made: Sequence[tuple[str, Mapping[str, Any]]], config: str) -> str:
    """Return calls as a text of the form that the leaderboard asks for."""
    if "ret_fmt=json" in config:
        listed = [{"function": name, "parameters": given} for name, given in made]
        text = f"```json\n{json.dumps(listed)}\n```"
    elif "_xml" in config:
        text = f"<functions>{''.join(_write_xml(*one, is_long='verbose' in config) for one in made)}</functions>"
    else:
        listed_calls = [f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in made]
        text = f"[{', '.join(listed_calls)}]"
    return f"<TOOLCALL>{text}</TOOLCALL>" if "tool_call_tag=True" in config else text


XML_TYPES = {str: "string", bool: "boolean", int: "integer", float: "float", list: "array", dict: "dict"}


def _write_xml(name: str, given: Mapping[str, Any], *, is_long: bool) -> str:
    written = ""
    for key, value in given.items():
        about = f"name={quoteattr(key)} type={quoteattr(XML_TYPES[type(value)])}"
        written += (
            f"<param {about} value={quoteattr(str(value))}/>"
            if is_long
            else f"<param {about}>{escape(str(value))}</param>"
        )
    return f"<function name={quoteattr(name)}>{f'<params>{written}</params>' if is_long else written}</function>"


def list_gold(entry: Entry) -> list[tuple[str, dict[str, Any]]]:
    """Return calls that the data allow, as the language of the category writes them."""
    found = [choose_call(one, entry.plain["function"], entry.category) for one in entry.truth]
    return [pair for one in found for pair in one.items()]


def choose_call(allowed: Mapping[str, Any], functions: Sequence[Any], category: str) -> dict[str, dict[str, Any]]:
    """Return a call that the data allow."""
    ((name, listed),) = allowed.items()
    parameters = next(one["parameters"] for one in functions if one["name"] == name)
    given = choose_all(listed, parameters.get("required", ()))
    if category == "simple_java":
        given = {key: write_java(value, parameters["properties"][key]) for key, value in given.items()}
    elif category == "simple_javascript":
        given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    return {name: given}


def choose_all(allowed: Mapping[str, Any], required: Collection[str] = ()) -> dict[str, Any]:
    """Return arguments that the data allow, without those that may be left out."""
    listed = {key: values if isinstance(values, list) else [values] for key, values in allowed.items()}
    return {key: choose(values) for key, values in listed.items() if values and ("" not in values or key in required)}


def choose(values: list[Any]) -> Any:
    """Return the first allowed value that is not empty; of an object the first of each of its fields."""
    first = next((value for value in values if value != ""), "")
    if isinstance(first, dict):
        return choose_all(first)
    return [choose([entry]) for entry in first] if isinstance(first, list) else first


def write_java(value: Any, parameter: Mapping[str, Any]) -> str:
    """Return a value as Java writes it; a text is the name of a variable, or a text without quotes."""
    kind = parameter["type"]
    inside = parameter.get("items", {})
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        quoted = [
            f'"{entry}"' if inside.get("type") == "String" and kind == "ArrayList" else write_java(entry, inside)
            for entry in value
        ]
        joined = ", ".join(quoted)
        return (
            f"new ArrayList<{inside['type']}>(Arrays.asList({joined}))"
            if kind == "ArrayList"
            else f"new {inside['type']}[]{{{joined}}}"
        )
    if isinstance(value, dict):
        puts = " ".join(f'put("{key}", {json.dumps(one)});' for key, one in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    return f"{value}{ {'long': 'L', 'float': 'f'}.get(kind, '') if not isinstance(value, str) else '' }"


def _join(messages: Sequence[Mapping[str, str]], role: str = "") -> str:
    """Return the texts of messages: those of a role, or of all but the system."""
    return "\n\n".join(one["content"] for one in messages if (one["role"] == role if role else one["role"] != "system"))


def _make_agent(tools: Sequence[JsonTool], description: str, model: Any) -> JsonAgent[str]:
    return JsonAgent(*tools, tools=lambda _: [], description=description, model=model, max_steps=MAX_STEPS)


def run_category(board: Any, category: str, model: str, first: int | None, *, shows: bool) -> None:
    """Print the figures of a category, and its first failures."""
    read = board.read_rows(category)[:first]
    if reason := board.find_missing(read[0].shown):
        print(f"{category}: not run: {reason}", flush=True)
        return
    if model == GOLD and category == "live_relevance":
        print(f"{category}: not run: the data have no calls for it", flush=True)
        return
    rows = {row.case.name: row for row in list_rows(board, category, read)}

    def name_model(replies: list[Any]) -> Any:
        return ScriptedModel([*replies], name=GOLD) if model == GOLD else model

    if category.startswith("memory"):
        with redirect_stdout(StringIO()):
            remember(board, category, read, name_model)

    def make(case: Case) -> JsonAgent[Any]:
        row = rows[case.name]
        return row.make(name_model(row.gold))

    cases = [row.case for row in rows.values()]
    report = evaluate(make, cases, concurrency=1 if model.startswith("local/") else 8)
    (figures,) = map(report.figures, report.models)
    estimate, low, high = figures["pass"]["1"]
    print(
        f"{category}: {figures['passed']} of {figures['cases']} ({estimate:.3f} [{low:.3f}, {high:.3f}]), "
        f"{figures['errors']} errors, {figures['steps']:.2f} steps, {figures['median_seconds']:.3f} s",
        flush=True,
    )
    for trial in report.failed[: None if shows else 3]:
        print(f"    {trial.case}: {trial.failures[0]:.{600 if shows else 160}}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the wheel of bfcl-eval, or a folder that has the folder bfcl_eval")
    parser.add_argument("model")
    parser.add_argument("categories", nargs="*", help="default: all")
    parser.add_argument("--first", type=int, help="rows of each category")
    parser.add_argument("--show", action="store_true", help="print all failures")
    given = parser.parse_args()
    board = Leaderboard(given.path)
    if unknown := {*given.categories} - {*board.categories}:
        parser.error(f"unknown category {min(unknown)}. Categories: {', '.join(board.categories)}")
    for category in given.categories or board.categories:
        run_category(board, category, given.model, given.first, shows=given.show)


if __name__ == "__main__":
    main()
