"""Calls in a process of their own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import date
from functools import partial
from pathlib import Path

import isolated
import pytest
from isolated import (
    Counter,
    Odd,
    Point,
    begin,
    crash,
    fail,
    later,
    leave,
    move,
    numbers,
    process_id,
    stuck,
    talk,
    unpicklable,
)
from waiting import HANGS, wait_until

from agentkit import DefinitionError, ExceptionInfo, JsonAgent, JsonTool, RunContext, ToolCall, ToolError, ToolRegistry
from agentkit.core.context import Injected
from agentkit.core.flow import apply_policies, ask, drive
from agentkit.core.messages import pending_calls
from agentkit.core.threads import count_abandoned
from agentkit.policies.limits import limit_tool_time
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import CallTools, ToolAbandoned, ToolFinished

FUNCTIONS = (move, process_id, later, numbers, talk, unpicklable, fail, crash, leave, begin, stuck)
TOOLS = ToolRegistry(*(JsonTool(function, isolate="process") for function in FUNCTIONS))

POISON = JsonTool(isolated.poison, isolate="process")
VALUES = ToolRegistry(JsonTool(f, isolate="process") for f in (isolated.typed, isolated.untyped, isolated.image))


def turn(name, arguments="{}", timeout=HANGS, tools=TOOLS, others=(), **settings):
    calls = [tools.bind(ToolCall("c0", name, arguments)), *others]

    def flow():
        return (yield from ask(CallTools(tuple(calls), **settings)))

    return apply_policies(flow(), (limit_tool_time(timeout),))


def late_turn(name, path, tools=TOOLS):
    """Return the flow of a call whose 900 seconds have passed as soon as it has written to the path."""
    ahead = []

    def pass_by() -> None:
        """Lets the time pass."""
        wait_until(lambda: path.exists() and " " in path.read_text())
        ahead.append(1000)

    others = [ToolRegistry(pass_by).bind(ToolCall("c1", "pass_by"))]
    given = json.dumps({"path": str(path)})
    return turn(name, given, 900, tools, others, clock=lambda: time.perf_counter() + sum(ahead))


def result_of(world, *call, **settings):
    return world.drive(turn(*call, **settings))[0][0]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_arguments_and_results_go_there_and_back(world):
    assert result_of(world, "move", '{"point": {"x": 1, "y": 2}, "by": 3}').value == Point(4, 2)


def test_each_call_has_a_process_of_its_own(world):
    found = {result_of(world, "process_id").value for _ in range(2)}
    assert len(found | {os.getpid()}) == 3
    assert all(map(gone, found))


def test_coroutines_and_generators_come_to_their_values(world):
    assert result_of(world, "later").value == "later"
    assert result_of(world, "numbers").value == [0, 1, 2]


def test_what_it_prints_stays_here(world, capfd):
    assert result_of(world, "talk").content == "to the model"
    assert "to the terminal" in capfd.readouterr().err


def test_a_result_that_cannot_be_handed_over_comes_as_its_text(world):
    assert '"b":1' in result_of(world, "unpicklable").content


@pytest.mark.parametrize(
    ("kind", "said", "is_itself"),
    [("value", "ValueError: no", True), ("told", "say so", True), ("odd", "Odd: one and two", False)],
)
def test_what_it_raises_comes_back(world, kind, said, is_itself):
    result = result_of(world, "fail", f'{{"kind": "{kind}"}}')
    assert result.content == said
    assert (type(result.exception) in (ValueError, ToolError)) == is_itself
    if kind == "value":
        assert "in fail" in result.exception.__notes__[0]


@pytest.mark.parametrize(("how", "said"), [("exit", "exit code 3"), ("memory", "signal SIGSEGV")])
def test_a_crash_is_reported(world, how, said):
    content = result_of(world, "crash", f'{{"how": "{how}"}}').content
    assert content == f"ProcessEnded: crash ended its process without a result ({said})"


@pytest.mark.parametrize(
    ("how", "content"),
    [("interrupt", "KeyboardInterrupt"), ("exit", "SystemExit: 2"), ("generator", "GeneratorExit: over")],
)
def test_what_would_stop_a_program_ends_the_call_alone(world, how, content):
    assert result_of(world, "leave", f'{{"how": "{how}"}}').content == content


@pytest.mark.parametrize("how", ["process", "session", "crash"])
def test_what_it_began_ends_with_it(world, how, tmp_path):
    path = tmp_path / "pid"
    result_of(world, "begin", json.dumps({"how": how, "path": str(path)}))
    pid = int(path.read_text())
    assert gone(pid)


def test_at_the_timeout_it_is_killed_with_all_that_it_began(world, tmp_path):
    path = tmp_path / "pids"
    results, events = world.drive(late_turn("stuck", path))
    assert results[0].content == (
        "TimedOut: stuck did not finish within 900 seconds and was stopped; it is not known whether it had an effect. "
        "Find that out before it is called again."
    )
    wait_until(lambda: all(gone(int(pid)) for pid in path.read_text().split()))
    wait_until(lambda: count_abandoned() == 0)
    assert not [event for event in events if isinstance(event, ToolAbandoned)]


@pytest.mark.parametrize("how", ["cancel", "interrupt", "close"])
def test_it_is_killed_when_the_run_is_stopped(how, tmp_path):
    path = tmp_path / "pids"

    def is_there():
        return path.exists() and " " in path.read_text()

    def watch() -> None:
        """Waits for the other call."""
        wait_until(is_there)

    calls = [{"name": "stuck", "arguments": {"path": str(path)}}, {"name": "watch", "arguments": {}}]
    agent = JsonAgent(TOOLS["stuck"], watch, model=ScriptedModel([{"tool_calls": calls}]))

    async def cancelled():
        task = asyncio.create_task(agent.arun("go"))
        while not is_there():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    def interrupt():
        wait_until(is_there)
        os.kill(os.getpid(), signal.SIGINT)

    if how == "cancel":
        asyncio.run(cancelled())
    elif how == "interrupt":
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            agent.run("go")
    else:
        stream = agent.stream("go")
        next(event for event in stream if isinstance(event, ToolFinished))
        stream.close()
    wait_until(lambda: all(gone(int(pid)) for pid in path.read_text().split()))
    assert not pending_calls(agent.history)


def test_it_ends_when_its_parent_does(tmp_path):
    path = tmp_path / "pids"
    code = f"""
        import sys
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        from test_isolation import TOOLS
        TOOLS.execute("stuck", '{{"path": "{path}"}}')
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_until(lambda: path.exists() and " " in path.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: all(gone(int(pid)) for pid in path.read_text().split()))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group ends")
@pytest.mark.parametrize("how", ["timeout", "parent"])
@pytest.mark.parametrize("name", ["daemonize", "hold_the_interpreter"])
def test_neither_a_daemon_nor_a_child_that_holds_the_interpreter_lock_survives(how, name, tmp_path):
    path = tmp_path / "pids"
    if how == "timeout":
        tools = ToolRegistry(JsonTool(getattr(isolated, name), isolate="process"))
        finished = [event.result for event in drive(late_turn(name, path, tools)) if isinstance(event, ToolFinished)]
        assert {result.call.id: result.error and result.error.name for result in finished} == {
            "c0": "TimedOut",
            "c1": None,
        }
    else:
        code = f"""
            import sys
            sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
            import isolated
            from agentkit import JsonTool
            JsonTool(isolated.{name}, isolate="process").call({{"path": "{path}"}})
        """
        parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
        wait_until(lambda: path.exists() and " " in path.read_text())
        parent.kill()
        parent.wait()
    wait_until(lambda: all(gone(int(pid)) for pid in path.read_text().split()))


def test_what_the_child_writes_is_never_unpickled(world, tmp_path):
    path = tmp_path / "pwned"
    result = result_of(world, "poison", f'{{"path": "{path}"}}', tools=ToolRegistry(POISON))
    assert "a poisoned value" in result.content
    assert not path.exists()


def test_values_with_a_return_annotation_arrive_as_they_are_and_others_as_what_the_model_reads(world):
    assert result_of(world, "typed", tools=VALUES).value == (date(2024, 1, 31), [Point(1, 2)])
    assert result_of(world, "untyped", tools=VALUES).value == {"x": 1, "y": 2}
    image = result_of(world, "image", tools=VALUES)
    assert image.images[0]["type"] == "image_url"
    assert "image/png" in image.content


def test_methods_of_objects_and_partial_functions_work():
    tools = ToolRegistry(JsonTool(Counter(40).count, isolate="process"))
    assert tools.execute("count", '{"by": 2}').value == 42
    from_schema = JsonTool.from_schema(
        name="pid", description="Which process.", parameters={}, call=partial(process_id), isolate="process"
    )
    assert from_schema.call_with_raw_arguments("{}") != os.getpid()


def test_called_directly_it_is_isolated_too():
    assert TOOLS["process_id"].call({}) != os.getpid()
    assert isinstance(TOOLS["crash"].call_with_raw_arguments('{"how": "exit"}'), ExceptionInfo)
    assert asyncio.run(TOOLS["later"].acall_with_raw_arguments("{}")) == "later"


def test_a_function_that_cannot_be_imported_is_refused_when_the_tool_is_made():
    def inner() -> None:
        """Is inside."""

    for function in (inner, partial(inner)):
        with pytest.raises(
            DefinitionError, match=r"the tool '\w+' cannot have isolate='process': .*<locals>.*top level"
        ):
            JsonTool(function, name="inner", description="x", isolate="process")
    with pytest.raises(DefinitionError, match="define it at the top level of a module"):
        JsonTool(lambda: 1, name="f", description="x", isolate="process")
    code = "from agentkit import tool\n@tool(isolate='process')\ndef f() -> None:\n  'Does.'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "f is defined in a notebook or at the prompt: put it into a module and import it from there" in done.stderr


def test_what_belongs_to_this_process_cannot_be_injected():
    def f(run: RunContext) -> None:
        """Does."""

    def g(lock: Injected[Odd]) -> None:
        """Does."""

    f.__qualname__ = g.__qualname__ = "f"
    with pytest.raises(DefinitionError, match="it takes the RunContext, which is of this process"):
        JsonTool(f, isolate="process")
    assert JsonTool(g, isolate="process").isolate


def wants(lock: Injected[threading.Event]) -> None:
    """Wants what cannot be pickled."""


def test_what_cannot_be_handed_over_is_the_developers_affair(world):
    script = [{"tool_calls": [{"id": "c0", "name": "wants", "arguments": {}}]}]
    agent = JsonAgent(JsonTool(wants, isolate="process"), model=ScriptedModel(script), deps=threading.Event())
    with pytest.raises(DefinitionError, match=r"the tool 'wants', isolate='process': its arguments cannot be pickled"):
        world.run(agent, "go")
    assert not pending_calls(agent.history)


SCRIPT = """
    from dataclasses import dataclass
    from agentkit import JsonAgent, tool
    from agentkit.testing import ScriptedModel, answer, call
    from agentkit.policies.limits import limit_tool_time

    @dataclass
    class Point:
        x: int

    @tool(isolate="process")
    def move(point: Point) -> Point:
        "Moves."
        return Point(point.x + 1)

    script = [
        {"tool_calls": [{"name": "move", "arguments": {"point": {"x": 1}}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]},
    ]

    def main():
        agent = JsonAgent(move, model=ScriptedModel(script), policies=[limit_tool_time()])
        print(agent.run("go").calls[0].value, flush=True)
"""
GUARD = 'if __name__ == "__main__":\n    main()\n'


@pytest.mark.parametrize("as_module", [False, True], ids=["script", "module"])
def test_a_tool_of_the_script_itself_works(tmp_path, as_module):
    (tmp_path / "mine.py").write_text(textwrap.dedent(SCRIPT) + GUARD)
    command = [sys.executable, "-m", "mine"] if as_module else [sys.executable, str(tmp_path / "mine.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "Point(x=2)\n", done.stderr


def test_the_error_of_a_script_that_would_start_its_agent_in_the_child_has_a_remedy(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(SCRIPT) + "main()\n")
    done = subprocess.run([sys.executable, str(tmp_path / "mine.py")], capture_output=True, text=True, check=False)
    assert "put what starts the agent under `if __name__ == '__main__':`" in done.stderr
    assert done.stdout == ""
