"""A run while it works, in a notebook's cell; a fake IPython stands in for the kernel's."""

import asyncio
import io
import re
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from report_pages import Page
from waiting import wait_until

from agentkit import JsonAgent, ModelError, RunError, log
from agentkit.agents import batch
from agentkit.extend import AnswerPiece, AnswerWithdrawn
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.results.tables import Table, format_table
from agentkit.views import notebook
from agentkit.views.html.markup import render_block, render_data

CELLS: list["Cell"] = []
"""The cell of the test."""


class Handle:
    """What IPython's `display` gives."""

    def __init__(self, cell: "Cell", first: dict) -> None:
        self.shown = [first]
        self.moments = [time.perf_counter()]
        self.cell = cell

    def update(self, data, *, raw):
        assert raw
        self.shown.append(data)
        self.moments.append(time.perf_counter())


class Cell:
    """The displays of a cell."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []
        CELLS[:] = [self]

    def shows_call(self) -> bool:
        return bool(self.handles) and "slow(" in self.handles[-1].shown[-1]["text/plain"]

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.handles.append(Handle(self, data))
        return self.handles[-1]


@pytest.fixture
def cell(monkeypatch):
    cell = Cell()
    fake = ModuleType("IPython")
    fake.get_ipython = lambda: SimpleNamespace(kernel=object())
    fake.display = SimpleNamespace(display=cell.display)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.delenv("AGENTKIT_PROGRESS", raising=False)
    notebook._last.clear()
    return cell


SET_UP = """
import asyncio
import time
from agentkit import JsonAgent
from agentkit.events import ToolStarted
from agentkit.testing import ScriptedModel, answer, call

class Slow:
    name = "slow"

    def ask(self, request):
        time.sleep(3)
        yield

    async def aask(self, request):
        await asyncio.sleep(3)
        yield

def agent(seconds=0.5, model=None):
    def nap() -> str:
        "Naps."
        time.sleep(seconds)
        return "slept"

    return JsonAgent(nap, model=model or ScriptedModel(call("nap"), answer("rested")))
"""
"""The first cell of a real kernel's notebook."""


SINGLE = (
    "tired('Nap')",
    "await tired.arun('Nap')",
    "for event in tired.stream('Nap'):\n    if isinstance(event, ToolStarted): print('starts')",
    "async for event in tired.astream('Nap'):\n    if isinstance(event, ToolStarted): print('starts')",
)
"""Ways to run one query."""


MANY = {
    "tired.map(['Nap', 'Nap'])": batch.MAP_INTERRUPTED,
    "await tired.amap(['Nap', 'Nap'])": batch.MAP_INTERRUPTED,
    "for outcome in tired.imap(['Nap']): print(outcome)": batch.ITERATION_INTERRUPTED,
    "async for outcome in tired.aimap(['Nap']): print(outcome)": batch.ITERATION_INTERRUPTED,
}
"""Ways to run many queries, and what a cell shows after an interrupt."""


def slow(city: str) -> str:
    """Takes its time."""
    time.sleep(0.3)
    wait_until(lambda: not notebook._cell_lock.locked() or CELLS[0].shows_call())  # a busy machine draws late
    return f"sunny in {city}"


def agent(**settings):
    calls = [{"name": "slow", "arguments": {"city": city}} for city in ("<script>A</script>", "B")]
    answer = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "sunny"}}]}
    return JsonAgent(slow, model=ScriptedModel({"tool_calls": calls}, answer, name="model-<i>"), **settings)


def test_a_run_is_shown_while_it_works_and_gone_afterwards(cell, world):
    assert world.run(agent(), "How is the weather?").answer == "sunny"
    (handle,) = cell.handles
    assert handle.shown[-1] == {"text/html": "", "text/plain": ""}
    during = next(shown for shown in handle.shown if "slow(" in shown["text/plain"])
    assert "How is the weather?" in during["text/plain"]
    assert 'slow(city="<script>A</script>")' in during["text/plain"]
    assert 'slow(city="<script>A</script>")' in Page(during["text/html"]).text
    assert "1 request" in during["text/plain"]
    pauses = [later - earlier for earlier, later in zip(handle.moments[:-1], handle.moments[1:-1], strict=False)]
    assert all(pause >= 0.03 for pause in pauses)
    assert not [thread for thread in threading.enumerate() if thread.name == "agentkit-notebook"]


def test_the_call_works_like_run(cell):
    assert agent()("x") == "sunny"
    assert len(cell.handles) == 1


def test_a_failed_run_leaves_nothing_either(cell, world):
    failing = (
        {"tool_calls": [{"name": "slow", "arguments": {"city": "A"}}]},
        ModelError("no key", kind="authentication"),
    )
    with pytest.raises(RunError):
        world.run(JsonAgent(slow, model=ScriptedModel(*failing)), "x")
    assert cell.handles[0].shown[-1] == {"text/html": "", "text/plain": ""}
    world.run(agent(), "again")
    assert len(cell.handles) == 2


def test_quick_runs_leave_no_empty_outputs(cell):
    answer = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "x"}}]}
    for _ in range(3):
        with notebook.show_in_cell(redraw_seconds=5) as show:
            for event in JsonAgent(slow, model=ScriptedModel(answer)).stream("x"):
                show(event)
    assert cell.handles == []


def test_all_runs_of_a_cell_share_one_place(cell, world):
    kernel = SimpleNamespace(get_parent=lambda: {"header": {"msg_id": number}})
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace(kernel=kernel)
    for number in ("first", "first", "second"):
        world.run(agent(), number)
    first, second = cell.handles
    assert first.shown[-1] == second.shown[-1] == {"text/html": "", "text/plain": ""}
    assert sum(not shown["text/html"] for shown in first.shown) == 2


def test_agents_inside_of_tools_are_shown_in_the_same_place(cell, world):
    answer = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "x"}}]}
    outer = ScriptedModel({"tool_calls": [{"name": "inner", "arguments": {"query": "deep"}}]}, answer)
    world.run(JsonAgent(agent(description="Knows the weather.").as_tool("inner"), model=outer), "x")
    (handle,) = cell.handles
    assert any("[inner] slow(" in shown["text/plain"] for shown in handle.shown)


def test_one_run_at_a_time_is_shown(cell):
    async def both():
        await asyncio.gather(agent().arun("x"), agent().arun("y"))

    asyncio.run(both())
    assert len(cell.handles) == 1


@pytest.mark.parametrize("why", ["off", "printed", "no kernel", "stream", "map"])
def test_it_stays_out_of_the_way(cell, monkeypatch, why):
    if why == "off":
        monkeypatch.setenv("AGENTKIT_PROGRESS", "off")
    elif why == "printed":
        log.show()
    elif why == "no kernel":
        sys.modules["IPython"].get_ipython = lambda: None
    try:
        if why == "stream":
            list(agent().stream("x"))
        elif why == "map":
            agent().map(["x"], progress=False)
        else:
            agent()("x")
    finally:
        log.hide()
    assert cell.handles == []


def test_ipython_is_not_imported_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    agent()("x")
    assert "IPython" not in sys.modules


def test_a_cell_is_coloured_and_a_file_is_not(cell, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert log.make_printer().file is sys.stdout
    assert log.make_printer().colour
    assert not log.make_printer(io.StringIO()).colour


def test_secrets_are_masked(cell, world, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "s3cr3tvalue")
    world.run(agent(), "Use s3cr3tvalue")
    assert not any("s3cr3t" in text for shown in cell.handles[0].shown for text in shown.values())


def test_an_interrupt_of_a_kernel_is_one_line_and_the_run_continues():
    manager = pytest.importorskip("jupyter_client").KernelManager(transport_encryption="auto")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=150)

    def execute(code, *, interrupt=False):
        """Execute a cell; return the lines of its error, or the text of its result."""
        sent = client.execute(code)
        shown = []
        waiting = interrupt
        while True:
            message = client.get_iopub_msg(timeout=150)
            kind = message["msg_type"]
            content = message["content"]
            if message["parent_header"].get("msg_id") != sent:
                continue
            if kind in ("display_data", "stream") and waiting:
                waiting = False
                manager.interrupt_kernel()
            elif kind == "error":
                shown = content["traceback"]
            elif kind == "execute_result":
                shown = [content["data"]["text/plain"]]
            elif kind == "status" and content["execution_state"] == "idle":
                return shown

    try:
        execute(SET_UP)
        for code in SINGLE:
            assert execute(f"tired = agent(9)\n{code}", interrupt=True) == [notebook.INTERRUPTED_NOTICE], code
            assert execute("tired.run().answer") == ["'rested'"]
        for code in ("tired('Nap')", "await tired.arun('Nap')"):
            assert execute(f"tired = agent(model=Slow())\n{code}", interrupt=True) == [notebook.NOTHING_LEFT_NOTICE], (
                code
            )
            assert execute("tired.history[1:]") == ["[]"]
        for method, line in MANY.items():
            assert execute(f"tired = agent(3)\nprint('starts')\n{method}", interrupt=True) == [line], method
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_real_kernel_shows_it_while_a_cell_runs():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    config = pytest.importorskip("traitlets.config")
    cells = [nbformat.v4.new_code_cell(text) for text in (SET_UP, "agent(3)('Nap')", "await agent(3).arun('Nap')")]
    seen = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, index):
            if message["msg_type"].endswith("display_data"):
                seen.append((index, message["content"]["data"]["text/plain"]))
            return super().process_message(message, cell, index)

    quiet = config.Config(KernelManager={"transport_encryption": "auto"})
    notebook_node = nbformat.v4.new_notebook(cells=cells)
    Client(notebook_node, timeout=150, config=quiet).execute()
    for index in (1, 2):
        shown = [text for place, text in seen if place == index]
        assert any("nap()" in text for text in shown), shown
        assert shown[-1] == ""
    assert "rested" in notebook_node.cells[2].outputs[-1]["data"]["text/html"]


ASKING = """
from agentkit import JsonAgent, ask_question
from agentkit.testing import ScriptedModel, answer, call

def book(city: str) -> str:
    "Books a room."
    return f"{city}, {ask_question('How many nights?', int)} nights"

def agent():
    return JsonAgent(book, model=ScriptedModel(call("book", city="Rome"), answer("done")))
"""


def test_a_real_kernel_asks_a_question_of_a_tool_in_its_cell():
    manager = pytest.importorskip("jupyter_client").KernelManager(transport_encryption="auto")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    prompts = []
    entries = iter(["two", "2", "3"])

    def reply(message):
        prompts.append(message["content"]["prompt"])
        client.input(next(entries))

    def execute(code):
        shown = []

        def note(message):
            if message["msg_type"] in ("execute_result", "error"):
                content = message["content"]
                shown.extend(content.get("traceback") or [content["data"]["text/plain"]])

        client.execute_interactive(code, allow_stdin=True, stdin_hook=reply, output_hook=note, timeout=150)
        return shown

    try:
        client.wait_for_ready(timeout=150)
        execute(ASKING)
        assert execute("agent().run('go').calls[0].content") == ["'Rome, 2 nights'"]
        assert execute("(await agent().arun('go')).calls[0].content") == ["'Rome, 3 nights'"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert len(prompts) == 3
    assert all("How many nights?" in prompt for prompt in prompts)
    assert "'two' is not of type 'integer'" in prompts[1]


def test_a_notebook_shows_the_line_to_paste_in_place_of_a_traceback():
    shell = InteractiveShell()
    shell.run_cell("from agentkit import JsonAgent, tool\nfrom agentkit.testing import ScriptedModel, answer, call")
    shell.run_cell("@tool(effect='danger')\ndef pay(euros: int) -> str:\n    'Pay.'\n    return 'paid'")
    with capture_output() as shown:
        shell.run_cell(
            "agent = JsonAgent(pay, model=ScriptedModel(call('pay', euros=4), answer('done'))); agent('pay')"
        )
    assert "Traceback" not in shown.stdout + shown.stderr
    lines = shown.stdout.splitlines() or shown.stderr.splitlines()
    assert lines[:2] == ["The run waits for you:", '  pay({"euros": 4})']
    with capture_output() as shown:
        shell.run_cell(f"import sys\nprint({lines[-1].strip().partition('; ')[2]}.answer)")
    assert "done" in shown.stdout
    with capture_output() as shown:
        shell.run_cell("tool(effect='nonsense')(print)")
    text = shown.stdout + shown.stderr
    assert "Traceback" not in text
    assert text.startswith("DefinitionError: ")
    assert "tool(effect='nonsense')(print)" in text


def test_a_question_in_a_notebook_is_answered_with_the_line_to_paste():
    shell = InteractiveShell()
    shell.run_cell(
        "from agentkit import JsonAgent, ask_question\nfrom agentkit.testing import ScriptedModel, answer, call"
    )
    shell.run_cell("def book() -> str:\n    'Book.'\n    return f'{ask_question(\"How many nights?\", int)} nights'")
    with capture_output() as shown:
        shell.run_cell("agent = JsonAgent(book, model=ScriptedModel(call('book'), answer('done'))); agent('Rome')")
    lines = shown.stdout.splitlines() or shown.stderr.splitlines()
    assert lines[:3] == ["The run waits for you:", "  How many nights?", "Answer and continue:"]
    with capture_output() as shown:
        shell.run_cell(f"import sys\nprint({lines[3].strip().partition('; ')[2]}.calls[0].content)")
    assert shown.stdout == "1 nights\n"


def test_an_agent_in_a_cell_says_what_waits_and_the_line_continues_it():
    shell = InteractiveShell()
    shell.run_cell("from agentkit import JsonAgent, tool\nfrom agentkit.testing import ScriptedModel, answer, call")
    shell.run_cell("@tool(effect='danger')\ndef pay(euros: int) -> str:\n    'Pay.'\n    return 'paid'")
    shell.run_cell("agent = JsonAgent(pay, model=ScriptedModel(call('pay', euros=4), answer('done')))")
    idle = shell.user_ns["agent"]
    assert "waits" not in repr(idle) + idle._repr_html_()
    with capture_output():
        shell.run_cell("agent.run('pay')")
    assert repr(idle).endswith("; waits for you: pay)")
    text = Page(idle._repr_html_()).text
    assert 'The run waits for you:\npay({"euros": 4})' in re.sub(r"\s*\n\s*", "\n", text)
    line = re.search(r"agent\.run\(answers=\{.*?\}\)", text)[0]
    with capture_output() as shown:
        shell.run_cell(f"print({line}.answer)")
    assert "done" in shown.stdout
    assert "waits" not in repr(idle) + idle._repr_html_()


def test_the_tool_that_gives_the_answer_is_the_last_in_every_list():
    one = agent()
    for shown in (one._repr_html_(), one.tools._repr_html_(), one.tools._repr_markdown_(), one.tools.to_html()):
        assert shown.rindex("Takes its time.") < shown.rindex("final_answer")


def test_rows_are_a_table_and_what_it_leaves_out_follows_as_json(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "s3cr3tvalue")

    def cities(count: int) -> list:
        """Lists cities."""
        return [{"city": f"<b>{number}</b>", "degrees": number, "key": "s3cr3tvalue"} for number in range(count)]

    def ask(count):
        result = JsonAgent(cities, model=ScriptedModel(call("cities", count=count), answer("many"))).run("x")
        return result._repr_html_()

    few = ask(3)
    assert few.count("<tr>") == 4
    assert "&lt;b&gt;2&lt;/b&gt;</td><td>2</td>" in few
    assert "s3cr3t" not in few
    assert '"degrees"' not in few
    many = ask(30)
    assert many.count("<tr>") == 21
    assert "10 more rows, and all as JSON" in many
    assert '"degrees": 29' in many
    assert "s3cr3t" not in many


def test_a_result_that_the_model_read_as_a_table_is_a_table():
    def cities() -> str:
        """Lists cities."""
        return format_table(Table(["city", "degrees"], ["", ""], [["Rome", 21], ["Oslo", 3]], 2))

    result = JsonAgent(cities, model=ScriptedModel(call("cities"), answer("many"))).run("x")
    assert "<tr><th>city</th><th>degrees</th></tr><tr><td>Rome</td><td>21</td></tr>" in result._repr_html_()


@pytest.mark.parametrize("value", [[], [{}], [1, {"a": 1}], [{"a": 1}, {"b": 1}], [{"a": [1]}], {"a": 1}])
def test_data_that_is_no_table_stays_json(value):
    assert render_data(value) == render_block(value)


def test_a_long_cell_stands_whole_below_the_table():
    shown = render_data([{"note": "x" * 300}, "... 5 more"])
    assert shown.count("<tr>") == 2
    assert "x" * 300 in shown
    assert "... 5 more" in shown


SHOP = """
%load_ext agentkit
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

def price_of(item: str) -> float:
    "Look up a price."
    return 3.5

def shop(*replies):
    return JsonAgent(price_of, model=ScriptedModel(*replies))
"""


def test_a_real_kernel_streams_the_answer_of_the_magic_into_the_cell():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    config = pytest.importorskip("traitlets.config")
    words = " ".join(f"word{number}" for number in range(40))
    script = f"clerk = shop(call('price_of', item='tea'), answer('**Tea** costs 3.5. <b>{words}</b>'))"
    texts = (SHOP, script, "%%ask -o result\nWhat does tea cost?", "result.usage.requests")
    shown = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, index):
            if index == 2 and message["msg_type"].endswith("display_data"):
                shown.append(message["content"]["data"])
            return super().process_message(message, cell, index)

    node = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, texts)])
    Client(node, timeout=150, config=config.Config(KernelManager={"transport_encryption": "auto"})).execute()
    first, *_, last = [data for data in shown if data["text/plain"].startswith("**Tea")]
    assert last["text/plain"] == f"**Tea** costs 3.5. <b>{words}</b>"
    assert "<strong>Tea</strong>" in last["text/html"]
    assert "<b>word0" not in last["text/html"]
    assert len(first["text/plain"]) < len(last["text/plain"])  # it streamed
    assert node.cells[3].outputs[-1]["data"]["text/plain"] == "2"


def run_cells(*cells):
    """Return what a shell at a terminal prints for the last of the cells."""
    shell = InteractiveShell()
    for cell in (SHOP, *cells[:-1]):
        shell.run_cell(cell)
    with capture_output() as shown:
        shell.run_cell(cells[-1])
    return shown.stdout + shown.stderr, shell


TWO = "clerk = shop(answer('first'), answer('second'))\nother = shop(answer('other'))"


def test_the_magic_prints_at_a_terminal_and_continues_the_conversation():
    text, shell = run_cells(TWO, "%%ask clerk\nOne?", "%%ask clerk\nTwo?")
    assert text == "second\n"
    assert [m["content"] for m in shell.user_ns["clerk"].history if m["role"] == "user"] == ["One?", "Two?"]
    text, shell = run_cells(TWO, "%%ask clerk\nOne?", "%%ask clerk --new\nTwo?")
    assert [m["content"] for m in shell.user_ns["clerk"].history if m["role"] == "user"] == ["Two?"]
    assert run_cells("agent = shop(answer('mine'))", TWO, "%%ask\nOne?")[0] == "mine\n"
    typed = "agent = JsonAgent(price_of, model=ScriptedModel(answer(3.5)), answer=float)"
    assert run_cells(typed, "%%ask\nOne?")[0] == "3.5\n"


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (("%%ask\nOne?",), "there is no agent here. Make one: agent = JsonAgent([my_function])"),
        ((TWO, "%%ask\nOne?"), "name the agent, %%ask clerk. There are: clerk, other."),
        ((TWO, "%%ask clark\nOne?"), "clark is no agent. Did you mean 'clerk'?"),
        ((TWO, "%%ask clerk\n \n"), "the cell has no question. Write it below the first line."),
        ((TWO, "%%ask clerk --nonsense\nOne?"), "unrecognized arguments: --nonsense"),
        ((TWO, "%%ask 'clerk\nOne?"), "No closing quotation"),
    ],
)
def test_a_magic_that_cannot_ask_says_why(cells, problem):
    text, _ = run_cells(*cells)
    assert problem in text
    assert "Traceback" not in text
    assert "fn(*args" not in text, "the line is one of the cell, not of IPython"


def test_an_answer_that_begins_again_replaces_what_the_cell_shows(cell):
    view = notebook._ShownAnswer()
    for frame in (AnswerPiece("wrong"), AnswerWithdrawn(), AnswerPiece("right")):
        view.draw(frame)
    view.finish("right")
    (handle,) = cell.handles
    assert [shown["text/plain"] for shown in handle.shown] == ["wrong", "right", "right"]
