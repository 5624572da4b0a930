"""pydantic-ai on its OpenAI model."""

from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

LIMITS = UsageLimits(request_limit=2000)


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        backend = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none"))
        self.agent = PydanticAgent(backend, tools=tools, instructions="Use the tools.")

    def run(self, query: str) -> str:
        return self.agent.run_sync(query, usage_limits=LIMITS).output

    async def arun(self, query: str) -> str:
        return (await self.agent.run(query, usage_limits=LIMITS)).output

    async def astream(self, query: str) -> AsyncIterator[Any]:
        async with self.agent.run_stream(query) as stream:
            async for text in stream.stream_text(delta=True, debounce_by=None):
                yield text


def version() -> str:
    return version_of("pydantic-ai-slim")
