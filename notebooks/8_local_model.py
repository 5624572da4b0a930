# %% [markdown]
# # A model in this process
#
# A language model is a file of weights, and a small one runs inside of this notebook: no key, no server, no network.
# This notebook uses SmolLM2 with 135 million weights, which is enough to see a real model at work, and not enough to
# trust it. Any larger GGUF file takes its place by its path.
#
# It needs `pip install -e ".[local]"` in a checkout, and once `agentkit models get smollm2`, which fetches 98 MB.

# %%
from typing import Literal

from agentkit import JsonAgent, tool

MODEL = "local/smollm2"  # or the path of a GGUF file: "local/weights/qwen3-4b.gguf"

# %% [markdown]
# ## A tool
#
# An enum of items leaves the model no choice of names that do not exist.


# %%
@tool(effect="read")
def price_of(item: Literal["tea", "coffee"]) -> float:
    """Look up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]


agent = JsonAgent(price_of, model=MODEL, temperature=0, max_steps=4)
agent

# %% [markdown]
# ## A question
#
# The reply follows a grammar that is made from the schemas of the tools. Therefore each call names a tool that exists
# and has arguments that fit, whatever the weights write.

# %%
result = agent.run("What is the price of coffee?")
for done in result.calls:
    print(done.call.name, done.call.arguments, "->", done.content)

# %% [markdown]
# ## The answer
#
# A model of this size may say nothing useful, even beside the right result. Evals count how often.

# %%
print(result.answer)

# %% [markdown]
# ## What it cost
#
# Tokens are counted as anywhere else. The price is nothing.

# %%
print(result.usage.requests, "requests,", result.usage.input_tokens > 0, result.usage.cost)

# %% [markdown]
# ## Data as an answer
#
# With `answer=` a class or a type the grammar holds for the answer as well: the type is certain, the content is not.

# %%
choice = JsonAgent(price_of, model=MODEL, temperature=0, max_steps=4, answer=Literal["tea", "coffee"])
chosen = choice.run("Which drink is cheaper, tea or coffee?")
print(chosen.answer in ("tea", "coffee"))

# %% [markdown]
# ## The conversation

# %%
result
