"""agentkit, as its README says."""

import io
from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

from agentkit import JsonAgent, Session, log


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any], *, shown: bool = False) -> None:
        self.agent = JsonAgent(tools, model=f"openai/{model}", api_base=url, api_key="none", max_steps=1000)
        self.shown = shown

    def run(self, query: str) -> str:
        if self.shown:
            log.show(io.StringIO(), colour=True)
        try:
            return self.agent.run(query, session=Session()).answer
        finally:
            log.hide()

    async def arun(self, query: str) -> str:
        return (await self.agent.arun(query, session=Session())).answer

    async def astream(self, query: str) -> AsyncIterator[Any]:
        async for event in self.agent.astream(query, session=Session()):
            if event.is_piece:
                yield event


def version() -> str:
    return version_of("agentkit")
