"""`benchmarks/` makes cases of the rows of public benchmarks: here small ones of our own, in the same form."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentkit.evals import evaluate
from agentkit.testing import ScriptedModel, answer, call, calls

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ITEM = {"type": "string", "description": "The item."}


@pytest.fixture
def benchmarks(monkeypatch):
    """Let tests import the modules of `benchmarks/`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in [name for name, module in sys.modules.items() if _is_of_benchmarks(module)]:
        del sys.modules[name]


@pytest.fixture
def bfcl(benchmarks):
    return import_module("evals_bfcl")


@pytest.fixture
def tau2(benchmarks):
    return import_module("evals_tau2")


def _is_of_benchmarks(module) -> bool:
    return str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS))


def describe(name: str, **properties: object) -> dict[str, object]:
    parameters = {"type": "dict", "properties": properties, "required": [*properties]}
    return {"name": name, "description": f"Do {name}.", "parameters": parameters}


class Shelf:
    """Objects with a state, as the benchmark has them."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> dict[str, str]:
        self.items.append(item)
        return {"status": "put"}

    def archival_memory_add(self, key: str, value: str) -> dict[str, str]:
        self.items.append(f"{key}={value}")
        return {"status": "added"}

    def archival_memory_retrieve(self, key: str) -> dict[str, str]:
        found = [item for item in KEPT if item.startswith(f"{key}=")]
        return {"value": found[0]} if found else {"error": "Key not found."}

    def _flush_memory_to_local_file(self) -> None:
        KEPT[:] = self.items


KEPT: list[str] = []
"""What the conversations before the questions kept."""


class Board:
    """The checkers and the objects of the benchmark, for these rows."""

    more_functions = "There are more functions now."
    results = Path("results")

    def __init__(self, talks=()) -> None:
        self.talks = talks

    def check_calls(self, category, functions, made, truth):
        wanted = [
            {name: {key: allowed[0] for key, allowed in given.items()}} for one in truth for name, given in one.items()
        ]
        return "" if made == wanted else f"{category}: {made}"

    def check_talk(self, row, made, truth):
        return "" if [[one for reply in turn for one in reply] for turn in made] == truth else f"{made}"

    def check_answer(self, said, truth):
        return "" if truth[0] in said else f"{said}"

    def make_objects(self, row, config=None):
        return {"Shelf": Shelf()}

    def describe_memory(self, category, scenario, memory):
        return f"You remember {scenario}."

    def describe_format(self, config, functions):
        return f"Write calls as {config}."

    def read_text(self, text, config):
        assert text.startswith("[put(item='tea')]" if "python" in config else "<TOOLCALL>```json")
        return [{"put": {"item": "tea"}}]

    def read_earlier_talks(self, category):
        return self.talks


def asked(*turns: str) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": turn}] if turn else [] for turn in turns]


def evaluate_rows(module, board, entries, model=None):
    """Return the report of a category's rows, with the script of the calls that are right, or with a model."""
    rows = {row.case.name: row for row in module.list_rows(board, entries[0].category, entries)}
    cases = [row.case for row in rows.values()]
    return evaluate(lambda case: rows[case.name].make(model or ScriptedModel(rows[case.name].gold)), cases)


def entry(module, category, row, truth, plain=None):
    return module.Entry(category, {"id": f"{category}_0", **row}, {"id": f"{category}_0", **(plain or row)}, truth)


TEA = [{"shop.put": {"item": ["tea"]}}]


@pytest.mark.parametrize(
    "category", ["simple_python", "multiple", "live_simple", "live_multiple", "parallel", "live_parallel_multiple"]
)
def test_a_row_with_one_query_needs_the_calls_of_the_data(bfcl, category):
    row = {"question": asked("Put tea there."), "function": [describe("shop.put", item=ITEM)]}
    given = [entry(bfcl, category, row, TEA)]
    assert evaluate_rows(bfcl, Board(), given).passed
    report = evaluate_rows(bfcl, Board(), given, ScriptedModel(call("shop_put", item="milk"), answer("Done.")))
    assert "milk" in report.failed[0].failures[0]


def test_a_system_message_of_a_row_describes_the_agent(bfcl):
    question = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Put tea there."}]]
    row = {"question": question, "function": [describe("shop.put", item=ITEM)]}
    (made,) = bfcl.list_rows(Board(), "live_simple", [entry(bfcl, "live_simple", row, TEA)])
    assert (made.case.query, made.make("offline").description) == ("Put tea there.", "Be brief.")


@pytest.mark.parametrize(
    ("category", "passes"), [("irrelevance", False), ("live_irrelevance", False), ("live_relevance", True)]
)
def test_a_row_without_calls_needs_none_or_any(bfcl, category, passes):
    row = {"question": asked("Hello."), "function": [describe("shop.put", item=ITEM)]}
    given = [entry(bfcl, category, row, [])]
    model = ScriptedModel(call("shop_put", item="milk"), answer("Done."))
    assert evaluate_rows(bfcl, Board(), given, model).passed is passes
    assert evaluate_rows(bfcl, Board(), given, ScriptedModel(answer("Hello."))).passed is not passes


def test_a_row_without_tools_is_a_case_too(bfcl):
    given = [entry(bfcl, "live_irrelevance", {"question": asked("Hello."), "function": []}, [])]
    assert evaluate_rows(bfcl, Board(), given).passed


@pytest.mark.parametrize(
    ("category", "value", "kind", "written"),
    [
        ("simple_java", True, {"type": "boolean"}, "true"),
        ("simple_java", 7, {"type": "long"}, "7L"),
        ("simple_java", ["a", "b"], {"type": "ArrayList", "items": {"type": "String"}}, 'new ArrayList<String>(Arrays.asList("a", "b"))'),
        ("simple_java", [1, 2], {"type": "Array", "items": {"type": "integer"}}, "new integer[]{1, 2}"),
        ("simple_java", {"size": [10]}, {"type": "HashMap"}, 'new HashMap<String, Object>() {{ put("size", 10); }}'),
        ("simple_javascript", [1, "a"], {"type": "array", "items": {"type": "any"}}, '[1, "a"]'),
        ("simple_javascript", {"wide": [True]}, {"type": "dict"}, '{"wide": true}'),
    ],
)  # fmt: skip
def test_values_of_other_languages_are_texts(bfcl, category, value, kind, written):
    shown = {"question": asked("Put it there."), "function": [describe("put", item=ITEM)]}
    plain = {**shown, "function": [describe("put", item=kind)]}
    given = bfcl.Entry(category, {"id": "a", **shown}, {"id": "a", **plain}, [{"put": {"item": [value]}}])
    seen = []
    board = SimpleNamespace(check_calls=lambda _, functions, made, truth: seen.append((functions, made)) or "")
    assert evaluate_rows(bfcl, board, [given]).passed
    assert seen == [(plain["function"], [{"put": {"item": written}}])]


@pytest.mark.parametrize("category", ["multi_turn_base", "multi_turn_miss_param", "multi_turn_long_context"])
def test_a_conversation_needs_the_calls_of_each_turn(bfcl, category):
    row = {"question": asked("Put tea there.", "Thank you.", "And milk."), "function": [describe("put", item=ITEM)]}
    given = [entry(bfcl, category, row, [["put(item='tea')"], [], ["put(item='milk')"]])]
    assert evaluate_rows(bfcl, Board(), given).passed
    late = ScriptedModel(
        answer("Later."), calls(call("put", item="tea"), call("put", item="milk")), answer("Done."), answer("Done.")
    )
    assert "put(item='tea')" in evaluate_rows(bfcl, Board(), given, late).failed[0].failures[0]


def test_a_call_that_was_refused_is_no_call_of_the_conversation(bfcl):
    given = [
        entry(
            bfcl,
            "multi_turn_base",
            {"question": asked("Put tea there."), "function": [describe("put", item=ITEM)]},
            [["put(item='tea')"]],
        )
    ]
    model = ScriptedModel(call("put", thing="tea"), call("put", item="tea"), answer("Done."))
    assert evaluate_rows(bfcl, Board(), given, model).passed


def test_a_tool_that_is_missing_comes_with_its_turn(bfcl):
    row = {
        "question": asked("Put tea there.", ""),
        "function": [describe("archival_memory_retrieve", key=ITEM)],
        "missed_function": {"1": [describe("put", item=ITEM)]},
    }
    given = [entry(bfcl, "multi_turn_miss_func", row, [[], ["put(item='tea')"]])]
    assert evaluate_rows(bfcl, Board(), given).passed
    early = ScriptedModel(call("put", item="tea"), answer("Done."), answer("Done."))
    report = evaluate_rows(bfcl, Board(), given, early)
    assert not report.passed
    offered = [[one["function"]["name"] for one in request.tools.schemas("openai")] for request in early.requests]
    assert ["put" in names for names in offered] == [False, False, True]


def test_questions_about_a_memory_come_after_the_conversations(bfcl):
    described = [describe("archival_memory_add", key=ITEM, value=ITEM), describe("archival_memory_retrieve", key=ITEM)]
    classes = {"involved_classes": ["Shelf"], "scenario": "customer", "function": described}
    talks = [{"id": "memory_kv_prereq_0-customer-0", "question": asked("I am Ann.", "Thank you."), **classes}]
    truth = {"id": "memory_0-customer-0", "ground_truth": ["Ann"], "source": "I am Ann."}
    given = [entry(bfcl, "memory_kv", {"question": asked("Who am I?"), **classes}, truth)]
    board = Board(talks)
    KEPT.clear()
    assert not evaluate_rows(bfcl, board, given).passed
    bfcl.remember(board, "memory_kv", given, ScriptedModel)
    assert KEPT == ["fact_0=I am Ann."]
    assert evaluate_rows(bfcl, board, given).passed
    assert not evaluate_rows(bfcl, board, given, ScriptedModel(answer("I do not know."))).passed


def test_a_question_about_the_web_needs_the_answer_alone(bfcl):
    row = {"question": asked("Who won?"), "function": [describe("put", item=ITEM)], "involved_classes": ["Shelf"]}
    given = [entry(bfcl, "web_search_base", row, ["Ann"])]
    assert evaluate_rows(bfcl, Board(), given).passed
    assert not evaluate_rows(bfcl, Board(), given, ScriptedModel(answer("Bob."))).passed


@pytest.mark.parametrize("config", ["ret_fmt=python&tool_call_tag=False", "ret_fmt=json&tool_call_tag=True"])
def test_calls_as_text_are_read_by_the_benchmark(bfcl, config):
    row = {
        "id": f"format_sensitivity_0:{config}:simple_python_0",
        "question": asked("Put tea there."),
        "function": [describe("put", item=ITEM)],
    }
    given = [bfcl.Entry("format_sensitivity", row, row, [{"put": {"item": ["tea"]}}])]
    model = ScriptedModel(answer("I cannot."))
    assert "the text has no calls" in evaluate_rows(bfcl, Board(), given, model).failed[0].failures[0]
    assert [tool.name for tool in model.requests[0].tools.values()] == ["final_answer"]
    assert model.requests[0].messages[0]["content"].startswith(f"Write calls as {config}.")
    assert evaluate_rows(bfcl, Board(), given).passed


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("verbose_xml", '<functions><function name="put"><params><param name="item" type="string" value="a &lt; b"/></params></function></functions>'),
        ("concise_xml", '<functions><function name="put"><param name="item" type="string">a &lt; b</param></function></functions>'),
    ],
)  # fmt: skip
def test_calls_are_written_as_xml(bfcl, shape, text):
    config = f"ret_fmt={shape}&tool_call_tag=False"
    assert bfcl.write_text([("put", {"item": "a < b"})], config) == text


class Shop:
    """A domain of tau2-bench: an agent with a tool that writes, a user with one of their own."""

    def __init__(self) -> None:
        self.scored = []

    def open(self, task):
        return {"orders": [], "paid": False}

    def list_functions(self, environment, requestor):
        def order(item: str, pieces: int = 1) -> str:
            """Order an item."""

        def pay() -> str:
            """Pay what is ordered."""

        return [("order", order, "write")] if requestor == "assistant" else [("pay", pay, "write")]

    def call(self, environment, requestor, name, arguments):
        if name == "order" and arguments["item"] == "gold":
            return "Error: there is no gold", True
        environment.update({"paid": True} if name == "pay" else {"orders": [*environment["orders"], arguments]})
        return "done", False

    def describe_agent(self, environment):
        return "You sell tea."

    def describe_user(self, task, tools):
        return f"You want {task.user_scenario.instructions}, and have {[tool.name for tool in tools]}."

    def score(self, task, events):
        self.scored.append(events)
        made = [(event.requestor, event.name) for event in events if event.name and not event.failed]
        wanted = [(action.requestor, action.name) for action in task.evaluation_criteria.actions]
        told = all(text in event.text for text in task.evaluation_criteria.communicate_info for event in events[-1:])
        return {"DB": float(made == wanted), "COMMUNICATE": float(told)}


def make_task(*actions, told=()):
    listed = [SimpleNamespace(requestor=who, name=name, arguments=given) for who, name, given in actions]
    criteria = SimpleNamespace(actions=listed, communicate_info=told)
    return SimpleNamespace(
        id="tea " * 40, user_scenario=SimpleNamespace(instructions="tea"), evaluation_criteria=criteria
    )


ORDER = ("assistant", "order", {"item": "tea"})
PAY = ("user", "pay", {})


def run_tasks(tau2, shop, tasks, model, user=""):
    cases = [tau2.make_case(shop, task, user, number) for number, task in enumerate(tasks)]
    found = dict(zip((case.name for case in cases), tasks, strict=True))
    return evaluate(lambda case: tau2.make_agent(shop, found[case.name], model), cases)


def test_the_listed_calls_of_agent_and_user_pass_a_task(tau2):
    tasks = [
        make_task(ORDER, PAY, ("assistant", "order", {"item": "milk"}), told=["7.00"]),
        make_task(PAY),
        make_task(),
    ]
    assert run_tasks(tau2, Shop(), tasks, "gold").passed


def test_a_model_talks_with_a_user_that_has_tools(tau2):
    shop = Shop()
    model = ScriptedModel(
        answer("What do you want?"), call("order", item="tea"), answer("Please pay."), answer("Thank you.")
    )
    user = ScriptedModel(answer("Tea."), call("pay"), answer("I paid."), answer("Bye. ###STOP###"))
    assert run_tasks(tau2, shop, [make_task(ORDER, PAY)], model, user).passed
    assert [(event.requestor, event.name or event.text) for event in shop.scored[0]][:6] == [
        ("assistant", "What do you want?"),
        ("user", "Tea."),
        ("assistant", "order"),
        ("assistant", "Please pay."),
        ("user", "pay"),
        ("user", "I paid."),
    ]
    assert model.requests[0].messages[0]["content"].startswith("You sell tea.")
    assert user.requests[0].messages[0]["content"].startswith("You want tea, and have ['pay'].")
    assert [tool.name for tool in model.requests[0].tools.values()] == ["final_answer", "order"]


def test_a_task_fails_by_the_rewards_that_are_missing(tau2):
    model = ScriptedModel(call("order", item="gold"), answer("There is none."))
    user = ScriptedModel(answer("###STOP###"))
    report = run_tasks(tau2, Shop(), [make_task(ORDER, told=["7.00"])], model, user)
    assert 'rewards: {"DB": 0.0, "COMMUNICATE": 0.0}' in report.failed[0].failures[0]
    assert "there is no gold" in str(model.requests[1].messages[-1]["content"])
