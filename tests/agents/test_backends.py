"""Which options go to which model: an account's key and address to nobody else."""

import asyncio
import inspect

import pytest

from agentkit import DefinitionError, JsonAgent, Limits, ModelError, tool
from agentkit.agents.backends import Backends, check_option_names
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.offline import OfflineModel
from agentkit.testing import ScriptedModel

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
    return dict(backend._options)


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
def test_a_misspelt_parameter_is_told(written: str, meant: str) -> None:
    with pytest.raises(DefinitionError, match=f"unexpected parameter '{written}'. Did you mean '{meant}'"):
        JsonAgent(len, **{written: 3})


def test_no_option_of_litellm_is_taken_for_a_misspelt_parameter() -> None:
    own = JsonAgent.__init__.__kwdefaults__
    known = dict.fromkeys(set(inspect.signature(load_litellm().completion).parameters) - set(own))
    assert check_option_names(known, own) is known


def test_a_model_object_is_told_how_long_a_reply_may_take_anew_with_each_try(world):
    fails = ModelError("busy", kind="server", transient=True, retry_after=0.01)
    model = ScriptedModel("no", fails, fails, "yes")
    first = ScriptedModel(ModelError("down", kind="authentication"))
    agent = JsonAgent(len, model=first, fallback_models=[model], request_timeout=7)
    assert world.run(agent, "?").answer == "yes"
    assert [request.timeout for request in [*first.requests, *model.requests]] == [7] * 5
    within = JsonAgent(len, model=ScriptedModel("no", "yes"), request_timeout=7, limits=Limits(seconds=8))
    world.run(within, "?")
    assert all(request.timeout < 7 for request in within.model.requests), "the run's own end comes first"
    with pytest.raises(DefinitionError, match="request_timeout must be a number of seconds above 0"):
        JsonAgent(len, model=model, request_timeout=0)


def test_a_model_that_does_not_heed_it_is_left_on_an_event_loop():
    class Deaf(ScriptedModel):
        async def aask(self, request):
            await asyncio.sleep(20)
            yield

    agent = JsonAgent(len, model=Deaf(), request_timeout=0.05, retries=1)
    with pytest.raises(ModelError, match="no answer in time") as caught:
        asyncio.run(agent.arun("?"))
    assert caught.value.kind == "timeout"
