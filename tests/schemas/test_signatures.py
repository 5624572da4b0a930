"""What can be a tool, and what can be a parameter."""

import asyncio
import functools
import json
import math
import re
import sys
import typing
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import (
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
)
from uuid import UUID

import pytest
import typing_extensions
from pydantic import AliasChoices, AliasPath, BaseModel, Field

from agentkit import DefinitionError, JsonTool

T = TypeVar("T", bound=int)
UserId = NewType("UserId", int)
Alias = typing_extensions.TypeAliasType("Alias", list[int])


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Corner(Enum):
    TOP_LEFT = (0, 0)
    TOP_RIGHT = (0, 1)


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Painted(BaseModel):
    kind: Literal[Colour.RED] = Colour.RED
    coats: int


class Plain(BaseModel):
    kind: Literal[Mixed.TWO] = Mixed.TWO


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    a: int
    inner: Movie


class Pair(NamedTuple):
    x: int
    y: int = 7


@dataclass
class Point:
    x: float
    y: float = 0.0


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(9, ge=0)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Box(BaseModel, Generic[T]):
    content: T


class Aliased(BaseModel):
    first: int = Field(alias="firstName")


class Node(BaseModel):
    value: int
    next: Optional["Node"] = None


def taking(annotation: Any, *default: Any) -> JsonTool:
    def f(x):
        return x

    f.__annotations__ = {"x": annotation}
    f.__defaults__ = default or None
    return JsonTool(f, name="f", description="Takes x.")


@pytest.mark.parametrize(
    ("annotation", "written", "received"),
    [
        (str, "a", "a"),
        (int, 5, 5),
        (float, 5, 5.0),
        (bool, True, True),
        (bytes, "ab", b"ab"),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (object, "a", "a"),
        (Literal["a", 1, None], 1, 1),
        (Colour, "red", Colour.RED),
        (Level, 2, Level.HIGH),
        (Mixed, 1, Mixed.ONE),
        (Mixed, "two", Mixed.TWO),
        (Literal[Colour.RED], "red", Colour.RED),
        (Literal[Mixed.ONE, Mixed.TWO], 1, Mixed.ONE),
        (Literal[Corner.TOP_LEFT, "none"], "TOP_LEFT", Corner.TOP_LEFT),
        (list[Literal[Colour.RED, Level.HIGH]], ["red", 2], [Colour.RED, Level.HIGH]),
        (dict[Literal[Mixed.ONE, Mixed.TWO], int], {"1": 5, "two": 6}, {Mixed.ONE: 5, Mixed.TWO: 6}),
        (Painted | Plain, {"kind": "red", "coats": 2}, Painted(coats=2)),
        (typing.Annotated[Painted | Plain, Field(discriminator="kind")], {"kind": "two"}, Plain()),
        (Corner, "TOP_RIGHT", Corner.TOP_RIGHT),
        (list[Corner], ["TOP_LEFT"], [Corner.TOP_LEFT]),
        (Corner | None, None, None),
        (datetime, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        (date, "2026-01-02", date(2026, 1, 2)),
        (time, "03:04", time(3, 4)),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.10", Decimal("1.10")),
        (Path, "a/b", Path("a/b")),
        (re.Pattern, "a+", re.compile("a+")),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1, 2], [1, 2]),
        (Sequence[int], [1], [1]),
        (Iterable[int], [1], [1]),
        (typing.Iterable, ["a"], ["a"]),
        (Collection[Corner], ["TOP_LEFT"], [Corner.TOP_LEFT]),
        (set[int], [1, 1, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (deque[int], [1], deque([1])),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, float], {"1": 2}, {1: 2.0}),
        (dict[Literal["a", 1, None], int], {"null": 1, "1": 2}, {None: 1, 1: 2}),
        (Mapping[str, list[int]], {"a": [1]}, {"a": [1]}),
        (Movie, {"title": "A"}, {"title": "A"}),
        (Partial, {"inner": {"title": "A", "year": 1}}, {"inner": {"title": "A", "year": 1}}),
        (list[Movie], [{"title": "A", "year": 1}], [{"title": "A", "year": 1}]),
        (Pair, [1], Pair(1, 7)),
        (Point, {"x": 1}, Point(1.0)),
        (Cat | Dog, {"kind": "dog"}, Dog()),
        (typing.Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "lives": 3}, Cat(lives=3)),
        (Box[int], {"content": 3}, Box[int](content=3)),
        (Aliased, {"firstName": 3}, Aliased(firstName=3)),
        (Node, {"value": 1, "next": {"value": 2}}, Node(value=1, next=Node(value=2))),
        (UserId, 7, 7),
        (T, 3, 3),
        (list[T], [3], [3]),
        (Alias, [1], [1]),
        (Optional[int], None, None),
        (Union[int, str], "a", "a"),
        (int | list[int], [1], [1]),
        (typing.Annotated[int, Field(ge=1, le=5)], 5, 5),
        (typing.Annotated[str, Field(pattern="^a+$")], "aa", "aa"),
    ],
    ids=str,
)
def test_a_parameter_of_every_type_has_a_schema_and_arrives_as_such(annotation, written, received):
    tool = taking(annotation)
    json.dumps(tool.parameters, allow_nan=False)
    result = tool.call_with_raw_arguments(json.dumps({"x": written}))
    assert result == received
    assert type(result) is type(received)


def test_the_items_of_an_iterable_are_validated_before_the_call():
    begun = []

    def mark(names: Iterable[int]) -> list[int]:
        """Marks."""
        begun.append(names)
        return [*names, *names]

    tool = JsonTool(mark)
    assert tool.call_with_raw_arguments({"names": [1, "x"]}).message.startswith("names.1: ")
    assert not begun
    assert tool.call_with_raw_arguments({"names": "[1, 2]"}) == [1, 2, 1, 2]


def test_an_enum_without_json_values_is_offered_by_name():
    assert taking(Corner).parameters["properties"]["x"] == {"type": "string", "enum": ["TOP_LEFT", "TOP_RIGHT"]}


def test_null_for_a_parameter_that_has_a_default_means_the_default():
    assert taking(int, 3).call_with_raw_arguments('{"x": null}') == 3
    assert taking(Cat).call_with_raw_arguments('{"x": {"lives": null}}') == Cat()
    assert taking(int | None, 3).call_with_raw_arguments('{"x": null}') is None, "where null is valid it is null"
    assert "null" in taking(int).call_with_raw_arguments('{"x": null}').message


def test_forward_references_and_postponed_annotations(tmp_path, monkeypatch):
    (tmp_path / "postponed.py").write_text(
        "from __future__ import annotations\n"
        "from pydantic import BaseModel\n"
        "def make():\n"
        "    class Local(BaseModel):\n        n: int\n"
        "    from agentkit import JsonTool\n"
        '    def use(item: Local, later: Later | None = None) -> int:\n        """Uses."""\n        return item.n\n'
        "    return JsonTool(use)\n"
        "class Later(BaseModel):\n    m: int\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import postponed

    assert postponed.make().call_with_raw_arguments('{"item": {"n": 3}, "later": {"m": 1}}') == 3


def test_keys_of_an_unpacked_typed_dict_are_parameters():
    def book(**options: Unpack[Movie]) -> dict:
        """Books."""
        return dict(options)

    tool = JsonTool(book)
    assert tool.parameters["required"] == ["title"]
    assert tool.call_with_raw_arguments('{"title": "A"}') == {"title": "A"}
    assert tool.call_with_raw_arguments('{"title": "A", "year": 3}') == {"title": "A", "year": 3}


def test_a_parameter_with_the_name_of_an_unpacked_key_is_refused():
    def book(title: str, **options: Unpack[Movie]) -> dict:
        """Books."""

    with pytest.raises(DefinitionError, match=r"book: 'title' is a parameter and a key of its .* Rename one"):
        JsonTool(book)


@dataclass
class Parcel:
    weight: float
    seed: InitVar[int]
    kind: InitVar[str] = "normal"

    def __post_init__(self, seed: int, kind: str) -> None:
        self.label = f"{kind} {seed}"


def test_a_dataclass_as_a_tool_takes_what_its_constructor_takes():
    tool = JsonTool(Parcel, description="Sends.")
    assert tool.parameters["required"] == ["weight", "seed"]
    assert tool.call({"weight": 1, "seed": "7", "kind": "express"}).label == "express 7"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("int | 3", "f: the parameter 'x' has a type that Python cannot read .TypeError: "),
        ("the name of the city", "f: the parameter 'x' has a type that Python cannot read .SyntaxError: .*Annotated"),
        ({"a": int}, "f: the parameter 'x' has the type {'a': <class 'int'>.* Use a type that pydantic can validate"),
    ],
)
def test_an_annotation_that_is_no_type_is_refused(annotation, message):
    def f(first: int, x: str) -> int:
        """Does."""
        return first

    f.__annotations__["x"] = annotation
    f.__qualname__ = "f"
    with pytest.raises(DefinitionError, match=message):
        JsonTool(f)


class Guest(BaseModel):
    first: str = Field(validation_alias=AliasPath("names", 0), description="The first name.")
    last: str = Field(validation_alias=AliasPath("names", 1), default="")
    town: str = Field(validation_alias=AliasPath("address", "town"))
    code: str = Field(validation_alias=AliasChoices(AliasPath("address", "code"), "postcode"))
    age: int = Field(validation_alias=AliasPath("ages", -1), default=0)


def test_a_field_that_is_read_from_a_path_is_shown_there():
    (shown,) = JsonTool(greet).parameters["$defs"].values()
    names = [{"type": "string", "description": "The first name."}, {"type": "string", "default": ""}]
    assert shown["properties"] == {
        "postcode": {"type": "string"},
        "names": {"type": "array", "prefixItems": names, "minItems": 1},
        "address": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        "ages": {"type": "array"},
    }
    assert shown["required"] == ["postcode", "names", "address"]
    written = {"names": ["Ada"], "address": {"town": "Rome"}, "postcode": "1", "ages": [3, 4]}
    assert JsonTool(greet).call({"guest": written}).model_dump() == {
        "first": "Ada",
        "last": "",
        "town": "Rome",
        "code": "1",
        "age": 4,
    }


def greet(guest: Guest) -> Guest:
    """Greets."""
    return guest


def test_a_default_with_a_reference_in_it_is_no_part_of_the_schema():
    def load(source: dict = {"$ref": "a.json"}) -> dict:
        """Loads."""
        return source

    assert JsonTool(load).parameters["properties"]["source"] == {"type": "object", "additionalProperties": True}
    assert JsonTool(load).call({}) == {"$ref": "a.json"}


class Ticket(TypedDict):
    title: str
    seat: "NotRequired[int]"  # as under `from __future__ import annotations`


class Upgrade(typing_extensions.TypedDict, total=False):
    title: "Required[str]"
    seat: int


@pytest.mark.parametrize("keys", [Ticket, Upgrade])
def test_the_qualifiers_of_postponed_keys_are_read(keys):
    def book(ticket: keys) -> str:
        """Books."""
        return ticket["title"]

    def unpacked(**ticket: Unpack[keys]) -> str:
        """Books."""
        return ticket["title"]

    for tool, wrong in ((JsonTool(book), '{"ticket": {"seat": 3}}'), (JsonTool(unpacked), '{"seat": 3}')):
        place = tool.schema()
        place = place["properties"].get("ticket", place)
        assert place["required"] == ["title"]
        assert "missing, it is required" in str(tool.call_with_raw_arguments(wrong))
        assert tool.call_with_raw_arguments(wrong.replace('"seat": 3', '"title": "A"')) == "A"


def test_a_parameter_that_no_model_can_write_keeps_its_default():
    def f(x: int, callback: Callable[[int], int] = abs, lock: asyncio.Lock | None = None) -> int:
        """Does."""
        return callback(x)

    tool = JsonTool(f)
    assert list(tool.parameters["properties"]) == ["x"]
    assert tool.call_with_raw_arguments('{"x": -3}') == 3


def test_a_parameter_that_no_model_can_write_and_that_must_be_given_is_refused():
    def f(x: int, lock: asyncio.Lock) -> None:
        """Does."""

    with pytest.raises(DefinitionError, match=r"f: the parameter 'lock' has the type Lock.*default.*Injected\[Lock\]"):
        JsonTool(f)


def test_a_class_is_no_value_that_a_model_can_write():
    def make(kind: type[int]) -> int:
        """Makes."""
        return kind()

    with pytest.raises(DefinitionError, match=r"make: the parameter 'kind' has the type type\[int\], which a model"):
        JsonTool(make)


class Shop:
    """A shop."""

    def __init__(self, price: int = 2) -> None:
        self.price = price

    def total(self, count: int) -> int:
        """Price of several."""
        return self.price * count

    @classmethod
    def open(cls, price: int) -> int:
        """Opens one."""
        return cls(price).price

    @staticmethod
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    def __call__(self, n: int) -> int:
        """Buys."""
        return n


class AsyncShop:
    async def __call__(self, n: int) -> int:
        """Buys later."""
        return n


def counting(n: int) -> Iterator[int]:
    """Counts."""
    yield from range(n)


async def acounting(n: int) -> AsyncIterator[int]:
    """Counts later."""
    for number in range(n):
        yield number


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@functools.lru_cache
def cached(n: int) -> int:
    """Cached."""
    return n


@decorated
async def wrapped(n: int) -> int:
    """Wrapped."""
    return n


def blocking_wrapper(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return asyncio.run(function(*args, **kwargs))

    return wrapper


@blocking_wrapper
async def made_blocking(n: int) -> int:
    """A coroutine function made blocking."""
    return n


@pytest.mark.parametrize(
    ("callable_", "name", "arguments", "value"),
    [
        (Shop(3).total, "total", {"count": 2}, 6),
        (Shop.open, "open", {"price": 4}, 4),
        (Shop.double, "double", {"n": 4}, 8),
        (Shop(), "shop", {"n": 4}, 4),
        (AsyncShop(), "async_shop", {"n": 4}, 4),
        (functools.partial(Shop(3).total), "total", {"count": 2}, 6),
        (cached, "cached", {"n": 1}, 1),
        (wrapped, "wrapped", {"n": 1}, 1),
        (made_blocking, "made_blocking", {"n": 1}, 1),
        (counting, "counting", {"n": 3}, [0, 1, 2]),
        (acounting, "acounting", {"n": 3}, [0, 1, 2]),
        (math.factorial, "factorial", {"n": 4}, 24),
        (Point, "Point", {"x": 1}, Point(1.0)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_kind_of_callable_is_a_tool_in_both_worlds(callable_, name, arguments, value):
    tool = JsonTool(callable_, description=None if callable_ is not Point else "A point.")
    assert tool.name == name
    assert tool.call_with_raw_arguments(arguments) == value
    assert asyncio.run(tool.acall_with_raw_arguments(arguments)) == value


def test_names_that_shadow_what_frameworks_use():
    def f(func, args, kwargs, self, cls, schema, json, copy, model_config, model_fields, _private, validate, dict):
        """Does."""
        return [func, args, kwargs, self, cls, schema, json, copy, model_config, model_fields, _private, validate, dict]

    names = list(JsonTool(f).parameters["properties"])
    assert len(names) == 13
    values = {name: place for place, name in enumerate(names)}
    assert JsonTool(f).call_with_raw_arguments(json.dumps(values)) == list(range(13))


def test_a_field_as_default_is_metadata_not_a_value():
    def f(a: str = Field(description="The a."), b: int = Field(3, ge=1)):
        """Does."""
        return a, b

    tool = JsonTool(f)
    assert tool.parameters["required"] == ["a"]
    assert tool.parameters["properties"]["a"]["description"] == "The a."
    assert tool.call_with_raw_arguments({"a": "x"}) == ("x", 3)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs the type statement")
def test_the_type_statement():
    namespace: dict[str, Any] = {}
    exec("type Ids = list[int]\ndef f(ids: Ids):\n    'Does.'\n    return ids", namespace)
    assert JsonTool(namespace["f"]).call_with_raw_arguments({"ids": ["1"]}) == [1]
