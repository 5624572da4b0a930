"""The offline model on everyday sentences: `python benchmarks/everyday.py [SET ...] [--show]`.

The sets are tuning, held_out, fresh_read and fresh_unread; without a name, all are measured.

With `bfcl PATH` it reads the Berkeley Function Calling Leaderboard instead: PATH is the wheel of the package bfcl-eval
(`pip download bfcl-eval --no-deps`), or its folder `bfcl_eval/data`.

A row is right if the calls made are the expected ones, defaults included.  It is silently wrong if a call was made that is
not expected; a wrong call of a tool that only reads counts as asked back if the answer names what it did not use.  Every
other row is asked back or declined.
"""

import ast
import datetime
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from everyday_fresh import FRESH_READ, FRESH_UNREAD
from everyday_rows import HELD_OUT, TUNING, Domain

from agentkit import JsonAgent, tool
from agentkit.models.offline import OfflineModel, plan

TODAY = datetime.date(2026, 3, 11)
Call = tuple[str, dict[str, Any]]
RIGHT = "right"
ASKED = "asked back or declined"
WRONG = "silently wrong"
SETS = {"tuning": TUNING, "held_out": HELD_OUT, "fresh_read": FRESH_READ, "fresh_unread": FRESH_UNREAD}
NOTE = "I did not use this part"


def read_calls(written: str) -> list[list[Call]]:
    """Return each allowed list of calls: "a(x=1); b() | a(x=2)" has two."""
    return [[_read_call(one) for one in allowed.split(";") if one.strip()] for allowed in written.split(" | ")]


def _read_call(written: str) -> Call:
    node = ast.parse(written.strip(), mode="eval").body
    assert isinstance(node, ast.Call), written
    assert isinstance(node.func, ast.Name), written
    return node.func.id, {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}


def compare(call: Call, defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a call in a form that is equal for equal calls: with the defaults, in lower case."""
    name, arguments = call
    whole = {**defaults[name], **arguments}
    return json.dumps([name, sorted((key, _plain(value)) for key, value in whole.items())])


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return (
        value.lower() if isinstance(value, str) else value if value is None or isinstance(value, bool) else float(value)
    )


def judge(domain: Domain) -> Iterator[tuple[str, str, list[Call], str]]:
    """Yield of each sentence the class, the sentence, the calls made, and the answer."""
    made_tools = [one if hasattr(one, "effect") else tool(one) for one in domain.tools]
    defaults = {
        one.name: {
            key: value.get("default")
            for key, value in one.parameters.get("properties", {}).items()
            if "default" in value
        }
        for one in made_tools
    }
    effects = {one.name: one.effect for one in made_tools}
    for line in domain.lines.strip().splitlines():
        sentence, _, written = line.partition(" =>")
        agent = JsonAgent(made_tools, model=OfflineModel(today=lambda: TODAY), approve=lambda *_: True)
        result = agent.run(sentence)
        calls = [(one.call.name, json.loads(one.call.arguments)) for one in result.calls if one.call.name in effects]
        made = [compare(call, defaults) for call in calls]
        allowed = [[compare(call, defaults) for call in each] for each in read_calls(written)]
        if any(sorted(made) == sorted(each) for each in allowed):
            kind = RIGHT
        elif all(one in allowed[0] for one in made):
            kind = ASKED if len(made) < len(allowed[0]) else WRONG
        else:
            is_read = all(effects[name] == "read" for name, _ in calls)
            kind = ASKED if is_read and NOTE in str(result.answer) else WRONG
        yield kind, sentence, calls, str(result.answer)


def measure(name: str, domains: Mapping[str, Domain], *, shows: bool) -> None:
    """Print the figures of one set, and with `shows` each row that is not right."""
    counts: Counter[str] = Counter()
    for each, domain in domains.items():
        for kind, sentence, calls, answer in judge(domain):
            counts[kind] += 1
            if shows and kind != RIGHT:
                print(f"{kind}: {each}: {sentence}\n    {calls}\n    {answer!r}")
    figures = ", ".join(f"{kind} {counts[kind]}" for kind in (RIGHT, ASKED, WRONG))
    print(f"{name}: {figures}, of {counts.total()}")


def measure_bfcl(path: str) -> None:
    """Print the share of right rows of BFCL's simple, multiple and irrelevance categories, first 100 rows apart."""
    for category in ("simple_python", "multiple", "irrelevance"):
        counts: Counter[tuple[bool, str]] = Counter()
        answers = {row["id"]: row["ground_truth"] for row in read_rows(path, f"possible_answer/BFCL_v4_{category}")}
        for index, row in enumerate(read_rows(path, f"BFCL_v4_{category}")):
            calls = plan(row["question"][0][-1]["content"], row["function"], TODAY)
            expected = answers.get(row["id"], [])
            is_right = len(calls) == len(expected) and all(
                is_allowed(*pair) for pair in zip(calls, expected, strict=True)
            )
            kind = RIGHT if is_right else WRONG if calls else ASKED
            counts[(index < 100, kind)] += 1
        for is_first, rows in ((True, "rows 1 to 100"), (False, "other rows")):
            figures = ", ".join(f"{kind} {counts[(is_first, kind)]}" for kind in (RIGHT, ASKED, WRONG))
            print(f"BFCL {category}, {rows}: {figures}")


def read_rows(path: str, name: str) -> list[dict[str, Any]]:
    if path.endswith(".whl"):
        try:
            text = zipfile.ZipFile(path).read(f"bfcl_eval/data/{name}.json").decode()
        except KeyError:
            return []
    else:
        file = Path(path, f"{name}.json")
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def is_allowed(call: Call, truth: Mapping[str, Mapping[str, list[Any]]]) -> bool:
    """Return whether a call is one that BFCL allows: each argument has one of the listed values, "" may be left out."""
    ((name, allowed),) = truth.items()
    given = call[1]
    if call[0] != name or not given.keys() <= allowed.keys():
        return False
    return all(_holds(values, given[key]) if key in given else "" in values for key, values in allowed.items())


def _holds(values: Any, value: Any) -> bool:
    return any(_matches(one, value) for one in (values if isinstance(values, list) else [values]))


def _matches(one: Any, value: Any) -> bool:
    if isinstance(one, str) and isinstance(value, str):
        return _bare(one) == _bare(value)
    if isinstance(one, dict) and isinstance(value, dict):
        return value.keys() <= one.keys() and all(
            _holds(values, value[key]) if key in value else "" in values for key, values in one.items()
        )
    if isinstance(one, list) and isinstance(value, list):
        return len(one) == len(value) and all(_matches(*pair) for pair in zip(one, value, strict=True))
    return one == value and (type(one) is type(value) or (isinstance(one, float) and type(value) is int))


def _bare(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter not in " ,./-_*^'\"")


def main(*words: str) -> None:
    if words[:1] == ("bfcl",):
        measure_bfcl(words[1])
        return
    named = [word for word in words if word != "--show"]
    for name in named or SETS:
        measure(name, SETS[name], shows="--show" in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
