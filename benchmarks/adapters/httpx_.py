"""A loop by hand over httpx: what nobody can go below."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from adapters.schemas import schema_of


class Agent:
    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        self.url = f"{url}/chat/completions"
        self.asked = {"model": model, "tools": [schema_of(tool) for tool in tools]}
        self.tools = {tool.__name__: tool for tool in tools}

    def take(self, messages: list[Any], reply: Any) -> Any:
        message = reply["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            result = self.tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        return message["content"]

    def run(self, query: str) -> str:
        messages: list[Any] = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": query}]
        with httpx.Client(timeout=60) as client:
            while True:
                reply = client.post(self.url, json={"messages": messages, **self.asked}).json()
                if (answer := self.take(messages, reply)) is not None:
                    return str(answer)

    async def arun(self, query: str) -> str:
        messages: list[Any] = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": query}]
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                reply = (await client.post(self.url, json={"messages": messages, **self.asked})).json()
                if (answer := self.take(messages, reply)) is not None:
                    return str(answer)

    async def astream(self, query: str) -> AsyncIterator[Any]:
        asked = {"messages": [{"role": "user", "content": query}], "stream": True, **self.asked}
        async with httpx.AsyncClient(timeout=60) as client, client.stream("POST", self.url, json=asked) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line[6:])


def version() -> str:
    return httpx.__version__
