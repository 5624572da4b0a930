"""Calls that wait for a person's word."""

import asyncio
import builtins
import json
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from agentkit import DefinitionError, JsonAgent, JsonTool, Paused, RunContext, RunError, Session, ToolCall, tool
from agentkit.core.ask_person import Person, describe_call
from agentkit.core.flow import Effect, Flow, apply_policies, around, ask
from agentkit.core.messages import text_of
from agentkit.engine.loop import NOT_BEGUN
from agentkit.policies.approval import ApprovalAsked, ApprovalGiven, approve
from agentkit.policies.decisions import Approvals
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import CallTools, ToolStarted
from agentkit.tools.registry import ToolRegistry

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


@tool(effect="danger")
def delete(path: str, force: bool = False) -> str:
    """Deletes a file."""
    DONE.append(path)
    return f"deleted {path}{' by force' if force else ''}"


@tool(effect="read")
def look(path: str) -> str:
    """Looks at a file."""
    DONE.append(f"look {path}")
    return "a file"


@tool
def pay(amount: int, run: RunContext) -> str:
    """Pays."""
    DONE.append(f"pay {amount}")
    return f"paid {amount} for call {run.call.id}"


def call(name: str, **arguments):
    return {"name": name, "arguments": arguments}


def calls(*entries, **extra):
    return {"tool_calls": [*entries], **extra}


DELETE = calls(call("delete", path="a.txt"))
FINAL = calls(call("final_answer", text="done"))


def agent(*script: object, **settings) -> JsonAgent:
    return JsonAgent(delete, look, pay, model=ScriptedModel(*script), **settings)


def contents(result) -> list[str]:
    return [message["content"] for message in result.messages if message["role"] == "tool"]


class TestDecidingByAFunction:
    @pytest.mark.parametrize(
        ("decision", "content", "done"),
        [
            (True, "deleted a.txt", ["a.txt"]),
            (False, "Denied: this call was not allowed.", []),
            ("not that one", "Denied: not that one", []),
            ("", "Denied: this call was not allowed.", []),
            ({"path": "b.txt", "force": True}, "deleted b.txt by force", ["b.txt"]),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    def test_what_it_says_is_what_happens(self, world, decision, content, done, is_async):
        seen = []

        def decide(call: ToolCall):
            seen.append(call)
            return decision

        async def adecide(call: ToolCall):
            await asyncio.sleep(0)
            return decide(call)

        result = world.run(agent(DELETE, FINAL, approve=adecide if is_async else decide), "delete it")
        assert result.answer == "done"
        assert content in contents(result)[0]
        assert done == DONE
        assert [(one.name, json.loads(one.arguments)) for one in seen] == [("delete", {"path": "a.txt"})]

    def test_the_model_is_told_of_other_arguments(self, world):
        result = world.run(agent(DELETE, FINAL, approve=lambda call: {"path": "b.txt"}), "delete it")
        assert contents(result)[0] == '[A person changed the arguments to {"path": "b.txt"}]\ndeleted b.txt'
        assert result.calls[0].call.arguments == '{"path": "b.txt"}'
        assert json.loads(result.messages[2]["tool_calls"][0]["function"]["arguments"]) == {"path": "a.txt"}

    def test_a_function_sees_all_calls_but_the_answer_and_those_that_cannot_be_made(self, world):
        seen = []

        def decide(call: ToolCall):
            seen.append(call.name)
            return None if call.name == "look" else call.name == "delete"

        turn = calls(call("look", path="a"), call("delete", path="a"), call("pay", amount=1), call("pay"), call("nope"))
        result = world.run(agent(turn, FINAL, approve=decide), "go")
        assert seen == ["look", "delete", "pay"]
        told = contents(result)
        assert told[:3] == ["a file", "deleted a", "Denied: this call was not allowed."]
        assert "ValidationError" in told[3]
        assert "no tool" in told[4]

    def test_changed_arguments_keep_what_the_model_does_not_see(self, world):
        turn = calls({**call("pay", amount=1000), "id": "p"})
        result = world.run(agent(turn, FINAL, approve=lambda call: {"amount": 5}), "pay")
        assert contents(result)[0].endswith("paid 5 for call p")

    def test_none_leaves_a_dangerous_call_waiting_and_allows_any_other(self, world):
        with pytest.raises(Paused) as caught:
            world.run(agent(calls(call("look", path="a"), call("delete", path="a"))), "go")
        assert [one.name for one in caught.value.calls] == ["delete"]
        assert DONE == []

    @pytest.mark.parametrize("how", ["returned", "made", "raised"])
    def test_any_call_can_be_made_to_wait(self, world, how):
        def decide(call: ToolCall):
            if call.name == "look":
                return None
            if how == "raised":
                raise Paused("not now")
            return Paused if how == "returned" else Paused("not now")

        with pytest.raises(Paused) as caught:
            world.run(agent(calls(call("look", path="a"), call("pay", amount=1)), approve=decide), "go")
        assert [one.name for one in caught.value.calls] == ["pay"]
        assert DONE == []

    @pytest.mark.parametrize("said", [1, ["yes"], object()])
    def test_anything_else_is_the_developers_mistake(self, world, said):
        with pytest.raises(DefinitionError, match=r"approve= must return True, False, a reason .*got"):
            world.run(agent(DELETE, approve=lambda call: said), "go")
        assert DONE == []

    def test_what_it_raises_ends_the_run(self, world):
        def decide(call: ToolCall):
            raise LookupError("no such rule")

        settled = agent(DELETE, FINAL, approve=decide)
        with pytest.raises(LookupError, match="no such rule"):
            world.run(settled, "go")
        assert DONE == []
        assert world.run(settled, "again").answer == "done"

    def test_a_function_that_blocks_does_not_block_the_event_loop(self):
        go_on = threading.Event()

        def decide(call: ToolCall) -> bool:
            return go_on.wait(10)

        async def main():
            run = asyncio.create_task(agent(DELETE, FINAL, approve=decide).arun("go"))
            await asyncio.sleep(0.05)
            go_on.set()
            return await run

        assert asyncio.run(main()).answer == "done"
        assert DONE == ["a.txt"]

    def test_events_tell_what_was_asked_and_decided(self, world):
        turn = calls(call("look", path="a"), {**call("delete", path="a"), "id": "d"})
        events = world.stream(agent(turn, FINAL, approve=lambda call: "no" if call.name == "delete" else True), "go")
        told = [event for event in events if isinstance(event, ApprovalAsked | ApprovalGiven)]
        wanted = ToolCall("d", "delete", '{"path": "a"}')
        assert told == [ApprovalAsked(wanted, "its tool is declared as dangerous"), ApprovalGiven(wanted, "no")]
        assert events.index(told[-1]) < next(
            place for place, event in enumerate(events) if isinstance(event, ToolStarted)
        )

    def test_a_read_that_is_refused_does_not_begin_while_the_reply_streams(self, world):
        refusing = agent(calls(call("look", path="secret")), FINAL, approve=lambda call: False)
        assert world.stream(refusing, "go")[-1].result.answer == "done"
        assert DONE == []

    def test_a_call_that_says_why_it_needs_approval_waits(self, world):
        def doubtful(effect: Effect) -> Flow:
            if isinstance(effect, CallTools):
                marked = tuple(replace(bound, needs_approval="it came from a web page") for bound in effect.calls)
                effect = replace(effect, calls=marked)
            return (yield from ask(effect))

        settled = agent(calls(call("look", path="a")), policies=[around(doubtful)])
        with pytest.raises(Paused):
            world.run(settled, "go")
        assert DONE == []


class TestPausing:
    def paused(self, world, settled, query="go", **settings) -> Paused:
        with pytest.raises(Paused) as caught:
            world.run(settled, query, **settings)
        return caught.value

    def turn(self):
        return calls(
            {**call("look", path="l"), "id": "1"},
            {**call("delete", path="a"), "id": "2"},
            {**call("delete", path="b"), "id": "3"},
        )

    def test_nothing_is_run_and_all_calls_stay_open(self, world):
        settled = agent(self.turn())
        error = self.paused(world, settled)
        assert DONE == []
        assert [one.id for one in error.calls] == ["2", "3"]
        assert error.session is settled.session
        assert error.usage.requests == 1
        assert error.history == settled.history
        assert error.history[-1]["role"] == "assistant"
        assert "agent.run(session=error.session, approvals={'2': True})" in str(error)
        assert "delete(" in str(error)

    def test_another_process_decides_and_goes_on(self, world, tmp_path):
        self.paused(world, agent(self.turn())).session.save(tmp_path / "s.json")
        session = Session.load(tmp_path / "s.json")
        assert [(one.id, one.name) for one in session.waiting] == [("2", "delete"), ("3", "delete")]
        model = ScriptedModel(FINAL)
        result = world.run(
            JsonAgent(delete, look, pay, model=model),
            None,
            session=session,
            approvals={"2": True, "3": "keep it"},
        )
        assert result.answer == "done"
        assert DONE == ["look l", "a"]
        asked = model.requests[0].messages
        assert [message["content"] for message in asked[3:]] == ["a file", "deleted a", "Denied: keep it"]
        assert [message["role"] for message in asked].count("user") == 1
        assert session.waiting == []
        assert session.approvals.decisions == {}

    def test_what_is_not_decided_waits_on_and_what_is_decided_is_kept(self, world):
        settled = agent(self.turn(), FINAL)
        session = self.paused(world, settled).session
        error = self.paused(world, settled, None, approvals={"2": {"path": "c"}})
        assert [one.id for one in error.calls] == ["3"]
        assert DONE == []
        assert world.run(settled, None, session=session, approvals={"3": False}).answer == "done"
        assert DONE == ["look l", "c"]

    def test_a_file_brings_no_decisions(self, world):
        pausing = agent(self.turn(), FINAL)
        self.paused(world, pausing)
        session = self.paused(world, pausing, None, approvals={"2": True}).session
        saved = json.loads(json.dumps(session.as_dict()))
        saved["decisions"] = {"2": True, "3": True}  # as a stranger may write them
        saved["nested"] = {}
        loaded = Session.from_dict(saved)
        error = self.paused(world, pausing, None, session=loaded, approvals={"3": False})
        assert [one.id for one in error.calls] == ["2"]
        assert DONE == []

    @pytest.mark.parametrize("decide", [lambda error: {"2": True}, lambda error: {error.calls[0]: True}])
    def test_a_decision_holds_for_the_call_that_waited(self, world, decide):
        pausing = agent(calls(call("delete", path="a")), FINAL)
        error = self.paused(world, pausing)
        approvals = {key if key != "2" else error.calls[0].id: value for key, value in decide(error).items()}
        message = error.session.messages[-1]
        message["tool_calls"][0]["function"]["arguments"] = '{"path": "/"}'
        again = self.paused(world, pausing, None, session=error.session, approvals=approvals)
        assert [one.arguments for one in again.calls] == ['{"path": "/"}']
        assert DONE == []
        world.run(pausing, None, session=error.session, approvals={again.calls[0]: True})
        assert DONE == ["/"]

    def test_the_layout_of_the_arguments_does_not_matter(self, world):
        pausing = agent(calls(call("delete", path="a")), FINAL)
        error = self.paused(world, pausing)
        error.session.messages[-1]["tool_calls"][0]["function"]["arguments"] = '{ "path":"a" }'
        world.run(pausing, None, session=error.session, approvals={error.calls[0].id: True})
        assert DONE == ["a"]

    def test_new_arguments_hold_for_the_same_tool_only(self, world):
        pausing = agent(calls(call("delete", path="a")), FINAL)
        error = self.paused(world, pausing)
        error.session.messages[-1]["tool_calls"][0]["function"]["name"] = "wipe"
        wiping = JsonAgent(delete, JsonTool(delete, name="wipe", effect="danger"), model=pausing.model)
        with pytest.raises(Paused):
            world.run(wiping, None, session=error.session, approvals={error.calls[0].id: {"path": "b"}})
        assert DONE == []

    def test_without_any_decision_it_just_waits_on(self, world):
        settled = agent(self.turn(), FINAL)
        self.paused(world, settled)
        assert len(self.paused(world, settled, None).calls) == 2

    def test_a_call_of_that_id_must_wait(self, world):
        settled = agent(self.turn(), FINAL)
        self.paused(world, settled)
        with pytest.raises(RunError, match=r"no pending call has the id 'two'\. Pending: '1', '2', '3'"):
            world.run(settled, None, approvals={"two": True})
        assert world.run(settled, None, approvals={"2": True, "3": True}).answer == "done"

    def test_arguments_that_are_not_valid_leave_it_waiting_and_say_why(self, world):
        settled = agent(self.turn(), FINAL)
        self.paused(world, settled)
        error = self.paused(world, settled, None, approvals={"2": {"file": "c"}, "3": True})
        assert "The arguments given for '2' are not valid" in str(error)
        assert "path" in str(error)
        assert [one.id for one in error.calls] == ["2"]
        assert DONE == []
        assert world.run(settled, None, approvals={"2": {"path": "c"}}).answer == "done"
        assert DONE == ["look l", "c", "b"]

    def test_a_new_query_leaves_the_call_unmade(self, world):
        settled = agent(self.turn(), FINAL)
        self.paused(world, settled)
        result = world.run(settled, "never mind")
        assert result.answer == "done"
        assert [text.startswith("Not run") for text in contents(result)[:3]] == [True, True, True]
        assert DONE == []

    def test_a_decider_who_was_asked_is_not_asked_again(self, world):
        asked = []

        def decide(call: ToolCall):
            asked.append(call.name)
            return True if call.name == "look" else None

        settled = agent(self.turn(), FINAL, approve=decide)
        self.paused(world, settled)
        assert world.run(settled, None, approvals={"2": True, "3": True}).answer == "done"
        assert asked == ["look", "delete", "delete"]

    def test_what_cannot_be_shown_does_no_harm_in_the_message(self, world):
        error = self.paused(world, agent(calls(call("delete", path="\x1b[2J\u202e" + "x" * 5000))))
        assert "\x1b" not in str(error)
        assert "\u202e" not in str(error)
        assert len(str(error)) < 1000

    def test_a_killed_process_can_be_followed_by_another(self, tmp_path):
        path = tmp_path / "s.json"
        code = (
            "import os, sys\nfrom agentkit import JsonAgent, Paused, Session, tool\n"
            "from agentkit.testing import ScriptedModel\n"
            "@tool(effect='danger')\ndef delete(path: str) -> str:\n    'Deletes.'\n    print('DELETED', path)\n    return 'ok'\n"
            "call = {'tool_calls': [{'name': 'delete', 'arguments': {'path': 'a'}, 'id': 'd'}]}\n"
            "final = {'tool_calls': [{'name': 'final_answer', 'arguments': {'text': 'done'}}]}\n"
            "if sys.argv[1] == 'first':\n"
            "    try:\n        JsonAgent(delete, model=ScriptedModel(call))('go')\n"
            f"    except Paused as error:\n        error.session.save({str(path)!r})\n"
            "    os._exit(9)\n"
            f"session = Session.load({str(path)!r})\n"
            "print(JsonAgent(delete, model=ScriptedModel(final)).run(session=session, approvals={'d': True}).answer)\n"
        )
        said = [
            subprocess.run([sys.executable, "-c", code, which], capture_output=True, text=True, check=False)
            for which in ("first", "second")
        ]
        assert [one.returncode for one in said] == [9, 0], said[-1].stderr
        assert [one.stdout for one in said] == ["", "DELETED a\ndone\n"]


class TestAskingThePerson:
    def answers(self, monkeypatch, *said: str) -> list[str]:
        shown: list[str] = []
        rest = iter(said)

        def read(prompt: str = "") -> str:
            shown.append(prompt)
            try:
                return next(rest)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(builtins, "input", read)
        return shown

    def test_arguments_that_were_put_right_are_not_complained_about(self, world, monkeypatch):
        shown = self.answers(monkeypatch, "1 {}", "y", '{"path": "b"}')
        both = calls(call("delete", path="a"), call("delete", path="c"))
        assert world.run(agent(both, FINAL, approve="ask"), "go").answer == "done"
        assert DONE == ["b", "c"]
        assert ["path: missing" in text for text in shown] == [False, False, True]

    TURN = calls(call("delete", path="a"), call("look", path="l"), call("delete", path="b"), call("delete", path="c"))

    @pytest.mark.parametrize(
        ("entries", "done", "questions"),
        [
            (["y"], ["a", "look l", "b", "c"], [3]),
            (["n"], ["look l"], [3]),
            (["not today"], ["look l"], [3]),
            (["1 3 y", "n"], ["a", "look l", "c"], [3, 1]),
            (["2,3 n", "y"], ["a", "look l"], [3, 1]),
            (["2 too much", "y"], ["a", "look l", "c"], [3, 2]),
            (['3 {"path": "z"}', "y"], ["a", "look l", "b", "z"], [3, 2]),
            (["4 y", "{}", "x", "y"], ["a", "look l", "b", "c"], [3, 3, 3, 3]),
        ],
    )
    def test_one_question_for_all_calls_of_a_turn(self, world, monkeypatch, entries, done, questions):
        shown = self.answers(monkeypatch, *entries)
        assert world.run(agent(self.TURN, FINAL, approve="ask"), "go").answer == "done"
        assert done == DONE
        assert [text.count("wants to call delete") for text in shown] == questions
        assert "1. The agent wants to call delete" in shown[0]
        assert "It waits: its tool is declared as dangerous" in shown[0]
        assert " v " not in shown[0]

    def test_who_leaves_in_the_middle_leaves_the_rest_waiting(self, world, monkeypatch):
        self.answers(monkeypatch, "1 y")
        with pytest.raises(Paused) as caught:
            world.run(agent(self.TURN, approve="ask"), "go")
        assert [json.loads(one.arguments)["path"] for one in caught.value.calls] == ["b", "c"]
        assert DONE == []

    @pytest.mark.parametrize(
        ("said", "content"),
        [
            (["y"], "deleted a.txt"),
            ([" YES "], "deleted a.txt"),
            (["n"], "Denied: this call was not allowed."),
            (["it is needed"], "Denied: it is needed"),
            (["", "y"], "deleted a.txt"),
            (['{"path": "b.txt"}'], "deleted b.txt"),
            (['{"path": ', "n"], "Denied"),
            (['{"file": "b.txt"}', '{"path": "c.txt"}'], "deleted c.txt"),
        ],
    )
    def test_what_the_person_writes(self, world, monkeypatch, said, content):
        shown = self.answers(monkeypatch, *said)
        result = world.run(agent(DELETE, FINAL, approve="ask"), "go")
        assert content in contents(result)[0]
        assert len(shown) == len(said)
        assert "wants to call delete" in shown[0]
        assert 'path: "a.txt"' in shown[0]
        if "file" in said[0]:
            assert "file" in shown[1].partition("Allow it?")[0].partition("a.txt")[2]

    def test_only_about_calls_that_need_it(self, world, monkeypatch):
        shown = self.answers(monkeypatch, "y")
        turn = calls(call("look", path="a"), call("pay", amount=1), call("delete", path="a"))
        assert world.run(agent(turn, FINAL, approve="ask"), "go").answer == "done"
        assert len(shown) == 1

    @pytest.mark.parametrize("error", [EOFError, OSError, RuntimeError("input(): lost sys.stdin"), NotImplementedError])
    def test_when_nobody_can_be_asked_the_run_is_paused(self, world, monkeypatch, error):
        def read(prompt: str = "") -> str:
            raise error

        monkeypatch.setattr(builtins, "input", read)
        with pytest.raises(Paused):
            world.run(agent(DELETE, approve="ask"), "go")

    def test_an_interrupt_at_the_prompt_ends_the_run(self, monkeypatch):
        def read(prompt: str = "") -> str:
            raise KeyboardInterrupt

        monkeypatch.setattr(builtins, "input", read)
        turn = calls(call("look", path="a"), call("delete", path="a"))
        asking = agent(turn, FINAL, approve="ask")
        with pytest.raises(KeyboardInterrupt):
            asking("go")
        assert DONE == []
        assert [text_of(message) for message in asking.history if message["role"] == "tool"] == [NOT_BEGUN] * 2
        assert asking("again") == "done"

    def test_a_cancelled_question_leaves_calls_that_never_ran(self):
        async def decide(call):
            asyncio.current_task().cancel()
            await asyncio.sleep(60)

        asking = agent(DELETE, FINAL, approve=decide)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(asking.arun("go"))
        assert [text_of(message) for message in asking.history if message["role"] == "tool"] == [NOT_BEGUN]

    def test_the_prompt_obeys_no_control_characters(self):
        text = describe_call(
            ToolCall("1", "del\x1b[31mete", json.dumps({"pa\nth\x9b": "a\x1b[2K\r\u202etxt\x85", "n": 3}))
        )
        assert all(mark.isprintable() or mark == "\n" for mark in text)
        assert len(text.splitlines()) == 3
        assert "\\u202e" in text

    def test_a_long_argument_is_shown_in_part_and_said_to_be(self):
        text = describe_call(ToolCall("1", "f", json.dumps({"a": "x" * 50_000 + "; rm -r /", "b": "end"})))
        assert len(text) < 11_000
        assert "characters left out" in text
        assert 'x; rm -r /"' in text, "the end of a long argument can matter most"
        assert '"end"' in text

    def test_the_way_of_asking_can_be_another(self, world):
        result = world.run(agent(DELETE, FINAL, approve=Person(lambda prompt: "never")), "go")
        assert contents(result)[0] == "Denied: never"

    def test_one_person_is_asked_one_thing_at_a_time(self):
        at_once, most = [], []

        def read(prompt: str) -> str:
            at_once.append(1)
            most.append(len(at_once))
            threading.Event().wait(0.01)
            at_once.pop()
            return "y"

        threads = [threading.Thread(target=Person(read), args=(ToolCall("1", "f"),)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == [1] * 5


class TestRunsInsideOfTools:
    @pytest.mark.parametrize("kind", ["plain", "async"])
    def test_inherit_who_decides(self, world, kind):
        inner = agent(DELETE, FINAL)
        asked = []

        def decide(call: ToolCall):
            asked.append(call.name)
            return "no" if call.name == "delete" else None

        def ask_inner() -> str:
            """Asks another agent."""
            return inner("delete it", session=Session())

        async def ask_inner_too() -> str:
            """Asks another agent."""
            return (await inner.arun("delete it", session=Session())).answer

        function = ask_inner if kind == "plain" else ask_inner_too
        model = ScriptedModel(calls(call(function.__name__)), FINAL)
        assert world.run(JsonAgent(function, model=model, approve=decide), "go").answer == "done"
        assert asked == [function.__name__, "delete"]
        assert DONE == []

    def test_may_have_somebody_of_their_own(self, world):
        inner = agent(DELETE, FINAL, approve=lambda call: True)

        def ask_inner() -> str:
            """Asks another agent."""
            return inner("delete it", session=Session())

        model = ScriptedModel(calls(call("ask_inner")), FINAL)
        outer = JsonAgent(ask_inner, model=model, approve=lambda call: None if call.name == "ask_inner" else False)
        assert world.run(outer, "go").answer == "done"
        assert DONE == ["a.txt"]


def test_the_policy_alone(world):
    """Without an agent: a flow that makes one call, under the policy."""
    registry = ToolRegistry(delete)

    def flow() -> Flow:
        return (yield from ask(CallTools((registry.bind(ToolCall("1", "delete", '{"path": "x"}')),))))

    (result,), events = world.drive(apply_policies(flow(), (approve(lambda call: True),)))
    assert result.content == "deleted x"
    assert [type(event).__name__ for event in events] == [
        "ApprovalAsked",
        "ApprovalGiven",
        "ToolStarted",
        "ToolFinished",
    ]
    with pytest.raises(Paused):
        world.drive(apply_policies(flow(), (approve(),)))
    given = Approvals()
    given.store(ToolCall("1", "delete", '{"path": "x"}'), "no")
    (result,), _ = world.drive(apply_policies(flow(), (approve(None, given),)))
    assert result.content == "Denied: no"


def test_the_error_of_a_pause_masks_the_arguments_that_it_shows(world, monkeypatch):
    monkeypatch.setenv("APP_PASSWORD", "correct horse battery staple")

    @tool(effect="danger")
    def log_in(password: str) -> str:
        """Logs in."""
        return password

    model = ScriptedModel(
        {"tool_calls": [{"name": "log_in", "arguments": {"password": "correct horse battery staple"}}]}
    )
    with pytest.raises(Paused) as caught:
        world.run(JsonAgent(log_in, model=model), "Go")
    assert "log_in(" in str(caught.value)
    assert "***" in str(caught.value)
    assert "horse" not in str(caught.value)
    assert "horse" in caught.value.calls[0].arguments, "the call itself is data"
