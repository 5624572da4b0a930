"""The research agent: weather and web search together, on where to walk in Kolkata.

Without a network the tools fail, the agent is told so, and says so; without a model the embedded one does what it can.
"""

import sys

import agentkit
from agentkit import JsonAgent
from agentkit_tools import get_weather, search_text

agentkit.log.show(sys.stdout)

agent = JsonAgent(
    [search_text, get_weather],
    description="You are a research agent who finds information and answers queries with its sources.",
)
print(agent(query="Get the weather in Kolkata, and search the web for the best places to walk in Kolkata."))
print()
agent.show_history()
