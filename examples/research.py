"""The research agent: the weather and the web together, on where to walk in Kolkata.

It runs offline: recorded results replace the web, a script replaces the model.
AGENTKIT_MODEL="groq/llama-3.1-8b-instant", with its key, asks a real model and the real web.
"""

import os
import sys

import agentkit
import agentkit_tools
from agentkit import JsonAgent, evidence, tool
from agentkit.testing import ScriptedModel, answer, call

PAGES = {
    "Maidan": "The Maidan is Kolkata's largest park, 400 hectares of grass without shade; go there when it is dry.",
    "Indian Museum": "The Indian Museum on Chowringhee Road, founded in 1814, has 35 galleries, all of them indoors.",
    "Botanic Garden": "The Botanic Garden in Shibpur covers 109 hectares; its great banyan is older than 250 years.",
}


@tool(effect="read")
def get_weather(place: str) -> str:
    """Get the current weather at a place."""
    return f"{place}, West Bengal, India: moderate rain, 29 °C (feels like 34 °C), humidity 84 %, wind 9 km/h"


@tool(effect="read", trust="untrusted")
def search_text(query: str) -> list[dict[str, str]]:
    """Search the web."""
    return [{"title": title, "snippet": text} for title, text in PAGES.items() if "visit" in query]


script = ScriptedModel(
    call("get_weather", place="Kolkata"),
    call("search_text", query="places to visit in Kolkata when it rains"),
    answer("At 31 °C and rain, go indoors: the Indian Museum, founded in 1814, has 35 galleries."),
    answer("At 29 °C and rain, go indoors: the Indian Museum, founded in 1814, has 35 galleries."),
)
real = os.environ.get("AGENTKIT_MODEL")
agentkit.log.show(sys.stdout)
agent = JsonAgent(
    [agentkit_tools.get_weather, agentkit_tools.search_text] if real else [get_weather, search_text],
    model=real or script,
    description="You are a research agent who finds information and answers queries.",
    checks=[evidence()],  # a figure that no tool returned is rejected
)
result = agent.run("Based on the current weather of Kolkata, find the best place to visit.")
print(f"\n{result.answer}\n\n{result.steps} replies, {len(result.calls)} calls, ended with {result.stopped!r}")
