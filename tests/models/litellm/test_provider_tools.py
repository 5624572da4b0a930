"""Tools that the provider runs: sent beside the user's, their steps and citations read, and sent back where needed."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter
from wire_providers import KEY

from agentkit import DefinitionError, JsonAgent, Limits, Paused, RunError, ToolRegistry, provider_tool, tool
from agentkit.events import ModelReplied, ProviderToolCalled
from agentkit.journal import runs
from agentkit.models.litellm.replies import clean_reply
from agentkit.testing import ScriptedModel, answer
from agentkit.testing.server import ModelServer


def look() -> str:
    """Looks around."""
    return "a door"


DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}
FOUND = {
    "type": "web_search_result",
    "url": "https://e.org",
    "title": "Tea",
    "encrypted_content": "abc",
    "page_age": None,
}


@dataclass(frozen=True)
class Wire:
    """One API with a search: its model, the parts of a reply with a step, and what is sent of the tool."""

    model: str
    base: str
    parts: list[dict[str, Any]]
    form: dict[str, Any]
    name: str = "web_search"


ANTHROPIC = Wire(
    "anthropic/claude-sonnet-4-5",
    "anthropic",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
    ],
    {"type": "web_search_20250305", "name": "web_search"},
)
RESPONSES = Wire(
    "openai/responses/gpt-5",
    "openai",
    [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "tea", "sources": [{"type": "url", "url": "https://e.org"}]},
        },
        {"type": "reasoning", "id": "rs_2", "encrypted_content": "y"},
    ],
    {"type": "web_search"},
)
GEMINI = Wire(
    "gemini/gemini-3-pro-preview",
    "gemini",
    [
        {
            "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "g1", "args": {"query": "tea"}},
            "thoughtSignature": "cw==",
        },
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "g1", "response": {"found": 1}}},
    ],
    {"googleSearch": {}},
    "google_search_web",
)
WIRES = [ANTHROPIC, RESPONSES, GEMINI]
each_wire = pytest.mark.parametrize("wire", WIRES, ids=["anthropic", "responses", "gemini"])
each_world = pytest.mark.parametrize("world", ["sync", "async"])
both_ways = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def play(wire: Wire, world: str, is_streamed: bool, **options: Any) -> tuple[Any, list[Any], list[dict[str, Any]]]:
    """Return the result of a run with one step of the provider, its events, and the bodies of its requests."""
    parts = options.pop("parts", wire.parts)
    extras = {key: options.pop(key) for key in ("grounding",) if key in options}
    first = {"content": "Let me see.", "tool_calls": [{"name": "look"}], "parts": parts, **extras}
    events: list[Any] = []
    options = {"tools": [provider_tool("web_search")], "listeners": [events.append], **options}
    with ModelServer(first, DONE) as server:
        agent = JsonAgent(look, model=wire.model, api_base=server.api_base(wire.base), api_key=KEY, **options)
        if is_streamed:

            async def gathered() -> list[Any]:
                return [event async for event in agent.astream("?")]

            result = (list(agent.stream("?")) if world == "sync" else asyncio.run(gathered()))[-1].result
        else:
            result = agent.run("?") if world == "sync" else asyncio.run(agent.arun("?"))
        return result, events, [sent.body for sent in server.requests]


@each_wire
def test_an_agent_may_have_no_other_tools(wire: Wire) -> None:
    with ModelServer({**DONE, "parts": wire.parts}) as server:
        base = server.api_base(wire.base)
        agent = JsonAgent(tools=[provider_tool("web_search")], model=wire.model, api_base=base, api_key=KEY)
        assert agent.run("?").answer == "done"
        assert wire.form in server.requests[0].body["tools"]
        assert server.violations == []


@each_wire
@each_world
@both_ways
def test_a_search_of_the_provider_is_a_step_and_no_call(wire: Wire, world: str, is_streamed: bool) -> None:
    result, events, bodies = play(wire, world, is_streamed)
    assert result.answer == "done"
    assert [call.call.name for call in result.calls] == ["look", "final_answer"]
    assert all(wire.form in body["tools"] for body in bodies)
    message = next(message for message in result.messages if message["role"] == "assistant")
    (step,) = message["provider_calls"]
    assert (step["name"], json.loads(step["arguments"])["query"]) == (wire.name, "tea")
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["look"]
    assert json.loads(json.dumps(result.messages)) == result.messages
    (event,) = [event for event in events if isinstance(event, ProviderToolCalled)]
    assert event.name == wire.name
    assert "run by the provider" in event.notice
    if wire is not GEMINI:
        assert [source["url"] for source in step["sources"]] == [*event.sources] == ["https://e.org"]
    replies = [event for event in events if isinstance(event, ModelReplied)]
    assert events.index(event) > events.index(replies[0])


@each_world
@both_ways
def test_two_searches_of_anthropic_are_two_steps(world: str, is_streamed: bool) -> None:
    second = [
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {"query": "milk"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_2", "content": [{**FOUND, "url": "https://f.org"}]},
    ]
    result, _, bodies = play(ANTHROPIC, world, is_streamed, parts=[*ANTHROPIC.parts, *second])
    message = next(message for message in result.messages if message["role"] == "assistant")
    steps = message["provider_calls"]
    assert [(step["id"], step["sources"][0]["url"]) for step in steps] == [
        ("srvtoolu_1", "https://e.org"),
        ("srvtoolu_2", "https://f.org"),
    ]
    assert message["provider_specific_fields"]["web_search_results"] == [ANTHROPIC.parts[1], second[1]]
    sent = [block for block in bodies[-1]["messages"][1]["content"] if block["type"] not in ("text", "tool_use")]
    ids = [block.get("id") or block["tool_use_id"] for block in sent]
    assert ids == ["srvtoolu_1", "srvtoolu_1", "srvtoolu_2", "srvtoolu_2"]


def test_steps_of_anthropic_are_read_where_newer_versions_of_litellm_have_them() -> None:
    def search(number: int) -> dict[str, Any]:
        function = {"name": "web_search", "arguments": '{"query": "tea"}'}
        return {"id": f"srvtoolu_{number}", "type": "function", "function": function}

    results = [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]}]
    fields = {"server_tool_calls": [search(1), search(2)], "web_search_results": results}
    message = clean_reply({"role": "assistant", "content": "Tea.", "provider_specific_fields": fields})
    assert [step["id"] for step in message["provider_calls"]] == ["srvtoolu_1", "srvtoolu_2"]
    assert message["provider_specific_fields"] == {"web_search_results": results}


@each_wire
@both_ways
def test_requests_are_valid_by_the_types_of_the_sdk(wire: Wire, is_streamed: bool) -> None:
    _, _, bodies = play(wire, "sync", is_streamed)
    for body in bodies:
        if wire is ANTHROPIC:
            types = pytest.importorskip("anthropic.types")
            TypeAdapter(list[types.ToolUnionParam]).validate_python(body["tools"])
            TypeAdapter(list[types.MessageParam]).validate_python(body["messages"])
        elif wire is RESPONSES:
            types = pytest.importorskip("openai.types.responses")
            TypeAdapter(list[types.ToolParam]).validate_python(body["tools"])
            items = [item for item in body["input"] if item.get("role") != "assistant"]  # litellm leaves out their ids
            TypeAdapter(types.ResponseInputParam).validate_python(items)
        else:
            types = pytest.importorskip("google.genai.types")
            TypeAdapter(list[types.Tool]).validate_python(body["tools"])
            TypeAdapter(list[types.Content]).validate_python(body["contents"])
            types.ToolConfig.model_validate(body["toolConfig"])


@both_ways
def test_anthropic_and_gemini_get_their_steps_back(is_streamed: bool) -> None:
    _, _, bodies = play(ANTHROPIC, "sync", is_streamed)
    blocks = bodies[-1]["messages"][1]["content"]
    assert [block for block in blocks if block["type"] not in ("text", "tool_use")] == ANTHROPIC.parts
    _, _, bodies = play(GEMINI, "sync", is_streamed)
    parts = bodies[-1]["contents"][1]["parts"]
    assert [part for part in parts if part.keys() & {"toolCall", "toolResponse"}] == GEMINI.parts


@both_ways
def test_reasoning_that_led_to_a_step_does_not_come_back_without_it(is_streamed: bool) -> None:
    _, _, bodies = play(RESPONSES, "sync", is_streamed)
    assert [item["id"] for item in bodies[-1]["input"] if item["type"] == "reasoning"] == ["rs_2"]


def test_another_provider_gets_the_text_alone() -> None:
    result, _, _ = play(ANTHROPIC, "sync", False)
    with ModelServer(DONE) as server:
        base = server.api_base("openai")
        agent = JsonAgent(look, model="openai/gpt-4o-mini", api_base=base, api_key=KEY)
        agent.session.messages = [*result.messages]
        agent.run("And now?")
        body = server.requests[0].body
    assert "srvtoolu" not in json.dumps(body)
    assert "Let me see." in json.dumps(body)


CITED = {
    "type": "web_search_result_location",
    "url": "https://e.org",
    "title": "Tea",
    "encrypted_index": "x",
    "cited_text": "Tea costs 3.5.",
}


@both_ways
def test_citations_have_one_form(is_streamed: bool) -> None:
    if is_streamed:
        events: list[dict[str, Any]] = [
            {
                "type": "message_start",
                "message": {
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "model": "claude-sonnet-4-5",
                    "content": [],
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                },
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "3.5"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": CITED}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        body: Any = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        reply = {"body": body, "headers": {"Content-Type": "text/event-stream"}}
    else:
        content = [{"type": "text", "text": "3.5", "citations": [CITED]}]
        head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
        usage = {"input_tokens": 1, "output_tokens": 2}
        reply = {"body": {**head, "content": content, "stop_reason": "end_turn", "usage": usage}}
    with ModelServer(reply, DONE) as server:
        agent = JsonAgent(look, model=ANTHROPIC.model, api_base=server.api_base("anthropic"), api_key=KEY)
        result = list(agent.stream("?"))[-1].result if is_streamed else agent.run("?")
    message = next(message for message in result.messages if message["role"] == "assistant")
    assert message["citations"] == [{"url": "https://e.org", "title": "Tea", "text": "Tea costs 3.5."}]
    page = result.to_html()
    assert "https://e.org" in page


GROUNDING = {
    "webSearchQueries": ["price of tea", "shops"],
    "searchEntryPoint": {"renderedContent": "<div>tea</div>"},
    "groundingChunks": [
        {"web": {"uri": "https://e.org", "title": "Tea"}},
        {"web": {"uri": "https://f.org", "title": "Shops"}},
    ],
    "groundingSupports": [
        {"segment": {"endIndex": 14, "text": "Tea costs 3.5."}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 15, "endIndex": 30, "text": "Shops are open."}, "groundingChunkIndices": [1]},
    ],
}
"""What Gemini sends; it leaves out a start that is 0."""
GROUNDED_CITATIONS = [
    {"url": "https://e.org", "title": "Tea", "text": "Tea costs 3.5."},
    {"url": "https://f.org", "title": "Shops", "text": "Tea costs 3.5."},
    {"url": "https://f.org", "title": "Shops", "text": "Shops are open."},
]


@pytest.mark.parametrize("has_parts", [False, True], ids=["metadata alone", "with the call"])
@each_world
@both_ways
def test_grounding_of_gemini_is_a_step_with_sources_and_citations(
    world: str, is_streamed: bool, has_parts: bool, tmp_path: Any
) -> None:
    journal = str(tmp_path / "runs.db")
    parts = GEMINI.parts if has_parts else []
    result, events, _ = play(GEMINI, world, is_streamed, parts=parts, grounding=GROUNDING, journal=journal)
    message = next(message for message in result.messages if message["role"] == "assistant")
    (step,) = message["provider_calls"]
    assert step["name"] == "google_search_web"
    assert step["sources"] == [{"url": "https://e.org", "title": "Tea"}, {"url": "https://f.org", "title": "Shops"}]
    if not has_parts:
        assert json.loads(step["arguments"]) == {"queries": ["price of tea", "shops"]}
    assert message["citations"] == GROUNDED_CITATIONS
    assert message["label"]["integrity"] == "untrusted"
    (event,) = [event for event in events if isinstance(event, ProviderToolCalled)]
    assert event.sources == ("https://e.org", "https://f.org")
    page = result.to_html()
    assert "run by the provider" in page
    assert "https://f.org" in page
    forked = JsonAgent(look, model=ScriptedModel(answer("again"))).fork(result.run_id, 1, journal=journal)
    stored = next(message for message in forked.messages if message["role"] == "assistant")
    assert (stored["provider_calls"], stored["citations"]) == (message["provider_calls"], GROUNDED_CITATIONS)


@each_world
def test_grounding_in_a_chunk_of_its_own_is_kept_and_paid(world: str) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    text = {"content": {"role": "model", "parts": [{"text": "Tea costs 3.5."}]}, "index": 0}
    end = {"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0, "finishReason": "STOP"}
    candidates = [text, {"index": 0, "groundingMetadata": GROUNDING}, end]
    frames = [{"candidates": [each], "usageMetadata": usage} for each in candidates]
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}, DONE) as server:
        prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
        agent = JsonAgent(look, model=GEMINI.model, api_base=server.api_base("gemini"), api_key=KEY, **prices)

        async def gathered() -> list[Any]:
            return [event async for event in agent.astream("?")]

        result = (list(agent.stream("?")) if world == "sync" else asyncio.run(gathered()))[-1].result
    message = next(message for message in result.messages if message["role"] == "assistant")
    assert message["citations"] == GROUNDED_CITATIONS
    assert result.cost > 0.01


def test_places_of_a_map_are_sources_of_a_step_of_their_own() -> None:
    place = {"maps": {"uri": "https://maps.example/1", "title": "Tea House"}}
    grounding = {"webSearchQueries": ["tea nearby"], "groundingChunks": [place], "groundingSupports": []}
    result, _, _ = play(GEMINI, "sync", False, parts=[], grounding=grounding)
    message = next(message for message in result.messages if message["role"] == "assistant")
    sources = [{"url": "https://maps.example/1", "title": "Tea House"}]
    assert [(step["name"], step["sources"]) for step in message["provider_calls"]] == [("google_maps", sources)]
    assert message["citations"] == sources


def test_a_page_that_gemini_read_is_a_step() -> None:
    read = [{"retrievedUrl": "https://e.org/tea", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]
    candidate = {"content": {"role": "model", "parts": [{"text": "3.5"}]}, "index": 0, "finishReason": "STOP"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate["urlContextMetadata"] = {"urlMetadata": read}
    with ModelServer({"body": {"candidates": [candidate], "usageMetadata": usage}}, DONE) as server:
        agent = JsonAgent(look, model=GEMINI.model, api_base=server.api_base("gemini"), api_key=KEY)
        result = agent.run("?")
    message = next(message for message in result.messages if message["role"] == "assistant")
    assert [(step["name"], step["sources"]) for step in message["provider_calls"]] == [
        ("url_context", [{"url": "https://e.org/tea"}])
    ]


def test_the_journal_and_the_report_have_the_steps(tmp_path: Any) -> None:
    journal = str(tmp_path / "runs.db")
    result, _, _ = play(ANTHROPIC, "sync", False, journal=journal)
    assert "run by the provider" in result.to_html()
    assert len(runs(journal)) == 1
    forked = JsonAgent(look, model=ScriptedModel(answer("again"))).fork(result.run_id, 1, journal=journal)
    message = next(message for message in forked.messages if message["role"] == "assistant")
    assert message["provider_calls"][0]["id"] == "srvtoolu_1"


@each_wire
def test_the_dict_of_an_api_is_sent_as_it_is(wire: Wire) -> None:
    options = (
        {"searchTypes": {}}
        if wire is GEMINI
        else {"max_uses": 3}
        if wire is ANTHROPIC
        else {"search_context_size": "low"}
    )
    form = (
        {key: {**value, **options} for key, value in wire.form.items()} if wire is GEMINI else {**wire.form, **options}
    )
    for given in (form, provider_tool("web_search", **options)):
        _, _, bodies = play(wire, "sync", False, tools=[given])
        assert form in bodies[0]["tools"]


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("openai/gpt-4o-mini", provider_tool("web_search")),
        ("groq/llama-3.3-70b-versatile", provider_tool("web_search")),
        ("openai/responses/gpt-5", provider_tool("web_fetch")),
        ("openai/responses/gpt-5", {"type": "web_search_20250305", "name": "web_search"}),
        ("anthropic/claude-sonnet-4-5", {"googleSearch": {}}),
        ("gemini/gemini-3-pro-preview", {"type": "web_search"}),
        ("gemini/gemini-2.5-flash", provider_tool("web_search")),
    ],
)
@each_world
def test_a_tool_that_the_api_does_not_have_is_refused(model: str, given: Any, world: str) -> None:
    with ModelServer(DONE) as server:
        base = server.api_base(model.partition("/")[0])
        agent = JsonAgent(look, tools=[given], model=model, api_base=base, api_key=KEY)
        with pytest.raises(DefinitionError, match=r"no tool|refuses"):
            agent.run("?") if world == "sync" else asyncio.run(agent.arun("?"))
        assert not server.requests


class Bare:
    """A backend without a provider."""

    name = "bare"

    def ask(self, request: Any) -> Any:
        raise AssertionError

    aask = ask


@pytest.mark.parametrize("options", [{"model": "offline"}, {"model": Bare()}], ids=["offline", "object"])
@each_world
def test_a_model_without_a_provider_refuses_them(options: Any, world: str) -> None:
    agent = JsonAgent(look, tools=[provider_tool("web_search")], **options)
    with pytest.raises(DefinitionError, match="no provider that could run 'web_search'"):
        agent.run("?") if world == "sync" else asyncio.run(agent.arun("?"))


@pytest.mark.parametrize("mode", ["schema", "text"])
def test_calls_as_text_refuse_them(mode: Any) -> None:
    with ModelServer(DONE) as server:
        base = server.api_base("anthropic")
        agent = JsonAgent(look, tools=[{**ANTHROPIC.form}], model=ANTHROPIC.model, api_base=base, tool_mode=mode)
        with pytest.raises(DefinitionError, match="web_search: a provider runs tools for models with tool calling"):
            agent.run("?")


def test_what_is_no_such_tool_is_refused_where_it_is_given() -> None:
    with pytest.raises(DefinitionError, match=r"'web_serch'\. Did you mean 'web_search'"):
        provider_tool("web_serch")
    with pytest.raises(DefinitionError, match="The schema of a function cannot be called"):
        JsonAgent(look, tools=[{"type": "function", "function": {"name": "x", "parameters": {}}}])
    with pytest.raises(DefinitionError, match="expected the dict of a tool that a provider runs"):
        JsonAgent(look, tools=[{"name": "x", "about": 3}])
    with pytest.raises(DefinitionError, match="two tools are called 'web_search'"):
        ToolRegistry(provider_tool("web_search"), tool(look, name="web_search"))


@pytest.mark.parametrize(
    "key", ["tools", "tool_choice", "messages", "stream", "system", "instructions", "system_instruction"]
)
def test_a_body_that_would_replace_what_the_agent_sends_is_refused(key: str) -> None:
    with pytest.raises(DefinitionError, match=f"extra_body: '{key}' would replace what the agent sends"):
        JsonAgent(look, model="openai/gpt-4o-mini", extra_body={key: []})
    agent = JsonAgent(look, model="openai/gpt-4o-mini", api_key=KEY)
    with pytest.raises(DefinitionError, match=f"extra_body: '{key}'"):
        agent.run("?", extra_body={key: []})


def test_a_limit_in_dollars_cannot_hold_for_what_the_provider_reads() -> None:
    with pytest.raises(RunError, match="what the provider's own tools read"):
        play(ANTHROPIC, "sync", False, limits=Limits(dollars=5))
    result, _, _ = play(ANTHROPIC, "sync", False, limits=Limits(dollars=5, unknown_price="allow"))
    assert result.cost is not None


def test_a_value_of_no_trusted_text_waits_after_a_search_of_the_provider() -> None:
    @tool(effect="write")
    def send(to: str) -> str:
        """Sends a message.

        Args:
            to: The address.
        """
        return "sent"

    first = {"tool_calls": [{"name": "send", "arguments": {"to": "x@evil.example"}}], "parts": ANTHROPIC.parts}
    with ModelServer(first, DONE) as server:
        agent = JsonAgent(
            send,
            tools=[provider_tool("web_search")],
            model=ANTHROPIC.model,
            api_base=server.api_base("anthropic"),
            api_key=KEY,
        )
        with pytest.raises(Paused) as stopped:
            agent.run("Write to whoever sells tea.")
    assert "web_search" in str(stopped.value.pending[0].reason)
