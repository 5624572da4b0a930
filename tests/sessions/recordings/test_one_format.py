"""A recorded run, an exported run and a saved session are files of one format; older files can be read."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import JsonAgent, Limits, RunError, Session, Usage, tool
from agentkit.core.errors import ModelError
from agentkit.core.messages import is_delimited, label_of, user
from agentkit.engine.loop import CANCELLED
from agentkit.extend import fold, from_line
from agentkit.journal import export, runs
from agentkit.sessions.journal.run_info import schemas_of
from agentkit.testing import Recording, ReplayDiffers, ScriptedModel, answer, call, calls

OLD = Path(__file__).parent / "old"
LONG = "x" * 3_000


@tool(effect="danger")
def wipe(at: str) -> str:
    """Wipes."""
    return f"wiped {at}"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def read() -> str:
    """Reads."""
    return LONG


def agent_of(*replies, tools=(add, wipe), **settings) -> JsonAgent:
    return JsonAgent(
        [*tools], **{"description": "You clean.", "model": ScriptedModel(*replies), "retries": 0, **settings}
    )


def replayed(world, agent, path):
    return agent.replay(path) if world.name == "sync" else asyncio.run(agent.areplay(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.mark.parametrize("exported", [False, True])
def test_the_conversation_of_a_run_is_loaded_and_continues(world, path, tmp_path, exported):
    journal = tmp_path / "runs.db" if exported else None
    agent = agent_of(call("read"), answer("much"), tools=[read], journal=journal, limits=Limits(result_chars=500))
    agent.session.say("By the way")
    result = world.run(agent, "Read it", record=None if exported else path)
    if exported:
        export(result.run_id, path, store=journal)
    loaded = Session.load(path)
    assert loaded.messages == agent.session.messages
    assert (loaded.usage, loaded.cut.texts) == (result.usage, agent.session.cut.texts)
    assert LONG in loaded.cut.texts.values()
    assert loaded.journaled is None
    again = world.run(agent_of(answer("yes")), "Really?", session=loaded)
    assert [message["content"] for message in again.messages if message["role"] == "user"][-1] == "Really?"
    assert loaded.usage.requests == 3


def test_the_lines_of_each_file_are_records_that_add_up_to_the_conversation(world, path, tmp_path):
    agent = agent_of(call("wipe", at="a"), answer("done"), journal=tmp_path / "runs.db", approve=lambda call: True)
    result = world.run(agent, "Go", record=path)
    export(result.run_id, tmp_path / "exported.jsonl", store=tmp_path / "runs.db")
    agent.session.save(tmp_path / "session.jsonl")
    for name in ("run.jsonl", "exported.jsonl", "session.jsonl"):
        stored = fold(from_line(json.loads(line)) for line in (tmp_path / name).read_text().splitlines())
        assert stored.conversation(0).messages == result.messages
        assert [run.outcome for run in stored.runs.values()] == ['{"answer":"done","stopped":"answer"}'] * len(
            stored.runs
        )
    assert list(stored.runs) == []


def test_a_query_with_earlier_messages_of_the_user_is_replayed(world, path, tmp_path):
    agent = agent_of(call("add", a=1, b=2), answer("3"), journal=tmp_path / "runs.db")
    agent.session.say("By the way")
    result = world.run(agent, "1 + 2?", record=path)
    assert [m["content"] for m in result.messages if m["role"] == "user"] == ["By the way\n\n1 + 2?"]
    assert replayed(world, agent_of(), path).messages == result.messages
    assert agent_of().replay(result.run_id, journal=tmp_path / "runs.db").messages == result.messages


@pytest.mark.parametrize("exported", [False, True])
def test_the_usage_before_a_recorded_run_is_counted(world, path, tmp_path, exported):
    agent = agent_of(answer("one"), answer("two"), journal=tmp_path / "runs.db" if exported else None)
    world.run(agent, "First")
    result = world.run(agent, "Second", record=None if exported else path)
    if exported:
        export(result.run_id, path, store=tmp_path / "runs.db")
    assert Session.load(path).usage == agent.session.usage == Usage(requests=2, cost=0.0)


def test_a_run_that_waits_for_a_decision_waits_when_its_record_is_loaded(world, path):
    with pytest.raises(RunError):
        world.run(agent_of(calls(call("wipe", at="a"), call("add", a=1, b=2))), "Go", record=path)
    loaded = Session.load(path)
    assert [waiting.name for waiting in loaded.waiting] == ["wipe"]
    result = world.run(agent_of(answer("done")), None, session=loaded, approvals={loaded.waiting[0].id: True})
    assert "wiped a" in [message["content"] for message in result.messages if message["role"] == "tool"]


def test_a_file_brings_no_decisions(world, path):
    world.run(agent_of(call("wipe", at="a"), answer("done"), approve=lambda call: True), "Go", record=path)
    assert any(json.loads(line)["kind"] == "decision" for line in path.read_text().splitlines())
    assert Session.load(path).inputs.decisions == {}


def test_an_exported_run_in_the_middle_of_a_conversation_ends_with_it(world, path, tmp_path):
    agent = agent_of(answer("one"), answer("two"), journal=tmp_path / "runs.db")
    first = world.run(agent, "First")
    world.run(agent, "Second")
    agent.session.say("later")
    export(first.run_id, path, store=tmp_path / "runs.db")
    assert Session.load(path).messages == first.messages
    assert not Session.load(path).inbox


def test_agents_inside_tools_are_journaled_and_not_recorded(world, path, tmp_path):
    inner = agent_of(call("add", a=1, b=2), answer("3"), tools=[add], description="Adds.")
    agent = agent_of(
        call("clerk", query="1 + 2?"), answer("3"), tools=[inner.as_tool("clerk")], journal=tmp_path / "runs.db"
    )
    result = world.run(agent, "Go", record=path)
    assert sum(json.loads(line)["kind"] == "request" for line in path.read_text().splitlines()) == 2
    fresh = agent_of(answer("no"), tools=[agent_of(answer("no"), tools=[add], description="Adds.").as_tool("clerk")])
    assert replayed(world, fresh, path).messages == result.messages
    assert len(runs(tmp_path / "runs.db")) == 1
    assert sorted(file.name for file in tmp_path.glob("run*")) == ["run.jsonl", "runs.db"]


@pytest.mark.parametrize("exported", [False, True])
def test_the_usage_of_agents_inside_tools_is_counted(world, path, tmp_path, exported):
    inner = agent_of(call("add", a=1, b=2), answer("3"), tools=[add], description="Adds.")
    agent = agent_of(
        call("clerk", query="1 + 2?"),
        answer("3"),
        tools=[inner.as_tool("clerk")],
        journal=tmp_path / "runs.db" if exported else None,
    )
    result = world.run(agent, "Go", record=None if exported else path)
    if exported:
        export(result.run_id, path, store=tmp_path / "runs.db")
    assert Session.load(path).usage == agent.session.usage == Usage(requests=4, cost=0.0)


def test_lines_end_at_line_feeds_alone(world, path):
    text = "one\u2028two\u0085three\x0cfour"
    world.run(agent_of(answer(text)), text, record=path)
    assert replayed(world, agent_of(), path).answer == text


def test_a_replay_masks_each_message_once(path):
    masked = 0

    def count(frame, event, _):
        nonlocal masked
        masked += event == "call" and frame.f_code.co_name == "_mask_text"

    numbers = []
    for steps in (10, 40):
        agent_of(*[call("add", a=1, b=number) for number in range(steps)], answer("x")).run("Go", record=path)
        sys.setprofile(count)
        try:
            agent_of().replay(path)
        finally:
            sys.setprofile(None)
        numbers.append(masked)
        masked = 0
    assert 0 < numbers[1] < 5 * numbers[0]


def test_a_message_is_saved_with_few_calls(path):
    """Count Python and C calls: a message is written as JSON once, and what is written is not read again."""
    calls = 0

    def count(_frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    numbers = []
    for length in (100, 1100):
        session = Session.from_dict({**Session().as_dict(), "messages": [user(f"{at}?") for at in range(length)]})
        calls = 0
        sys.setprofile(count)
        try:
            session.save(path)
        finally:
            sys.setprofile(None)
        numbers.append(calls)
    assert (numbers[1] - numbers[0]) / 1000 < 40


def test_a_killed_process_leaves_what_happened_so_far(path):
    code = (
        "import os, signal, sys\n"
        "from agentkit import JsonAgent\n"
        "from agentkit.testing import ScriptedModel, call\n"
        "def add(a: int, b: int) -> int:\n    '''Adds.'''\n    return a + b\n"
        "def die(request):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "agent = JsonAgent(add, model=ScriptedModel(call('add', a=1, b=2), die), description='You clean.', retries=0)\n"
        "agent.run('Go', record=sys.argv[1])\n"
    )
    died = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert [message["role"] for message in Session.load(path).messages] == ["system", "user", "assistant", "tool"]
    with pytest.raises(ModelError, match="the recording has no reply"):
        agent_of(tools=[add]).replay(path)
    assert agent_of(answer("3"), tools=[add]).run(session=Session.load(path)).answer == "3"


KILLED_IN_A_TURN = """
import os, signal, sys
from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, call, calls

@tool(effect="write")
def pay(item: str) -> str:
    "Pays."
    print(item, flush=True)
    if item == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {item}"

@tool(trust="untrusted", effect="write")
def fetch() -> str:
    "Fetches."
    return "from outside " + 30_000 * "x" + " the end"

turn = calls(call("fetch"), call("pay", item="a"), call("pay", item="b"), call("pay", item="c"))
setting = sys.argv[3] if len(sys.argv) > 3 else "values"
turns = [call("fetch"), turn] if sys.argv[4:] == ["later"] else [turn]
agent = JsonAgent(pay, fetch, model=ScriptedModel(turns), untrusted=setting, journal=sys.argv[2] or None)
agent.run("Go", record=sys.argv[1] or None)
"""


@pytest.mark.parametrize("exported", [False, True])
def test_calls_of_a_killed_turn_run_no_second_time(world, path, tmp_path, exported):
    journal = tmp_path / "runs.db"
    places = ("", str(journal)) if exported else (str(path), "")
    died = subprocess.run(
        [sys.executable, "-c", KILLED_IN_A_TURN, *places], check=False, capture_output=True, text=True
    )
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "a\nb\n"), died.stderr
    if exported:
        (run,) = runs(journal)
        export(run.id, path, store=journal)
    paid = []

    @tool(effect="write")
    def pay(item: str) -> str:
        """Pays."""
        paid.append(item)
        return f"paid {item}"

    agent = JsonAgent(pay, model=ScriptedModel(answer("done")))
    result = world.run(agent, None, session=Session.load(path), approvals={"call_1_4": True})  # fetch is untrusted
    assert paid == ["c"]
    fetched, *contents = [message["content"] for message in result.messages if message["role"] == "tool"][:4]
    assert "from outside" in fetched
    assert is_delimited(fetched)
    assert len(fetched) < 21_000
    (whole,) = re.findall(r'read_more: at="(\w+):', fetched)
    assert Session.load(path).cut.texts[whole].endswith("x the end")
    assert contents == ["paid a", CANCELLED, "paid c"]
    labels = [label_of(message).is_untrusted for message in result.messages if message["role"] == "tool"]
    assert labels[:2] == [True, False]


@pytest.mark.parametrize("turn", ["first", "later"])
@pytest.mark.parametrize("exported", [False, True])
def test_a_hidden_result_of_a_killed_turn_stays_hidden(world, path, tmp_path, exported, turn):
    journal = tmp_path / "runs.db"
    command = [sys.executable, "-c", KILLED_IN_A_TURN, *(("", str(journal)) if exported else (str(path), ""))]
    died = subprocess.run([*command, "hidden", turn], check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL
    if exported:
        (run,) = runs(journal)
        export(run.id, path, store=journal)
    session = Session.load(path)
    contents = [message["content"] for message in session.messages if message["role"] == "tool"]
    handles = ["#1", "#2"] if turn == "later" else ["#1"]
    for handle, content in zip(handles, contents, strict=False):
        assert content.startswith(f"{handle} from fetch, ")
        assert session.cut.texts[handle].endswith("x the end")
        assert session.cut.labels[handle].is_untrusted
    assert contents[len(handles)] == "paid a"
    assert not any(label_of(message).is_untrusted for message in session.messages if message["role"] == "tool")
    agent = JsonAgent(len, model=ScriptedModel(answer("done")), untrusted="hidden")
    assert "from outside" not in str(world.run(agent, "And now?", session=session).messages)


class TestOlderFiles:
    def renewed(self, name: str, tmp_path: Path, agent: JsonAgent) -> Path:
        """The file with the instruction and the schemas of today."""
        lines = [json.loads(line) for line in (OLD / name).read_text().splitlines()]
        for line in lines:
            for message in (*line.get("messages", ()), *line.get("history", ()), line.get("message")):
                if isinstance(message, dict) and message["role"] == "system":
                    message["content"] = agent.instruction
            if "tools" in line:
                line["tools"] = schemas_of(agent.tools)
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
        return tmp_path / name

    @pytest.mark.parametrize("name", ["recording-1", "recording-2-first", "recording-2"])
    def test_a_recorded_run_is_replayed(self, world, tmp_path, name):
        agent = agent_of(retries=2, approve=lambda call: pytest.fail(f"asked about {call}"))
        result = replayed(world, agent, self.renewed(f"{name}.jsonl", tmp_path, agent))
        contents = [message["content"] for message in result.messages if message["role"] == "tool"][-5:]
        assert contents[:2] + contents[3:4] == ["3", "wiped a", "Denied: not that"]
        assert contents[2].endswith("wiped c")
        assert (result.answer, result.usage.requests) == ("done", 2)
        assert [message["content"] for message in result.messages if message["role"] == "user"] == ["Hi", "Go"]

    @pytest.mark.parametrize("name", ["exported-1", "exported-2-first", "exported-2"])
    def test_an_exported_run_is_replayed(self, world, tmp_path, name):
        agent = agent_of()
        file = self.renewed(f"{name}.jsonl", tmp_path, agent)
        assert replayed(world, agent, file).answer == "3"
        with pytest.raises(ReplayDiffers, match="request 1 differs: message 0"):
            replayed(world, agent_of(description="You are another."), file)

    def test_a_saved_session_is_loaded(self, tmp_path):
        session = Session.load(OLD / "session-1.json")
        assert [message["role"] for message in session.messages] == ["system", "user", "assistant"]
        assert [(waiting.id, waiting.name) for waiting in session.waiting] == [("call_1_2", "wipe")]
        assert ([*session.cut.texts.values()], len(session.inbox), session.usage.requests) == (["a long text"], 1, 1)
        session.save(tmp_path / "new.json")
        assert Session.load(tmp_path / "new.json").as_dict() == session.as_dict()

    @pytest.mark.parametrize("name", ["session-2-first", "session-2"])
    def test_a_session_saved_as_lines_continues(self, world, name):
        session = Session.load(OLD / f"{name}.jsonl")
        assert [(waiting.id, waiting.name) for waiting in session.waiting] == [("call_2_1", "wipe")]
        assert ([text[:3] for text in session.cut.texts.values()], session.usage.requests) == (["xxx"], 2)
        result = world.run(agent_of(answer("done")), None, session=session, approvals={"call_2_1": True})
        assert "wiped b" in [message["content"] for message in result.messages if message["role"] == "tool"]
        assert result.messages[-3]["content"] == "later"

    @pytest.mark.parametrize("name", ["recording-2-first", "recording-2", "exported-2-first", "exported-2"])
    def test_the_conversation_of_a_run_continues(self, world, name):
        session = Session.load(OLD / f"{name}.jsonl")
        result = world.run(agent_of(answer("yes")), "Really?", session=session)
        said = [message["content"] for message in result.messages if message["role"] == "user"]
        assert said == ["Hi", {"r": "Go", "e": "1 + 2?"}[name[0]], "Really?"]
        before = 1 if name == "exported-2-first" else 2  # it has no usage of the runs before
        assert session.usage.requests == before + {"r": 3, "e": 2}[name[0]]

    def test_a_recorded_run_is_not_a_conversation(self):
        with pytest.raises(RunError, match=r"recording-1\.jsonl.*older version.*no conversation"):
            Session.load(OLD / "recording-1.jsonl")


class TestOtherFiles:
    HEAD = '{"kind": "record", "version": 2}'

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('{"kind": "diary"}', "line 1: KeyError: 'version'"),
            ('{"kind": "diary", "version": 2}', "its first line must be of the kind 'record', got 'diary'"),
            (
                '{"kind": "record", "version": 4}',
                "it has version 4 of the format, expected 3. Update agentkit[.] Session",
            ),
            (HEAD + '\n{"kind": "message", "place": 1, "message": {"role": "user"}}', "message 0 is missing"),
            (HEAD + '\n{"kind": "message", "place": 0, "message": {"role": 3}}', "message 0 has no role"),
            (HEAD + '\n{"kind": "message", "place": 0, "message": [1]}', "line 2: TypeError"),
            (HEAD + '\n{"kind": "message", "place": "0", "message": {}}', "line 2: TypeError"),
            (HEAD + '\n{"kind": "reply"}', "line 2: KeyError: 'message'"),
            (HEAD + '\n{"kind": "reply", "message": {"role": "assistant"}}', "line 2: IndexError"),
            (HEAD + '\n{"kind": "request", "from": 0, "messages": [7], "model": "m"}', "line 2: IndexError"),
            (HEAD + '\n{"kind": "request", "from": 0, "messages": ["x"], "model": "m"}', "line 2: TypeError"),
            (HEAD + "\n[]", "line 2: TypeError"),
            (HEAD + '\n{"kind": "run", "first": "x"}', "line 2: TypeError"),
            ('{"kind": "record", "version": 2, "usage": {"requests": "many"}}', "usage"),
            (HEAD + '\n{"kind": "cut", "key": "a", "text": 3}', "cut"),
            (HEAD + '\n{"kind": "state", "state": {"inbox": [null]}}', "inbox"),
            (HEAD + '\n{"kind": "state", "state": 5}', "line 2: TypeError"),
            (HEAD + "\n" + "[" * 100_000, "damaged"),
        ],
    )
    def test_are_refused_with_one_error(self, path, text, reason):
        path.write_text(text)
        with pytest.raises(RunError, match=rf"run\.jsonl(?s:.*){reason}"):
            Session.load(path)
        with pytest.raises(RunError, match=r"run\.jsonl"):
            agent_of().replay(path)

    def test_a_saved_session_has_no_run_to_replay(self, path):
        Session([{"role": "user", "content": "Hi"}]).save(path)
        with pytest.raises(RunError, match=r"run\.jsonl.*cannot be replayed. Session.load continues"):
            agent_of().replay(path)
        assert Recording.load(path).messages == [{"role": "user", "content": "Hi"}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing")
def test_a_full_disk_ends_the_run(world):
    with pytest.raises(RunError, match=r"record=.*cannot be written: No space left"):
        world.run(agent_of(answer("x")), "Go", record="/dev/full")
