"""What only a server can do: restart, lose connections, be asked by other processes, and have older tables."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import pytest
from network import Network, Pooler
from stores import shorten_waits
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, Session, tool
from agentkit.journal import Journal, JournalError, prune, runs, show
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.postgres import PostgresStore
from agentkit.sessions.journal.sqlite import SCHEMA_VERSION
from agentkit.sessions.journal.store import LeaseLost
from agentkit.testing import ScriptedModel, answer, call

pytestmark = pytest.mark.integration
END_CONNECTIONS = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{}'"


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def booking(made: list[str], during=lambda place: None):
    @tool(effect="write")
    def book(place: str) -> str:
        """Books a place."""
        during(place)
        made.append(place)
        return f"booked {place}"

    return book


def bookings(number: int) -> list:
    return [*[call("book", place=str(place)) for place in range(number)], answer("done")]


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["crash", "fast"])
def test_a_database_that_restarts_in_the_middle_does_not_end_the_run(world, postgres_server, postgres_url, how):
    made: list[str] = []

    def restart(place):
        if place == "2":
            postgres_server.stop(how)
            postgres_server.start()

    agent = JsonAgent(booking(made, restart), model=ScriptedModel(*bookings(5)), journal=postgres_url)
    result = world.run(agent, "Go")
    assert (result.answer, made) == ("done", list("01234"))
    assert [run.state for run in runs(postgres_url)] == ["finished"]
    assert show(result.run_id, store=postgres_url).messages == result.messages


def test_the_first_connection_is_tried_as_long_as_a_lost_one(world, postgres_server, postgres_url, monkeypatch):
    shorten_waits(monkeypatch, HANGS)
    postgres_server.stop()
    starter = threading.Timer(0.5, postgres_server.start)
    starter.start()
    try:
        made: list[str] = []
        agent = JsonAgent(booking(made, lambda _: None), model=ScriptedModel(*bookings(2)), journal=postgres_url)
        assert world.run(agent, "Go").answer == "done"
        assert made == list("01")
        assert [run.state for run in runs(postgres_url)] == ["finished"]
    finally:
        starter.join()


def test_a_refusal_of_the_first_connection_is_raised_at_once(postgres_url, monkeypatch):
    shorten_waits(monkeypatch, HANGS)
    with pytest.raises(JournalError, match="does not exist"):
        runs(f"{postgres_url}_other")


def test_a_database_that_is_away_for_long_refuses_effects_and_is_waited_for_once(
    postgres_server, postgres_url, monkeypatch
):
    made: list[str] = []

    def stop(place):
        if place == "1":
            postgres_server.stop()

    book = booking(made, stop)
    agent = JsonAgent(book, model=ScriptedModel(*bookings(5)), journal=postgres_url, limits=None)
    with monkeypatch.context() as patched:
        shorten_waits(patched, 0.5)
        try:
            result = agent.run("Go")
        finally:
            postgres_server.start()
    assert (result.answer, made) == ("done", ["0", "1"])
    assert sum("NotRecorded" in str(message["content"]) for message in result.messages) == 3


def test_a_lost_connection_is_made_again_and_keeps_the_lease(world, postgres_server, postgres_url):
    made: list[str] = []

    def cut(place):
        postgres_server.execute(END_CONNECTIONS.format(name_of(postgres_url)))

    result = world.run(JsonAgent(booking(made, cut), model=ScriptedModel(*bookings(3)), journal=postgres_url), "Go")
    assert (result.answer, made) == ("done", ["0", "1", "2"])
    assert show(result.run_id, store=postgres_url).messages == result.messages


def test_a_connection_that_is_lost_inside_a_transaction_is_made_again(postgres_server, postgres_url):
    """Cut 80 times, about ten connections seem open although the server has ended them."""
    ended = threading.Event()

    def cut() -> None:
        for _ in range(80):
            time.sleep(random.uniform(0.05, 0.1))
            postgres_server.execute(END_CONNECTIONS.format(name_of(postgres_url)))
        ended.set()

    with opened_store(postgres_url) as store:
        cutting = threading.Thread(target=cut)
        cutting.start()
        try:
            while not ended.is_set():
                sql = "INSERT INTO setups VALUES (?, ?) ON CONFLICT DO NOTHING"
                store.execute([(sql, (f"{number}", "x" * 2000)) for number in range(5)])
        finally:
            cutting.join()
        assert store.read("SELECT count(*) FROM setups") == [(5,)]


@pytest.mark.parametrize("is_released", [False, True])
def test_a_run_whose_lease_another_process_took_writes_nothing_more(world, postgres_server, postgres_url, is_released):
    """As after a freeze for longer than the server waits for a connection."""
    made: list[str] = []
    thieves: list[PostgresStore] = []

    def steal(place):
        if place != "1":
            return
        postgres_server.execute(END_CONNECTIONS.format(name_of(postgres_url)))
        thief = PostgresStore(postgres_url)
        thieves.append(thief)
        lease = thief.take(thief.read("SELECT conversation FROM runs")[0][0])
        thief.execute([("UPDATE conversations SET state = '{}'", ())], lease)
        if is_released:
            lease.release()

    agent = JsonAgent(booking(made, steal), model=ScriptedModel(*bookings(4)), journal=postgres_url)
    with pytest.raises(LeaseLost, match="another process has worked on the conversation"):
        world.run(agent, "Go")
    (thief,) = thieves
    assert made == ["0", "1"], "no effect after the lease was lost"
    steps = thief.read("SELECT step, call, ended IS NULL FROM steps ORDER BY step, call")
    assert [(step, unended) for step, call, unended in steps if call] == [(1, False), (2, True)]
    thief.close()


FROZEN = """
import sys
from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call
@tool(effect="write")
def book(place: str) -> str:
    'Books a place.'
    print("book", place, flush=True)
    if place == "1":
        sys.stdin.readline()
    return place
script = [call("book", place=str(place)) for place in range(4)]
JsonAgent(book, model=ScriptedModel(*script, answer("done")), journal=sys.argv[1]).run("Go")
"""


def test_a_process_that_was_frozen_past_its_lease_writes_nothing(postgres_server, postgres_url):
    worker = subprocess.Popen(
        [sys.executable, "-c", FROZEN, postgres_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert [worker.stdout.readline() for _ in range(2)] == ["book 0\n", "book 1\n"]
        worker.send_signal(signal.SIGSTOP)
        (run,) = runs(postgres_url)
        assert run.state == "running"
        with pytest.raises(JournalError, match=rf"in progress: process {worker.pid} on {socket.gethostname()}, since"):
            Session.resumed(run.id, postgres_url)
        postgres_server.execute(END_CONNECTIONS.format(name_of(postgres_url)))  # the server gives the worker up
        made: list[str] = []
        agent = JsonAgent(booking(made), model=ScriptedModel(answer("went on")), journal=postgres_url)
        assert agent.resume(run.id).answer == "went on"
        worker.send_signal(signal.SIGCONT)
        rest, errors = worker.communicate("\n")
        assert (worker.returncode, rest) == (1, "")
        assert "LeaseLost" in errors
        assert [(run.state, run.answer) for run in runs(postgres_url)] == [("finished", "went on")]
        result = [
            message["content"] for message in show(run.id, store=postgres_url).messages if message["role"] == "tool"
        ]
        assert result[1].startswith("OutcomeUnknown")
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout, worker.stderr):
            pipe.close()


def test_a_network_that_is_cut_and_back_costs_no_lease(world, postgres_server, postgres_url):
    """The server still holds the lock of the lost connection, which the new one ends."""
    made: list[str] = []
    with closing(Network(postgres_server.port)) as network:
        url = network.url(postgres_url)

        def cut(place):
            if place == "1":
                network.cut()
                threading.Timer(0.5, network.join).start()

        result = world.run(JsonAgent(booking(made, cut), model=ScriptedModel(*bookings(4)), journal=url), "Go")
        assert (result.answer, made) == ("done", list("0123"))
        assert [run.state for run in runs(url)] == ["finished"]


def test_a_pooler_that_shares_its_connections_is_refused(postgres_server, postgres_url):
    """It gives the lock of a client that has left to the next one, so that the leases of a dead process stay."""
    with closing(Pooler(postgres_server.port)) as pooler:
        url = f"{pooler.url(postgres_url)}?sslmode=disable&gssencmode=disable"
        with pytest.raises(JournalError, match="a pooler gives the connections of one client to another"):
            runs(url)


def test_a_lease_is_kept_where_the_server_ends_idle_connections(postgres_server, postgres_url):
    postgres_server.execute(f"ALTER DATABASE {name_of(postgres_url)} SET idle_session_timeout = '1s'")
    try:
        with closing(PostgresStore(postgres_url)) as store:
            (backend,) = store.read("SELECT pg_backend_pid()")
            time.sleep(2)
            assert store.read("SELECT pg_backend_pid()") == [backend]
    finally:
        postgres_server.execute(f"ALTER DATABASE {name_of(postgres_url)} RESET idle_session_timeout")


def test_a_statement_timeout_of_the_server_is_named(postgres_server, postgres_url):
    postgres_server.execute(f"ALTER DATABASE {name_of(postgres_url)} SET statement_timeout = '1s'")
    try:
        with closing(PostgresStore(postgres_url)) as store, pytest.raises(JournalError, match="gives more time"):
            store.read("SELECT pg_sleep(600)")
    finally:
        postgres_server.execute(f"ALTER DATABASE {name_of(postgres_url)} RESET statement_timeout")


def test_the_event_loop_runs_while_the_database_is_away(postgres_server, postgres_url, monkeypatch):
    shorten_waits(monkeypatch, HANGS)

    async def main():
        stopped = asyncio.Event()

        async def restart(place: str) -> str:
            """Restarts the server."""
            postgres_server.stop()
            stopped.set()
            return place

        script = [call("restart", place="x"), call("restart_not", place="y"), answer("done")]
        run = asyncio.ensure_future(JsonAgent(restart, model=ScriptedModel(*script), journal=postgres_url).arun("Go"))
        await stopped.wait()
        await asyncio.sleep(1)  # which a blocked loop would not end
        assert not run.done()
        await asyncio.to_thread(postgres_server.start)
        return (await run).answer

    assert asyncio.run(main()) == "done"


def test_two_processes_on_one_session_are_refused(postgres_url):
    entered = threading.Event()
    leave = threading.Event()

    def wait(place):
        entered.set()
        leave.wait(60)

    agent = JsonAgent(
        booking([], wait), model=ScriptedModel(call("book", place="x"), answer("done")), journal=postgres_url
    )
    thread = threading.Thread(target=lambda: agent.run("Go", session=Session.open("ada", postgres_url)))
    thread.start()
    code = (
        "import sys\nfrom agentkit import JsonAgent, Session\nfrom agentkit.journal import JournalError\n"
        "from agentkit.testing import ScriptedModel, answer\n"
        "def look() -> str:\n    'Looks.'\n    return 'x'\n"
        "agent = JsonAgent(look, model=ScriptedModel(answer('mine')), journal=sys.argv[1])\n"
        "try:\n    print(agent('Hello', session=Session.open('ada', sys.argv[1])))\n"
        "except JournalError as error:\n    print(error)\n"
    )
    try:
        assert entered.wait()
        other = subprocess.run([sys.executable, "-c", code, postgres_url], capture_output=True, text=True, check=True)
        assert f"is in progress: process {os.getpid()} on " in other.stdout
    finally:
        leave.set()
        thread.join()
    other = subprocess.run([sys.executable, "-c", code, postgres_url], capture_output=True, text=True, check=True)
    assert other.stdout == "mine\n"
    roles = [message["role"] for message in Session.open("ada", postgres_url).messages]
    assert roles.count("user") == 2


def test_the_tables_are_made_once_and_a_newer_version_is_refused(postgres_url):
    stores: list[PostgresStore] = []
    threads = [threading.Thread(target=lambda: stores.append(PostgresStore(postgres_url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    assert stores[0].read("SELECT max(number) FROM version") == [(SCHEMA_VERSION,)]
    stores[0].execute([("INSERT INTO version VALUES (?)", (SCHEMA_VERSION + 1,))])
    for store in stores:
        store.close()
    with pytest.raises(JournalError, match="Update agentkit"):
        PostgresStore(postgres_url)


def test_a_schema_that_an_administrator_has_created_is_used(postgres_server, postgres_url):
    """By a user without the right to create one."""
    postgres_server.execute("CREATE ROLE clerk LOGIN")
    name = postgres_url.rpartition("/")[2]
    url = postgres_url.replace("agentkit@", "clerk@")
    with pytest.raises(JournalError, match="or an administrator creates it for the user"), opened_store(url):
        pass
    postgres_server.execute("CREATE SCHEMA agentkit AUTHORIZATION clerk", name)
    with opened_store(url):
        assert runs(url) == []
    postgres_server.execute("DROP OWNED BY clerk CASCADE", name)
    postgres_server.execute("DROP ROLE clerk")


def test_the_first_tables_are_brought_up_to_date(postgres_url):
    agent = JsonAgent(booking([]), model=ScriptedModel(*bookings(1), answer("done")), journal=postgres_url)
    before = agent.run("Go")
    store = PostgresStore(postgres_url)
    old = (
        "ALTER TABLE cut DROP COLUMN digest",
        "ALTER TABLE conversations DROP COLUMN title",
        "ALTER TABLE conversations DROP COLUMN tags",
        "DROP TABLE spending",
        "DROP TABLE leases",
        "CREATE TABLE leases (conversation bigint PRIMARY KEY, token bigint, holder text, since text)",
        "INSERT INTO leases SELECT id, 1, 'process 1', 'then' FROM conversations",
        "DELETE FROM version",
        "INSERT INTO version VALUES (1)",
    )
    store.execute([(statement, ()) for statement in old])
    store.close()
    store = PostgresStore(postgres_url)
    assert store.read("SELECT max(number) FROM version") == [(SCHEMA_VERSION,)]
    store.close()
    assert agent.resume(before.run_id).answer == "done"
    assert agent.run("Again").answer == "done"
    assert len(runs(postgres_url)) == 2


def test_characters_that_the_server_cannot_store_come_back(postgres_url):
    odd = "a\0b\ue000c\ue0000\ue0001%s?"
    agent = JsonAgent(booking([]), model=ScriptedModel(call("book", place=odd), answer(odd)), journal=postgres_url)
    result = agent.run(f"Go {odd}")
    (run,) = runs(postgres_url)
    assert (run.query, run.answer) == (f"Go {odd}", odd)
    assert agent.resume(run.id).answer == odd
    assert show(run.id, store=postgres_url).messages == result.messages


def test_many_runs_are_listed_and_pruned_in_little_time(postgres_url):
    before = time.time()
    JsonAgent(booking([]), model=ScriptedModel(*bookings(1)), journal=postgres_url).run("Go")
    with opened_store(postgres_url) as store:
        numbers = "generate_series(1, 10000) AS n"
        store.execute(
            [
                (f"INSERT INTO messages SELECT n, place, body, digest FROM messages, {numbers}", ()),
                (f"INSERT INTO conversations SELECT n, NULL, state FROM conversations, {numbers}", ()),
                (
                    "INSERT INTO runs SELECT id || n, n, query, model, setup, first, begun - n, ended - n, status, "
                    f"outcome, origin, last FROM runs, {numbers}",
                    (),
                ),
                (
                    "INSERT INTO steps SELECT run || n, step, call, name, input, arguments, begun - n, ended - n, outcome, "
                    f"NULL FROM steps, {numbers}",
                    (),
                ),
            ]
        )

    def seconds(limit: int) -> float:
        start = time.perf_counter()
        assert len(runs(postgres_url, limit=limit)) == min(limit, 10_001)
        return time.perf_counter() - start

    newest, thousand, listing = (min(seconds(limit) for _ in range(2)) for limit in (20, 1_000, 20_000))
    pruned = prune(9_900 / 86_400, store=postgres_url)
    assert 100 <= pruned <= 101 + time.time() - before, "the oldest ended 10,000 seconds before the newest"
    print(f"10,001 runs: {listing:.2f} s, newest 20: {newest:.3f} s")
    assert newest < listing
    assert listing < 40 * thousand, "linear: 10 times as long; quadratic: 100 times"


def test_a_url_of_another_kind_is_refused(tmp_path):
    with pytest.raises(DefinitionError, match="begins with postgresql://"):
        Journal("mysql://localhost/x")


def test_a_server_that_is_away_is_named_without_the_password():
    with pytest.raises(JournalError) as caught:
        runs("postgresql://me:hunter2secret@127.0.0.1:1/none")
    assert "postgresql://me:***@127.0.0.1:1/none" in str(caught.value)
    assert "The server must be running" in str(caught.value)
    assert "hunter2secret" not in str(caught.value)
