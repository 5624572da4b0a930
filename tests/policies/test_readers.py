"""Readers: data goes to those who may read it, or a person decides."""

import json
from typing import Annotated, Literal

import pytest
from guarded_turns import Guarded
from limited_tools import ANN, BOB, PAY, QUERY, TOOLS, get_news, get_pay, send
from one_policy import drive_here
from stacked_runs import flow_of

from agentkit import DefinitionError, JsonAgent, JsonTool, Paused, RunContext, tool
from agentkit.core.ask_person import Person
from agentkit.core.messages import label_of, user
from agentkit.events import ApprovalAsked
from agentkit.policies import Destination
from agentkit.policies.approval import approve
from agentkit.policies.taint.policy import guard_untrusted
from agentkit.testing import ScriptedModel, answer, call, calls


def waits(world, *replies, query=QUERY, tools=TOOLS, **settings):
    """Return the tools whose calls wait for a decision."""
    turns = Guarded(*replies, tools=tools, query=query, **settings)
    return [waiting.name for waiting in turns.list_held(world)]


class TestValues:
    """The default setting: a value is free if a text that the recipients may read contains it."""

    @pytest.mark.parametrize(
        ("sending", "held"),
        [
            (call("send", to=ANN, text="4,711"), []),
            (call("send", to=ANN.replace("home", "HOME"), text="Cid earns a lot"), []),
            (call("send", to=ANN.upper(), text="Cid earns a lot"), ["send"]),
            (call("send", to=[ANN], text="4,711"), []),
            (call("send", to=BOB, text="4,711"), ["send"]),
            (call("send", to=[ANN, BOB], text="4,711"), ["send"]),
            (call("send", to=f"{ANN}, {BOB}", text="4,711"), ["send"]),
            (call("send", to=BOB, text="four thousand and more"), ["send"]),
            (call("send", to=BOB, text="hello"), []),
            (call("send", to=BOB, text="It rains in Rome"), []),
            (call("send", to="", text="4,711"), ["send"]),
            (call("keep", text="4,711"), []),
            (call("post", text="4,711"), ["post"]),
            (call("post", text="hello"), []),
            (call("fetch", url="https://x.example/?pay=4711"), ["fetch"]),
            (call("count", text="4,711"), []),
        ],
    )
    def test_a_value_goes_to_those_who_may_read_a_text_with_it(self, world, sending, held):
        assert waits(world, calls(PAY, call("get_news")), sending) == held

    def test_before_it_was_read_and_without_readers_nothing_waits(self, world):
        assert waits(world, call("send", to=BOB, text="4,711"), PAY) == []
        assert waits(world, call("get_news"), call("send", to=BOB, text="anything")) == []

    def test_each_recipient_must_be_a_reader_of_all_that_was_read_or_of_the_value(self, world):
        both = calls(PAY, call("get_plan"))
        assert waits(world, both, call("send", to=ANN, text="a summary of both")) == []
        assert waits(world, both, call("send", to=BOB, text="We move in May")) == []
        assert waits(world, both, call("send", to=BOB, text="a summary of both")) == ["send"]

    def test_a_recipient_that_is_a_choice_or_a_name_counts(self, world):
        @tool(effect="write")
        def tell(to: Literal["ann", "cid"], text: str) -> str:
            """Tells."""
            return "told"

        @tool(effect="write")
        def share(to: dict[str, str]) -> str:
            """Shares."""
            return "shared"

        tools = (get_pay, tell, share)
        assert waits(world, PAY, call("tell", to="cid", text="4,711"), tools=tools) == ["tell"]
        assert waits(world, PAY, call("share", to={BOB: ANN, ANN: ANN}), tools=tools, query=ANN) == ["share"]

    def test_what_was_returned_after_it_has_its_readers(self, world):
        turns = Guarded(PAY, call("count", text="4,711"), tools=TOOLS, query=QUERY)
        turns.go_on(world)
        assert label_of(turns.messages[4]).readers == (ANN, "keep")
        assert not label_of(turns.messages[4]).is_untrusted

    def test_data_in_a_trusted_address_of_a_page_waits_too(self, world):
        @tool(effect="read", trust={"": "trusted"})
        def list_pages() -> list[str]:
            """Lists pages."""
            return ["https://wall.example"]

        turns = calls(PAY, call("list_pages")), call("fetch", url="https://wall.example")
        assert waits(world, *turns, tools=(*TOOLS, list_pages)) == []
        turns = calls(PAY, call("list_pages")), call("fetch", url="https://wall.example?4711")
        assert waits(world, *turns, tools=(*TOOLS, list_pages)) == ["fetch"]


class TestTurnsInsideOfTools:
    """The readers stay with a text on its way into turns inside of a tool, and back."""

    def clerk(self, *replies, tools):
        """A tool that takes turns of its own, and the calls that waited in them."""
        held = []

        def clerk(query: str) -> str:
            """Takes turns."""
            inner = Guarded(*replies, tools=tools, query=query)
            try:
                return str(drive_here(inner.guarded()))
            except Paused as pause:
                held.extend(waiting.name for waiting in pause.calls)
                return "waits"

        return clerk, held

    def test_back(self, world):
        clerk, _ = self.clerk(PAY, answer("4,711"), tools=(get_pay,))
        turns = call("clerk", query="Read."), call("send", to=BOB, text="4,711")
        assert waits(world, *turns, tools=(clerk, send)) == ["send"]

    @pytest.mark.parametrize(("text", "waiting"), [("much", ["send"]), ("hello", [])])
    def test_into_them(self, world, text, waiting):
        clerk, held = self.clerk(call("send", to=BOB, text=text), tools=(send,))
        Guarded(PAY, call("clerk", query="Tell Bob 4,711."), tools=(get_pay, clerk), query=QUERY).go_on(world)
        assert held == waiting

    def test_a_tool_may_limit_them(self, world):
        @tool
        def look(run: RunContext) -> str:
            """Looks."""
            run.limit_readers(ANN)
            return "It is 4,711."

        leak = call("send", to=BOB, text="4,711")
        assert waits(world, call("look"), leak, tools=(look, send)) == ["send"]


class TestQuestion:
    """What a person reads, and what the answers hold for."""

    def ask(self, world, *turns, decide="values"):
        questions = []

        def read(prompt):
            questions.append(prompt)
            return decide

        asking = Guarded(PAY, *turns, tools=TOOLS, query=QUERY, decide=Person(read))
        asking.go_on(world)
        return questions, [event for event in asking.events if isinstance(event, ApprovalAsked)]

    def test_it_names_the_value_its_source_the_passage_and_the_readers(self, world):
        questions, [asked] = self.ask(world, call("send", to=BOB, text="4,711"), decide="y")
        assert (
            f'only {ANN}, keep may read what this call sends to {BOB}: text = "4,711" '
            '(from get_pay: "cid earns 4,711 a month.")'
        ) in questions[0]
        value, recipient = asked.untrusted
        assert (value.value, value.origin, value.readers) == ("4,711", "get_pay", (ANN, "keep"))
        assert (recipient.value, recipient.is_destination, recipient.readers) == (BOB, True, (ANN, "keep"))

    def test_for_this_call_these_values_and_this_recipient(self, world):
        turn = call("send", to=BOB, text="4,711")
        other = call("send", to=BOB, text="much")
        assert len(self.ask(world, turn, turn, decide="y")[0]) == 2
        assert len(self.ask(world, turn, turn, other, decide="v")[0]) == 2
        assert len(self.ask(world, turn, other, decide="r")[0]) == 1

    def test_a_recipient_that_was_allowed_for_other_data_waits(self, world):
        turns = call("send", to=BOB, text="4,711"), call("get_plan"), call("send", to=BOB, text="a summary of both")
        assert len(self.ask(world, *turns, decide="r")[0]) == 2


class TestContext:
    """With "context" every value counts, and a call without any."""

    @pytest.mark.parametrize(
        ("sending", "held"),
        [
            (call("send", to=BOB, text="hello"), ["send"]),
            (call("send", to=ANN, text="4,711"), []),
            (call("post", loud=True), ["post"]),
            (call("post"), ["post"]),
            (call("count", text="hello"), ["count"]),
            (call("keep", text="hello"), []),
            (call("get_news"), []),
        ],
    )
    def test_every_call_to_others_waits(self, world, sending, held):
        assert waits(world, PAY, sending, setting="context") == held


class TestHidden:
    """With "hidden" the results are handles, which have the readers."""

    @pytest.mark.parametrize(
        ("sending", "held"),
        [
            (call("send", to=BOB, text="hello"), []),
            (call("send", to=ANN, text="#1"), []),
            (call("send", to=BOB, text="It is: {#1}"), ["send"]),
            (call("send", to="#1", text="hello"), ["send"]),
            (call("send", to=BOB, text="#2"), []),
            (call("keep", text="#1"), []),
            (call("fetch", url="https://x.example/{#1}"), ["fetch"]),
            (calls(call("reveal_result", reference="#1"), call("get_news")), []),
        ],
    )
    def test_a_reference_goes_to_those_who_may_read_the_result(self, world, sending, held):
        news = tool(lambda: "rain", name="news", description="Reads.", trust="untrusted", effect="read")
        turn = calls(PAY, call("news"))
        assert waits(world, turn, sending, setting="hidden", tools=(*TOOLS, news)) == held

    def test_the_model_reads_nothing_of_it_and_after_it_did_every_call_to_others_waits(self, world):
        reveal = call("reveal_result", reference="#1")
        sending = call("send", to=ANN), call("send", to=BOB)
        turns = Guarded(PAY, reveal, *sending, tools=TOOLS, query=QUERY, setting="hidden")
        assert [json.loads(waiting.arguments)["to"] for waiting in turns.list_held(world)] == [BOB]
        assert turns.contents[0] == "#1 from get_pay, 24 characters"
        assert "4,711" in turns.contents[1]

    def test_an_extract_has_its_readers(self, world):
        ask = call("extract_value", reference="#1", question="Is it much?", kind="yes_or_no")
        settings = {"setting": "hidden", "extracts": (True,)}
        assert waits(world, PAY, ask, call("send", to=BOB, text="hello"), **settings) == ["send"]
        assert waits(world, PAY, ask, call("send", to=ANN, text="hello"), **settings) == []


@pytest.mark.parametrize("readers", ["ann", [""], [3], 3])
def test_readers_that_make_no_sense_are_refused(readers):
    with pytest.raises(DefinitionError, match="readers must be a list of recipients or None for everyone, got"):
        JsonTool(get_news, readers=readers)


def test_readers_are_inherited_and_a_marker_decides_what_a_recipient_is(world):
    assert JsonTool(JsonTool(get_pay).renamed("pay")).readers == [ANN, "keep"]

    @tool(effect="write")
    def call_up(number: Annotated[int, Destination()], words: str) -> str:
        """Calls."""
        return "called"

    limited = tool(lambda: "4,711", name="look", description="Looks.", readers=["77"])
    turns = call("look"), calls(call("call_up", number=77, words="4,711"), call("call_up", number=78, words="4,711"))
    assert waits(world, *turns, tools=(limited, call_up)) == ["call_up"]


def test_under_the_other_policies_a_call_to_another_waits(world):
    history = [user(QUERY)]
    model = ScriptedModel(PAY, call("send", to=BOB, text="4,711"))
    with pytest.raises(Paused) as caught:
        world.drive(flow_of(model, *TOOLS, history=history, inner=(guard_untrusted(history), approve())))
    assert [waiting.name for waiting in caught.value.calls] == ["send"]


def test_an_agent_tells_who_may_read_its_answer(world):
    agent = JsonAgent(*TOOLS, model=ScriptedModel(PAY, call("count", text="4,711"), answer("Done.")))
    result = world.run(agent, QUERY)
    assert label_of(agent.history[5]).readers == (ANN, "keep")
    assert result.label.readers == (ANN, "keep")
    assert not result.label.is_untrusted
