"""Workers on a real PostgreSQL: processes that are killed, frozen and upgraded, and a database that restarts."""

import asyncio
import base64
import os
import pickle
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace

import psycopg
import pytest
from dbos._migration import get_dbos_migrations
from dbos_workers import check_effects
from waiting import wait_until

from agentkit import Paused, RunError, RunStopped, Session
from agentkit.dbos import Client, Workers
from agentkit.dbos.handle import work_of
from agentkit.extend import RunLines, decode_frame
from agentkit.journal import JournalError, delete, prune, runs, show
from agentkit.sessions.journal.store import ConversationBusy
from agentkit.web.encode import AguiEncoder

RUNS = int(os.environ.get("AGENTKIT_WORKER_RUNS", "24"))
STEPS = int(os.environ.get("AGENTKIT_WORKER_STEPS", "8"))
"""`make workers` sets 200 and 20."""
PAUSE = 0.02 if RUNS >= 100 else 0.3
"""Seconds of a step while a worker is killed each second."""
ATTEMPTS = 20
"""On a slow machine, workers that are killed at random die three times in a row in calls of one run by chance."""
LONG = 900
"""Seconds that only a run that hangs needs: the limit of the test ends before."""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600 if RUNS < 100 else 1800)]


def test_killed_workers_repeat_nothing_and_lose_nothing(client, start, effects):
    workers = [start("--concurrency", "6"), start("--concurrency", "6")]
    for worker in workers:  # the runs can take less time than the start of a worker
        worker.wait_ready()
    queries = [f"effect {STEPS} {PAUSE} r{number}" for number in range(RUNS)]
    handles = [client.submit("agent", query, attempts=ATTEMPTS) for query in queries]
    generator = random.Random(7)
    killed = 0
    while len(effects()) < RUNS * STEPS * 0.7 and killed < RUNS // 8:
        time.sleep(generator.uniform(0.5, 2.5))
        place = generator.randrange(2)
        workers[place].kill()
        killed += 1
        workers[place] = start("--concurrency", "6").wait_ready()
    for handle in handles:
        handle.result(LONG)
    in_doubt = check_effects(effects(), [handle.status for handle in handles], STEPS)
    print(f"{RUNS} runs of {STEPS} steps, {killed} workers killed, {in_doubt} calls in doubt")
    assert killed


@pytest.mark.parametrize(
    ("url", "disturb"),
    [("postgres", ()), ("postgres", ("restart", "cut")), ("sqlite", ())],
    ids=["postgres", "restarts", "sqlite"],
    indirect=["url"],
)
def test_a_kill_each_second_is_outpaced(request, client, start, effects, url, disturb):
    """One of two worker processes is killed each second, and the server restarted or all connections cut now and then.

    On a slow machine it takes longer than a second until a worker works again: it is not killed before.
    """
    boss = start("--concurrency", "6", "--processes", "2").wait_ready()
    queries = [f"effect {STEPS} {PAUSE} r{number}" for number in range(RUNS)]
    handles = [client.submit("agent", query, attempts=ATTEMPTS) for query in queries]
    generator = random.Random(7)
    kills = 0
    states = Counter()
    begun = due = time.monotonic()
    while states["finished"] < RUNS:
        assert not {*states} - {"queued", "running", "finished"}, states
        before = effects()
        due = max(due + 1, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        if effects() != before and (processes := boss.processes()):
            os.kill(generator.choice(processes), signal.SIGKILL)
            kills += 1
            if disturb and kills % 4 == 0:
                disturb_server(request.getfixturevalue("postgres_server"), url, disturb[kills // 4 % 2])
        states = Counter(status.state for status in client.states(handle.id for handle in handles))
    in_doubt = check_effects(effects(), [handle.status for handle in handles], STEPS)
    seconds = time.monotonic() - begun
    print(f"{RUNS} runs of {STEPS} steps in {seconds:.0f} s, {kills} workers killed, {in_doubt} calls in doubt")
    assert kills


def disturb_server(server, url, how) -> None:
    if how == "cut":
        name = url.rpartition("/")[2]
        server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        return
    server.stop()
    time.sleep(1)
    server.start()


def test_worker_processes_are_replaced_and_end_with_their_parent(start):
    boss = start("--processes", "2").wait_ready()
    wait_until(lambda: len(boss.processes()) == 2)
    killed, kept = boss.processes()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(boss.processes()) == 2 and killed not in boss.processes())
    assert kept in boss.processes()
    boss.signal(signal.SIGTERM)
    assert boss.process.wait(LONG) == 0
    boss = start("--processes", "2").wait_ready()
    processes = boss.processes()
    boss.kill()
    wait_until(lambda: not any(os.path.exists(f"/proc/{process}") for process in processes))


def test_worker_processes_that_cannot_begin_end_the_command(start, tmp_path):
    (tmp_path / "folder").mkdir()
    boss = start("--processes", "2", db=f"sqlite:///{tmp_path / 'folder'}")
    assert boss.process.wait(LONG) == 1
    assert "JournalError: the journal" in boss.log.read_text()


def test_a_database_that_restarts_in_the_middle_loses_nothing(client, start, effects, postgres_server):
    start().wait_ready()
    handles = [client.submit("agent", f"effect 6 0.2 d{number}") for number in range(4)]
    wait_until(lambda: len(effects()) > 4)
    postgres_server.stop()
    time.sleep(1)
    postgres_server.start()
    for handle in handles:
        assert handle.result(LONG) == f"done {handle.status.query.split()[3]}"
    check_effects(effects(), [handle.status for handle in handles], 6)


def test_a_queue_whose_tables_are_incomplete_is_completed_first(url):
    """As another process leaves them that is creating them at this moment, or an older version of DBOS."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("CREATE SCHEMA dbos")
        connection.execute("CREATE TABLE dbos.dbos_migrations (version bigint PRIMARY KEY)")
        connection.execute("INSERT INTO dbos.dbos_migrations VALUES (1)")
        connection.execute(get_dbos_migrations("dbos", True, False)[0])
    with Client(url) as client:
        assert client.submit("agent", "effect 1 0 x").status.state == "queued"


def test_a_user_who_may_not_create_the_queue_reads_why(url, postgres_server):
    postgres_server.execute("CREATE ROLE clerk LOGIN")
    name = url.rpartition("/")[2]
    postgres_server.execute("CREATE SCHEMA agentkit AUTHORIZATION clerk", name)
    with pytest.raises(JournalError, match=r"the queue of the journal .* in the schema dbos: permission denied for"):
        Client(url.replace("agentkit@", "clerk@"))
    postgres_server.execute("CREATE SCHEMA dbos AUTHORIZATION clerk", name)
    with Client(url.replace("agentkit@", "clerk@")) as client:
        assert client.submit("agent", "effect 1 0 x").status.state == "queued"
    postgres_server.execute("DROP OWNED BY clerk CASCADE", name)
    postgres_server.execute("DROP ROLE clerk")


def test_a_frozen_worker_writes_nothing_when_it_wakes(client, start, effects, url):
    workers = [start(), start()]
    for worker in workers:
        worker.wait_ready()
    handle = client.submit("agent", "effect 12 0.5 z")
    wait_until(effects)
    (frozen,) = (worker for worker in workers if f"-{worker.process.pid}-" in handle.status.worker)
    frozen.signal(signal.SIGSTOP)
    assert handle.result(LONG) == "done z"
    before = show(handle.id, store=url).messages
    frozen.signal(signal.SIGCONT)
    assert frozen.process.wait(LONG) == 75
    assert "taken for dead" in frozen.log.read_text()
    assert show(handle.id, store=url).messages == before
    assert handle.status.state == "finished"
    # the call that was under way when the process stood still ends when it wakes: it is the one in doubt
    made = effects()
    assert len(made) == len({*made})
    assert len(handle.status.in_doubt) <= 1


def test_the_other_version_continues_and_is_named(client, start, effects):
    workers = [start(), start(agent="changed")]
    for worker in workers:
        worker.wait_ready()
    handle = client.submit("agent", "effect 12 0.5 v")
    wait_until(effects)
    (first,) = (worker for worker in workers if f"-{worker.process.pid}-" in handle.status.worker)
    (second,) = (worker for worker in workers if worker is not first)
    first.kill()
    wait_until(lambda: f"-{second.process.pid}-" in handle.status.worker)
    assert handle.result(LONG) == "done v"
    assert any("instruction" in change for change in handle.status.changes)
    check_effects(effects(), [handle.status], 12)


def test_a_worker_that_gets_a_signal_to_end_finishes_its_runs(client, start, effects):
    worker = start("--concurrency", "1").wait_ready()
    handle, queued = (client.submit("agent", f"effect 3 0.4 {label}") for label in ("t", "u"))
    wait_until(effects)
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(LONG) == 0
    assert (handle.result(timeout=0), queued.status.state) == ("done t", "queued")
    assert handle.status.in_doubt == ()


def test_limits_of_keys_hold(client, start):
    start("--per-key", "1", "--rate", "5/2").wait_ready()
    handles = [client.submit("agent", f"effect 2 0.3 {key}{number}", key=key) for key in "ab" for number in range(3)]
    most = Counter()
    seen = set()
    while len(seen) < len(handles):
        states = client.states(handle.id for handle in handles)
        running = Counter(status.key for status in states if status.state == "running")
        most |= running
        seen = {status.id for status in states if status.state == "finished"}
        time.sleep(0.05)
    assert most == {"a": 1, "b": 1}
    assert max(status.ended for status in states) - min(status.submitted for status in states) > 2


def test_limits_of_all_workers_hold(client, start):
    """With the default concurrency, which is more than the total."""
    for _ in range(2):
        start("--total", "2", "--key-rate", "3/4").wait_ready()
    began = time.time()
    handles = [client.submit("agent", f"effect 1 0.4 {key}{number}", key=key) for key in "ab" for number in range(4)]
    most = 0
    seen = Counter()
    while seen.total() != len(handles):
        states = client.states(handle.id for handle in handles)
        most = max(most, sum(status.state == "running" for status in states))
        seen = Counter(status.key for status in states if status.state == "finished")
        assert time.time() - began > 4 or max(seen.values(), default=0) <= 3
        time.sleep(0.05)
    assert most == 2
    assert max(status.ended for status in states) - began > 4


def test_a_run_that_kills_its_workers_is_dead_with_the_reason(client, start):
    workers = [start(), start(), start()]
    for worker in workers:
        worker.wait_ready()
    handle = client.submit("agent", "die 1 0 k", attempts=2)
    with pytest.raises(RunError, match="2 attempts failed: its worker died"):
        handle.result(LONG)
    assert handle.status.state == "dead"
    assert handle.status.in_doubt == ("die (call_0)",)
    assert sum(worker.process.poll() is not None for worker in workers) == 2
    assert [status.id for status in client.runs(state="dead")] == [handle.id]


def test_a_run_that_kills_its_workers_is_dead_alone(client, start, effects):
    """The runs that are in calls when it kills their worker, again and again, are tried without it."""
    start("--concurrency", "4", "--processes", "2").wait_ready()
    handles = [client.submit("agent", f"effect 5 2 n{number}") for number in range(3)]
    killer = client.submit("agent", "die 1 1 k")
    with pytest.raises(RunError, match="3 attempts failed: its worker died"):
        killer.result(LONG)
    assert [handle.result(LONG) for handle in handles] == [f"done n{number}" for number in range(3)]


@pytest.mark.parametrize("url", ["postgres", "sqlite"], indirect=True)
def test_one_worker_does_all_the_rest(client, start, effects, url, tmp_path):
    """One worker for what needs no death: keys, ids, sessions, decisions, events, batches, schedules, deletion."""
    worker = start("--concurrency", "2").wait_ready()
    check_keys_take_turns(client)
    check_ids(client, effects)
    check_priorities(client)
    check_decisions(client, effects)
    check_stop(client, effects)
    check_failure_and_retry(client)
    check_events(client)
    check_sessions(client, url)
    check_order_of_sessions(client, url)
    check_superseded(client, url)
    check_end_elsewhere(client, url)
    check_wrong_answers(client)
    check_pickle(client, url, tmp_path)
    check_schedule(client)
    check_batch(url)
    check_deletion(client, url)
    assert "Traceback" not in worker.log.read_text()


def check_keys_take_turns(client) -> None:
    crowd = [client.submit("agent", f"effect 1 1 a{number}", key="crowd") for number in range(200)]
    one = client.submit("agent", "effect 1 0.1 b", key="one")
    assert one.result(LONG) == "done b"
    waiting = [status for status in client.states(handle.id for handle in crowd) if status.state == "queued"]
    assert len(waiting) > 100
    for handle in crowd:
        with suppress(RunError):
            handle.stop()


def check_ids(client, effects) -> None:
    first = client.submit("agent", "effect 1 0 once", id="order_17")
    assert client.submit("agent", "effect 1 0 twice", id="order_17").result(LONG) == first.result(LONG) == "done once"
    assert effects().count("once/0") == 1
    assert not [label for label in effects() if label.startswith("twice")]
    with pytest.raises(RunError, match="id: 'a~1' is not the id of a run"):
        client.submit("agent", "effect 1 0 x", id="a~1")


def check_priorities(client) -> None:
    late = [client.submit("agent", f"effect 1 0.2 p{number}") for number in range(12)]
    first = client.submit("agent", "effect 1 0.2 urgent", priority=1)
    for handle in [first, *late]:
        handle.result(LONG)
    assert sum(handle.status.ended > first.status.ended for handle in late) >= 4


def check_decisions(client, effects) -> None:
    handle = client.submit("agent", "delete 1 0 file")
    with pytest.raises(Paused) as caught:
        handle.result(LONG)
    assert [call.name for call in caught.value.calls] == ["delete"]
    assert str(caught.value).count("Decide and continue") == 1
    assert f"agent.resume({handle.id!r}, " in str(caught.value)
    assert handle.status.state == "paused"
    with pytest.raises(RunError, match="nothing waits with the id 'nothing'"):
        handle.approve("nothing")
    assert "file/0" not in effects()
    handle.approve(caught.value.calls[0])
    assert handle.result(LONG) == "done file"
    assert effects().count("file/0") == 1
    with pytest.raises(RunError, match="is finished: only a paused run"):
        handle.approve("call_0")
    asking = client.submit("agent", "ask 1 0 colour")
    with pytest.raises(Paused) as caught:
        asking.result(LONG)
    (question,) = caught.value.questions
    assert question.text == "Which colour/0?"
    asking.answer(question, "blue")
    assert asking.result(LONG) == "done colour"


def check_stop(client, effects) -> None:
    handle = client.submit("agent", "effect 5000 0.2 stopped")
    wait_until(lambda: handle.status.state == "running" and "stopped/0" in effects())
    handle.stop()
    with pytest.raises(RunStopped):
        handle.result(LONG)
    assert number_of(effects(), "stopped/") < 5000
    working = client.submit("agent", "effect 1 5 doubted")
    wait_until(lambda: "doubted/0" in effects())
    working.stop()
    status = working.status
    assert (status.state, status.in_doubt) == ("stopped", ("effect (call_0)",))
    assert (status.usage.requests, status.steps) == (1, 1)
    paused = client.submit("agent", "delete 1 0 refused")
    with pytest.raises(Paused):
        paused.result(LONG)
    paused.stop()
    with pytest.raises(RunStopped):
        paused.result(LONG)
    with pytest.raises(RunError, match="is stopped: only a paused run takes decisions"):
        paused.approve()
    assert "refused/0" not in effects()
    paused.retry()
    with pytest.raises(Paused):
        paused.result(LONG)


def number_of(made: list[str], label: str) -> int:
    return sum(one.startswith(label) for one in made)


def check_failure_and_retry(client) -> None:
    handle = client.submit("agent", "fail 1 0 f", attempts=2)
    with pytest.raises(RunError, match="2 attempts failed: ModelError: the provider is away"):
        handle.result(LONG)
    handle.retry()
    with pytest.raises(RunError, match="2 attempts failed"):
        handle.result(LONG)
    named = client.submit("agent", "effect 1 0 f", session="agentkit:notes/ada")
    with pytest.raises(RunError, match="names that begin with 'agentkit:notes/' are those of notes"):
        named.result(LONG)


def check_events(client) -> None:
    handle = client.submit("agent", "effect 3 0 e")
    seen = list(handle.events())
    frames = [decode_frame(event) for event in seen]
    names = [event["frame"] for event in seen]
    assert (names[0], names[-1]) == ("RunOpened", "RunClosed")
    assert names.count("CallClosed") == 3
    assert frames[-1].answer == "done e"
    view = RunLines()
    assert next(line.text for frame in frames for line in view.read(frame)) == "effect 3 0 e"
    encoder = AguiEncoder("thread", handle.id)
    assert [event["type"] for frame in frames for event in encoder.encode(frame)][-1] == "RUN_FINISHED"

    async def follow():
        return [event["frame"] async for event in handle.aevents()]

    assert asyncio.run(follow()) == names
    working = client.submit("agent", "effect 5000 0.2 e")
    assert "CallClosed" in (event["frame"] for event in working.events())
    assert working.status.state == "running"
    working.stop()


def check_sessions(client, url) -> None:
    handles = [client.submit("agent", f"effect 2 0.1 s{number}", session="mine") for number in range(3)]
    assert {handle.result(LONG) for handle in handles} == {"done s0", "done s1", "done s2"}
    longest = max((show(handle.id, store=url).messages for handle in handles), key=len)
    assert sum(message["role"] == "user" for message in longest) == 3


def check_order_of_sessions(client, url) -> None:
    labels = {f"ordered{place}": [f"o{place}-{number}" for number in range(6)] for place in range(4)}
    handles = []
    for number in range(6):  # faster than the runs
        for session, names in labels.items():
            query = f"effect {number % 2} 0.2 {names[number]}"
            handles.append(client.submit("agent", query, session=session, priority=50 - number, key=str(number % 3)))
        time.sleep(0.1)
    submitted = time.monotonic()
    delayed = client.submit("agent", "effect 0 0 late", session="ordered0", delay=1.5)
    for handle in handles:
        handle.result(LONG)
    for session, names in labels.items():
        asked = [message["content"].split()[-1] for message in stored(url, session) if message["role"] == "user"]
        assert asked[:6] == names
    assert delayed.result(LONG) == "done late"
    assert time.monotonic() - submitted >= 1.5  # the queue in SQLite writes whole seconds


def stored(url, session):
    return Session.open(session, url).messages


def check_superseded(client, url) -> None:
    paused = client.submit("agent", "delete 1 0 kept", session="moved")
    with pytest.raises(Paused):
        paused.result(LONG)
    later = client.submit("agent", "effect 0 0 on", session="moved")
    assert later.result(LONG) == "done on"
    status = paused.status
    assert (status.state, status.error) == ("superseded", f"its conversation was continued by run {later.id}")
    assert paused.id in {one.id for one in client.runs(state="superseded")}
    with pytest.raises(RunError, match=f"is superseded: its conversation was continued by run {later.id}"):
        paused.result(0)
    with pytest.raises(RunError, match=r"is superseded \(its conversation .*: only a paused run takes decisions"):
        paused.approve()


def check_end_elsewhere(client, url) -> None:
    import worker_app

    asking = client.submit("agent", "ask 1 0 colour")
    with pytest.raises(Paused) as caught:
        asking.result(LONG)
    asyncio.run(worker_app.agent.aresume(asking.id, answers={caught.value.pending[0].id: "blue"}, journal=url))
    status = asking.status
    assert (status.state, status.answer, status.pending) == ("finished", "done colour", ())
    assert (status.usage.requests, status.steps, asking.result(0)) == (2, 2, "done colour")
    with pytest.raises(RunError, match="is finished: only a paused run takes decisions"):
        asking.answer(caught.value.questions[0], "red")


def check_wrong_answers(client) -> None:
    asking = client.submit("agent", "ask_number 1 0 size")
    with pytest.raises(Paused) as caught:
        asking.result(LONG)
    (question,) = caught.value.questions
    with pytest.raises(RunError, match="answers"):
        asking.answer(question, "many")
    assert asking.status.state == "paused"
    work = replace(work_of(client.workflows(asking.id)[0]), answers={question.id: "many"})
    client.continue_run(asking.id, 1, work, 100, "")  # as a client that does not check it
    wait_until(lambda: "many" in asking.status.error)
    assert (asking.status.state, asking.status.questions) == ("paused", (question,))
    asking.answer(question, 5)
    assert asking.result(LONG) == "done size"


def check_pickle(client, url, tmp_path) -> None:
    mark = tmp_path / "unpickled"
    handle = client.submit("agent", "effect 1 0 pickled", delay=1000)
    change_to_pickle(url, handle.id, Mark(mark))
    status = handle.status
    assert (status.state, status.error) == ("failed", "its row in the queue is not JSON and was not read")
    assert handle.id in {one.id for one in client.runs()}
    client._dbos.set_workflow_delay(handle.id, delay_seconds=0)
    with pytest.raises(RunError, match="not JSON"):
        handle.result(LONG)
    wait_until(lambda: client.workflows(handle.id)[0].status == "ERROR")  # the worker has had it
    assert not mark.exists()


class Mark:
    """Makes a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def change_to_pickle(url: str, run: str, value: object) -> None:
    """Change the row of a run as somebody can who may write the database."""
    text = base64.b64encode(pickle.dumps({"args": (value,), "kwargs": {}})).decode()
    where = f"WHERE workflow_uuid = '{run}'"
    if url.startswith("postgresql"):
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(f"UPDATE dbos.workflow_input SET inputs = '{text}' {where}")
            connection.execute(f"UPDATE dbos.workflow_status SET serialization = 'py_pickle' {where}")
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///") + "-queue")) as file, file:
            file.execute(f"UPDATE workflow_input SET inputs = '{text}' {where}")
            file.execute(f"UPDATE workflow_status SET serialization = 'py_pickle' {where}")


def check_deletion(client, url) -> None:
    secrets = ("sesame0", "sesame1", "sesame2", "sesame3", "sesame4")
    done = client.submit("agent", "effect 1 0 sesame0", id="deleted_one", key="ada")
    done.result(LONG)
    failed = client.submit("agent", "fail 1 0 sesame1", attempts=1)
    with pytest.raises(RunError):
        failed.result(LONG)
    failed.retry()
    with pytest.raises(RunError):
        failed.result(LONG)
    paused = client.submit("agent", "ask 1 0 sesame2")
    with pytest.raises(Paused):
        paused.result(LONG)
    cancelled = client.submit("agent", "effect 1 0 sesame3", delay=1000)
    cancelled.stop()
    client.schedule("once", "* * * * * *", "agent", "effect 0 0 sesame4")
    wait_until(lambda: any(one.state == "finished" for one in client.runs() if one.query.endswith("sesame4")))
    client.unschedule("once")
    waiting = client.submit("agent", "effect 1 0 waits", delay=1000)
    running = client.submit("agent", "effect 5000 3 works")
    wait_until(lambda: running.status.state == "running" and running.id in {run.id for run in runs(url)})
    assert all(found_in_tables(url, label) for label in secrets)
    delete(done.id, store=url)
    assert not found_in_tables(url, "sesame0")
    with pytest.raises(ConversationBusy, match=r"in progress|is queued for workers"):
        delete(running.id, store=url)
    prune(0, store=url)
    assert not [label for label in secrets[:4] if found_in_tables(url, label)]

    def is_removed() -> bool:  # a worker submits runs of the schedule until it sees that the schedule is removed
        prune(0, store=url)
        return not found_in_tables(url, secrets[4])

    wait_until(is_removed)
    assert (waiting.status.state, waiting.status.query) == ("queued", "effect 1 0 waits")
    assert (running.status.state, running.status.query) == ("running", "effect 5000 3 works")
    running.stop()
    for handle in (done, failed, paused, cancelled):
        assert handle.status.state == "deleted"
    with pytest.raises(RunError, match="run deleted_one is deleted"):
        client.submit("agent", "effect 1 0 sesame0", id="deleted_one").result(LONG)
    with pytest.raises(RunError, match="is deleted: only a"):
        paused.approve()
    with pytest.raises(RunError, match="is deleted: only a"):
        failed.retry()
    assert not [label for label in secrets if found_in_tables(url, label)]


def found_in_tables(url: str, label: str) -> list[str]:
    """Return the tables of both schemas, or of both files, that have the text in any row."""
    if url.startswith("postgresql"):
        with closing(psycopg.connect(url)) as connection:
            sql = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('agentkit', 'dbos')"
            names = [f"{schema}.{table}" for schema, table in connection.execute(sql).fetchall()]
            assert len(names) > 15
            rows = {name: connection.execute(f"SELECT t::text FROM {name} t").fetchall() for name in names}
    else:
        rows = {}
        for path in (url.removeprefix("sqlite:///"), url.removeprefix("sqlite:///") + "-queue"):
            with closing(sqlite3.connect(path)) as file:
                for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    rows[f"{path}.{name}"] = file.execute(f"SELECT * FROM {name}").fetchall()
    return [name for name, found in rows.items() if label in str(found)]


def check_schedule(client) -> None:
    client.schedule("tick", "* * * * * *", "agent", "effect 0 0 tick")
    assert client.schedules() == {"tick": "* * * * * *"}
    wait_until(lambda: sum(status.query.endswith("tick") for status in client.runs()) >= 2)
    client.unschedule("tick")
    with pytest.raises(RunError, match="Invalid cron"):
        client.schedule("tick", "never", "agent", "effect 0 0 tick")


def check_batch(url) -> None:
    import worker_app

    found = worker_app.agent.map([f"effect 1 0 m{number}" for number in range(5)], workers=url)
    assert [result.answer for result in found] == [f"done m{number}" for number in range(5)]
    assert found[0].usage.cost == pytest.approx(0.002)
    failed, empty, done = asyncio.run(
        worker_app.agent.amap(["delete 1 0 m", " ", "effect 1 0 n"], workers=Workers(url))
    )
    assert isinstance(failed, Paused)
    assert isinstance(empty, RunError)
    assert done.answer == "done n"
    assert {run.state for run in runs(url) if run.query.startswith("effect 1 0 m")} == {"finished"}
