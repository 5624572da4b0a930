"""Code mode: a program of the model calls the tools, and each of its calls is a call of the agent."""

import subprocess
import sys
import threading
from typing import Any, TypedDict

import pytest
from hidden_tools import SENT
from hidden_tools import TEXT as HIDDEN_TEXT
from hidden_tools import TOOLS as HIDDEN_TOOLS
from journaled_runs import resume
from waiting import HANGS

from agentkit import (
    CodeMode,
    DefinitionError,
    JsonAgent,
    JsonTool,
    Limits,
    Memory,
    Paused,
    RunContext,
    Session,
    ToolSearch,
    ask_question,
    tool,
)
from agentkit.core.flow import Hooks, around
from agentkit.engine.result import SubRun
from agentkit.events import ToolFinished, ToolStarted
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call_tools import CallTools


class Weather(TypedDict):
    city: str
    degrees: float


def get_weather(city: str, days: int = 1) -> Weather:
    """Returns the weather.

    Args:
        city: The name of the city.
    """
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"city": city, "degrees": 20.0 + days}


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def code(*programs: str) -> list[Any]:
    return [*(call("run_code", code=program) for program in programs), answer("done")]


def agent_of(*programs: str, tools=(get_weather, add), mode: CodeMode | None = None, **settings) -> JsonAgent:
    model = ScriptedModel(*code(*programs))
    return JsonAgent([*tools], model=model, extensions=[mode or CodeMode()], **settings)


def shown(result) -> list[str]:
    """What the model reads of each program."""
    return [entry.content for entry in result.calls if entry.call.name == "run_code"]


def inner(events, kind):
    return [event.event for event in events if isinstance(event, SubRun) and isinstance(event.event, kind)]


def test_the_tools_are_offered_as_typed_functions_of_one_tool():
    agent = agent_of()
    agent("go")
    tools = agent.model.requests[0].tools
    text = tools["run_code"].description
    assert [*tools] == ["final_answer", "run_code"]
    assert "class GetWeatherResult(TypedDict): city: str; degrees: float" in text
    assert 'async def get_weather(city: str, days: int = 1) -> GetWeatherResult:\n    """Returns the weather.' in text
    assert "city: The name of the city." in text
    assert "async def add(a: int, b: int) -> int:" in text
    beside = agent_of(mode=CodeMode(beside=True))
    beside("go")
    assert [*beside.model.requests[0].tools] == ["final_answer", "get_weather", "add", "run_code"]


def test_results_are_values_and_only_what_is_printed_is_shown(world):
    agent = agent_of("w = get_weather('Paris')\nsum = add(1, b='2')\nprint(w['degrees'] + sum)")
    result = world.run(agent, "go")
    assert shown(result) == ["24.0"]
    assert result.answer == "done"
    assert "Paris" not in str(agent.model.requests[1].messages[-1])


def test_values_functions_and_imports_stay_for_the_next_program_and_the_next_run(world):
    first = "import math\ndef twice(x):\n    return add(x, x)\nkept = [get_weather('Rome')]"
    agent = agent_of(first, "print(twice(4), math.floor(kept[0]['degrees']))")
    assert shown(world.run(agent, "go")) == ["Nothing was printed.", "8 21"]
    agent.model = ScriptedModel(*code("print(len(kept), twice(1))"))
    assert shown(world.run(agent, "more")) == ["1 2"]


def test_each_call_is_validated_repaired_and_shown_nested(world):
    program = "add(A=3, b='4')\ntry:\n    add('x', 4)\nexcept RuntimeError as error:\n    print('failed:', error)"
    agent = agent_of(program)
    events = world.stream(agent, "go")
    started = inner(events, ToolStarted)
    assert [entry.call.call.name for entry in started][:2] == ["add", "add"]
    assert started[0].call.repairs
    assert inner(events, ToolFinished)[0].result.value == 7
    assert "failed: " in shown(events[-1].result)[0]
    assert "a: " in shown(events[-1].result)[0]
    assert all(event.call.name == "run_code" for event in events if isinstance(event, SubRun))


def test_calls_that_gather_starts_run_side_by_side(world):
    barrier = threading.Barrier(3, timeout=HANGS)

    @tool(effect="read")
    def meet(n: int) -> int:
        """Waits for two others."""
        barrier.wait()
        return n

    agent = agent_of("import asyncio\nprint(await asyncio.gather(*[meet(n) for n in range(3)]))", tools=[meet])
    assert shown(world.run(agent, "go")) == ["[0, 1, 2]"]


def test_a_call_that_is_awaited_later_is_made_then(world):
    program = "import asyncio\nlate = add(1, 2)\nfirst = await add(3, 4)\nprint(first, await late)"
    assert shown(world.run(agent_of(program), "go")) == ["7 3"]


@pytest.mark.parametrize(
    "program",
    [
        "# no await is needed\nprint(add(1, 2))",
        "print(add(1, 2), end='')  # await\nprint()",
        "note = '''asyncio.run(main()), await x'''\nprint(add(1, 2))",
        "note = r\"await\"\nprint(f'{add(1, 2)}')",
    ],
)
def test_an_await_in_a_comment_or_a_text_awaits_nothing(world, program):
    assert shown(world.run(agent_of(program), "go")) == ["3"]


def test_an_await_inside_a_text_of_values_is_one(world):
    assert shown(world.run(agent_of("print(f'{await add(1, 2)}')"), "go")) == ["3"]


def test_a_call_that_is_never_awaited_is_named(world):
    calls = []

    def ship(order: int) -> None:
        """Ships."""
        calls.append(order)

    program = "print(await add(1, 2))\nship(1)\nship(2)"
    assert shown(world.run(agent_of(program, tools=[add, ship]), "go")) == [
        "3\nNot called, because it was not awaited: ship()"
    ]
    assert calls == []


def test_a_program_that_awaits_a_lost_call_of_another_program_ends(world):
    agent = agent_of("late = add(1, 2)\n1 / 0\nawait late", "print(await late)", "print(add(1, 2))")
    texts = shown(world.run(agent, "go"))
    assert texts[0].endswith("Not called, because it was not awaited: add()")
    assert texts[1:] == [
        "Stopped: it awaits a call of an earlier program.\nThe values are those before this program.",
        "3",
    ]


def test_every_tool_has_a_name_that_a_program_can_call(world):
    def make(name: str) -> Any:
        @tool(name=name)
        def named(text: str = "") -> str:
            """Does something."""
            return f"{name} {text}"

        return named

    names = ["get-weather", "sum", "class", "a-b", "a_b", "print"]
    program = "print(get_weather('x'), sum_('x'), class_('x'), a_b_('x'), a_b('x'), print_(text='x'), sum([1, 2]))"
    agent = agent_of(program, tools=map(make, names))
    result = world.run(agent, "go")
    assert shown(result) == ["get-weather x sum x class x a-b x a_b x print x 3"]
    text = agent.model.requests[0].tools["run_code"].description
    assert [line.split("(")[0] for line in text.splitlines() if line.startswith("async def")] == [
        f"async def {name}" for name in ("get_weather", "sum_", "class_", "a_b_", "a_b", "print_")
    ]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("'Ann', 3", {"from": "Ann", "page-size": 3}),
        ("class_='new', from__='Ann'", {"class": "new", "from": "Ann"}),
        ("'Ann', from_='Bob'", {"from": "Ann", "from_": "Bob"}),
        ("**{'from': 'Ann', 'page-size': 3}", {"from": "Ann", "page-size": 3}),
    ],
)
def test_every_parameter_has_a_name_that_a_program_can_write(world, given, arguments):
    found = []
    kinds = {"from": "string", "page-size": "integer", "class": "string", "from_": "string"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    search = JsonTool.from_schema(
        name="search",
        description="Searches.",
        parameters={"type": "object", "properties": properties, "required": ["from"]},
        call=lambda **values: found.append(values),
    )
    agent = agent_of(f"search({given})", "search('Ann', **{'from': 'Bob'})", tools=[search])
    result = world.run(agent, "go")
    assert found == [arguments]
    assert "search() got several values for from" in shown(result)[1]
    offered = agent.model.requests[0].tools["run_code"].description
    assert "search(from__: str, page_size: int = None, class_: str = None, from_: str = None)" in offered


def test_a_name_in_another_spelling_keeps_the_arguments_without_names(world):
    assert shown(world.run(agent_of("print(Add(1, 2), functions_add)"), "go"))[0].count("NameError") == 1
    assert shown(world.run(agent_of("print(Add(1, 2))"), "go")) == ["3"]


def test_a_program_can_sleep(world):
    program = "import asyncio, time\ntime.sleep(0.01)\nawait asyncio.sleep(0.01)\nprint('slept')"
    assert shown(world.run(agent_of(program), "go")) == ["slept"]


def test_a_function_may_be_passed_on_before_it_is_called(world):
    assert shown(world.run(agent_of("f = add\nprint([f(n, 1) for n in range(3)])"), "go")) == ["[1, 2, 3]"]


@pytest.mark.parametrize(
    ("program", "line", "error"),
    [
        ("print('begun')\nadd(1, 1)\n1 / 0", "line 3", "ZeroDivisionError: division by zero"),
        ("x = (1,\n", "line ", "SyntaxError"),
        ("def f():\n    return get_weather('Atlantis')\nf()", "line 2, in f", "ValueError: no such city"),
        ("nothing_such(1)", "line 1", "there is no tool 'nothing_such'"),
        ("print(other)", "line 1", "NameError"),
        ("add(1, 2, 3)", "line 1", "add() takes 2 arguments, got 3"),
        ("add(1, a=2)", "line 1", "add() got several values for a"),
        ("class A:\n    pass\nadd(A(), 1)", "line 3", "TypeError: A cannot be an argument"),
        ("final_answer(text='x')", "line 1", "final_answer cannot be called in a program"),
        ("functions.final_answer(text='x')", "line 1", "NameError"),
        ("Final_Answer(text='x')", "line 1", "Final_Answer cannot be called in a program"),
        ("run_code(code='1')", "line 1", "run_code cannot be called in a program"),
    ],
)
def test_an_error_names_its_line(program, line, error):
    text = shown(agent_of(program).run("go"))[0]
    assert line in text
    assert error in text
    assert ("begun" in text) == ("begun" in program)


def test_the_program_may_be_in_a_fence():
    assert shown(agent_of("```python\nprint(add(1, 1))\n```").run("go")) == ["2"]


@pytest.mark.parametrize(
    ("limits", "program", "text"),
    [
        ({"seconds": 0.2}, "while True:\n    pass", "TimeoutError"),
        (
            {"seconds": 0.2},
            "import time\nwhile True:\n    try:\n        time.sleep(0.15)\n    except Exception:\n        pass",
            "sleep limit exceeded",
        ),
        ({}, "import time\ntime.sleep(30)", "sleep limit exceeded: 30s > 10s"),
        ({"seconds": 0.2}, "import asyncio\nawait asyncio.gather(*[asyncio.sleep(30)] * 9)", "sleep limit exceeded"),
        ({"memory": 2_000_000}, "x = [0] * 10_000_000", "MemoryError"),
        (
            {"calls": 3},
            "while True:\n    try:\n        add(1, 1)\n    except RuntimeError:\n        pass",
            "make 3 calls",
        ),
        ({"output": 10}, "print('x' * 1_000)", "x" * 10 + "\n[991 more characters were printed and left out]"),
    ],
)
def test_a_program_has_limits_after_which_the_values_before_it_are_there(limits, program, text):
    agent = agent_of("kept = 5", program, "print(kept)", mode=CodeMode(**limits))
    _, stopped, after = shown(agent.run("go"))
    assert text in stopped
    assert after == "5"


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory": "1"}, {"calls": True}, {"output": -1}])
def test_a_wrong_limit_is_refused(limits):
    with pytest.raises(DefinitionError, match=r"CodeMode\(\w+=\.\.\.\) must be a number > 0"):
        CodeMode(**limits)


def test_policies_limits_and_state_of_the_agent_hold_for_calls_in_a_program(world):
    seen = []

    def note(effect):
        seen.extend(bound.call.name for bound in effect.calls)
        return effect

    def count(run: RunContext) -> int:
        """Counts."""
        run.state["n"] = run.state.get("n", 0) + 1
        run.session_state["kept"] = run.state["n"]
        return run.state["n"]

    program = "print(count())\ntry:\n    add(1, 1)\n    add(1, 1)\nexcept RuntimeError as error:\n    print(error)"
    agent = agent_of(
        program, tools=[add, count], policies=[around(Hooks(note), CallTools)], limits=Limits(tool_calls=3)
    )
    result = world.run(agent, "go")
    assert shown(result)[0].startswith("1\nNot run: the run's limit of 3 tool calls")
    assert seen[:4] == ["run_code", "count", "add", "add"]
    assert agent.session.session_state["kept"] == 1


def test_a_tool_that_says_something_says_it_to_the_model(world):
    def hint(run: RunContext) -> None:
        """Hints."""
        run.say("Look at the sky.")

    agent = agent_of("hint()", tools=[hint])
    world.run(agent, "go")
    assert "Look at the sky." in str(agent.model.requests[1].messages[-1]["content"])


def test_other_extensions_serve_programs(world, tmp_path):
    agent = JsonAgent([add], model=ScriptedModel(*code("print(add(1, 2))")), extensions=[CodeMode(), Memory(tmp_path)])
    world.run(agent, "go")
    assert "async def " in agent.model.requests[0].tools["run_code"].description


PAY = "paid = pay('Ann', 5)\nprint('paid', paid)\nprint(add(1, 1))"


def paying(path, *programs, log, **settings):
    @tool(effect="danger")
    def pay(to: str, amount: int) -> str:
        """Pays."""
        log.append((to, amount))
        return f"{amount} to {to}"

    def look(at: str) -> str:
        """Looks."""
        log.append(at)
        return at

    return agent_of(*programs, tools=[pay, look, add], journal=path, **settings)


def test_a_program_waits_for_an_approval_inside_it(world):
    log = []
    agent = paying(None, "look('a')\n" + PAY, log=log)
    with pytest.raises(Paused) as pause:
        world.run(agent, "go")
    (waiting,) = pause.value.calls
    assert (waiting.name, log) == ("pay", ["a"])
    result = world.run(agent, None, answers={waiting.id: True})
    assert log == ["a", ("Ann", 5)]
    assert shown(result) == ["paid 5 to Ann\n2"]


def test_a_saved_session_continues_a_program_without_a_journal(world, tmp_path):
    log = []
    agent = paying(None, "x = 'kept'\nprint('begun')\nlook(x)\n" + PAY + "\nprint(x)", log=log)
    with pytest.raises(Paused) as pause:
        world.run(agent, "go")
    agent.session.save(tmp_path / "session.json")
    again = paying(None, log=log)
    given = dict.fromkeys([waiting.id for waiting in pause.value.calls], True)
    result = world.run(again, None, session=Session.load(tmp_path / "session.json"), answers=given)
    assert log == ["kept", ("Ann", 5)]
    assert shown(result) == ["begun\npaid 5 to Ann\n2\nkept"]


def test_hand_offs_and_the_search_among_tools_stay_tools(world):
    other = JsonAgent(add, model=ScriptedModel(answer("other")), description="Adds.")
    agent = agent_of(handoffs={"other": other})
    world.run(agent, "go")
    tools = agent.model.requests[0].tools
    assert [*tools] == ["final_answer", "transfer_to_other", "run_code"]
    assert "transfer_to_other" not in tools["run_code"].description

    found = [call("find_tools", query="weather"), *code("print(get_weather('Rome')['degrees'])")]
    extensions = [ToolSearch(above=0, limit=1), CodeMode()]
    agent = JsonAgent([get_weather, add], model=ScriptedModel(*found), extensions=extensions)
    assert shown(world.run(agent, "go")) == ["21.0"]
    texts = [request.tools["run_code"].description for request in agent.model.requests]
    assert [*agent.model.requests[0].tools] == ["final_answer", "find_tools", "run_code"]
    assert ["get_weather" in text for text in texts] == [False, True, True]
    assert "async def add" not in texts[1]


@pytest.mark.parametrize(
    ("decision", "text", "paid"),
    [
        (True, "paid 5 to Ann\n2", [("Ann", 5)]),
        ({"to": "Bob", "amount": 1}, "paid 1 to Bob\n2", [("Bob", 1)]),
        ("too much", "too much", []),
    ],
)
def test_another_process_continues_a_program_from_its_snapshot(world, tmp_path, decision, text, paid):
    log = []
    program = "import random\nx = random.random()\nprint('begun', x)\nlook('a')\n" + PAY
    with pytest.raises(Paused) as pause:
        world.run(paying(tmp_path / "runs.db", program, log=log), "go")
    run = runs(tmp_path / "runs.db")[0]
    again = paying(tmp_path / "runs.db", log=log)
    result = resume(world, again, run.id, answers={pause.value.calls[0].id: decision})
    assert log == ["a", *paid]
    begun, _, rest = shown(result)[0].partition("\n")
    assert begun.startswith("begun 0.")
    assert text in rest


def test_a_program_that_continues_reads_how_much_it_printed_before(world, tmp_path):
    with pytest.raises(Paused) as pause:
        world.run(paying(tmp_path / "runs.db", "print('x' * 30)\n" + PAY, log=[], mode=CodeMode(output=10)), "go")
    again = paying(tmp_path / "runs.db", log=[], mode=CodeMode(output=10))
    result = resume(world, again, runs(tmp_path / "runs.db")[0].id, answers={pause.value.calls[0].id: True})
    left_out = len(f"{'x' * 30}\npaid 5 to Ann\n2\n") - 10
    assert shown(result) == [f"{'x' * 10}\n[{left_out} more characters were printed and left out]"]


ONE_AT_A_TIME = """
from pydantic_monty import Monty
from agentkit import CodeMode, JsonAgent
from agentkit.extensions import code
from agentkit.testing import ScriptedModel, answer, call

pool = Monty(max_processes=1, checkout_timeout=0.1)
pool.__enter__()
code._pool = lambda _: pool
code.INNER_WAIT_SECONDS = 0.1

def ask() -> str:
    "Asks."
    return run("print(1)").content

def run(program):
    model = ScriptedModel(call("run_code", code=program), answer("done"))
    return JsonAgent(ask, model=model, extensions=[CodeMode()]).run("go").calls[0]

print(run("print(ask())").content)
"""


def test_a_program_that_finds_no_free_interpreter_reads_why_and_what_to_do():
    done = subprocess.run([sys.executable, "-c", ONE_AT_A_TIME], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "Stopped after 0 calls: no interpreter is free. Run the rest later.",
        "The values are those before this program.",
    ]


WAITING = (
    ONE_AT_A_TIME.partition("code.INNER")[0]
    + """
import threading
from agentkit import Limits

held = pool.checkout().__enter__()

def run(limits):
    model = ScriptedModel(call("run_code", code="print(1)"), answer("done"))
    return JsonAgent(len, model=model, extensions=[CodeMode()], limits=limits).run("go")

result = run(Limits(seconds=3))
print(result.stopped)
threading.Timer(0.5, held.__exit__, (None, None, None)).start()
print(run(Limits()).calls[0].content)
"""
)


def test_a_program_waits_for_an_interpreter_as_long_as_its_run_may():
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["seconds", "1"], done.stderr


BOOK = """
import os
from agentkit import CodeMode, JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call

def agent_of(folder, *replies, dies=""):
    @tool(effect="write")
    def book(what: str) -> str:
        "Books."
        with open(f"{folder}/log", "a") as log:
            log.write(what)
        if what == dies:
            os._exit(9)
        return what

    model = ScriptedModel(*replies, answer("done"))
    return JsonAgent([book], model=model, journal=f"{folder}/runs.db", extensions=[CodeMode()])
"""
BOOK_ALL = """
for what in "abc":
    try:
        print(book(what))
    except RuntimeError as error:
        print(error)
"""


def test_the_program_of_a_killed_process_continues_and_reads_that_the_outcome_of_its_open_call_is_unknown(
    world, tmp_path
):
    go = f"agent_of({str(tmp_path)!r}, call('run_code', code={BOOK_ALL!r}), dies='b')('go')"
    assert subprocess.run([sys.executable, "-c", f"{BOOK}\n{go}"], check=False).returncode == 9
    names: dict[str, Any] = {}
    exec(BOOK, names)
    result = resume(world, names["agent_of"](tmp_path), runs(tmp_path / "runs.db")[0].id)
    assert (tmp_path / "log").read_text() == "abc"
    lines = shown(result)[0].splitlines()
    assert (lines[0], lines[-1]) == ("a", "c")
    assert "not known whether it had an effect" in lines[1]


def test_questions_of_tools_are_asked_and_finished_calls_beside_them_keep_their_results(world, tmp_path):
    log = []

    def ask(about: str) -> str:
        """Asks."""
        return ask_question(f"Which {about}?")

    def look(at: str) -> str:
        """Looks."""
        log.append(at)
        return at

    def agent(*programs):
        return agent_of(*programs, tools=[ask, look], journal=tmp_path / "runs.db")

    program = "import asyncio\nprint(await asyncio.gather(look('x'), ask('colour'), look('y')))"
    with pytest.raises(Paused) as pause:
        world.run(agent(program), "go")
    (question,) = pause.value.questions
    result = resume(world, agent(), runs(tmp_path / "runs.db")[0].id, answers={question.id: "red"})
    assert shown(result) == ["['x', 'red', 'y']"]
    assert sorted(log) == ["x", "y"]


REFUSED = "PermissionError"
NO_MODULE = "ModuleNotFoundError"
NO_NAME = "there is no tool"
NO_ATTRIBUTE = "AttributeError"
ESCAPES = {
    "print(open(FILE).read())": REFUSED,
    "open(FILE, 'w').write('x')": REFUSED,
    "from pathlib import Path\nprint(Path(FILE).read_text())": REFUSED,
    "from pathlib import Path\nprint(list(Path('/').iterdir()))": REFUSED,
    "import os\nprint(os.listdir('/'))": REFUSED,
    "import os\nos.remove(FILE)": REFUSED,
    "import os\nprint(os.environ)": "not supported",
    "import os\nprint(os.getenv('HOME', 'none'))": "not supported",
    "import os\nos.system('id')": NO_ATTRIBUTE,
    "import socket": NO_MODULE,
    "import urllib.request": NO_MODULE,
    "import subprocess": NO_MODULE,
    "import ctypes": NO_MODULE,
    "import importlib": NO_MODULE,
    "import inspect": NO_MODULE,
    "import pickle": NO_MODULE,
    "import agentkit": NO_MODULE,
    "import pydantic_monty": NO_MODULE,
    "import builtins": NO_MODULE,
    "__import__('socket')": NO_NAME,
    "eval('__import__(\"os\")')": NO_NAME,
    "exec('import socket')": NO_MODULE,
    "compile('1', 'x', 'eval')": NO_NAME,
    "print(globals())": NO_NAME,
    "import sys\nprint(sys.modules)": NO_ATTRIBUTE,
    "import sys\nprint(sys._getframe())": NO_ATTRIBUTE,
    "print(().__class__.__bases__[0].__subclasses__())": NO_ATTRIBUTE,
    "print(fail.__globals__)": NO_ATTRIBUTE,
    "print(fail.__code__)": NO_ATTRIBUTE,
    "print(fail.__wrapped__)": NO_ATTRIBUTE,
    "print('{0.__class__.__init__.__globals__}'.format(fail))": NO_ATTRIBUTE,
    "try:\n    fail()\nexcept RuntimeError as error:\n    print(error.__traceback__.tb_frame.f_locals)": NO_ATTRIBUTE,
    "try:\n    fail()\nexcept RuntimeError as error:\n    print(error.__cause__, error.__context__)": NO_ATTRIBUTE,
    "raise SystemExit(3)": "RuntimeError",
    "raise KeyboardInterrupt()": "KeyboardInterrupt",
    "import asyncio\nawait asyncio.create_subprocess_shell('id')": NO_ATTRIBUTE,
    "import asyncio\nawait asyncio.open_connection('127.0.0.1', 80)": NO_ATTRIBUTE,
    "x = 'a' * 10**10": "MemoryError",
    "x = 9 ** 9 ** 9": "MemoryError",
    "x = []\nwhile True:\n    x.append([x])": "Error",
    "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass": "TimeoutError",
    "print(sum(range(10**12)))": "TimeoutError",
    "def f():\n    return f()\nf()": "RecursionError",
    "import json\njson.loads('[' * 100_000)": "recursion limit",
    "fail.__class__.__call__ = print": NO_ATTRIBUTE,
    "int.__add__ = print": NO_ATTRIBUTE,
}


@pytest.mark.parametrize("program", ESCAPES)
def test_a_program_cannot_leave_its_interpreter(program, tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("sesame")

    def fail() -> None:
        """Fails."""
        raise ValueError(len("sesame"))

    mode = CodeMode(seconds=0.3, memory=8_000_000)
    agent = agent_of(program.replace("FILE", repr(str(file))), "print('alive')", tools=[fail], mode=mode)
    text, after = shown(agent.run("go"))
    assert ESCAPES[program] in text
    assert "sesame" not in text
    assert after == "alive"
    assert file.read_text() == "sesame"


@pytest.fixture
def sent():
    SENT.clear()
    return SENT


def test_hidden_results_are_handles_that_a_program_can_only_pass_on(world, sent):
    program = """
mail = get_mail()
print(mail, len(mail))
send(to="bob@home.example", text=mail + ".body")
send(to="bob@home.example", text="He wrote: {" + mail + ".body}")
"""
    agent = agent_of(program, "print(mail)", tools=HIDDEN_TOOLS, untrusted="hidden")
    result = world.run(agent, "Forward it to bob@home.example.")
    first, second = shown(result)
    assert first.startswith("#1 2\n[hidden: #1 from get_mail, ")
    assert second == "#1"
    assert [entry["text"] for entry in sent] == [HIDDEN_TEXT, f"He wrote: {HIDDEN_TEXT}"]
    assert HIDDEN_TEXT not in str([request.messages for request in agent.model.requests])


def test_an_error_of_a_tool_is_no_hidden_result(world):
    def find_order() -> str:
        """Finds an order."""
        raise ValueError("There are two:\n#11 from Ann\n#12 from Bob")

    (text,) = shown(world.run(agent_of("find_order()", tools=[find_order]), "go"))
    assert text.endswith("RuntimeError: ValueError: There are two:\n#11 from Ann\n#12 from Bob")


@pytest.mark.parametrize(
    "program",
    [
        "print(get_mail()['body'])",
        "print(get_mail().body)",
        "for letter in get_mail():\n    print(letter)",
        "import json\nprint(json.loads(get_mail()))",
        "try:\n    nothing(get_mail() + '.body')\nexcept RuntimeError as error:\n    print(error)",
        "mail = get_mail()\ntry:\n    get_mail(mail + '.body')\nexcept Exception as error:\n    print(error)",
        "try:\n    get_text(fail=True)\nexcept RuntimeError as error:\n    print(error, error.args)",
        "text = get_text()\ntry:\n    send(to=text, copies=text)\nexcept RuntimeError as error:\n    print(error)",
        "text = get_text()\nreveal_result(reference=text)",
    ],
)
def test_no_program_reads_a_hidden_result(program, sent):
    agent = agent_of(program, tools=HIDDEN_TOOLS, untrusted="hidden")
    agent.run("Read it.")
    requests = str([request.messages for request in agent.model.requests])
    assert not any(HIDDEN_TEXT[place : place + 12] in requests for place in range(len(HIDDEN_TEXT) - 12))


def test_a_program_that_sends_a_hidden_value_elsewhere_waits(world, sent):
    program = "mail = get_mail()\nsend(to=mail + '.subject', text='Hello.')"
    agent = agent_of(program, tools=HIDDEN_TOOLS, untrusted="hidden")
    with pytest.raises(Paused):
        world.run(agent, "Answer it.")
    assert not sent


def test_a_program_shares_the_handles_of_the_conversation(world, sent):
    replies = [call("get_mail"), call("run_code", code="# 1\nsend(to='bob@home.example', text='#1.body')\nget_mail()")]
    model = ScriptedModel(*replies, call("run_code", code="print(get_mail())"), answer("done"))
    mode = CodeMode(beside=True)
    agent = JsonAgent([*HIDDEN_TOOLS], model=model, extensions=[mode], untrusted="hidden")
    result = world.run(agent, "Forward it to bob@home.example.")
    assert [entry["text"] for entry in sent] == [HIDDEN_TEXT]
    assert shown(result)[1].startswith("#4")


def test_no_hidden_text_becomes_a_part_of_a_program_or_of_its_output(world, sent):
    program = "print('{#1.body}', '#1')\nsend(to='bob@home.example', text='{#1.body}')"
    model = ScriptedModel(call("get_mail"), *code(program))
    agent = JsonAgent([*HIDDEN_TOOLS], model=model, extensions=[CodeMode()], untrusted="hidden")
    result = world.run(agent, "Forward #7 to bob@home.example.")
    assert shown(result)[0].startswith("{#1.body} #1\n")
    assert [entry["text"] for entry in sent] == [HIDDEN_TEXT]


def test_untrusted_values_that_a_program_read_are_not_trusted_in_a_call(world, sent):
    program = "mail = get_mail()\nsend(to=mail['subject'], text='Hello.')"
    agent = agent_of(program, tools=HIDDEN_TOOLS)
    with pytest.raises(Paused) as pause:
        world.run(agent, "Answer it.")
    assert [waiting.name for waiting in pause.value.calls] == ["send"]
    asked = agent_of(program.replace("mail['subject']", "'bob@home.example'"), tools=HIDDEN_TOOLS)
    result = world.run(asked, "Write to bob@home.example.")
    assert [entry["to"] for entry in sent] == ["bob@home.example"]
    assert result.label.is_untrusted


def test_in_a_dry_run_a_program_reads_and_its_other_calls_are_listed(world):
    made = []

    @tool(effect="read")
    def look(place: str) -> str:
        """Looks."""
        made.append(place)
        return f"a file in {place}"

    @tool(effect="danger")
    def erase(path: str) -> str:
        """Erases."""
        made.append(path)
        return "erased"

    agent = agent_of('print(erase(path=look(place="home")))', tools=[look, erase])
    result = world.run(agent, "Tidy up", dry_run=True)
    assert made == ["home"]
    assert [(entry.name, entry.arguments) for entry in result.planned] == [("erase", '{"path": "a file in home"}')]
    assert shown(result) == ["Not run (dry run)"]
