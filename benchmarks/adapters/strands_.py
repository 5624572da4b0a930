"""strands on its OpenAI model."""

from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

from strands import Agent as StrandsAgent
from strands import tool
from strands.models.openai import OpenAIModel


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        backend = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id=model)
        given = [tool(one) for one in tools]
        self.make = lambda: StrandsAgent(
            model=backend, tools=given, system_prompt="Use the tools.", callback_handler=None
        )

    def run(self, query: str) -> str:
        return str(self.make()(query))

    async def arun(self, query: str) -> str:
        return str(await self.make().invoke_async(query))

    async def astream(self, query: str) -> AsyncIterator[Any]:
        async for event in self.make().stream_async(query):
            if "data" in event:
                yield event


def version() -> str:
    return version_of("strands-agents")
