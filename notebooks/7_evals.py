# %% [markdown]
# # Evals: two models side by side
#
# A change of a model, a prompt or a tool is better or worse only on cases that you counted. An eval runs the agent on
# cases, checks what it did, and counts.
#
# Everything here runs without a key and without a network. The first model is the embedded offline model, which matches
# words. The second one is a small rule, written below. With real models only their names change.

# %%
import json
import re

from agentkit import JsonAgent, ToolCall, Usage, tool
from agentkit.evals import evaluate
from agentkit.models import Reply, assistant

# %% [markdown]
# ## The agent
#
# An ordinary agent with two tools.


# %%
@tool(effect="read")
def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25, "cake": 5.0}[item]


@tool(effect="read")
def count_stock(item: str) -> int:
    """Count the packs of an item in stock."""
    return {"tea": 12, "coffee": 3, "cake": 0}[item]


agent = JsonAgent([price_of, count_stock], model="offline")
agent("What is the price of tea?")

# %% [markdown]
# ## Another model
#
# A model is an object with a name and two generators. This one reads the question with a regular expression, calls one
# tool, and answers with its result.


# %%
class Rules:
    name = "rules-1"

    def ask(self, request):
        last = request.messages[-1]
        if last["role"] == "tool":
            made = ToolCall("call_2", "final_answer", json.dumps({"text": f"It is {last['content']}."}))
        else:
            item = re.search(r"tea|coffee|cake", last["content"])[0]
            name = "price_of" if "cost" in last["content"] else "count_stock"
            made = ToolCall("call_1", name, json.dumps({"item": item}))
        yield Reply(assistant(None, [made]), Usage(requests=1, cost=0.0), "tool_calls", self.name)

    async def aask(self, request):
        for piece in self.ask(request):
            yield piece


result = agent.run("What does coffee cost?", model=Rules())
result.answer

# %% [markdown]
# ## Cases
#
# A case has a query and what you expect of the calls, the answer and the use. The same cases can stand in a YAML file,
# for `agentkit eval` in the terminal and for pytest.

# %%
cases = [
    {"query": "What is the price of tea?", "calls": [{"price_of": {"item": "tea"}}], "answer": {"contains": "3.5"}},
    {"query": "What does the coffee cost?", "calls": [{"price_of": {"item": "coffee"}}], "not_called": ["count_stock"]},
    {"query": "How many packs of tea are in stock?", "answer": {"pattern": r"\b12\b"}, "limits": {"steps": 2}},
    {"query": "Count the stock of cake.", "calls": [{"count_stock": {"item": "cake"}}]},
]
report = evaluate(agent, cases, models=["offline", Rules()], trials=2, progress=False)

# %% [markdown]
# ## Side by side
#
# `pass^k` is the probability that k trials of a case all pass; the brackets are an interval of 95 %. The last line
# compares the models case by case.

# %%
print(str(report).partition("\nfailed:")[0])

# %% [markdown]
# ## Why a trial failed
#
# The report has each trial with its failures, its answer and its use.

# %%
for trial in report.trials:
    if not trial.passed and trial.number == 1:
        print(f"{trial.model}: {trial.case}", *trial.failures, sep="\n    ")

# %% [markdown]
# ## A judge of your own
#
# A function that raises `AssertionError` or returns whether an answer is right decides where a text cannot.


# %%
def is_a_sentence(answer):
    """The answer is a sentence."""
    assert re.fullmatch(r"[A-Z].*[.!?]", str(answer)), f"it is not a sentence: {answer!r}"


judged = [{"query": "What does the tea cost?", "answer": {"judge": is_a_sentence}}]
for model in ("offline", Rules()):
    print(evaluate(agent, judged, models=[model], progress=False).passed)

# %% [markdown]
# ## A baseline
#
# A report that is kept is the baseline of the next one: `agentkit eval --baseline` fails where a case became worse.

# %%
better = evaluate(agent, cases, models=[Rules()], progress=False)
baseline = evaluate(agent, cases, models=["offline"], progress=False)
for model, change in better.compare(baseline).items():
    print(f"{model} against the baseline: {change}")
