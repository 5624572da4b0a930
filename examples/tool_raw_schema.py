"""A tool from a foreign JSON Schema (of an MCP server or an OpenAPI file, for example) and any callable.

It runs without a key and without a network.
"""

import sys
from typing import Any

import agentkit
from agentkit import JsonAgent, JsonTool

agentkit.log.show(sys.stdout)

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "description": "The city of the museum."},
        "day": {"enum": ["saturday", "sunday"], "description": "The day of the visit."},
    },
    "required": ["city", "day"],
    "additionalProperties": False,
}


def remote_call(**arguments: Any) -> str:
    """Stand in for a request to the server."""
    return f"open in {arguments['city']} on {arguments['day']}: 9:00 to 17:00"


hours = JsonTool.from_schema(
    name="opening_hours", description="Look up the opening hours of the museum.", parameters=SCHEMA, call=remote_call
)

print(hours.call_with_raw_arguments('{"city": "Paris", "day": "monday"}'))
for loss in hours.losses("gemini"):
    print(f"Gemini: {loss.path} {loss.keyword} -> {loss.moved_to}")
print(JsonAgent(hours)(query="Tell me the opening hours of the museum in Paris on Sunday."))
