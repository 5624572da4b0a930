"""litellm belongs to the host: wrappers see each request, and settings stay as the host made them."""

import asyncio
import functools
import logging
import os
import subprocess
import sys
from typing import Any

import httpx
import pytest
from wire_providers import Play, Provider

from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models.litellm.calls import is_untouched
from agentkit.models.litellm.importing import load_litellm
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

HI = [user("hi")]


def with_functools(function: Any, seen: list[Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["model"])
        return function(*args, **kwargs)

    return wrapper


class TransparentProxy:
    """A wrapper like `wrapt.FunctionWrapper`: each attribute, even the class, is the wrapped function's."""

    def __init__(self, function: Any, seen: list[Any]) -> None:
        self.__dict__.update(__wrapped__=function, seen=seen)

    @property
    def __class__(self) -> Any:
        return type(self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(kwargs["model"])
        return self.__wrapped__(*args, **kwargs)


@pytest.mark.parametrize("wrap", [with_functools, TransparentProxy])
def test_instrumentation_sees_every_request(
    wrap: Any, provider: Provider, play: Play, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = load_litellm()
    seen = []
    with ModelServer(["hello"] * 4) as server:
        model = provider.at(server)
        play(model, HI, stream=stream)  # what is remembered of it must not hide the wrapper
        for name in ("completion", "acompletion"):
            monkeypatch.setattr(litellm, name, wrap(getattr(litellm, name), seen))
        for _ in range(3):
            play(model, HI, stream=stream)
    assert len(seen) >= 3


@pytest.mark.parametrize("name", ["completion", "acompletion"])
@pytest.mark.parametrize("wrap", [with_functools, TransparentProxy])
def test_a_wrapper_in_the_main_module_of_litellm_is_noticed(
    wrap: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = load_litellm()
    assert is_untouched(litellm)
    monkeypatch.setattr(litellm.main, name, wrap(getattr(litellm.main, name), []))
    assert not is_untouched(litellm)


def test_a_mock_of_one_function_gets_all_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = load_litellm()
    seen = []
    real = litellm.acompletion

    async def mock(**arguments: Any) -> Any:
        seen.append(arguments["model"])
        return await real(**arguments)

    with ModelServer(["hello"] * 4) as server:
        model = Provider("openai").at(server)

        async def ask() -> None:
            assert [piece async for piece in model.aask(Request(HI, ToolRegistry()))]

        asyncio.run(ask())
        monkeypatch.setattr(litellm, "acompletion", mock)
        for _ in range(3):
            asyncio.run(ask())
    assert len(seen) == 3


JUDGING_HOST = """
import asyncio, sys, threading
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models import LiteLLMModel
from agentkit.models.litellm.importing import load_litellm
from agentkit.tools.registry import ToolRegistry

litellm = load_litellm()
HI = [user("hi")]
AT = {"api_base": sys.argv[1], "api_key": "sk-test-0123456789"}
found = []
ended = threading.Event()

def judge(asked, *_):
    if "judge" in asked["model"]:
        return
    try:
        reply = litellm.completion("openai/judge", messages=HI, max_retries=0, **AT)
        found.append(reply.choices[0].message.content)
    except Exception as error:
        found.append(error)
    ended.set()

async def ajudge(*given):
    await asyncio.to_thread(judge, *given)

async def ask():
    assert [piece async for piece in model.aask(Request(HI, ToolRegistry()))]
    await asyncio.to_thread(ended.wait, 600)

model = LiteLLMModel("openai/gpt-4o-mini", **AT)
if sys.argv[2] == "sync":
    litellm.success_callback = [judge]
    assert list(model.ask(Request(HI, ToolRegistry())))
    ended.wait(600)
else:
    litellm._async_success_callback = [ajudge]
    asyncio.run(ask())
assert found == ["good"], found
"""


@pytest.mark.parametrize("world", ["sync", "async"])
def test_the_calls_of_a_callback_are_those_of_the_host(world: str) -> None:
    """litellm runs callbacks in a copy of the context of the call that they are about."""
    with ModelServer("hello", "good") as server:
        command = [sys.executable, "-c", JUDGING_HOST, server.api_base("openai"), world]
        done = subprocess.run(command, capture_output=True, text=True)
        clients = [request.headers["user-agent"].split("/")[0] for request in server.requests]
    assert (done.returncode, done.stderr) == (0, "")
    assert clients[1] == "OpenAI", "the host's call goes through the OpenAI SDK"


HOST = """
import gc, logging, os, sys
import litellm
logging.getLogger("LiteLLM").setLevel(logging.ERROR)

def read_settings():
    names = "LiteLLM", "LiteLLM Router", "LiteLLM Proxy"
    return [logging.getLogger(name).level for name in names], gc.get_freeze_count()

before = read_settings()
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models import LiteLLMModel, tune
from agentkit.tools.registry import ToolRegistry
model = LiteLLMModel("openai/gpt-4o-mini", api_base=sys.argv[1], api_key="sk-test-0123456789")
assert list(model.ask(Request([user("hi")], ToolRegistry())))
assert read_settings() == before
assert "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER" not in os.environ
litellm.completion(model="openai/gpt-4o-mini", messages=[user("hi")], api_base=sys.argv[1], api_key="k", max_retries=0)
tune()
assert gc.get_freeze_count() > 100_000
"""


def test_a_host_that_loaded_litellm_first_keeps_its_settings() -> None:
    with ModelServer(["hello"] * 3) as server:
        done = subprocess.run([sys.executable, "-c", HOST, server.api_base("openai")], capture_output=True, text=True)
        clients = [request.headers["user-agent"].split("/")[0] for request in server.requests]
    assert (done.returncode, done.stderr) == (0, "")
    assert clients[1] == "OpenAI", "the host's own call goes through the OpenAI SDK, as before"
    assert clients[0] != "OpenAI", "agentkit's call goes through litellm's own client"


PATCHING_HOST = """
import sys
import litellm
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models import LiteLLMModel
from agentkit.tools.registry import ToolRegistry

handler = litellm.main.base_llm_http_handler
seen = []
def completion(*args, real=handler.completion, **named):
    seen.append(named["model"])
    return real(*args, **named)
handler.completion = completion
for name in "a", "b":
    model = LiteLLMModel("groq/" + name, api_base=sys.argv[1], api_key="k")
    for _ in range(2):
        assert list(model.ask(Request([user("hi")], ToolRegistry())))
    litellm.completion(model="groq/own", messages=[user("hi")], api_base=sys.argv[1], api_key="k")
assert seen == ["a", "a", "own", "b", "b", "own"], seen
"""


def test_what_the_host_replaced_in_a_handler_before_is_called() -> None:
    with ModelServer(["hello"] * 6) as server:
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        command = [sys.executable, "-c", PATCHING_HOST, server.api_base("groq")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_level_that_the_host_set_before_the_import_stays() -> None:
    program = """
import logging
logging.getLogger("LiteLLM").setLevel(logging.INFO)
from agentkit.models.litellm.importing import load_litellm
load_litellm()
print(logging.getLogger("LiteLLM").level, logging.getLogger("LiteLLM Router").level)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [str(logging.INFO), str(logging.CRITICAL)]


def test_a_client_of_the_host_sends_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[httpx.Request] = []
    with ModelServer("hello") as server:
        session = httpx.Client(event_hooks={"request": [sent.append]})
        monkeypatch.setattr(load_litellm(), "client_session", session)
        [*Provider("openai").at(server).ask(Request(HI, ToolRegistry()))]
        session.close()
    assert len(sent) == 1


REFUSAL = {"message": {"refusal": "I cannot help with that."}}


@pytest.mark.parametrize("observed", [False, True], ids=["unobserved", "observed"])
@pytest.mark.parametrize("has_session", [False, True], ids=["own client", "client of the host"])
def test_a_streamed_refusal_is_a_refusal_with_callbacks_and_clients_of_the_host(
    play: Play, observed: bool, has_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = load_litellm()
    if observed:
        monkeypatch.setattr(litellm, "success_callback", [lambda *_: None])
    with ModelServer([REFUSAL, REFUSAL]) as server:
        if has_session:  # then the OpenAI SDK makes the requests
            monkeypatch.setattr(litellm, "client_session", httpx.Client())
            monkeypatch.setattr(litellm, "aclient_session", httpx.AsyncClient())
        for _ in range(2):  # the second one may take the shorter way
            _, reply = play(Provider("openai").at(server), HI, stream=True)
            assert reply.message["refusal"] == "I cannot help with that."
        uses_sdk = ["OpenAI/" in request.headers["user-agent"] for request in server.requests]
        assert uses_sdk == [has_session] * 2
