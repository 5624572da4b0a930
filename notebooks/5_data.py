# %% [markdown]
# # Questions about data
#
# A model that reads a table should not read it as JSON, in which each row repeats each name. This notebook shows how
# data goes to a model: files through SQL, a data frame from a tool or in a query, and a figure back.
#
# Everything here runs without a key and without a network. A script plays the language model, reply by reply; the
# tools, the SQL and the results are real. With a real `model=` nothing else changes.
#
# It needs `pip install -e ".[data]" pandas matplotlib` in a checkout.

# %%
import tempfile
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call
from agentkit_tools import table_tools

# %% [markdown]
# ## A folder with a CSV file
#
# `table_tools` gives the model two tools for a folder: one lists the tables, one runs a SELECT over them.

# %%
folder = Path(tempfile.mkdtemp())
(folder / "orders.csv").write_text(
    "day,city,euros\n2026-03-02,Rome,42.5\n2026-03-02,Pune,21\n2026-03-03,Rome,34\n2026-03-03,Oslo,80.25\n"
)
tools = table_tools(folder)
print(*(f"{tool.name}: {tool.description}" for tool in tools), sep="\n")

# %%
script = ScriptedModel(
    call("describe_tables"),
    call("query_tables", sql="SELECT city, sum(euros) AS euros FROM orders GROUP BY city ORDER BY euros DESC"),
    answer("Oslo brought the most, 80.25 euros; Rome 76.5 and Pune 21."),
)
result = JsonAgent(tools, model=script).run("Which city brought the most?")
print(result.answer)

# %% [markdown]
# This is the table as the model read it: columns with their types, the rows, and their number. The note around the
# text marks it as untrusted, as anyone may have written the file.

# %%
print(result.calls[1].content)

# %% [markdown]
# ## A tool that returns a data frame
#
# A frame of pandas or Polars goes to the model in the same form. The caller gets the frame itself.

# %%
orders = pd.read_csv(folder / "orders.csv", parse_dates=["day"])


@tool(effect="read")
def sum_by(column: str) -> pd.DataFrame:
    """Sum the euros of all orders by a column.

    Args:
        column: day or city.
    """
    return orders.groupby(column)[["euros"]].sum()


script = ScriptedModel(call("sum_by", column="city"), answer("Pune brought the least: 21 euros."))
result = await JsonAgent(sum_by, model=script).arun("Which city brought the least?")
print(result.calls[0].content)
type(result.calls[0].value)

# %% [markdown]
# A long frame does not fill the context: the model reads the first rows and the number of all.


# %%
@tool(effect="read")
def list_numbers() -> pd.DataFrame:
    """List numbers and their squares."""
    return pd.DataFrame({"number": range(10_000)}).eval("square = number * number")


script = ScriptedModel(call("list_numbers"), answer("There are 10,000."))
result = JsonAgent(list_numbers, model=script).run("How many are there?")
lines = result.calls[0].content.splitlines()
print(*lines[:3], "...", lines[-1], sep="\n")

# %% [markdown]
# ## A data frame in the query
#
# A query may be a list of texts and frames.

# %%
script = ScriptedModel(answer("3 March, with 114.25 euros."))
agent = JsonAgent(sum_by, model=script)
print(agent.run(["What was the best day?", orders]).answer)
print()
print(script.requests[0].messages[-1]["content"])

# %% [markdown]
# ## A figure back
#
# A figure of matplotlib, or any object with `savefig`, is an image for models that take images. The result at the end
# of a cell shows it beside the call.


# %%
@tool(effect="read")
def draw_sums(column: str) -> Figure:
    """Draw the euros of all orders by a column.

    Args:
        column: day or city.
    """
    figure = Figure(figsize=(3, 2), dpi=60)
    sums = orders.groupby(column)["euros"].sum()
    figure.subplots().bar([str(name) for name in sums.index], sums)
    return figure


script = ScriptedModel(call("draw_sums", column="city"), answer("Oslo's bar is the highest."))
result = JsonAgent(draw_sums, model=script).run("Draw the sums by city, and name the highest.")
result

# %% [markdown]
# ## Ask in a cell
#
# With `%load_ext agentkit` a cell that begins with `%%ask` is a question. The conversation continues from cell to cell.

# %%
# %load_ext agentkit

# %%
script = ScriptedModel(
    call("query_tables", sql="SELECT count(*) AS orders, max(day) AS last FROM orders"),
    answer("Four, the last ones on 3 March 2026."),
    call("query_tables", sql="SELECT round(avg(euros), 2) AS mean FROM orders"),
    answer("44.44 euros."),
)
analyst = JsonAgent(tools, model=script)

# %% tags=["active-ipynb"]
# %%ask analyst
# How many orders are there, and of when is the last?

# %% tags=["active-ipynb"]
# %%ask analyst
# And what is their mean?

# %%
analyst.show_history()
