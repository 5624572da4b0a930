"""A handler with one pydantic model: its fields are the parameters, its docstring the description.

It runs without a key and without a network.
"""

import sys
from typing import Literal

from pydantic import BaseModel, Field

import agentkit
from agentkit import JsonAgent, JsonTool

agentkit.log.show(sys.stdout)


class BookTableArgs(BaseModel):
    """Book a table in the restaurant."""

    guests: int = Field(ge=1, le=8, description="How many people will come.")
    place: Literal["inside", "terrace"] = Field("inside", description="Where to sit.")


class MenuPriceArgs(BaseModel):
    """Look up the price of a dish of the menu."""

    dish: Literal["pizza", "pasta", "salad"] = Field(description="The dish.")


def book(args: BookTableArgs) -> str:
    return f"a table for {args.guests}, {args.place}"


# The name of the tool comes from the model: BookTableArgs -> book_table.
booking = JsonTool(book)
# The same for a handler without annotations, or one that is used for several models.
price = JsonTool.from_model(MenuPriceArgs, lambda args: {"pizza": 9.5, "pasta": 8.0, "salad": 6.5}[args.dish])

print(booking, price, sep="\n")
print(booking.call_with_raw_arguments('{"guests": 12}'))
print()
agent = JsonAgent(booking, price, description="You work in a restaurant.")
print(agent(query="Book a table for 4 guests on the terrace, and tell me the price of the pizza."))
