"""Whatever a tool raises is a result of its call, and the other calls are unchanged."""

import argparse
import asyncio
import sqlite3
import time

import pytest
from hanging_tools import agent_calling, forever, turn

from agentkit import ExceptionInfo, JsonTool, RunError, ToolError, ToolRegistry
from agentkit.tools.execution.turn import ToolBlockedLoop


def quick() -> str:
    """Is quick."""
    return "done"


class Odd(BaseException):
    """An exception that is no `Exception`, and has no text."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("no"), "ValueError: no"),
        (Odd(), "Odd"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration("x"), None),
        (
            ExceptionGroup("two failed", [ValueError("a"), ToolError("say b")]),
            "ExceptionGroup: two failed (2 sub-exceptions): ValueError: a; say b",
        ),
        (ToolError("as it is"), "as it is"),
        (SystemExit(2), "SystemExit: 2"),
    ],
    ids=["plain", "odd", "cancelled", "closing", "stop", "group", "own text", "exit"],
)
def test_exceptions_of_every_kind_become_results(world, error, content, is_async):
    def fails() -> None:
        """Fails."""
        raise error

    async def afails() -> None:
        """Fails."""
        raise error

    tools = ToolRegistry(JsonTool(afails if is_async else fails, name="fails"), quick)
    results, _ = world.drive(turn(tools, "fails", "quick"))
    assert results[0].error is not None
    assert content is None or results[0].content == content
    assert results[1].value == "done"


def test_an_exit_is_a_result_of_a_direct_call_too():
    def leave() -> None:
        """Leaves."""
        raise SystemExit(2)

    assert JsonTool(leave).call_with_raw_arguments("{}") == ExceptionInfo("SystemExit", "2")


def test_a_task_that_a_tool_cancels_itself_is_a_result(world):
    async def cancels() -> None:
        """Cancels what it waits for."""
        task = asyncio.create_task(forever())
        task.cancel()
        await task

    results, _ = world.drive(turn(ToolRegistry(cancels), "cancels"))
    assert results[0].content == "CancelledError"


def test_a_tool_that_cancels_its_own_task_is_a_failed_call(world):
    async def cancels_itself() -> None:
        """Cancels the task that it runs in."""
        asyncio.current_task().cancel()
        await forever()

    results, _ = world.drive(turn(ToolRegistry(cancels_itself), "cancels_itself"))
    assert results[0].content == "CancelledError"


def test_argparse_in_a_tool_is_a_failed_call(world, capsys):
    def options(text: str) -> str:
        """Parses options."""
        parser = argparse.ArgumentParser(prog="p")
        parser.add_argument("--n", type=int)
        return str(parser.parse_args([text]))

    results, _ = world.drive(turn(ToolRegistry(options), ("options", '{"text": "--wrong"}')))
    assert results[0].content == "SystemExit: 2"


def test_an_exit_with_on_error_raise_is_an_exception_that_a_server_can_catch(world):
    def leave() -> None:
        """Leaves."""
        raise SystemExit(2)

    with pytest.raises(RunError, match=r"leave: the tool exited with SystemExit\(2\)"):
        world.drive(turn(ToolRegistry(JsonTool(leave, on_error="raise")), "leave"))


def test_a_connection_of_another_thread_is_explained_with_the_remedy(world):
    connection = sqlite3.connect(":memory:")

    def count() -> int:
        """Counts."""
        return int(connection.execute("select 1").fetchone()[0])

    results, _ = world.drive(turn(ToolRegistry(count), "count"))
    assert results[0].error.name == "ProgrammingError"
    assert "sqlite3.connect(..., check_same_thread=False)" in results[0].content
    assert "@tool(sequential=True)" in results[0].content
    connection.close()


def test_a_coroutine_that_blocks_the_event_loop_is_named():
    awaited = asyncio.Event()

    async def blocks() -> str:
        """Blocks."""
        await asyncio.sleep(0)
        time.sleep(0.2)
        awaited.set()
        return "late"

    async def awaits() -> str:
        """Awaits as long."""
        await awaited.wait()
        return "in time"

    seen = []
    agent = agent_calling("blocks", "awaits", tools=[blocks, awaits], timeout=0.15, listeners=[seen.append])
    asyncio.run(agent.arun("go"))
    (event,) = [event for event in seen if isinstance(event, ToolBlockedLoop)]
    assert event.call.call.name == "blocks"
    assert event.seconds >= 0.2
    lead = f"blocks blocked the event loop for {event.seconds:.1f} seconds, so its timeout had no effect: make it"
    assert event.notice.startswith(lead)


def test_what_a_tool_prints_is_not_sent_to_the_model(world, capfd):
    def talk() -> str:
        """Talks."""
        print("for the terminal")
        return "for the model"

    results, _ = world.drive(turn(ToolRegistry(talk), "talk"))
    assert results[0].content == "for the model"
    assert "for the terminal" in capfd.readouterr().out
