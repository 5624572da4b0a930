"""Workers on a real PostgreSQL: processes that are killed, frozen and upgraded, and a database that restarts."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import closing, suppress

import psycopg
import pytest
from dbos._migration import get_dbos_migrations
from dbos_workers import check_effects, wait_until

from agentkit import Paused, RunError, RunStopped
from agentkit.dbos import Client, Workers
from agentkit.journal import runs, show

RUNS, STEPS = int(os.environ.get("AGENTKIT_WORKER_RUNS", "24")), int(os.environ.get("AGENTKIT_WORKER_STEPS", "8"))
"""`make workers` sets 200 and 20."""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(180 if RUNS < 100 else 1800)]


def test_killed_workers_repeat_nothing_and_lose_nothing(client, start, effects):
    workers = [start("--concurrency", "6"), start("--concurrency", "6")]
    handles = [client.submit("agent", f"effect {STEPS} 0.02 r{number}") for number in range(RUNS)]
    for worker in workers:
        worker.wait_ready()
    generator, killed = random.Random(7), 0
    while len(effects()) < RUNS * STEPS * 0.7 and killed < RUNS // 8:
        time.sleep(generator.uniform(0.5, 2.5))
        place = generator.randrange(2)
        workers[place].kill()
        killed += 1
        workers[place] = start("--concurrency", "6").wait_ready()
    for handle in handles:
        handle.result(timeout=900)
    in_doubt = check_effects(effects(), [handle.status for handle in handles], STEPS)
    print(f"{RUNS} runs of {STEPS} steps, {killed} workers killed, {in_doubt} calls in doubt")
    assert killed


def test_a_database_that_restarts_in_the_middle_loses_nothing(client, start, effects, postgres_server):
    start().wait_ready()
    handles = [client.submit("agent", f"effect 6 0.2 d{number}") for number in range(4)]
    wait_until(lambda: len(effects()) > 4)
    postgres_server.stop()
    time.sleep(1)
    postgres_server.start()
    for handle in handles:
        assert handle.result(timeout=60) == f"done {handle.status.query.split()[3]}"
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


def test_a_frozen_worker_writes_nothing_when_it_wakes(client, start, effects, url):
    workers = [start(), start()]
    for worker in workers:
        worker.wait_ready()
    handle = client.submit("agent", "effect 4 0.5 z")
    wait_until(lambda: len(effects()) == 1)
    (frozen,) = (worker for worker in workers if f"-{worker.process.pid}-" in handle.status.worker)
    frozen.signal(signal.SIGSTOP)
    assert handle.result(timeout=60) == "done z"
    before = show(handle.id, store=url).messages
    frozen.signal(signal.SIGCONT)
    assert frozen.process.wait(60) == 75
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
    handle = client.submit("agent", "effect 4 0.5 v")
    wait_until(lambda: len(effects()) == 1)
    (first,) = (worker for worker in workers if f"-{worker.process.pid}-" in handle.status.worker)
    (second,) = (worker for worker in workers if worker is not first)
    first.kill()
    wait_until(lambda: f"-{second.process.pid}-" in handle.status.worker)
    assert handle.result(timeout=60) == "done v"
    assert any("instruction" in change for change in handle.status.changes)
    check_effects(effects(), [handle.status], 4)


def test_a_worker_that_is_told_to_end_finishes_its_runs(client, start, effects):
    worker = start("--concurrency", "1").wait_ready()
    handle, queued = (client.submit("agent", f"effect 3 0.4 {label}") for label in ("t", "u"))
    wait_until(lambda: len(effects()) == 1)
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    assert (handle.result(timeout=0), queued.status.state) == ("done t", "queued")
    assert handle.status.in_doubt == ()


def test_limits_of_keys_hold(client, start):
    start("--per-key", "1", "--rate", "5/2").wait_ready()
    handles = [client.submit("agent", f"effect 2 0.3 {key}{number}", key=key) for key in "ab" for number in range(3)]
    most, seen = Counter(), set()
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
    most, seen = 0, Counter()
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
        handle.result(timeout=60)
    assert handle.status.state == "dead"
    assert sum(worker.process.poll() is not None for worker in workers) == 2
    assert [status.id for status in client.runs(state="dead")] == [handle.id]


def test_one_worker_does_all_the_rest(client, start, effects, url):
    """One worker for what needs no death: keys, ids, sessions, decisions, events, batches, schedules."""
    start("--concurrency", "2").wait_ready()
    check_keys_take_turns(client)
    check_ids(client, effects)
    check_priorities(client)
    check_decisions(client, effects)
    check_stop(client, effects)
    check_failure_and_retry(client)
    check_events(client)
    check_sessions(client, url)
    check_schedule(client)
    check_batch(url)


def check_keys_take_turns(client) -> None:
    crowd = [client.submit("agent", f"effect 1 0.1 a{number}", key="crowd") for number in range(200)]
    one = client.submit("agent", "effect 1 0.1 b", key="one")
    assert one.result(timeout=60) == "done b"
    waiting = [status for status in client.states(handle.id for handle in crowd) if status.state == "queued"]
    assert len(waiting) > 100
    for handle in crowd:
        with suppress(RunError):
            handle.stop()


def check_ids(client, effects) -> None:
    first = client.submit("agent", "effect 1 0 once", id="order_17")
    assert client.submit("agent", "effect 1 0 twice", id="order_17").result(60) == first.result(60) == "done once"
    assert effects().count("once/0") == 1
    assert not [label for label in effects() if label.startswith("twice")]
    with pytest.raises(RunError, match="id: 'a~1' is not the id of a run"):
        client.submit("agent", "effect 1 0 x", id="a~1")


def check_priorities(client) -> None:
    late = [client.submit("agent", f"effect 1 0.2 p{number}") for number in range(12)]
    first = client.submit("agent", "effect 1 0.2 urgent", priority=1)
    first.result(60)
    assert sum(status.state == "queued" for status in client.states(handle.id for handle in late)) >= 4
    for handle in late:
        handle.result(60)


def check_decisions(client, effects) -> None:
    handle = client.submit("agent", "delete 1 0 file")
    with pytest.raises(Paused) as caught:
        handle.result(60)
    assert [call.name for call in caught.value.calls] == ["delete"]
    assert handle.status.state == "paused"
    with pytest.raises(RunError, match="nothing waits with the id 'nothing'"):
        handle.approve("nothing")
    assert "file/0" not in effects()
    handle.approve(caught.value.calls[0])
    assert handle.result(60) == "done file"
    assert effects().count("file/0") == 1
    with pytest.raises(RunError, match="is finished: only a paused run"):
        handle.approve("call_0")
    asking = client.submit("agent", "ask 1 0 colour")
    with pytest.raises(Paused) as caught:
        asking.result(60)
    (question,) = caught.value.questions
    assert question.text == "Which colour/0?"
    asking.answer(question, "blue")
    assert asking.result(60) == "done colour"


def check_stop(client, effects) -> None:
    handle = client.submit("agent", "effect 50 0.2 stopped")
    wait_until(lambda: handle.status.state == "running" and "stopped/0" in effects())
    handle.stop()
    with pytest.raises(RunStopped):
        handle.result(60)
    wait_until(lambda: number_of(effects(), "stopped/") == (time.sleep(0.5), number_of(effects(), "stopped/"))[1])
    assert number_of(effects(), "stopped/") < 20


def number_of(made: list[str], label: str) -> int:
    return sum(one.startswith(label) for one in made)


def check_failure_and_retry(client) -> None:
    handle = client.submit("agent", "fail 1 0 f", attempts=2)
    with pytest.raises(RunError, match="2 attempts failed: ModelError: the provider is away"):
        handle.result(60)
    handle.retry()
    with pytest.raises(RunError, match="2 attempts failed"):
        handle.result(60)


def check_events(client) -> None:
    handle = client.submit("agent", "effect 3 0.3 e")
    seen = [(event["event"], time.monotonic()) for event in handle.events()]
    names = [name for name, _ in seen]
    assert (names[0], names[-1]) == ("RunStarted", "RunFinished")
    assert names.count("ToolFinished") == 4  # the answer is a call too
    assert seen[-1][1] - seen[0][1] > 0.5  # they arrived while the run was working

    async def follow():
        return [event["event"] async for event in handle.aevents()]

    assert asyncio.run(follow()) == names


def check_sessions(client, url) -> None:
    handles = [client.submit("agent", f"effect 2 0.1 s{number}", session="mine") for number in range(3)]
    assert {handle.result(60) for handle in handles} == {"done s0", "done s1", "done s2"}
    longest = max((show(handle.id, store=url).messages for handle in handles), key=len)
    assert sum(message["role"] == "user" for message in longest) == 3


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
    failed, done = asyncio.run(worker_app.agent.amap(["delete 1 0 m", "effect 1 0 n"], workers=Workers(url)))
    assert isinstance(failed, Paused)
    assert done.answer == "done n"
    assert {run.state for run in runs(url) if run.query.startswith("effect 1 0 m")} == {"finished"}
