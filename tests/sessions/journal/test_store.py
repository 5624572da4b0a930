"""What a store and its leases survive: other stores of the same file, other users, forks, lost connections."""

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import pytest
from stores import in_databases, patch_append, shorten_waits
from waiting import wait_until

from agentkit.sessions.journal.connections import open_store, opened_store
from agentkit.sessions.journal.store import ConversationBusy, JournalError

ADD_ROW = ("INSERT INTO setups VALUES (?, '')", ("a",))
ADD_ELSEWHERE = """
import sys
from agentkit.sessions.journal.connections import opened_store
with opened_store(sys.argv[1]) as store:
    store.execute([("INSERT INTO setups VALUES (?, '')", (sys.argv[2],))])
    print(*sorted(key for (key,) in store.read("SELECT id FROM setups")))
"""
LEASE_ELSEWHERE = """
import sys
from agentkit.journal import JournalError
from agentkit.sessions.journal.connections import open_store
for key in sys.argv[2:]:
    try:
        open_store(sys.argv[1]).take(int(key))
        print("taken")
    except JournalError as error:
        print("busy" if "in progress" in str(error) else error)
"""
CHILD_OUTLIVES_PARENT = """
import os, subprocess, sys
from agentkit.sessions.journal.connections import open_store, opened_store
parent = open_store(sys.argv[1])
ended, end = os.pipe()
if os.fork():
    os._exit(0)
os.close(end)
os.read(ended, 1)
add = lambda key: subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1], key], capture_output=True, check=True)
with opened_store(sys.argv[1]) as store:
    add("a")
    store.execute([("INSERT INTO setups VALUES ('b', '')", ())])
    print(add("c").stdout.decode())
"""
CHILD_KEEPS_LOCKS = """
import os, subprocess, sys
from agentkit.sessions.journal.connections import open_store
store = open_store(sys.argv[1])
store.take(7)
for descriptor in map(int, os.listdir("/proc/self/fd")):
    try:
        os.set_inheritable(descriptor, True)
    except OSError:
        pass
subprocess.Popen(["cat"], close_fds=False)
print("taken", flush=True)
sys.stdin.read()
"""
INTERRUPTED = """
import os, random, signal, subprocess, sys, threading
from contextlib import suppress
from agentkit.sessions.journal.connections import opened_store
is_armed = False
def interrupt(*_):
    global is_armed
    if is_armed:
        is_armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
add = [("INSERT INTO setups VALUES ('a', '') ON CONFLICT DO NOTHING", ())] * 2
pauses = random.Random(1)
with opened_store(sys.argv[1]) as store:
    for _ in range(300):
        timer = threading.Timer(pauses.uniform(0.001, 0.01), os.kill, (os.getpid(), signal.SIGINT))
        with suppress(KeyboardInterrupt):
            is_armed = True
            timer.start()
            while is_armed:
                store.execute(add)
                store.read_together(lambda: store.read("SELECT count(*) FROM setups"))
        timer.join()
    store.execute(add)
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1], "b"], check=True)
"""
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def elsewhere(code: str, *words: object) -> str:
    """The output of a program in a process of its own."""
    program = [sys.executable, "-W", "ignore", "-c", code, *map(str, words)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def in_child(action) -> bool:
    """Whether an action in a forked process returns true, and does not hang."""
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        with suppress(BaseException):
            os._exit(0 if action() else 1)
        os._exit(2)
    return os.waitpid(child, 0)[1] == 0


class TestFiles:
    def test_a_second_store_of_a_file_leaves_the_locks_of_the_first(self, file):
        """Without them the last user elsewhere removes the write-ahead log, and what is written then is lost."""
        with opened_store(file) as store:
            with opened_store(file, "full"):
                pass
            elsewhere(ADD_ELSEWHERE, file, "a")
            store.execute([("INSERT INTO setups VALUES ('b', '')", ())])
            assert elsewhere(ADD_ELSEWHERE, file, "c") == "a b c"

    def test_a_forked_process_has_locks_of_its_own(self, file):
        assert elsewhere(CHILD_OUTLIVES_PARENT, file, ADD_ELSEWHERE) == "a b c"

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_a_lease_of_a_killed_process_is_awaited_while_its_child_has_the_lock(self, file):
        program = [sys.executable, "-W", "ignore", "-c", CHILD_KEEPS_LOCKS, str(file)]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"taken\n"
            process.kill()
            process.wait()
            with opened_store(file) as store:
                assert store.holder(7)
                end_child = threading.Timer(0.1, process.stdin.close)
                end_child.start()
                store.take(7).release()
                end_child.join()

    def test_a_lease_holds_where_the_journal_is_when_the_folder_changes(self, file, monkeypatch):
        monkeypatch.chdir(file.parent)
        with opened_store(file.name) as store:
            monkeypatch.chdir("/")
            lease = store.take(7)
            assert elsewhere(LEASE_ELSEWHERE, file, 7) == "busy"
            with opened_store(file, "full") as other:
                other.take(8)
                assert store.holder(8)
            lease.release()

    def test_all_users_of_a_journal_see_whether_an_owner_lives(self, file):
        with opened_store(file) as store:
            file.chmod(0o664)
            store.take(7)
            (beside,) = file.parent.glob("runs.db-lease-*")
            assert beside.stat().st_mode & 0o777 == 0o664

    @pytest.mark.parametrize("error", [PermissionError(1, "not yours"), OSError(30, "read-only file system")])
    def test_an_owner_is_dead_although_its_file_cannot_be_removed(self, file, monkeypatch, error):
        def unlink(path):
            raise error

        elsewhere("import os\n" + LEASE_ELSEWHERE + "os._exit(0)", file, 7)
        with opened_store(file) as store:
            with monkeypatch.context() as patched:
                patched.setattr(os, "unlink", unlink)
                assert not store.holder(7)
            assert [*file.parent.glob("runs.db-lease-*")]
            store.take(7)

    def test_an_owner_that_cannot_be_looked_at_is_an_error_of_the_journal(self, file, monkeypatch):
        def refuse(*_):
            raise OSError(24, "Too many open files")

        with opened_store(file) as store, opened_store(file, "full") as other:
            other.take(7)
            with monkeypatch.context() as patched:
                patched.setattr("builtins.open", refuse)
                with pytest.raises(JournalError, match="Too many open files"):
                    store.take(7)


class TestForks:
    @in_databases
    def test_a_child_cannot_write_with_a_lease_of_its_parent(self, path):
        with opened_store(path) as store:
            lease = store.take(7)

            def use() -> bool:
                for action in (lambda: store.execute([ADD_ROW], lease), lambda: store.take(8), lambda: store.read("x")):
                    with suppress(JournalError):
                        action()
                        return False
                lease.release()
                return True

            assert in_child(use)
            assert not lease.is_lost
            store.execute([ADD_ROW], lease)
            assert elsewhere(LEASE_ELSEWHERE, path, 7, 8) == "busy\ntaken"
            lease.release()

    @in_databases
    def test_a_child_can_end_what_another_thread_was_using(self, path):
        entered = threading.Event()

        def read() -> None:
            entered.set()
            time.sleep(0.3)

        def use() -> None:
            store.read_together(read)

        def end() -> bool:
            lease.release()
            with opened_store(path) as own:
                return own.holder(7)

        with opened_store(path) as store:
            lease = store.take(7)
            thread = threading.Thread(target=use)
            thread.start()
            entered.wait()
            assert in_child(end)
            thread.join()
            store.execute([ADD_ROW], lease)
            lease.release()


class TestInterrupts:
    @in_databases
    def test_an_interrupt_at_any_moment_leaves_no_transaction_open(self, path):
        assert elsewhere(INTERRUPTED, path, ADD_ELSEWHERE) == "a b"

    @in_databases
    def test_a_lease_that_was_written_before_an_interrupt_is_free(self, path, monkeypatch):
        def interrupt(write, store, statements):
            write(statements)
            if "INTO leases" in statements[-1][0]:
                raise KeyboardInterrupt

        with opened_store(path) as store:
            lease = store.take(6)
            with monkeypatch.context() as patched:
                patch_append(patched, interrupt)
                with pytest.raises(KeyboardInterrupt):
                    store.take(7)
            assert elsewhere(LEASE_ELSEWHERE, path, 7) == "taken"
            lease.release()

    def test_a_store_can_be_closed_while_the_thread_opens_another(self, tmp_path, monkeypatch):
        """As when the garbage collector ends an abandoned run."""
        abandoned = opened_store(tmp_path / "first.db")
        abandoned.__enter__()
        cycle = [abandoned]
        cycle.append(cycle)
        connect = sqlite3.connect

        def collect(*args, **options):
            gc.collect()
            return connect(*args, **options)

        def use() -> None:
            with opened_store(tmp_path / "second.db"):
                pass

        monkeypatch.setattr(sqlite3, "connect", collect)
        del abandoned, cycle
        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join()
        assert not thread.is_alive()


@pytest.mark.integration
class TestConnections:
    @pytest.mark.parametrize("losses", [1, 2])
    def test_a_connection_that_is_lost_at_any_statement_costs_no_lease(
        self, postgres_server, postgres_url, monkeypatch, losses
    ):
        import psycopg

        execute = psycopg.Connection.execute
        count = 0
        lost = 0

        def losing(connection, *arguments, **options):
            nonlocal count
            if connection.info.parameter_status("application_name") == "agentkit":
                count += 1
                if lost <= count < lost + losses:
                    postgres_server.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 9000)")
            return execute(connection, *arguments, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", losing)
        with opened_store(postgres_url) as store, opened_store(postgres_url, "full") as other:
            held = store.take(1)
            for lost in range(1, 100):
                count = 0
                lease = None
                with suppress(ConversationBusy if losses == 1 else JournalError):
                    lease = store.take(7)
                    store.execute([("INSERT INTO setups VALUES (?, '') ON CONFLICT DO NOTHING", ("a",))] * 2, lease)
                if count < lost:
                    lease.release()
                    break
                assert losses == 2 or lease is not None, lost
                total = count
                count = -1000
                store.execute([], held)
                assert not held.is_lost, lost
                if lease is not None:
                    assert other.holder(7), lost
                    lease.release()
                store.take(9).release()
                assert not other.holder(7), lost
            assert total > 4
            with pytest.raises(ConversationBusy):
                other.take(1)
            held.release()

    def test_a_connection_without_its_leases_is_not_used(self, postgres_server, postgres_url, monkeypatch):
        import psycopg

        shorten_waits(monkeypatch, 0.3)
        with opened_store(postgres_url) as store, opened_store(postgres_url, "full") as other:
            lease = store.take(7)
            with closing(psycopg.connect(postgres_url)) as locking:
                postgres_server.execute(
                    f"SELECT pg_terminate_backend({store._connection._connection.info.backend_pid}, 9000)"
                )
                locking.execute("LOCK TABLE agentkit.leases IN SHARE MODE")
                with pytest.raises(JournalError, match="lock timeout"):
                    store.execute([ADD_ROW], lease)
                locking.rollback()  # the server notices a closed connection some time later
            store.execute([ADD_ROW], lease)
            assert other.holder(7)
            lease.release()

    def test_a_store_that_was_shut_makes_no_connection(self, postgres_url):
        store = open_store(postgres_url)
        lease = store.take(7)
        store.close()
        lease.release()
        with pytest.raises(JournalError, match="was closed"):
            store.take(7)
        with opened_store(postgres_url) as other:
            counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentkit'"
            wait_until(lambda: other.read(counted) == [(1,)])
            other.take(7).release()
