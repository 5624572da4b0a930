"""Which options go to which model: the key and the address of an account to no other."""

import asyncio
import inspect
import subprocess
import sys

import pytest

from agentkit import DefinitionError, JsonAgent, Limits, ModelError, tool
from agentkit.agents.backends import Backends
from agentkit.models import LiteLLMModel
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.parameters import RESERVED_PARAMETERS
from agentkit.models.offline import OfflineModel
from agentkit.testing import ScriptedModel, answer

ACCOUNT = {
    "api_key": "k3y-0f-0ne",
    "api_base": "http://127.0.0.1:1/v1",
    "base_url": "http://127.0.0.1:1/v1",
    "extra_headers": {"Authorization": "Bearer k3y-0f-0ne"},
    "headers": {"x-key": "k3y-0f-0ne"},
    "organization": "mine",
    "api_version": "2026-01-01",
    "aws_secret_access_key": "k3y-0f-0ne",
    "aws_region_name": "eu-west-1",
    "vertex_credentials": "k3y-0f-0ne",
    "azure_ad_token": "k3y-0f-0ne",
}


def options_of(backend) -> dict:
    return dict(backend.options)


def test_another_provider_s_model_gets_the_options_without_the_account():
    backends = Backends({"temperature": 0, "max_tokens": 9, **ACCOUNT})
    first = "openai/gpt-4o-mini"
    assert options_of(backends.backend(first, first)) == {"temperature": 0, "max_tokens": 9, **ACCOUNT}
    assert options_of(backends.backend("openai/gpt-4o", first)) == {"temperature": 0, "max_tokens": 9, **ACCOUNT}
    assert options_of(backends.backend("groq/llama-3.1-8b-instant", first)) == {"temperature": 0, "max_tokens": 9}


@pytest.mark.parametrize("first", [None, "offline", ScriptedModel()])
def test_where_the_first_takes_no_options_they_are_for_the_other(first):
    assert options_of(Backends(ACCOUNT).backend("groq/llama-3.1-8b-instant", first)) == ACCOUNT


def test_a_model_for_one_call_gets_no_key_of_another_provider():
    @tool
    def one() -> int:
        """One."""
        return 1

    agent = JsonAgent(one, model="openai/gpt-4o-mini", temperature=0, max_tokens=9, **ACCOUNT)
    assert options_of(agent.choose_backend("groq/llama-3.1-8b-instant")[0]) == {"temperature": 0, "max_tokens": 9}
    assert options_of(agent.choose_backend()[0]) == {"temperature": 0, "max_tokens": 9, **ACCOUNT}


def test_each_backend_is_made_once():
    backends = Backends({})
    assert backends.backend("openai/a") is backends.backend("openai/a")
    assert isinstance(backends.backend("offline"), OfflineModel)
    model = ScriptedModel()
    assert backends.backend(model) is model


@pytest.mark.parametrize(
    ("written", "meant"), [("max_setps", "max_steps"), ("listener", "listeners"), ("limit", "limits")]
)
def test_a_misspelt_parameter_is_reported(written: str, meant: str) -> None:
    with pytest.raises(DefinitionError, match=f"unexpected parameter '{written}'. Did you mean '{meant}'"):
        JsonAgent(len, **{written: 3})


def test_every_option_that_litellm_documents_is_taken() -> None:
    known = dict.fromkeys(inspect.signature(load_litellm().completion).parameters.keys() - RESERVED_PARAMETERS)
    agent = JsonAgent(len, model="openai/gpt-4o-mini", extra_body={"mine": 1}, **known)
    assert agent.settings["extra_body"] == {"mine": 1}


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("instructions", r"Use description=\.\.\."),
        ("tool_seconds", r"Use limits=Limits\(tool_seconds=\.\.\.\)"),
        ("tokens", r"Use limits=Limits\(tokens=\.\.\.\)"),
        ("system_prompt", r"Use description=\.\.\."),
        ("output_type", r"Use answer=\.\.\."),
        ("default_model", r"Use model=\.\.\."),
        ("max_turns", r"Use max_steps=\.\.\."),
        ("num_retries", r"Use retries=\.\.\."),
        ("name", r"agent\.as_tool\("),
        ("verbose", r"agentkit\.log\.show\(\)"),
        ("temprature", "Did you mean 'temperature'"),
        ("messages", "A conversation is a session"),
        ("warp_factor", r"extra_body=\{'warp_factor': \.\.\.\}.*extra_headers"),
    ],
)
def test_an_unknown_option_is_refused_when_the_agent_is_made(option: str, remedy: str) -> None:
    with pytest.raises(DefinitionError, match=rf"JsonAgent\(\) got an unexpected parameter '{option}'\. .*{remedy}"):
        JsonAgent(len, model="openai/gpt-4o-mini", **{option: "x"})


@pytest.mark.parametrize(
    ("option", "value", "wrong"),
    [
        ("extra_headers", {"X y": "1"}, "'X y' is no name of a header"),
        ("extra_headers", {"X-\u00e9": "1"}, "is no name of a header"),
        ("extra_headers", {1: "1"}, "1 is no name of a header"),
        ("extra_headers", {"X": 1}, "the value of 'X' must be a text, got int"),
        ("headers", {"X": None}, "the value of 'X' must be a text, got NoneType"),
        ("extra_headers", {"X": "k3y\n"}, "the value of 'X' has a line break"),
        ("extra_headers", {"X": " k3y"}, "the value of 'X' has a line break, a space at an end"),
        ("headers", {"X": "\u0431"}, "a character that is not ASCII"),
        ("extra_headers", [("X", "1")], "must be a dict of texts, got list"),
        ("extra_headers", "X: 1", "must be a dict of texts, got str"),
        ("extra_body", [1], "must be a dict, got list"),
        ("extra_body", "a", "must be a dict, got str"),
        ("max_tokens", "100", r"must be an integer, got '100'\. Write max_tokens=int"),
        ("max_completion_tokens", "100", "must be an integer, got '100'"),
    ],
)
def test_a_value_that_no_request_can_have_is_refused_when_the_agent_is_made(option, value, wrong) -> None:
    for make in (JsonAgent, lambda _, model, **options: LiteLLMModel(model, **options)):
        with pytest.raises(DefinitionError, match=rf"^{option}\b.*{wrong}") as caught:
            make(len, model="openai/gpt-4o-mini", **{option: value})
        assert "k3y" not in str(caught.value)


def test_headers_that_http_can_send_are_taken() -> None:
    headers = {"X-Mine": "a b\tc", "X_Empty": "", "x.bytes": b"\xe9"}
    assert JsonAgent(len, model="openai/gpt-4o-mini", extra_headers=headers, headers=None, extra_body=None)


@pytest.mark.parametrize("model", [None, "offline"])
def test_the_embedded_model_has_no_options(model, monkeypatch) -> None:
    monkeypatch.delenv("AGENTKIT_MODEL", raising=False)
    with pytest.raises(DefinitionError, match=r"'temperature'.*embedded offline model has no options"):
        JsonAgent(len, model=model, temperature=0)
    assert JsonAgent(len, model=model, fallback_models=["openai/gpt-4o-mini"], temperature=0)


def test_options_are_checked_without_litellm() -> None:
    code = (
        "import sys\nfrom agentkit import JsonAgent\n"
        "JsonAgent(len, model='openai/gpt-4o-mini', temperature=0)\nassert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("where", [{"model": object()}, {"fallback_models": [3]}])
def test_a_value_that_is_not_a_model_is_refused_when_the_agent_is_made(where) -> None:
    with pytest.raises(DefinitionError, match=r'model must be a name \("openai/gpt-4o-mini".*`ask` and `aask`.*got'):
        JsonAgent(len, **where)


@pytest.mark.parametrize("models", [None, [None], ["offline", None]])
def test_none_is_no_fallback_model_and_never_the_embedded_one(models) -> None:
    with pytest.raises(DefinitionError, match=r"fallback_models must be models, got None\. Leave it out"):
        JsonAgent(len, model=ScriptedModel(), fallback_models=models)


def test_a_single_object_is_one_fallback_model(world) -> None:
    down = ScriptedModel(ModelError("down", kind="authentication"))
    assert world.run(JsonAgent(len, model=down, fallback_models=ScriptedModel(answer("yes"))), "x").answer == "yes"


@pytest.mark.parametrize("where", ["model", "fallback_models"])
def test_a_class_in_place_of_a_model_is_refused_when_the_agent_is_made(where) -> None:
    class Other:
        pass

    with pytest.raises(DefinitionError, match=r"got its class. Write model=ScriptedModel\(...\)"):
        JsonAgent(len, **{where: ScriptedModel})
    with pytest.raises(DefinitionError, match="model must be a name"):
        JsonAgent(len, **{where: Other})


def test_a_value_that_is_not_a_model_is_refused_for_one_call(world) -> None:
    with pytest.raises(DefinitionError, match="model must be a name"):
        world.run(JsonAgent(len, model="offline"), "x", model=object())


def test_a_model_object_gets_the_timeout_of_a_reply_anew_with_each_try(world):
    fails = ModelError("busy", kind="server", transient=True, retry_after=0.01)
    model = ScriptedModel("no", fails, fails, "yes")
    first = ScriptedModel(ModelError("down", kind="authentication"))
    agent = JsonAgent(len, model=first, fallback_models=[model], limits=Limits(request_seconds=7))
    assert world.run(agent, "?").answer == "yes"
    assert [request.timeout for request in [*first.requests, *model.requests]] == [7] * 5
    within = JsonAgent(len, model=ScriptedModel("no", "yes"), limits=Limits(request_seconds=7, seconds=8))
    world.run(within, "?")
    assert all(request.timeout < 7 for request in within.model.requests), "the run's own end comes first"
    with pytest.raises(DefinitionError, match="request_seconds must be a number > 0"):
        JsonAgent(len, model=model, limits=Limits(request_seconds=0))


def test_a_model_that_ignores_its_timeout_is_left_on_an_event_loop():
    class Deaf(ScriptedModel):
        async def aask(self, request):
            await asyncio.sleep(20)
            yield

    agent = JsonAgent(len, model=Deaf(), limits=Limits(request_seconds=0.05), retries=1)
    with pytest.raises(ModelError, match="no answer in time") as caught:
        asyncio.run(agent.arun("?"))
    assert caught.value.kind == "timeout"
