"""A real LiteLLM proxy between an agent and a provider: what it reports of costs and waits reaches the run."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from ports import free_port
from waiting import HANGS, noting, wait_until

from agentkit import JsonAgent, Limits, ModelError
from agentkit.engine.result import Result, RunFinished
from agentkit.testing import ModelServer, answer, call

PROXY = Path(__file__).parents[2] / ".cache" / "integration" / "litellm" / "bin" / "litellm"
KEY = "sk-" + "ab12" * 16
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "HF_HUB_OFFLINE": "1"}
CONFIG = """
model_list:
  - model_name: shop-alias
    litellm_params: {{model: openai/gpt-4o-mini, api_base: "{api_base}", api_key: not-a-key}}
litellm_settings: {{num_retries: 0}}
router_settings: {{disable_cooldowns: true}}
"""
TOKENS = {"usage": {"input_tokens": 1_000_000, "output_tokens": 0}}
DOLLARS = 0.15
"""The price of these tokens with gpt-4o-mini, which the proxy knows and the agent does not."""
CALL = {**call("price_of", item="tea"), **TOKENS}
DONE = {**answer("3.50"), **TOKENS}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("litellm-proxy"),  # so that one process starts one proxy, which takes long
    pytest.mark.timeout(HANGS),
    pytest.mark.skipif(
        not PROXY.exists(), reason="the package litellm[proxy] is missing: tests/integration/install.sh"
    ),
]


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    with ModelServer(strict=False) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(provider: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy whose only model is played by `provider`."""
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "config.yaml").write_text(CONFIG.format(api_base=provider.api_base("openai")))
    port = free_port()
    command = [str(PROXY), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, **QUIET, "LITELLM_MASTER_KEY": KEY}
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        with noting((folder / "log").read_text):
            wait_until(lambda: process.poll() is not None or is_ready(url))
            assert process.poll() is None, "the proxy ended"
        yield f"{url}/v1"
    finally:
        process.terminate()
        process.wait()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/liveliness", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def price_of(item: str) -> float:
    """Look up the price of an item."""
    return 3.5


def on_a_loop(run: Coroutine[Any, Any, Any]) -> Any:
    """Await a run; the connections that litellm keeps open belong to the loop and end with it."""

    async def main() -> Any:
        try:
            return await run
        finally:
            cleanup = import_module("litellm.llms.custom_httpx.async_client_cleanup")
            await cleanup.close_litellm_async_clients()

    return asyncio.run(main())


def ask(agent: JsonAgent[str], world: str) -> Result[Any]:
    async def stream() -> list[Any]:
        return [event async for event in agent.astream("What does tea cost?")]

    if world == "sync":
        return agent.run("What does tea cost?")
    if world == "async":
        return on_a_loop(agent.arun("What does tea cost?"))
    events = [*agent.stream("What does tea cost?")] if world == "sync-streamed" else on_a_loop(stream())
    (finished,) = [event for event in events if isinstance(event, RunFinished)]
    return finished.result


def check_costs(world: str, provider: ModelServer, proxy: str) -> None:
    """The costs that the proxy reports count, and limit the run."""
    provider.play([CALL] * 3, DONE)
    limits = Limits(dollars=2.5 * DOLLARS, unknown_price="allow")
    agent = JsonAgent(price_of, model="openai/shop-alias", api_base=proxy, api_key=KEY, limits=limits)
    result = ask(agent, world)
    assert (result.stopped, result.answer) == ("dollars", "3.50")
    assert result.cost == pytest.approx(4 * DOLLARS)


def check_wait(world: str, provider: ModelServer, proxy: str) -> None:
    """The wait that the provider demands is known behind the proxy."""
    provider.play({"status": 429, "headers": {"retry-after": "7"}})
    agent = JsonAgent(price_of, model="openai/shop-alias", api_base=proxy, api_key=KEY, retries=0)
    with pytest.raises(ModelError) as caught:
        ask(agent, world)
    assert (caught.value.kind, caught.value.retry_after) == ("rate_limit", 7)


WORLDS = ("sync", "async", "sync-streamed", "async-streamed")


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("check", [check_costs, check_wait])
def test_costs_and_waits_reach_the_run_through_the_proxy(
    check: Callable[[str, ModelServer, str], None], world: str, provider: ModelServer, proxy: str
) -> None:
    check(world, provider, proxy)
