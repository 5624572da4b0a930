"""What goes out on each provider's wire."""

import copy
import json
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import respx
from provider_rules import prepare_messages
from wire_providers import KEY, MODELS, Play, Provider

from agentkit.core.errors import DefinitionError, ModelError
from agentkit.core.messages import ToolCall, assistant, calls_of, system, tool_message, user
from agentkit.engine.model import Request
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.models.litellm.requests import MessageForm, SentConversation, SentConversations
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

CALLS = {"content": "let me see", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now"}]}
ADD = {
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "type": "object",
}
TEXT = "let me see"
RESULTS = ["3", "noon"]


def second_turn(provider: Provider, play: Play, **asked: Any) -> tuple[dict[str, Any], list[str]]:
    """The body of the request that answers two parallel calls, and the ids of these calls."""
    history = [system("be brief"), user("what is 1 + 2?")]
    with ModelServer(CALLS, "3") as server:
        _, reply = play(provider.at(server), history)
        calls = calls_of(reply.message)
        history += [reply.message, *map(tool_message, calls, RESULTS)]
        before = copy.deepcopy(history)
        _, reply = play(provider.at(server), history, **asked)
        assert history == before
        assert reply.message["content"] == "3"
        return server.requests[1].body, [call.id for call in calls]


@pytest.mark.parametrize("name", ["openai", "groq"])
def test_openai_and_groq_are_sent_the_documented_second_turn(name: str, play: Play) -> None:
    body, ids = second_turn(Provider(name), play, tool_choice="required")
    call = {"type": "function"}
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "what is 1 + 2?"},
        {
            "role": "assistant",
            "content": TEXT,
            "tool_calls": [
                {"id": ids[0], **call, "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
                {"id": ids[1], **call, "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": ids[0], "content": "3"},
        {"role": "tool", "tool_call_id": ids[1], "content": "noon"},
    ]
    assert body["tools"][0] == {
        **call,
        "function": {"name": "add", "description": "Adds two integers.", "parameters": ADD},
    }
    assert body.keys() == {"model", "messages", "tools", "tool_choice"}
    assert (body["model"], body["tool_choice"]) == (MODELS[name].partition("/")[2], "required")


def test_anthropic_is_sent_the_documented_second_turn(play: Play) -> None:
    body, ids = second_turn(Provider("anthropic"), play, tool_choice="required")
    mark = {"cache_control": {"type": "ephemeral"}}
    assert body["system"] == [{"type": "text", "text": "be brief", **mark}]
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": TEXT},
                {"type": "tool_use", "id": ids[0], "name": "add", "input": {"a": 1, "b": 2}},
                {"type": "tool_use", "id": ids[1], "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": ids[0], "content": "3"},
                {"type": "tool_result", "tool_use_id": ids[1], "content": "noon", **mark},
            ],
        },
    ]
    assert body["tools"][0]["input_schema"] == ADD
    assert body["tool_choice"] == {"type": "any"}
    assert body.keys() == {"model", "messages", "system", "tools", "tool_choice", "max_tokens"}


def test_gemini_is_sent_the_documented_second_turn(play: Play) -> None:
    body, _ = second_turn(Provider("gemini"), play, tool_choice="required")
    assert body["system_instruction"] == {"parts": [{"text": "be brief"}]}
    assert [turn["role"] for turn in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][1]["parts"] == [
        {"text": TEXT},
        {"function_call": {"name": "add", "args": {"a": 1, "b": 2}}},
        {"function_call": {"name": "now", "args": {}}},
    ]
    answers = [part["function_response"] for part in body["contents"][2]["parts"]]
    assert [(answer["name"], answer["response"]) for answer in answers] == [
        ("add", {"content": "3"}),
        ("now", {"content": "noon"}),
    ]
    declaration = body["tools"][0]["function_declarations"][0]
    assert declaration["parameters"] == ADD
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert body.keys() == {"contents", "system_instruction", "tools", "toolConfig"}


def test_ollama_is_sent_the_documented_second_turn(play: Play) -> None:
    body, _ = second_turn(Provider("ollama"), play)
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert [call["function"] for call in body["messages"][2]["tool_calls"]] == [
        {"name": "add", "arguments": {"a": 1, "b": 2}},
        {"name": "now", "arguments": {}},
    ]
    assert [message["content"] for message in body["messages"][3:]] == RESULTS
    assert body["tools"][0]["function"]["parameters"] == ADD
    assert body["stream"] is False


@pytest.mark.parametrize(
    ("choice", "openai", "anthropic", "gemini"),
    [
        ("auto", None, None, None),
        ("none", "none", {"type": "none"}, {"mode": "NONE"}),
        ("required", "required", {"type": "any"}, {"mode": "ANY"}),
        (
            "add",
            {"type": "function", "function": {"name": "add"}},
            {"type": "tool", "name": "add"},
            {"mode": "ANY", "allowed_function_names": ["add"]},
        ),
    ],
)
def test_a_tool_choice_is_sent_in_each_provider_s_format(choice: str, openai: Any, anthropic: Any, gemini: Any) -> None:
    said = {"openai": openai, "groq": openai, "anthropic": anthropic, "gemini": gemini}
    for name, words in said.items():
        with ModelServer("hello") as server:
            list(Provider(name).at(server).ask(Request([user("hi")], ToolRegistry(adds), tool_choice=choice)))
            body = server.requests[0].body
        found = (
            (body.get("toolConfig") or {}).get("functionCallingConfig") if name == "gemini" else body.get("tool_choice")
        )
        assert found == words, name


def adds(a: int, b: int) -> int:
    """Adds."""
    return a + b


adds.__name__ = "add"


def test_a_request_without_tools_has_no_fields_for_tools(provider: Provider, play: Play) -> None:
    with ModelServer("hello") as server:
        play(provider.at(server), [user("hi")], tools=ToolRegistry(), tool_choice="required")
        assert not {"tools", "tool_choice", "toolConfig"} & server.requests[0].body.keys()


def test_tool_dicts_are_left_alone(provider: Provider, play: Play, stream: bool) -> None:
    tools = ToolRegistry(adds)
    before = copy.deepcopy([tools.schemas("openai"), tools.schemas("gemini")])
    with ModelServer("hello", "hello") as server:
        for _ in range(2):
            play(provider.at(server), [user("hi")], tools=tools, stream=stream)
        first, second = [request.body for request in server.requests]
    assert [tools.schemas("openai"), tools.schemas("gemini")] == before
    assert first == second


def test_messages_are_left_alone(provider: Provider, play: Play, stream: bool) -> None:
    calls = [ToolCall("c1", "adds", '{"a": 1}'), ToolCall("c2", "adds", '{"a": 1}')]
    history = [user("hi"), assistant("let me see", calls), *(tool_message(call, "3") for call in calls)]
    before = copy.deepcopy(history)
    with ModelServer("hello", "hello") as server:
        for _ in range(2):
            play(provider.at(server), history, tools=ToolRegistry(adds), stream=stream)
    assert history == before


def test_a_call_with_other_keys_goes_out_with_those_that_providers_know() -> None:
    call = {"id": "c1", "index": 0, "function": {"name": "add", "arguments": "{}"}}
    sent = prepare_messages([user("hi"), {**assistant(), "tool_calls": [call]}], "openai")
    assert sent[1]["tool_calls"] == [{"id": "c1", "type": "function", "function": call["function"]}]


def test_no_private_name_reaches_the_wire(provider: Provider, play: Play, stream: bool) -> None:
    reply = {**assistant("hi there"), "provider": MODELS[provider.name].partition("/")[0]}
    history = [{**user("hi"), "seen": True}, reply, user("and?")]
    with ModelServer("hello") as server:
        play(provider.at(server), history, stream=stream)
        sent = server.requests[0]
    text = sent.path + json.dumps(sent.body) + json.dumps(sent.headers)
    for name in ("_skip_mcp_handler", "drop_params", "max_retries", "provider", "seen", "timeout"):
        assert f'"{name}"' not in text


def test_options_are_sent_and_unsupported_ones_dropped(play: Play) -> None:
    with ModelServer("hello", "hello") as server:
        play(Provider("openai").at(server, temperature=0.5, max_tokens=7), [user("hi")])
        play(Provider("anthropic").at(server, seed=1, max_tokens=7), [user("hi")])
        openai, anthropic = [request.body for request in server.requests]
    assert (openai["temperature"], openai["max_tokens"]) == (0.5, 7)
    assert anthropic["max_tokens"] == 7
    assert "seed" not in anthropic


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("anthropic", {"service_tier": "standard_only", "metadata": {"user_id": "u1"}, "container": "c1"}),
        ("openai", {"service_tier": "flex", "metadata": {"user_id": "u1"}}),
        ("gemini", {"cachedContent": "c1"}),
        ("ollama", {"keep_alive": 3}),
    ],
)
def test_the_body_of_the_caller_is_part_of_the_request(
    name: str, body: dict[str, Any], play: Play, stream: bool
) -> None:
    given = json.dumps(body)
    with ModelServer("ok", "ok") as server:
        model = Provider(name).at(server, extra_body=body)
        for _ in range(2):
            play(model, [user("q")], stream=stream)
    for request in server.requests:
        assert "extra_body" not in request.body
        assert {key: request.body.get(key) for key in body} == body
    assert json.dumps(body) == given


def test_a_request_to_openai_names_organization_and_project(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-environment")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    with ModelServer("hello", "hello", "hello") as server:
        play(Provider("openai").at(server, extra_headers={"X-Mine": "1"}), [user("hi")])
        play(Provider("openai").at(server, organization="org-option"), [user("hi")])
        play(Provider("groq").at(server), [user("hi")])
        first, second, other = [request.headers for request in server.requests]
    assert (first["openai-organization"], first["openai-project"], first["x-mine"]) == (
        "org-environment",
        "proj-1",
        "1",
    )
    assert second["openai-organization"] == "org-option"
    assert "openai-organization" not in other


def test_headers_are_sent_and_nothing_of_them_is_in_the_body(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer("hello") as server:
        options = {"extra_headers": {"X-Mine": "1"}, "headers": {"X-Other": "2"}}
        play(provider.at(server, **options), [user("hi")], stream=stream, headers={"X-Request": "3"})
    (sent,) = server.requests
    assert [sent.headers[name] for name in ("x-mine", "x-other", "x-request")] == ["1", "2", "3"]
    assert "X-Mine" not in json.dumps(sent.body)


def test_headers_are_sent_to_the_responses_api(play: Play, stream: bool) -> None:
    with ModelServer("hello") as server:
        base = server.api_base("openai")
        model = LiteLLMModel("openai/responses/gpt-5-mini", api_base=base, api_key=KEY, extra_headers={"X-Mine": "1"})
        play(model, [user("hi")], stream=stream, headers={"X-Request": "3"})
    (sent,) = server.requests
    assert [sent.headers[name] for name in ("x-mine", "x-request")] == ["1", "3"]


def test_ollama_is_always_asked_through_its_chat_interface(play: Play) -> None:
    with ModelServer("hello") as server:
        model = LiteLLMModel("ollama/llama3.1", api_base=server.api_base("ollama"))
        play(model, [user("hi")])
        assert server.requests[0].path == "/api/chat"
    assert model.name == "ollama/llama3.1"


def test_a_model_of_ai21_is_not_asked_of_openai(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ModelError, match=r"api\.ai21\.com:443 was not found"):
        play(LiteLLMModel("ai21/jamba-mini", api_key=KEY), [user("hi")])


@pytest.mark.parametrize(
    ("model", "url", "header"),
    [
        ("openai/gpt-4o-mini", "https://api.openai.com/v1/chat/completions", "authorization"),
        ("anthropic/claude-sonnet-4-5", "https://api.anthropic.com/v1/messages", "x-api-key"),
        (
            "gemini/gemini-2.5-flash",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
            "x-goog-api-key",
        ),
        ("groq/llama-3.1-8b-instant", "https://api.groq.com/openai/v1/chat/completions", "authorization"),
        ("ollama_chat/llama3.1", "http://localhost:11434/api/chat", None),
    ],
)
def test_providers_are_asked_at_their_own_addresses_with_the_key_of_the_environment(
    internet: respx.MockRouter, play: Play, model: str, url: str, header: str | None
) -> None:
    from agentkit.testing.wires import find_wire

    wire = find_wire(url.partition("://")[2])
    assert wire is not None
    route = internet.post(url).respond(json=wire.build_reply({"content": "hello"}, "m"))
    _, reply = play(LiteLLMModel(model), [user("hi")])
    assert reply.message["content"] == "hello"
    assert header is None or route.calls.last.request.headers[header].endswith("sk-test-0123456789")


@pytest.mark.parametrize("other", ["openai", "groq", "gemini", "ollama_chat", "deepseek"])
def test_extras_of_another_provider_are_not_sent_and_those_of_the_own_are(other: str) -> None:
    thought = {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "S"}], "reasoning_content": "hm"}
    reply = {**assistant(None, [ToolCall("c1", "add", '{"a": 1}')]), **thought, "provider": "anthropic"}
    reply["tool_calls"][0] |= {"index": 0, "provider_specific_fields": {"caller": "x"}}
    plain = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    bare = {"role": "assistant", "tool_calls": [plain]}
    assert prepare_messages([reply], other) == [bare]
    marked = {**plain, "provider_specific_fields": {"caller": "x"}}
    assert prepare_messages([reply], "anthropic") == [{**bare, "tool_calls": [marked], **thought}]


def test_what_providers_refuse_is_changed_and_the_rest_is_sent_as_it_is() -> None:
    question = user("hi")
    answer = tool_message(ToolCall("c1", "add"), "3")
    history = [question, assistant(""), assistant("", [ToolCall("c1", "add", "{broken")]), answer]
    sent = prepare_messages(history, "gemini")
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[0] is question
    assert sent[2] is answer
    assert "content" not in sent[1]
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "name" not in prepare_messages(history, "openai")[2]


def test_equal_calls_of_one_turn_reach_gemini_with_as_many_calls_as_results(play: Play) -> None:
    calls = [ToolCall(identity, "add", '{"a": 1}') for identity in "xy"]
    history = [user("q"), assistant(None, calls), *map(tool_message, calls, RESULTS)]
    with ModelServer("3") as server:
        play(Provider("gemini").at(server), history)
    parts = [part for content in server.requests[0].body["contents"] for part in content["parts"]]
    assert sum("function_call" in part for part in parts) == sum("function_response" in part for part in parts) == 2


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000])
def test_arguments_that_are_not_a_valid_json_object_are_sent_as_one(text: str) -> None:
    assert isinstance(json.loads(sent_arguments(text)), dict)
    assert sent_arguments(text).encode()


@pytest.mark.parametrize(
    "text", ["{}", ' {"a": [1, null]}', '{"a": "\\ud83d\\ude00"}', '{"a": "é"}', '{"a": "%s"}' % ("b" * 5000)]
)
def test_arguments_that_are_a_json_object_are_sent_as_they_are(text: str) -> None:
    assert sent_arguments(text) == text


def sent_arguments(text: str) -> str:
    (message,) = prepare_messages([assistant(None, [ToolCall("c1", "add", text)])], "openai")
    return calls_of(message)[0].arguments


IDS = ["call_1", "toolu_01-A", "functions.add:0", "x" * 41, "ä b", "__", "AbCdE1234"]


@pytest.mark.parametrize(
    ("provider", "pattern", "kept"),
    [
        ("openai", r"\S{1,40}", [0, 1, 2, 5, 6]),
        ("anthropic", "[a-zA-Z0-9_-]+", [0, 1, 3, 5, 6]),
        ("bedrock", "[a-zA-Z0-9_-]{1,64}", [0, 1, 3, 5, 6]),
        ("mistral", "[a-zA-Z0-9]{9}", [6]),
        ("moonshot", r"\S{1,40}", [0, 1, 2, 5, 6]),
    ],
)
def test_ids_have_the_form_that_the_provider_wants_and_fit_together(
    provider: str, pattern: str, kept: Sequence[int]
) -> None:
    calls = [ToolCall(identity, "add", "{}") for identity in IDS]
    for _ in range(2):
        message, *answers = prepare_messages(
            [assistant(None, calls), *(tool_message(call, "3") for call in calls)], provider
        )
        sent = [call.id for call in calls_of(message)]
        assert [answer["tool_call_id"] for answer in answers] == sent
        assert len(set(sent)) == len(IDS)
        assert all(re.fullmatch(pattern, identity) for identity in sent)
        assert [place for place, identity in enumerate(sent) if identity == IDS[place]] == list(kept)


@pytest.mark.parametrize("name", ["openai", "groq"])
def test_strict_tools_are_sent_to_those_who_take_them_where_it_is_asked_for(name: str) -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    with ModelServer("3") as server:
        model = LiteLLMModel(MODELS[name], api_base=server.api_base(name), api_key="test-key", strict=True)
        list(model.ask(Request([user("?")], ToolRegistry(add))))
        function = server.requests[0].body["tools"][0]["function"]
    assert function.get("strict", False) is (name == "openai")
    assert function["parameters"]["required"] == (["a", "b"] if name == "openai" else ["a"])


def marks(body: Any) -> list[str]:
    """Where in a request to Anthropic the marks of the cache stand."""
    blocks = {"system": body["system"]} | {f"message {n}": m["content"] for n, m in enumerate(body["messages"])}
    return [
        f"{where}, block {n}"
        for where, parts in blocks.items()
        for n, part in enumerate(parts)
        if "cache_control" in part
    ]


def test_a_request_to_anthropic_marks_what_to_cache(play: Play, stream: bool) -> None:
    calls = [ToolCall(identity, "add", '{"a": 1}') for identity in "xy"]
    history = [system("Be kind."), user("q"), assistant(None, calls), *map(tool_message, calls, RESULTS)]
    own = {"type": "text", "text": "q", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    with ModelServer("3", "3", "3") as server:
        model = Provider("anthropic").at(server)
        for messages in (history[:2], history, [history[0], {"role": "user", "content": [own]}, *history[2:]]):
            play(model, messages, stream=stream)
    assert [marks(sent.body) for sent in server.requests] == [
        ["system, block 0", "message 0, block 0"],
        ["system, block 0", "message 0, block 0", "message 2, block 1"],
        ["message 0, block 0"],
    ]
    assert "cache_control" not in str(history)


@pytest.mark.parametrize(
    ("cache", "mark"), [("auto", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})]
)
def test_the_cache_of_a_prompt_lives_as_long_as_wanted(play: Play, cache: str, mark: dict[str, str]) -> None:
    with ModelServer("3") as server:
        play(Provider("anthropic").at(server, cache=cache), [system("Be kind."), user("q")])
    assert server.requests[0].body["system"][0]["cache_control"] == mark


def test_a_prompt_is_not_marked_without_a_cache(play: Play) -> None:
    with ModelServer("3") as server:
        play(Provider("anthropic").at(server, cache="off"), [system("Be kind."), user("q")])
    assert marks(server.requests[0].body) == []


def test_another_cache_is_refused() -> None:
    with pytest.raises(DefinitionError, match='cache must be "auto", "off" or "1h", got \'2h\''):
        LiteLLMModel("anthropic/claude-sonnet-4-5", cache="2h")


ADDITIONS = [ToolCall(f"c{number}", "add", f'{{"a": {number}}}') for number in range(9)]
GROWING = [
    system("Add."),
    user("What is 1 + 2?"),
    assistant("Let me see.", ADDITIONS[:1]),
    *map(tool_message, ADDITIONS[:1], ["1"]),
    user("Be quick."),
    user("Please."),
    {
        **assistant(None, [ADDITIONS[1], ToolCall("d", "add", ADDITIONS[1].arguments), ADDITIONS[2]]),
        "provider": "gemini",
    },
    *map(tool_message, [ADDITIONS[1], ToolCall("d", "add"), ADDITIONS[2]], "2d3"),
    assistant(""),
    user("Go on."),
    {**assistant("Hm.", [ADDITIONS[3]]), "provider": "anthropic", "thinking_blocks": [{"type": "thinking"}]},
    *map(tool_message, ADDITIONS[3:4], ["4"]),
    {**assistant(None, [ADDITIONS[4]]), "provider": "mistral"},
    *map(tool_message, ADDITIONS[4:5], ["5"]),
    assistant("Nine."),
    {**user("And now?"), "cache_control": {"type": "ephemeral"}},
    assistant("", [ADDITIONS[5]]),
    *map(tool_message, ADDITIONS[5:6], ["6"]),
]
FORMS = [
    MessageForm("openai"),
    MessageForm("openai", has_template=True),
    MessageForm("openai", has_template=True, one_call=True),
    MessageForm("openai", for_responses=True),
    MessageForm("anthropic"),
    MessageForm("anthropic", "off", "claude-sonnet-4-5"),
    MessageForm("gemini"),
    MessageForm("mistral"),
    MessageForm("ollama_chat"),
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_a_conversation_that_grows_is_sent_as_one_that_is_converted_anew(form: MessageForm) -> None:
    conversations = SentConversations()
    for end in range(1, len(GROWING) + 1):
        anew = SentConversation(form).prepare(GROWING[:end])
        assert conversations.prepare_texts(GROWING[:end], form) == anew
    for other in ([*GROWING[:4], *GROWING[9:]], GROWING[:3], GROWING):
        assert conversations.prepare_texts(other, form) == SentConversation(form).prepare(other)
    assert conversations.prepare_texts([*GROWING, user([{"type": "text", "text": "Parts."}])], form) is None


EDITS: dict[str, Callable[[list[Any]], Any]] = {
    "text": lambda history: history[2].update(content="Edited."),
    "question": lambda history: history[1].update(content="?"),
    "parts": lambda history: history[1].update(content=[{"type": "text", "text": "?"}]),
    "role": lambda history: history[1].update(role="system"),
    "calls": lambda history: history[2].update(tool_calls=history[6]["tool_calls"]),
    "call": lambda history: history[6]["tool_calls"].pop(),
    "id of a call": lambda history: history[2]["tool_calls"][0].update(id="an id with spaces"),
    "id of a result": lambda history: history[3].update(tool_call_id="an id with spaces"),
    "arguments": lambda history: history[2]["tool_calls"][0]["function"].update(arguments="not JSON"),
    "name": lambda history: history[3].update(name="other"),
    "no thinking": lambda history: [message.pop("thinking_blocks", None) for message in history],
    "other writer": lambda history: [message.update(provider="other") for message in history if "provider" in message],
}


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize("edit", EDITS)
def test_a_message_that_is_edited_in_place_is_converted_again(edit: str, form: MessageForm) -> None:
    history = copy.deepcopy(GROWING)
    conversations = SentConversations()
    conversations.prepare_texts(history, form)
    EDITS[edit](history)
    for _ in range(2):
        assert conversations.prepare_texts(history, form) == SentConversations().prepare_texts(history, form)


def test_each_message_is_converted_once() -> None:
    converted: list[str] = []

    class Counted(dict[str, Any]):
        def keys(self) -> Any:
            converted.append(self["content"])
            return super().keys()

    history: list[Any] = [Counted(user("What is 1 + 2?"))]
    conversations = SentConversations()
    for number in range(50):
        call = ToolCall(f"c{number}", "add", "{}")
        history += [assistant("", [call]), Counted(tool_message(call, f"result {number}"))]
        conversations.prepare_texts(history, MessageForm("openai", has_template=True))
    assert len(converted) < 3 * 51, "those of the last turn are converted in the next request again"
