"""Ten everyday tools, and the agents of `benchmarks/evals.md`: one for real models, and one that plays a perfect one."""

# ruff: noqa: ARG001 (the tools have fixed results)

from typing import Any, Literal

from agentkit import JsonAgent, tool
from agentkit.evals import Case
from agentkit.testing import ScriptedModel, answer, call, calls

WEATHER = {"rome": "21 degrees, sunny", "oslo": "4 degrees, rain", "paris": "12 degrees, cloudy"}
PRICES = {"umbrella": 14.9, "kettle": 39.0, "notebook": 3.2, "desk lamp": 27.5, "backpack": 64.0}


@tool(effect="read")
def get_weather(city: str) -> str:
    """Tell the weather and the temperature in a city today."""
    return WEATHER.get(city.lower(), "17 degrees, windy")


@tool(effect="read")
def convert_currency(amount: float, source: str, target: str) -> str:
    """Convert an amount of money.

    Args:
        amount: How much money.
        source: The currency of the amount, as its code: EUR.
        target: The currency that is wanted, as its code: USD.
    """
    return f"{amount * 1.25:.2f} {target}"


@tool(effect="read")
def price_of(product: str) -> str:
    """Look up what a product of the shop costs."""
    known = (price for name, price in PRICES.items() if product.lower() in name or name in product.lower())
    return f"{next(known, 9.99):.2f} euros"


@tool(effect="read")
def travel_time(start: str, destination: str, by: Literal["car", "train", "bike", "foot"] = "car") -> str:
    """Tell how long it takes to get from one place to another."""
    return {"car": "48 minutes", "train": "35 minutes", "bike": "2 hours", "foot": "6 hours"}[by]


@tool(effect="read")
def translate(text: str, language: str) -> str:
    """Translate a text into another language."""
    return f"[{language}] {text}"


@tool(effect="read")
def list_events(day: str) -> str:
    """List what is in the calendar on a day of the week."""
    return "9:30 dentist; 14:00 choir"


@tool(effect="write")
def add_event(title: str, day: str, time: str) -> str:
    """Put an event into the calendar.

    Args:
        title: What happens.
        day: The day of the week.
        time: When it begins, as 18:30.
    """
    return f"added {title}, {day} {time}"


@tool(effect="write")
def send_message(person: str, text: str) -> str:
    """Send a short message to a person of the address book."""
    return f"sent to {person}"


@tool(effect="write")
def set_timer(minutes: int) -> str:
    """Set a kitchen timer."""
    return f"the timer rings in {minutes} minutes"


@tool(effect="write")
def switch_light(room: str, state: Literal["on", "off"]) -> str:
    """Switch the light of a room on or off."""
    return f"the light in the {room} is {state}"


TOOLS = [
    get_weather,
    convert_currency,
    price_of,
    travel_time,
    translate,
    list_events,
    add_event,
    send_message,
    set_timer,
    switch_light,
]
agent = JsonAgent(TOOLS, max_steps=4)


def play(case: Case) -> JsonAgent[str]:
    """Return an agent whose model makes the expected calls, and answers with them and their results."""
    made = [call(name, **fill(name, given)) for name, given in case.expected_calls]

    def end(request: Any) -> Any:
        results = [str(entry["content"]) for entry in request.messages if entry["role"] == "tool"]
        return answer(f"{made} {results}" if made else "I have no tool for that.")

    return JsonAgent(TOOLS, model=ScriptedModel([calls(*made)] * bool(made) + [end], name="scripted"))


def fill(name: str, expected: Any) -> dict[str, Any]:
    """Return arguments that fit the expected ones."""
    required = next(one for one in TOOLS if one.name == name).parameters["required"]
    return {**dict.fromkeys(required, "any"), **{key: choose(value) for key, value in expected.items()}}


def choose(expected: Any) -> Any:
    """Return a value that fits an expected one."""
    return expected["contains"] if isinstance(expected, dict) else expected
