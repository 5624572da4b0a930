"""A store of a program's own: `check_store` names the promise that it breaks, and a journal works in one that holds."""

import ast
import time
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from journaled_runs import ADD, agent_of, resume, stop_run
from sources import ROOT, nodes_of

from agentkit import JsonAgent, Session, tool
from agentkit.extend import ConversationCut, ConversationTagged, ConversationTitled, Lease, StepWithdrawn, TextStored
from agentkit.journal import JournalError, delete, export, fork, prune, runs, show
from agentkit.sessions.journal.lines import LinesStore
from agentkit.sessions.journal.maintenance import find_problems, salvage
from agentkit.sessions.journal.sqlite import SqliteStore
from agentkit.testing import ScriptedModel, answer, call, check_store

EXAMPLE = ROOT / "examples" / "own_store.py"
_SPEC = spec_from_file_location("own_store", EXAMPLE)
own_store = module_from_spec(_SPEC)
_SPEC.loader.exec_module(own_store)
SECONDS = 0.5
MAX_STORE_LINES = 150


class OnePerRecord(own_store.FolderStore):
    def append(self, records, lease=None):
        for record in records:
            super().append([record], lease)


class LeasesForAll(own_store.FolderStore):
    def take(self, conversation, what="the conversation"):
        lease = Lease(conversation, 1, self)
        self._write_lease(lease)
        return lease


class WritesAnyway(own_store.FolderStore):
    def append(self, records, lease=None):
        super().append(records)


class KeepsForever(own_store.FolderStore):
    def _lease(self, conversation):
        path = self._path(conversation, "lease")
        return own_store.json.loads(path.read_text()) if path.exists() else {"token": 0, "holder": ""}


class Without(own_store.FolderStore):
    """Leaves out records of one kind."""

    kind = ConversationCut

    def append(self, records, lease=None):
        super().append([record for record in records if not isinstance(record, self.kind)], lease)


class WithoutTexts(Without):
    kind = TextStored


class WithoutWithdrawals(Without):
    kind = StepWithdrawn


class WithoutTitles(Without):
    kind = ConversationTitled


class WithoutTags(Without):
    kind = ConversationTagged


class Reversed(own_store.FolderStore):
    def records(self, *of, kinds=()):
        return reversed([*super().records(*of, kinds=kinds)])


class OfKindsAlone(own_store.FolderStore):
    def records(self, *of, kinds=()):
        return [record for record in super().records(*of) if not kinds or isinstance(record, kinds)]


class Keeping(own_store.FolderStore):
    def remove(self, runs):
        pass


class OldestFirst(own_store.FolderStore):
    def runs(self, wanted=own_store.ALL_RUNS):
        return super().runs(wanted)[::-1]


class Slow(own_store.FolderStore):
    def holder(self, conversation):
        time.sleep(0.6 * self.lease_seconds)
        return super().holder(conversation)


class Forgetful(own_store.FolderStore):
    def __init__(self, folder, lease_seconds):
        super().__init__(folder / str(time.monotonic_ns()), lease_seconds)


BROKEN = {
    OnePerRecord: "a write that fails leaves nothing",
    LeasesForAll: "a lease is given once",
    WritesAnyway: "nothing is written with a lease",
    KeepsForever: "a lease that nothing keeps ends",
    Without: "the last message of each place",
    WithoutTexts: "the texts are returned",
    WithoutWithdrawals: "the steps are returned",
    WithoutTitles: "the last title",
    WithoutTags: "the last tags",
    Reversed: "in an order that fold can read",
    OfKindsAlone: "with kinds, withdrawn steps",
    Keeping: "remove removes a run",
    OldestFirst: "the newest first",
    Forgetful: "when the store is opened again",
}


def test_the_example_is_short():
    (store,) = (node for node in nodes_of(EXAMPLE) if isinstance(node, ast.ClassDef))
    assert store.end_lineno - store.lineno < MAX_STORE_LINES


@pytest.mark.parametrize("kind", [own_store.FolderStore, Slow])
def test_a_store_that_holds_passes(tmp_path, kind):
    check_store(lambda: kind(tmp_path, SECONDS))


def test_the_default_store_passes(tmp_path):
    check_store(lambda: SqliteStore(tmp_path / "runs.db"))


def test_the_store_in_a_file_of_lines_passes(tmp_path):
    check_store(lambda: LinesStore(tmp_path / "runs.jsonl"))


@pytest.mark.integration
def test_the_store_on_a_server_passes(postgres_url):
    from agentkit.sessions.journal.postgres import PostgresStore

    check_store(lambda: PostgresStore(postgres_url))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_promise_is_named(tmp_path, broken):
    with pytest.raises(AssertionError, match=BROKEN[broken]):
        check_store(lambda: broken(tmp_path, SECONDS))


@pytest.fixture
def store(tmp_path):
    return own_store.FolderStore(tmp_path / "runs")


def test_a_stopped_run_is_listed_and_resumed(world, store):
    run_id = stop_run(world, store, ADD)
    assert [(run.id, run.state) for run in runs(store)] == [(run_id, "interrupted")]
    result = resume(world, agent_of(store, answer("3")), run_id)
    assert (result.answer, runs(store)[0].state) == ("3", "finished")
    assert show(run_id, store=store).messages == result.messages
    assert resume(world, agent_of(store), run_id).answer == "3"


def test_a_conversation_continues_by_its_name(world, store):
    session = Session.open("ada", store)
    world.run(agent_of(store, answer("one")), "First", session=session)
    again = Session.open("ada", store)
    assert again.messages == session.messages
    world.run(agent_of(store, answer("two")), "Second", session=again)
    assert [run.query for run in runs(store)] == ["Second", "First"]


def test_runs_are_branched_exported_copied_and_deleted(world, store, tmp_path):
    result = world.run(agent_of(store, ADD, answer("3")), "1 + 2?")
    assert resume(world, agent_of(store, answer("four")), fork(result.run_id, 1, store=store)).answer == "four"
    export(result.run_id, tmp_path / "run.jsonl", store=store)
    assert Session.load(tmp_path / "run.jsonl").messages == result.messages
    assert find_problems(store) == []
    assert salvage(store, tmp_path / "copy.db") == 2
    assert {run.answer for run in runs(tmp_path / "copy.db")} == {"3", "four"}
    delete(result.run_id, store=store)
    assert [run.answer for run in runs(store)] == ["four"]
    assert prune(0, store=store) == 1
    assert runs(store) == []


def test_a_half_written_line_is_not_read(world, store):
    result = world.run(agent_of(store, ADD, answer("3")), "1 + 2?")
    (path,) = store.folder.glob("*.jsonl")
    with open(path, "ab") as file:
        file.write(b'[{"kind": "message", "place"')
    assert show(result.run_id, store=store).messages == result.messages
    assert (
        world.run(agent_of(store, answer("more")), "More", session=Session.resumed(result.run_id, store)).answer
        == "more"
    )


def test_a_lease_is_kept_as_long_as_a_run_takes(world, tmp_path):
    store = own_store.FolderStore(tmp_path / "runs", lease_seconds=SECONDS)
    seen = []

    @tool
    def wait() -> str:
        """Waits longer than a lease lasts."""
        time.sleep(3 * SECONDS)
        seen.extend(run.state for run in runs(store))
        return "done"

    agent = JsonAgent(wait, model=ScriptedModel(call("wait"), answer("done")), journal=store)
    assert world.run(agent, "Go").answer == "done"
    assert seen == ["running"]
    assert runs(store)[0].state == "finished"


def test_a_run_that_another_process_has_is_refused(world, store):
    run_id = stop_run(world, store, ADD)
    lease = store.take(runs(store)[0].conversation)
    with pytest.raises(JournalError, match=f"run {run_id} is in progress: process"):
        resume(world, agent_of(store, answer("3")), run_id)
    lease.release()
    assert resume(world, agent_of(store, answer("3")), run_id).answer == "3"


def test_the_error_about_an_unknown_run_names_what_lists_those_of_a_store_of_ones_own(tmp_path):
    store = own_store.FolderStore(tmp_path / "runs")
    with pytest.raises(JournalError, match=r"in the folder .*; agentkit\.journal\.runs\(store\) lists them"):
        show("x", store=store)
