"""What a schema and a validated call cost, beside pydantic's bare TypeAdapter: `python benchmarks/schema.py`.

Every round measures all rows in turn, ours next to pydantic's, so that whatever slows the machine slows both; shown are
medians of CPU time over the rounds.  The README in this folder says what the rows mean.
"""

# ruff: noqa: ARG001 - it prints a table, and its functions need no bodies

import argparse
import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from time import process_time, process_time_ns
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from agentkit import JsonTool

SCHEMA_TARGET = 3.0
CALL_TARGET = 1.5
PEER_TARGET = 1.0


def small(place: str, days: int = 3, units: Literal["metric", "imperial"] = "metric") -> str:
    """Tells the weather of the next days.

    Args:
        place: A city.
        days: How many days to look ahead.
        units: Of which system the numbers are.
    """
    return place


class Priority(Enum):
    """How urgent it is: low can wait a week."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Address(BaseModel):
    """Where to deliver."""

    street: str = Field(description="Street and number.")
    city: str
    country: Annotated[str, Field(pattern="^[A-Z]{2}$")] = "IT"


@dataclass
class Line:
    """One line of the order.

    Attributes:
        item: The number of the article.
        quantity: How many pieces.
    """

    item: str
    quantity: int = 1
    tags: list[str] = field(default_factory=list)


def large(
    customer: str,
    lines: list[Line],
    address: Address,
    billing: Address | None = None,
    priority: Priority = Priority.NORMAL,
    day: date | None = None,
    discount: Annotated[float, Field(ge=0, le=0.5)] = 0.0,
    attempts: Annotated[int, Field(ge=1, le=5)] = 1,
    currency: Literal["EUR", "USD", "INR"] = "EUR",
    notes: dict[str, str] | None = None,
    spot: tuple[float, float] | None = None,
    gift: bool = False,
    code: int | str | None = None,
    weights: list[float] | None = None,
    channel: str = "web",
    language: str = "en",
) -> str:
    """Places an order for a customer, and says when it will be delivered.

    Args:
        customer: The number of the customer.
        lines: What is ordered.
        address: Where to deliver.
        billing: Where to send the bill, if elsewhere.
        priority: How urgent it is.
        day: The day of delivery.
        discount: The part of the price to take off.
        attempts: How often to try to deliver.
        currency: In which currency to pay.
        notes: What to tell the carrier.
        spot: Latitude and longitude of the door.
        gift: Whether to wrap it.
        code: The code of a voucher.
        weights: The weight of each line in kilograms.
        channel: Where the order comes from.
        language: In which language to write the mails.
    """
    return customer


class Item(BaseModel):
    """An article of an order."""

    number: str = Field(description="The number of the article.")
    quantity: int = Field(1, ge=1)


class Order(BaseModel):
    """An order that is complete."""

    items: list[Item]
    address: Address
    billing: Address | None = None
    notes: dict[str, str] = {}


def ready(order: Order) -> str:
    """Places an order.

    Args:
        order: What is ordered.
    """
    return order.address.city


ARGUMENTS: dict[str, dict[str, Any]] = {
    "small": {"place": "Kolkata", "days": 5, "units": "imperial"},
    "large": {
        "customer": "c-17",
        "lines": [{"item": "a", "quantity": 2, "tags": ["new"]}, {"item": "b"}, {"item": "c", "quantity": 7}],
        "address": {"street": "Via Roma 1", "city": "Torino"},
        "billing": {"street": "Park Street 2", "city": "Kolkata", "country": "IN"},
        "priority": "high",
        "day": "2026-11-21",
        "discount": 0.1,
        "notes": {"door": "blue"},
        "spot": [45.07, 7.69],
        "code": "XMAS",
        "weights": [0.5, 1.5, 2.5],
    },
}


@dataclass(frozen=True)
class Row:
    """One comparison: what is measured, ours and pydantic's, how often in a row, and how much longer ours may take."""

    name: str
    ours: Callable[[], Any]
    bare: Callable[[], Any]
    repeat: int
    target: float | None = None


def rows() -> list[Row]:
    """All comparisons; `bare` is what one has without agentkit."""
    found: list[Row] = []
    for function in (small, large):
        name = function.__name__
        text = json.dumps(ARGUMENTS[name])
        tool: JsonTool[..., Any] = JsonTool(function)
        adapter = adapter_of(function)
        assert tool.call(text) == adapter.validate_json(text)
        schemas = partial(bare, function)
        validated = partial(bare_call, adapter.validate_json, text)
        found += [
            Row(f"schema, {name}", partial(plain, function), schemas, 5, SCHEMA_TARGET),
            Row(f"schema + OpenAI form, {name}", partial(openai, function), schemas, 5),
            Row(f"validated call, {name}", partial(called, tool.arguments.bind, text), validated, 500, CALL_TARGET),
            Row(f"... guarded against slips, {name}", partial(tool.call_with_raw_arguments, text), validated, 500),
        ]
    if find_spec("pydantic_ai") is not None:
        theirs = import_module("pydantic_ai").Tool
        for function in (small, large, ready):
            name = f"beside pydantic-ai, {function.__name__}"
            found.append(
                Row(
                    name,
                    partial(openai, function),
                    partial(defined, theirs, function),
                    20,
                    None if function is small else PEER_TARGET,
                )
            )
    return found


def defined(tool: Callable[[Callable[..., Any]], Any], function: Callable[..., Any]) -> object:
    """Definition and schema, pydantic-ai's."""
    return tool(function).tool_def


def thousand_tools() -> list[tuple[str, float]]:
    """The CPU seconds of 1,000 tools: of functions, of given schemas, and of these with their OpenAI forms."""
    schema = {key: value for key, value in JsonTool(large).schema().items() if key != "description"}

    def of_schema(number: int) -> JsonTool[..., Any]:
        return JsonTool.from_schema(name=f"t{number}", description="Orders.", parameters=schema, call=dict)

    started = process_time()
    for number in range(1000):
        JsonTool(small, name=f"t{number}")
    functions = process_time()
    tools = [of_schema(number) for number in range(1000)]
    given = process_time()
    for tool in tools:
        _ = tool.openai_schema
    rendered = process_time()
    return [
        ("1,000 small functions", functions - started),
        ("1,000 given schemas of 16 parameters", given - functions),
        ("... with their OpenAI forms", rendered - functions),
    ]


def called(bind: Callable[[str], Callable[[], Any]], text: str) -> Any:
    """One call, validated by the schema layer alone."""
    return bind(text)()


def bare_call(validate: Callable[[str], Any], text: str) -> Any:
    """One call, validated and made by pydantic."""
    return validate(text)


def plain(function: Callable[..., Any]) -> object:
    """Definition and plain schema, ours."""
    return JsonTool(function).parameters


def openai(function: Callable[..., Any]) -> object:
    """Definition, plain schema and OpenAI form, ours."""
    return JsonTool(function).openai_schema


def bare(function: Callable[..., Any]) -> object:
    """Definition and schema, pydantic's: without descriptions."""
    return adapter_of(function).json_schema()


def adapter_of(function: Any) -> TypeAdapter[Any]:
    """pydantic's validator of a function."""
    return TypeAdapter(function)


def measured(found: Sequence[Row], rounds: int) -> list[tuple[Row, float, float]]:
    """For each row the medians of ours and of pydantic's in microseconds."""
    times: dict[str, tuple[list[float], list[float]]] = {row.name: ([], []) for row in found}
    gc.freeze()
    for _ in range(rounds):
        for row in found:
            for action, kept in zip((row.ours, row.bare), times[row.name], strict=True):
                gc.collect()  # so that neither side pays for the other's garbage
                start = process_time_ns()
                for _ in range(row.repeat):
                    action()
                kept.append((process_time_ns() - start) / row.repeat / 1000)
    return [(row, median(times[row.name][0]), median(times[row.name][1])) for row in found]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Schemas and validated calls beside pydantic's bare TypeAdapter.")
    parser.add_argument("--rounds", type=int, default=60, help="how often to measure each row (default: 60)")
    print(f"{'microseconds (median)':32} {'agentkit':>9} {'pydantic':>9} {'ratio':>6}  target")
    for row, ours, theirs in measured(rows(), parser.parse_args().rounds):
        ratio = ours / theirs
        wanted = "" if row.target is None else f"<= {row.target} {'met' if ratio <= row.target else 'MISSED'}"
        print(f"{row.name:32} {ours:9.1f} {theirs:9.1f} {ratio:6.2f}  {wanted}".rstrip())
    for name, seconds in thousand_tools():
        print(f"{name:42} {seconds:6.2f} s of CPU, <= 1 {'met' if seconds <= 1 else 'MISSED'}")


if __name__ == "__main__":
    main()
