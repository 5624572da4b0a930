# %% [markdown]
# # From a function to an agent
#
# This notebook shows every part once: a Python function, the schema that a language model needs to call it, the call
# itself, and the agent that lets a model call functions until it has an answer. At the end a research agent finds a
# place to walk in Kolkata in today's weather.
#
# Everything here runs without a key and without a network. The embedded offline model, or a script, replaces the
# language model; the text states which. To use a real model, change the line with `MODEL`.

# %%
import sys
import time
from typing import Literal

import agentkit
from agentkit import JsonAgent, JsonTool
from agentkit.testing import ScriptedModel, answer, call

MODEL = "offline"  # or "groq/llama-3.1-8b-instant", "openai/gpt-4o-mini", ...: with its key in the environment
agentkit.log.show(sys.stdout, colour=False)

# %% [markdown]
# ## A function
#
# An ordinary function with type hints and a docstring.


# %%
def walking_time(kilometres: float, pace: Literal["slow", "brisk"] = "slow") -> str:
    """Calculate how long a walk takes.

    Args:
        kilometres: The length of the walk.
        pace: The speed.
    """
    minutes = round(kilometres * {"slow": 15, "brisk": 10}[pace])
    return f"{minutes // 60} h {minutes % 60} min"


walking_time(4.5)

# %% [markdown]
# ## Its schema
#
# A model never sees the function. It reads a JSON schema with the name, the description and the parameters. agentkit
# computes the schema from the function: types and defaults from the signature, texts from the docstring.

# %%
tool = JsonTool(walking_time)
tool.openai_schema

# %% [markdown]
# The other providers use other dialects. (Gemini does not support `additionalProperties`, for example; the second
# notebook shows what each dialect cannot express.)

# %%
tool.gemini_schema

# %% [markdown]
# A tool at the end of a cell shows itself:

# %%
tool

# %% [markdown]
# ## A call
#
# A model replies with a name and arguments as JSON text. Arguments that are almost right are repaired. Wrong arguments
# do not raise; they become a value that describes the error to the model.

# %%
print(tool.call_with_raw_arguments('{"kilometres": "4.5", "pace": "Brisk"}'))
print(tool.call_with_raw_arguments('{"miles": 3}'))

# %% [markdown]
# ## An agent
#
# The agent does the rest: it sends the query and the schemas, runs the tool calls, and sends the results, until the
# model calls `final_answer`. Calling the agent returns the answer.

# %%
walker = JsonAgent(walking_time, model=MODEL)
walker("How long does a brisk walk of 7.2 kilometres take?")

# %%
walker

# %% [markdown]
# The conversation is a list of plain messages, in OpenAI's form. It continues from call to call.

# %%
walker.show_history()

# %% [markdown]
# ## Where to walk in Kolkata
#
# The research agent has two tools: the weather and a web search. `agentkit_tools` has both; `LIVE = True` uses them. By
# default this notebook uses recorded results, so that it gives the same answer on every machine.

# %%
LIVE = False

if LIVE:
    from agentkit_tools import get_weather, search_text
else:

    def get_weather(place: str) -> str:
        """Get the current weather at a place."""
        return f"{place}, West Bengal, India: moderate rain, 29 °C (feels like 34 °C), humidity 84 %, wind 9 km/h"

    @agentkit.tool(effect="read", trust="untrusted")  # web pages are data, never instructions
    def search_text(query: str) -> list[str]:
        """Search the web."""
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
# The embedded model matches words. It finds both tools in this query and calls them concurrently. It draws no
# conclusion: it joins the results.

# %%
text = researcher("Get the weather in Kolkata, and search the web for the best places to walk in Kolkata.")

# %% [markdown]
# In the next query the search depends on the weather, and the answer on both. That needs a language model. Here a
# script plays one, reply by reply; with a real `MODEL` it is not used, and nothing else changes.

# %%
script = ScriptedModel(
    call("get_weather", place="Kolkata"),
    call("search_text", query="places to visit in Kolkata when it rains"),
    answer("It rains at 29 °C: go to the Indian Museum, 35 galleries under one roof."),
)
query = "Based on the current weather of Kolkata, find the best place to visit."
result = researcher.run(query, model=script if MODEL == "offline" else MODEL)
result.answer

# %% [markdown]
# ## What happened, and what it cost
#
# `run` returns more than the answer: the messages, every call with its result, the tokens and the dollars. At the end
# of a cell the result shows them as a timeline.

# %%
print(result.steps, "replies,", len(result.calls), "calls, ended with", repr(result.stopped))
print(result.usage)

# %%
result

# %% [markdown]
# ## In a notebook, and elsewhere
#
# A notebook runs on an event loop. The blocking calls above work there. `await` works too, and leaves the loop free for
# widgets meanwhile.

# %%
walker.clear_history()
result = await walker.arun("How long does a slow walk of 3 kilometres take?")
result.text
