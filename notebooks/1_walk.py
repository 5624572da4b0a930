# %% [markdown]
# # From a function to an agent
#
# This notebook goes the whole way once: a Python function, the schema a language model needs to call it, the call
# itself, and then the agent that lets a model call functions until it has an answer. At the end a research agent finds
# out where to walk in Kolkata in today's weather.
#
# Everything here runs without a key and without a network. Where a language model would be asked, the embedded offline
# model answers, or a script; each time the text says which. `MODEL` below is the one line to change for a real one.

# %%
import sys
import time
from typing import Literal

import agentkit
from agentkit import JsonAgent, JsonTool
from agentkit.testing import ScriptedModel

MODEL = "offline"  # or "groq/llama-3.1-8b-instant", "openai/gpt-4o-mini", ...: with its key in the environment
agentkit.log.show(sys.stdout, colour=False)

# %% [markdown]
# ## A function
#
# Nothing about it is special: it has type hints and a docstring.


# %%
def walking_time(kilometres: float, pace: Literal["slow", "brisk"] = "slow") -> str:
    """Tells how long a walk takes.

    Args:
        kilometres: The length of the walk.
        pace: How fast one walks.
    """
    minutes = round(kilometres * {"slow": 15, "brisk": 10}[pace])
    return f"{minutes // 60} h {minutes % 60} min"


walking_time(4.5)

# %% [markdown]
# ## Its schema
#
# A model never sees the function. It is told in JSON what the function is called, what it is for and which parameters
# it takes. All of that stands in the function already, so it is read from there: the types and defaults from the
# signature, the words from the docstring.

# %%
tool = JsonTool(walking_time)
tool.openai_schema

# %% [markdown]
# The other providers want the same in other words. (Gemini knows no `additionalProperties`, for example; the second
# notebook looks at what each dialect cannot say.)

# %%
tool.gemini_schema

# %% [markdown]
# A tool at the end of a cell shows itself:

# %%
tool

# %% [markdown]
# ## A call
#
# A model answers with a name and a JSON text of arguments. What is almost right is put right; what is wrong does not
# raise, but becomes a value that tells the model what to write instead.

# %%
print(tool.call_with_raw_arguments('{"kilometres": "4.5", "pace": "Brisk"}'))
print(tool.call_with_raw_arguments('{"miles": 3}'))

# %% [markdown]
# ## An agent
#
# The agent does the rest: it sends the query and the schemas, runs the calls that come back, sends the results, and so
# on, until the model calls `final_answer`. Calling the agent gives the answer.

# %%
walker = JsonAgent(walking_time, model=MODEL)
walker("How long does a brisk walk of 7.2 kilometres take?")

# %%
walker

# %% [markdown]
# The conversation is a list of plain messages, in the form all providers share. It goes on from call to call.

# %%
walker.show_history()

# %% [markdown]
# ## Where to walk in Kolkata
#
# The research agent has two tools: the weather and a web search. `agentkit_tools` has both. With `LIVE = True` they are
# used; this notebook replays what they once said, so that it comes to the same end on every machine.

# %%
LIVE = False

if LIVE:
    from agentkit_tools import get_weather, search_text
else:

    def get_weather(place: str) -> str:
        """Gets the current weather at a place."""
        return f"{place}, West Bengal, India: moderate rain, 29 °C (feels like 34 °C), humidity 84 %, wind 9 km/h"

    @agentkit.tool(effect="read", trust="untrusted")  # what is found on the web is data, never an instruction
    def search_text(query: str) -> list[str]:
        """Searches the web."""
        time.sleep(0.5)  # the web takes a moment
        return [
            "Maidan: Kolkata's largest park, 400 hectares of grass without shade; best when it is dry.",
            "Indian Museum: on Chowringhee Road, founded in 1814, 35 galleries under one roof.",
            "Botanic Garden: 109 hectares in Shibpur; its great banyan is older than 250 years.",
        ]


DESCRIPTION = "You are a research agent who finds information and answers queries with its sources."
researcher = JsonAgent([get_weather, search_text], model=MODEL, description=DESCRIPTION)
print(researcher.instruction)

# %% [markdown]
# The embedded model matches words. It finds both tools in this query and calls them side by side, but it draws no
# conclusion: it puts the results together.

# %%
answer = researcher("Get the weather in Kolkata, and search the web for the best places to walk in Kolkata.")

# %% [markdown]
# This query is another matter: what to search for depends on the weather, and the answer on both. That takes a language
# model. Here a script plays one, reply by reply; with a real `MODEL` it is left out, and nothing else changes.


# %%
def call(name, **arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


script = ScriptedModel(
    call("get_weather", place="Kolkata"),
    call("search_text", query="places to visit in Kolkata when it rains"),
    call("final_answer", text="It rains at 29 °C: go to the Indian Museum, 35 galleries under one roof."),
)
query = "Based on the current weather of Kolkata, find the best place to visit."
result = researcher.run(query, model=script if MODEL == "offline" else MODEL)
result.answer

# %% [markdown]
# ## What happened, and what it cost
#
# `run` gives more than the answer: the messages, every call with its result, the tokens and the dollars. At the end of
# a cell the result shows them as a timeline.

# %%
print(result.steps, "replies,", len(result.calls), "calls, ended with", repr(result.stopped))
print(result.usage)

# %%
result

# %% [markdown]
# ## In a notebook, and elsewhere
#
# A notebook runs on an event loop. The calls above work on it all the same; `await` works as well, and leaves the loop
# free for other cells and widgets meanwhile.

# %%
walker.clear_history()
result = await walker.arun("How long does a slow walk of 3 kilometres take?")
result.text
