"""agno on its OpenAI-like model."""

import os
from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent as AgnoAgent
from agno.models.openai.like import OpenAILike


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        backend = OpenAILike(id=model, base_url=url, api_key="none")
        self.agent = AgnoAgent(model=backend, tools=tools, instructions="Use the tools.", telemetry=False)

    def run(self, query: str) -> str:
        return str(self.agent.run(query).content)

    async def arun(self, query: str) -> str:
        return str((await self.agent.arun(query)).content)

    async def astream(self, query: str) -> AsyncIterator[Any]:
        async for event in self.agent.arun(query, stream=True):
            yield event


def version() -> str:
    return version_of("agno")
