# %% [markdown]
# # Tools of an MCP server
#
# The Model Context Protocol lets a program offer tools to any agent. This notebook writes a small server with the
# official SDK, starts it as a process, and gives its tools to an agent beside a function of its own.
#
# Everything here runs without a key and without a network: the server is a program on this machine, which speaks over
# standard input and output. A script plays the language model.
#
# It needs `pip install -e ".[mcp]"` in a checkout.

# %%
import sys
import tempfile
from pathlib import Path

from agentkit import JsonAgent, Paused, tool
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, answer, call, calls

# %% [markdown]
# ## A server
#
# Two tools: one reads, one changes something. The descriptions and the types are what a model will read.

# %%
program = Path(tempfile.mkdtemp()) / "shop.py"
program.write_text("""
from mcp.server import MCPServer

server = MCPServer("shop")
stock = {"tea": 12, "coffee": 3}


@server.tool(description="Count the items in stock.")
def count_stock(item: str) -> int:
    return stock.get(item, 0)


@server.tool(description="Order more of an item.")
def order(item: str, count: int) -> str:
    stock[item] = stock.get(item, 0) + count
    return f"ordered {count} {item}"


server.run()
""")
shop = MCPServer([sys.executable, str(program)], name="shop", effects={"count_*": "read", "order": "danger"})

# %% [markdown]
# `effects=` states what you know about the tools: that counting only reads, and that an order must be approved.
#
# ## Its tools
#
# A run opens a server and closes it. Inside of `with` it stays open for several runs and calls.

# %%
shop.__enter__()
for each in shop.tools.values():
    print(f"{each.name}: {each.description} effect={each.effect}")

# %%
print(shop.tools.execute("count_stock", '{"item": "tea"}').content)

# %% [markdown]
# Arguments are checked here, before the server gets them, and repaired where only one reading is possible.

# %%
print(shop.tools.execute("count_stock", '{"thing": "tea"}').content)

# %% [markdown]
# ## An agent with them
#
# An agent takes a server wherever it takes tools, together with functions.


# %%
@tool(effect="read")
def price_of(item: str) -> float:
    """Look up the price of an item, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]


script = ScriptedModel(
    calls(call("count_stock", item="tea"), call("price_of", item="tea")),
    answer("12 packs of tea, for 42 euros together."),
)
result = JsonAgent([price_of, shop], model=script).run("What is our tea worth?")
print(result.answer)

# %%
result

# %% [markdown]
# ## A call that changes something
#
# `order` has the effect "danger", so it waits for a person. The run pauses and states what it waits for; it continues
# with the decisions.

# %%
script = ScriptedModel(call("order", item="coffee", count=5), answer("5 packs of coffee are ordered."))
agent = JsonAgent(shop, model=script)
try:
    agent.run("Order 5 packs of coffee.")
except Paused as paused:
    waiting = paused.pending
    print(*(each.text for each in waiting), sep="\n")

# %%
print(agent.run(answers={each.id: True for each in waiting}).answer)
print(shop.tools.execute("count_stock", '{"item": "coffee"}').content)

# %% [markdown]
# ## The end
#
# Closing the server ends its process.

# %%
shop.__exit__(None, None, None)
