"""`annotate` describes a type from a library; every tool with such a parameter shows the texts to the model.

It runs without a key and without a network.
"""

import json
import sys
from dataclasses import dataclass

import agentkit
from agentkit import DefinitionError, JsonAgent, JsonTool, annotate

agentkit.log.show(sys.stdout)


@dataclass
class Parcel:  # imagine that it comes from a library
    w: float
    kind: str = "normal"


annotate(
    Parcel,
    description="A parcel to send.",
    fields={"w": "The weight in kilograms.", "kind": {"description": "How fast.", "enum": ["normal", "express"]}},
)

try:
    annotate(Parcel, fields={"kin": "How fast."})
except DefinitionError as error:
    print(error)


def price_of_parcel(parcel: Parcel) -> str:
    """Calculate the price of sending a parcel."""
    return f"{parcel.w * {'normal': 2, 'express': 5}[parcel.kind]:.2f} euros"


print(json.dumps(JsonTool(price_of_parcel).standard_schema["properties"]["parcel"], indent=2))

agent = JsonAgent(price_of_parcel, description="You work at a post office.")
print(agent(query="What is the price of an express parcel with a weight of 2.5 kilograms?"))
