"""Runs of a journal are shown, found, deleted and pruned; what it costs to record them."""

from collections import Counter

import pytest
from journaled_runs import ADD, add, agent_of, interrupt, resume
from stores import change_rows, in_databases, patch_append

from agentkit import DefinitionError, JsonAgent, Paused, Session, tool
from agentkit.core.messages import pending_calls
from agentkit.journal import Journal, JournalError, delete, prune, runs, show
from agentkit.sessions.journal.connections import close_idle_stores, opened_store
from agentkit.sessions.journal.maintenance import delete_conversation, find_problems
from agentkit.sessions.journal.store import ConversationBusy
from agentkit.sessions.journal.writer import JournaledConversation
from agentkit.sessions.session import find_conversation
from agentkit.testing import ScriptedModel, answer, call


class Watched:
    """A store that counts the calls of its methods, and does something before the first lease is taken."""

    def __init__(self, store, before_lease=lambda: None):
        self.store = store
        self.before_lease = before_lease
        self.calls = Counter()

    def __getattr__(self, name):
        self.calls[name] += 1
        return getattr(self.store, name)

    def records(self, *of, kinds=()):
        self.calls["records"] += 1
        return self.store.records(*of, kinds=kinds)

    def take(self, *of):
        before_lease = self.before_lease
        self.before_lease = lambda: None
        before_lease()
        return self.store.take(*of)


class TestShow:
    """`show` and `runs`."""

    def test_a_run_is_shown(self, path, tmp_path):
        result = agent_of(path, ADD, answer("3")).run("1 + 2?")
        shown = show(result.run_id, store=path)
        for part in ("query    1 + 2?", "call     add(a=1, b=2)", "result   add: 3", "answer   3", "stopped: answer"):
            assert part in str(shown), part
        assert "1 + 2?" in shown.to_html(tmp_path / "run.html")
        assert (tmp_path / "run.html").exists()
        assert shown.as_dict()["messages"] == result.messages
        assert [span["kind"] for span in shown.trace["spans"]] == ["model", "tool", "model"]

    def test_secrets_are_recorded_and_masked_wherever_a_run_is_shown(self, path, monkeypatch):
        monkeypatch.setenv("SHOP_API_KEY", "s3cr3t-value-42")
        result = agent_of(path, answer("it is s3cr3t-value-42")).run("What is the key?")
        shown = show(result.run_id, store=path)
        assert "s3cr3t" not in str(shown) + shown.to_html()
        assert repr(shown).startswith("JournaledRun(run=RunInfo(id=")
        assert "s3cr3t" not in repr(shown) + repr(shown.run) + repr(runs(store=path))
        assert agent_of(path).resume(result.run_id).answer == "it is s3cr3t-value-42"

    def test_a_finished_run_is_shown_without_pending_calls(self, path):
        result = agent_of(path, ADD, answer("3")).run("Go")
        assert pending_calls(show(result.run_id, store=path).messages) == []

    def test_a_run_with_a_chosen_id_is_found_by_it(self, path):
        for identity in ("order_17", "order_170", "shop_order_1"):
            session = Session()
            session.journaled = JournaledConversation(Journal(path), next_run=identity)
            JsonAgent(len, model=ScriptedModel(answer("done")), journal=path).run("Hello", session=session)
        assert [show(identity, store=path).run.id for identity in ("order_17", "order_170")] == [
            "order_17",
            "order_170",
        ]
        assert show("shop_ord", store=path).run.id == "shop_order_1"
        with pytest.raises(
            JournalError, match=r"several runs have ids that begin with 'order_1' .*: order_170, order_17; "
        ):
            show("order_1", store=path)

    def test_each_query_of_a_batch_is_recorded_as_a_run(self, path):
        def reply(request):
            return answer(request.messages[-1]["content"])

        agent = agent_of(path, *[reply] * 6)
        assert [result.answer for result in agent.map(map(str, range(6)), concurrency=3)] == [*"012345"]
        assert sorted(run.answer for run in runs(path)) == [*"012345"]

    @pytest.mark.parametrize(
        ("effect", "shown"), [(None, "3"), ("read", "3"), ("write", "OutcomeUnknown"), ("danger", "OutcomeUnknown")]
    )
    def test_a_function_that_asks_an_agent_is_called_again_unless_it_declares_a_change(
        self, world, path, effect, shown
    ):
        models = [ScriptedModel(ADD, interrupt), ScriptedModel(answer("3"))]

        @tool(effect=effect)
        def ask_adder(query: str) -> str:
            """Asks."""
            return JsonAgent(add, model=models.pop(0))(query)

        agent = agent_of(path, call("ask_adder", query="1 + 2"), tools=[ask_adder], approve=lambda _: True)
        with pytest.raises(KeyboardInterrupt):
            world.run(agent, "Go")
        (run,) = runs(path)
        assert run.last == "calling ask_adder"
        result = resume(world, agent_of(path, answer("?"), tools=[ask_adder]), run.id)
        assert result.messages[3]["content"].startswith(shown)


class TestRemoval:
    """`delete` and `prune`."""

    @in_databases
    def test_a_deleted_run_is_removed_with_its_messages(self, world, path):
        first = world.run(agent_of(path, answer("a secret word")), "Go")
        second = world.run(agent_of(path, answer("3")), "Stay")
        delete(first.run_id, store=path)
        assert [run.id for run in runs(path)] == [second.run_id]
        with opened_store(path) as store:
            assert store.read("SELECT count(*) FROM messages WHERE body LIKE ?", "%a secret word%") == [(0,)]
            assert store.read("SELECT count(*) FROM conversations") == [(1,)]

    @in_databases
    def test_a_conversation_is_deleted_with_all_its_runs_unless_one_works(self, world, path):
        kept = world.run(agent_of(path, answer("3")), "Stay")
        agent = agent_of(path, answer("a secret word"), answer("again"))
        for query in ("Go", "On"):
            last = world.run(agent, query, session=agent.session)
        key = show(last.run_id, store=path).run.conversation
        with opened_store(path) as store:
            lease = store.take(key)
            with pytest.raises(ConversationBusy, match="the conversation"):
                delete_conversation(key, store=path)
            lease.release()
        assert len(runs(path)) == 3
        delete_conversation(key, store=path)
        assert [run.id for run in runs(path)] == [kept.run_id]
        with opened_store(path) as store:
            assert store.read("SELECT count(*) FROM messages WHERE body LIKE ?", "%a secret word%") == [(0,)]
            assert store.read("SELECT count(*) FROM conversations") == [(1,)]

    def test_a_deleted_run_is_overwritten_in_the_file(self, file):
        first = agent_of(file, answer("a secret word")).run("Go")
        close_idle_stores()
        assert b"a secret word" in file.read_bytes()
        delete(first.run_id, store=file)
        assert b"a secret word" not in file.read_bytes()

    @in_databases
    def test_old_runs_are_pruned(self, path):
        agent_of(path, answer("3"))("Go")
        assert prune(1, store=path) == 0
        change_rows(
            path,
            "UPDATE runs SET begun = begun - 200000, ended = ended - 200000",
            "UPDATE steps SET begun = begun - 200000, ended = ended - 200000",
        )
        assert prune(3, store=path) == 0
        assert prune(2, store=path) == 1
        assert runs(path) == []
        with opened_store(path) as store:
            assert store.read("SELECT count(*) FROM messages") == [(0,)]

    def test_a_run_that_is_resumed_while_others_are_pruned_stays(self, world, path):
        @tool(effect="danger")
        def pay() -> str:
            """Pay."""
            return "paid"

        agent = agent_of(path, call("pay"), answer("3"), tools=[pay])
        with pytest.raises(Paused) as paused:
            world.run(agent, "Go")
        others = [agent_of(path, answer("3")).run("Go").run_id for _ in range(2)]
        run_id = paused.value.run_id

        def resume_and_delete():
            resume(world, agent, run_id, answers={paused.value.pending[0].id: True})
            delete(others[0], store=path)

        with opened_store(path) as store:
            assert prune(0, store=Watched(store, resume_and_delete)) == 1
        assert [(run.id, run.state) for run in runs(path)] == [(run_id, "finished")]

    def test_runs_are_pruned_together(self, path):
        for _ in range(5):
            agent_of(path, answer("3")).run("Go")
        with opened_store(path) as store:
            watched = Watched(store)
            assert prune(0, store=watched) == 5
        assert watched.calls["remove"] == 1

    @pytest.mark.parametrize("days", [-1, float("nan"), "30"])
    def test_a_number_of_days_below_zero_is_refused(self, tmp_path, days):
        with pytest.raises(DefinitionError, match="prune: days must be a number >= 0"):
            prune(days, store=tmp_path / "runs.db")


class TestCost:
    """What it costs to record a run."""

    @pytest.mark.parametrize(
        "read",
        [
            lambda store: Session.open("ada", store),
            lambda store: Session.resumed(runs(store)[0].id, store),
            lambda store: find_conversation("ada", store),
            find_problems,
        ],
    )
    def test_a_long_conversation_is_read_as_often_as_a_short_one(self, path, read):
        counts = []
        for turns in (2, 4):
            for _ in range(turns):
                agent_of(path, ADD, answer("3")).run("Go", session=Session.open("ada", path))
            with opened_store(path) as store:
                watched = Watched(store)
                read(watched)
                counts.append(watched.calls["records"])
        assert counts[0] == counts[1] > 0

    def test_the_file_grows_linearly(self, tmp_path):
        def size(turns):
            file = tmp_path / f"{turns}.db"
            agent_of(file, *[call("add", a=n, b=n) for n in range(turns)], answer("3"), max_steps=turns + 2)("Go")
            return file.stat().st_size

        assert size(400) < 2.3 * size(200)

    def test_a_step_needs_few_writes(self, path, monkeypatch):
        def count_writes(steps):
            writes = []
            with monkeypatch.context() as patched:
                patch_append(patched, lambda write, _, rows: (writes.append(rows), write(rows)))
                agent_of(path, *[call("add", a=n, b=n) for n in range(steps)], answer("3"), max_steps=200)("Go")
            return len(writes)

        assert count_writes(100) - count_writes(0) <= 5 * 100 + 1  # one before the model is asked for its window
