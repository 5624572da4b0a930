"""What the model reads of a tool's result."""

import json
import sys
import threading
from collections import namedtuple
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from agentkit.core.messages import ToolCall
from agentkit.tools.registry import ToolRegistry
from agentkit.tools.results.jsonable import MAX_ENTRIES
from agentkit.tools.results.result_text import MAX_IMAGE_BYTES, MAX_IMAGES, render_result, render_text


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


class Failing:
    def __str__(self) -> str:
        raise ValueError


class Words(dict):
    pass


class Said(NamedTuple):
    one: int

    def __str__(self) -> str:
        return f"one: {self.one}"


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
        ([Plain(), Own()], '["<Plain>","my own words"]'),
        (Failing(), "<Failing: its __str__ raised ValueError>"),
        ([float("nan"), -float("inf")], '["NaN","-Infinity"]'),
        (float("nan"), "NaN"),
        ({(1, 2): 3, None: 4, Colour.RED: 5, 1.5: 6}, '{"[1,2]":3,"null":4,"red":5,"1.5":6}'),
        ("a\ud800b", "a\ufffdb"),
        ({"\ud83d": "\ud83d\ude00"}, '{"\ufffd":"😀"}'),
        (Plain, "Plain"),
        (len, "len"),
        (lambda: 1, "<lambda>"),
        (json, "json"),
        (ValueError("no"), "ValueError: no"),
        (map(str, [1, 2]), '["1","2"]'),
        ({"a": 1}.items(), '[["a",1]]'),
        (range(3), "[0,1,2]"),
        (b"text", "text"),
        (b"\x00\x01", "[binary data, 2 bytes]"),
        (b"%PDF-1.7 ...", "[application/pdf, 12 bytes]"),
        (Words({"a": 1}), '{"a":1}'),
        (Said(1), "one: 1"),
        (SecretStr("key"), "**********"),
        ("é ünï", "é ünï"),
    ],
)
def test_render(value, text):
    assert render_text(value) == text


def test_a_set_is_a_list():
    assert render_text({3}) == "[3]"


def test_cycles_are_marked_and_depth_is_bounded():
    cycle: list = [1]
    cycle.append(cycle)
    assert render_text(cycle) == '[1,"<list again: a cycle>"]'
    point = Point(1, 2)
    point.y = {"point": point}
    assert render_text(point) == '{"x":1,"y":{"point":"<Point again: a cycle>"}}'
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert render_text(deep).count("[") == 60
    twice = ["x"]
    assert render_text([twice, twice]) == '[["x"],["x"]]', "the same thing in two places is no cycle"


class Part(BaseModel):
    name: str
    parent: "Part | None" = None
    parts: list["Part"] = []


def test_models_that_refer_to_each_other_are_shown():
    car = Part(name="car")
    car.parts = [Part(name=name, parent=car) for name in ("wheel", "door", "seat")]
    shown = json.loads(render_text(car))
    assert [each["name"] for each in shown["parts"]] == ["wheel", "door", "seat"]
    assert {each["parent"] for each in shown["parts"]} == {"<Part again: a cycle>"}


class Pair(BaseModel):
    left: Any = None
    right: Any = None

    @field_serializer("right")
    def _count(self, value: Any) -> Any:
        SERIALIZED.append(None)
        return value


SERIALIZED: list[None] = []


def test_models_that_share_their_parts_are_not_written_out_without_end():
    value = Pair()
    for _ in range(21):
        value = Pair(left=value, right=value)
    SERIALIZED.clear()
    assert render_text(value).startswith('{"left":{"left":')
    assert len(SERIALIZED) <= MAX_ENTRIES


def test_what_shares_its_parts_does_not_grow_without_end():
    value: list = [1]
    for _ in range(50):
        value = [value, value]
    assert len(render_text(value)) < 20_000_000


@pytest.mark.parametrize(
    "value",
    [object(), threading.Lock(), SimpleNamespace(x=object()), [iter], open, test_render.__code__],
    ids=["object", "lock", "namespace", "list", "function", "code"],
)
def test_no_address_is_ever_shown(value):
    assert " at 0x" not in render_text(value)


def test_a_forgotten_coroutine_is_reported_and_closed():
    async def later() -> int:
        return 1

    assert render_text([later()]) == '["(a coroutine that was not awaited)"]'


def test_an_iterator_that_raises_is_reported():
    def broken():
        yield 1
        raise OSError("gone")

    assert render_text({"rows": broken()}) == '{"rows":"<generator: OSError: gone>"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [({1: "a", "1": "b"}, '[["1","a"],["1","b"]]'), ({Plain(): 1, Plain(): 2}, '[["<Plain>",1],["<Plain>",2]]')],
)
def test_no_entry_is_lost_where_keys_have_the_same_text(value, text):
    assert render_text(value) == text


PNG = b"\x89PNG\r\n\x1a\n" + bytes(10)
IMAGES = {"png": PNG, "jpeg": b"\xff\xd8\xff\xe0...", "gif": b"GIF89a...", "webp": b"RIFF\x00\x00\x00\x00WEBPVP8 "}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_is_a_part_of_its_own(kind):
    shown = render_result({"name": "x", "image": IMAGES[kind]})
    assert shown.text == f'{{"name":"x","image":"[image/{kind}, {len(IMAGES[kind])} bytes]"}}'
    assert [part["type"] for part in shown.images] == ["image_url"]
    assert shown.images[0]["image_url"]["url"].startswith(f"data:image/{kind};base64,")


def test_images_are_bounded_in_size_and_number():
    assert render_result(PNG + bytes(MAX_IMAGE_BYTES)).images == []
    assert len(render_result([PNG] * 20).images) == MAX_IMAGES


def test_the_tool_message_of_an_image():
    def draw() -> bytes:
        """Draws."""
        return PNG

    result = ToolRegistry(draw).execute("draw")
    assert result.content == "[image/png, 18 bytes]"
    assert result.message["content"][0] == {"type": "text", "text": "[image/png, 18 bytes]"}
    assert result.message["content"][1]["type"] == "image_url"
    json.dumps(result.message)


def test_numpy_and_pandas_are_never_imported_and_known_when_they_are_there(monkeypatch):
    class Number:
        def item(self) -> int:
            return 7

    class Array:
        size = 2
        shape = (2,)
        dtype = SimpleNamespace(kind="i")

        def tolist(self) -> list[int]:
            return [1, 2]

    class Nothing:
        pass

    numpy = ModuleType("numpy")
    vars(numpy).update(generic=Number, ndarray=Array, datetime64=Nothing, timedelta64=Nothing)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    assert render_text({"n": Number(), "a": Array()}) == '{"n":7,"a":[1,2]}'
    monkeypatch.delitem(sys.modules, "numpy")
    assert render_text(Number()) == "<Number>"


KEYS = st.one_of(st.text(), st.integers(), st.none(), st.booleans(), st.floats(), st.tuples(st.integers()))
LEAVES = st.one_of(
    st.text(st.characters(categories=None)), st.integers(), st.floats(), st.binary(), st.none(), st.dates(),
    st.decimals(), st.uuids(), st.complex_numbers(), st.sampled_from([Plain(), Own(), Failing(), Colour.RED, len, int]),
)  # fmt: skip


@given(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner), st.dictionaries(KEYS, inner), st.tuples(inner, inner), st.builds(Point, inner, inner)
        ),
        max_leaves=15,
    )
)
def test_anything_is_rendered_as_valid_text(value):
    text = render_text(value)
    text.encode()
    if isinstance(value, list | dict | tuple):
        json.loads(text, parse_constant=pytest.fail)
    json.dumps(ToolRegistry(lambda_tool(value)).bind(ToolCall("1", "give")).invoke().message).encode()


def lambda_tool(value):
    def give() -> object:
        """Gives."""
        return value

    return give
