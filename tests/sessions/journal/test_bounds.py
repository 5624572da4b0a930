"""A run of a journal has bounds of its own: it is resumed, branched and shown without the runs beside it."""

import asyncio
import cProfile
import itertools
import json
import pstats
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from pydantic import BaseModel
from stores import change_rows, in_databases, locked, patch_append, shorten_waits
from timing import takes_at_most
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, Session, tool
from agentkit.core.messages import ToolCall
from agentkit.journal import Journal, JournalError, RunInfo, fork, runs, show
from agentkit.policies.long_results import TruncatedResults
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.maintenance import find_problems, salvage
from agentkit.sessions.journal.run_info import Setup, read_run_records, time_and_calls
from agentkit.sessions.journal.writer import JournaledConversation, JournalWriter
from agentkit.sessions.session import find_conversation
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call import BoundCall

DONE: list[str] = []


@tool(effect="write")
def book(place: str) -> str:
    """Books."""
    DONE.append(place)
    return f"booked {place}"


@tool(effect="read")
def look(place: str) -> str:
    """Looks."""
    DONE.append(f"look {place}")
    return f"saw {place}"


@tool(effect="danger")
def pay(amount: int) -> str:
    """Pays."""
    DONE.append(f"paid {amount}")
    return "paid"


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


def agent_of(path, *replies, **options) -> JsonAgent:
    return JsonAgent([book, look, pay], model=ScriptedModel(*replies), journal=path, **options)


def converse(path, kinds: str, name: str | None = None) -> dict[str, str]:
    """Hold one conversation of several queries; return the answer of each run, "" for one without."""
    answers = {}
    agent = agent_of(path)
    session = Session.open(name, path) if name else None
    for number, kind in enumerate(kinds):
        script = agent.model.script
        del script[len(agent.model.requests) :]
        if kind == "t":
            script += [f"plain {number}", f"plain {number}"]
        elif kind == "p":
            script += [call("pay", amount=number)]
        elif kind == "f":
            script += [ValueError("down")]
        else:
            script += [call("book", place=f"p{number}"), answer(f"answer {number}")]
        with opened_store(path):  # creates it
            before = {run.id for run in runs(path)}
        try:
            text = agent(f"Query {number}", session=session)
        except Exception:
            text = ""
        (run,) = {run.id for run in runs(path)} - before
        answers[run] = text
    return answers


TABLES = ("conversations", "messages", "cut", "runs", "setups", "steps", "leases", "spending")


def content(path) -> list:
    """All rows."""
    with opened_store(path) as store:
        return [row for table in TABLES for row in store.read(f"SELECT * FROM {table}")]


class TestManyQueries:
    @in_databases
    @pytest.mark.parametrize("kinds", ["a", "aa", "at", "taa", "aaaa", "apa", "afa", "pa", "fa", "tatata"])
    @pytest.mark.parametrize("name", [None, "talk"])
    def test_each_finished_run_gives_its_own_answer_in_every_order(self, path, kinds, name):
        answers = {run: text for run, text in converse(path, kinds, name).items() if text}
        before = content(path)
        done = [*DONE]
        for order in itertools.islice(itertools.permutations(answers), 24):
            for run in order:
                agent = agent_of(path)
                result = agent.resume(run)
                assert result.answer == answers[run]
                assert agent.model.requests == []
                assert result.run_id == run
        assert (content(path), DONE) == (before, done)

    @in_databases
    @pytest.mark.parametrize("name", [None, "talk"])
    @pytest.mark.parametrize("kinds", ["aa", "apa", "afat", "tatata"])
    def test_runs_branched_in_every_order_stay_as_they_are(self, path, kinds, name):
        answers = {run: text for run, text in converse(path, kinds, name).items() if text}
        before = set(map(repr, content(path)))
        done = [*DONE]
        for order in itertools.islice(itertools.permutations(answers), 6):
            for number, run in enumerate(order):
                branch = agent_of(path, answer(f"branch {number}")).fork(run, 0)
                assert branch.answer == f"branch {number}"
                own = next(info.query for info in runs(path) if info.id == run)
                assert [message["content"] for message in branch.messages if message["role"] == "user"][-1] == own
            assert [agent_of(path).resume(run).answer for run in order] == [answers[run] for run in order]
        assert before <= set(map(repr, content(path)))
        assert done == DONE

    def test_a_branch_of_an_earlier_run_has_nothing_of_a_later_one(self, path):
        first, _ = converse(path, "aa")
        agent = agent_of(path, answer("other"))
        result = agent.fork(first, 1)
        assert result.answer == "other"
        assert "Query 1" not in json.dumps(result.messages)
        with pytest.raises(JournalError, match="from 0 to 1, got 2"):
            fork(first, 2, store=path)

    def test_an_earlier_run_is_shown_to_its_own_end(self, path):
        first, second = converse(path, "aa")
        assert "Query 1" not in json.dumps(show(first, store=path).messages)
        assert "Query 0" in json.dumps(show(second, store=path).messages)

    def test_a_query_after_an_earlier_run_begins_a_conversation_of_its_own(self, world, path):
        first, _ = converse(path, "aa")
        agent = agent_of(path, answer("third"))
        session = Session.resumed(first, path)
        assert world.run(agent, None, session=session).answer == "answer 0"
        result = world.run(agent, "Query 2", session=session)
        assert result.answer == "third"
        assert "Query 1" not in json.dumps(result.messages)
        assert agent_of(path).resume(result.run_id).answer == "third"

    def test_a_query_on_a_finished_run_leaves_it_as_it_is(self, world, path):
        (only,) = converse(path, "a")
        session = Session.resumed(only, path)
        assert world.run(agent_of(path, answer("next")), "More", session=session).answer == "next"
        assert agent_of(path).resume(only).answer == "answer 0"
        assert [run.state for run in runs(path)] == ["finished", "finished"]

    def test_handed_over_runs_answer_again(self, world, path):
        clerk = JsonAgent(book, model=ScriptedModel(answer("from the clerk")), description="Clerk.")
        agent = agent_of(path, call("transfer_to_clerk", reason="r"), answer("mine"), handoffs={"clerk": clerk})
        first = world.run(agent, "One").run_id
        second = world.run(agent, "Two").run_id
        again = agent_of(path, handoffs={"clerk": JsonAgent(book, model=ScriptedModel(), description="Clerk.")})
        assert again.resume(first).answer == "from the clerk"
        assert again.resume(second).answer == "mine"


class Report(BaseModel):
    text: str


def test_a_typed_answer_is_typed_again(world, path):
    agent = JsonAgent(look, model=ScriptedModel(call("final_answer", text="x")), answer=Report, journal=path)
    run = world.run(agent, "Go").run_id
    again = JsonAgent(look, model=ScriptedModel(), answer=Report, journal=path)
    assert again.resume(run).answer == Report(text="x")


def test_a_finished_run_that_is_killed_while_it_answers_again_keeps_its_answer(path):
    (run,) = converse(path, "a")
    code = (
        "import os, sys\nfrom agentkit import JsonAgent, tool\nfrom agentkit.testing import ScriptedModel\n"
        "@tool(effect='write')\ndef book(place: str) -> str:\n    'Books.'\n    return place\n"
        "agent = JsonAgent(book, model=ScriptedModel(), journal=sys.argv[1],\n"
        "                  listeners=[lambda event: os._exit(9) if type(event).__name__ == 'ToolFinished' else None])\n"
        "agent.resume(sys.argv[2], changed='go on')"
    )
    assert subprocess.run([sys.executable, "-c", code, path, run], check=False).returncode == 9
    assert agent_of(path).resume(run).answer == "answer 0"


class TestAFullDisk:
    @pytest.mark.parametrize("left", range(1, 9))
    def test_a_call_with_an_effect_is_refused_while_it_cannot_be_recorded(self, world, path, monkeypatch, left):
        number = [0]

        def full(write, _, statements):
            number[0] += 1
            if number[0] > left:
                raise JournalError("the journal: database or disk is full")
            write(statements)

        replies = [call("look", place="a"), call("book", place="b"), call("book", place="c"), answer("done")]
        agent = agent_of(path, *replies)
        with monkeypatch.context() as patched:
            patch_append(patched, full)
            result = world.run(agent, "Go")
        assert result.answer == "done"
        assert "look a" in DONE
        effects = [entry for entry in DONE if not entry.startswith("look")]
        refused = [entry for entry in result.calls if "cannot be recorded" in entry.content]
        assert len(effects) + len(refused) == 2
        if [run.state for run in runs(path)] == ["interrupted"]:
            again = agent_of(path, *replies[len(show(runs(path)[0].id, store=path).messages) // 2 :], *replies[-1:] * 3)
            DONE.clear()
            again.resume(runs(path)[0].id)
            assert not set(effects) & set(DONE)


class TestALockedFile:
    def test_the_event_loop_is_not_blocked(self, path, monkeypatch):
        shorten_waits(monkeypatch, HANGS)
        converse(path, "a")

        async def main(unlock):
            run = asyncio.ensure_future(agent_of(path, call("look", place="a"), answer("done")).arun("Go"))
            await asyncio.sleep(1)  # which a blocked loop would not end
            assert not run.done()
            unlock()
            return (await run).answer

        with locked(path) as unlock:
            assert asyncio.run(main(unlock)) == "done"

    def test_a_permanent_lock_is_waited_for_once(self, world, path, monkeypatch):
        wait = 0.5
        count = 60
        shorten_waits(monkeypatch, wait)

        def seconds() -> float:
            start = time.perf_counter()
            calls = [call("look", place=str(number)) for number in range(count)]
            assert world.run(agent_of(path, *calls, answer("done"), max_steps=count + 5), "Go").answer == "done"
            return time.perf_counter() - start

        control = seconds()
        with locked(path):
            assert seconds() < 10 * control + count * wait / 2, "it waits for each call"


def test_a_reply_is_recorded_before_its_calls_begin(path):
    agent = agent_of(path, call("book", place="a"), answer("done"))
    for event in (stream := agent.stream("Go")):
        if type(event).__name__ == "ToolStarted":
            stream.close()
    (run,) = runs(path)
    again = agent_of(path, answer("done"))
    assert again.resume(run.id).answer == "done"
    assert len(again.model.requests) == 1


def killed_after_reply(path) -> str:
    """The id of a run that was killed when its first reply was recorded, and not in the conversation yet."""

    class Killed(BaseException):
        pass

    def kill_after_reply(write, _, statements):
        write(statements)
        if any('"message"' in str(values) for _, values in statements):
            raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patch_append(patched, kill_after_reply)
        with pytest.raises(Killed):
            agent_of(path, call("book", place="a"))("Go")
    return runs(path)[0].id


@in_databases
def test_a_reply_that_is_not_in_the_conversation_yet_is_not_paid_again(path):
    run_id = killed_after_reply(path)
    again = agent_of(path, answer("done"))
    result = again.resume(run_id)
    assert (result.answer, len(again.model.requests), DONE) == ("done", 1, ["a"])
    assert result.steps == 2


@in_databases
def test_the_time_before_such_a_run_is_resumed_does_not_count(path):
    run_id = killed_after_reply(path)
    change_rows(path, "UPDATE steps SET begun = begun - 1000, ended = ended - 1000")
    agent_of(path, answer("done")).resume(run_id)
    with opened_store(path) as store:
        seconds, _ = time_and_calls(store, read_run_records(store, run_id))
    assert seconds < 500


def test_the_loser_of_a_race_reads_who_works_on_the_run(path):
    agent = agent_of(path, call("look", place="a"))
    with pytest.raises(Exception):  # noqa: B017
        agent("Go")
    (run,) = runs(path)
    entered = threading.Event()
    leave = threading.Event()

    @tool(effect="read")
    def look_slowly(place: str) -> str:
        """Looks."""
        entered.set()
        leave.wait(60)
        return place

    other = JsonAgent(
        [book, pay, look, look_slowly], model=ScriptedModel(call("look_slowly", place="x"), answer("ok")), journal=path
    )
    thread = threading.Thread(target=lambda: other.resume(run.id, changed="go on"))
    thread.start()
    try:
        assert entered.wait()
        with pytest.raises(JournalError, match=rf"run {run.id} is in progress: this process, since"):
            agent_of(path).resume(run.id)
    finally:
        leave.set()
        thread.join()


def test_old_files_are_upgraded(file):
    converse(file, "a")
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("ALTER TABLE runs DROP COLUMN last")
        opened.execute("ALTER TABLE steps DROP COLUMN digest")
        opened.execute("ALTER TABLE cut DROP COLUMN digest")
        opened.execute("ALTER TABLE conversations DROP COLUMN title")
        opened.execute("ALTER TABLE conversations DROP COLUMN tags")
        opened.execute("DROP TABLE spending")
        opened.execute("PRAGMA user_version=1")
    (run,) = runs(file)
    assert agent_of(file).resume(run.id).answer == "answer 0"


@in_databases
def test_damage_of_a_step_names_the_run(path):
    converse(path, "a")
    change_rows(path, "UPDATE steps SET outcome = replace(outcome, 'booked', 'hooked') WHERE call != ''")
    (run,) = runs(path)
    assert run.state == "damaged"
    with pytest.raises(JournalError, match=f"is damaged: step 1 of run {run.id}"):
        agent_of(path).resume(run.id)


@in_databases
@pytest.mark.parametrize(
    ("statement", "where"),
    [("UPDATE runs SET outcome = '{'", "run"), ("UPDATE conversations SET state = '{'", "conversation")],
)
def test_damage_is_a_journal_error_that_names_the_run_or_the_conversation(path, statement, where):
    (run,) = converse(path, "a")
    change_rows(path, statement)
    with pytest.raises(JournalError, match=rf"is damaged: {where} "):
        agent_of(path).resume(run)


def test_ten_thousand_runs_are_listed_in_little_time(file):
    converse(file, "aa")
    with closing(sqlite3.connect(file)) as opened, opened:
        runs_, messages, steps = (
            opened.execute(f"SELECT * FROM {table}").fetchall() for table in ("runs", "messages", "steps")
        )
        for number in range(5_000):
            key = 1000 + number
            opened.executemany(
                f"INSERT INTO runs VALUES ({', '.join('?' * 12)})",
                [(f"{row[0][:6]}{number:06}", key, *row[2:]) for row in runs_],
            )
            opened.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", [(key, *row[1:]) for row in messages])
            opened.executemany(
                f"INSERT INTO steps VALUES ({', '.join('?' * 10)})",
                [(f"{row[0][:6]}{number:06}", *row[1:9], None) for row in steps],
            )
    with takes_at_most(300):  # quadratic listing takes minutes
        assert len(runs(file)) == 10_002


def count_calls(function) -> int:
    """Call `function` and return how many calls of functions that takes."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", ["db", "jsonl"])
def test_a_long_conversation_is_opened_in_linear_time_and_a_turn_does_not_read_it(tmp_path, end):
    path = tmp_path / f"runs.{end}"
    agent = JsonAgent(look, model=ScriptedModel(*[answer("yes")] * 702), journal=path)
    session = Session.open("ada", path)
    figures = []
    with opened_store(path):  # else a file of lines is read again when it was closed meanwhile
        for _ in range(2):
            for _ in range(350):
                agent("Go", session=session)
            opening = count_calls(lambda: Session.open("ada", path))
            figures.append((opening, count_calls(lambda: agent("Go", session=session))))
    (half, early), (whole, late) = figures
    assert whole < 2.3 * half
    assert late - early < 20 * 700, "what the request itself costs"


def count_digests(read) -> int:
    """Call `read` and return how often a stored text is checked."""
    profile = cProfile.Profile()
    profile.runcall(read)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(figures[0] for (_, _, name), figures in stats.items() if name == "digest")


def count_rows(file) -> int:
    with closing(sqlite3.connect(file)) as opened, opened:
        return sum(opened.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("messages", "steps"))


def test_a_conversation_is_read_once_to_show_its_runs(file):
    converse(file, "a" * 30, name="Ada")
    digests = count_digests(lambda: find_conversation("Ada", file))
    assert digests < 4 * count_rows(file), "a read for each run reads 30 times as much"


def test_a_conversation_is_read_once_to_list_its_runs(file):
    converse(file, "a" * 30, name="Ada")
    rows = count_rows(file)
    with closing(sqlite3.connect(file)) as opened, opened:
        row = opened.execute("SELECT * FROM runs LIMIT 1").fetchone()
        copies = [(f"copy{number}", *row[1:]) for number in range(3_000)]
        opened.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * 12)})", copies)
    listed: list[RunInfo] = []
    assert count_digests(lambda: listed.extend(runs(file))) == rows
    assert (len(listed), len({run.conversation for run in listed})) == (3_030, 1)


def test_a_limit_counts_the_runs_that_can_be_resumed(path):
    leave = threading.Event()
    begun = threading.Event()

    def wait() -> str:
        """Waits."""
        begun.set()
        leave.wait(60)
        return "waited"

    with pytest.raises(KeyboardInterrupt):
        JsonAgent(look, model=ScriptedModel(KeyboardInterrupt()), journal=path).run("stopped")
    agent = JsonAgent(wait, model=ScriptedModel(call("wait"), answer("done")), journal=path)
    thread = threading.Thread(target=agent.run, args=("running",))
    thread.start()
    try:
        assert begun.wait()
        assert [run.query for run in runs(path, unfinished=True, limit=1)] == ["stopped"]
    finally:
        leave.set()
        thread.join()


@in_databases
def test_sound_runs_are_saved_from_a_damaged_file(path, tmp_path):
    answers = converse(path, "aa")
    (lost,) = converse(path, "a").keys()
    change_rows(path, f"UPDATE steps SET name = 'other' WHERE run = '{lost}'")
    assert [line.partition(":")[0] for line in find_problems(path)] == [f"run {lost}"]
    saved = tmp_path / "saved.db"
    assert salvage(path, saved) == 2
    assert find_problems(saved) == []
    assert {run: agent_of(saved).resume(run).answer for run in answers} == answers
    with pytest.raises(DefinitionError, match="exists"):
        salvage(path, saved)


def test_many_calls_are_recorded_in_linear_time(file):
    messages = [{"role": "system", "content": "You write."}, {"role": "user", "content": "Go"}]
    setup = Setup("You write.", {})
    rows = []
    conversation = JournaledConversation(Journal(file))
    writer = JournalWriter(conversation, messages, dict, TruncatedResults(), setup, append=rows.extend)
    writer.begin("Go", "scripted")
    with takes_at_most(300):  # minutes, if each write visits all calls
        for number in range(50_000):
            writer.begin_call(BoundCall(ToolCall(f"call_{number}", "book", "{}"), lambda: None))
            assert not writer.may_run(f"call_{number}")
            writer.write()
            assert writer.may_run(f"call_{number}")
    assert len(rows) > 50_000
