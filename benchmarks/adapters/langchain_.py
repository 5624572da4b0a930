"""langchain's agent on its OpenAI chat model."""

from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

CONFIG: Any = {"recursion_limit": 5000}


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        backend = ChatOpenAI(model=model, base_url=url, api_key="none")  # type: ignore[arg-type]
        self.agent = create_agent(backend, tools=tools, system_prompt="Use the tools.")

    def run(self, query: str) -> str:
        asked = {"messages": [{"role": "user", "content": query}]}
        return str(self.agent.invoke(asked, CONFIG)["messages"][-1].content)

    async def arun(self, query: str) -> str:
        asked = {"messages": [{"role": "user", "content": query}]}
        return str((await self.agent.ainvoke(asked, CONFIG))["messages"][-1].content)

    async def astream(self, query: str) -> AsyncIterator[Any]:
        asked = {"messages": [{"role": "user", "content": query}]}
        async for piece in self.agent.astream(asked, CONFIG, stream_mode="messages"):
            yield piece


def version() -> str:
    return version_of("langchain")
