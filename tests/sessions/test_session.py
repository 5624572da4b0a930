"""A conversation that continues, in this process and in another."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from agentkit import DefinitionError, JsonAgent, RunError, Session, Usage, journal
from agentkit.core.errors import Paused
from agentkit.core.messages import DEVELOPER, ToolCall, assistant, pending_calls, system, tool_message, user
from agentkit.core.pending import digest_call
from agentkit.core.private_files import write_atomically
from agentkit.engine.history import check_history
from agentkit.engine.loop import CANCELLED
from agentkit.policies.pending import HeldCall, StoredDecision
from agentkit.sessions.session import NOT_RUN_UNDECIDED
from agentkit.testing import ScriptedModel, call
from agentkit.tools.execution.call import ANSWER_RESULT
from agentkit.tools.execution.call_tools import ToolStarted

CALL = ToolCall("c", "f")


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


class TestATurn:
    def test_puts_the_instruction_first_and_the_query_last(self):
        session = Session()
        with session.turn("be kind", "hello") as messages:
            assert messages == [system("be kind"), user("hello")]
            messages.append(assistant("hi"))
        with session.turn("be brief", "and?") as messages:
            assert messages == [system("be brief"), user("hello"), assistant("hi"), user("and?")]

    def test_messages_from_outside_get_the_instruction(self):
        session = Session([user("earlier"), assistant("yes")])
        with session.turn("be kind", "hello") as messages:
            assert messages[0] == system("be kind")

    def test_calls_left_open_are_answered_before_a_new_query(self):
        session = Session([user("q"), assistant(None, [CALL])])
        with session.turn("s", "and now?") as messages:
            assert messages[3:] == [tool_message(CALL, CANCELLED, label=DEVELOPER), user("and now?")]

    def test_calls_left_open_stay_open_without_a_query(self):
        session = Session([user("q"), assistant(None, [CALL])])
        with session.turn("s") as messages:
            assert [message["role"] for message in messages] == ["system", "user", "assistant"]
            assert pending_calls(messages) == [CALL]

    @pytest.mark.parametrize(
        "messages",
        [[], [system("s")], [user("q"), assistant("done")], [user("q"), assistant(None, [CALL]), tool_message(CALL, ANSWER_RESULT)]],
    )  # fmt: skip
    def test_there_must_be_something_to_continue(self, messages):
        session = Session([*messages])
        with pytest.raises(RunError, match=r"query is empty.*agent\("), session.turn("s"):
            pass
        assert len(session.messages) == len(messages)
        with session.turn("s", "a query"):
            pass

    @pytest.mark.parametrize("last", [[user("q")], [user("q"), assistant(None, [CALL]), tool_message(CALL, "3")]])
    def test_a_query_or_a_result_without_reply_can_be_continued(self, last):
        given = [*last]
        with Session(last).turn("s") as messages:
            assert messages[1:] == last == given

    def test_a_query_without_any_reply_is_taken_out_again(self):
        session = Session()
        session.say("before")
        with pytest.raises(ValueError, match="down"), session.turn("s", "hello"):
            raise ValueError("down")
        assert session.messages == [system("s")]
        with session.turn("s", "hello") as messages:
            assert messages[-1] == user("before\n\nhello")

    def test_is_one_at_a_time(self):
        session = Session()
        with session.turn("s", "a"), pytest.raises(RunError, match="in use by"), session.turn("s", "b"):
            pass
        with session.turn("s", "c"), pytest.raises(RunError, match="in use by"):
            session.clear()


class TestMessagesFromOutside:
    BROKEN = [
        {"role": "user", "content": "add"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "", "type": "function", "function": {"name": "add", "arguments": "{oops"}},
                {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "gone", "content": "?"},
        {"role": "assistant", "content": ""},
    ]

    def test_are_repaired_when_a_run_begins(self, world):
        session = Session([*self.BROKEN])
        agent = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), call("final_answer", text="3")))
        assert world.run(agent, "and again", session=session).answer == "3"
        assert check_history(session.messages) == []

    def test_that_are_valid_stay_the_same_objects(self):
        given = [user("q"), assistant(None, [CALL]), tool_message(CALL, "3"), assistant("three")]
        session = Session([*given])
        with session.turn("s", "go on") as messages:
            assert all(new is old for new, old in zip(messages[1:-1], given, strict=True))

    def test_are_read_again_when_messages_are_added(self):
        session = Session()
        with session.turn("s", "q") as messages:
            messages.append(assistant("a"))
        session.messages.append(assistant(None, [CALL]))
        session.messages.append(user("and?"))
        with session.turn("s", "go on") as messages:
            assert check_history(messages) == []

    def test_own_messages_are_not_looked_at_again(self):
        session = Session()
        with session.turn("s", "q") as messages:
            messages.append(assistant(""))  # which a repair would leave out
        with session.turn("s", "go on") as messages:
            assert len(messages) == 4


class TestSaying:
    def test_messages_before_a_query_are_sent_with_it(self):
        session = Session()
        session.say("one")
        session.say("two")
        with session.turn("s", "three") as messages:
            assert messages == [system("s"), user("one\n\ntwo\n\nthree")]
        assert not session.inbox

    def test_without_a_query_the_run_continues_with_these_messages(self):
        session = Session([user("q"), assistant("a")])
        session.say("go on")
        with session.turn("s"):
            assert list(session.inbox) == [user("go on")], "the loop reads it"


def whole() -> Session:
    """A session with everything in it."""
    spent = Usage(requests=2, input_tokens=10, output_tokens=5, cost=0.25)
    reply = {**assistant("Grüße, 世界", [CALL]), "provider": "anthropic", "thinking_blocks": [{"signature": "s"}]}
    session = Session([system("s"), user("q"), reply], spent)
    session.cut.store("a long text")
    session.say("more")
    session.inputs.held["c"] = HeldCall(digest_call(CALL), "it may have side effects")
    session.handed.append("billing")
    inner = Session([user("inner"), assistant(None, [ToolCall("i", "g")])])
    inner.inputs.held["i"] = HeldCall("digest", "it deletes")
    session.inputs.nested["c"] = inner
    return session


class TestSaving:
    def test_everything_comes_back(self, tmp_path):
        session = whole()
        session.save(tmp_path / "a.json")
        loaded = Session.load(str(tmp_path / "a.json"))
        assert loaded.as_dict() == session.as_dict()
        (tmp_path / "data.json").write_text(json.dumps(session.as_dict()))
        assert Session.load(tmp_path / "data.json").as_dict() == session.as_dict()
        assert loaded.messages[-1]["provider"] == "anthropic"
        assert loaded.usage == session.usage
        assert loaded.cut.texts == session.cut.texts
        assert [waiting.id for waiting in loaded.waiting] == ["c", "c/i"]
        assert "世界" in (tmp_path / "a.json").read_text("utf-8")

    def test_a_text_that_is_not_unicode_comes_back(self, tmp_path):
        Session([{"role": "user", "content": "\ud800"}]).save(tmp_path / "a.json")
        assert Session.load(tmp_path / "a.json").messages == [{"role": "user", "content": "\ud800"}]

    def test_another_agent_continues_with_other_tools_and_another_model(self, world, tmp_path):
        session = Session()
        world.run(
            JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), call("final_answer", text="3"))),
            "1 + 2?",
            session=session,
        )
        session.save(tmp_path / "a.json")

        def multiply(a: int, b: int) -> int:
            """Multiplies."""
            return a * b

        model = ScriptedModel(call("multiply", a=3, b=2), call("final_answer", text="6"), name="other")
        result = world.run(JsonAgent(multiply, model=model), "Twice that?", session=Session.load(tmp_path / "a.json"))
        assert result.answer == "6"
        assert [message["content"] for message in result.messages if message["role"] == "user"] == [
            "1 + 2?",
            "Twice that?",
        ]
        assert check_history(result.messages) == []

    def test_it_can_be_saved_in_the_middle_of_a_run_and_continues_there(self, tmp_path):
        path = tmp_path / "a.json"
        agent = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), call("final_answer", text="3")))
        for event in agent.stream("1 + 2?"):
            if isinstance(event, ToolStarted):
                agent.session.save(path)
                break
        saved = Session.load(path)
        assert [pending.name for pending in pending_calls(saved.messages)] == ["add"]
        with saved.turn("s") as messages:
            assert len(pending_calls(messages)) == 1

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "damaged"),
            ("{", "damaged"),
            ("\xff\xfe", "not a saved session"),
            ("[" * 100_000, "damaged"),
            ("3", "not a saved session"),
            ("[]", "not a saved session"),
            ('{"messages": []}', "not a saved session"),
            ('{"format": "agentkit session", "version": 99}', "version 99.*Update agentkit"),
            ('{"format": "agentkit session", "version": 1}', "damaged, at messages: Field required"),
        ],
    )
    def test_a_file_with_something_else_in_it_is_refused(self, tmp_path, text, reason):
        path = tmp_path / "other.json"
        path.write_text(text)
        with pytest.raises(RunError, match=rf"other\.json(?s:.*){reason}"):
            Session.load(path)

    @pytest.mark.parametrize(
        ("place", "value"),
        [("messages", 3), ("messages", [3]), ("messages", [{"content": "x"}]), ("usage", {"requests": "many"}),
         ("cut", {"a": 3}), ("inbox", [None]), ("nested", {"c": {}})],
    )  # fmt: skip
    def test_what_does_not_fit_is_named(self, place, value):
        with pytest.raises(RunError, match=place if place != "nested" else "not a saved session"):
            Session.from_dict({**whole().as_dict(), place: value})

    @pytest.mark.parametrize("odd", [b"bytes", {1, 2}, object()], ids=["bytes", "set", "object"])
    def test_what_json_does_not_have_is_refused_and_the_file_stays(self, tmp_path, odd):
        path = tmp_path / "a.json"
        Session([user("good")]).save(path)
        with pytest.raises(RunError, match="a message is not JSON serialisable"):
            Session([user("q"), {"role": "user", "content": odd}]).save(path)
        assert Session.load(path).messages == [user("good")]
        assert os.listdir(tmp_path) == ["a.json"]

    def test_a_missing_file_is_reported_as_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            Session.load(tmp_path / "none.json")

    def test_a_link_stays_a_link_and_permissions_are_kept(self, tmp_path):
        path = tmp_path / "a.json"
        link = tmp_path / "link.json"
        Session().save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        link.symlink_to(path)
        whole().save(link)
        assert link.is_symlink()
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert Session.load(path).usage.requests == 2

    def test_a_disk_that_is_full_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "a.json"
        write_atomically(path, b"old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a.json"]

    def test_a_process_killed_while_saving_leaves_the_last_whole_session(self, tmp_path):
        path = tmp_path / "a.json"
        code = (
            "import sys; from agentkit import Session; from agentkit.core.messages import user\n"
            "session = Session()\n"
            "for number in range(10**9):\n"
            "    session.messages[:] = [user(f'{number} ' + 'x' * 200_000)]\n"
            f"    session.save({str(path)!r})\n"
            "    if number == 0: print('saved', flush=True)\n"
        )
        for round_ in range(6):
            with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                time.sleep(0.005 + 0.011 * round_)
                process.send_signal(signal.SIGKILL)
            (message,) = Session.load(path).messages
            assert len(message["content"]) > 200_000


class TestWhoHoldsIt:
    def agent(self, *script):
        return JsonAgent(add, model=ScriptedModel(*script))

    def test_a_stream_that_is_open_holds_it_until_it_is_closed(self):
        agent = self.agent(call("final_answer", text="a"), call("final_answer", text="b"))
        stream = agent.stream("one")
        next(stream)
        with pytest.raises(RunError, match=r"in use by.*close the stream.*session=Session\(\)"):
            agent("two")
        stream.close()
        assert agent("two") == "a"

    def test_a_stream_that_is_left_frees_it(self):
        agent = self.agent(call("final_answer", text="a"))
        for _ in agent.stream("one"):
            break
        assert agent("two") == "a"

    def test_an_open_stream_on_a_loop_holds_it(self):
        agent = self.agent(call("final_answer", text="a"), call("final_answer", text="b"))

        async def main() -> str:
            stream = agent.astream("one")
            await anext(stream)
            with pytest.raises(RunError, match="in use by"):
                await agent.arun("two")
            await stream.aclose()
            return (await agent.arun("two")).answer

        assert asyncio.run(main()) == "a"

    def test_two_tasks_do_not_share_it(self):
        inside = asyncio.Event()
        go_on = asyncio.Event()

        async def wait() -> str:
            """Waits."""
            inside.set()
            await go_on.wait()
            return "waited"

        agent = JsonAgent(wait, model=ScriptedModel(call("wait"), call("final_answer", text="first")))

        async def main() -> str:
            first = asyncio.create_task(agent.arun("one"))
            await inside.wait()
            with pytest.raises(RunError, match="in use by"):
                await agent.arun("two")
            with pytest.raises(RunError, match="in use by"):
                await asyncio.to_thread(agent, "three")
            go_on.set()
            return (await first).answer

        assert asyncio.run(main()) == "first"
        assert "two" not in json.dumps(agent.history)

    def test_a_run_in_a_tool_on_the_same_session_is_refused(self, world):
        def again() -> str:
            """Asks the agent that asks this."""
            return agent("again")

        agent = JsonAgent(again, model=ScriptedModel(call("again"), call("final_answer", text="done")))
        result = world.run(agent, "go")
        assert "in use by" in result.calls[0].content
        assert result.answer == "done"

    def test_a_failed_run_frees_it(self, world):
        agent = self.agent(ValueError("odd"), call("final_answer", text="fine"))
        with pytest.raises(RunError):
            world.run(agent, "one")
        assert world.run(agent, "two").answer == "fine"


class TestForgetting:
    def test_clear_keeps_only_the_instruction(self):
        session = whole()
        session.clear()
        assert (session.messages, session.usage) == ([system("s")], Usage())
        assert (session.cut.texts, list(session.inbox), session.handed, session.waiting) == ({}, [], [], [])
        bare = Session([user("a")])
        bare.clear()
        assert bare.messages == []

    def test_saying_from_many_threads_loses_nothing(self):
        session = Session()
        threads = [threading.Thread(target=session.say, args=(str(number),)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with session.turn("s", "q") as messages:
            assert len(messages[-1]["content"].split("\n\n")) == 51


class TestAPause:
    def test_the_error_carries_the_session_and_what_waits(self):
        session = Session()

        def pause() -> None:
            session.messages.append(assistant(None, [CALL]))
            session.inputs.held["c"] = HeldCall(digest_call(CALL), "it may have side effects")
            raise Paused("wait")

        with pytest.raises(Paused) as caught, session.turn("s", "q"):
            pause()
        assert caught.value.session is session
        assert caught.value.calls == (CALL,)
        with session.turn("s", answers={"c": True}):
            assert session.inputs.decisions == {"c": StoredDecision(True, digest_call(CALL))}

    def test_a_new_query_reports_that_the_call_was_not_run(self):
        session = whole()
        session.inputs.nested.clear()
        with session.turn("s", "something else") as messages:
            assert messages[3] == tool_message(CALL, NOT_RUN_UNDECIDED, label=DEVELOPER)
            assert session.waiting == []
            assert session.handed == []

    def test_a_new_query_reports_that_a_call_with_a_paused_agent_inside_may_have_had_an_effect(self):
        session = whole()
        with session.turn("s", "something else") as messages:
            assert messages[3] == tool_message(CALL, CANCELLED, label=DEVELOPER)
            assert (session.waiting, session.inputs.nested) == ([], {})

    @pytest.mark.parametrize(
        ("approvals", "query", "reason"),
        [
            ({"d": True}, None, "nothing waits with the id 'd'.*Waiting: 'c', 'c/i'"),
            ({"c": None}, None, r"answers\['c'\] must be True, False.*got NoneType"),
            ({"c": 1}, None, "got int"),
            ({"c": True}, "and a query", "^answers= and approvals= are for .* Leave the query out.*approve=function"),
        ],
    )
    def test_senseless_decisions_are_refused(self, approvals, query, reason):
        session = whole()
        with pytest.raises(RunError, match=reason), session.turn("s", query, approvals):
            pass
        assert session.inputs.decisions == {}
        assert pending_calls(session.messages) == [CALL]


@pytest.mark.parametrize("messages", ["hello", [3], [{"content": "Hi"}], [user("Hi"), {"role": None}]])
def test_messages_without_a_role_are_refused(messages):
    with pytest.raises(RunError, match=r"Session\(messages=\.\.\.\), at messages\.[01]: a message without a role"):
        Session(messages)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_stored_conversation_needs_a_name(tmp_path, name):
    with pytest.raises(RunError, match=rf"needs a name, got {name!r}. Give a text"):
        Session.open(name, tmp_path / "runs.db")


@pytest.mark.parametrize(("how", "wrong"), [({"changed": "refused"}, "changed must"), ({"on_uncertain": "aks"}, "on_")])
def test_what_is_decided_about_a_resumed_run_is_checked(tmp_path, how, wrong):
    path = tmp_path / "runs.db"
    with pytest.raises(KeyboardInterrupt):
        JsonAgent(add, model=ScriptedModel(KeyboardInterrupt()), journal=path)("Go")
    (run,) = journal.runs(path)
    with pytest.raises(DefinitionError, match=wrong):
        Session.resumed(run.id, path, **how)
