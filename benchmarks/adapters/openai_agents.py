"""openai-agents on its chat completions model."""

from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        backend = OpenAIChatCompletionsModel(model, AsyncOpenAI(base_url=url, api_key="none"))
        given = [function_tool(tool) for tool in tools]
        self.agent = OpenAIAgent(name="agent", instructions="Use the tools.", tools=given, model=backend)

    def run(self, query: str) -> str:
        return str(Runner.run_sync(self.agent, query, max_turns=2000).final_output)

    async def arun(self, query: str) -> str:
        return str((await Runner.run(self.agent, query, max_turns=2000)).final_output)

    async def astream(self, query: str) -> AsyncIterator[Any]:
        async for event in Runner.run_streamed(self.agent, query, max_turns=2000).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event


def version() -> str:
    return version_of("openai-agents")
