# %% [markdown]
# # Build your own: a model, a policy, a listener
#
# The loop of an agent does nothing itself. It yields *effects*, "ask the model", "run these calls", and is sent what
# came of them. A *model* is whoever answers the first kind; a *policy* stands between the loop and the world and
# decides what becomes of an effect; a *listener* is shown what happens. Each of the three is a few lines, and none of
# them needs to know the others.

# %%
import json
import re
import sys
import time
from dataclasses import replace

import agentkit
from agentkit import JsonAgent, Session, ToolCall, Usage
from agentkit.core.flow import around, ask
from agentkit.core.messages import assistant
from agentkit.engine.model import AskModel, ModelAsked, ModelReplied, Reply, TextDelta
from agentkit.tools.execution.call_tools import CallTools, ToolFinished, ToolStarted


def area(width: float, height: float) -> float:
    """Calculates the area of a rectangle."""
    return width * height


# %% [markdown]
# ## A model
#
# It has a name and two generators, `ask` and `aask`, which yield the deltas, if there are any, and the `Reply` last.
# This one knows a single trick: it calls the first tool with the numbers it finds. A real backend sends
# `request.messages` and `request.tools.schemas("openai")` to wherever its model lives.


# %%
class Parrot:
    name = "parrot-1"

    def ask(self, request):
        heard = request.messages[-1]
        if heard["role"] == "user":
            tool = next(tool for tool in request.tools.values() if tool is not request.tools.answer)
            numbers = map(float, re.findall(r"\d+(?:\.\d+)?", heard["content"]))
            name, arguments = tool.name, dict(zip(tool.parameters["properties"], numbers, strict=False))
        else:
            name, arguments = "final_answer", {"text": f"Squawk! {heard['content']}!"}
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
# Everything an agent can do, it does with this model too: streams, for example, and `await`.

# %%
print([type(event).__name__ for event in agent.stream("And one of 3 by 3?")])
result = await agent.arun("And one of 2 by 2.5?")
result.answer

# %% [markdown]
# ## A policy
#
# A policy turns a flow of effects into another one. `around` makes one of a generator that handles a single effect: it
# may change the effect, answer it itself, ask again, or refuse. It does no I/O, and therefore serves blocking and
# asynchronous runs alike.
#
# This one looks only: it shows the effects as they pass.


# %%
def watched(effect):
    print("wish:   ", type(effect).__name__)
    outcome = yield from ask(effect)
    if isinstance(effect, AskModel | CallTools):
        print("outcome:", type(outcome).__name__)
    return outcome


JsonAgent(area, model=Parrot(), policies=[around(watched)])("How large is a room of 4 by 5 metres?")

# %% [markdown]
# This one changes what the model reads: addresses are hidden from it, while the conversation keeps them.


# %%
def customer(name: str) -> str:
    """Looks up a customer."""
    return f"{name}, customer since 2019, ada@example.org"


def discreet(effect):
    hidden = json.loads(re.sub(r"[\w.+-]+@[\w.-]+\w", "<address>", json.dumps(list(effect.request.messages))))
    return (yield from ask(replace(effect, request=replace(effect.request, messages=hidden))))


embedded = "offline"  # it repeats what it reads
agent = JsonAgent(customer, model=embedded, policies=[around(discreet, AskModel)])
result = agent.run('Look up the customer "Ada".')
print("the model said:", result.answer)
print("the tool said: ", result.calls[0].content)

# %% [markdown]
# And this one answers a request that was made before without asking again: a cache, in ten lines.


# %%
def remembered(known):
    def handle(effect):
        key = json.dumps([effect.model.name, list(effect.request.messages)])
        if key not in known:
            known[key] = yield from ask(effect)
        return known[key]

    return around(handle, AskModel)


known = {}
agent = JsonAgent(area, model=Parrot(), policies=[remembered(known)])
for _ in range(3):
    print(agent.run("4 by 5?", session=Session()).answer, "|", len(known), "replies known")

# %% [markdown]
# ## A listener
#
# A listener is a function of one event. It cannot change anything, so nothing can go wrong with it but itself. This one
# measures who takes how long.


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
    """Calculates an area, slowly."""
    time.sleep(0.3)
    return width * height


stopwatch = Stopwatch()
JsonAgent(slow_area, model=Parrot(), listeners=[stopwatch])("4 by 5?")
print(*stopwatch.lines, sep="\n")

# %% [markdown]
# The log is a listener as well, and so are the live view of the terminal and the traces. What a listener may see:

# %%
agentkit.log.show(sys.stdout, colour=False)
events = list(JsonAgent(area, model=Parrot()).stream("6 by 7?"))
agentkit.log.hide()
for event in events:
    print(f"{type(event).__module__:20} {type(event).__name__}")
