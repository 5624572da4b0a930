"""Is the right tool among the first that a search finds, how long does a search take, and how long is the first request?

    pip download bfcl-eval==2026.3.23 --no-deps
    python benchmarks/tool_search.py bfcl_eval-2026.3.23-py3-none-any.whl

The tools are the functions of BFCL (https://gorilla.cs.berkeley.edu/leaderboard.html), one for each name, and the
queries its questions as they are.  The weights of the ranking were chosen on the first set; the second one was not read
for that.
"""

import json
import re
import sys
import time
import zipfile
from collections import Counter

from agentkit import JsonAgent, JsonTool
from agentkit.core.portable import to_portable_name
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.lint import estimate_tokens
from agentkit.tools.ranking import ToolIndex, find_weights

TUNED = ("simple_python", "multiple", "parallel", "live_simple", "live_multiple")
UNSEEN = ("simple_java", "simple_javascript", "parallel_multiple", "live_parallel", "live_parallel_multiple")
EXECUTABLE = ("exec_simple", "exec_multiple", "exec_parallel", "exec_parallel_multiple")
FOLDER = "bfcl_eval/data/"
TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "String": "string",
    "int": "integer",
    "Boolean": "boolean",
}
KNOWN = {"object", "array", "string", "number", "integer", "boolean", "null"}
KEPT = ("description", "enum", "required")
PLACES = (1, 3, 5, 10)


def to_schema(node):
    """BFCL's schema of a parameter as JSON Schema."""
    found = {key: node[key] for key in KEPT if key in node}
    kind = TYPES.get(str(node.get("type")), node.get("type"))
    if kind in KNOWN:
        found["type"] = kind
    if isinstance(node.get("properties"), dict):
        found["properties"] = {name: to_schema(inner) for name, inner in node["properties"].items()}
    if isinstance(node.get("items"), dict):
        found["items"] = to_schema(node["items"])
    return found


def make_tool(function):
    parameters = {**to_schema(function["parameters"]), "type": "object"}
    name = to_portable_name(function["name"])
    text = function.get("description") or name
    return JsonTool.from_schema(name=name, description=text, parameters=parameters, call=lambda **given: given)


class Data:
    """The rows of the package."""

    def __init__(self, wheel):
        self.archive = zipfile.ZipFile(wheel)

    def rows(self, name):
        return [json.loads(line) for line in self.archive.read(f"{FOLDER}{name}.json").decode().splitlines() if line]

    def read(self, categories, folder="", answers="possible_answer"):
        """Return the functions by name, and the questions with the names of the functions that answer them."""
        functions = {}
        questions = []
        for category in categories:
            right = {row["id"]: row["ground_truth"] for row in self.rows(f"{folder}{answers}/BFCL_v4_{category}")}
            for row in self.rows(f"{folder}question/BFCL_v4_{category}" if folder else f"BFCL_v4_{category}"):
                for function in row["function"]:
                    functions.setdefault(to_portable_name(function["name"]), function)
                calls = [call if isinstance(call, dict) else {call.split("(")[0]: {}} for call in right[row["id"]]]
                wanted = {to_portable_name(name) for call in calls for name in call}
                said = [message["content"] for message in row["question"][0] if message["role"] == "user"]
                questions.append((said[-1], wanted))
        return functions, questions


def rank_by_overlap(tools):
    """The rule of a peer: the number of words of the query in name and description."""
    words = [set(re.findall(r"\w+", f"{tool.name.replace('_', ' ')} {tool.description}".lower())) for tool in tools]

    def find(query, limit):
        wanted = set(re.findall(r"\w+", query.lower()))
        order = sorted(range(len(tools)), key=lambda place: -len(wanted & words[place]))
        return [tools[place] for place in order[:limit]]

    return find


def measure(title, tools, questions):
    print(f"\n{title}: {len(tools)} tools, {len(questions)} sentences")
    finders = {"word overlap": rank_by_overlap(tools), "BM25": ToolIndex(tools, meanings=False).find}
    if find_weights():
        finders["BM25 and embeddings"] = ToolIndex(tools).find
    for name, find in finders.items():
        begun = time.perf_counter()
        find("the first query", 10)
        built = time.perf_counter() - begun
        hits = Counter()
        times = []
        for query, wanted in questions:
            begun = time.perf_counter()
            found = [tool.name for tool in find(query, max(PLACES))]
            times.append(1_000 * (time.perf_counter() - begun))
            hits.update(place for place in PLACES for tool in wanted if tool in found[:place])
        pairs = sum(len(wanted) for _, wanted in questions)
        times.sort()
        shares = " / ".join(f"{hits[place] / pairs:.3f}" for place in PLACES)
        middle = times[len(times) // 2]
        late = times[len(times) * 95 // 100]
        print(f"  {name:20} {shares}   {middle:.2f} ms a query (95 %: {late:.2f}), built in {built:.2f} s")


def count_tokens(tools):
    """The tokens of the first request, the instruction and the tools, by characters / 4."""
    model = ScriptedModel(answer("done"))
    JsonAgent(tools, model=model)("Hello.")
    request = model.requests[0]
    return sum(estimate_tokens(request.tools).values()) + len(str(request.messages[0]["content"])) // 4


def main(wheel):
    data = Data(wheel)
    functions, questions = data.read(TUNED)
    tools = [make_tool(function) for function in functions.values()]
    measure("tuned on", tools, questions)
    unseen, asked = data.read(UNSEEN)
    more, executable = data.read(EXECUTABLE, "unused_datasets/", "possible_answer")
    unseen = more | unseen
    asked = [(query, wanted) for query, wanted in asked + executable if wanted <= unseen.keys()]
    others = [make_tool(function) for function in unseen.values()]
    measure("not tuned on, one tool a sentence", others, [entry for entry in asked if len(entry[1]) == 1])
    measure("not tuned on, several tools a sentence", others, [entry for entry in asked if len(entry[1]) > 1])
    print("\ntokens of the tools: all of them, and the first request with the search")
    for count in (50, 100, 500, len(tools)):
        whole = sum(estimate_tokens(tools[:count]).values())
        print(f"  {count:5} {whole:8,} {count_tokens(tools[:count]):8,}")


if __name__ == "__main__":
    main(sys.argv[1])
