"""A conversation has one holder at a time, in all threads and processes; its lease ends with the process."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from journaled_runs import ADD, add, agent_of, resume, stop_run
from stores import in_databases, patch_append
from waiting import wait_until

from agentkit import JsonAgent, Session
from agentkit.journal import JournalError, delete, runs
from agentkit.sessions.journal.connections import open_store, opened_store
from agentkit.testing import ScriptedModel, answer, call

OPEN = """
import os, signal, sys
from agentkit.sessions.journal.connections import open_store
store = open_store(sys.argv[1])
"""
LEASE_AND_WAIT = f"{OPEN}\nstore.take(7)\nprint('held', flush=True)\nsignal.pause()"
LEASE_MANY_AND_WAIT = f"""{OPEN}
for key in range(100, 200):
    store.take(key)
print("held", flush=True)
signal.pause()
"""
LEASE_AND_FORK = f"""{OPEN}
store.take(100)
if os.fork():
    print("held", flush=True)
signal.pause()
"""
TRY_LEASES = f"""{OPEN}
for key in (7, 8):
    try:
        store.take(key).release()
    except Exception as error:
        print(error)
"""
LIST_LEASES = f"""{OPEN}
store.take(8)
print("held", flush=True)
while True:
    [store.holder(key) for key in (7, *range(100, 200))]
"""
RUN_TEN_TIMES = """
import sys
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

for _ in range(10):
    JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), answer("3")), journal=sys.argv[1])("Go")
"""


@contextmanager
def holder(code, path):
    """Run a program that prints "held"; yields the process, and ends it and what it started."""
    program = [sys.executable, "-W", "ignore", "-c", code, path]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def kill(process):
    """Kill a process, and wait for its end."""
    process.kill()
    process.wait()


class TestRuns:
    """Runs of threads and of processes in one journal."""

    def test_a_run_has_one_holder(self, path):
        entered = threading.Event()
        leave = threading.Event()

        def wait() -> str:
            """Waits."""
            entered.set()
            leave.wait(60)
            return "waited"

        agent = agent_of(path, call("wait"), answer("ok"), tools=[wait])
        thread = threading.Thread(target=agent, args=("Go",))
        thread.start()
        try:
            assert entered.wait()
            (run,) = runs(path)
            assert (run.state, run.last) == ("running", "calling wait")
            with pytest.raises(JournalError, match="is in progress"):
                agent_of(path, tools=[wait]).resume(run.id)
            with pytest.raises(JournalError, match="in progress"):
                delete(run.id, store=path)
        finally:
            leave.set()
            thread.join()
        assert runs(path)[0].state == "finished"

    def test_a_session_that_was_continued_elsewhere_is_refused(self, world, path):
        run_id = stop_run(world, path, ADD)
        late = Session.resumed(run_id, path)
        resume(world, agent_of(path, answer("3")), run_id)
        with pytest.raises(JournalError, match="continued elsewhere"):
            world.run(agent_of(path), None, session=late)

    def test_threads_share_a_journal(self, path):
        def go(number):
            return JsonAgent(add, model=ScriptedModel(ADD, answer(str(number))), journal=path)("Go")

        answers = []
        threads = [threading.Thread(target=lambda n=n: answers.append(go(n))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [str(n) for n in range(8)]
        assert [run.state for run in runs(path)] == ["finished"] * 8

    def test_processes_share_a_journal(self, path):
        program = [sys.executable, "-c", RUN_TEN_TIMES, path]
        both = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for child in both:
            assert child.communicate()[1] == ""
            assert child.returncode == 0
        assert [run.state for run in runs(path)] == ["finished"] * 20


class TestLeases:
    """The lease of a store."""

    def test_a_lease_ends_with_the_process_that_holds_it(self, path):
        with opened_store(path) as store, holder(LEASE_AND_WAIT, path) as process:
            named = rf"process {process.pid}( on [\w.-]+)?, since 20\d\d-"
            with pytest.raises(JournalError, match=rf"in progress: {named}.*Wait until"):
                store.take(7)
            store.take(8).release()
            assert store.holder(7)
            assert not store.holder(8)
            kill(process)
            wait_until(lambda: not store.holder(7))
            lease = store.take(7)
            with pytest.raises(JournalError, match="in progress: this process, since"):
                store.take(7)
            assert store.holder(7)
            lease.release()
            lease.release()
            assert not store.holder(7)

    def test_a_lease_survives_a_copy_of_its_file_inside_the_process(self, file):
        with opened_store(file) as store:
            lease = store.take(7, "run x")
            (held,) = file.parent.glob("runs.db-lease-*")
            shutil.copy(held, file.with_name("copy"))
            held.read_bytes()
            with held.open("rb+"):
                pass
            try:
                program = [sys.executable, "-c", TRY_LEASES, file]
                other = subprocess.run(program, capture_output=True, text=True, check=True)
                assert store.holder(7)
            finally:
                lease.release()
            assert re.fullmatch(rf"the conversation is in progress: process {os.getpid()} on .*\n", other.stdout)
            assert not store.holder(7)

    def test_many_leases_need_one_open_file(self, path):
        with opened_store(path) as store:
            leases = [store.take(1)]
            before = os.dup(0)  # the lowest free number
            os.close(before)
            leases += [store.take(key) for key in range(2, 50)]
            after = os.dup(0)
            os.close(after)
            for lease in leases:
                lease.release()
        assert after == before

    def test_a_process_that_lists_runs_refuses_no_run(self, path):
        with opened_store(path) as store, holder(LEASE_MANY_AND_WAIT, path) as process:
            kill(process)
            with holder(LIST_LEASES, path):
                wait_until(lambda: not store.holder(100))
                for key in (*[7] * 200, *range(100, 200)):
                    store.take(key).release()

    @in_databases
    def test_a_lease_that_could_not_be_removed_refuses_no_run(self, path, monkeypatch):
        def fail(write, store, statements):
            raise JournalError("the disk is full")

        with opened_store(path) as store:
            lease = store.take(7)
            with monkeypatch.context() as patched:
                patch_append(patched, fail)
                lease.release()
                with pytest.raises(JournalError, match="the disk is full"):
                    store.take(8)
            assert not store.holder(7)
            store.take(7).release()
            assert store.read("SELECT * FROM leases") == []


class TestForks:
    """Leases of forked processes."""

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_lease_of_a_forked_process_ends_with_it(self, path):
        with opened_store(path) as store:
            child = os.fork()
            if child == 0:
                open_store(path).take(7)
                os._exit(0)
            os.waitpid(child, 0)
            wait_until(lambda: not store.holder(7))
            for _ in range(3):
                store.take(7).release()
        assert [*Path(str(path)).parent.glob("runs.db?*")] == []

    def test_a_forked_process_keeps_no_lease_of_its_parent(self, path):
        with opened_store(path) as store, holder(LEASE_AND_FORK, path) as process:
            kill(process)
            wait_until(lambda: not store.holder(100))
            store.take(100).release()
