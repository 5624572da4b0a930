"""`@tool` makes a tool: it is still a function, and has a schema in every provider's dialect.

It runs without a key and without a network.
"""

import json
import sys

import agentkit
from agentkit import JsonAgent, tool

agentkit.log.show(sys.stdout)


@tool(
    name="convert_currency",
    description="Convert an amount of euros into another currency.",
    parameters={"currency": {"description": "The code of the currency.", "enum": ["USD", "INR"]}},
)
def convert(amount: float, currency: str) -> str:
    return f"{amount * {'USD': 1.1, 'INR': 97.0}[currency]:.2f} {currency}"


print("still a function:   ", convert(10, "USD"))
print("for OpenAI, strict: ", json.dumps(convert.schema("openai_strict")))
print("for Gemini:         ", json.dumps(convert.gemini_schema))
print("as a model calls it:", convert.call_with_raw_arguments('{"amount": "12.5", "currency": "INR"}'))
print("a model's mistake:  ", convert.call_with_raw_arguments('{"amount": 1, "currency": "XXX"}'))
print()
print(JsonAgent(convert)(query="Convert 12.5 euros into INR."))
