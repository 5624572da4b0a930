"""A plain function is a tool: its name, type hints, defaults and docstring are all that a model needs.

It runs without a key and without a network.
"""

import json
import sys

import agentkit
from agentkit import JsonAgent, JsonTool

agentkit.log.show(sys.stdout)

TRAINS = {"Rome": ["07:10", "09:40", "13:05"], "Milan": ["08:00", "12:30"]}


def find_trains(city: str, count: int = 2) -> list[str]:
    """Find the next trains to a city.

    Args:
        city: Where to go, "Rome" for example.
        count: How many trains to list at most.
    """
    return TRAINS.get(city, [])[:count]


print(json.dumps(JsonTool(find_trains).standard_schema, indent=2))

agent = JsonAgent(find_trains, description="You work at the information desk of a station.")
print(agent(query="Find the trains to Rome."))
