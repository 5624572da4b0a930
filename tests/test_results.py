"""What the model reads of a tool's result."""

from collections import namedtuple
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import BaseModel

from agentkit.results import render


@dataclass
class Weather:
    degrees: float

    def __str__(self) -> str:
        return f"{self.degrees} °C"


@dataclass
class Point:
    x: int
    y: int


class Book(BaseModel):
    title: str
    day: date


class Colour(Enum):
    RED = "red"


class Own:
    def __str__(self) -> str:
        return "my own words"


class Plain:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is <b>", "as it is <b>"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        ({"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        ([Point(1, 2)], '[{"x":1,"y":2}]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Weather(21.5), "21.5 °C"),
        (Book(title="T", day=date(2026, 1, 2)), '{"title":"T","day":"2026-01-02"}'),
        (Colour.RED, "red"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=1), "PT1M"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a/b"), "a/b"),
        ({1: "a"}, '{"1":"a"}'),
        (namedtuple("Pair", "a b")(1, 2), "[1,2]"),
        (float("inf"), "Infinity"),
        (Own(), "my own words"),
        (Plain(), "<Plain>"),
        ("é ünï", "é ünï"),
    ],
)
def test_render(value, text):
    assert render(value) == text


def test_a_set_is_a_list():
    assert render({3}) == "[3]"
