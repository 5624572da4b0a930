"""Runs that are kept: what is written when, who may go on with them, and what stands in the way."""

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from stores import change_rows, patch_append

from agentkit import DefinitionError, JsonAgent, RunError, Session, ToolError, tool
from agentkit.core.errors import ModelError, Paused
from agentkit.core.messages import ToolCall, assistant, pending_calls
from agentkit.engine.history import check_history
from agentkit.engine.model import Reply
from agentkit.sessions.journal import Journal, JournalError, delete, fork, prune, runs, show
from agentkit.sessions.journal import maintenance as reader
from agentkit.sessions.journal.connections import open_store, opened_store
from agentkit.sessions.journal.policy import JournalFailed
from agentkit.sessions.journal.sqlite import SqliteStore
from agentkit.sessions.journal.writer import JournaledConversation
from agentkit.testing import ScriptedModel


def call(name: str, **arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def calls(*entries):
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in entries]}


def final(text: str):
    return call("final_answer", text=text)


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


ADD = call("add", a=1, b=2)
DOWN = ModelError("down", kind="authentication")


class Stopped(BaseException):
    """What stops a run from outside, as an interrupt does."""


def stopping(*_):
    raise Stopped


def agent_of(path, *replies, tools=(add,), **settings) -> JsonAgent:
    return JsonAgent([*tools], model=ScriptedModel(*replies), journal=path, retries=0, **settings)


def stopped(world, path, *replies, tools=(add,), **settings) -> str:
    """A run that was stopped when the replies were at their end; its id."""
    with pytest.raises(Stopped):
        world.run(agent_of(path, *replies, stopping, tools=tools, **settings), "Go")
    return runs(path)[0].id


def resumed(world, agent: JsonAgent, run_id: str, **how):
    if world.name == "sync":
        return agent.resume(run_id, **how)
    return asyncio.run(agent.aresume(run_id, **how))


class TestGoingOn:
    def test_a_finished_run_is_listed_with_what_it_came_to(self, world, path):
        result = world.run(agent_of(path, ADD, final("3")), "1 + 2?")
        (run,) = runs(path)
        assert (run.id, run.state, run.query, run.answer, run.steps) == (result.run_id, "finished", "1 + 2?", "3", 2)
        assert not run.is_unfinished
        assert run.usage == result.usage

    def test_replies_and_results_are_not_had_twice(self, world, path):
        run_id = stopped(world, path, ADD, call("add", a=3, b=4))
        assert [(run.id, run.state, run.steps) for run in runs(path, unfinished=True)] == [(run_id, "interrupted", 3)]
        model = ScriptedModel(final("10"))
        result = resumed(world, JsonAgent([add], model=model, journal=path), run_id)
        assert (result.answer, result.steps, result.usage.requests, result.run_id) == ("10", 3, 3, run_id)
        assert [m["content"] for m in model.requests[0].messages if m["role"] == "tool"] == ["3", "7"]
        assert check_history(result.messages) == []

    def test_a_run_goes_on_streamed_and_beside_the_agents_own_conversation(self, world, path):
        run_id = stopped(world, path, ADD)
        agent = agent_of(path, final("3"))
        events = world.stream(agent, None, session=Session.resumed(run_id, path))
        assert events[-1].result.answer == "3"
        assert not agent.session.messages

    def test_the_agent_goes_on_with_the_conversation(self, world, path):
        run_id = stopped(world, path, ADD)
        agent = agent_of(path, final("3"), final("still 3"))
        resumed(world, agent, run_id)
        assert world.run(agent, "And now?").answer == "still 3"
        assert [m["content"] for m in agent.history if m["role"] == "user"] == ["Go", "And now?"]
        assert sorted((run.query, run.state) for run in runs(path)) == [("And now?", "finished"), ("Go", "finished")]

    def test_a_failed_run_goes_on_with_another_model(self, world, path):
        with pytest.raises(ModelError) as caught:
            world.run(agent_of(path, ADD, DOWN), "Go")
        (run,) = runs(path)
        assert (run.state, run.error) == ("failed", "ModelError: down")
        assert f"agentkit resume {run.id} --journal {path}" in "\n".join(caught.value.__notes__)
        assert resumed(world, agent_of(path), run.id, model=ScriptedModel(final("3"))).answer == "3"

    def test_within_the_process_a_run_goes_on_under_its_name(self, world, path):
        agent = agent_of(path, ADD, DOWN, final("3"))
        with pytest.raises(ModelError):
            world.run(agent, "Go")
        result = world.run(agent, None)
        assert (result.answer, result.usage.requests, agent.session.usage.requests) == ("3", 2, 2)
        assert [(run.id, run.state) for run in runs(path)] == [(result.run_id, "finished")]

    def test_a_finished_run_gives_its_answer_again(self, world, path):
        result = world.run(agent_of(path, ADD, final("3")), "Go")
        again = resumed(world, agent_of(path), result.run_id)
        assert (again.answer, again.messages[1:], again.usage) == ("3", result.messages[1:], result.usage)

    def test_a_finished_run_gives_a_typed_answer_and_a_text_again(self, world, path):
        typed = world.run(agent_of(path, call("final_answer", answer=[1, 2]), answer=list[int]), "Go")
        assert resumed(world, agent_of(path, answer=list[int]), typed.run_id).answer == [1, 2]
        text = world.run(agent_of(path, "It is 3.", "It is 3."), "Go")
        assert text.stopped == "text"
        for _ in range(2):
            assert resumed(world, agent_of(path), text.run_id).answer == "It is 3."

    def test_an_id_may_be_shortened_and_an_unknown_one_is_named(self, path, new_journal):
        agent = agent_of(path, final("3"))
        agent("Go")
        assert agent.resume(runs(path)[0].id[:5]).answer == "3"
        with pytest.raises(JournalError, match="no run has the id 'nothing'"):
            agent.resume("nothing")
        with pytest.raises(JournalError, match=r"does not exist|has no journal"):
            agent.resume("nothing", journal=new_journal())

    def test_a_journal_can_be_named_for_one_call(self, world, path):
        agent = JsonAgent(add, model=ScriptedModel(final("3"), final("4")))
        world.run(agent, "Go", journal=path)
        world.run(agent, "And?")  # the conversation is kept by then
        assert len(runs(path)) == 2

    def test_a_typed_journal_says_how(self, world, path):
        assert world.run(agent_of(Journal(path, sync="full"), ADD, final("3")), "Go").answer == "3"
        with pytest.raises(DefinitionError, match="sync"):
            Journal(path, sync="sometimes")
        with pytest.raises(DefinitionError, match="errors"):
            Journal(path, errors="ignore")

    def test_what_stops_a_run_carries_the_line_that_goes_on_with_it(self, world, path):
        def interrupt(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            world.run(agent_of(path, ADD, interrupt), "Go")
        run_id = runs(path)[0].id
        assert f"agentkit resume {run_id} --journal {path}" in "\n".join(getattr(caught.value, "__notes__", []))

    def test_a_call_that_was_given_up_before_it_began_is_made(self, path):
        made: list[int] = []

        def act(number: int) -> int:
            """Acts."""
            made.append(number)
            return number

        events = agent_of(path, call("act", number=7), tools=[act]).stream("Go")
        assert any(type(event).__name__ == "ToolStarted" for event in events)
        events.close()
        assert made == []
        result = agent_of(path, final("ok"), tools=[act]).resume(runs(path)[0].id)
        assert (made, result.messages[3]["content"]) == ([7], "7")

    def test_an_abandoned_stream_can_be_resumed(self, path):
        for event in agent_of(path, ADD, final("3")).stream("Go"):
            if type(event).__name__ == "ToolFinished":
                break
        del event
        (run,) = runs(path)
        assert run.state in ("interrupted", "running")
        assert agent_of(path, final("3")).resume(run.id).answer == "3"


class TestCallsUnderWay:
    def run_stopped_in(self, world, path, effect):
        made: list[str] = []

        @tool(effect=effect)
        def act(what: str) -> str:
            """Acts."""
            made.append(what)
            if what == "second" and len(made) <= 2:
                raise KeyboardInterrupt
            return f"{what} done"

        turn = calls(("act", {"what": "first"}), ("act", {"what": "second"}), ("act", {"what": "third"}))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=[act], sequential=True), "Go")
        return made, act, runs(path)[0].id

    @pytest.mark.parametrize("effect", [None, "write"])
    def test_one_that_may_have_had_an_effect_is_told_to_be_unknown(self, world, path, effect):
        made, act, run_id = self.run_stopped_in(world, path, effect)
        result = resumed(world, agent_of(path, final("ok"), tools=[act], sequential=True), run_id)
        assert made == ["first", "second", "third"]
        said = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert said[0] == "first done"
        assert said[1].startswith("OutcomeUnknown: the run was stopped while this call was under way")
        assert said[2] == "third done"

    @pytest.mark.parametrize("effect", ["read", "idempotent"])
    def test_one_that_can_be_made_twice_is(self, world, path, effect):
        made, act, run_id = self.run_stopped_in(world, path, effect)
        resumed(world, agent_of(path, final("ok"), tools=[act], sequential=True), run_id)
        assert made == ["first", "second", "second", "third"]

    @pytest.mark.parametrize(("said", "told"), [(True, "second done"), ("it was done", "it was done"), (None, "OutcomeUnknown"), (False, "OutcomeUnknown")])  # fmt: skip
    def test_somebody_can_say_what_became_of_it(self, world, path, said, told):
        made, act, run_id = self.run_stopped_in(world, path, None)
        asked = []

        def decide(call):
            asked.append((call.name, json.loads(call.arguments)))
            return said

        agent = agent_of(path, final("ok"), tools=[act], sequential=True)
        result = resumed(world, agent, run_id, on_uncertain=decide)
        assert asked == [("act", {"what": "second"})]
        assert result.messages[4]["content"].startswith(told)
        assert made.count("second") == (2 if said is True else 1)

    def test_the_person_can_say_it(self, path, monkeypatch, world):
        _made, act, run_id = self.run_stopped_in(world, path, None)
        monkeypatch.setattr("builtins.input", lambda text: "y" if "second" in text else "n")
        agent = agent_of(path, final("ok"), tools=[act], sequential=True)
        assert resumed(world, agent, run_id, on_uncertain="ask").messages[4]["content"] == "second done"

    def test_of_hidden_values_the_model_reads_that_the_outcome_is_unknown_and_what_was_refused(self, world, path):
        @tool(effect="read", trust="untrusted")
        def look() -> str:
            """Looks."""
            return "a note of others"

        @tool(effect="write")
        def act(what: str) -> str:
            """Acts."""
            raise KeyboardInterrupt

        def decide(call):
            return "not now" if "twice" in call.arguments else True

        settings = {"tools": [look, act], "sequential": True, "untrusted": "hidden", "approve": decide}
        turn = calls(("act", {"what": "{#1} twice"}), ("act", {"what": "Send {#1}"}))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, calls(("look", {})), turn, **settings), "Go")
        result = resumed(world, agent_of(path, final("ok"), **settings), runs(path)[0].id)
        said = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert said[1] == "Denied: not now"
        assert said[2].startswith("OutcomeUnknown: the run was stopped while this call was under way")

    def test_errors_images_and_long_results_come_back_as_they_were(self, world, path):
        picture = b"\x89PNG\r\n\x1a\n" + bytes(20)
        turns = []

        def paint() -> bytes:
            """Paints."""
            turns.append("paint")
            return picture

        def fail() -> str:
            """Fails."""
            turns.append("fail")
            raise ToolError("not today")

        def tell() -> str:
            """Tells."""
            turns.append("tell")
            return "x" * 500

        def stop() -> str:
            """Stops."""
            if turns[-1] != "stop":
                turns.append("stop")
                raise KeyboardInterrupt
            return "stopped"

        tools = [paint, fail, tell, stop]
        turn = calls(("paint", {}), ("fail", {}), ("tell", {}), ("stop", {}))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=tools, sequential=True, max_result=100), "Go")
        agent = agent_of(path, final("ok"), tools=tools, sequential=True, max_result=100)
        result = resumed(world, agent, runs(path)[0].id)
        assert turns == ["paint", "fail", "tell", "stop"]
        shown = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert shown[0][1]["type"] == "image_url"
        assert shown[1] == "not today"
        assert "300 of 500 characters" not in shown[2]
        assert "400 of 500 characters are left out" in shown[2]
        assert [*agent.session.cut.texts.values()][:1] == ["x" * 500]

    def test_texts_of_results_that_were_cut_can_be_read_on_after_a_restart(self, world, path):
        def tell() -> str:
            """Tells."""
            return "x" * 500

        run_id = stopped(world, path, call("tell"), tools=[tell], max_result=100)
        session = Session.resumed(run_id, path)
        assert [*session.cut.texts.values()] == ["x" * 500]


class TestApprovals:
    def tools(self, made):
        @tool(effect="danger")
        def pay(to: str) -> str:
            """Pays."""
            made.append(to)
            return f"paid {to}"

        return [pay]

    def test_a_paused_run_goes_on_in_another_process(self, world, path):
        made: list[str] = []
        with pytest.raises(Paused):
            world.run(agent_of(path, call("pay", to="me"), tools=self.tools(made)), "Go")
        (run,) = runs(path)
        assert run.state == "paused"
        (waiting,) = Session.resumed(run.id, path).waiting
        agent = agent_of(path, final("ok"), tools=self.tools(made))
        assert resumed(world, agent, run.id, approvals={waiting.id: {"to": "you"}}).answer == "ok"
        assert made == ["you"]

    @pytest.mark.parametrize("name", ["", "kolkata"])
    def test_a_call_that_was_begun_is_not_decided_again(self, world, path, name):
        made: list[str] = []
        asked: list[str] = []

        def decide(call):
            asked.append(call.arguments)
            return {"to": "you"} if len(asked) == 1 else True

        @tool(effect="read")
        def stop() -> str:
            """Stops."""
            if len(made) == 1 and "stopped" not in made:
                made.append("stopped")
                raise KeyboardInterrupt
            return "went on"

        tools = [*self.tools(made), stop]
        turn = calls(("pay", {"to": "me"}), ("stop", {}))
        session = Session.open(name, path) if name else Session()
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=tools, approve=decide), "Go", session=session)
        before, agent = len(asked), agent_of(path, final("ok"), tools=tools, approve=decide)
        if name:
            result = world.run(agent, None, session=Session.open(name, path))
        else:
            result = resumed(world, agent, runs(path)[0].id)
        assert made == ["you", "stopped"]
        assert asked[before:] == ["{}"], "only about the read, which is repeated"
        assert next(m["content"] for m in result.messages if m["role"] == "tool").endswith("paid you")


class TestAChangedAgent:
    def other(self, description: str):
        def add(a: int, b: int, c: int) -> int:
            """Adds."""
            return a + b + c

        return {"tools": [add], "description": description}

    def test_is_refused_by_the_name_of_what_changed(self, world, path):
        run_id = stopped(world, path, ADD)
        with pytest.raises(JournalError) as caught:
            resumed(world, agent_of(path, **self.other("You are new.")), run_id)
        for part in ("add.c: ", "instruction: recorded '", "now 'You are new.", 'changed="go on"'):
            assert part in str(caught.value), part
        assert resumed(world, agent_of(path, final("3")), run_id).answer == "3"

    def test_goes_on_if_the_caller_says_so(self, world, path):
        run_id = stopped(world, path, ADD)
        agent = agent_of(path, final("3"), **self.other("You are new."))
        result = resumed(world, agent, run_id, changed="go on")
        assert result.messages[0]["content"].startswith("You are new.")

    def test_a_call_of_a_tool_that_is_gone_keeps_its_result(self, world, path):
        made: list[str] = []

        def act(what: str) -> str:
            """Acts."""
            made.append(what)
            if what == "stop":
                raise KeyboardInterrupt
            return "done"

        turn = calls(("act", {"what": "go"}), ("act", {"what": "stop"}))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=[act], sequential=True), "Go")
        result = resumed(world, agent_of(path, final("ok")), runs(path)[0].id, changed="go on")
        assert result.messages[3]["content"] == "done"
        assert result.messages[4]["content"].startswith("OutcomeUnknown")


HOLDER = """
import sys, time
from agentkit.sessions.journal.connections import open_store
open_store(sys.argv[1]).lease(int(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""
LEASE_MANY = """
import sys, time
from agentkit.sessions.journal.connections import open_store
store = open_store(sys.argv[1])
for key in range(100, 200):
    store.lease(key)
print("held", flush=True)
time.sleep(60)
"""
HOLDER_WITH_CHILD = """
import os, sys, time
from agentkit.sessions.journal.connections import open_store
store = open_store(sys.argv[1])
store.lease(100)
if os.fork():
    print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def killed(code, path):
    """Run a program that prints "held" until it is killed; what it started ends after the body."""
    program = [sys.executable, "-W", "ignore", "-c", code, path]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            process.kill()
            process.wait()
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def until(condition) -> None:
    """Wait for what the database notices only after a moment."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestLeases:
    def test_a_run_has_one_holder(self, path):
        entered, leave = threading.Event(), threading.Event()

        def wait() -> str:
            """Waits."""
            entered.set()
            leave.wait(10)
            return "waited"

        agent = agent_of(path, call("wait"), final("ok"), tools=[wait])
        thread = threading.Thread(target=agent, args=("Go",))
        thread.start()
        try:
            assert entered.wait(5)
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

    def test_it_ends_with_the_process_that_holds_it(self, path):
        child = subprocess.Popen([sys.executable, "-c", HOLDER, path, "7"], stdout=subprocess.PIPE, text=True)
        with opened_store(path) as store:
            try:
                assert child.stdout.readline() == "held\n"
                holder = rf"process {child.pid}( on [\w.-]+)?, since 20\d\d-"
                with pytest.raises(JournalError, match=rf"in progress: {holder}.*Wait until"):
                    store.lease(7)
                store.lease(8).release()
                assert store.is_leased(7)
                assert not store.is_leased(8)
            finally:
                child.kill()
                child.communicate()
            until(lambda: not store.is_leased(7))
            lease = store.lease(7)
            with pytest.raises(JournalError, match="in progress: this process, since"):
                store.lease(7)
            assert store.is_leased(7)
            lease.release()
            lease.release()
            assert not store.is_leased(7)

    def test_it_survives_a_copy_of_its_file_inside_the_process(self, file):
        code = (
            "import sys\nfrom agentkit.sessions.journal.connections import open_store\n"
            "store = open_store(sys.argv[1])\n"
            "for key in (7, 8):\n"
            "    try:\n        store.lease(key).release()\n"
            "    except Exception as error:\n        print(error)"
        )
        with opened_store(file) as store:
            lease = store.lease(7, "run x")
            (held,) = file.parent.glob("runs.db-lease-*")
            shutil.copy(held, file.with_name("copy"))
            held.read_bytes()
            with held.open("rb+"):
                pass
            try:
                other = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
                assert store.is_leased(7)
            finally:
                lease.release()
            assert re.fullmatch(rf"the conversation is in progress: process {os.getpid()} on .*\n", other.stdout)
            assert not store.is_leased(7)

    def test_many_leases_need_one_open_file(self, path):
        with opened_store(path) as store:
            leases = [store.lease(1)]
            before = os.dup(0)  # the lowest free number
            os.close(before)
            leases += [store.lease(key) for key in range(2, 50)]
            after = os.dup(0)
            os.close(after)
            for lease in leases:
                lease.release()
        assert after == before

    def test_a_process_that_lists_runs_refuses_no_run(self, path):
        code = (
            "import sys\nfrom agentkit.sessions.journal.connections import open_store\n"
            "store = open_store(sys.argv[1])\nstore.lease(8)\nprint('ready', flush=True)\n"
            "while True:\n    [store.is_leased(key) for key in (7, *range(100, 200))]"
        )
        lister = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
        with opened_store(path) as store, killed(LEASE_MANY, path), lister:
            try:
                assert lister.stdout.readline() == "ready\n"
                until(lambda: not store.is_leased(100))
                for key in (*[7] * 200, *range(100, 200)):
                    store.lease(key).release()
            finally:
                lister.kill()

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_lease_of_a_forked_process_ends_with_it(self, path):
        with opened_store(path) as store:
            child = os.fork()
            if child == 0:
                open_store(path).lease(7)
                os._exit(0)
            os.waitpid(child, 0)
            until(lambda: not store.is_leased(7))
            for _ in range(3):
                store.lease(7).release()
        assert [*Path(str(path)).parent.glob("runs.db?*")] == []

    def test_a_forked_process_keeps_no_lease_of_its_parent(self, path):
        with opened_store(path) as store, killed(HOLDER_WITH_CHILD, path):
            until(lambda: not store.is_leased(100))
            store.lease(100).release()

    def test_a_lease_that_could_not_be_removed_holds_up_nobody(self, path, monkeypatch):
        def fail(write, store, statements):
            raise JournalError("the disk is full")

        with opened_store(path) as store:
            lease = store.lease(7)
            with monkeypatch.context() as patched:
                patch_append(patched, fail)
                lease.release()
                with pytest.raises(JournalError, match="the disk is full"):
                    store.lease(8)
            assert not store.is_leased(7)
            store.lease(7).release()
            assert store.read("SELECT * FROM leases") == []

    def test_whoever_comes_too_late_is_told(self, world, path):
        run_id = stopped(world, path, ADD)
        late = Session.resumed(run_id, path)
        resumed(world, agent_of(path, final("3")), run_id)
        with pytest.raises(JournalError, match="continued elsewhere"):
            world.run(agent_of(path), None, session=late)

    def test_many_runs_share_a_file(self, path):
        def go(number):
            return JsonAgent(add, model=ScriptedModel(ADD, final(str(number))), journal=path)("Go")

        answers = []
        threads = [threading.Thread(target=lambda n=n: answers.append(go(n))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [str(n) for n in range(8)]
        assert [run.state for run in runs(path)] == ["finished"] * 8

    def test_processes_share_a_file(self, path):
        code = (
            "import sys\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel\n"
            "def add(a: int, b: int) -> int:\n    'Adds.'\n    return a + b\n"
            "c = lambda n, **a: {'tool_calls': [{'name': n, 'arguments': a}]}\n"
            "for _ in range(10):\n"
            "    JsonAgent(add, model=ScriptedModel(c('add', a=1, b=2), c('final_answer', text='3')), journal=sys.argv[1])('Go')"
        )
        both = [subprocess.Popen([sys.executable, "-c", code, path], stderr=subprocess.PIPE) for _ in range(2)]
        for child in both:
            assert child.communicate(timeout=50)[1].decode() == ""
            assert child.returncode == 0
        assert [run.state for run in runs(path)] == ["finished"] * 20


class TestSessions:
    def test_a_conversation_goes_on_by_name(self, world, path):
        agent = agent_of(None, final("hello"), final("again"))
        agent.journal = None
        world.run(agent, "Hi", session=Session.open("kolkata", store=path))
        session = Session.open("kolkata", store=path)
        assert world.run(agent, "Hi again", session=session).answer == "again"
        assert [m["content"] for m in session.messages if m["role"] == "user"] == ["Hi", "Hi again"]
        assert session.usage.requests == 2
        assert Session.open("kolkata", store=path).messages == session.messages
        assert Session.open("mumbai", store=path).messages == []

    def test_a_run_in_it_that_was_stopped_goes_on_without_a_query(self, world, path):
        with pytest.raises(Stopped):
            world.run(agent_of(path, ADD, stopping), "Go", session=Session.open("kolkata", path))
        session = Session.open("kolkata", path)
        assert world.run(agent_of(path, final("3")), None, session=session).answer == "3"

    def test_a_new_query_leaves_the_stopped_run_behind(self, world, path):
        run_id = stopped(world, path, ADD)
        session = Session.resumed(run_id, path)
        assert world.run(agent_of(path, final("other")), "Something else", session=session).answer == "other"
        assert {run.query: run.state for run in runs(path)} == {"Go": "superseded", "Something else": "finished"}
        with pytest.raises(JournalError, match="continued with another run"):
            agent_of(path).resume(run_id)

    def test_a_conversation_that_was_cleared_stays_as_it_was(self, world, path):
        session = Session.open("kolkata", path)
        agent = agent_of(path, ADD, final("3"), final("new"))
        first = world.run(agent, "Go", session=session)
        session.clear()
        world.run(agent, "Anew", session=session)
        assert [m["role"] for m in show(first.run_id, store=path).messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]  # fmt: skip
        assert [m["content"] for m in Session.open("kolkata", path).messages if m["role"] == "user"] == ["Anew"]

    def test_it_is_in_one_journal(self, world, path, new_journal):
        session = Session.open("kolkata", path)
        with pytest.raises(RunError, match="Leave journal= out"):
            world.run(agent_of(new_journal(), final("3")), "Go", session=session)

    def test_hand_offs_are_remembered(self, world, path):
        def team(*replies):
            other = JsonAgent(add, model=ScriptedModel(*replies), description="You are the other.")
            first = ScriptedModel(call("transfer_to_other", reason="sums"))
            return JsonAgent(
                add, model=first, handoffs={"other": other}, journal=path, description="You are the first."
            )

        with pytest.raises(Stopped):
            world.run(team(ADD, stopping), "Go")
        result = resumed(world, team(final("3")), runs(path)[0].id)
        assert (result.answer, result.handed) == ("3", ("other",))
        assert result.messages[0]["content"].startswith("You are the other.")

    @pytest.mark.parametrize(("step", "handed"), [(0, ()), (1, ("other",))])
    def test_a_branch_goes_on_with_whoever_had_the_conversation_by_then(self, world, path, step, handed):
        def team(first, *replies):
            other = JsonAgent(add, model=ScriptedModel(*replies))
            return JsonAgent(add, model=ScriptedModel(first), handoffs={"other": other}, journal=path)

        run_id = world.run(team(call("transfer_to_other", reason="sums"), ADD, final("3")), "Go").run_id
        branch = fork(run_id, step, store=path)
        result = resumed(world, team(final("first"), final("other")), branch)
        assert (result.answer, result.handed) == (handed[0] if handed else "first", handed)


class TestLookingAfter:
    def test_a_run_is_shown(self, path, tmp_path):
        result = agent_of(path, ADD, final("3")).run("1 + 2?")
        shown = show(result.run_id, store=path)
        for part in ("query    1 + 2?", "call     add(a=1, b=2)", "result   add: 3", "answer   3", "stopped: answer"):
            assert part in str(shown), part
        assert "1 + 2?" in shown.to_html(tmp_path / "run.html")
        assert (tmp_path / "run.html").exists()
        assert "add" in shown._repr_html_()
        assert shown.as_dict()["messages"] == result.messages
        assert [span["kind"] for span in shown.trace["spans"]] == ["model", "tool", "model"]

    def test_secrets_are_kept_in_the_file_and_shown_nowhere(self, path, monkeypatch):
        monkeypatch.setenv("SHOP_API_KEY", "s3cr3t-value-42")
        result = agent_of(path, final("it is s3cr3t-value-42")).run("What is the key?")
        shown = show(result.run_id, store=path)
        assert "s3cr3t" not in str(shown) + shown.to_html() + shown._repr_html_()
        assert agent_of(path).resume(result.run_id).answer == "it is s3cr3t-value-42"

    @pytest.mark.parametrize("step", [0, 1, 2])
    def test_a_branch_goes_on_from_any_step(self, world, path, step):
        result = world.run(agent_of(path, ADD, call("add", a=3, b=4), final("10")), "Go")
        branch = fork(result.run_id, step, store=path)
        assert branch != result.run_id
        model = ScriptedModel(final("branched"))
        other = resumed(world, JsonAgent([add], model=model, journal=path, description="Other."), branch)
        assert other.answer == "branched"
        roles = ["system", "user", *["assistant", "tool"] * step]
        assert [message["role"] for message in model.requests[0].messages] == roles
        assert show(result.run_id, store=path).messages == result.messages
        assert {run.id: run.origin for run in runs(path)}[branch] == f"{result.run_id}:{step}"
        with pytest.raises(JournalError, match="from 0 to 2, got 3"):
            fork(result.run_id, 3, store=path)

    def test_a_branch_goes_on_with_other_tools_and_another_instruction(self, path):
        def double(n: int) -> int:
            """Doubles."""
            return 2 * n

        result = agent_of(path, ADD, final("3")).run("Go")
        model = ScriptedModel(call("double", n=3), final("6"))
        agent = agent_of(path)
        branch = agent.fork(result.run_id, 1, tools=[double], instruction="Double it.", model=model)
        assert branch.answer == "6"
        assert sorted(model.requests[0].tools) == ["double", "final_answer"]
        assert branch.messages[0]["content"] == "Double it."
        assert agent.instruction != "Double it."
        assert [*agent.tools] == ["final_answer", "add"]
        assert branch.run_id != result.run_id

    def test_many_queries_are_kept_each_as_a_run(self, path):
        def reply(request):
            return final(request.messages[-1]["content"])

        agent = agent_of(path, *[reply] * 6)
        assert [result.answer for result in agent.map(map(str, range(6)), concurrency=3)] == [*"012345"]
        assert sorted(run.answer for run in runs(path)) == [*"012345"]

    @pytest.mark.parametrize(
        ("effect", "told"), [(None, "3"), ("read", "3"), ("write", "OutcomeUnknown"), ("danger", "OutcomeUnknown")]
    )
    def test_an_agent_that_a_function_asks_goes_on_unless_the_function_declares_a_change(
        self, world, path, effect, told
    ):
        def interrupt(_):
            raise KeyboardInterrupt

        models = [ScriptedModel(ADD, interrupt), ScriptedModel(final("3"))]

        @tool(effect=effect)
        def ask_adder(query: str) -> str:
            """Asks."""
            return JsonAgent(add, model=models.pop(0))(query)

        agent = agent_of(path, call("ask_adder", query="1 + 2"), tools=[ask_adder], approve=lambda _: True)
        with pytest.raises(KeyboardInterrupt):
            world.run(agent, "Go")
        (run,) = runs(path)
        assert run.last == "calling ask_adder"
        result = resumed(world, agent_of(path, final("?"), tools=[ask_adder]), run.id)
        assert result.messages[3]["content"].startswith(told)

    def test_an_unfinished_run_is_branched_with_what_was_done(self, world, path):
        run_id = stopped(world, path, ADD)
        branch = fork(run_id, 1, store=path)
        assert resumed(world, agent_of(path, final("3")), branch).steps == 2
        assert resumed(world, agent_of(path, final("3")), run_id).answer == "3"

    def test_what_is_deleted_is_gone(self, world, path):
        first = world.run(agent_of(path, final("a secret word")), "Go")
        second = world.run(agent_of(path, final("3")), "Stay")
        delete(first.run_id, store=path)
        assert [run.id for run in runs(path)] == [second.run_id]
        with opened_store(path) as store:
            assert store.read("SELECT count(*) FROM messages WHERE body LIKE ?", "%a secret word%") == [(0,)]
            assert store.read("SELECT count(*) FROM conversations") == [(1,)]

    def test_what_is_deleted_is_overwritten(self, file):
        first = agent_of(file, final("a secret word")).run("Go")
        assert b"a secret word" in file.read_bytes()
        delete(first.run_id, store=file)
        assert b"a secret word" not in file.read_bytes()

    def test_what_is_old_is_pruned(self, path):
        agent_of(path, final("3"))("Go")
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

    def test_the_file_grows_with_what_was_said(self, tmp_path):
        def size(turns):
            file = tmp_path / f"{turns}.db"
            agent_of(file, *[call("add", a=n, b=n) for n in range(turns)], final("3"), max_steps=turns + 2)("Go")
            return file.stat().st_size

        assert size(400) < 2.3 * size(200)


class TestFailing:
    def test_a_disk_that_is_full_does_not_stop_the_run(self, world, file, monkeypatch, capsys):
        left = [3]

        def full(write, store, statements):
            left[0] -= 1
            if left[0] < 0:
                store._file.execute("PRAGMA max_page_count=1")
                store._file.execute("BEGIN IMMEDIATE")
                with store._errors(), store._file:
                    store._file.execute("CREATE TABLE more (x)")
            write(statements)

        patch_append(monkeypatch, full)
        events = world.stream(agent_of(file, ADD, final("3")), "Go")
        assert events[-1].result.answer == "3"
        (failed,) = [event for event in events if isinstance(event, JournalFailed)]
        assert "disk is full" in failed.notice
        assert "Make room on the disk" in failed.notice
        assert capsys.readouterr().err.count("agentkit: the run is not recorded") == 1

    def test_what_could_not_be_written_is_written_later(self, world, path, monkeypatch):
        number = [0]

        def failing(write, _, statements):
            number[0] += 1
            if number[0] in (2, 3):
                raise JournalError("no")
            write(statements)

        patch_append(monkeypatch, failing)
        result = world.run(agent_of(path, ADD, final("3")), "Go")
        assert show(result.run_id, store=path).messages == result.messages

    def test_a_run_stops_before_a_call_that_nobody_would_know_of(self, world, path, monkeypatch):
        made: list[str] = []

        def act() -> str:
            """Acts."""
            made.append("acted")
            return "done"

        number = [0]

        def failing(write, _, statements):
            number[0] += 1
            if number[0] == 2:
                raise JournalError("no")
            write(statements)

        patch_append(monkeypatch, failing)
        with pytest.raises(JournalError, match="no"):
            world.run(agent_of(Journal(path, errors="raise"), call("act"), final("3"), tools=[act]), "Go")
        assert made == []

    @pytest.mark.parametrize("errors", ["warn", "raise"])
    def test_a_journal_that_cannot_be_opened_raises(self, world, tmp_path, errors):
        agent = agent_of(Journal(tmp_path / "no" / "folder.db", errors=errors), ADD, final("3"))
        with pytest.raises(JournalError, match=r"folder\.db': unable to open .*must exist and be writable"):
            world.run(agent, "Go")
        assert agent.model.requests == []

    def test_a_disk_that_is_full_before_a_query_does_not_end_its_run(self, world, path, monkeypatch):
        is_full = [False]

        def failing(write, store, statements):
            if is_full[0]:
                raise JournalError("no room")
            write(statements)

        def make_room() -> str:
            """Makes room."""
            is_full[0] = False
            return "done"

        patch_append(monkeypatch, failing)
        session = Session.open("ada", path)
        world.run(agent_of(path, final("one")), "First", session=session)
        is_full[0] = True
        agent = agent_of(path, call("make_room"), final("two"), tools=[tool(effect="read")(make_room)])
        assert world.run(agent, "Second", session=session).answer == "two"
        opened = Session.open("ada", path)
        assert [m["content"] for m in opened.messages if m["role"] == "user"] == ["First", "Second"]
        assert [run.state for run in runs(path)] == ["finished"] * 2
        assert not any(run.conversation == session.journaled.key for run in runs(path)[1:])

    def test_a_stopped_run_is_not_resumed_while_the_disk_is_full(self, world, path, monkeypatch):
        identity = stopped(world, path, ADD)

        def failing(write, store, statements):
            raise JournalError("no room")

        with monkeypatch.context() as patched:
            patch_append(patched, failing)
            with pytest.raises(JournalError, match="no room"):
                resumed(world, agent_of(path, final("3")), identity)
        assert resumed(world, agent_of(path, final("3")), identity).answer == "3"

    def test_a_file_that_can_only_be_read(self, world, file, monkeypatch):
        agent_of(file, final("3"))("Go")
        set_up = SqliteStore._set_up

        def reading(self, sync):
            set_up(self, sync)
            self._file.execute("PRAGMA query_only=1")

        monkeypatch.setattr(SqliteStore, "_set_up", reading)
        events = world.stream(agent_of(file, final("4")), "Go")
        assert events[-1].result.answer == "4"
        (failed,) = [event for event in events if isinstance(event, JournalFailed)]
        assert "attempt to write a readonly database" in failed.notice
        assert [run.answer for run in runs(file)] == ["3"]

    def test_a_file_that_was_deleted_is_begun_anew(self, world, file):
        agent = agent_of(file, final("3"), final("4"))
        world.run(agent, "Go")
        file.unlink()
        result = world.run(agent, "Again")
        assert show(result.run_id, store=file).messages == result.messages

    def test_what_json_does_not_have_is_named(self, world, path):
        odd = Reply({**assistant(None, [ToolCall("1", "add", '{"a": 1, "b": 2}')]), "extra": {1, 2}})
        events = world.stream(agent_of(path, odd, final("3")), "Go")
        assert events[-1].result.answer == "3"
        assert ["cannot be journaled" in event.notice for event in events if isinstance(event, JournalFailed)] == [True]

    def test_other_files_are_left_alone(self, file):
        file.write_bytes(b"my diary, in which nobody may write" * 50)
        with pytest.raises(JournalError, match="damaged, or not a journal"):
            runs(file)
        with pytest.raises(JournalError, match="damaged, or not a journal"):
            agent_of(Journal(file, errors="raise"), final("3"))("Go")
        file.unlink()
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE TABLE runs (mine)")
        with pytest.raises(JournalError, match="another program"):
            runs(file)

    def test_a_message_that_was_damaged_is_recognised_and_the_rest_is_read(self, path):
        broken = agent_of(path, ADD, final("3")).run("Go")
        whole = agent_of(path, ADD, final("3")).run("Go on")
        where = f"conversation = (SELECT conversation FROM runs WHERE id = '{broken.run_id}') AND place = 3"
        change_rows(path, f"UPDATE messages SET body = replace(body, '3', '4') WHERE {where}")
        assert {run.id: run.state for run in runs(path)} == {broken.run_id: "damaged", whole.run_id: "finished"}
        shown = show(broken.run_id, store=path)
        assert shown.messages == broken.messages[:3]
        assert "message 3" in str(shown)
        with pytest.raises(JournalError, match="damaged: message 3"):
            agent_of(path).resume(broken.run_id)
        assert show(whole.run_id, store=path).messages == whole.messages

    def test_messages_that_are_missing_are_missed(self, world, path):
        run_id = stopped(world, path, ADD, ADD)
        change_rows(path, "DELETE FROM messages WHERE place > 3")
        with pytest.raises(JournalError, match="damaged"):
            agent_of(path).resume(run_id)

    def test_damaged_pages_are_recognised(self, file):
        for number in range(30):
            agent_of(file, final("x" * 3000))(f"Go {number}")
        data = bytearray(file.read_bytes())
        page = 4096 * (len(data) // 4096 // 2)
        data[page : page + 4096] = os.urandom(4096)
        file.write_bytes(bytes(data))
        states = [run.state for run in runs(file)]
        assert len(states) == 30
        assert 1 <= states.count("damaged") <= 10


def test_writing_takes_little_time(path):
    agent = agent_of(path, *[call("add", a=n, b=n) for n in range(100)], final("3"), max_steps=200)
    start = time.perf_counter()
    agent("Go")
    assert time.perf_counter() - start < 5


def test_nothing_waits_in_a_history_that_was_shown_whole(path):
    result = agent_of(path, ADD, final("3")).run("Go")
    assert pending_calls(show(result.run_id, store=path).messages) == []


@pytest.mark.parametrize("days", [-1, float("nan")])
def test_runs_of_the_future_are_not_pruned(tmp_path, days):
    with pytest.raises(DefinitionError, match="prune: days must be a number >= 0"):
        prune(days, store=tmp_path / "runs.db")


def test_a_run_with_a_chosen_id_is_found_by_it(path):
    for identity in ("order_17", "order_170", "shop_order_1"):
        session = Session()
        session.journaled = JournaledConversation(Journal(path), next_run=identity)
        JsonAgent(len, model=ScriptedModel(final("done")), journal=path).run("Hello", session=session)
    assert [show(identity, store=path).run.id for identity in ("order_17", "order_170")] == ["order_17", "order_170"]
    assert show("shop_ord", store=path).run.id == "shop_order_1"
    with pytest.raises(JournalError, match="several runs have ids that begin with 'order_1'"):
        show("order_1", store=path)


def test_a_run_that_another_process_ends_while_it_is_opened_gives_its_answer(world, path, monkeypatch):
    identity = stopped(world, path, call("add", a=1, b=2))
    taken = reader.find_run
    found = []

    def find_and_let_another_finish(store, run):
        before = taken(store, run)
        found.append(before.state)
        if len(found) == 1:
            assert agent_of(path, final("three")).resume(identity).answer == "three"
        return before

    monkeypatch.setattr(reader, "find_run", find_and_let_another_finish)
    assert resumed(world, agent_of(path), identity).answer == "three"
    assert found[0] == "interrupted"
    assert "finished" in found
