"""Runs as spans and metrics, read from the SDK's in-memory exporters."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

import agentkit.telemetry
from agentkit import DefinitionError, JsonAgent, Limits, ModelError, Paused, RunError, Session, ask_question, tool
from agentkit.events import SubRun, ToolStarted
from agentkit.journal import show
from agentkit.secrets import hide
from agentkit.telemetry import Telemetry, names
from agentkit.telemetry.names import name_provider
from agentkit.testing import Recording, ScriptedModel, answer, call
from agentkit.testing.server import ModelServer


@pytest.fixture
def otel():
    exporter = InMemorySpanExporter()
    reader = InMemoryMetricReader()
    tracers = TracerProvider()
    meters = MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    def settings(**more):
        return Telemetry(tracer_provider=tracers, meter_provider=meters, **more)

    def points(metric):
        scopes = [scope for resource in reader.get_metrics_data().resource_metrics for scope in resource.scope_metrics]
        return [
            point for scope in scopes for one in scope.metrics if one.name == metric for point in one.data.data_points
        ]

    tracer = tracers.get_tracer("tool")
    return SimpleNamespace(settings=settings, spans=exporter.get_finished_spans, points=points, tracer=tracer)


def tree(spans):
    """The spans as nested lists of names, in the order of their starts."""

    def below(parent):
        inside = [span for span in spans if (span.parent.span_id if span.parent else None) == parent]
        return [[span.name, *below(span.context.span_id)] for span in sorted(inside, key=lambda span: span.start_time)]

    return below(None)


def named(spans, name):
    return [span for span in spans if span.name == name]


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


REQUIRED = {
    "invoke_agent": {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.agent.description": "A calculator.", "gen_ai.request.temperature": 0.5, "gen_ai.request.seed": 7,
        "gen_ai.request.max_tokens": 90, "gen_ai.request.stop_sequences": ("END",), "gen_ai.usage.input_tokens": 23,
        "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read.input_tokens": 8, "server.address": "127.0.0.1",
        "gen_ai.response.finish_reasons": ("tool_calls",), "gen_ai.agent.name": "sums", "gen_ai.agent.id": "agent-7",
    },
    "chat gpt-4o-mini": {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.5, "gen_ai.request.seed": 7, "gen_ai.request.max_tokens": 90,
        "gen_ai.request.stop_sequences": ("END",), "gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 4,
        "gen_ai.response.finish_reasons": ("tool_calls",), "server.address": "127.0.0.1",
    },
    "execute_tool add": {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Adds two integers.", "gen_ai.agent.name": "sums",
    },
}  # fmt: skip
"""For each span: attributes that the GenAI conventions require or recommend, and their values in the run below."""
PRESENT = {
    "invoke_agent": ["gen_ai.conversation.id", "server.port"],
    "chat gpt-4o-mini": ["gen_ai.conversation.id", "gen_ai.response.model", "gen_ai.response.id", "server.port"],
    "execute_tool add": ["gen_ai.tool.call.id"],
}
CONTENT = ["input.messages", "output.messages", "system_instructions", "tool.definitions", "tool.call.arguments"]


NEWER = {"gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration", "moonshot_ai"}
"""Names of the conventions' own repository that the package of names does not have yet."""


def test_the_names_are_those_of_the_newest_conventions():
    known = {value for place in (gen_ai_attributes, gen_ai_metrics) for value in vars(place).values() if is_name(value)}
    own = {*filter(is_name, vars(names).values()), *names.REQUEST_OPTIONS.values()}
    assert own - known <= NEWER
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL} <= operations
    providers = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    assert {*names.PROVIDER_NAMES.values(), *names.MODEL_FAMILIES.values()} - providers <= NEWER


def is_name(value):
    return isinstance(value, str) and value.startswith("gen_ai.")


def test_tokens_that_were_written_to_a_cache_are_reported(otel):
    usage = {"input_tokens": 11, "cached_tokens": 2, "cache_creation_tokens": 7}
    JsonAgent(add, model=ScriptedModel({**answer("x"), "usage": usage}), telemetry=otel.settings()).run("?")
    for span in otel.spans():
        assert span.attributes["gen_ai.usage.cache_creation.input_tokens"] == 7


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("wire", "model", "identity"),
    [
        ("openai", "openai/gpt-4o-mini", "chatcmpl-1"),
        ("anthropic", "anthropic/claude-sonnet-4-5", "msg_1"),
        ("gemini", "gemini/gemini-2.5-flash", "response_1"),
    ],
)
def test_the_id_of_a_response_is_the_providers(otel, world, wire, model, identity, is_streamed):
    with ModelServer(answer("3")) as server:
        options = {"api_base": server.api_base(wire), "api_key": "test-key-of-the-test"}
        agent = JsonAgent(add, model=model, telemetry=otel.settings(), **options)
        (world.stream if is_streamed else world.run)(agent, "?")
    (request,) = (span for span in otel.spans() if span.name.startswith("chat"))
    assert request.attributes["gen_ai.response.id"] == identity


def test_the_spans_have_what_the_conventions_require(otel, world):
    replies = [
        {**call("add", a=1, b=2), "usage": {"input_tokens": 11, "output_tokens": 4}},
        {**answer("3"), "usage": {"input_tokens": 12, "output_tokens": 5, "cached_tokens": 8}},
    ]
    with ModelServer(replies) as server:
        agent = JsonAgent(
            add,
            model="openai/gpt-4o-mini",
            description="A calculator.",
            api_base=server.api_base("openai"),
            api_key="test-key-of-the-test",
            temperature=0.5,
            seed=7,
            max_tokens=90,
            stop="END",
            telemetry=otel.settings(agent_name="sums", agent_id="agent-7"),
        )
        world.run(agent, "1 + 2?")
    spans = otel.spans()
    chat = "chat gpt-4o-mini"
    assert tree(spans) == [["invoke_agent sums", [chat], ["execute_tool add"], [chat]]]
    for span in spans:
        key = "invoke_agent" if span.name.startswith("invoke") else span.name
        expected = {} if span is named(spans, chat)[1] else REQUIRED[key]
        assert {name: span.attributes.get(name) for name in expected} == expected
        assert not [name for name in PRESENT[key] if not span.attributes.get(name)]
        assert not [name for name in span.attributes for content in CONTENT if name.endswith(content)]
        assert span.kind is (trace.SpanKind.CLIENT if span.name == chat else trace.SpanKind.INTERNAL)
        assert span.status.is_ok or span.status.status_code is trace.StatusCode.UNSET
    assert len({span.attributes["gen_ai.conversation.id"] for span in spans if "tool" not in span.name}) == 1
    sent = [request.headers["traceparent"].split("-")[1:3] for request in server.requests]
    chats = named(spans, chat)
    assert sent == [[f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}"] for one in chats]


def test_the_metrics_have_the_boundaries_and_attributes_of_the_conventions(otel):
    replies = ScriptedModel(call("add", a=1, b="x"), answer("3"))
    agent = JsonAgent(add, model=replies, telemetry=otel.settings(agent_name="sums"))
    agent("?")
    agent_point = otel.points("gen_ai.invoke_agent.duration")[0]
    tool_point = otel.points("gen_ai.execute_tool.duration")[0]
    chat_point = otel.points("gen_ai.client.operation.duration")[0]
    assert dict(agent_point.attributes) == {"gen_ai.agent.name": "sums", "gen_ai.request.model": "scripted"}
    assert dict(tool_point.attributes) == {
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "sums",
        "error.type": "ValidationError",
    }
    assert (chat_point.count, tool_point.count) == (2, 1)
    assert chat_point.attributes["gen_ai.provider.name"] == "agentkit"
    assert chat_point.explicit_bounds == tool_point.explicit_bounds == tuple(0.01 * 2**power for power in range(14))
    assert agent_point.explicit_bounds[:3] == (0.1, 0.2, 0.4)
    span = named(otel.spans(), "invoke_agent sums")[0]
    assert agent_point.sum == (span.end_time - span.start_time) / 1e9


def test_tokens_are_counted_by_kind(otel):
    with ModelServer({**answer("3"), "usage": {"input_tokens": 12, "output_tokens": 5}}) as server:
        options = {"api_base": server.api_base("openai"), "api_key": "test-key-of-the-test"}
        JsonAgent(add, model="openai/gpt-4o-mini", telemetry=otel.settings(), **options)("?")
    found = {point.attributes["gen_ai.token.type"]: point for point in otel.points("gen_ai.client.token.usage")}
    assert {kind: point.sum for kind, point in found.items()} == {"input": 12, "output": 5}
    assert found["input"].explicit_bounds == tuple(4**power for power in range(14))


def test_content_is_recorded_on_request_and_masked(otel, monkeypatch):
    hide("correct-horse")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    model = ScriptedModel(call("add", a=1, b=2), answer("It is correct-horse."))
    agent = JsonAgent(add, model=model, telemetry=otel.settings())
    agent("What does correct-horse mean?")
    texts = {(span.name, key): value for span in otel.spans() for key, value in span.attributes.items()}
    assert "correct-horse" not in str(texts)
    question = {"role": "user", "parts": [{"type": "text", "content": "What does *** mean?"}]}
    assert json.loads(texts["invoke_agent", "gen_ai.input.messages"]) == [question]
    reply = json.loads(texts["invoke_agent", "gen_ai.output.messages"])[0]
    assert reply == {"role": "assistant", "parts": [{"type": "text", "content": "It is ***."}], "finish_reason": "stop"}
    first, second = (span.attributes for span in named(otel.spans(), "chat scripted"))
    assert json.loads(first["gen_ai.input.messages"]) == [question]
    asked, result = json.loads(second["gen_ai.input.messages"])[1:]
    identity = asked["parts"][0]["id"]
    assert asked["parts"] == [{"type": "tool_call", "id": identity, "name": "add", "arguments": {"a": 1, "b": 2}}]
    assert result == {"role": "tool", "parts": [{"type": "tool_call_response", "id": identity, "response": "3"}]}
    assert {tool["name"] for tool in json.loads(first["gen_ai.tool.definitions"])} == {"add", "final_answer"}
    assert json.loads(first["gen_ai.system_instructions"])[0]["type"] == "text"
    assert texts["execute_tool add", "gen_ai.tool.call.arguments"] == '{"a": 1, "b": 2}'
    assert texts["execute_tool add", "gen_ai.tool.call.result"] == "3"


@pytest.mark.parametrize("is_async", [False, True])
def test_the_spans_of_a_tool_and_of_agents_inside_it_are_children_of_its_call(otel, world, is_async):
    def read() -> str:
        """Reads."""
        with otel.tracer.start_as_current_span("db"):
            return "row"

    async def aread() -> str:
        """Reads."""
        await asyncio.sleep(0)
        with otel.tracer.start_as_current_span("db"):
            return "row"

    reader = aread if is_async else read
    inner = JsonAgent(reader, model=ScriptedModel(call(reader.__name__), answer("row")), description="Reads rows.")
    model = ScriptedModel(call("clerk", query="the row"), answer("row"))
    world.run(JsonAgent(inner.as_tool("clerk"), model=model, telemetry=otel.settings()), "?")
    chat = "chat scripted"
    read_name = f"execute_tool {reader.__name__}"
    inside = ["invoke_agent clerk", [chat], [read_name, ["db"]], [chat]]
    assert tree(otel.spans()) == [["invoke_agent", [chat], ["execute_tool clerk", inside], [chat]]]


def test_concurrent_runs_of_one_agent_have_trees_of_their_own(otel):
    def reply(request):
        last = request.messages[-1]
        return call("add", a=1, b=2) if last["role"] == "user" else answer("3")

    agent = JsonAgent(add, model=ScriptedModel(*[reply] * 12), telemetry=otel.settings())
    with otel.tracer.start_as_current_span("caller"):
        agent.map(["a", "b", "c", "d", "e", "f"], progress=False)
    run = ["invoke_agent", ["chat scripted"], ["execute_tool add"], ["chat scripted"]]
    assert tree(otel.spans()) == [["caller", *[run] * 6]]


def test_an_http_client_that_is_instrumented_is_a_child_of_the_request(otel, world):
    class Backend:
        name = "own/model"

        def _reply(self):
            with otel.tracer.start_as_current_span("POST"):
                pass
            return ScriptedModel(answer("x"))

        def ask(self, request):
            yield from self._reply().ask(request)

        async def aask(self, request):
            async for piece in self._reply().aask(request):
                yield piece

    world.run(JsonAgent(add, model=Backend(), telemetry=otel.settings()), "?")
    assert tree(otel.spans()) == [["invoke_agent", ["chat model", ["POST"]]]]


def test_the_time_to_the_first_piece_of_a_streamed_reply_is_reported(otel, world):
    agent = JsonAgent(add, model=ScriptedModel(answer("a long answer of some words")), telemetry=otel.settings())
    world.stream(agent, "?")
    chat = named(otel.spans(), "chat scripted")[0]
    assert 0 < chat.attributes["gen_ai.response.time_to_first_chunk"] <= (chat.end_time - chat.start_time) / 1e9
    assert chat.attributes["gen_ai.request.stream"] is True


def test_retries_and_fallbacks_are_events_and_each_attempt_is_a_span(otel, world):
    failing = ScriptedModel(
        *[ModelError("busy", kind="rate_limit", transient=True, retry_after=0.01)] * 2, name="first"
    )
    agent = JsonAgent(
        add,
        model=failing,
        retries=1,
        fallback_models=[ScriptedModel(answer("x"), name="second")],
        telemetry=otel.settings(),
    )
    world.run(agent, "?")
    spans = otel.spans()
    assert tree(spans) == [["invoke_agent", ["chat first"], ["chat first"], ["chat second"]]]
    for span in named(spans, "chat first"):
        assert (span.attributes["error.type"], span.status.status_code) == ("rate_limit", trace.StatusCode.ERROR)
    events = {event.name: dict(event.attributes) for event in named(spans, "invoke_agent")[0].events}
    assert events["agentkit.retry"]["error.type"] == "rate_limit"
    assert events["agentkit.fallback"] == {"error.type": "rate_limit", "gen_ai.request.model": "second"}
    assert otel.points("gen_ai.client.operation.duration")[0].attributes["error.type"] == "rate_limit"


@pytest.mark.parametrize(
    ("content", "description"), [(False, "ValueError"), (True, "no such row")], ids=["without content", "with content"]
)
def test_a_tool_that_fails_and_is_retried(otel, content, description):
    @tool(retries=1, effect="read")
    def fetch() -> str:
        """Fetches."""
        raise ValueError("no such row")

    telemetry = otel.settings(content=content)
    JsonAgent(fetch, model=ScriptedModel(call("fetch"), answer("x")), telemetry=telemetry)("?")
    span = named(otel.spans(), "execute_tool fetch")[0]
    assert (span.attributes["error.type"], span.status.description) == ("ValueError", description)
    assert [event.name for event in span.events] == ["agentkit.tool_retry"]


PRIVATE = "the pin is swordfish"  # no text that a random id of hexadecimal digits can hold


def record(otel):
    """Return all that was exported, as text."""
    metrics = ["gen_ai.client.operation.duration", "gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"]
    return "".join([*(span.to_json() for span in otel.spans()), *(str(otel.points(metric)) for metric in metrics)])


@pytest.mark.parametrize(
    "turns",
    [
        (call("look", text=PRIVATE), answer(PRIVATE)),
        (call("look", txt=PRIVATE), answer(PRIVATE)),
        (call(PRIVATE), answer(PRIVATE)),
        (ModelError(PRIVATE, kind="server"),),
        (ValueError(PRIVATE),),
    ],
    ids=["a tool's error", "wrong arguments", "an unknown tool", "a model's error", "another error"],
)
def test_without_content_no_text_of_the_conversation_is_exported(otel, world, turns):
    @tool(retries=1, effect="read")
    def look(text: str) -> str:
        """Looks."""
        raise ValueError(f"nothing for {text}")

    agent = JsonAgent(look, model=ScriptedModel(*turns), telemetry=otel.settings(content=False))
    with suppress(RunError, ValueError):
        world.run(agent, PRIVATE)
    assert otel.spans()
    assert "swordfish" not in record(otel)


def test_a_run_that_pauses_is_ended_without_an_error_and_its_continuation_is_of_the_same_conversation(otel, world):
    @tool(effect="danger")
    def pay() -> str:
        """Pays."""
        return "paid"

    agent = JsonAgent(pay, model=ScriptedModel(call("pay"), answer("done")), telemetry=otel.settings())
    session = Session()
    with pytest.raises(Paused) as paused:
        world.run(agent, "?", session=session)
    world.run(agent, None, session=session, approvals={one.id: True for one in paused.value.calls})
    first, second = named(otel.spans(), "invoke_agent")
    assert first.attributes["agentkit.run.outcome"] == "paused"
    assert first.status.status_code is trace.StatusCode.UNSET
    assert [event.name for event in first.events] == ["agentkit.approval_asked", "agentkit.paused"]
    assert first.events[1].attributes["gen_ai.tool.name"] == ("pay",)
    assert second.attributes["agentkit.run.outcome"] == "answer"
    assert first.attributes["gen_ai.conversation.id"] == second.attributes["gen_ai.conversation.id"]


def test_a_call_that_waits_for_a_person_is_not_an_error(otel, world):
    @tool(effect="danger")
    def pay() -> str:
        """Pays."""
        return f"paid with {ask_question('Which card?')}"

    inner = JsonAgent(pay, model=ScriptedModel(call("pay"), answer("done")), description="Pays.")
    outer = JsonAgent(inner.as_tool("clerk"), model=ScriptedModel(call("clerk", query="?")), telemetry=otel.settings())
    with pytest.raises(Paused) as paused:
        world.run(outer, "?")
    with pytest.raises(Paused):
        world.run(outer, None, session=paused.value.session, approvals={paused.value.calls[0]: True})
    tools = [span for span in otel.spans() if span.name.startswith("execute_tool")]
    assert sorted(span.name for span in tools) == ["execute_tool clerk", "execute_tool clerk", "execute_tool pay"]
    assert {span.status.status_code for span in otel.spans()} == {trace.StatusCode.UNSET}
    assert not any("error.type" in span.attributes for span in otel.spans())


def test_a_failed_run_is_ended_with_its_error(otel, world):
    agent = JsonAgent(add, model=ScriptedModel(ModelError("no key", kind="authentication")), telemetry=otel.settings())
    with pytest.raises(RunError):
        world.run(agent, "?")
    assert tree(otel.spans()) == [["invoke_agent", ["chat scripted"]]]
    assert [span.attributes["error.type"] for span in otel.spans()] == ["authentication"] * 2


@pytest.mark.parametrize("how", ["closed", "stopped"])
def test_a_run_that_is_closed_or_stopped_in_a_tool_ends_all_its_spans(otel, how):
    session = Session()
    began = threading.Event()

    async def wait() -> str:
        """Waits."""
        began.set()
        await asyncio.sleep(30)
        return ""

    inner = JsonAgent(wait, model=ScriptedModel(call("wait")), description="Waits.")
    model = ScriptedModel(call("waiter", query="now"))
    agent = JsonAgent(inner.as_tool("waiter"), model=model, telemetry=otel.settings())
    if how == "closed":
        events = agent.stream("?", session=session)
        for event in events:  # no further: the next event comes when `wait` has ended
            if isinstance(event, SubRun) and isinstance(event.event, ToolStarted):
                break
        assert began.wait()
        events.close()
    else:
        threading.Thread(target=lambda: began.wait() and session.stop()).start()
        with pytest.raises(RunError):
            agent.run("?", session=session)
    chat = ["chat scripted"]
    inside = ["invoke_agent waiter", chat, ["execute_tool wait"]]
    assert tree(otel.spans()) == [["invoke_agent", chat, ["execute_tool waiter", inside]]]
    failed = {span.name: span.attributes.get("error.type") for span in otel.spans()}
    assert failed.pop("invoke_agent") == ("cancelled" if how == "closed" else None)
    assert failed.pop("chat scripted") is None
    assert set(failed.values()) == {"cancelled"}


def test_a_run_inside_an_abandoned_tool_ends_with_its_call(otel):
    ended = threading.Event()

    def hang() -> str:
        """Hangs."""
        ended.wait(60)
        return ""

    inner = JsonAgent(hang, model=ScriptedModel(call("hang"), answer("late")), limits=Limits(tool_seconds=None))

    @tool(timeout=0.2)
    def delegate() -> str:
        """Delegates."""
        return inner("?")

    JsonAgent(delegate, model=ScriptedModel(call("delegate"), answer("x")), telemetry=otel.settings())("?")
    before = otel.spans()
    assert {span.name for span in before} >= {"execute_tool hang", "execute_tool delegate"}
    assert named(before, "execute_tool delegate")[0].attributes["error.type"] == "TimedOut"
    assert len([span for span in before if span.name.startswith("invoke_agent")]) == 2
    ended.set()
    time.sleep(0.2)
    assert otel.spans() == before, "what an ended run still does opens no span"


def test_an_observed_run_is_journaled_and_recorded_with_its_calls(world, otel, tmp_path):
    journal = tmp_path / "journal.sqlite"
    file = tmp_path / "run.jsonl"
    agent = JsonAgent(
        add, model=ScriptedModel(call("add", a=1, b=2), answer("3")), journal=journal, telemetry=otel.settings()
    )
    run = show(world.run(agent, "?", record=file).run_id, store=journal)
    assert [span["name"] for span in run.trace["spans"] if span["kind"] == "tool"] == ["add"]
    assert Recording.load(file).results["call_1_1"]["text"] == "3"
    assert named(otel.spans(), "execute_tool add")


def test_a_replayed_run_is_not_observed_and_a_stored_answer_has_no_request(otel, tmp_path):
    journal = tmp_path / "journal.sqlite"
    agent = JsonAgent(add, model=ScriptedModel(call("add", a=1, b=2), answer("3")), journal=journal)
    run_id = agent.run("?", record=tmp_path / "run.jsonl").run_id
    again = JsonAgent(add, model=ScriptedModel(), journal=journal, telemetry=otel.settings())
    again.resume(run_id)
    again.replay(tmp_path / "run.jsonl")
    assert not named(otel.spans(), "chat scripted")
    assert len(named(otel.spans(), "invoke_agent")) == 1


def test_a_handed_over_conversation_names_its_agent(otel):
    clerk = JsonAgent(add, model=ScriptedModel(answer("3"), name="clerk-model"), description="A clerk.")
    model = ScriptedModel(call("transfer_to_clerk", reason="sums"))
    JsonAgent(add, model=model, handoffs={"clerk": clerk}, telemetry=otel.settings())("?")
    chat = named(otel.spans(), "chat clerk-model")[0]
    assert chat.attributes["gen_ai.agent.name"] == "clerk"
    assert "agentkit.handed_over" in [event.name for event in named(otel.spans(), "invoke_agent")[0].events]


def test_one_call_observes_all_agents_except_those_that_opt_out(otel):
    agentkit.telemetry.instrument(otel.settings())
    try:
        JsonAgent(add, model=ScriptedModel(answer("x")))("?")
        JsonAgent(add, model=ScriptedModel(answer("x")), telemetry=False)("?")
    finally:
        agentkit.telemetry.uninstrument()
    JsonAgent(add, model=ScriptedModel(answer("x")))("?")
    assert len(named(otel.spans(), "invoke_agent")) == 1


def test_the_environment_turns_it_on(monkeypatch):
    monkeypatch.setenv("AGENTKIT_TELEMETRY", "1")
    assert isinstance(JsonAgent(add).settings["telemetry"], Telemetry)
    assert JsonAgent(add, telemetry=False).settings["telemetry"] is False
    monkeypatch.setenv("AGENTKIT_TELEMETRY", "0")
    assert JsonAgent(add).settings["telemetry"] is None
    monkeypatch.setenv("AGENTKIT_TELEMETRY", "perhaps")
    with pytest.raises(DefinitionError, match="AGENTKIT_TELEMETRY must be 1 or 0, got 'perhaps'"):
        JsonAgent(add)


def test_agents_that_are_made_for_each_request_share_their_instruments():
    """OpenTelemetry keeps each meter that it hands out before the program sets a provider."""

    class Counting(NoOpMeterProvider):
        made = 0

        def get_meter(self, *args, **kwargs):
            self.made += 1
            return super().get_meter(*args, **kwargs)

    meters = Counting()
    for _ in range(3):
        JsonAgent(add, model=ScriptedModel(answer("x")), telemetry=Telemetry(meter_provider=meters))("?")
    assert meters.made == 1


def test_a_wrong_value_is_refused():
    with pytest.raises(DefinitionError, match=r"telemetry must be .* got <class .*Telemetry'>"):
        JsonAgent(add, telemetry=Telemetry)
    with pytest.raises(DefinitionError, match=r"telemetry must be True, False or an object .* got 'otel'"):
        JsonAgent(add, telemetry="otel")


def test_nothing_is_imported_when_it_is_off_and_a_missing_package_is_named():
    code = (
        "import sys\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel, answer\n"
        "JsonAgent(print, model=ScriptedModel(answer('x')))('?')\n"
        "assert not [name for name in sys.modules if 'telemetry' in name]\n"
        "sys.modules['opentelemetry'] = None\n"
        "try:\n    JsonAgent(print, telemetry=True)\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wanted = 'pip install "opentelemetry-api>=1.30"'
    assert (
        done.stdout.strip()
        == f"DefinitionError telemetry: the package opentelemetry-api is not installed. Install it: {wanted}"
    )


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("openai/gpt-4o", "openai"), ("azure/mine", "azure.ai.openai"), ("bedrock/anthropic.claude", "aws.bedrock"),
        ("gemini/gemini-2.5-pro", "gcp.gemini"), ("vertex_ai/x", "gcp.vertex_ai"), ("mistral/x", "mistral_ai"),
        ("xai/grok", "x_ai"), ("groq/llama", "groq"), ("claude-sonnet-4", "anthropic"), ("offline", "agentkit"),
    ],
)  # fmt: skip
def test_providers_have_the_names_of_the_conventions(model, provider):
    assert name_provider(model) == provider


@pytest.mark.parametrize("depth", [600, 100_000])
def test_arguments_that_nest_deeply_are_recorded_as_text_and_the_run_continues(otel, world, depth):
    arguments = f'{{"a": {"[" * depth}{"]" * depth}}}'
    wrong = {"content": None, "tool_calls": [{"name": "add", "arguments": arguments}]}
    agent = JsonAgent(add, model=ScriptedModel(wrong, answer("done")), telemetry=otel.settings(content=True))
    assert world.run(agent, "?").answer == "done"
    first, _ = named(otel.spans(), "chat scripted")
    (message,) = json.loads(first.attributes["gen_ai.output.messages"])
    assert message["parts"][-1]["arguments"] == arguments
