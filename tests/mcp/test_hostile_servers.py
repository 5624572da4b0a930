"""Servers that die, hang, talk nonsense or too much: the run continues, the model reads why, and nothing is left."""

import asyncio
import json
import threading
import time

import pytest
from servers import ANSWER, contents, make_calls, scripted, wait_until_nothing_is_left
from waiting import wait_until

from agentkit import JsonAgent, Limits, RunStopped
from agentkit.core.flow import around, ask
from agentkit.events import Progress, ServerLogged
from agentkit.mcp.link import MAX_BURST, MAX_EVENTS_PER_SECOND
from agentkit.testing import ScriptedModel, call
from agentkit.tools.execution.call_tools import CallTools


@pytest.fixture(autouse=True)
def _nothing_is_left():
    threads = threading.active_count()
    yield
    wait_until_nothing_is_left()
    wait_until(lambda: threading.active_count() <= threads + 3)  # the background loops of the runs stay


def test_a_server_that_dies_in_a_call_is_started_again_for_the_next(world):
    result, _ = make_calls(world, scripted("Dies"), call("die"), call("echo", text="again"))
    died, again = contents(result)
    assert died.startswith("the server 'scripted' closed the connection before it answered; it is not known whether")
    assert again == "again"


def test_a_server_that_is_killed_between_two_calls_is_started_again(world):
    def kill() -> str:
        """Kills the server."""
        import psutil

        for child in psutil.Process().children():
            if "scripted_server" in " ".join(child.cmdline()):
                child.kill()
                child.wait(60)
        wait_until(lambda: not any(connection.is_usable for connection in server._link._connections))
        return "killed"

    server = scripted()
    model = ScriptedModel(call("echo", text="a"), call("kill"), call("echo", text="b"), ANSWER)
    assert contents(world.run(JsonAgent(server, kill, model=model), "q")) == ["a", "killed", "b"]


def within(seconds: float, name: str):
    """Return a policy that limits the seconds of the calls of one tool, and not those of the others."""

    def change(effect):
        return ask(
            effect.with_calls(
                bound.change(timeout=seconds) if bound.call.name == name else bound for bound in effect.calls
            )
        )

    return around(change, CallTools)


def test_a_call_that_hangs_is_abandoned_and_cancelled_at_the_server(world, tmp_path):
    notes = tmp_path / "notes"
    model = ScriptedModel(call("hang"), call("echo", text="next"), ANSWER)
    agent = JsonAgent(scripted("Hangs", notes=notes), model=model, policies=[within(0.3, "hang")])
    result = world.run(agent, "q")
    late, after = contents(result)
    assert "did not finish within 0.3 seconds" in late
    assert after == "next"
    sent = [json.loads(line) for line in notes.read_text().splitlines()]
    hung = next(entry["id"] for entry in sent if entry.get("params", {}).get("name") == "hang")
    assert [entry["params"]["requestId"] for entry in sent if entry["method"] == "notifications/cancelled"] == [hung]


def test_stopping_a_run_cancels_its_calls_at_the_server(world, tmp_path):
    notes = tmp_path / "notes"
    agent = JsonAgent(scripted("Hangs", notes=notes), model=ScriptedModel(call("hang"), ANSWER))

    def stop() -> None:
        while '"hang"' not in (notes.read_text() if notes.exists() else ""):
            time.sleep(0.01)
        agent.stop("enough")

    threading.Thread(target=stop).start()
    with pytest.raises(RunStopped):
        world.run(agent, "q")
    assert "notifications/cancelled" in notes.read_text()


def test_a_run_can_be_stopped_while_a_server_opens(world, tmp_path):
    notes = tmp_path / "notes"
    agent = JsonAgent(scripted("Silent", notes=notes), model=ScriptedModel(ANSWER))

    def stop() -> None:
        wait_until(notes.exists)
        agent.stop("enough")

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(RunStopped):
        world.run(agent, "q")
    stopping.join()


def test_a_run_that_is_left_early_closes_the_server():
    agent = JsonAgent(scripted(), model=ScriptedModel(call("echo", text="a"), call("echo", text="b"), ANSWER))
    events = agent.stream("q")
    while type(next(events)).__name__ != "ToolFinished":
        pass
    events.close()


def test_runs_at_the_same_time_share_one_server(tmp_path):
    notes = tmp_path / "notes"
    agent = JsonAgent(scripted(notes=notes), model="offline", memory=False)
    with agent.toolsets[0]:
        outcomes = agent.map(["Call env"] * 8, progress=False)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert notes.read_text().count('"initialize"') == 1


def test_cancelling_a_task_closes_the_server(tmp_path):
    notes = tmp_path / "notes"

    async def main() -> None:
        agent = JsonAgent(scripted("Hangs", notes=notes), model=ScriptedModel(call("hang"), ANSWER))
        task = asyncio.create_task(agent.arun("q"))
        while '"hang"' not in (notes.read_text() if notes.exists() else ""):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_cancelling_a_task_while_the_server_opens_ends_the_program(tmp_path):
    notes = tmp_path / "notes"

    async def main() -> None:
        agent = JsonAgent(scripted("Silent", notes=notes), model=ScriptedModel(ANSWER))
        task = asyncio.create_task(agent.arun("q"))
        while not notes.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["Garbage", "Twice"])
def test_nonsense_and_second_answers_are_ignored(world, kind, capfd):
    result, _ = make_calls(world, scripted(kind), call("echo", text="a"), call("echo", text="b"))
    assert contents(result) == ["a", "b"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_late_answer_is_not_taken_for_that_of_the_next_call(world):
    model = ScriptedModel(call("slow"), call("echo", text="mine"), ANSWER)
    agent = JsonAgent(scripted("Late"), model=model, policies=[within(0.2, "slow")])
    late, after = contents(world.run(agent, "q"))
    assert "did not finish within 0.2 seconds" in late
    assert after == "mine"


def test_a_flood_is_limited(world):
    events: list = []
    begun = time.monotonic()
    result, _ = make_calls(
        world, scripted("Floods"), call("echo"), listeners=[events.append], limits=Limits(result_chars=2_000)
    )
    most = MAX_BURST + MAX_EVENTS_PER_SECOND * (time.monotonic() - begun)
    (text,) = contents(result)
    assert len(text) < 3_000
    for kind in (Progress, ServerLogged):
        assert MAX_BURST <= sum(isinstance(event, kind) for event in events) <= most
