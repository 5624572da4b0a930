"""A loop by hand over litellm as it comes."""

import json
from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from typing import Any

import litellm
from adapters.schemas import schema_of

litellm.suppress_debug_info = True


class Raw:
    options: dict[str, Any] = {}  # noqa: RUF012
    inner = False

    def __init__(self, url: str, model: str, tools: list[Any]) -> None:
        schemas = [schema_of(tool) for tool in tools]
        self.asked = {"model": f"openai/{model}", "api_base": url, "api_key": "none", "tools": schemas, **self.options}
        self.tools = {tool.__name__: tool for tool in tools}

    def take(self, messages: list[Any], message: Any) -> Any:
        if not message.tool_calls:
            return message.content
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in message.tool_calls
        ]
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in message.tool_calls:
            result = self.tools[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
        return None

    def run(self, query: str) -> str:
        messages: list[Any] = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": query}]
        while True:
            reply = litellm.completion(messages=messages, **self.asked)
            if (answer := self.take(messages, reply.choices[0].message)) is not None:
                return str(answer)

    async def arun(self, query: str) -> str:
        messages: list[Any] = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": query}]
        while True:
            reply = await litellm.acompletion(messages=messages, **self.asked)
            if (answer := self.take(messages, reply.choices[0].message)) is not None:
                return str(answer)

    async def astream(self, query: str) -> AsyncIterator[Any]:
        messages = [{"role": "user", "content": query}]
        usage = {"stream_options": {"include_usage": True}}
        stream = await litellm.acompletion(messages=messages, stream=True, **usage, **self.asked)
        text = []
        async for chunk in stream.completion_stream if self.inner else stream:
            if not isinstance(chunk, dict) and chunk.choices and chunk.choices[0].delta.content:
                text.append(chunk.choices[0].delta.content)
                yield chunk


Agent = Raw


def version() -> str:
    return version_of("litellm")
