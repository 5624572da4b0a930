"""What a run notes of its time: every request, call and wait, nested, at next to no cost."""

import asyncio
import json
import math
import threading
import time

import pytest
from timing import control_seconds
from waiting import HANGS

from agentkit import JsonAgent, ModelError, Paused, RunError, tool
from agentkit.agents.run_state import Run
from agentkit.core.flow import Event
from agentkit.core.messages import ToolCall, Usage
from agentkit.engine.model import ModelAsked, ModelReplied, Reply, TextDelta
from agentkit.engine.result import MAX_NOTES, SubRun, Trace
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.execution.call import ToolResult
from agentkit.tools.execution.call_tools import ToolFinished


def nap(seconds: float = 0.03) -> str:
    """Sleeps."""
    time.sleep(seconds)
    return "slept"


def calling(*calls):
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


ANSWER = calling(("final_answer", {"text": "done"}))


def spans_of(result, kind):
    return [span for span in result.as_dict()["trace"]["spans"] if span["kind"] == kind]


def test_requests_and_calls_have_their_times_in_order(world):
    both = threading.Barrier(2)

    def nap(seconds: float = 0.03) -> str:
        """Sleeps beside another one."""
        both.wait(HANGS)
        time.sleep(seconds)
        return "slept"

    result = world.run(
        JsonAgent(nap, model=ScriptedModel(calling(("nap", {}), ("nap", {"seconds": 0.03})), ANSWER)), "x"
    )
    requests = spans_of(result, "model")
    calls = spans_of(result, "tool")
    assert [span["place"] for span in requests] == [2, 5]
    assert [result.messages[span["place"]]["role"] for span in requests] == ["assistant", "assistant"]
    assert [span["usage"]["requests"] for span in requests] == [1, 1]
    assert [span["name"] for span in calls] == ["nap", "nap", "final_answer"]
    assert calls[0]["end"] - calls[0]["start"] >= 0.025
    assert calls[0]["start"] < calls[1]["end"]
    assert calls[1]["start"] < calls[0]["end"]  # side by side
    assert (
        0 <= requests[0]["start"] <= requests[0]["end"] <= calls[0]["start"] <= calls[0]["end"] <= requests[1]["start"]
    )
    assert calls[-1]["end"] <= result.seconds
    json.dumps(result.as_dict())


def test_a_result_is_json_that_every_parser_reads(world):
    def read_file() -> str:
        """Reads a file."""
        raise FileNotFoundError("No such file: \udcff.txt")  # as Python names a file that is not UTF-8

    def finish(total: int) -> float:
        """Finishes."""
        return math.nan

    model = ScriptedModel(calling(("read_file", {})), answer(total=1))
    result = world.run(JsonAgent(read_file, model=model, answer=finish), "x")
    written = json.dumps(result.as_dict(), ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(written)["answer"] == "NaN"
    assert spans_of(result, "tool")[0]["error"] == "FileNotFoundError: No such file: \ufffd.txt"


def test_a_retry_is_a_failed_request_and_a_wait(world):
    model = ScriptedModel(ModelError("busy", kind="server", transient=True, retry_after=0.05), ANSWER)
    result = world.run(JsonAgent(nap, model=model), "x")
    failed, good = spans_of(result, "model")
    (wait,) = spans_of(result, "wait")
    assert failed["error"] == "busy"
    assert failed["place"] == good["place"]
    assert "error" not in good
    assert wait["end"] - wait["start"] >= 0.04
    assert failed["end"] <= wait["start"] + 0.01
    assert wait["end"] <= good["start"] + 0.01
    (note,) = result.as_dict()["trace"]["notes"]
    assert "asking again" in note["text"]
    assert note["level"] == "WARNING"


def test_the_agent_inside_a_tool_is_nested_on_the_same_clock(world):
    inner = JsonAgent(nap, model=ScriptedModel(calling(("nap", {})), ANSWER, name="inner"), description="Rests.")
    result = world.run(
        JsonAgent(inner.as_tool("rest"), model=ScriptedModel(calling(("rest", {"query": "rest a while"})), ANSWER)), "x"
    )
    rest = spans_of(result, "tool")[0]
    within = rest["inner"]
    assert [(span["kind"], span["name"]) for span in within["spans"]] == [
        ("model", "inner"),
        ("tool", "nap"),
        ("model", "inner"),
        ("tool", "final_answer"),
    ]
    assert rest["start"] <= within["spans"][0]["start"]
    assert within["spans"][-1]["end"] <= rest["end"]
    assert within["messages"][1]["content"] == "rest a while"
    assert [span["place"] for span in within["spans"] if span["kind"] == "model"] == [2, 4]


def test_an_agent_inside_a_tool_that_fails_leaves_its_spans(world):
    inner = JsonAgent(
        nap,
        model=ScriptedModel(calling(("nap", {})), ModelError("no key", kind="authentication")),
        description="Rests.",
    )
    model = ScriptedModel(calling(("rest", {"query": "rest"})), ANSWER)
    rest = spans_of(world.run(JsonAgent(inner.as_tool("rest"), model=model), "x"), "tool")[0]
    assert "no key" in rest["error"]
    spans = [(span["name"], span.get("error", "")) for span in rest["inner"]["spans"]]
    assert spans == [("scripted", ""), ("nap", ""), ("scripted", "no key")]


def test_a_run_that_ends_with_an_error_has_a_result_without_answer(world):
    model = ScriptedModel(calling(("nap", {})), ModelError("no key", kind="authentication"))
    with pytest.raises(RunError) as caught:
        world.run(JsonAgent(nap, model=model), "x")
    result = caught.value.result
    assert result.answer is None
    assert (result.stopped, result.error, result.steps) == ("error", "ModelError: no key", 1)
    assert spans_of(result, "model")[-1]["error"] == "no key"
    assert result.usage == caught.value.usage
    assert result.messages == caught.value.history


def test_a_pause_is_reported(world):
    @tool(effect="danger")
    def erase() -> str:
        """Erases everything."""
        return "gone"

    with pytest.raises(Paused) as caught:
        world.run(JsonAgent(erase, model=ScriptedModel(calling(("erase", {})))), "x")
    assert caught.value.result.stopped == "paused"
    assert [span["name"] for span in spans_of(caught.value.result, "wait")] == ["for a decision about erase"]
    assert "no result yet" in caught.value.result.to_html()


def test_repairs_stand_at_their_call(world):
    result = world.run(JsonAgent(nap, model=ScriptedModel(calling(("Nap", {"seconds": "0.001"})), ANSWER)), "x")
    call = spans_of(result, "tool")[0]
    assert call["repairs"] == [str(repair) for repair in result.repairs]
    assert len(call["repairs"]) == 1


def test_a_streamed_run_has_the_same_spans(world):
    replies = [calling(("nap", {})), ANSWER]
    plain = world.run(JsonAgent(nap, model=ScriptedModel(*replies)), "x")
    streamed = world.stream(JsonAgent(nap, model=ScriptedModel(*replies)), "x")[-1].result
    told = [
        [(span["kind"], span["name"], span.get("place")) for span in each.as_dict()["trace"]["spans"]]
        for each in (plain, streamed)
    ]
    assert sorted(told[0], key=str) == sorted(told[1], key=str)


def test_deltas_leave_nothing_behind_and_notes_have_an_end():
    class Told(Event):
        notice = "told"

    trace = Trace()
    for _ in range(1_000):
        trace.note(TextDelta("x"))
    assert (trace.spans, trace.notes) == ([], [])
    for _ in range(MAX_NOTES + 10):
        trace.note(Told())
    assert len(trace.notes) == MAX_NOTES


def test_noting_costs_the_same_however_long_the_run_is():
    def seconds(turns):
        run = Run("m", [])
        call = ToolCall("id", "add", "{}")
        began = time.thread_time()
        for _ in range(turns):
            run.observe(ModelAsked("m", None))
            run.observe(ModelReplied(Reply({"role": "assistant"}, Usage(1))))
            run.observe(ToolFinished(ToolResult(call, 1, "1")))
            run.observe(SubRun("inner", call, TextDelta("x")))
        return (time.thread_time() - began) / turns

    control = control_seconds()
    few = min(seconds(200) for _ in range(3))
    many = min(seconds(4_000) for _ in range(3))
    assert many < 5 * few
    assert many < control / 10


def test_an_interrupted_run_closes_its_trace():
    trace = Trace()
    trace.note(ModelAsked("m", None), 1)
    trace.close("stopped")
    assert [(span.name, span.error) for span in trace.spans] == [("m", "stopped")]
    trace.close()
    assert len(trace.spans) == 1


def test_runs_at_the_same_time_have_traces_of_their_own():
    async def both():
        agents = [JsonAgent(nap, model=ScriptedModel(calling(("nap", {})), ANSWER, name=name)) for name in "ab"]
        return await asyncio.gather(*(agent.arun("x") for agent in agents))

    for name, result in zip("ab", asyncio.run(both()), strict=True):
        assert {span["name"] for span in spans_of(result, "model")} == {name}


def test_what_the_model_wrote_in_place_of_an_object_stands_at_the_call(world):
    cut = '{"seconds": 0.0'
    script = ScriptedModel(
        {"tool_calls": [{"name": "nap", "arguments": cut}]}, calling(("final_answer", {"text": "x"}))
    )
    result = world.run(JsonAgent(nap, model=script), "Sleep")
    (span, _) = spans_of(result, "tool")
    assert span["raw"] == cut
    assert result.messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert f"<code>{cut}</code>" in result.to_html().replace("&quot;", '"')
