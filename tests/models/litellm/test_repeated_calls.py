"""A repeated call of litellm's handler gives what `completion` gives, and is made only where that is known."""

import asyncio
import copy
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from wire_providers import Play, Provider, watch_completion

from agentkit import ModelError
from agentkit.core.messages import ToolCall, assistant, system, tool_message, user
from agentkit.engine.model import Reply, Request
from agentkit.models.litellm import calls
from agentkit.models.litellm.calls import _PREPARED_ARGUMENTS, _PREPARED_PROVIDERS
from agentkit.models.litellm.importing import HANDLERS, load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

CALL = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}
TWO_CALLS = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now", "arguments": {}}]}
REPLIES = [CALL, TWO_CALLS, "three", {"status": 429, "retry_after": 7}, {"status": 401}, {"status": 500}, "four"]
HI = [system("Add."), user("What is 1 + 2?")]
FIRST = ToolCall("call_1", "add", '{"a": 1, "b": 2}')
SECOND = ToolCall("call_2", "now", "{}")
LONG = [*HI, assistant(None, [FIRST]), tool_message(FIRST, "3"), assistant("And now?", [SECOND])]
HISTORIES = [HI, [*HI, assistant("3"), user("And now?")], [*LONG, tool_message(SECOND, "noon")]]
OPTIONS: list[dict[str, Any]] = [{}, {"temperature": 0.5, "max_tokens": 9000, "stop": ["end"]}]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models for which litellm's `completion` prepared a call, as its decorator sees it."""
    called: list[str] = []
    utils = load_litellm().utils
    monkeypatch.setattr(utils, "print_args_passed_to_litellm", lambda _, __, asked: called.append(asked["model"]))
    return called


def outcome(play: Play, model: LiteLLMModel, messages: Any, **asked: Any) -> Any:
    try:
        return play(model, messages, **asked)
    except ModelError as error:
        return str(error), error.kind, error.status, error.transient, error.retry_after


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "options"])
def test_replies_and_errors_and_requests_are_the_same(
    provider: Provider,
    play: Play,
    stream: bool,
    options: dict[str, Any],
    prepared: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []
    counts = []
    for is_repeated in (True, False):
        if not is_repeated:
            watch_completion(monkeypatch)
        with ModelServer("begin", *REPLIES, strict=False) as server:
            model = provider.at(server, **options)
            outcomes = [outcome(play, model, HI, stream=stream)]
            prepared.clear()
            for number in range(len(REPLIES)):
                outcomes.append(outcome(play, model, HISTORIES[number % 3], stream=stream))
            counts.append(len(prepared))
            sent = [
                (one.path, one.body, {name: one.headers[name] for name in one.headers if name not in ("host", "date")})
                for one in server.requests
                if one.body  # 1.84 asks Ollama for prices, too
            ]
            told.append((outcomes, sent))
    ids = re.compile(r"'id': '[^']*'|, id='[^']*'\)|127\.0\.0\.1:\d+")  # litellm makes some ids up
    first, second = (ids.sub("", repr(one)) for one in told)
    assert first == second
    assert counts[0] == 0, "one request of the same kind was sent before"
    assert counts[1] >= len(REPLIES), "litellm's own way has other names now: look anew at what is left out"


def test_a_repeated_call_takes_few_calls_of_own_functions() -> None:
    """The most that a request may take in `agentkit.models.litellm`; a time would depend on the machine."""
    folder = str(Path(calls.__file__).parent)
    resumed = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # a call for each wait, and waits depend on the machine
    counts = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and not code.co_flags & resumed:
            counts[-1] += code.co_filename.startswith(folder) and "<" not in code.co_name

    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    async def ask_often() -> None:
        tools = ToolRegistry(add)
        messages = [*HI]
        for number in range(6):
            counts.append(0)
            sys.setprofile(count)
            try:
                async for _ in model.aask(Request(messages, tools)):
                    pass
            finally:
                sys.setprofile(None)
            call = ToolCall(f"call_{number}", "add", '{"a": 1, "b": 2}')
            messages += [assistant(None, [call]), tool_message(call, "3")]

    with ModelServer(*[CALL] * 6) as server:
        model = Provider("openai").at(server)
        asyncio.run(ask_often())
    found = f"litellm prepares nothing anew, nor does agentkit: {counts}"
    assert min(counts[2:]) <= 138, found


@pytest.mark.parametrize("option", [{"metadata": {"a": 1}}, {"mock_response": "mocked"}, {"num_retries": 0}])
def test_a_request_that_may_need_more_is_sent_by_litellm(
    option: dict[str, Any], play: Play, prepared: list[str]
) -> None:
    with ModelServer("one", "two") as server:
        model = Provider("openai").at(server, **option)
        for _ in range(2):
            play(model, HI)
    assert len(prepared) >= 2


def test_a_request_to_an_untried_provider_is_sent_by_litellm(play: Play, prepared: list[str]) -> None:
    with ModelServer("one", "two") as server:
        model = LiteLLMModel("hosted_vllm/m", api_base=server.api_base("openai"), api_key="k")
        for _ in range(2):
            play(model, HI)
    assert len(prepared) >= 2


def test_parts_which_may_have_to_be_fetched_go_litellm_s_way(
    provider: Provider, play: Play, prepared: list[str]
) -> None:
    with ModelServer("one", "two") as server:
        model = provider.at(server)
        for _ in range(2):
            play(model, [user([{"type": "text", "text": "What is 1 + 2?"}])])
    assert len(prepared) >= 2


CHANGES: list[Callable[[pytest.MonkeyPatch], None]] = [
    lambda patch: patch.setenv("OPENAI_API_KEY", "sk-another-0123456789"),
    lambda patch: patch.setattr(load_litellm(), "openai_key", "sk-another-0123456789"),
    lambda patch: patch.setattr(load_litellm(), "api_key", "sk-another-0123456789"),
]


@pytest.mark.parametrize("change", CHANGES, ids=["variable", "setting", "general setting"])
def test_a_key_that_the_host_changes_is_sent_with_the_next_request(
    change: Callable[[pytest.MonkeyPatch], None], play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(["hello"] * 3) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_API_BASE", server.api_base("openai"))
        model = LiteLLMModel("openai/gpt-4o-mini")
        for _ in range(2):
            play(model, HI)
        change(monkeypatch)
        play(model, HI)
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer sk-test-0123456789"] * 2 + ["Bearer sk-another-0123456789"]


class Tokens:
    """Credentials of a proxy, which are renewed."""

    def __init__(self) -> None:
        self.number = 0

    def get_auth_headers(self) -> dict[str, str]:
        self.number += 1
        return {"x-token": f"token {self.number}"}


def set_value(name: str, value: Any, place: str = "") -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        litellm = load_litellm()
        patch.setattr(getattr(litellm, place) if place else litellm, name, value, raising=False)

    return change


def register(name: str, **flags: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        table = load_litellm().model_cost
        patch.setitem(table, name, {**table.get(name, {"litellm_provider": "groq", "mode": "chat"}), **flags})
        load_litellm().utils._invalidate_model_cost_lowercase_map()

    return change


def limit_tokens(patch: pytest.MonkeyPatch) -> None:
    """Let litellm fit the limit of a reply to a small window of the model and to the messages."""
    set_value("modify_params", True)(patch)
    for name in ("gpt-4o-mini", "claude-sonnet-4-5"):
        register(name, max_input_tokens=1_000, max_output_tokens=1_000, max_tokens=1_000)(patch)


LATER: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("openai", set_value("temperature", 0.25, "OpenAIConfig")),
    ("groq", set_value("temperature", 0.25, "GroqChatConfig")),
    ("anthropic", set_value("top_p", 0.25, "AnthropicConfig")),
    ("ollama", set_value("num_ctx", 77, "OllamaChatConfig")),
    ("gemini", set_value("vertex_ai_safety_settings", [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}])),
    ("openai", lambda patch: patch.setattr(load_litellm(), "proxy_auth", Tokens())),
    ("openai", limit_tokens),
    ("anthropic", limit_tokens),
    ("anthropic", lambda patch: patch.setenv("LITELLM_ANTHROPIC_DISABLE_URL_SUFFIX", "true")),
    ("anthropic", set_value("enable_anthropic_prompt_caching", True)),
    ("groq", register("groq/llama-3.1-8b-instant", supports_reasoning=True)),
    ("openai", set_value("use_litellm_proxy", True)),
    ("openai", lambda patch: patch.setenv("USE_LITELLM_PROXY", "true")),
]


@pytest.mark.parametrize(("name", "change"), LATER, ids=[f"{place}-{one[0]}" for place, one in enumerate(LATER)])
def test_what_the_host_changes_later_has_the_effect_that_it_has_on_completion(
    name: str, change: Callable[[pytest.MonkeyPatch], None], play: Play
) -> None:
    told = []
    for is_repeated in (True, False):
        with pytest.MonkeyPatch.context() as patch, ModelServer("begin", *["hello"] * 9) as server:
            if not is_repeated:
                watch_completion(patch)
            model = Provider(name).at(server, max_tokens=900, reasoning_effort="low" if name == "groq" else None)
            outcomes = [outcome(play, model, HISTORIES[0]) for _ in range(2)]
            change(patch)
            outcomes += [outcome(play, model, messages) for messages in [*HISTORIES, [user("a " * 300)]]]
            sent = [(one.path, one.body, one.headers.get("x-token")) for one in server.requests if one.body]
            told.append((len(sent), [isinstance(one[1], Reply) or one for one in outcomes], sent))
    assert told[0] == told[1]


def test_what_the_host_replaces_in_a_handler_is_called(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    handler = load_litellm().main.base_llm_http_handler
    real = type(handler).completion

    def watched(self: Any, *args: Any, **named: Any) -> Any:
        seen.append(named["model"])
        return real(self, *args, **named)

    with ModelServer(["hello"] * 4) as server:
        model = Provider("openai").at(server)
        play(model, HI)
        monkeypatch.setattr(type(handler), "completion", watched)
        play(model, HI)
        monkeypatch.setattr(load_litellm().main, "base_llm_http_handler", type(handler)())
        play(model, HI)
    assert len(seen) == 2


def test_an_observer_that_is_registered_later_misses_nothing(
    play: Play, prepared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(["hello"] * 3) as server:
        model = Provider("openai").at(server)
        for _ in range(2):
            play(model, HI)
        prepared.clear()
        monkeypatch.setattr(load_litellm(), "success_callback", [lambda *_: None])
        play(model, HI)
    assert prepared


def test_another_list_of_tools_another_choice_and_another_limit_are_sent(play: Play, prepared: list[str]) -> None:
    asked: list[dict[str, Any]] = [{}, {"tool_choice": "required"}, {"max_tokens": 77}, {"headers": {"x-a": "1"}}]
    with ModelServer(["hello"] * 12) as server:
        model = Provider("openai").at(server)
        for wish in asked * 3:
            play(model, HI, **wish)
        bodies = [(one.body.get("tool_choice"), one.body.get("max_tokens")) for one in server.requests]
        headers = [one.headers.get("x-a") for one in server.requests]
    assert bodies == [(None, None), ("required", None), (None, 77), (None, None)] * 3
    assert headers == [None, None, None, "1"] * 3
    assert len(prepared) in (4, 8), "each kind is prepared once; litellm's `acompletion` calls `completion`"


def test_the_history_stays_and_keys_without_a_value_are_not_sent(provider: Provider, play: Play) -> None:
    """The mark is one for Anthropic; a conversation may go to several models."""
    history = [
        {**user("What is 1 + 2?"), "name": None, "cache_control": {"type": "ephemeral"}},
        {**assistant(None, [FIRST]), "provider": "anthropic", "reasoning_content": "Hm."},
        {**tool_message(FIRST, "3"), "cache_control": {"type": "ephemeral"}},
    ]
    before = copy.deepcopy(history)
    with ModelServer("begin", *["hello"] * 3, strict=False) as server:
        model = provider.at(server)
        for _ in range(3):
            play(model, history)
        bodies = [request.body for request in server.requests if request.body]
    assert history == before
    assert bodies[-1] == bodies[-2] == bodies[-3]
    assert not re.search(r'"(tool_)?name": null', json.dumps(bodies))


def test_equal_schemas_are_not_always_the_same(play: Play) -> None:
    def play_first() -> None:
        def find(row: int | bool = 1, column: int = 2) -> None:
            """Finds."""

        play(model, HI, tools=ToolRegistry(find))

    def play_true() -> None:
        def find(row: int | bool = True, column: int = 2) -> None:
            """Finds."""

        play(model, HI, tools=ToolRegistry(find))

    def play_turned() -> None:
        def find(column: int = 2, row: int | bool = 1) -> None:
            """Finds."""

        play(model, HI, tools=ToolRegistry(find))

    with ModelServer(["hello"] * 6) as server:
        model = Provider("openai").at(server)
        for _ in range(2):
            play_first()
            play_true()
            play_turned()
        sent = [request.body["tools"][0]["function"]["parameters"]["properties"] for request in server.requests]
    assert [repr(properties["row"]["default"]) for properties in sent] == ["1", "True", "1"] * 2
    assert [next(iter(properties)) for properties in sent] == ["row", "row", "column"] * 2


def test_the_names_inside_litellm_are_those_of_the_tested_versions() -> None:
    """1.84.0, 1.97.0, 1.105.3 and 1.109.1 have them; a version without one of them prepares each call anew."""
    import litellm
    from litellm.litellm_core_utils.litellm_logging import Logging

    for name in HANDLERS:
        assert callable(getattr(litellm.main, name).completion)
    for name in ("pre_call", "post_call", "success_handler", "async_success_handler", "_response_cost_calculator"):
        assert callable(getattr(Logging, name))
    assert callable(litellm.exception_type)
    assert {provider.value for provider in litellm.LlmProviders} >= _PREPARED_PROVIDERS
    assert "messages" in _PREPARED_ARGUMENTS
