"""What a client refuses, and a queue on one machine without a server."""

import asyncio
import json
import math
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from dbos._serialization import DBOSDefaultSerializer, deserialize_value
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, Paused, Pending, RunError
from agentkit.cli import main
from agentkit.dbos import Client, RunHandle, RunStatus, Worker
from agentkit.dbos.database import MAX_UNWRITTEN_EVENTS, EventLog, RunEvents, check_sqlite
from agentkit.dbos.handle import answer_of, read_status
from agentkit.dbos.queue_tables import QueuedRun, error_outcome
from agentkit.extend import PersonAnswer, RunNotice
from agentkit.journal import JournalError, prune, runs
from agentkit.testing import ScriptedModel, answer


@pytest.fixture
def url(tmp_path):
    try:
        check_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])
    except DefinitionError as error:
        pytest.skip(str(error))
    return f"sqlite:///{tmp_path / 'runs.db'}"


def test_an_address_that_is_not_a_database_is_refused():
    with pytest.raises(DefinitionError, match=r"workers: 'runs.db' is not the URL of their database. Give postgresql"):
        Client("runs.db")
    with pytest.raises(
        DefinitionError, match=r"workers: 'postgresql\+psycopg://agents:\*\*\*@db/agents' is not the URL"
    ):
        Client("postgresql+psycopg://agents:secret@db/agents")


def test_a_url_that_the_queue_cannot_read_is_refused_with_one_that_it_can():
    with pytest.raises(
        DefinitionError,
        match=r"workers: 'postgresql://a:\*\*\*@h1:1,h2:2/db': the host or the port cannot be read. Give one host and one "
        r"port, or several as postgresql://USER@/DATABASE\?host=HOST1,HOST2&port=5432,5432",
    ):
        Client("postgresql://a:secret@h1:1,h2:2/db")


def test_a_file_of_lines_is_refused(url):
    with pytest.raises(DefinitionError, match=r"is a file of lines. Name the file of the database \*.db"):
        Client(url.replace("runs.db", "runs.jsonl"))


def test_a_sqlite_that_the_queue_cannot_use_is_refused():
    check_sqlite((3, 11), (3, 40))
    check_sqlite((3, 13), (3, 42))
    with pytest.raises(DefinitionError, match=r"has SQLite 3.40, expected 3.42 or newer. Use PostgreSQL"):
        check_sqlite((3, 12), (3, 40))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"query": " "}, "query must be a text that is not empty"),
        ({"query": 5}, "query must be a text that is not empty, got 5"),
        ({"id": "a b"}, "id: 'a b' is not the id of a run"),
        ({"id": 5}, "id: 5 is not the id of a run"),
        ({"session": 5}, "session must be a text without null characters, got 5"),
        ({"session": "a\0b"}, "session must be a text without null characters"),
        ({"key": "a\0b"}, "key must be a text without null characters"),
        ({"session": "\ud800"}, "session must be a text of whole characters"),
        ({"key": "\ud800"}, "key must be a text of whole characters"),
        ({"attempts": 0}, "attempts must be an integer from 1 to 2147483647, got 0"),
        ({"attempts": "3"}, "attempts must be an integer from 1 to 2147483647, got '3'"),
        ({"priority": 0}, "priority must be an integer from 1"),
        ({"priority": None}, "priority must be an integer from 1 to 2147483647, got None"),
        ({"delay": "1"}, "delay must be a number of seconds from 0 to 1000000000, got '1'"),
        ({"delay": -1}, "delay must be a number of seconds from 0"),
        ({"delay": math.nan}, "delay must be a number of seconds from 0"),
        ({"delay": 1e30, "session": "s"}, "delay must be a number of seconds from 0"),
    ],
)
def test_wrong_arguments_of_a_submission_are_named(client, given, message):
    with pytest.raises(RunError, match=message):
        client.submit("agent", **{"query": "Hello", **given})
    assert client.runs() == []


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda client: client.runs(limit="5"), "limit must be an integer >= 0 or None, got '5'"),
        (lambda client: client.states(5), "ids must be a list of the ids of runs, got 5"),
        (lambda client: client.states("abc"), "ids must be a list of the ids of runs, got 'abc'"),
        (lambda client: client.run(5), "id: 5 is not the id of a run"),
        (lambda client: client.submit("agent", "Hello").result(timeout="1"), "timeout must be a number of seconds or"),
        (lambda client: client.submit("agent", "Hello").result(timeout=math.nan), "timeout must be a number of sec"),
        (
            lambda client: client.submit("agent", "Hello").approve(5),
            "expected what the run waits for, or its id, got 5",
        ),
        (
            lambda client: client.submit("agent", "Hello").answer(5, 1),
            "expected what the run waits for, or its id, got",
        ),
        (lambda client: client.schedule(5, "* * * * *", "agent", "Hello"), "name must be a text that is not empty"),
        (lambda client: client.schedule("n", None, "agent", "Hello"), "schedule 'n': cron must be a text, got None"),
    ],
)
def test_wrong_arguments_of_a_client_and_a_handle_are_named(client, act, message):
    with pytest.raises(RunError, match=message):
        act(client)


def test_an_id_that_no_run_can_have_is_not_known(client):
    handle = client.submit("agent", "Hello")
    assert [status.id for status in client.states(["\ud800", 5, handle.id])] == [handle.id]


def test_a_run_waits_in_the_queue_and_can_be_cancelled_there(client):
    handle = client.submit("agent", "Hello", key="ada", id="run_1")
    status = handle.status
    assert (status.state, status.agent, status.query, status.key) == ("queued", "agent", "Hello", "ada")
    with pytest.raises(TimeoutError, match="run run_1 has no result yet"):
        handle.result(timeout=0)
    with pytest.raises(RunError, match="run run_1 is queued: only a paused run takes decisions"):
        handle.approve()
    with pytest.raises(RunError, match="run run_1 is queued: only a failed, stopped or dead run is retried"):
        handle.retry()
    handle.stop()
    assert handle.status.state == "stopped"
    assert [one.id for one in client.runs(state="stopped")] == ["run_1"]
    handle.retry()
    assert handle.status.state == "queued"
    with pytest.raises(RunError, match="run nothing: no such run was submitted"):
        client.run("nothing").status  # noqa: B018


@pytest.mark.parametrize("name", ["n" * 75, "отчёт"])
def test_a_schedule_whose_runs_could_not_be_submitted_is_refused(client, name):
    with pytest.raises(RunError, match=f"schedule '{name}': no run can have its name. Use at most 74"):
        client.schedule(name, "* * * * *", "agent", "Hello")
    client.schedule("n" * 74, "* * * * *", "agent", "Hello")
    assert [*client.schedules()] == ["n" * 74]


def test_runs_in_a_state_are_found_among_newer_ones(client):
    first, *others = [client.submit("agent", f"query {number}") for number in range(3)]
    first.stop()
    assert [status.id for status in client.runs(limit=1, state="stopped")] == [first.id]
    assert [status.id for status in client.runs(state="queued")] == [handle.id for handle in reversed(others)]
    assert [status.id for status in client.runs(limit=2)] == [handle.id for handle in reversed(others)]
    first.retry()  # a workflow more
    assert {status.id for status in client.runs(limit=3)} == {first.id, *(handle.id for handle in others)}
    with pytest.raises(RunError, match=r"state: 'ended' is not the state of a run. States: queued, running, paused, f"):
        client.runs(state="ended")


def test_a_queue_on_one_machine_has_one_url_and_private_files(url, tmp_path):
    with pytest.raises(JournalError, match="does not exist"):
        runs(url)
    listed = CliRunner().invoke(main, ["runs", "--db", url])
    assert listed.exit_code == 2
    assert [*tmp_path.iterdir()] == []
    with Client(url) as client:
        assert client.journal.path == str(tmp_path / "runs.db")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    JsonAgent(len, model=ScriptedModel(answer("4")), journal=url)("Length of 'four'?")
    (run,) = runs(tmp_path / "runs.db")
    assert CliRunner().invoke(main, ["show", run.id, "--db", url]).stdout.count("Length of") == 1


def test_a_batch_that_is_cancelled_while_it_is_submitted_leaves_no_run(client, url):
    agent = JsonAgent(len, model=ScriptedModel(answer("x")))

    async def cancel() -> None:
        batch = asyncio.ensure_future(agent.amap([f"query {number}" for number in range(1000)], workers=url))
        while not client.runs(limit=1):
            await asyncio.sleep(0.02)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch

    asyncio.run(cancel())
    states = Counter(status.state for status in client.runs(limit=None))
    assert [*states] == ["stopped"]
    assert states.total() < 1000


def test_the_queue_holds_json_and_no_pickle(client, url):
    client.submit("agent", "Grüße", session="s")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///") + "-queue")) as file, file:
        ((text, kind),) = file.execute(
            "SELECT i.inputs, s.serialization FROM workflow_status s JOIN workflow_input i USING (workflow_uuid)"
        ).fetchall()
    file.close()
    assert QueuedRun.decode(json.loads(text)["positionalArgs"][0]).query == "Grüße"
    assert kind == "portable_json"


def rows_of(url, sql):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///") + "-queue")) as file:
        return file.execute(sql).fetchall()


def test_runs_of_a_session_are_admitted_one_after_the_other(client, url):
    def admitted():
        sql = "SELECT workflow_uuid FROM workflow_status WHERE status = 'ENQUEUED' ORDER BY workflow_uuid"
        return [run for (run,) in rows_of(url, sql)]

    names = ["a1", "a2", "a3", "b1", "b2"]
    for place, name in enumerate(names):
        client.submit("other" if name == "a2" else "agent", "Hello", session=name[0], id=name, priority=9 - place)
    client.submit("agent", "Hello", id="free")
    assert admitted() == ["a1", "b1", "free"]
    assert {status.state for status in client.runs()} == {"queued"}
    client.run("a1").stop()
    client.submit("agent", "Hello", session="a", id="a4")
    assert admitted() == ["a2", "b1", "free"]
    client.run("a1").retry()  # before those that wait
    client.run("a2").stop()
    client.submit("agent", "Hello", session="a", id="a5")
    assert admitted() == ["a1~1", "b1", "free"]
    client.submit("agent", "Hello", session="late", id="late1", delay=1000)
    client.submit("agent", "Hello", session="late", id="late2")
    assert admitted() == ["a1~1", "b1", "free", "late2"]


class Mark:
    """Makes a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


class ContinuedQueue:
    """A queue in which another program continues the run at the moment in which its state is read."""

    def __init__(self, state) -> None:
        self.status = RunStatus("r", state, pending=(Pending.from_dict({"call": {"id": "1", "name": "delete"}}),))
        self.numbers = [0]

    def workflows(self, run):
        work = {"args": [QueuedRun("agent", "r", "Hello").encode()]}
        ids = [f"{run}~{number}" if number else run for number in self.numbers]
        return [SimpleNamespace(workflow_id=one, input=work, priority=1, queue_partition_key="-") for one in ids]

    def states(self, *_, **__):
        self.numbers = [0, 1]
        return [self.status]

    def continue_run(self, _, number, *__):
        return number not in self.numbers


@pytest.mark.parametrize(
    ("state", "act"), [("paused", lambda handle: handle.answer("1", False)), ("failed", RunHandle.retry)]
)
def test_of_two_programs_that_continue_a_run_one_is_refused(state, act):
    with pytest.raises(RunError, match="run r was continued by another program at the same time"):
        act(RunHandle(ContinuedQueue(state), "r"))


def test_a_row_that_is_marked_as_pickle_is_refused_and_the_program_may_use_pickle_itself(client, url, tmp_path):
    handle = client.submit("agent", "Hello")
    text = DBOSDefaultSerializer.serialize({"args": (Mark(tmp_path / "mark"),), "kwargs": {}})
    with closing(sqlite3.connect(url.removeprefix("sqlite:///") + "-queue")) as file, file:
        file.execute("UPDATE workflow_input SET inputs = ?", (text,))
        file.execute("UPDATE workflow_status SET serialization = 'py_pickle'")
    assert handle.status.error == "its row in the queue is not JSON and was not read"
    handle.stop()
    with pytest.raises(RunError, match="its work is not in the queue any more"):
        handle.retry()
    assert [status.id for status in client.runs()] == [handle.id]
    assert not (tmp_path / "mark").exists()
    deserialize_value(text, "py_pickle", DBOSDefaultSerializer)["args"][0].close()  # as the program itself does
    assert (tmp_path / "mark").exists()


def test_runs_that_were_stopped_in_the_queue_are_pruned_there(client, url):
    stopped = client.submit("agent", "secret of Ada", id="ada")
    kept = client.submit("agent", "secret of Bo", delay=1000)
    stopped.stop()
    time.sleep(0.01)
    assert prune(0, store=url) == 0
    assert (stopped.status.state, kept.status.query) == ("deleted", "secret of Bo")
    client.submit("agent", "secret of Ada", id="ada")
    assert stopped.status.state == "deleted"
    texts = str(rows_of(url, "SELECT * FROM workflow_input") + rows_of(url, "SELECT * FROM workflow_status"))
    assert ("of Ada" in texts, "of Bo" in texts) == (False, True)


def test_decisions_that_are_not_json_are_refused():
    with pytest.raises(RunError, match="decisions and answers must be JSON data"):
        QueuedRun("agent", "r", "q", answers={"a": object()}).encode()


def test_rows_of_older_versions_have_decisions_and_what_waits():
    row = {"agent": "a", "run": "r", "query": "q", "session": "", "attempts": 3}
    row |= {"approvals": {"1": {"path": "b"}, "2": "no"}, "answers": {"3": 4}}
    work = QueuedRun.decode(json.dumps(row))
    assert work.answers == {"1": PersonAnswer({"path": "b"}), "2": "no", "3": 4}
    outcome = {"state": "paused", "calls": [{"id": "1", "name": "delete", "arguments": "{}"}]}
    outcome["questions"] = [{"id": "3", "text": "How many?", "schema": {"type": "integer"}}]
    found = SimpleNamespace(
        workflow_id="r",
        input={"args": [json.dumps(row)]},
        output=json.dumps(outcome),
        status="SUCCESS",
        error=None,
        executor_id="w",
        queue_partition_key=None,
        created_at=1,
        completed_at=2,
    )
    status = read_status([found])
    assert [(one.id, one.is_approval) for one in status.pending] == [("1", True), ("3", False)]
    assert [one.name for one in status.calls] == ["delete"]
    with pytest.raises(Paused, match=r"^1 of the model's calls waits .* agent.resume\('r', answers={'1': True}\)"):
        answer_of(status)
    assert [one.text for one in status.questions] == ["How many?"]


def test_a_worker_checks_its_agents_and_limits():
    with pytest.raises(DefinitionError, match="'agent' must be a JsonAgent, got int"):
        Worker({"agent": 5}, "sqlite:///runs.db")
    agent = JsonAgent(len, model=ScriptedModel(answer("x")))
    with pytest.raises(DefinitionError, match=r'expected agents by their names, got list. Give {"agent": agent}'):
        Worker([agent], "sqlite:///runs.db")
    with pytest.raises(DefinitionError, match="the name of an agent must be a text without null characters, got 5"):
        Worker({5: agent}, "sqlite:///runs.db")
    with pytest.raises(DefinitionError, match="workers: None is not the URL of their database"):
        Worker({"agent": agent}, None)
    with pytest.raises(DefinitionError, match="grace must be a number of seconds >= 0, got 'x'"):
        Worker({"agent": agent}, "sqlite:///runs.db").serve(grace="x")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"per_key": 3, "total": 2}, "per_key must be at most total, got 3 and 2"),
        ({"concurrency": 0}, "concurrency must be an integer >= 1, got 0"),
        ({"concurrency": "8"}, "concurrency must be an integer >= 1, got '8'"),
        ({"total": 0}, "total must be an integer >= 1, got 0"),
        ({"per_key": "1"}, "per_key must be an integer >= 1, got '1'"),
        ({"rate": 5}, r"rate must be a number >= 1 and seconds > 0, got 5. \(100, 60.0\) is 100 a minute"),
        ({"rate": (1, "a")}, r"rate must be a number >= 1 and seconds > 0, got \(1, 'a'\)"),
        ({"rate": (0, 60.0)}, r"rate must be a number >= 1 and seconds > 0, got \(0, 60.0\)"),
        ({"key_rate": (5, 0.0)}, r"key_rate must be a number >= 1 and seconds > 0, got \(5, 0.0\)"),
    ],
)
def test_limits_that_cannot_hold_are_refused(limits, message):
    agent = JsonAgent(len, model=ScriptedModel(answer("x")))
    with pytest.raises(DefinitionError, match=message):
        Worker({"agent": agent}, "sqlite:///runs.db", **limits)


def test_without_the_package_the_error_names_it():
    code = "import sys; sys.modules['dbos'] = None; import agentkit.dbos"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'the package dbos is not installed. Install it: pip install "dbos>=3,<4"' in done.stderr


def test_the_commands_submit_list_cancel_and_retry(url):
    runner = CliRunner()

    def run(*words: str) -> str:
        done = runner.invoke(main, words)
        assert done.exit_code == 0, done.output
        return done.stdout

    assert run("submit", "Hello", "there", "--db", url, "--id", "one", "--key", "ada") == "one\n"
    assert re.fullmatch(r"one  queued +\d+s  agent  key ada  Hello there\n", run("runs", "--db", url))  # no costs yet
    run("runs", "one", "--cancel", "--db", url)
    (listed,) = json.loads(run("runs", "--db", url, "--state", "stopped", "--json"))
    assert (listed["id"], listed["query"], listed["key"]) == ("one", "Hello there", "ada")
    assert run("runs", "one", "--db", url) == ""  # its state is on standard error; the journal does not have it
    run("runs", "one", "--retry", "--db", url)
    assert run("runs", "--db", url, "--state", "stopped") == "no run is stopped\n"
    run("submit", "Report", "--db", url, "--cron", "0 8 * * *", "--id", "daily")
    with Client(url) as client:
        assert client.schedules() == {"daily": "0 8 * * *"}


def test_a_worker_command_with_two_agents_of_a_name_is_refused(tmp_path):
    (tmp_path / "named_twice.py").write_text(
        "from agentkit import JsonAgent\nagent = JsonAgent(len, model='offline')\n"
    )
    target = f"{tmp_path / 'named_twice.py'}:agent"
    done = CliRunner().invoke(main, ["worker", target, f"agent={target}", "--db", "none"])
    assert done.exit_code == 2
    assert "another agent has the name 'agent'. Give each its own: NAME=TARGET" in " ".join(done.output.split())


def test_options_of_a_queue_need_one(tmp_path):
    done = CliRunner().invoke(main, ["runs", "--state", "dead", "--journal", str(tmp_path / "runs.db")])
    assert done.exit_code == 2
    assert "no workers use this journal" in done.output


def test_an_outcome_masks_secrets():
    assert "sk-" not in json.dumps(error_outcome(RunError("key sk-abcdefghijklmnopqrstuvwxyz0123456789 refused")))


def test_an_event_that_arrives_while_others_are_written_is_kept():
    events = RunEvents("run", 0)
    batches = []

    def take():
        batches.extend(events.take())
        events.forget()

    class Text(str):
        def __deepcopy__(self, _):
            take()  # as the thread that writes, between the two halves of an addition
            return str(self)

    for text in ("first", "second"):
        events._add(RunNotice(1, Text(text)))
    take()
    assert [(number, json.loads(body)[0]["text"]) for _, number, body in batches] == [(1, "first"), (2, "second")]


def test_the_last_events_of_a_run_are_written_after_those_before_them():
    """While the thread that writes waits for the database, the run ends."""
    written = []
    is_waiting = threading.Event()

    def add_events(batches, _):
        if not is_waiting.is_set():
            is_waiting.set()
            time.sleep(0.2)
        written.extend(number for _, number, _ in batches)

    log = EventLog(SimpleNamespace(own=SimpleNamespace(last_event=lambda _: 0, add_events=add_events)), None)
    events = log.open("run")
    events._add(RunNotice(1, "first"))
    writer = threading.Thread(target=log.write)
    writer.start()
    assert is_waiting.wait(HANGS)
    events._add(RunNotice(1, "last"))
    log.close(events)
    writer.join()
    assert written == [1, 2]


class Outage:
    """The tables of the workers in a database that can be away; `error` is the cause of what it raises then."""

    def __init__(self, error):
        self.error = error
        self.is_away = True
        self.written = {}

    def last_event(self, _):
        return 0

    def add_events(self, batches, _):
        if self.is_away:
            raise JournalError("the database is away") from self.error
        self.written.update((number, json.loads(body)) for _, number, body in batches)

    def texts(self):
        return [event["text"] for number in sorted(self.written) for event in self.written[number]]


def test_events_wait_for_a_database_that_is_away():
    own = Outage(sqlite3.OperationalError("locked"))
    log = EventLog(SimpleNamespace(own=own), None)
    events = log.open("run")
    events._add(RunNotice("a", "first"))
    log.write()
    events._add(RunNotice("a", "second"))
    log.write()
    events._add(RunNotice("a", "last"))
    assert log.close(events) is False
    own.is_away = False
    assert log.close(events) is True
    assert own.texts() == ["first", "second", "last"]


@pytest.mark.parametrize("is_over", [False, True])
def test_the_reader_of_events_and_the_log_learn_that_some_are_missing(caplog, is_over):
    own = Outage(sqlite3.OperationalError("locked"))
    log = EventLog(SimpleNamespace(own=own), None)
    events = log.open("run")
    for number in range(MAX_UNWRITTEN_EVENTS + 5):
        events._add(RunNotice("a", str(number)))
        if number % 5000 == 0:
            log.write()
    own.is_away = False
    if is_over:
        assert log.close(events)
        own.written[math.inf] = [{"text": "back"}]
    else:
        log.write()
        events._add(RunNotice("a", "back"))
        assert log.close(events)
    missing = "4 events are missing here, because the database of the workers was away."
    assert own.texts()[-3:] == [str(MAX_UNWRITTEN_EVENTS), missing, "back"]
    assert f"run run: {missing}" in caplog.text


def test_events_that_can_never_be_written_are_logged_and_hold_no_run(caplog):
    own = Outage(sqlite3.IntegrityError("no such table"))
    log = EventLog(SimpleNamespace(own=own), None)
    events = log.open("run")
    events._add(RunNotice("a", "first"))
    assert log.close(events) is True
    assert "events of runs are lost for those who watch them: the database is away" in caplog.text
