# %% [markdown]
# # Tools and schemas
#
# What can be a tool, what a model reads about it, and how its arguments are validated. No model is needed: tools are
# plain objects, and you can call them as a model would.

# %%
import datetime
import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from agentkit import Injected, JsonAgent, JsonTool, RunContext, ToolError, ToolRegistry, compare_locks, lint, lock, tool

# %% [markdown]
# ## From types to schemas
#
# The schema describes what the model may write. The function receives the Python value: the enum member, the date, the
# object.


# %%
class Room(Enum):
    SINGLE = "single"
    DOUBLE = "double"


@dataclass
class Guest:
    """A person who stays.

    Attributes:
        name: As in the passport.
        age: In years.
    """

    name: str
    age: int | None = None


@tool
def book(
    room: Room,
    arrival: datetime.date,
    guests: list[Guest],
    nights: Annotated[int, Field(ge=1, le=30, description="How many nights.")] = 1,
    floor: Annotated[Literal["low", "high"], "Where the room should be."] = "low",
) -> str:
    """Book a room.

    Args:
        room: Its kind.
        arrival: The first day.
        guests: All guests.
    """
    leaves = arrival + datetime.timedelta(nights)
    return f"{room.name}, {arrival:%d %B} to {leaves:%d %B}, for {' and '.join(guest.name for guest in guests)}"


book.standard_schema

# %%
print(book.call_with_raw_arguments('{"room": "double", "arrival": "2026-03-02", "guests": [{"name": "Ada"}]}'))
print(book(Room.SINGLE, datetime.date(2026, 3, 2), [Guest("Bo")]))  # it is still the function

# %% [markdown]
# ## What a model reads after a mistake
#
# All mistakes at once, each under its parameter, with the expected schema and a valid example.

# %%
print(book.call_with_raw_arguments('{"room": "suite", "arrival": "soon", "guests": "Ada", "night": 45}').message)

# %% [markdown]
# ## One definition, eight dialects
#
# A constraint that a dialect cannot express is not dropped silently: it moves into a description, and `losses` lists
# it.

# %%
for dialect in ("json", "openai", "openai_strict", "responses", "response_format", "anthropic", "gemini", "mcp"):
    size, losses = len(json.dumps(book.schema(dialect))), book.losses(dialect)
    print(f"{dialect:16} {size:5} characters, {len(losses)} losses")
for loss in book.losses("gemini"):
    print(f"    {loss.path or '/'}: {loss.keyword} -> {loss.moved_to}")

# %% [markdown]
# Recursive types use references, or are unrolled where a provider does not support references.


# %%
class Task(BaseModel):
    """A task and its parts."""

    title: str
    parts: "list[Task]" = []


@tool
def count(task: Task) -> int:
    """Count the tasks in a task, itself included."""
    return 1 + sum(map(count, task.parts))


print(json.dumps(count.schema("openai")["function"]["parameters"], indent=1)[:420], "...")
count.call_with_raw_arguments({"task": {"title": "move", "parts": [{"title": "pack"}, {"title": "drive"}]}})

# %% [markdown]
# ## What else can be a tool
#
# Functions and coroutine functions, methods, partials, overloads, classes with `execute`, one pydantic model of
# arguments, or a foreign JSON Schema. The files `examples/tool_*.py` show one each.


# %%
class Thermostat:
    """A heating system."""

    degrees = 19.0

    def read(self) -> float:
        """Read the temperature that is set."""
        return self.degrees

    async def turn_to(self, degrees: float) -> str:
        """Set the temperature."""
        self.degrees = degrees
        return f"set to {degrees:g}"


class OpenDoorArgs(BaseModel):
    """Open a door of the house."""

    door: Literal["front", "garden"] = Field(description="Which one.")


schema = {"type": "object", "properties": {"room": {"enum": ["kitchen", "hall"]}}, "required": ["room"]}
house = ToolRegistry.from_object(Thermostat()).prefixed("heating_")
house = house.merged(
    JsonTool.from_model(OpenDoorArgs, lambda args: f"the {args.door} door is open"),
    JsonTool.from_schema(
        name="light", description="Turn a light on.", parameters=schema, call=lambda room: f"light in the {room}"
    ),
)
house

# %%
for name, arguments in [
    ("heating_turn_to", '{"degrees": 21}'),
    ("heating_read", "{}"),
    ("openDoor", '{"door": "garden"}'),  # a misspelt name: repaired
    ("lights", '{"room": "attic"}'),  # close, but not certain: an error with a suggestion
]:
    print(f"{name:16} {house.execute(name, arguments).content}")

# %% [markdown]
# ## What the model does not see
#
# Parameters of type `RunContext` or `Injected[T]` are filled by the program: a connection, a user's name, the run
# itself.


# %%
@dataclass
class Customer:
    name: str


@tool
def my_orders(year: int, customer: Injected[Customer], run: RunContext) -> str:
    """List the orders of a year."""
    if year < 2000:
        raise ToolError("no orders exist from before 2000")  # the model reads exactly this
    return f"{customer.name} ordered tea in {year}"


print(list(my_orders.parameters["properties"]))
agent = JsonAgent(my_orders, model="offline", deps=Customer("Ada"))
agent("List my orders of the year 2024.")

# %% [markdown]
# ## Before others rely on it
#
# `lint` reports definitions that mislead a model or that a provider rejects. `lock` records the schemas, and
# `compare_locks` reports later changes that break callers; in a terminal: `agentkit lint`, `agentkit lock --check`.


# %%
def send(to: str, n: int, data: dict):
    """Sends."""


for finding in lint([send]):
    print(f"{finding.severity:8} {finding.path or '/':5} {finding.message}")


# %%
@tool(name="light")
def new_light(room: Literal["kitchen"], colour: str = "white") -> str:
    """Turn a light on."""
    return f"{colour} light in the {room}"


for change in compare_locks(lock([house["light"]]), lock([new_light])):
    print(f"{change.kind:10} {change.tool}, {change.path}: {change.message}")
