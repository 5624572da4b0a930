"""The agent as its users see it, in both worlds."""

import asyncio
import json
import threading
from copy import copy
from dataclasses import FrozenInstanceError, dataclass

import pytest
from pydantic import BaseModel

from agentkit import (
    DefinitionError,
    JsonAgent,
    JsonTool,
    LimitExceeded,
    ModelError,
    NoAnswer,
    RunError,
    Session,
    ToolRegistry,
    tool,
)
from agentkit.core.messages import calls_of, pending_calls
from agentkit.engine.model import ModelReplied, TextDelta
from agentkit.engine.result import RunEnded, RunFinished, RunStarted
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call_tools import ToolFinished, ToolStarted


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


async def double(a: int) -> int:
    """Doubles."""
    return 2 * a


def fail() -> None:
    """Fails."""
    raise LookupError("no such thing")


def test_an_agent_is_called_like_a_function():
    model = ScriptedModel([call("add", a=2, b=3), call("final_answer", text="It is 5.")])
    agent = JsonAgent([add], model=model)
    assert agent(query="What is 2 + 3?") == "It is 5."
    model.assert_done()


@pytest.mark.parametrize(
    "tools",
    [([add, double],), ([add], double), (ToolRegistry(add), double), (JsonTool(add), tool(double))],
    ids=["a list", "a list and one", "a registry and one", "one by one"],
)
def test_tools_come_one_by_one_in_lists_and_in_registries(tools):
    assert set(JsonAgent(*tools, model=ScriptedModel()).tools) == {"final_answer", "add", "double"}


def test_the_tools_of_a_list_are_called():
    assert JsonAgent([add, double], model=ScriptedModel([call("final_answer", text="x")]))("hello") == "x"


def test_a_run_in_both_worlds(world):
    model = ScriptedModel(
        {
            "content": "Let me see.",
            "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "double", "arguments": {"a": 4}}],
        },
        call("fail"),
        call("final_answer", text="3 and 8"),
    )
    result = world.run(JsonAgent(add, double, fail, model=model), "1 + 2, and twice 4?")
    assert result.answer == "3 and 8"
    assert (result.steps, result.stopped, result.model, result.usage.requests) == (3, "answer", "scripted", 3)
    roles = [message["role"] for message in result.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool"]
    assert [message["content"] for message in result.messages[3:5]] == ["3", "8"]
    assert result.messages[6]["content"] == "LookupError: no such thing"
    assert sorted(outcome.content for outcome in result.calls[:2]) == ["3", "8"]
    json.dumps(result.as_dict())


def test_the_conversation_continues_and_stays_valid(world):
    model = ScriptedModel(call("final_answer", text="one"), call("final_answer", text="two"))
    agent = JsonAgent(add, model=model)
    world.run(agent, "first")
    world.run(agent, "second")
    said = [message["content"] for message in model.requests[1].messages if message["role"] == "user"]
    assert said == ["first", "second"]
    assert pending_calls(agent.history) == []
    ids = [call.id for message in agent.history for call in calls_of(message)]
    answered = [message["tool_call_id"] for message in agent.history if message["role"] == "tool"]
    assert ids == answered


def test_the_history_begins_with_the_instruction_and_can_be_cleared(capsys):
    agent = JsonAgent(
        add,
        model=ScriptedModel(call("final_answer", text="one"), call("final_answer", text="two")),
        description="You are a calculator.",
    )
    assert agent.instruction.startswith("You are a calculator.\n\n")
    assert agent.history == [{"role": "system", "content": agent.instruction}]
    agent("first")
    assert len(agent.history) == 4
    agent.show_history()
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("system   You are a calculator.", "query    first\n", "answer   one\n"))
    agent.clear_history()
    assert agent.history == [{"role": "system", "content": agent.instruction}]
    agent("second")
    assert [message["content"] for message in agent.history if message["role"] == "user"] == ["second"]


def test_a_model_for_one_call_only():
    usual = ScriptedModel(call("final_answer", text="usual"))
    other = ScriptedModel(call("final_answer", text="other"), name="other")
    agent = JsonAgent(add, model=usual)
    assert agent("a", model=other) == "other"
    assert agent("b") == "usual"
    assert len(other.requests) == len(usual.requests) == 1


class TestTheSpecification:
    def test_it_is_frozen_and_an_assignment_replaces_it(self):
        agent = JsonAgent(add, model="offline")
        before = agent.spec
        with pytest.raises(FrozenInstanceError):
            before.model = None
        agent.model = other = ScriptedModel(call("final_answer", text="other"))
        agent.listeners += (print,)
        assert (before.model, agent.spec.model, agent.model) == ("offline", other, other)
        assert (before.listeners, agent.listeners) == (before.listeners, (*before.listeners, print))
        assert agent.tools is before.tools

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("tools", JsonAgent(add).tools),
            ("toolsets", ()),
            ("model", "offline"),
            ("description", "You count."),
            ("deps", 3),
            ("listeners", ()),
            ("journal", None),
            ("memory", False),
        ],
    )
    def test_each_attribute_of_an_agent_can_be_read(self, name, value):
        agent = JsonAgent(add, model=ScriptedModel())
        setattr(agent, name, value)
        assert getattr(agent, name) is getattr(agent.spec, name) is value

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            ("listeners", print, "listeners must be a list of functions"),
            ("listeners", [lambda: None], "listeners: <lambda> must take one argument, the event"),
            ("listeners", [double], "listeners: double has to be awaited, and a run only calls it. Write def"),
            ("description", 3, "description must be a text or a function of the run, got 3"),
            ("model", 3, "model must be a name"),
            ("model", lambda: "offline", "model: <lambda> must take one argument, the context"),
            ("journal", 3, "journal must be the path of a file or a URL, or a store, got 3"),
            ("memory", "no", "memory must be True or False, got 'no'"),
            ("toolsets", [add], "toolsets must be a list of toolsets, got <function add"),
        ],
    )
    def test_a_value_is_checked_when_it_is_assigned(self, name, value, error):
        agent = JsonAgent(add, model=ScriptedModel())
        before = agent.spec
        with pytest.raises(DefinitionError, match=error):
            setattr(agent, name, value)
        assert agent.spec is before

    def test_the_agents_to_hand_off_to_cannot_be_assigned(self):
        agent = JsonAgent(add, model=ScriptedModel())
        with pytest.raises(AttributeError, match=r"keeps its handoffs. Make one: JsonAgent\(..., handoffs=...\)"):
            agent.handoffs = {"other": JsonAgent(add, model=ScriptedModel())}

    @pytest.mark.parametrize(
        ("name", "remedy"),
        [
            ("limits", r"Write JsonAgent\(..., limits=...\), or agent.run\(query, limits=...\)\.$"),
            ("approve", r"Write JsonAgent\(..., approve=...\)\.$"),
            ("system_prompt", r"Write JsonAgent\(..., description=...\)\.$"),
            ("temperature", r"Write JsonAgent\(..., temperature=...\), or agent.run\(query, temperature=...\)\.$"),
            ("api_key", r"Write JsonAgent\(..., api_key=...\)\.$"),
        ],
    )
    def test_an_assignment_without_effect_is_refused(self, name, remedy):
        agent = JsonAgent(add, model=ScriptedModel())
        with pytest.raises(AttributeError, match=f"an agent does not read '{name}' when it is assigned. {remedy}"):
            setattr(agent, name, 3)

    def test_agents_may_have_further_attributes_and_a_class_of_a_user_those_with_names_of_options(self):
        class Clerk(JsonAgent):
            pass

        agent = JsonAgent(add, model=ScriptedModel())
        agent.shift = "late"
        clerk = Clerk(add, model=ScriptedModel())
        clerk.limits = "of his own"
        assert (agent.shift, clerk.limits) == ("late", "of his own")

    @pytest.mark.parametrize("tools", [[add], add, ToolRegistry(add)])
    def test_tools_without_the_answer_are_refused(self, tools):
        agent = JsonAgent(add, model=ScriptedModel())
        with pytest.raises(DefinitionError, match=r"agent.tools = agent.tools.merged\(my_function\)"):
            agent.tools = tools

    def test_a_tool_is_added(self, world):
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        model = ScriptedModel(call("double", number=4), call("final_answer", text="8"))
        agent = JsonAgent(add, model=model)
        agent.tools = agent.tools.merged(double)
        assert world.run(agent, "?").calls[0].value == 8

    def test_a_copy_of_an_agent_is_changed_alone(self, world):
        agent = JsonAgent(add, model=ScriptedModel(call("final_answer", text="own")))
        twin = copy(agent)
        twin.model = ScriptedModel(call("final_answer", text="twin"))
        twin.session = Session()
        assert (world.run(agent, "?").answer, world.run(twin, "?").answer) == ("own", "twin")

    def test_a_run_has_the_specification_with_which_it_begins(self, world):
        def rename() -> str:
            """Renames."""
            agent.description = "You are another one."
            agent.model = ScriptedModel(call("final_answer", text="other"))
            return "done"

        model = ScriptedModel(call("rename"), call("final_answer", text="first"), call("final_answer", text="second"))
        agent = JsonAgent(rename, model=model, description="You are one.")
        assert world.run(agent, "?").answer == "first"
        assert {request.messages[0]["content"].split(".")[0] for request in model.requests} == {"You are one"}
        assert world.run(agent, "?").answer == "other"
        assert agent.history[0]["content"].startswith("You are another one.")

    def test_options_of_a_run_leave_it_as_it_is(self, world):
        agent = JsonAgent(add, model=ScriptedModel(call("final_answer", text="done")))
        before = agent.spec
        world.run(agent, "?", max_steps=2, deps=4, listeners=[print])
        assert agent.spec is before


def test_an_agent_shows_itself_and_its_settings_without_keys():
    secret = "k3y-number-one"
    agent = JsonAgent(
        add,
        model=f"openai/gpt-4o?key={secret}",
        api_base=f"https://models.example/v1?key={secret}",
        extra_headers={"Cookie": f"session={secret}"},
        metadata=[{"api_key": secret}, ("x-api-key", secret)],
    )
    assert agent.settings["metadata"][0] == {"api_key": secret}
    assert secret not in repr(agent) + repr(agent.settings) + repr(agent.spec)
    assert "models.example" in repr(agent.settings)


def test_the_environment_names_the_model(monkeypatch):
    monkeypatch.setenv("AGENTKIT_MODEL", "groq/llama-3.1-8b-instant")
    assert "groq/llama-3.1-8b-instant" in repr(JsonAgent(add))
    monkeypatch.delenv("AGENTKIT_MODEL")
    assert "offline" in repr(JsonAgent(add))


class Report(BaseModel):
    title: str
    points: list[int]


@dataclass
class Pair:
    left: int
    right: int


@pytest.mark.parametrize(
    ("type_", "written", "answer"),
    [
        (Report, {"title": "T", "points": [1]}, Report(title="T", points=[1])),
        (Pair, {"left": 1, "right": 2}, Pair(1, 2)),
        (int, 7, 7),
        (list[int], [1, "2"], [1, 2]),
        (int | None, None, None),
        (bool, True, True),
    ],
)
def test_the_answer_has_the_type_that_was_asked_for(world, type_, written, answer):
    model = ScriptedModel(call("final_answer", answer="wrong"), call("final_answer", answer=written))
    result = world.run(JsonAgent(add, model=model, answer=type_), "report")
    assert result.answer == answer
    assert type(result.answer) is type(answer)
    assert "ValidationError" in result.messages[3]["content"], "the wrong one went back to the model"


def test_a_typed_agent_needs_no_tools():
    agent = JsonAgent(model=ScriptedModel(call("final_answer", answer={"left": 1, "right": 2})), answer=Pair)
    assert agent("1 and 2") == Pair(1, 2)


def test_a_stream_yields_the_events_in_order_and_the_result_last(world):
    model = ScriptedModel({"content": "Let me see.", **call("add", a=1, b=2)}, call("final_answer", text="3"))
    events = world.stream(JsonAgent(add, model=model), "1 + 2?")
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "RunStarted",
        "ModelAsked",
        *["TextDelta"] * 3,
        *["ToolCallDelta"] * 4,
        "ModelReplied",
        "ToolStarted",
        "ToolFinished",
        "ModelAsked",
        *["ToolCallDelta"] * 2,
        "AnswerForming",
        "ModelReplied",
        "ToolStarted",
        "ToolFinished",
        "RunFinished",
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see."
    assert isinstance(events[-1], RunFinished)
    assert events[-1].result.answer == "3"


def test_a_run_without_stream_yields_no_deltas_but_the_same_messages(world):
    script = [{"content": "Let me see.", **call("add", a=1, b=2)}, call("final_answer", text="3")]
    streamed = world.stream(JsonAgent(add, model=ScriptedModel(script)), "1 + 2?")[-1].result
    plain = world.run(JsonAgent(add, model=ScriptedModel(script)), "1 + 2?")
    assert streamed.messages == plain.messages


def test_listeners_are_shown_every_event(world):
    seen = []
    world.run(
        JsonAgent(
            add, model=ScriptedModel(call("add", a=1, b=2), call("final_answer", text="3")), listeners=[seen.append]
        ),
        "?",
    )
    assert isinstance(seen[0], RunStarted)
    assert [type(event) for event in seen[-2:]] == [RunFinished, RunEnded]
    assert {ToolStarted, ToolFinished, ModelReplied} < {type(event) for event in seen}


def test_two_runs_on_one_session_are_refused_and_on_two_sessions_never_mixed():
    inside = threading.Event()
    go_on = threading.Event()

    def wait() -> str:
        """Waits."""
        inside.set()
        go_on.wait(60)
        return "waited"

    model = ScriptedModel(call("wait"), call("final_answer", text="other"), call("final_answer", text="first"))
    agent = JsonAgent(wait, model=model)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(agent("first query")))
    thread.start()
    assert inside.wait()
    with pytest.raises(RunError, match=r"in use by another run.*session=Session\(\)"):
        agent("second query")
    own = Session()
    assert agent("other query", session=own) == "other"
    go_on.set()
    thread.join()
    assert answers == ["first"]
    assert "other query" not in json.dumps(agent.history)
    assert [message["content"] for message in own.messages if message["role"] == "user"] == ["other query"]


class TestWhenThingsGoWrong:
    def test_a_failed_request_is_retried_and_tools_are_not_run_again(self, world, monkeypatch):
        ran = []

        def count() -> int:
            """Counts."""
            ran.append(1)
            return len(ran)

        busy = ModelError("busy", kind="rate_limit", status=429, transient=True, retry_after=0)
        model = ScriptedModel(call("count"), busy, busy, call("final_answer", text="1"))
        assert world.run(JsonAgent(count, model=model), "count").answer == "1"
        assert ran == [1]
        model.assert_done()

    def test_a_fault_that_stays_is_raised_at_once_with_history_and_usage(self, world):
        model = ScriptedModel(call("add", a=1, b=2), ModelError("no such key", kind="authentication", status=401))
        agent = JsonAgent(add, model=model)
        with pytest.raises(ModelError, match="no such key") as caught:
            world.run(agent, "1 + 2?")
        assert caught.value.usage.requests == 1
        assert caught.value.history[-1]["content"] == "3"
        assert agent.session.usage.requests == 1

    def test_a_backends_own_exception_is_a_model_error_with_its_cause(self, world):
        with pytest.raises(ModelError, match="'scripted' failed: ValueError: odd") as caught:
            world.run(JsonAgent(add, model=ScriptedModel(ValueError("odd"))), "?")
        assert isinstance(caught.value.__cause__, ValueError)

    @pytest.mark.parametrize("is_wrapped", [False, True])
    def test_what_a_handler_of_a_signal_raises_ends_the_run_with_itself(self, world, alarm, is_wrapped):
        def interrupt(request):
            try:
                alarm()
            except TimeoutError as error:
                if is_wrapped:
                    raise ModelError("no reply in time", kind="timeout", transient=True) from error
                raise

        model = ScriptedModel(interrupt, answer("up"))
        with pytest.raises(TimeoutError, match="the time of the job is over"):
            world.run(JsonAgent(add, model=model), "?")
        assert len(model.requests) == 1

    def test_a_query_of_a_run_that_failed_is_sent_once(self, world):
        model = ScriptedModel(ModelError("down"), call("final_answer", text="up"))
        agent = JsonAgent(add, model=model)
        with pytest.raises(ModelError):
            world.run(agent, "hello")
        world.run(agent, "hello")
        assert [message["role"] for message in model.requests[1].messages] == ["system", "user"]

    def test_at_the_limit_the_answer_is_asked_for_once(self, world):
        script = [call("add", a=1, b=1) for _ in range(3)]
        model = ScriptedModel([*script, call("final_answer", text="so far: 2")])
        result = world.run(JsonAgent(add, model=model, max_steps=3), "?")
        assert (result.answer, result.stopped) == ("so far: 2", "max_steps")
        assert list(model.requests[-1].tools) == ["final_answer"]
        assert model.requests[-1].tool_choice == "final_answer"
        assert "limit" not in json.dumps(result.messages), "the note of the last request stays out of the history"

    def test_without_an_answer_at_the_limit_the_error_carries_the_history(self, world):
        script = [call("add", a=1, b=1) for _ in range(4)]
        with pytest.raises(LimitExceeded, match="after 3 steps") as caught:
            world.run(JsonAgent(add, model=ScriptedModel(script), max_steps=3), "?")
        assert caught.value.usage.requests == 4
        assert pending_calls(caught.value.history) == []

    def test_a_default_limit_ends_an_endless_run(self, world):
        model = ScriptedModel([call("add", a=number, b=1) for number in range(60)])
        with pytest.raises(LimitExceeded):
            world.run(JsonAgent(add, model=model), "?")
        assert len(model.requests) == 51

    def test_a_run_that_repeats_itself_ends_much_sooner(self, world):
        model = ScriptedModel([call("add", a=1, b=1) for _ in range(60)])
        with pytest.raises(RunError):
            world.run(JsonAgent(add, model=model), "?")
        assert len(model.requests) < 10

    def test_an_empty_reply_is_not_an_answer(self, world):
        with pytest.raises(NoAnswer):
            world.run(JsonAgent(add, model=ScriptedModel("", "", "", "", "")), "?")


class TestBadInput:
    def test_no_tools(self):
        for tools in ((), ([],)):
            with pytest.raises(DefinitionError, match=r"needs tools: JsonAgent\(\[my_function"):
                JsonAgent(*tools)

    def test_a_tool_without_description(self):
        def bare(a: int) -> int:
            return a

        with pytest.raises(DefinitionError, match="'bare' has no description"):
            JsonAgent(bare)

    def test_the_users_own_final_answer(self):
        def final_answer(text: str) -> str:
            """Mine."""
            return text

        with pytest.raises(DefinitionError, match="Rename"):
            JsonAgent(final_answer)

    @pytest.mark.parametrize("query", ["", "  \n", None])
    def test_an_empty_query(self, world, query):
        agent = JsonAgent(add, model=ScriptedModel())
        with pytest.raises(RunError, match="the query is empty"):
            world.run(agent, query)
        assert len(agent.history) == 1

    def test_an_unknown_model(self, world):
        with pytest.raises(ModelError, match=r"nonsense.*provider/name") as caught:
            world.run(JsonAgent(add, model="nonsense"), "?")
        assert caught.value.kind == "not_found"

    def test_a_missing_key(self, world, monkeypatch):
        monkeypatch.delenv("GROQ_API_KEY", raising=False)
        with pytest.raises(ModelError, match="GROQ_API_KEY") as caught:
            world.run(JsonAgent(add, model="groq/llama-3.1-8b-instant"), "?")
        assert caught.value.kind == "authentication"

    def test_a_senseless_limit(self):
        with pytest.raises(DefinitionError, match="max_steps"):
            JsonAgent(add, max_steps=0)

    @pytest.mark.parametrize(
        ("setting", "told"),
        [
            ({"retries": None}, "retries must be an integer >= 0, got None"),
            ({"max_steps": 0}, "max_steps must be an integer >= 1, got 0"),
            ({"max_concurrency": 0}, "max_concurrency must be an integer >= 1 or None, got 0"),
            ({"requests_per_minute": "5"}, "requests_per_minute must be an integer >= 1 or None, got '5'"),
            (
                {"limits": {"tokens": 1}},
                r"limits must be Limits\(tokens=\.\.\., seconds=\.\.\.\) or None, got {'tokens'",
            ),
            ({"approve": True}, 'approve must be a function of the call, "ask" or None, got True'),
            ({"tool_mode": "json"}, 'tool_mode must be "auto", "schema" or "text", got \'json\''),
            ({"handoffs": [1]}, r'handoffs must be agents by name.* handoffs=\{"clerk": clerk\}.*; got \[1\]'),
            ({"handoffs": {"clerk": "agent"}}, r"handoffs must be agents .*got \{'clerk': 'agent'\}"),
            ({"tools": add}, r"tools=add: .*RunContext.*write tools=\[add\]"),
        ],
    )
    def test_a_setting_that_cannot_be_meant_is_refused_at_once(self, setting, told):
        with pytest.raises(DefinitionError, match=told):
            JsonAgent(add, **setting)

    def test_a_tool_given_as_the_choice_of_tools_is_an_error(self, world):
        def weather(city: str) -> str:
            """Gives the weather."""
            return "sunny"

        with pytest.raises(
            DefinitionError, match=r"it returned 'sunny'\. If it is a tool itself, write tools=\[weather\]"
        ):
            world.run(JsonAgent(tools=weather, model=ScriptedModel()), "?")

    def test_a_single_fallback_model_may_stand_by_its_name(self, world):
        failing = ScriptedModel(ModelError("down", kind="authentication"))
        result = world.run(JsonAgent(add, model=failing, fallback_models="offline"), "What is add of 1 and 2?")
        assert result.model == failing.name
        assert result.steps > 0


class TestFromAnywhere:
    """One call, the same everywhere."""

    def test_many_at_once_on_one_agent(self):
        class Counting:
            name = "counting"

            async def aask(self, request):
                await asyncio.sleep(0.01)
                script = ScriptedModel(call("final_answer", text=request.messages[-1]["content"]))
                async for piece in script.aask(request):
                    yield piece

            ask = None

        agent = JsonAgent(add, model=Counting())

        async def main():
            runs = (agent.arun(f"query {number}", session=Session()) for number in range(20))
            return [result.answer for result in await asyncio.gather(*runs)]

        assert asyncio.run(main()) == [f"query {number}" for number in range(20)]


def test_the_settings_of_an_agent_show_no_key():
    key = "sk-proj-4f9a8b7c6d5e4f3a2b1c"
    settings = JsonAgent(add, model="openai/gpt-4o-mini", api_key=key, max_steps=7).settings
    assert (settings["max_steps"], settings["api_key"]) == (7, key)
    assert key not in f"{settings} {settings!r}"


class TestQueriesAndSessions:
    @pytest.mark.parametrize(
        ("query", "reason"),
        [
            (42, r"query must be a text, got int 42\. Write agent\('42'\)"),
            ([{"type": "text", "text": "hi"}], r"query must be a text, got list.*Image\.from_path.*agent\.map"),
            (b"hi", r"query must be a text, got bytes.*Decode a text, query\.decode\(\)"),
            ([{"role": "user", "content": "hi"}], r"Earlier messages are a session: .*session=Session\(messages\)"),
            ({"role": "user", "content": "hi"}, r"Earlier messages are a session: .*session=Session\(messages\)"),
            ("  ", "the query is empty"),
        ],
    )
    def test_a_query_that_is_not_text_is_refused(self, world, query, reason):
        with pytest.raises(RunError, match=reason):
            world.run(JsonAgent(add, model=ScriptedModel()), query)

    def test_a_text_that_is_not_unicode_reaches_the_model_and_the_journal(self, world, tmp_path):
        """A program may cut a text in the middle of an emoji."""
        agent = JsonAgent(add, model=ScriptedModel(answer("done")), journal=tmp_path / "runs.db")
        agent.say("Note \ud83d")
        assert world.run(agent, "Hello \ud83d").answer == "done"
        assert agent.model.requests[0].messages[1]["content"] == "Note \ufffd\n\nHello \ufffd"
        assert [run.query for run in runs(tmp_path / "runs.db")] == ["Hello \ufffd"]

    def test_a_message_with_parts_is_answered_from_the_session(self, world):
        parts = [{"type": "text", "text": "Add 2 and 3."}]
        agent = JsonAgent(add, model="offline")
        assert world.run(agent, None, session=Session([{"role": "user", "content": parts}])).answer == "5"

    def test_the_name_of_a_file_is_not_a_session(self, world):
        agent = JsonAgent(add, model=ScriptedModel())
        with pytest.raises(
            RunError, match=r"session must be a Session, got 'ada\.json'\. Session\.load\('ada\.json'\)"
        ):
            world.run(agent, "x", session="ada.json")
        with pytest.raises(
            RunError, match=r"session must be a Session, got \[\{.*\]\. Session\(messages\) makes one\."
        ):
            world.run(agent, "q", session=[{"role": "user", "content": "x"}])
        with pytest.raises(RunError, match=r"session must be a Session, got \{\}"):
            world.run(agent, "q", session={})
        with pytest.raises(DefinitionError, match="record must be the path of a file, got 3"):
            world.run(agent, "q", record=3)

    def test_queries_that_are_not_a_list_are_refused(self):
        with pytest.raises(RunError, match="queries must be a list of texts, got int 42"):
            JsonAgent(add, model=ScriptedModel()).map(42)

    def test_an_answer_that_is_not_a_type_is_refused(self):
        with pytest.raises(DefinitionError, match=r"answer.*mapping is not a type.*TypedDict"):
            JsonAgent(add, answer={"item": str})


class TestWithoutMemory:
    def test_each_call_is_a_conversation_of_its_own(self, world):
        agent = JsonAgent(add, model=ScriptedModel(answer("a"), answer("b")), memory=False)
        for query in ("One", "Two"):
            result = world.run(agent, query)
            assert [message["content"] for message in result.messages if message["role"] == "user"] == [query]
        assert len(agent.history) == 1

    def test_calls_at_a_time_do_not_meet(self):
        agent = JsonAgent(add, model="offline", memory=False)

        async def main():
            return await asyncio.gather(*(agent.arun(f"Add {number} and 1") for number in range(20)))

        assert [result.answer for result in asyncio.run(main())] == [str(number + 1) for number in range(20)]

    def test_a_stream_that_is_left_does_not_hold_the_next_call(self):
        agent = JsonAgent(add, model="offline", memory=False)

        async def main():
            left = agent.astream("Add 1 and 1")
            await anext(left)
            result = await agent.arun("Add 2 and 2")
            await left.aclose()
            return result.answer

        assert asyncio.run(main()) == "4"
        left = agent.stream("Add 1 and 1")
        next(left)
        assert agent("Add 3 and 3") == "6"
        left.close()

    def test_a_session_is_continued_where_it_is_given(self, world):
        agent = JsonAgent(add, model=ScriptedModel(answer("a"), answer("b")), memory=False)
        session = Session()
        world.run(agent, "One", session=session)
        result = world.run(agent, "Two", session=session)
        assert [message["content"] for message in result.messages if message["role"] == "user"] == ["One", "Two"]

    def test_what_needs_a_memory_is_refused(self):
        with pytest.raises(RunError, match=r"agent\.say: the agent was made with memory=False"):
            JsonAgent(add, model="offline", memory=False).say("x")
