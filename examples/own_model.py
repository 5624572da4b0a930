"""Your own model backend: any object with `name`, `ask` and `aask`, here one that knows a single trick.

A real one would send `request.messages` and `request.tools.schemas("openai")` somewhere, as model="openai/gpt-4o-mini"
does already.
"""

import json
import re
from collections.abc import AsyncGenerator, Generator

from agentkit import JsonAgent, ToolCall, Usage
from agentkit.models import Reply, Request, TextDelta, assistant


class Parrot:
    """A model that calls the first tool with the numbers of the query, and repeats the result."""

    name = "parrot-1"

    def ask(self, request: Request) -> Generator[TextDelta | Reply, None, None]:
        last = request.messages[-1]
        if last["role"] == "user":
            tool = next(tool for tool in request.tools.values() if tool is not request.tools.answer)
            numbers = map(float, re.findall(r"\d+(?:\.\d+)?", last["content"]))
            name = tool.name
            arguments = dict(zip(tool.parameters["properties"], numbers, strict=False))
            text = "Squawk! Let me see."
        else:
            name = "final_answer"
            arguments = {"text": f"It is {last['content']}!"}
            text = ""
        if request.stream:
            for word in text.split():
                yield TextDelta(f"{word} ")
        message = assistant(text, [ToolCall(f"call_{len(request.messages)}", name, json.dumps(arguments))])
        words = sum(len(str(one.get("content")).split()) for one in request.messages)
        yield Reply(message, Usage(requests=1, input_tokens=words, cost=0.0), "tool_calls", self.name)  # always last

    async def aask(self, request: Request) -> AsyncGenerator[TextDelta | Reply, None]:
        for piece in self.ask(request):  # it takes no time; a real backend awaits here
            yield piece


def area(width: float, height: float) -> float:
    """Calculate the area of a rectangle."""
    return width * height


agent = JsonAgent([area], model=Parrot())
result = agent.run("How large is a room of 4 by 5.5 metres?")
print(result.answer)
print(f"{result.model}: {result.steps} replies, {result.usage.input_tokens} words read, ${result.cost}")
print("streamed:", [event.text for event in agent.stream("And one of 3 by 3?") if isinstance(event, TextDelta)])
