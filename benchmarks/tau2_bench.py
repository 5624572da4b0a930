"""The calls that solve the tasks of tau2-bench, played through an agent: is the end state the benchmark's own?

tau2-bench (https://github.com/sierra-research/tau2-bench) is not on PyPI, where `tau2` is something else.  It needs Python
3.12 or 3.13, and a checkout with its data:

    git clone https://github.com/sierra-research/tau2-bench
    python3.12 -m venv tau2 && tau2/bin/pip install -e . ./tau2-bench
    tau2/bin/pip install rank_bm25  # for banking_knowledge
    tau2/bin/python benchmarks/tau2_bench.py tau2-bench [mock airline retail telecom banking_knowledge]

All tasks of a domain are played, not the standard split alone.  No model takes part: a script sends the calls of the
assistant that each task lists, and the user's own calls are made on the user's tools between them.  The hashes of the
databases, and the assertions that a task makes about its environment, must be those of the same calls made directly.
The other passes send the calls with mistakes of models: in the values, in the syntax, in the name, or cut off and then
sent again.  The calls that the history tells to have run must be those of the task.

Then each task is played as a conversation, one turn of the user for each call, with the tools declared as the benchmark
does (what reads, what writes) and none of them untrusted: with each setting of `untrusted=`, no call should wait.

`evals_tau2.py` runs the tasks with a model.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from agentkit import JsonAgent, JsonTool, Paused, RunError
from agentkit.testing import ScriptedModel, answer, call

DOMAINS = ("mock", "airline", "retail", "telecom", "banking_knowledge")
SETTINGS = ("values", "context", "hidden")
Sent = tuple[str, str]


def write_exactly(name: str, arguments: dict[str, Any]) -> list[Sent]:
    """Return the call as it should be."""
    return [(name, json.dumps(arguments))]


def write_values_as_text(name: str, arguments: dict[str, Any]) -> list[Sent]:
    """Return the call with numbers, truth values, lists and objects as texts."""
    return [(name, json.dumps({key: v if isinstance(v, str) else json.dumps(v) for key, v in arguments.items()}))]


def write_python(name: str, arguments: dict[str, Any]) -> list[Sent]:
    """Return the call with the arguments as a literal of Python, in a block of code."""
    return [(name, f"```json\n{arguments!r}\n```")]


def write_other_names(name: str, arguments: dict[str, Any]) -> list[Sent]:
    """Return the call with a name in capitals and a namespace."""
    return [(f"functions.{name.upper()}", json.dumps(arguments))]


def write_cut_off(name: str, arguments: dict[str, Any]) -> list[Sent]:
    """Return the call without its last brace, which is refused, and once more as it should be."""
    return [(name, json.dumps(arguments)[:-1]), (name, json.dumps(arguments))]


PASSES: dict[str, Callable[[str, dict[str, Any]], list[Sent]]] = {
    "as listed": write_exactly,
    "values as text": write_values_as_text,
    "Python in a block": write_python,
    "wrong names": write_other_names,
    "cut off, sent again": write_cut_off,
}

EFFECTS = {"READ": "read", "THINK": "read", "WRITE": "write", "GENERIC": "write"}
"""The effect of a tool, by the benchmark's type of it.  "GENERIC" says nothing, so the stricter effect is taken."""


class Domain:
    """The tasks of a domain, and new environments in their initial state."""

    def __init__(self, name: str) -> None:
        module = import_module(f"tau2.domains.{name}.environment")
        self.make = module.get_environment
        self.tasks = module.get_tasks(None)
        self.choose = _choose_nothing
        if name == "banking_knowledge":  # the calls of the tasks search nothing, so any way of retrieval does
            module.get_knowledge_base = cache(module.get_knowledge_base)
            self.make = partial(self.make, retrieval_variant="bm25")
            self.choose = import_module("tau2.runner.build")._derive_read_log_allowlist
        environment = self.make()
        database = environment.tools.db
        self.names = [tool.name for tool in environment.get_tools()]
        self.load = type(database).model_validate_json
        self.text = database.model_dump_json()

    def open(self, task: Any) -> Any:
        """Return an environment in which the task begins."""
        environment = self.new(task)
        state = task.initial_state
        environment.set_state(
            state and state.initialization_data,
            state and state.initialization_actions,
            (state and state.message_history) or [],
        )
        return environment

    def new(self, task: Any) -> Any:
        """Return an environment before the task begins."""
        logged = self.choose(task)  # as the benchmark does: these reads count for the end state
        return self.make(db=self.load(self.text), **({"read_log_allowlist": logged} if logged else {}))


def use_checkout(folder: Path) -> None:
    """Let Python import the benchmark and read its data from a checkout."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("TAU2_DATA_DIR", str(folder.resolve() / "data"))
    sys.path.insert(0, str(folder / "src"))
    import_module("loguru").logger.remove()


def _choose_nothing(_: Any) -> set[str]:
    return set()


def hash_state(environment: Any) -> tuple[Any, Any]:
    """Return the hashes of the assistant's database and of the user's."""
    return environment.get_db_hash(), environment.get_user_db_hash()


def read_state(environment: Any, task: Any) -> tuple[Any, ...]:
    """Return the hashes of the databases, and which assertions of the task hold."""
    assertions = (task.evaluation_criteria and task.evaluation_criteria.env_assertions) or []
    held = [environment.run_env_assertion(one, raise_assertion_error=False) for one in assertions]
    return *hash_state(environment), held


def make_directly(environment: Any, action: Any) -> bool:
    """Make a call of the assistant or the user, and return whether it failed: for the benchmark, that is a result."""
    failed = False
    try:
        environment.make_tool_call(action.name, requestor=action.requestor, **deepcopy(action.arguments))
    except Exception:
        failed = True
    environment.sync_tools()
    return failed


def play(
    environment: Any, names: list[str], actions: list[Any], write: Callable[[str, dict[str, Any]], list[Sent]]
) -> tuple[bool, bool]:
    """Play the calls through an agent.

    Returns:
        Whether the calls that ran, in the history, are those of the task: read by the tools' types, and word for word.
    """
    tools = {name: JsonTool(environment.tools.tools[name]) for name in names}

    def send() -> Iterator[Any]:
        for action in actions:
            if action.requestor == "user":
                make_directly(environment, action)
                continue
            for name, text in write(action.name, action.arguments):
                yield {"tool_calls": [{"name": name, "arguments": text}]}
                environment.sync_tools()
        yield answer("Done.")

    replies = send()
    model = ScriptedModel([lambda _: next(replies)] * (2 * len(actions) + 1))
    try:
        result = JsonAgent([*tools.values()], model=model, max_steps=2 * len(actions) + 2).run("Solve the task.")
    except RunError as error:
        print(f"  {error}", file=sys.stderr)
        return False, False
    refused = {entry.call.id for entry in result.calls if entry.error and entry.error.name == "ValidationError"}
    called = [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in result.messages
        for call in message.get("tool_calls") or ()
        if call["id"] not in refused and call["function"]["name"] != "final_answer"
    ]
    wanted = [(action.name, action.arguments) for action in actions if action.requestor == "assistant"]

    def read(calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        return [(name, to_jsonable_python(tools[name].arguments.bind(given).keywords)) for name, given in calls]

    try:
        return read(called) == read(wanted), called == wanted
    except (ValueError, KeyError):
        return called == wanted, called == wanted


def converse(environment: Any, names: list[str], task: Any, actions: list[Any], setting: str) -> int:
    """Play the calls as a conversation, one query for each call; return how many waited for a person."""
    toolkit = environment.tools
    asked = 0
    tools = [
        JsonTool(toolkit.tools[name], effect=EFFECTS[toolkit.tool_type(name).name], trust="trusted") for name in names
    ]
    replies: list[Any] = []
    model = ScriptedModel([lambda _: replies.pop(0)] * (2 * len(actions)))
    agent = JsonAgent(tools, model=model, untrusted=setting)
    query = str(task.user_scenario.instructions)
    for action in actions:
        if action.requestor == "user":
            make_directly(environment, action)
            continue
        replies[:] = [call(action.name, **action.arguments), answer("Done. What else?")]
        try:
            agent.run(query)
        except Paused as pause:
            asked += len(pause.calls)
            agent.run(session=pause.session, approvals=dict.fromkeys(pause.calls, True))
        environment.sync_tools()
        query = "Thank you. Please go on."
    return asked


def measure(name: str) -> None:
    """Print the figures of a domain."""
    domain = Domain(name)
    found: dict[str, Counter[str]] = {title: Counter() for title in (*PASSES, *SETTINGS)}
    calls = changed = 0
    failing = list[str]()
    unmet = list[str]()
    for task in domain.tasks:
        actions = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
        calls += sum(action.requestor == "assistant" for action in actions)
        direct = domain.open(task)
        before = hash_state(direct)
        failures = [make_directly(direct, action) for action in actions]
        failing += [task.id] * any(failures)
        wanted = read_state(direct, task)
        changed += wanted[:2] != before
        unmet += [task.id] * (not all(wanted[2]))
        for title, write in PASSES.items():
            environment = domain.open(task)
            is_read, is_equal = play(environment, domain.names, actions, write)
            is_same = read_state(environment, task) == wanted
            found[title].update({"state": is_same, "read": is_read, "equal": is_equal})
            if not (is_same and is_read):
                print(f"  {name} {task.id}, {title}: state {is_same}, history {is_read}", file=sys.stderr)
        for setting in SETTINGS:
            environment = domain.open(task)
            found[setting]["asked"] += converse(environment, domain.names, task, actions, setting)
            found[setting]["state"] += read_state(environment, task) == wanted
    print(f"{name}: {len(domain.tasks)} tasks, {calls} calls of the assistant, {changed} end in another state")
    print(
        f"    a call of the task fails: {len(failing)} {failing[:5]}, an assertion does not hold: {len(unmet)} {unmet[:5]}"
    )
    for title in PASSES:
        count = found[title]
        print(
            f"    {title}: same end state {count['state']}, same calls in the history {count['read']} "
            f"({count['equal']} word for word)"
        )
    for setting in SETTINGS:
        print(f"    untrusted={setting}: {found[setting]['asked']} questions, same end state {found[setting]['state']}")
    sys.stdout.flush()


if __name__ == "__main__":
    use_checkout(Path(sys.argv[1]))
    for chosen in sys.argv[2:] or DOMAINS:
        measure(chosen)
