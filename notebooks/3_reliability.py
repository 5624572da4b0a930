# %% [markdown]
# # Reliability
#
# Models slip and providers fail. This notebook makes both happen, on purpose, and watches what an agent does about it.
# A script plays the model, so that the slips come exactly where they are wanted; the provider is a server on this
# machine. No key, no network.

# %%
import sys

import agentkit
from agentkit import JsonAgent, Limits, ModelError, Paused, check_history, evidence, tool
from agentkit.testing import ModelServer, ScriptedModel, chaos

agentkit.log.show(sys.stdout, colour=False)


@tool(effect="read")
def price_of(item: str, currency: str = "EUR", tags: list[str] | None = None) -> float:
    """Looks up the price of an item of the shop.

    Args:
        item: The item, "tea" or "coffee".
        currency: A currency's code.
        tags: Words that the item must have.
    """
    return round({"tea": 3.5, "coffee": 4.25}[item] * {"EUR": 1, "USD": 1.1}[currency], 2)


def call(name, arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def answered(text):
    return call("final_answer", {"text": text})


# %% [markdown]
# ## Slips that are repaired
#
# What can only be meant in one way is run as it was meant, and each repair leaves a receipt: a warning in the
# log, `result.repairs` afterwards. A valid value is never changed.

# %%
slips = ScriptedModel(
    call("functions.priceOf", "```json\n{'item': 'tea', 'currency': 'USD',}\n```"),
    call("price_of", '{"arguments": {"item": "coffee", "tags": "[\\"hot\\"]"}}'),
    call("price_of", '{"item": "tea", "tags": "null"}'),
    answered("Tea is 3.85 dollars."),
)
result = JsonAgent(price_of, model=slips).run("What does tea cost in dollars?")

# %%
for repair in result.repairs:
    print(repair)

# %% [markdown]
# ## Slips that are told
#
# What could be meant in two ways, or in none, is not guessed. The model reads what was wrong and tries again; the run
# goes on. Here: a tool that does not exist, a parameter that does not exist, arguments that were cut off, a text
# instead of a call, and an error of the tool itself.

# %%
lost = ScriptedModel(
    call("cost_of", '{"item": "tea"}'),
    call("price_of", '{"product": "tea"}'),
    call("price_of", '{"item": "te'),
    "I think tea is cheap.",
    call("price_of", '{"item": "cocoa"}'),
    call("price_of", '{"item": "tea"}'),
    answered("Tea is 3.50 euros."),
)
result = JsonAgent(price_of, model=lost).run("What does tea cost?")
print(check_history(result.messages) or "the conversation is valid")

# %% [markdown]
# The result as a timeline, with the errors where they happened:

# %%
result

# %% [markdown]
# ## Answers that are not taken as they come
#
# `checks` look at the answer before it counts. `evidence()` wants every number in it to come from the query or a tool.

# %%
boaster = ScriptedModel(
    call("price_of", '{"item": "tea"}'), answered("Tea is 3.50 euros, 12 % off."), answered("Tea is 3.50 euros.")
)
JsonAgent(price_of, model=boaster, checks=[evidence()])("What does tea cost?")

# %% [markdown]
# ## A provider that fails
#
# `ModelServer` speaks the providers' HTTP on this machine, faults included. Here: too many requests, a connection that
# is reset, an overloaded server, and in between the two replies that were wanted. Only the request to the model is made
# again; no tool runs twice.

# %%
busy = {"status": 429, "headers": {"Retry-After": "0"}, "message": "slow down"}
overloaded = {"status": 503, "headers": {"Retry-After": "0"}, "message": "overloaded"}
replies = [busy, call("price_of", {"item": "tea"}), overloaded, busy, answered("Tea is 3.50 euros.")]
with ModelServer(replies) as server:
    agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")
    result = agent.run("What does tea cost?")
print(len(server.requests), "requests,", result.steps, "replies,", len(server.violations), "rules broken")

# %% [markdown]
# What cannot pass by waiting is raised at once, and says what to do. Nothing that was paid for is lost: the error
# carries the history and the usage.

# %%
with ModelServer({"status": 401, "message": "Incorrect API key provided"}) as server:
    agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="wrong")
    try:
        agent("What does tea cost?")
    except ModelError as error:
        print(error)
        print(error.kind, "|", len(error.history), "messages |", error.usage.requests, "requests paid for")

# %% [markdown]
# ## Chaos
#
# `chaos` puts faults of all these kinds at random in front of any model, with the same seed in the same way. A hundred
# runs, each with its own faults: the answer must be the same each time.

# %%
agentkit.log.hide()
answers, faults = set(), []
for seed in range(100):
    script = ScriptedModel(call("price_of", '{"item": "tea"}'), answered("3.50 euros"))
    model = chaos(script, seed, rate=0.5)
    answers.add(JsonAgent(price_of, model=model)("What does tea cost?"))
    faults += [injected.fault for injected in model.injected]
print(answers, "after", len(faults), "faults of", len(set(faults)), "kinds")
agentkit.log.show(sys.stdout, colour=False)

# %% [markdown]
# ## Limits
#
# A run has an end: in steps, tokens, seconds, dollars, tool calls. At the limit the model is asked for its answer one
# last time, so what was found out is not thrown away.


# %%
def undecided(request):
    return answered("Tea is 3.50 euros, more I could not find out.") if request.tool_choice != "auto" else look


look = call("price_of", '{"item": "tea"}')
endless = ScriptedModel([undecided] * 20)
result = JsonAgent(price_of, model=endless, limits=Limits(tool_calls=2)).run("Compare all prices.")
result.stopped

# %% [markdown]
# ## A person's word
#
# A tool with `effect="danger"` waits for one. Without somebody to ask the run pauses; it is a conversation like any
# other, can be saved, and goes on when the decision is there, tomorrow and in another process if need be.


# %%
@tool(effect="danger")
def order(item: str, pieces: int) -> str:
    """Orders an item."""
    return f"ordered: {pieces} times {item}"


buyer = ScriptedModel(call("order", '{"item": "tea", "pieces": 500}'), answered("I ordered 5 packs of tea."))
agent = JsonAgent(order, model=buyer)
try:
    agent("We need tea.")
except Paused as pause:
    session, waiting = pause.session, pause.calls
    print("waits:", *(f"{call.name}({call.arguments})" for call in waiting))

# %%
agent(session=session, approvals={waiting[0].id: {"item": "tea", "pieces": 5}})

# %% [markdown]
# ## Without a network
#
# The bundled tools say honestly when they cannot do their work, and the agent says it too. (Nobody listens at this
# address, which is how it looks without a network.)

# %%
from agentkit_tools import get_weather, weather

weather.GEOCODING_URL = "http://127.0.0.1:9/v1/search"
JsonAgent(get_weather, model="offline")("What is the weather in Kolkata?")
