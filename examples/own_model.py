"""A model backend of one's own: any object with `name`, `ask` and `aask`, here one that knows a single trick.

A real one would send `request.messages` and `request.tools.schemas("openai")` somewhere, as model="openai/gpt-4o-mini"
does already.
"""

import json
import re
from collections.abc import AsyncGenerator, Generator

from agentkit import JsonAgent, ToolCall, Usage
from agentkit.core.messages import assistant
from agentkit.engine.model import Reply, Request, TextDelta


class Parrot:
    """Calls the first tool with the numbers of the query, and repeats what the tool says."""

    name = "parrot-1"

    def ask(self, request: Request) -> Generator[TextDelta | Reply, None, None]:
        heard = request.messages[-1]
        if heard["role"] == "user":
            tool = next(tool for tool in request.tools.values() if tool is not request.tools.answer)
            numbers = map(float, re.findall(r"\d+(?:\.\d+)?", heard["content"]))
            name, arguments = tool.name, dict(zip(tool.parameters["properties"], numbers, strict=False))
            said = "Squawk! Let me see."
        else:
            name, arguments, said = "final_answer", {"text": f"It is {heard['content']}!"}, ""
        if request.stream:
            for word in said.split():
                yield TextDelta(f"{word} ")
        message = assistant(said, [ToolCall(f"call_{len(request.messages)}", name, json.dumps(arguments))])
        words = sum(len(str(one.get("content")).split()) for one in request.messages)
        yield Reply(message, Usage(requests=1, input_tokens=words, cost=0.0), "tool_calls", self.name)  # always last

    async def aask(self, request: Request) -> AsyncGenerator[TextDelta | Reply, None]:
        for piece in self.ask(request):  # it takes no time; a real backend awaits here
            yield piece


def area(width: float, height: float) -> float:
    """Calculates the area of a rectangle."""
    return width * height


agent = JsonAgent([area], model=Parrot())
result = agent.run("How large is a room of 4 by 5.5 metres?")
print(result.answer)
print(f"{result.model}: {result.steps} replies, {result.usage.input_tokens} words read, ${result.cost}")
print("streamed:", [event.text for event in agent.stream("And one of 3 by 3?") if isinstance(event, TextDelta)])
