"""Functions with several signatures: all of them offered together, or one of them chosen with `overload=`.

It runs without a key and without a network.
"""

import sys
from functools import singledispatch
from typing import Any, overload

import agentkit
from agentkit import JsonAgent, JsonTool

agentkit.log.show(sys.stdout)


@overload
def find_room(number: int) -> str: ...
@overload
def find_room(guest: str, floor: int = 1) -> str: ...
def find_room(**given: Any) -> str:
    """Find a room of the hotel.

    Args:
        number: The number of the room.
        guest: The name of the guest.
        floor: On which floor to look.
    """
    return "room 12" if "guest" in given else f"room {given['number']} is free"


@singledispatch
def describe(value: object) -> str:
    """Describe a number or a text."""
    return str(value)


@describe.register
def _(value: int) -> str:
    return f"{value} is {'even' if value % 2 == 0 else 'odd'}"


@describe.register
def _(value: str) -> str:
    return f"{value!r} has {len(value)} letters"


both = JsonTool(find_room)
by_number = JsonTool(find_room, name="find_room_by_number", overload=0)
of_number = JsonTool(describe, name="describe_number", description="Describe a whole number.", overload=[int])

print("both:  ", [sorted(branch["properties"]) for branch in both.parameters["anyOf"]])
print("chosen:", list(by_number.parameters["properties"]), of_number.parameters["properties"])
print("a call of the second:", both.call({"guest": "Ada"}))
print(JsonAgent(by_number, of_number)(query="Find room number 7, and describe the number 41."))
