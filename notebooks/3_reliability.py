# %% [markdown]
# # Reliability
#
# Models make mistakes and providers fail. This notebook provokes both and shows how an agent reacts. A script plays the
# model, so that each mistake comes at a known place; the provider is a server on this machine. No key, no network.

# %%
import sys

import agentkit
from agentkit import JsonAgent, Limits, ModelError, Paused, check_history, evidence, tool
from agentkit.testing import ModelServer, ScriptedModel, answer, call, chaos

agentkit.log.show(sys.stdout, colour=False)


@tool(effect="read")
def price_of(item: str, currency: str = "EUR", tags: list[str] | None = None) -> float:
    """Look up the price of an item of the shop.

    Args:
        item: The item, "tea" or "coffee".
        currency: A currency's code.
        tags: Words that the item must have.
    """
    return round({"tea": 3.5, "coffee": 4.25}[item] * {"EUR": 1, "USD": 1.1}[currency], 2)


def raw_call(name, arguments):
    """Return the reply of a model that wrote `arguments` as this text."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


# %% [markdown]
# ## Mistakes that are repaired
#
# Arguments with only one possible reading are repaired and run. Each repair is recorded: as a warning in the log, and
# in `result.repairs`. A valid value is never changed.

# %%
script = ScriptedModel(
    raw_call("functions.priceOf", "```json\n{'item': 'tea', 'currency': 'USD',}\n```"),
    raw_call("price_of", '{"arguments": {"item": "coffee", "tags": "[\\"hot\\"]"}}'),
    raw_call("price_of", '{"item": "tea", "tags": "null"}'),
    answer("Tea is 3.85 dollars."),
)
result = JsonAgent(price_of, model=script).run("What does tea cost in dollars?")

# %%
for repair in result.repairs:
    print(repair)

# %% [markdown]
# ## Mistakes that are reported to the model
#
# Where two readings are possible, or none, agentkit does not guess. The model reads the error and tries again; the run
# continues. Here: an unknown tool, an unknown parameter, truncated arguments, a text instead of a call, and an error of
# the tool itself.

# %%
script = ScriptedModel(
    call("cost_of", item="tea"),
    call("price_of", product="tea"),
    raw_call("price_of", '{"item": "te'),
    "I think tea is cheap.",
    call("price_of", item="cocoa"),
    call("price_of", item="tea"),
    answer("Tea is 3.50 euros."),
)
result = JsonAgent(price_of, model=script).run("What does tea cost?")
print(check_history(result.messages) or "the conversation is valid")

# %% [markdown]
# The result as a timeline, with the errors:

# %%
result

# %% [markdown]
# ## Answers that are checked
#
# `checks` are called with the answer before it is accepted. With `evidence()`, every number must come from the query or
# a tool.

# %%
script = ScriptedModel(
    call("price_of", item="tea"), answer("Tea is 3.50 euros, 12 % off."), answer("Tea is 3.50 euros.")
)
JsonAgent(price_of, model=script, checks=[evidence()])("What does tea cost?")

# %% [markdown]
# ## A provider that fails
#
# `ModelServer` speaks the providers' HTTP on this machine, faults included. Here the server is rate limited, then
# overloaded, and gives the two replies in between. Only the request to the model is retried; no tool runs twice.

# %%
busy = {"status": 429, "headers": {"Retry-After": "0"}, "message": "slow down"}
overloaded = {"status": 503, "headers": {"Retry-After": "0"}, "message": "overloaded"}
replies = [busy, call("price_of", item="tea"), overloaded, busy, answer("Tea is 3.50 euros.")]
with ModelServer(replies) as server:
    agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")
    result = agent.run("What does tea cost?")
print(len(server.requests), "requests,", result.steps, "replies,", len(server.violations), "rules broken")

# %% [markdown]
# A permanent failure is raised at once, with a remedy. Nothing that was paid for is lost: the error carries the history
# and the usage.

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
# `chaos` injects faults of all these kinds into any model, at random; the same seed gives the same faults. Here are a
# hundred runs, each with its own faults: the answer must be the same each time.

# %%
agentkit.log.hide()
answers, faults = set(), []
for seed in range(100):
    script = ScriptedModel(call("price_of", item="tea"), answer("3.50 euros"))
    model = chaos(script, seed, rate=0.5)
    answers.add(JsonAgent(price_of, model=model)("What does tea cost?"))
    faults += [injected.fault for injected in model.injected]
print(answers, "after", len(faults), "faults of", len(set(faults)), "kinds")
agentkit.log.show(sys.stdout, colour=False)

# %% [markdown]
# ## Limits
#
# Limits end a run: steps, tokens, seconds, dollars, tool calls. At a limit one final request asks for the answer, so
# that the results are not lost.


# %%
def reply_forever(request):
    is_final = request.tool_choice != "auto"
    return answer("Tea is 3.50 euros, more I could not find out.") if is_final else call("price_of", item="tea")


result = JsonAgent(price_of, model=ScriptedModel([reply_forever] * 20), limits=Limits(tool_calls=2)).run(
    "Compare all prices."
)
result.stopped

# %% [markdown]
# ## Approvals
#
# A call of a tool with `effect="danger"` needs approval. Without `approve=` the run pauses. The session can be saved,
# and continues with the decision, also on another day and in another process.


# %%
@tool(effect="danger")
def order(item: str, pieces: int) -> str:
    """Order an item."""
    return f"ordered: {pieces} times {item}"


script = ScriptedModel(call("order", item="tea", pieces=500), answer("I ordered 5 packs of tea."))
agent = JsonAgent(order, model=script)
try:
    agent("We need tea.")
except Paused as pause:
    session, waiting = pause.session, pause.calls
    print("waits:", *(f"{each.name}({each.arguments})" for each in waiting))

# %%
agent(session=session, approvals={waiting[0]: {"item": "tea", "pieces": 5}})

# %% [markdown]
# ## Without a network
#
# A bundled tool that fails raises an error with the reason, and the agent's answer contains it. (No server listens at
# this address, as without a network.)

# %%
from agentkit_tools import get_weather, weather

weather.GEOCODING_URL = "http://127.0.0.1:9/v1/search"
JsonAgent(get_weather, model="offline")("What is the weather in Kolkata?")
