"""Readers: data goes to those who may read it, or a person decides."""

import json
from typing import Annotated, Literal

import pytest

from agentkit import DefinitionError, JsonAgent, JsonTool, Paused, RunContext, Session, tool
from agentkit.core.ask_person import Person
from agentkit.core.labels import Label, label_of
from agentkit.policies import Destination
from agentkit.policies.approval import ApprovalAsked
from agentkit.testing import ScriptedModel, answer, call, calls

ANN, BOB = "ann@home.example", "bob@home.example"
QUERY = f"Tell {ANN} and {BOB} hello."


@tool(effect="read", readers=[ANN, "keep"])
def get_pay() -> str:
    """Gets the pay."""
    return "Cid earns 4,711 a month."


@tool(effect="read", readers=[BOB, ANN])
def get_plan() -> str:
    """Gets the plan."""
    return "We move in May."


@tool(effect="read")
def get_news() -> str:
    """Gets the news."""
    return "It rains in Rome."


@tool(effect="write")
def send(to: str | list[str], text: str = "", urgent: bool = False) -> str:
    """Sends a mail."""
    return "sent"


@tool(effect="write")
def keep(text: str) -> str:
    """Keeps a note."""
    return "kept"


@tool(effect="write")
def post(text: str = "", loud: bool = False) -> str:
    """Posts on the wall."""
    return "posted"


@tool(effect="read")
def fetch(url: str) -> str:
    """Fetches a page."""
    return "a page"


@tool
def count(text: str) -> int:
    """Counts letters."""
    return len(text)


TOOLS = (get_pay, get_plan, get_news, send, keep, post, fetch, count)
PAY = call("get_pay")


def waits(world, *replies, query=QUERY, tools=TOOLS, session=None, **settings):
    """Return the tools whose calls wait for a decision."""
    agent = JsonAgent(*tools, model=ScriptedModel(*replies, answer("Done.")), **settings)
    try:
        world.run(agent, query, **({"session": session} if session else {}))
    except Paused as pause:
        return [waiting.name for waiting in pause.calls]
    return []


class TestValues:
    """The default setting: a value is free if a text that the recipients may read contains it."""

    @pytest.mark.parametrize(
        ("sending", "held"),
        [
            (call("send", to=ANN, text="4,711"), []),
            (call("send", to=ANN.upper(), text="Cid earns a lot"), []),
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
        agent = JsonAgent(*TOOLS, model=ScriptedModel(PAY, call("count", text="4,711"), answer("Done.")))
        result = world.run(agent, QUERY)
        assert label_of(agent.history[5]).readers == (ANN, "keep")
        assert result.label.readers == (ANN, "keep")
        assert not result.label.is_untrusted

    def test_data_in_a_trusted_address_of_a_page_waits_too(self, world):
        @tool(effect="read", trust={"": "trusted"})
        def list_pages() -> list[str]:
            """Lists pages."""
            return ["https://wall.example"]

        turns = calls(PAY, call("list_pages")), call("fetch", url="https://wall.example")
        assert waits(world, *turns, tools=(*TOOLS, list_pages)) == []
        turns = calls(PAY, call("list_pages")), call("fetch", url="https://wall.example?4711")
        assert waits(world, *turns, tools=(*TOOLS, list_pages)) == ["fetch"]


class TestTheWaysOfAText:
    """The readers stay with a text wherever it goes."""

    def test_through_an_inner_agent_and_back(self, world):
        inner = JsonAgent(get_pay, model=ScriptedModel(PAY, answer("4,711")))
        clerk = inner.as_tool("clerk", "Reads.")
        turns = call("clerk", query="Read."), call("send", to=BOB, text="4,711")
        assert waits(world, *turns, tools=(clerk, send)) == ["send"]

    def test_into_an_inner_agent(self, world):
        inner = JsonAgent(send, model=ScriptedModel(call("send", to=BOB, text="much"), answer("Done.")))
        clerk = inner.as_tool("clerk", "Writes.")
        assert waits(world, PAY, call("clerk", query="Tell Bob 4,711."), tools=(get_pay, clerk)) == ["send"]

    def test_an_inner_agent_may_send_what_its_recipient_may_read(self, world):
        inner = JsonAgent(send, model=ScriptedModel(call("send", to=BOB, text="hello"), answer("Done.")))
        clerk = inner.as_tool("clerk", "Writes.")
        assert waits(world, PAY, call("clerk", query="Tell Bob 4,711."), tools=(get_pay, clerk)) == []

    def test_a_query_a_note_and_a_tool_may_limit_them(self, world):
        @tool
        def look(run: RunContext) -> str:
            """Looks."""
            run.limit_readers(ANN)
            run.say("It is 4,711.")
            return "looked"

        leak = call("send", to=BOB, text="4,711")
        assert waits(world, call("look"), leak, tools=(look, send)) == ["send"]
        agent = JsonAgent(send, model=ScriptedModel(leak, answer("Done.")))
        agent.say("It is 4,711.", label=Label("user", readers=(ANN,)))
        with pytest.raises(Paused):
            world.run(agent, QUERY)
        agent = JsonAgent(send, model=ScriptedModel(leak, answer("Done.")))
        with pytest.raises(Paused):
            world.run(agent, "Tell 4,711.", label=Label("user", readers=(ANN,)))

    def test_through_a_file_and_a_long_result(self, world, tmp_path):
        book = tool(lambda: "x " * 400 + "4,711" + " x" * 400, name="book", description="Reads.", readers=[ANN])
        agent = JsonAgent(book, model=ScriptedModel(call("book"), answer("Done.")), max_result=200)
        world.run(agent, "Read.")
        [identity] = agent.session.cut.texts
        agent.session.messages[2:] = []
        agent.session.save(tmp_path / "s.json")
        turns = call("read_more", result_id=identity, offset=780), call("send", to=BOB, text="4,711")
        session = Session.load(tmp_path / "s.json")
        assert waits(world, *turns, tools=(send,), session=session, max_result=200) == ["send"]


class TestQuestion:
    """What a person reads, and what the answers hold for."""

    def ask(self, world, *turns, decide="values"):
        seen, questions = [], []

        def read(prompt):
            questions.append(prompt)
            return decide

        model = ScriptedModel(PAY, *turns, answer("Done."))
        world.run(JsonAgent(*TOOLS, model=model, approve=Person(read), listeners=[seen.append]), QUERY)
        return questions, [event for event in seen if isinstance(event, ApprovalAsked)]

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
        turn, other = call("send", to=BOB, text="4,711"), call("send", to=BOB, text="much")
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
        assert waits(world, PAY, sending, untrusted="context") == held


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
        assert waits(world, turn, sending, untrusted="hidden", tools=(*TOOLS, news)) == held

    def test_the_model_reads_nothing_of_it_and_after_it_did_every_call_to_others_waits(self, world):
        reveal = call("reveal_result", reference="#1")
        model = ScriptedModel(PAY, reveal, call("send", to=ANN), call("send", to=BOB), answer("Done."))
        agent = JsonAgent(*TOOLS, model=model, untrusted="hidden")
        with pytest.raises(Paused) as caught:
            world.run(agent, QUERY)
        assert [json.loads(waiting.arguments)["to"] for waiting in caught.value.calls] == [BOB]
        assert agent.history[3]["content"] == "#1 from get_pay, 24 characters"
        assert "4,711" in agent.history[5]["content"]

    def test_an_extract_has_its_readers(self, world):
        inner = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": True}}]}
        ask = call("extract_value", reference="#1", question="Is it much?", kind="yes_or_no")
        assert waits(world, PAY, ask, inner, call("send", to=BOB, text="hello"), untrusted="hidden") == ["send"]
        assert waits(world, PAY, ask, inner, call("send", to=ANN, text="hello"), untrusted="hidden") == []


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
