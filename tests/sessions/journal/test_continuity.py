"""What continues with a run beside its messages: its usage, the decisions, the programs that share the file."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from stores import in_databases
from waiting import wait_until

from agentkit import DefinitionError, JsonAgent, JsonTool, Paused, Session, tool
from agentkit.core.errors import LimitExceeded
from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.engine.model import Reply
from agentkit.journal import Journal, JournalError, fork, runs
from agentkit.policies.limits import Budget, Limits, Spent
from agentkit.sessions.journal.connections import MAX_IDLE_FILES, _idle, _open, close_idle_stores, opened_store
from agentkit.sessions.journal.maintenance import find_problems
from agentkit.sessions.journal.run_info import read_run_records, time_and_calls
from agentkit.sessions.records import cut_digest
from agentkit.testing import ScriptedModel, call


def look(at: int) -> str:
    """Looks."""
    return f"saw {at}"


def stop(_):
    raise KeyboardInterrupt


def looking(number: int) -> Reply:
    return Reply(assistant(None, [ToolCall(f"c{number}", "look", json.dumps({"at": number}))]), Usage(1, 100, 10))


FINAL = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}


def resumed(world, agent: JsonAgent, run_id: str, **how):
    return agent.resume(run_id, **how) if world.name == "sync" else asyncio.run(agent.aresume(run_id, **how))


@pytest.fixture
def run_id(world, path) -> str:
    """A run that was stopped after three steps."""
    with pytest.raises(KeyboardInterrupt):
        world.run(JsonAgent(look, model=ScriptedModel(*map(looking, range(3)), stop), journal=path), "Go")
    return runs(path)[0].id


class TestLimits:
    def test_steps_continue(self, world, path, run_id):
        agent = JsonAgent(look, model=ScriptedModel(looking(3), FINAL), journal=path, max_steps=4)
        result = resumed(world, agent, run_id)
        assert (result.steps, result.stopped) == (5, "max_steps")

    def test_the_journal_keeps_the_limit_that_ended_a_run(self, world, path):
        agent = JsonAgent(look, model=ScriptedModel(looking(0), FINAL), journal=path, max_steps=1)
        result = world.run(agent, "Go")
        assert (result.stopped, runs(path)[0].stopped) == ("max_steps", "max_steps")
        assert resumed(world, agent, result.run_id).stopped == "max_steps"

    @pytest.mark.parametrize(
        ("limits", "reason"),
        [(Limits(tokens=440), "tokens"), (Limits(tool_calls=3), "tool_calls"), (Limits(steps=4), "max_steps")],
    )
    def test_all_of_them_continue(self, world, path, run_id, limits, reason):
        agent = JsonAgent(look, model=ScriptedModel(looking(3), FINAL), journal=path, limits=limits)
        assert resumed(world, agent, run_id).stopped == reason

    @in_databases
    def test_the_time_between_two_processes_does_not_count(self, path, run_id):
        with opened_store(path) as store:
            before, calls = time_and_calls(store, read_run_records(store, run_id))
            store.execute([("UPDATE steps SET begun = begun + 1000, ended = ended + 1000 WHERE step = 3", ())])
            after, _ = time_and_calls(store, read_run_records(store, run_id))
        assert calls == 3
        assert after == pytest.approx(before, abs=0.5)
        budget = Budget(Limits(seconds=10), before=Spent(seconds=8))
        assert 1 < budget.seconds_left(is_last=True) <= 2

    @in_databases
    def test_a_run_whose_time_was_over_has_none_when_it_is_resumed(self, world, path, run_id):
        with opened_store(path) as store:
            store.execute([("UPDATE steps SET ended = begun + 100 WHERE step = 1", ())])
        agent = JsonAgent(look, model=ScriptedModel(FINAL), journal=path, limits=Limits(seconds=50))
        with pytest.raises(LimitExceeded):
            resumed(world, agent, run_id)

    def test_a_call_that_is_recalled_is_counted_once(self, world, path):
        def boom(at: int) -> str:
            """Looks."""
            if at == 1 and not stopped:
                stopped.append(at)
                raise KeyboardInterrupt
            return "saw"

        stopped: list[int] = []
        named = tool(name="look", effect="idempotent")(boom)
        turn = Reply(assistant(None, [ToolCall(f"c{n}", "look", json.dumps({"at": n})) for n in range(3)]))
        limits = Limits(tool_calls=3)
        agent = JsonAgent(named, model=ScriptedModel(turn), journal=path, limits=limits, sequential=True)
        with pytest.raises(KeyboardInterrupt):
            world.run(agent, "Go")
        agent = JsonAgent(named, model=ScriptedModel(FINAL), journal=path, limits=limits, sequential=True)
        result = resumed(world, agent, runs(path)[0].id)
        assert [m["content"] for m in result.messages if m["role"] == "tool"][:3] == ["saw"] * 3


@pytest.mark.parametrize("query", ["And now?", None])
@pytest.mark.parametrize("opened", ["by its name", "by its run"])
def test_a_session_has_the_usage_of_a_run_that_was_interrupted(world, path, opened, query):
    agent = JsonAgent(look, model=ScriptedModel(looking(0), stop), journal=path)
    with pytest.raises(KeyboardInterrupt):
        world.run(agent, "Go", session=Session.open("ada", path))
    is_named = opened == "by its name"
    session = Session.open("ada", path) if is_named else Session.resumed(runs(path)[0].id, path)
    assert session.usage.input_tokens == 100
    world.run(JsonAgent(look, model=ScriptedModel(looking(1), FINAL), journal=path), query, session=session)
    assert session.usage.input_tokens == Session.open("ada", path).usage.input_tokens == 200


def test_a_journal_brings_no_decisions_about_calls_that_had_not_begun(world, path):
    made: list[int] = []
    asked: list[int] = []

    @tool(effect="danger")
    def wipe(at: int) -> str:
        """Wipes."""
        made.append(at)
        if at == 1 and made.count(1) == 1:
            raise KeyboardInterrupt
        return "wiped"

    def decide(call):
        asked.append(json.loads(call.arguments)["at"])
        return {0: "not this one", 3: {"at": 30}}.get(asked[-1], True)

    turn = Reply(assistant(None, [ToolCall(f"c{n}", "wipe", json.dumps({"at": n})) for n in range(4)]))
    with pytest.raises(KeyboardInterrupt):
        world.run(JsonAgent(wipe, model=ScriptedModel(turn), journal=path, approve=decide), "Go")
    assert asked == [0, 1, 2, 3]
    agent = JsonAgent(wipe, model=ScriptedModel(FINAL), journal=path, approve=decide)
    result = resumed(world, agent, runs(path)[0].id)
    assert asked == [0, 1, 2, 3, 0, 2, 3], "what had begun is answered by the journal"
    told = [m["content"] for m in result.messages if m["role"] == "tool"]
    assert told[0] == "Denied: not this one"
    assert told[1].startswith("OutcomeUnknown")
    assert told[2] == "wiped"
    assert told[3].endswith("wiped")
    assert sorted(made) == [1, 2, 30]


class TestTextsBehindReferences:
    """A paused run in a journal, one of whose calls refers to a text of others."""

    def pause(self, world, path) -> Paused:
        note = JsonTool(lambda: "a.txt", name="get_note", description="Gets.", effect="read", trust="untrusted")
        self.made: list[str] = []

        @tool(effect="danger")
        def wipe(path: str) -> str:
            """Wipes."""
            self.made.append(path)
            return "wiped"

        model = ScriptedModel(call("get_note"), call("wipe", path="#1"), FINAL)
        self.agent = JsonAgent(note, wipe, model=model, untrusted="hidden", journal=path)
        with pytest.raises(Paused) as caught:
            world.run(self.agent, "Go")
        return caught.value

    @staticmethod
    def replace_text(path, text: str, *, digest: bool) -> None:
        with opened_store(path) as store:
            ((key, body),) = store.read("SELECT conversation, body FROM cut WHERE key = ?", "#1")
            body = body.replace("a.txt", text)
            number = cut_digest(key, "#1", body) if digest else 0
            assigned = "body = ?, digest = ?" if digest else "body = ?"
            values = (body, number) if digest else (body,)
            store.execute([(f"UPDATE cut SET {assigned} WHERE key = '#1'", values)])

    def test_a_decision_in_another_process_holds_for_the_value(self, world, path):
        [waiting] = self.pause(world, path).calls
        assert resumed(world, self.agent, runs(path)[0].id, approvals={waiting.id: True}).answer == "done"
        assert self.made == ["a.txt"]

    @in_databases
    def test_a_changed_text_with_its_digest_voids_the_decision(self, world, path):
        [waiting] = self.pause(world, path).calls
        self.replace_text(path, "/etc", digest=True)
        for key in (waiting.id, waiting):
            with pytest.raises(Paused, match='#1 is "/etc"'):
                resumed(world, self.agent, runs(path)[0].id, approvals={key: True})
        assert not self.made

    @in_databases
    def test_a_changed_text_is_damage(self, world, path):
        [waiting] = self.pause(world, path).calls
        self.replace_text(path, "/etc", digest=False)
        with pytest.raises(JournalError, match=r"conversation .*: the text #1 was changed"):
            resumed(world, self.agent, runs(path)[0].id, approvals={waiting.id: True})
        assert not self.made

    def test_texts_of_an_older_version_get_their_digests(self, world, tmp_path):
        path = tmp_path / "runs.db"
        [waiting] = self.pause(world, path).calls
        for store in [*_open.values()]:
            store.close()
        _open.clear()
        with closing(sqlite3.connect(path)) as file:
            file.execute("ALTER TABLE cut DROP COLUMN digest")
            file.execute("ALTER TABLE conversations DROP COLUMN title")
            file.execute("ALTER TABLE conversations DROP COLUMN tags")
            file.execute("DROP TABLE spending")
            file.execute("PRAGMA user_version=3")
        assert resumed(world, self.agent, runs(path)[0].id, approvals={waiting.id: True}).answer == "done"
        with opened_store(path) as store:
            ((key, body, number),) = store.read("SELECT conversation, body, digest FROM cut WHERE key = '#1'")
        assert number == cut_digest(key, "#1", body)

    def test_a_branch_has_the_texts(self, world, path):
        self.pause(world, path)
        branch = fork(runs(path)[0].id, 2, store=path)
        with pytest.raises(Paused, match=r'#1 is "a\.txt"'):
            resumed(world, self.agent, branch)


def test_a_branch_is_awaited_like_a_run(path, run_id):
    agent = JsonAgent(look, model=ScriptedModel(FINAL), journal=path)
    result = asyncio.run(agent.afork(run_id, 1, instruction="You are another."))
    assert (result.answer, result.steps) == ("done", 2)
    assert result.messages[0]["content"] == "You are another."
    assert len(runs(path)) == 2


class TestNames:
    def test_the_outcome_of_a_run_that_cannot_be_stored_is_written_beside_the_journal(self, world, capsys, tmp_path):
        place = tmp_path / "no" / "runs.db"
        with pytest.raises(JournalError, match="must exist and be writable"):
            world.run(JsonAgent(look, model=ScriptedModel(FINAL), journal=place, journal_errors="raise"), "Go")
        agent = JsonAgent(look, model=ScriptedModel(FINAL, FINAL))
        assert world.run(agent, "Go", journal=Journal(place, sync="full"), journal_errors="warn").answer
        assert "must exist and be writable" in capsys.readouterr().err

    def test_without_a_journal_nothing_is_written(self, world):
        with pytest.raises(DefinitionError, match=r'give journal="runs.db" too'):
            JsonAgent(look, model=ScriptedModel(), journal_errors="raise")
        with pytest.raises(DefinitionError, match=r'must be "warn" or "raise"'):
            JsonAgent(look, model=ScriptedModel(), journal="runs.db", journal_errors="ignore")

    def test_a_misspelt_option_is_reported(self, world, path, run_id):
        agent = JsonAgent(look, model=ScriptedModel(FINAL))
        with pytest.raises(
            TypeError,
            match=r"unexpected option 'journl'. Did you mean 'journal'\? Options: answers, approvals, .*journal, ",
        ):
            world.run(agent, "Go", journl=path)
        with pytest.raises(TypeError, match="'uncertain'"):
            resumed(world, agent, run_id, journal=path, uncertain="ask")

    @pytest.mark.parametrize("how", [{"tools": [look]}, {"instruction": "You are another."}])
    def test_a_resumed_run_takes_no_option_of_a_branch(self, world, path, run_id, how):
        agent = JsonAgent(look, model=ScriptedModel(FINAL), journal=path)
        with pytest.raises(TypeError, match=f"unexpected option {next(iter(how))!r}.*Options: answers, approvals, "):
            resumed(world, agent, run_id, **how)
        assert [run.state for run in runs(path)] == ["interrupted"]

    def test_a_misspelt_option_leaves_no_branch(self, path, run_id):
        agent = JsonAgent(look, model=ScriptedModel(FINAL), journal=path)
        with pytest.raises(TypeError, match=r"'tool'. Did you mean 'tools'\? Options: .*instruction.*tools"):
            agent.fork(run_id, 1, tool=[look])
        assert [run.id for run in runs(path)] == [run_id]


def files_beside(file):
    """Return the names of what lies beside a journal while it is open."""
    return [name.name for name in file.parent.iterdir() if name.name.startswith(f"{file.name}-")]


class TestOneConnection:
    def test_runs_at_a_time_share_it_and_it_is_closed_soon_after_the_last_one(self, file):
        inside = threading.Barrier(4)
        go_on = threading.Event()
        seen = []

        def wait() -> str:
            """Waits."""
            inside.wait(60)
            go_on.wait(60)
            return "waited"

        turn = {"tool_calls": [{"name": "wait", "arguments": {}}]}
        agents = [JsonAgent(wait, model=ScriptedModel(turn, FINAL), journal=file) for _ in range(3)]
        threads = [threading.Thread(target=agent, args=["Go"]) for agent in agents]
        for thread in threads:
            thread.start()
        inside.wait()
        seen += [store.users for store in _open.values() if store.place == file]
        go_on.set()
        for thread in threads:
            thread.join()
        assert seen == [3]
        wait_until(lambda: files_beside(file) == [])
        assert not [store for store in _open.values() if store.place == file]
        assert [run.state for run in runs(file)] == ["finished"] * 3

    def test_runs_after_each_other_share_it(self, world, file):
        used = []
        agent = JsonAgent(look, model=ScriptedModel([FINAL] * 3), journal=file)
        for _ in range(3):
            world.run(agent, "Go")
            used.append(_open[os.path.realpath(file), "normal"])
        close_idle_stores()
        assert files_beside(file) == []
        assert used[0] is used[1] is used[2]
        assert [run.state for run in runs(file)] == ["finished"] * 3

    def test_few_files_stay_open_without_runs(self, tmp_path):
        files = [tmp_path / f"{number}.db" for number in range(MAX_IDLE_FILES + 2)]
        for file in files:
            JsonAgent(look, model=ScriptedModel(FINAL), journal=file)("Go")
        wait_until(lambda: [files_beside(file) for file in files[:2]] == [[], []])
        assert len(_idle) <= MAX_IDLE_FILES
        close_idle_stores()
        assert sorted(tmp_path.iterdir()) == sorted(files)

    @pytest.mark.parametrize("how", ["removed", "replaced", "given to others"])
    def test_between_runs_a_file_can_be(self, world, file, how):
        agent = JsonAgent(look, model=ScriptedModel([FINAL] * 3), journal=Journal(file, errors="raise"))
        world.run(agent, "The first", session=Session())
        close_idle_stores()
        copy = file.with_name("copy.db")
        shutil.copy(file, copy)
        world.run(agent, "The second", session=Session())
        used = _open[os.path.realpath(file), "normal"]
        if how == "removed":
            file.unlink()
        elif how == "replaced":
            copy.replace(file)
        else:
            file.chmod(0o660)
        world.run(agent, "The third", session=Session())
        assert _open[os.path.realpath(file), "normal"] is not used
        kept = {"removed": [], "replaced": ["The first"], "given to others": ["The first", "The second"]}[how]
        assert sorted(run.query for run in runs(file)) == [*kept, "The third"]
        assert find_problems(file) == []

    def test_it_is_closed_at_the_end_of_the_program(self, file):
        script = (
            "from agentkit import JsonAgent; from agentkit.testing import ScriptedModel, answer\n"
            f"JsonAgent(print, model=ScriptedModel(answer('3')), journal={str(file)!r})('Go')"
        )
        subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
        assert files_beside(file) == []
        assert [run.answer for run in runs(file)] == ["3"]

    def test_a_file_that_was_replaced_is_another_one(self, file):
        with opened_store(file) as old:
            file.unlink()
            with opened_store(file) as new:
                assert new is not old
                assert new.read("SELECT count(*) FROM runs") == [(0,)]

    @in_databases
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_a_forked_process_opens_the_file_for_itself(self, path):
        with opened_store(path) as ours:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    JsonAgent(look, model=ScriptedModel(FINAL), journal=path)("Go")
                    with opened_store(path) as theirs:
                        status = 0 if theirs is not ours else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            assert ours.read("SELECT status FROM runs") == [("finished",)]
