"""Agents as tools of agents, and conversations that are handed on."""

import asyncio
import json
import threading
import time
from dataclasses import dataclass

import pytest

from agentkit import DefinitionError, Injected, JsonAgent, Limits, ModelError, Paused, RunError, Session, Usage, tool
from agentkit.agents.handoffs import MAX_HANDOFFS
from agentkit.core.messages import ToolCall, assistant
from agentkit.engine.history import check_history
from agentkit.engine.model import ModelReplied, Reply, Request, TextDelta
from agentkit.engine.result import HandedOver, RunEnded, RunFinished, RunStarted, SubRun
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.execution.call_tools import ToolFinished, ToolStarted
from agentkit.tools.registry import ToolRegistry

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(effect="danger")
def delete(path: str) -> str:
    """Deletes."""
    DONE.append(path)
    return f"deleted {path}"


def note(text: str) -> str:
    """Notes."""
    DONE.append(text)
    return "noted"


def helper(*script: object, **settings) -> JsonAgent:
    """An agent that is asked by another."""
    return JsonAgent(add, delete, description="Knows numbers.", model=ScriptedModel(*script, name="inner"), **settings)


ASK = call("numbers", query="1 + 2?")


def outer(inner: JsonAgent, *script: object, **settings) -> JsonAgent:
    return JsonAgent(inner.as_tool("numbers"), note, model=ScriptedModel(*script), **settings)


class TestAnAgentAsATool:
    def test_answers_the_query_of_the_other(self, world):
        inner = helper(call("add", a=1, b=2), answer("3"))
        asking = outer(inner, ASK, answer("It is 3."))
        result = world.run(asking, "What is 1 + 2?")
        assert result.answer == "It is 3."
        assert result.calls[0].content == "3"
        assert inner.model.requests[0].messages[-1]["content"] == "1 + 2?"
        assert "What is" not in json.dumps(inner.model.requests[0].messages), "it has a conversation of its own"
        assert len(inner.history) == 1, "and it is not the agent's usual one"

    def test_shows_the_model_a_query_and_its_description(self):
        shown = helper().as_tool("numbers").openai_schema["function"]
        assert shown["description"] == "Knows numbers."
        assert list(shown["parameters"]["properties"]) == ["query"]
        assert helper().as_tool("numbers", "Does sums.").description == "Does sums."
        with pytest.raises(
            DefinitionError, match=r"'numbers' has no description.*choose it\. Give JsonAgent\(.*description="
        ):
            JsonAgent(add, model=ScriptedModel()).as_tool("numbers")
        with pytest.raises(DefinitionError, match=r"'my numbers'.*Choose another one: agent\.as_tool\('my_numbers'\)"):
            helper().as_tool("my numbers")

    def test_gives_a_typed_answer_as_data(self, world):
        @dataclass
        class Pair:
            left: int
            right: int

        inner = JsonAgent(add, answer=Pair, model=ScriptedModel(call("final_answer", left=1, right=2)))
        result = world.run(
            JsonAgent(inner.as_tool("pairs", "Pairs."), model=ScriptedModel(call("pairs", query="?"), answer("done"))),
            "go",
        )
        assert json.loads(result.calls[0].content) == {"left": 1, "right": 2}
        assert result.calls[0].value == Pair(1, 2)

    def test_calls_at_once_do_not_mix(self, world):
        class Echo:
            name = "echo"

            def ask(self, request):
                time.sleep(0.02)
                yield self.reply(request)

            async def aask(self, request):
                await asyncio.sleep(0.02)
                yield self.reply(request)

            def reply(self, request):
                text = json.dumps({"text": request.messages[-1]["content"].upper()})
                call = {"id": "c", "type": "function", "function": {"name": "final_answer", "arguments": text}}
                return Reply({**assistant(), "tool_calls": [call]})

        inner = JsonAgent(add, model=Echo())
        many = calls(*[call("shout", query=f"q{number}") for number in range(6)])
        result = world.run(
            JsonAgent(inner.as_tool("shout", "Shouts."), model=ScriptedModel(many, answer("done"))), "go"
        )
        assert [message["content"] for message in result.messages if message["role"] == "tool"][:6] == [
            f"Q{number}" for number in range(6)
        ]

    def test_a_run_without_answer_is_reported_to_the_model(self, world):
        inner = helper(ModelError("no such key", kind="authentication", status=401))
        result = world.run(outer(inner, ASK, answer("sorry")), "go")
        assert result.answer == "sorry"
        assert result.calls[0].content == "numbers came to no answer. ModelError: no such key"

    def test_what_a_tool_inside_raises_to_the_caller_goes_to_the_caller(self, world):
        @tool(on_error="raise")
        def fail() -> None:
            """Fails."""
            raise KeyError("mine")

        inner = JsonAgent(fail, description="Fails.", model=ScriptedModel(call("fail")))
        with pytest.raises(KeyError, match="mine"):
            world.run(outer(inner, ASK), "go")

    @pytest.mark.parametrize("streamed", [True, False])
    def test_its_events_are_shown_as_its_own(self, world, streamed):
        inner = helper({"content": "Let me see.", **call("add", a=1, b=2)}, answer("3"))
        seen: list = []
        asking = outer(inner, ASK, answer("done"), listeners=[seen.append])
        events = world.stream(asking, "go") if streamed else (world.run(asking, "go"), seen)[1]
        plain = [event for event in events if not isinstance(event, SubRun)]
        within = [event.event for event in events if isinstance(event, SubRun)]
        assert [type(event) for event in plain].count(RunStarted) == 1
        assert [type(event) for event in plain].count(RunFinished) == 1
        assert isinstance(events[-1], RunFinished if streamed else RunEnded)
        assert isinstance(within[0], RunStarted)
        assert [type(event) for event in within[-2:]] == [RunFinished, RunEnded]
        assert within[-2].result.answer == "3"
        assert any(isinstance(event, TextDelta) for event in within) == streamed
        assert {(event.name, event.call.name) for event in events if isinstance(event, SubRun)} == {
            ("numbers", "numbers")
        }
        place = next(place for place, event in enumerate(events) if isinstance(event, ToolFinished))
        assert max(place for place, event in enumerate(events) if isinstance(event, SubRun)) < place

    def test_what_it_takes_counts_in_the_run_that_asked(self, world):
        def reply(entry, dollars):
            (given,) = (piece for piece in ScriptedModel(entry).ask(request) if isinstance(piece, Reply))
            return Reply(given.message, Usage(requests=1, input_tokens=10, cost=dollars))

        request = Request([], ToolRegistry())
        deepest = JsonAgent(add, description="Deep.", model=ScriptedModel(reply(answer("1"), 0.5)))
        inner = JsonAgent(
            deepest.as_tool("deep"),
            description="In the middle.",
            model=ScriptedModel(reply(call("deep", query="?"), 0.25), reply(answer("2"), 0.25)),
        )
        asking = outer(inner, reply(ASK, 1.0), reply(answer("done"), 1.0))
        result = world.run(asking, "go")
        assert result.usage == Usage(requests=5, input_tokens=50, cost=3.0)
        assert asking.session.usage == result.usage
        assert (result.steps, len(result.calls)) == (2, 2)

    def test_is_cancelled_with_the_run_that_asked(self):
        begun = threading.Event()
        ended = threading.Event()

        async def hang() -> None:
            """Hangs."""
            begun.set()
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()

        inner = JsonAgent(hang, description="Hangs.", model=ScriptedModel(call("hang")))
        for event in outer(inner, ASK).stream("go"):
            if isinstance(event, SubRun) and isinstance(event.event, ToolStarted):
                assert begun.wait()
                break
        assert ended.wait()

    @pytest.mark.parametrize("how", ["tool", "function"])
    @pytest.mark.parametrize(("own", "name"), [(None, "Ada"), ("Bo", "Bo")])
    def test_without_deps_it_has_those_of_the_run_that_asks(self, world, how, own, name):
        def greet(visitor: Injected[str]) -> str:
            """Greets."""
            DONE.append(visitor)
            return f"Hello {visitor}"

        inner = JsonAgent(greet, description="Greets.", model=ScriptedModel(call("greet"), answer("ok")), deps=own)

        def ask(query: str) -> str:
            """Asks."""
            return inner.run(query).answer

        tools = inner.as_tool("ask") if how == "tool" else ask
        agent = JsonAgent(tools, model=ScriptedModel(call("ask", query="Greet!"), answer("done")))
        assert world.run(agent, "Greet the visitor", deps="Ada").answer == "done"
        assert " ".join(DONE) == name

    def test_has_no_timeout_of_its_own(self):
        assert helper().as_tool("numbers").timeout is None


class TestApprovalInside:
    DELETE = call("delete", path="a")

    def test_who_decides_outside_decides_inside(self, world):
        asked = []

        def decide(call):
            asked.append(call.name)
            return "no" if call.name == "delete" else None

        inner = helper(self.DELETE, answer("kept"))
        assert world.run(outer(inner, ASK, answer("done"), approve=decide), "go").calls[0].content == "kept"
        assert asked == ["numbers", "delete"]
        assert DONE == []

    def test_a_pause_inside_pauses_the_outer_run_and_continues_in_another_process(self, world, tmp_path):
        both = calls(call("numbers", query="tidy up"), call("note", text="beside"))
        with pytest.raises(Paused) as caught:
            world.run(outer(helper(self.DELETE), both), "go")
        assert DONE == ["beside"]
        (waiting,) = caught.value.calls
        assert (waiting.id, waiting.name) == ("call_1_1/call_1_1", "delete")
        assert waiting.id in str(caught.value)
        caught.value.session.save(tmp_path / "s.json")

        session = Session.load(tmp_path / "s.json")
        assert session.waiting == [waiting]
        inner = helper(answer("tidy"))
        model = ScriptedModel(answer("done"))
        result = world.run(
            JsonAgent(inner.as_tool("numbers"), note, model=model), None, session=session, approvals={waiting.id: True}
        )
        assert result.answer == "done"
        assert DONE == ["beside", "a"], "what was done stays done"
        told = {
            message["name"]: message["content"] for message in model.requests[0].messages if message["role"] == "tool"
        }
        assert told == {"numbers": "tidy", "note": "noted"}
        assert check_history(result.messages) == []
        assert inner.model.requests[0].messages[1]["content"] == "tidy up"
        assert session.inputs.nested == {}

    def test_it_waits_on_when_nothing_is_decided_and_can_be_refused(self, world):
        inner = helper(self.DELETE, answer("kept"))
        asking = outer(inner, ASK, answer("done"))
        for query in ("go", None):
            with pytest.raises(Paused) as caught:
                world.run(asking, query)
        (waiting,) = caught.value.calls
        assert world.run(asking, None, approvals={waiting.id: "keep it"}).answer == "done"
        assert "Denied: keep it" in json.dumps(inner.model.requests[1].messages)
        assert DONE == []

    def test_two_agents_that_pause_are_both_waited_for(self, world):
        inner = helper(self.DELETE, self.DELETE, answer("x"), answer("y"))
        asking = outer(inner, calls(call("numbers", query="one"), call("numbers", query="two")), answer("done"))
        with pytest.raises(Paused) as caught:
            world.run(asking, "go")
        ids = [call.id for call in caught.value.calls]
        assert len(set(ids)) == 2
        assert world.run(asking, None, approvals=dict.fromkeys(ids, True)).answer == "done"
        assert DONE == ["a", "a"]

    def test_a_new_query_drops_it(self, world):
        asking = outer(helper(self.DELETE), ASK, answer("done"))
        with pytest.raises(Paused):
            world.run(asking, "go")
        assert world.run(asking, "never mind").answer == "done"
        assert asking.session.waiting == []
        assert DONE == []


TRANSFER = call("transfer_to_billing", reason="It is about money.")


class TestHandOff:
    def billing(self, *script: object, **settings) -> JsonAgent:
        model = ScriptedModel(*script, name="billing")
        return JsonAgent(note, description="You are billing.", model=model, **settings)

    def triage(self, other, *script: object, **settings) -> JsonAgent:
        model = ScriptedModel(*script, name="triage")
        return JsonAgent(add, description="You are triage.", model=model, handoffs={"billing": other}, **settings)

    def test_the_other_agent_continues_the_conversation(self, world):
        billing = self.billing(call("note", text="paid"), answer("Paid."))
        triage = self.triage(billing, call("add", a=1, b=2), TRANSFER)
        result = world.run(triage, "I want to pay.")
        assert (result.answer, result.model, result.handed) == ("Paid.", "billing", ("billing",))
        assert result.steps == result.usage.requests == 4
        first = triage.model.requests[0]
        last = billing.model.requests[-1]
        assert "transfer_to_billing" in first.tools
        assert first.messages[0]["content"].startswith("You are triage.")
        assert set(last.tools) == {"note", "final_answer"}
        assert last.messages[0]["content"].startswith("You are billing.")
        assert [message["content"] for message in last.messages if message["role"] in ("user", "tool")] == [
            "I want to pay.",
            "3",
            "The conversation is handed over to billing. It is about money.",
            "noted",
        ]
        assert check_history(result.messages) == []
        assert triage.history == result.messages
        assert len(billing.history) == 1

    def test_it_is_an_event_and_streams(self, world):
        events = world.stream(self.triage(self.billing({"content": "Well.", **answer("Paid.")}), TRANSFER), "pay")
        kinds = [type(event).__name__ for event in events]
        assert events[kinds.index("HandedOver")] == HandedOver("billing", "It is about money.")
        assert kinds.count("RunStarted") == kinds.count("RunFinished") == 1
        after = events[kinds.index("HandedOver") :]
        assert [event.text for event in after if isinstance(event, TextDelta)] == ["Well."]
        assert [
            event.reply.message["tool_calls"][0]["function"]["name"]
            for event in events
            if isinstance(event, ModelReplied)
        ] == ["transfer_to_billing", "final_answer"]
        assert after[-1].result.answer == "Paid."

    def test_the_next_query_begins_with_the_first_agent_again(self, world):
        triage = self.triage(self.billing(answer("Paid.")), TRANSFER, answer("Hello again."))
        world.run(triage, "pay")
        result = world.run(triage, "hello")
        assert (result.answer, result.handed) == ("Hello again.", ())
        assert triage.model.requests[-1].messages[0]["content"].startswith("You are triage.")
        assert triage.session.handed == []

    def test_a_model_that_is_named_for_the_call_is_the_first_agents(self, world):
        triage = self.triage(self.billing(answer("Paid.")))
        assert world.run(triage, "pay", model=ScriptedModel(TRANSFER, name="named")).model == "billing"

    def test_agents_may_hand_back(self, world):
        triage = self.triage(lambda: billing, TRANSFER, answer("It is paid."))
        back = call("transfer_to_triage", reason="Done.")
        billing = self.billing(back, handoffs={"triage": lambda: triage})
        result = world.run(triage, "pay")
        assert (result.answer, result.model, result.handed) == ("It is paid.", "triage", ("billing", "triage"))

    def test_a_function_that_returns_no_agent_is_named(self, world):
        with pytest.raises(DefinitionError, match="handoffs: the function of 'billing' must return an agent, got None"):
            world.run(self.triage(lambda: None, TRANSFER), "pay")

    @pytest.mark.parametrize("reason", ["tool_calls", "tokens"])
    def test_the_limits_of_who_hands_over_hold_for_the_rest_of_the_run(self, world, reason):
        def spend(request):
            if request.tool_choice != "auto":
                return answer("That is all.")
            text = f"number {len(request.messages)}"
            return Reply(assistant(None, [ToolCall("", "note", json.dumps({"text": text}))]), Usage(1, 8, 8))

        billing = self.billing([spend] * 20)
        limits = Limits(seconds=60, **{reason: {"tool_calls": 2, "tokens": 40}[reason]})
        result = world.run(self.triage(billing, TRANSFER, limits=limits), "pay")
        assert (result.answer, result.stopped) == ("That is all.", reason)
        assert len(billing.model.requests) < 6
        assert all(request.timeout < 60 for request in billing.model.requests)

    def test_not_without_end(self, world):
        back = call("transfer_to_triage", reason="Not mine.")
        triage = self.triage(lambda: billing, *[TRANSFER] * 6, answer("Mine, then."))
        billing = self.billing(*[back] * 6, handoffs={"triage": lambda: triage})
        result = world.run(triage, "pay")
        assert result.answer == "Mine, then."
        assert len(result.handed) == MAX_HANDOFFS
        assert f"handed over {MAX_HANDOFFS} times already" in result.calls[-2].content

    def test_other_calls_of_the_turn_are_run_and_one_hand_off_counts(self, world):
        turn = calls(
            call("add", a=1, b=2),
            call("transfer_to_billing", reason="A."),
            call("transfer_to_billing", reason="B."),
            call("final_answer", text="no"),
        )
        billing = self.billing(answer("Paid."))
        result = world.run(self.triage(billing, turn), "pay")
        assert (result.answer, result.handed) == ("Paid.", ("billing",))
        told = [message["content"] for message in billing.model.requests[0].messages if message["role"] == "tool"]
        assert told[0] == "3"
        assert told[1].endswith("handed over to billing. A.")
        assert told[2].startswith("Not run")
        assert told[3].startswith("Not run")

    def test_a_call_that_is_not_valid_hands_nothing_over(self, world):
        result = world.run(self.triage(self.billing(), call("transfer_to_billing"), answer("So?")), "pay")
        assert (result.answer, result.handed) == ("So?", ())
        assert "reason" in result.calls[0].content

    def test_checks_look_at_answers_not_at_hand_offs(self, world):
        looked = []
        triage = self.triage(self.billing(answer("Paid.")), TRANSFER, checks=[lambda answer: looked.append(answer)])
        assert world.run(triage, "pay").answer == "Paid."
        assert looked == []

    def test_a_pause_after_a_hand_off_continues_with_the_agent_that_paused(self, world):
        def bill(*script: object):
            model = ScriptedModel(*script)
            return JsonAgent(delete, description="You are billing.", model=model)

        triage = self.triage(bill(call("delete", path="a")), TRANSFER)
        with pytest.raises(Paused) as caught:
            world.run(triage, "delete it")
        session = Session.from_dict(json.loads(json.dumps(caught.value.session.as_dict())))
        other = bill(answer("Deleted."))
        result = world.run(self.triage(other), None, session=session, approvals={caught.value.calls[0].id: True})
        assert (result.answer, result.handed) == ("Deleted.", ("billing",))
        assert other.model.requests[0].messages[0]["content"].startswith("You are billing.")
        assert DONE == ["a"]
        stranger = Session.from_dict({**session.as_dict(), "inbox": ["go on"], "handed": ["billing"]})
        with pytest.raises(RunError, match="handed over to 'billing', which is not among the handoffs of this agent"):
            world.run(JsonAgent(add, model=ScriptedModel(answer("done"))), None, session=stranger)

    def test_a_model_tools_and_an_instruction_are_for_the_agent_that_has_the_conversation(self, world, tmp_path):
        billing = self.billing(call("delete", path="a"), tools=[delete])
        triage = self.triage(billing, TRANSFER, journal=tmp_path / "runs.db")
        with pytest.raises(Paused) as caught:
            world.run(triage, "delete it")
        given = ScriptedModel(call("add", a=1, b=2), answer("Branched."), answer("Resumed."))
        how = {"model": given, "tools": [add], "instruction": "You are another."}
        branch = triage.fork(caught.value.result.run_id, 1, **how)
        assert (branch.answer, branch.handed, branch.messages[0]["content"]) == (
            "Branched.",
            ("billing",),
            "You are another.",
        )
        assert branch.calls[-2].value == 3
        approvals = {caught.value.calls[0].id: True}
        result = world.run(triage, None, session=caught.value.session, approvals=approvals, model=given)
        assert (result.answer, DONE) == ("Resumed.", ["a"])
        assert billing.instruction.startswith("You are billing.")

    def test_the_tool_describes_the_other_agent(self):
        offered = self.triage(self.billing()).tools["transfer_to_billing"]
        assert "over to billing" in offered.description
        assert "You are billing." in offered.description
        with pytest.raises(DefinitionError, match=r"'transfer_to_the boss'.*: handoffs=\{'the_boss': \.\.\.\}\.$"):
            JsonAgent(add, handoffs={"the boss": self.billing()}, model=ScriptedModel())
