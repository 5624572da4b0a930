"""Runs that are recorded and replayed: the same answer without model, tools and network, or what is otherwise."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, RunError, tool
from agentkit.core.errors import LimitExceeded, ModelError, Paused
from agentkit.engine.model import ToolCallDelta
from agentkit.journal import runs
from agentkit.testing import ModelServer, Recording, ReplayDiffers, ScriptedModel, call

MADE: list[str] = []


def add(a: int, b: int) -> int:
    """Adds."""
    MADE.append("add")
    return a + b


@tool(effect="read")
def look(at: str) -> str:
    """Looks."""
    MADE.append("look")
    return f"saw {at}"


REPLIES = ({"content": "Let me see.", **call("add", a=1, b=2)}, call("look", at="it"), call("final_answer", text="3"))


@pytest.fixture(autouse=True)
def _nothing_made():
    MADE.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def agent_of(*replies, tools=(add, look), **settings) -> JsonAgent:
    return JsonAgent([*tools], model=ScriptedModel(*replies), **{"retries": 0, **settings})


def replayed(world, agent, path, **how):
    return agent.replay(path, **how) if world.name == "sync" else asyncio.run(agent.areplay(path, **how))


def lines(path, *kinds):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in found if not kinds or line["kind"] in kinds]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_gives_the_same_answer_again_without_doing_anything(world, path, streamed):
    agent = agent_of(*REPLIES)
    result = world.stream(agent, "Go", record=path)[-1].result if streamed else world.run(agent, "Go", record=path)
    assert sorted(MADE) == ["add", "look"]
    MADE.clear()
    again = replayed(world, agent_of(), path)
    assert MADE == []
    assert (again.answer, again.messages, again.usage) == (result.answer, result.messages, result.usage)


def test_the_file_is_readable(world, path):
    world.stream(agent_of(*REPLIES, temperature=0.5, fallback_models="openai/gpt-4o-mini"), "Go", record=path)
    told = lines(path)
    step = ["request", "reply", "message", "call", "result", "message"]
    begun = ["run", "message", "message", "state"]
    assert [line["kind"] for line in told] == ["record", *begun, *step * 2, *step[:3], "message", "end"]
    begin, run = told[:2]
    request, reply = lines(path, "request", "reply")[:2]
    assert (run["query"], run["model"], begin["settings"]["temperature"]) == ("Go", "scripted", 0.5)
    assert begin["versions"]["agentkit"]
    assert request["messages"] == [0, 1]
    messages = {line["place"]: line["message"] for line in lines(path, "message")}
    assert [messages[place]["role"] for place in range(4)] == ["system", "user", "assistant", "tool"]
    assert sorted(request["tools"]) == ["add", "final_answer", "look"]
    assert [delta[1:] for delta in reply["deltas"]][:2] == [["text", "Let"], ["text", " me"]]
    second = lines(path, "request")[1]
    assert (second["from"], second["messages"]) == (2, [2, 3])
    assert "tools" not in second
    assert lines(path, "result")[0]["text"] == "3"
    assert told[-1]["answer"] == "3"


def test_streams_come_as_they_came(path):
    events = list(agent_of(*REPLIES).stream("Go", record=path))
    file = lines(path)
    for seconds in (HANGS, 0.2):
        reply = next(line for line in file if line["kind"] == "reply")
        reply["deltas"][1][0] = reply["deltas"][0][0] + seconds
        path.write_text("\n".join(map(json.dumps, file)))
        agent_of().replay(path)
    start = time.perf_counter()
    agent_of().replay(path, timed=True)
    assert time.perf_counter() - start >= 0.2
    heard: list[object] = []
    agent_of(listeners=[heard.append]).replay(path)
    assert [e for e in heard if isinstance(e, ToolCallDelta)] == [e for e in events if isinstance(e, ToolCallDelta)]


class TestDifferences:
    def refused(self, world, path, agent, **how):
        with pytest.raises(ReplayDiffers) as caught:
            replayed(world, agent, path, **how)
        return str(caught.value)

    def test_of_the_instruction(self, world, path):
        world.run(agent_of(*REPLIES, description="You are old."), "Go", record=path)
        told = self.refused(world, path, agent_of(description="You are new."))
        assert "run.jsonl:6: request 1 differs: message 0 (system), content: recorded 'You are old." in told
        assert "now 'You are new." in told

    def test_of_a_tools_schema(self, world, path):
        def add(a: int, b: int, c: int = 0) -> int:
            """Adds."""
            return a + b + c

        world.run(agent_of(*REPLIES), "Go", record=path)
        assert "the tools: add.c: added" in self.refused(world, path, agent_of(tools=[add, look]))

    def test_of_text_that_a_policy_writes(self, world, path):
        world.run(agent_of(*REPLIES), "Go", record=path)
        told = self.refused(world, path, agent_of(max_steps=1))
        assert "request 2 differs: message 4 (user) is new" in told

    def test_of_a_tools_result(self, world, path):
        def add(a: int, b: int) -> int:
            """Adds."""
            return a - b

        world.run(agent_of(*REPLIES), "Go", record=path)
        assert replayed(world, agent_of(tools=[add, look]), path).answer == "3"
        told = self.refused(world, path, agent_of(tools=[add, look]), execute=True)
        assert "request 2 differs: message 3 (tool), content: recorded '3', now '-1'" in told

    def test_of_the_answer(self, world, path):
        world.run(agent_of(*REPLIES), "Go", record=path)
        file = lines(path)
        file[-1]["answer"] = "4"
        path.write_text("\n".join(map(json.dumps, file)))
        assert "the answer differs, the value: recorded '4', now '3'" in self.refused(world, path, agent_of())

    def test_of_the_number_of_requests(self, world, path):
        world.run(agent_of(*REPLIES), "Go", record=path)
        file = lines(path)
        last = max(number for number, line in enumerate(file) if line["kind"] == "request")
        path.write_text("\n".join(map(json.dumps, file[:last])))
        assert "2 requests are recorded, and one more is made" in self.refused(world, path, agent_of())

    def test_of_the_provider(self, world, path):
        world.run(JsonAgent([add, look], model=ScriptedModel(*REPLIES, name="openai/gpt-4o")), "Go", record=path)
        same = JsonAgent([add, look], model=ScriptedModel(name="openai/gpt-5"))
        assert replayed(world, same, path).answer == "3"
        other = JsonAgent([add, look], model=ScriptedModel(name="anthropic/claude"))
        told = self.refused(world, path, other)
        assert "recorded model 'openai/gpt-4o', now 'anthropic/claude'" in told
        assert replayed(world, other, path, any_model=True).answer == "3"


def test_tools_can_be_run_for_real(world, path):
    world.run(agent_of(*REPLIES), "Go", record=path)
    MADE.clear()
    assert replayed(world, agent_of(), path, execute=True).answer == "3"
    assert MADE == ["add", "look"]


def test_errors_and_retries_are_recorded_and_replayed_without_their_waits(world, path):
    busy = ModelError("busy", kind="rate_limit", status=429, transient=True, retry_after=0.01)
    world.run(agent_of(*[busy] * 5, *REPLIES, retries=5), "Go", record=path)
    file = lines(path)
    errors = [line for line in file if line["kind"] == "error"]
    seconds = []
    for wait in (0.01, 9.0):
        for error in errors:
            error["retry_after"] = wait
        path.write_text("\n".join(map(json.dumps, file)))
        start = time.perf_counter()
        assert replayed(world, agent_of(retries=5), path).answer == "3"
        seconds.append(time.perf_counter() - start)
    assert len(errors) == 5
    assert seconds[1] < seconds[0] + 5 * 9


def test_a_failed_run_fails_again_in_the_same_way(world, path):
    with pytest.raises(ModelError):
        world.run(agent_of(REPLIES[0], ModelError("no key", kind="authentication")), "Go", record=path)
    assert lines(path)[-1]["error"] == "ModelError: no key"
    with pytest.raises(ModelError, match="no key") as caught:
        replayed(world, agent_of(), path)
    assert caught.value.kind == "authentication"


def test_a_run_that_was_cut_off_can_be_replayed_so_far(world, path):
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(agent_of(REPLIES[0], stop), "Go", record=path)
    with pytest.raises(ModelError, match="the recording has no reply"):
        replayed(world, agent_of(), path)


def test_limits_hold_in_a_replay(world, path):
    endless = [call("look", at=str(number)) for number in range(4)]
    with pytest.raises(LimitExceeded):
        world.run(agent_of(*endless, max_steps=3), "Go", record=path)
    with pytest.raises(LimitExceeded):
        replayed(world, agent_of(max_steps=3), path)


def test_a_conversation_that_went_before_is_in_it(world, path):
    agent = agent_of(call("final_answer", text="hello"), *REPLIES)
    world.run(agent, "Hi")
    world.run(agent, "Go", record=path)
    assert [m["content"] for m in replayed(world, agent_of(), path).messages if m["role"] == "user"] == ["Hi", "Go"]


def test_secrets_are_not_in_it(world, path, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "s3cr3t-value-42")
    replies = (call("look", at="s3cr3t-value-42"), call("final_answer", text="it is s3cr3t-value-42"))
    world.run(
        agent_of(*replies, api_key="k3y-of-the-provider", fallback_models="openai/gpt-4o-mini"),
        "Use s3cr3t-value-42",
        record=path,
    )
    assert "s3cr3t" not in path.read_text()
    assert "k3y" not in path.read_text()
    assert replayed(world, agent_of(), path).answer == "it is ***"


def test_a_run_is_recorded_and_kept_at_a_time(world, path, tmp_path):
    agent = agent_of(*REPLIES, journal=tmp_path / "runs.db")
    run_id = world.run(agent, "Go", record=path).run_id
    assert replayed(world, agent_of(journal=tmp_path / "runs.db"), path).run_id != run_id
    assert [run.id for run in runs(tmp_path / "runs.db")] == [run_id]


def test_a_file_that_is_no_recording_is_not_replaced_and_a_recording_is(world, path):
    path.write_text("import os\n")
    with pytest.raises(DefinitionError, match="the file exists and is no recording"):
        world.run(agent_of(*REPLIES), "Go", record=path)
    assert path.read_text() == "import os\n"
    path.write_text("")
    for query in ("One", "Two"):
        world.run(agent_of(*REPLIES), query, record=path)
    assert Recording.load(path).begin["query"] == "Two"


def test_a_run_over_a_real_wire_is_replayed_without_it(world, path):
    replies = [
        {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "3"}}]},
    ]

    def agent(base):
        return JsonAgent(add, model="openai/gpt-4o-mini", api_base=base, api_key="test-key", retries=0)

    with ModelServer(replies) as server:
        result = world.stream(agent(server.api_base("openai")), "Go", record=path)[-1].result
    again = replayed(world, agent("http://127.0.0.1:9/v1"), path)
    assert (again.answer, again.messages) == ("3", result.messages)
    assert again.messages[2]["provider"] == "openai"


def test_other_files_are_refused(path):
    with pytest.raises(OSError, match="No such file"):
        agent_of().replay(path)
    path.write_text("my diary\n")
    with pytest.raises(RunError, match="not a recorded run"):
        agent_of().replay(path)
    with pytest.raises(RunError, match="not a recorded run"):
        Recording.load(__file__)


def test_a_folder_that_is_not_there_is_named(world, tmp_path):
    with pytest.raises(DefinitionError, match=r"record=.*No such file.*Name another file"):
        world.run(agent_of(*REPLIES), "Go", record=tmp_path / "no" / "run.jsonl")


class TestDecisions:
    """What a person decided about dangerous calls is part of a recorded run."""

    def recorded(self, world, path) -> list[str]:
        made: list[str] = []

        @tool(effect="danger")
        def wipe(at: str) -> str:
            """Wipes."""
            made.append(at)
            return f"wiped {at}"

        def decide(call):
            return {"a": True, "b": {"at": "c"}, "d": "not that"}[json.loads(call.arguments)["at"]]

        self.wipe = wipe
        turn = {"tool_calls": [{"name": "wipe", "arguments": {"at": at}} for at in "abd"]}
        world.run(agent_of(turn, call("final_answer", text="done"), tools=[wipe], approve=decide), "Go", record=path)
        assert sorted(made) == ["a", "c"]
        made.clear()
        return made

    def test_they_stand_in_the_file(self, world, path):
        self.recorded(world, path)
        told = [line["decision"] for line in lines(path) if line["kind"] == "decision"]
        assert told == [True, {"at": "c"}, "not that"]

    @pytest.mark.parametrize("approve", [None, "ask", lambda call: pytest.fail(f"asked about {call}")])
    def test_no_person_is_asked_again(self, world, path, approve):
        made = self.recorded(world, path)
        again = replayed(world, agent_of(tools=[self.wipe], approve=approve), path)
        assert (again.answer, made) == ("done", [])
        told = [m["content"] for m in again.messages if m["role"] == "tool"]
        assert told[0] == "wiped a"
        assert told[1].endswith("wiped c")
        assert told[2] == "Denied: not that"

    def test_a_person_is_asked_where_the_effect_is_real(self, world, path):
        made = self.recorded(world, path)
        asked = []

        def decide(call):
            asked.append(call.name)
            return {0: True, 1: {"at": "c"}, 2: "not that"}[len(asked) - 1]

        replayed(world, agent_of(tools=[self.wipe], approve=decide), path, execute=True)
        assert asked == ["wipe"] * 3
        assert sorted(made) == ["a", "c"]

    def test_a_run_that_paused_pauses_again(self, world, path):
        self.recorded(world, path)
        with pytest.raises(Paused):
            world.run(agent_of(call("wipe", at="a"), tools=[self.wipe]), "Go", record=path)
        with pytest.raises(Paused):
            replayed(world, agent_of(tools=[self.wipe], approve=lambda call: True), path)


def test_a_secret_that_is_streamed_in_pieces_is_masked(world, path, monkeypatch):
    monkeypatch.setenv("APP_PASSWORD", "correct horse battery staple")
    reply = {"content": "I use correct horse battery staple now.", **call("look", at="correct horse battery staple")}
    world.stream(agent_of(reply, *REPLIES[-1:]), "Go", record=path)
    deltas = [delta for line in lines(path) for delta in line.get("deltas", ())]
    assert len([delta for delta in deltas if delta[1] == "text"]) > 2, "it came in pieces"
    assert "".join(delta[-1] for delta in deltas if delta[1] == "text") == "I use *** now."
    assert not any("horse" in delta[-1] for delta in deltas)
    assert "horse" not in path.read_text()
