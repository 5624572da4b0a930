"""OpenAI's Responses API over litellm's bridge: the reasoning of a model comes back with the results of its calls."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter
from waiting import wait_until, without_collector
from wire_providers import KEY

from agentkit import JsonAgent, ModelError, Session
from agentkit.engine.model import TextDelta, ThinkingDelta
from agentkit.engine.result import RunFinished
from agentkit.journal import runs
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer

NAME = "openai/responses/gpt-5-mini"


def price_of(item: str, year: int = 2026) -> float:
    """Returns the price in euros."""
    return 3.5


def thought(number: int, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "encrypted_content": f"SECRET{number}", "summary": f"Thought {number}.", **more}


def ask(*items: str, parts: Any = (), name: str = "price_of", key: str = "item") -> dict[str, Any]:
    return {"parts": [*parts], "tool_calls": [{"name": name, "arguments": {key: item}} for item in items]}


def final(text: str, *parts: Any) -> dict[str, Any]:
    return ask(text, parts=parts, name="final_answer", key="text")


def model(server: ModelServer, name: str = NAME, **options: Any) -> LiteLLMModel:
    return LiteLLMModel(name, api_base=server.api_base("openai"), api_key=KEY, **options)


def answer(world: str, agent: JsonAgent, query: str | None = "What is the price?", **how: Any) -> Any:
    async def collect() -> list[Any]:
        return [event async for event in agent.astream(query, **how)]

    if world == "run":
        return agent.run(query, **how)
    if world == "arun":
        return asyncio.run(agent.arun(query, **how))
    events = [*agent.stream(query, **how)] if world == "stream" else asyncio.run(collect())
    assert isinstance(events[-1], RunFinished)
    return events[-1].result


def items_of(request: Any) -> list[Any]:
    """Return the items of a request without the instruction, which newer versions of litellm send as the first one."""
    return [item for item in request.body["input"] if item.get("role") != "system"]


def kinds(request: Any) -> list[str]:
    return [item.get("encrypted_content") or item["type"] for item in items_of(request)]


@pytest.fixture(params=["run", "arun", "stream", "astream"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("observed", [False, True], ids=["unobserved", "observed"])
def test_reasoning_comes_back_between_calls_and_from_query_to_query(
    mode: str, observed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if observed:
        monkeypatch.setattr(load_litellm(), "success_callback", [lambda *_: None])
    first = ask("tea", "milk", parts=[thought(1), thought(2)])
    with ModelServer(first, final("7", thought(3)), final("again", thought(4))) as server:
        agent = JsonAgent(price_of, model=model(server), retries=0)
        result = answer(mode, agent)
        answer(mode, agent, "And now?")
        assert server.violations == []
        requests = server.requests
    calls = ["function_call", "function_call", "function_call_output", "function_call_output"]
    assert [kinds(request) for request in requests] == [
        ["message"],
        ["message", "SECRET1", "SECRET2", *calls],
        ["message", "SECRET1", "SECRET2", *calls, "SECRET3", "function_call", "function_call_output", "message"],
    ]
    assert {request.path for request in requests} == {"/v1/responses"}
    assert all(request.body["include"] == ["reasoning.encrypted_content"] for request in requests)
    assert [tool["strict"] for tool in requests[0].body["tools"]] == [False, False]
    assert result.answer == "7"
    assert result.cost > 0  # of the model without litellm's mark


def test_a_thought_is_streamed() -> None:
    with ModelServer(final("3", thought(1))) as server:
        events = [*JsonAgent(price_of, model=model(server)).stream("What?")]
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Thought 1."


def test_reasoning_is_in_sessions_and_journals(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    stopped = []

    def price_of(item: str) -> float:
        """Returns the price in euros."""
        if not stopped:
            stopped.append(item)
            raise KeyboardInterrupt
        return 3.5

    price_of.effect = "read"
    with ModelServer(ask("tea", parts=[thought(1)]), final("7", thought(2)), final("8")) as server:
        agent = JsonAgent(price_of, model=model(server), journal=path, retries=0)
        with pytest.raises(KeyboardInterrupt):
            answer(mode, agent)
        resumed = Session.resumed(runs(path)[0].id, path)
        answer(mode, JsonAgent(price_of, model=model(server), journal=path, retries=0), None, session=resumed)
        resumed.save(tmp_path / "session.json")
        session = Session.load(tmp_path / "session.json")
        answer(mode, JsonAgent(price_of, model=model(server), retries=0), "And now?", session=session)
        assert server.violations == []
        assert kinds(server.requests[1])[1] == "SECRET1"
        assert [kind for kind in kinds(server.requests[2]) if "SECRET" in kind] == ["SECRET1", "SECRET2"]


def test_agents_inside_and_after_a_hand_off_keep_theirs(mode: str) -> None:
    replies = [
        ask("price?", parts=[thought(1)], name="clerk", key="query"),
        ask("tea", parts=[thought(2)]),
        final("3.5", thought(3)),
        ask("Prices.", parts=[thought(4)], name="transfer_to_other", key="reason"),
        ask("tea", parts=[thought(5)]),
        final("7", thought(6)),
    ]
    with ModelServer(replies) as server:
        inner = JsonAgent(price_of, model=model(server), description="Knows prices.", retries=0)
        other = JsonAgent(price_of, model=model(server), description="Knows more prices.", retries=0)
        outer = JsonAgent(
            inner.as_tool("clerk"), model=model(server), handoffs={"other": other}, description="Talks.", retries=0
        )
        assert answer(mode, outer).answer == "7"
        assert server.violations == []
        last = kinds(server.requests[-1])
    assert [kind for kind in last if "SECRET" in kind] == ["SECRET1", "SECRET4", "SECRET5"]


def test_another_model_does_not_get_it(mode: str) -> None:
    with ModelServer(ask("tea", parts=[thought(1)]), 401, final("7")) as server:
        fallback = model(server, "openai/gpt-4o-mini")
        agent = JsonAgent(price_of, model=model(server), fallback_models=[fallback], retries=0)
        assert answer(mode, agent).answer == "7"
        assert server.violations == []
        assert server.requests[-1].path == "/v1/chat/completions"
        assert "SECRET1" not in json.dumps(server.requests[-1].body)


@pytest.mark.parametrize(
    ("name", "options", "included"),
    [
        ("openai/responses/gpt-4o-mini", {}, None),
        ("openai/responses/mine", {}, None),
        ("openai/responses/mine", {"reasoning_effort": "low"}, ["reasoning.encrypted_content"]),
        ("openai/gpt-5-pro", {}, ["reasoning.encrypted_content"]),
        (
            NAME,
            {"extra_body": {"include": ["message.output_text.logprobs"], "store": False}},
            ["message.output_text.logprobs", "reasoning.encrypted_content"],
        ),
    ],
    ids=["plain model", "unknown model", "effort", "bridged by its name", "more of the caller"],
)
def test_what_is_included(name: str, options: dict[str, Any], included: Any, mode: str) -> None:
    parts = [thought(1)] if included else []
    known = load_litellm().get_supported_openai_params("mine", "openai")
    if name.endswith("/mine") and "reasoning_effort" in options and "reasoning_effort" not in known:
        pytest.skip("this litellm drops reasoning_effort for a model that its table does not have")
    with ModelServer(ask("tea", parts=parts), final("7")) as server:
        agent = JsonAgent(price_of, model=model(server, name, **options), retries=0)
        answer(mode, agent)
        assert server.violations == []
        assert {request.path for request in server.requests} == {"/v1/responses"}
        assert server.requests[0].body.get("include") == included
        assert ("SECRET1" in kinds(server.requests[1])) == bool(included)
        assert server.requests[0].body.get("reasoning", {}).get("effort") == options.get("reasoning_effort")


def test_strict_tools_are_strict() -> None:
    def price_of(item: str) -> float:
        """Returns the price in euros."""
        return 3.5

    with ModelServer(final("7")) as server:
        JsonAgent(price_of, model=model(server, strict=True)).run("What?")
        assert server.violations == []
        assert [tool["strict"] for tool in server.requests[0].body["tools"]] == [True, True]


def test_the_sdk_s_types_take_requests_and_replies() -> None:
    types = pytest.importorskip("openai.types.responses")
    body = {"model": "gpt-5-mini", "input": "hi", "include": ["reasoning.encrypted_content"]}
    reply = {"content": "Let me see.", **ask("tea", parts=[thought(1)])}
    with ModelServer(reply, reply, final("7"), {"content": "cut", "finish_reason": "length"}) as server:
        url = server.api_base("openai") + "/responses"
        whole = httpx.post(url, json=body).json()
        lines = httpx.post(url, json={**body, "stream": True}).text.splitlines()
        server.play(reply, final("7"))
        JsonAgent(price_of, model=model(server), retries=0).run("What?")
        sent = server.requests[-1].body
    types.Response.model_validate(whole)
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    adapter: TypeAdapter[Any] = TypeAdapter(types.ResponseStreamEvent)
    read = [adapter.validate_python(event) for event in events]
    assert [type(event).__name__ for event in read][-1] == "ResponseCompletedEvent"
    items = [item for item in sent["input"] if item.get("role") != "assistant"]  # litellm leaves out their ids
    TypeAdapter(types.ResponseInputParam).validate_python(items)
    TypeAdapter(list[types.FunctionToolParam]).validate_python(sent["tools"])


def test_a_truncated_reply_is_recognised(mode: str) -> None:
    cut = {"content": "The price is", "finish_reason": "length"}
    with ModelServer(cut, final("7")) as server:
        assert answer(mode, JsonAgent(price_of, model=model(server), retries=0)).answer == "7"


@pytest.mark.parametrize("text", ["The price is", ""])
def test_a_reply_that_the_content_filter_stopped_is_refused(mode: str, text: str) -> None:
    stopped = {"content": text, "finish_reason": "content_filter"}
    with ModelServer(stopped, final("7")) as server, pytest.raises(ModelError) as caught:
        answer(mode, JsonAgent(price_of, model=model(server), retries=0))
    assert caught.value.kind == "refused"
    assert caught.value.partial == text


@pytest.mark.parametrize("world", ["stream", "astream"])
def test_an_abandoned_stream_hangs_up(world: str) -> None:
    async def leave(agent: JsonAgent) -> None:
        events = agent.astream("What?")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        await asyncio.to_thread(wait_until, lambda: server.hung_up == 1)

    with ModelServer({"content": "word " * 20_000, "pace": 0.001}) as server, without_collector():
        agent = JsonAgent(price_of, model=model(server))
        if world == "astream":
            asyncio.run(leave(agent))
        else:
            events = agent.stream("What?")
            next(event for event in events if isinstance(event, TextDelta))
            events.close()
            wait_until(lambda: server.hung_up == 1)


CALL = {"type": "function_call", "call_id": "call_1_1", "name": "price_of", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1_1", "output": "3.5"}
QUERY = {"role": "user", "content": "hi"}
KEPT = {"type": "reasoning", "id": "rs_1_1", "summary": [], "encrypted_content": "SECRET1"}


@pytest.mark.parametrize(
    ("items", "refusal"),
    [
        ([QUERY, KEPT, CALL, OUTPUT], ""),
        ([QUERY, CALL, OUTPUT], "without its required 'reasoning' item: 'rs_1_1'"),
        ([QUERY, CALL, OUTPUT, QUERY], ""),  # of an earlier query: the API ignores it
        ([QUERY, {**KEPT, "encrypted_content": "OTHER"}, CALL, OUTPUT], "could not be verified"),
        ([QUERY, {**KEPT, "id": "rs_9"}, CALL, OUTPUT], "without its required 'reasoning' item"),
        ([QUERY, {**KEPT, "encrypted_content": None}, CALL, OUTPUT], "not persisted"),
        ([QUERY, KEPT], "without its required following item"),
        ([QUERY, KEPT, CALL], "No tool output found for function call call_1_1"),
        ([QUERY, OUTPUT], "No tool call found"),
        ([QUERY, {**KEPT, "summary": ...}, CALL, OUTPUT], "Missing required parameter: 'input[1].summary'"),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "Invalid value: 'text'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_server_refuses_what_the_api_refuses(items: list[Any], refusal: str) -> None:
    body = {"model": "gpt-5-mini", "include": ["reasoning.encrypted_content"], "store": False}
    items = [{key: value for key, value in item.items() if value is not ...} for item in items]
    with ModelServer(ask("tea", parts=[thought(1)]), {"content": "ok"}) as server:
        url = server.api_base("openai") + "/responses"
        assert httpx.post(url, json={**body, "input": [QUERY]}).status_code == 200
        found = httpx.post(url, json={**body, "input": items})
    assert found.status_code == (400 if refusal else 200)
    assert refusal in found.text


SAID = {"type": "message", "content": "Let me see. "}


def sent_items(request: Any) -> list[str]:
    """Return the items of a request after its query: the kind of each, and the secret or the text."""
    items = items_of(request)[1:]
    return [
        item.get("encrypted_content")
        or (item["content"][0]["text"] if item["type"] == "message" else item["type"].removeprefix("function_"))
        for item in items
    ]


@pytest.mark.parametrize("observed", [False, True], ids=["unobserved", "observed"])
def test_items_come_back_in_their_order(mode: str, observed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if observed:
        monkeypatch.setattr(load_litellm(), "success_callback", [lambda *_: None])
    parts = [thought(1), SAID, thought(2), {"type": "message", "content": "Tea. "}, thought(3)]
    with ModelServer(ask("tea", "milk", parts=parts), final("7"), final("8")) as server:
        agent = JsonAgent(price_of, model=model(server), retries=0)
        assert answer(mode, agent).answer == "7"
        assert answer(mode, agent, "And now?").answer == "8"
        assert server.violations == []
        for request in server.requests[1:]:
            found = sent_items(request)
            assert found[:5] == ["SECRET1", "Let me see. ", "SECRET2", "Tea. ", "SECRET3"]
            assert found[5:9] == ["call", "call", "call_output", "call_output"]
    assert agent.session.messages[2]["content"] == "Let me see. Tea. "


def test_the_order_of_a_session_is_in_its_file(mode: str, tmp_path: Path) -> None:
    with ModelServer(ask("tea", parts=[thought(1), SAID, thought(2)]), final("7"), final("8")) as server:
        agent = JsonAgent(price_of, model=model(server), retries=0)
        answer(mode, agent)
        agent.session.save(tmp_path / "session.json")
        loaded = Session.load(tmp_path / "session.json")
        answer(mode, JsonAgent(price_of, model=model(server), retries=0), "And now?", session=loaded)
        assert sent_items(server.requests[2])[:4] == ["SECRET1", "Let me see. ", "SECRET2", "call"]
        assert server.violations == []


def test_text_and_calls_are_read_together(mode: str) -> None:
    with ModelServer({"content": "Let me see.", **ask("tea", "milk")}, final("7")) as server:
        agent = JsonAgent(price_of, model=model(server), retries=0)
        assert answer(mode, agent).answer == "7"
        assert server.violations == []
    reply = agent.session.messages[2]
    assert reply["content"] == "Let me see."
    assert [call["function"]["name"] for call in reply["tool_calls"]] == ["price_of", "price_of"]


def test_a_refusal_is_raised_with_its_words(mode: str) -> None:
    with ModelServer({"refusal": "I cannot help with that."}) as server:
        with pytest.raises(ModelError, match=r"I cannot help with that\.$") as caught:
            answer(mode, JsonAgent(price_of, model=model(server), retries=0))
        assert caught.value.kind == "refused"
        assert len(server.requests) == 1


def test_the_server_refuses_items_in_another_order() -> None:
    body = {"model": "gpt-5-mini", "include": ["reasoning.encrypted_content"]}
    with ModelServer(ask("tea", parts=[thought(1), SAID, thought(2)]), {"content": "ok"}) as server:
        url = server.api_base("openai") + "/responses"
        output = httpx.post(url, json={**body, "input": [QUERY]}).json()["output"]
        result = {**OUTPUT, "call_id": output[-1]["call_id"]}
        shuffled = [output[0], output[2], output[1], output[3]]
        refused = httpx.post(url, json={**body, "input": [QUERY, *shuffled, result]})
        taken = httpx.post(url, json={**body, "input": [QUERY, *output, result]})
    assert "without its required following item" in refused.text
    assert taken.status_code == 200


def test_a_text_that_was_changed_has_the_place_of_the_first(mode: str) -> None:
    parts = [thought(1), SAID, thought(2)]
    with ModelServer(ask("tea", parts=parts), final("7"), final("8")) as server:
        agent = JsonAgent(price_of, model=model(server), retries=0)
        answer(mode, agent)
        agent.session.messages[2]["content"] = "Another text."
        server.play({"content": "8"}, final("8"))
        answer(mode, agent, "And now?")
        assert sent_items(server.requests[2])[:4] == ["SECRET1", "Another text.", "SECRET2", "call"]
