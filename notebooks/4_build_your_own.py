# %% [markdown]
# # Build your own: a model, a policy, a listener
#
# The loop of an agent does no I/O. It yields *steps* ("ask the model", "run these tool calls") and receives their
# outcomes. A *model* answers the first kind. A *policy* stands between the loop and the driver and decides about each
# step. A *listener* receives events. Each of the three takes a few lines and is independent of the others.

# %%
import json
import re
import sys
import time
from dataclasses import replace

import agentkit
from agentkit import JsonAgent, Session, ToolCall, Usage
from agentkit.events import ModelAsked, ModelReplied, ToolFinished, ToolStarted
from agentkit.models import Reply, TextDelta, assistant
from agentkit.policies import AskModel, CallTools, around, ask


def area(width: float, height: float) -> float:
    """Calculate the area of a rectangle."""
    return width * height


# %% [markdown]
# ## A model
#
# A model has a name and two generators, `ask` and `aask`, which may yield deltas and yield the `Reply` last. This one
# calls the first tool with the numbers of the query. A real backend sends `request.messages` and
# `request.tools.schemas("openai")` to its provider.


# %%
class Parrot:
    name = "parrot-1"

    def ask(self, request):
        last = request.messages[-1]
        if last["role"] == "user":
            tool = next(tool for tool in request.tools.values() if tool is not request.tools.answer)
            numbers = map(float, re.findall(r"\d+(?:\.\d+)?", last["content"]))
            name, arguments = tool.name, dict(zip(tool.parameters["properties"], numbers, strict=False))
        else:
            name, arguments = "final_answer", {"text": f"Squawk! {last['content']}!"}
        if request.stream:
            yield TextDelta("Squawk! ")
        message = assistant(None, [ToolCall(f"call_{len(request.messages)}", name, json.dumps(arguments))])
        yield Reply(message, Usage(requests=1, cost=0.0), "tool_calls", self.name)

    async def aask(self, request):
        for piece in self.ask(request):
            yield piece


agent = JsonAgent(area, model=Parrot())
agent("How large is a room of 4 by 5.5 metres?")

# %% [markdown]
# All features of an agent work with this model too: streams, for example, and `await`.

# %%
print([type(event).__name__ for event in agent.stream("And one of 3 by 3?")])
result = await agent.arun("And one of 2 by 2.5?")
result.answer

# %% [markdown]
# ## A policy
#
# A policy is a function from flow to flow. `around` makes one from a generator that handles a single step. The
# generator may change the step, answer it itself, repeat it, or raise. It does no I/O, so it works in blocking and
# async runs.
#
# The first policy only prints the steps.


# %%
def print_step(step):
    print("step:   ", type(step).__name__)
    outcome = yield from ask(step)
    if isinstance(step, AskModel | CallTools):
        print("outcome:", type(outcome).__name__)
    return outcome


JsonAgent(area, model=Parrot(), policies=[around(print_step)])("How large is a room of 4 by 5 metres?")

# %% [markdown]
# The second policy changes what the model reads: it hides addresses, which the history keeps.


# %%
def find_customer(name: str) -> str:
    """Look up a customer."""
    return f"{name}, customer since 2019, ada@example.org"


def hide_addresses(step):
    hidden = json.loads(re.sub(r"[\w.+-]+@[\w.-]+\w", "<address>", json.dumps(list(step.request.messages))))
    return (yield from ask(replace(step, request=replace(step.request, messages=hidden))))


embedded = "offline"  # it repeats what it reads
agent = JsonAgent(find_customer, model=embedded, policies=[around(hide_addresses, AskModel)])
result = agent.run('Look up the customer "Ada".')
print("the model read:   ", result.answer)
print("the tool returned:", result.calls[0].content)

# %% [markdown]
# The third policy answers a repeated request without asking the model: a cache, in ten lines.


# %%
def cache_replies(cache):
    def handle(step):
        key = json.dumps([step.model.name, list(step.request.messages)])
        if key not in cache:
            cache[key] = yield from ask(step)
        return cache[key]

    return around(handle, AskModel)


cache = {}
agent = JsonAgent(area, model=Parrot(), policies=[cache_replies(cache)])
for _ in range(3):
    print(agent.run("4 by 5?", session=Session()).answer, "|", len(cache), "replies cached")

# %% [markdown]
# ## A listener
#
# A listener is a function of one event. It observes a run and cannot change it. This one measures the time of each
# request and each call.


# %%
class Stopwatch:
    def __init__(self):
        self.begun, self.lines = {}, []

    def __call__(self, event):
        match event:
            case ModelAsked():
                self.begun["model"] = time.perf_counter()
            case ModelReplied(reply):
                self.note("model", reply.model)
            case ToolStarted(bound):
                self.begun[bound.call.id] = time.perf_counter()
            case ToolFinished(result):
                self.note(result.call.id, f"{result.call.name}({result.call.arguments})")

    def note(self, key, what):
        self.lines.append(f"{time.perf_counter() - self.begun.pop(key):.2f} s  {what}")


def slow_area(width: float, height: float) -> float:
    """Calculate an area, slowly."""
    time.sleep(0.3)
    return width * height


stopwatch = Stopwatch()
JsonAgent(slow_area, model=Parrot(), listeners=[stopwatch])("4 by 5?")
print(*stopwatch.lines, sep="\n")

# %% [markdown]
# The log is a listener as well, and so are the live view of the terminal and the traces. The events of one run:

# %%
agentkit.log.show(sys.stdout, colour=False)
events = list(JsonAgent(area, model=Parrot()).stream("6 by 7?"))
agentkit.log.hide()
print(*(type(event).__name__ for event in events))
