"""Conversations of a journal: opened by name, cleared, handed over."""

import pytest
from journaled_runs import ADD, Stopped, add, agent_of, resume, stop, stop_run
from stores import in_databases

from agentkit import DefinitionError, JsonAgent, RunError, Session
from agentkit.extend import ALL_RUNS, delete_conversation, list_conversations, opened_store, rename_conversation
from agentkit.journal import JournalError, runs, show
from agentkit.secrets import hide
from agentkit.testing import ScriptedModel, answer, call


class TestNames:
    """`Session.open` begins a conversation, or continues the one of that name."""

    def test_a_conversation_continues_by_its_name(self, world, path):
        agent = agent_of(None, answer("hello"), answer("again"))
        agent.journal = None
        world.run(agent, "Hi", session=Session.open("kolkata", store=path))
        session = Session.open("kolkata", store=path)
        assert world.run(agent, "Hi again", session=session).answer == "again"
        assert [m["content"] for m in session.messages if m["role"] == "user"] == ["Hi", "Hi again"]
        assert session.usage.requests == 2
        assert Session.open("kolkata", store=path).messages == session.messages
        assert Session.open("mumbai", store=path).messages == []

    def test_a_stopped_run_continues_without_a_query(self, world, path):
        with pytest.raises(Stopped):
            world.run(agent_of(path, ADD, stop), "Go", session=Session.open("kolkata", path))
        session = Session.open("kolkata", path)
        assert world.run(agent_of(path, answer("3")), None, session=session).answer == "3"

    def test_a_new_query_supersedes_the_stopped_run(self, world, path):
        run_id = stop_run(world, path, ADD)
        session = Session.resumed(run_id, path)
        assert world.run(agent_of(path, answer("other")), "Something else", session=session).answer == "other"
        assert {run.query: run.state for run in runs(path)} == {"Go": "superseded", "Something else": "finished"}
        with pytest.raises(JournalError, match="continued with another run"):
            agent_of(path).resume(run_id)

    def test_the_run_before_a_cleared_history_can_still_be_shown(self, world, path):
        session = Session.open("kolkata", path)
        agent = agent_of(path, ADD, answer("3"), answer("new"))
        first = world.run(agent, "Go", session=session)
        session.clear()
        world.run(agent, "Anew", session=session)
        assert [m["role"] for m in show(first.run_id, store=path).messages] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]
        assert [m["content"] for m in Session.open("kolkata", path).messages if m["role"] == "user"] == ["Anew"]

    def test_a_conversation_is_in_one_journal(self, world, path, new_journal):
        session = Session.open("kolkata", path)
        with pytest.raises(RunError, match="Leave journal= out"):
            world.run(agent_of(new_journal(), answer("3")), "Go", session=session)


def start_conversations(world, path, *names):
    for name in names:
        world.run(agent_of(None, answer("done")), f"About {name}", session=Session.open(name, path))


class TestTheListOfConversations:
    """`list_conversations` shows those that have a name, the newest first."""

    def test_a_title_stands_in_the_place_of_the_first_query(self, world, path):
        start_conversations(world, path, "kolkata", "mumbai", "kolkata")
        keys = {info.name: info.key for info in list_conversations(path)}
        rename_conversation(keys["kolkata"], "  The harbour ", store=path)
        assert [(info.name, info.title) for info in list_conversations(path)] == [
            ("kolkata", "The harbour"),
            ("mumbai", "About mumbai"),
        ]
        world.run(agent_of(None, answer("done")), "More", session=Session.open("kolkata", path))
        assert list_conversations(path)[0].title == "The harbour", "a run keeps it"
        assert [(run.query, run.title) for run in runs(path)][:2] == [
            ("More", "The harbour"),
            ("About kolkata", "The harbour"),
        ]
        rename_conversation(keys["kolkata"], "", store=path)
        assert list_conversations(path)[0].title == "About kolkata"
        assert Session.open("kolkata", path).messages[1]["content"] == "About kolkata"

    def test_those_of_evaluations_are_listed_apart_and_take_no_place(self, world, path):
        start_conversations(world, path, "kolkata", "eval:1/case/1", "eval:1/case/2")
        assert [info.name for info in list_conversations(path, limit=1)] == ["kolkata"]
        assert len(list_conversations(path, beginning="eval:")) == 2

    @pytest.mark.parametrize("title", [None, 3, "two\nlines", "x" * 201])
    def test_a_title_that_no_list_can_show_is_refused(self, world, path, title):
        start_conversations(world, path, "kolkata")
        (info,) = list_conversations(path)
        with pytest.raises(DefinitionError, match="title: expected a printable text of at most 200 characters"):
            rename_conversation(info.key, title, store=path)

    def test_an_unknown_conversation_has_no_title(self, world, path):
        start_conversations(world, path, "kolkata")
        with pytest.raises(JournalError, match="there is no conversation 7"):
            rename_conversation(7, "x", store=path)

    def test_secrets_in_titles_are_masked(self, world, path):
        start_conversations(world, path, "kolkata")
        (info,) = list_conversations(path)
        hide("Spinnaker-77")
        rename_conversation(info.key, "Key Spinnaker-77", store=path)
        assert list_conversations(path)[0].title == "Key ***"

    def test_a_conversation_is_renamed_while_a_run_works_and_the_title_goes_with_it(self, world, path):
        start_conversations(world, path, "kolkata", "mumbai")
        key = {info.name: info.key for info in list_conversations(path)}["kolkata"]
        with opened_store(path) as store:
            lease = store.take(key)
            rename_conversation(key, "Busy", store=path)
            assert {info.title for info in list_conversations(path)} == {"Busy", "About mumbai"}
            lease.release()
        delete_conversation(key, store=path)
        assert [info.title for info in list_conversations(path)] == ["About mumbai"]

    def test_its_states_and_times_are_those_of_the_last_runs(self, world, path):
        start_conversations(world, path, "done", "stopped")
        with pytest.raises(Stopped):
            world.run(agent_of(path, ADD, stop), "Go", session=Session.open("stopped", path))
        shown = {info.name: (info.state, info.seen) for info in list_conversations(path)}
        last = {run.query: (run.state, run.seen) for run in runs(path)}
        assert shown == {"done": last["About done"], "stopped": last["Go"]}

    def test_only_the_wanted_ones_are_read(self, world, path):
        names = [f"{user}/{number}" for number in range(4) for user in ("ada", "eve")]
        start_conversations(world, path, *names)
        start_conversations(world, path, *["eve/3"] * 9)
        with opened_store(path) as store:
            reads = Reads(store)
            assert [info.name for info in list_conversations(reads, limit=3)] == ["eve/3", "ada/3", "eve/2"]
            assert reads.counts == [6, 24, 12], "the newest runs, and those of the chosen conversations"
            kinds = {"ConversationTitled", "ConversationTagged", "StepBegun", "StepEnded"}
            assert {kind.__name__ for kind in reads.kinds} <= kinds
            found = list_conversations(reads, beginning="ada/", limit=2)
            assert [info.name for info in found] == ["ada/3", "ada/2"]

    @in_databases
    def test_a_damaged_run_does_not_hide_the_others(self, world, path):
        start_conversations(world, path, "kolkata", "mumbai")
        with opened_store(path) as store:
            store.execute([("UPDATE runs SET outcome = '{' WHERE query = 'About mumbai'", ())])
        assert {info.name: info.state for info in list_conversations(path)} == {
            "kolkata": "finished",
            "mumbai": "damaged",
        }


class Reads:
    """A store that notes what is read."""

    def __init__(self, store):
        self.store = store
        self.counts = []
        self.kinds = set()

    def __getattr__(self, name):
        return getattr(self.store, name)

    def runs(self, wanted=ALL_RUNS):
        self.counts.append(wanted.limit or len(self.store.runs(wanted)))
        return self.store.runs(wanted)

    def records(self, *of, kinds=()):
        self.kinds |= {*kinds} or {object}
        return self.store.records(*of, kinds=kinds)


def test_hand_offs_are_restored(world, path):
    def team(*replies):
        other = JsonAgent(add, model=ScriptedModel(*replies), description="You are the other.")
        first = ScriptedModel(call("transfer_to_other", reason="sums"))
        return JsonAgent(add, model=first, handoffs={"other": other}, journal=path, description="You are the first.")

    with pytest.raises(Stopped):
        world.run(team(ADD, stop), "Go")
    result = resume(world, team(answer("3")), runs(path)[0].id)
    assert (result.answer, result.handed) == ("3", ("other",))
    assert result.messages[0]["content"].startswith("You are the other.")
