"""Functions with all kinds of parameters: the table that every format is run over."""

import datetime
import decimal
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypeVar, Union

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import AnyUrl, BaseModel, Field, StringConstraints
from typing_extensions import TypedDict

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    A = "a"
    ONE = 1
    NONE = None
    HALF = 0.5
    YES = True


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = Field(9, gt=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, StringConstraints(min_length=1, max_length=20)]


class Tree(BaseModel):
    value: int
    kids: list["Tree"] = []


class Person(BaseModel):
    name: str = Field(description="The whole name.")
    boss: Optional["Person"] = None
    title: str = "Dr"
    pets: dict[str, Cat] = {}


class Husband(BaseModel):
    wife: Optional["Wife"] = None


class Wife(BaseModel):
    husband: Husband | None = None


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


class Empty(BaseModel):
    pass


class Open(BaseModel, extra="allow"):
    known: int


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    depth: int
    width: NotRequired[int]


class Loose(TypedDict, total=False):
    a: int


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Deep(BaseModel):
    inner: dict[str, list[tuple[int, Point]]] | None = None


def taking(annotation, *default):
    """A function with one parameter `x`."""
    if default:

        def take(x=default[0]):
            """Takes x."""
    else:

        def take(x):
            """Takes x."""

    take.__annotations__ = {"x": annotation}
    return take


PET = Annotated[Cat | Dog, Field(discriminator="kind")]

TYPES = {
    "str": str, "int": int, "float": float, "bool": bool, "none": None, "bytes": bytes,
    "bounded": Annotated[int, Ge(1), Lt(10)], "open_bounds": Annotated[float, Gt(0.5), Le(2.5)],
    "step": Annotated[int, MultipleOf(5)], "half_bound": Annotated[int, Gt(1), Ge(3)],
    "long": Annotated[str, StringConstraints(min_length=2, max_length=5)],
    "pattern": Annotated[str, StringConstraints(pattern=r"^[a-z]+$")], "infinite": Annotated[float, Le(float("inf"))],
    "literal": Literal["a", "b"], "literal_int": Literal[1, 2], "literal_one": Literal["only"],
    "literal_mixed": Literal["a", 1, None], "literal_bool": Literal[True], "literal_empty": Literal["", "x"],
    "optional_literal": Optional[Literal["a", "b"]], "color": Color, "level": Level, "mixed": Mixed,
    "optional_level": Level | None, "optional": Optional[int], "union": int | str | None,
    "union_numbers": Union[int, float], "union_nested": list[int] | dict[str, int] | Cat | None,
    "pet": PET, "pets": list[PET], "optional_pet": PET | None, "plain_union": Cat | Dog,
    "model": Cat, "optional_model": Annotated[Cat | None, Field(description="The best.")], "person": Person,
    "tree": Tree, "trees": list[Tree], "optional_tree": Tree | None, "husband": Husband, "page": Page[Cat],
    "pages": tuple[Page[int], Page[str]], "empty": Empty, "open": Open, "point": Point, "options": Options,
    "loose": Loose, "pair": Pair, "deep": Deep, "pair_tuple": tuple[float, str], "same_tuple": tuple[int, int],
    "variadic": tuple[int, ...], "empty_tuple": tuple[()], "model_tuple": tuple[Cat, Tree],
    "ints": list[int], "set": set[str], "frozen": frozenset[int], "nested": list[list[int]],
    "sized": Annotated[list[int], Field(min_length=1, max_length=3)], "sequence": Sequence[str],
    "map": dict[str, int], "map_models": dict[str, Cat], "map_any": dict[str, Any], "map_int_keys": dict[int, str],
    "map_literal": dict[Literal["a", "b"], int], "mapping": Mapping[str, float], "any": Any, "object": object,
    "list": list, "dict": dict, "list_any": list[Any], "optional_dict": dict | None, "date": datetime.date,
    "datetime": datetime.datetime, "time": datetime.time, "delta": datetime.timedelta, "uuid": uuid.UUID,
    "decimal": decimal.Decimal, "path": pathlib.Path, "regex": re.Pattern, "url": AnyUrl,
    "ip": ipaddress.IPv4Address, "examples": Annotated[str, Field(examples=["a", "b"], deprecated=True)],
    "described": Annotated[dict[str, int], Field(description="Counts.")],
    "described_union": Annotated[int | str, Field(description="Number or name.", gt=0)],
}  # fmt: skip


def nothing():
    """Does nothing."""


def star(*args: int, **kwargs: str):
    """Takes what comes."""


def only_keywords(**kwargs: int):
    """Takes any keys."""


def positional(a: int, /, b: int, *, c: int = 1):
    """Three kinds."""


def bare(a, b=2, c=None):
    """No annotations."""


def names(title: str, schema: int, type: str, properties: list[int], größe: float, 名前: str = "x", _private: int = 1):
    """Hard names."""


def many_defaults(
    a: str = 'say "hi"',
    b: float = 1.5,
    c: list[int] = [1, 2],
    d: Cat = Cat(kind="cat"),  # noqa: B008
    e: Color = Color.RED,
    f: dict[str, int] = {},
    g: bool = False,
    h: Level = Level.LOW,
    i: Literal["x"] | None = "x",
    j: float = float("inf"),
):
    """Defaults of all kinds."""


def implicit(x: int = None):  # noqa: RUF013
    """An implicit Optional."""


def described(a: int, b: Annotated[str, "The second."] = "x"):
    """Does much.

    Args:
        a: The first, at least 1.
    """


def two_models_of_one_name(a: Cat, b: list[Cat], c: Cat | None = None):
    """The same model three times."""


class Elsewhere:
    class Cat(BaseModel):
        whiskers: int
        friend: Cat | None = None


def homonyms(a: Cat, b: Elsewhere.Cat, c: Tree, d: Husband | None = None):
    """Two classes called Cat, two recursions."""


SIGNATURES = {
    **{name: taking(annotation) for name, annotation in TYPES.items()},
    **{f"{name}_or_none": taking(TYPES[name], None) for name in ("int", "list", "any", "model", "tree", "map", "color")},
    **{function.__name__: function for function in (
        nothing, star, only_keywords, positional, bare, names, many_defaults, implicit, described,
        two_models_of_one_name, homonyms,
    )},
}  # fmt: skip

HARD_NAMES = {
    "type": "object",
    "properties": {
        "with space": {"type": "string"}, "1st": {"type": "integer"}, "a.b": {"type": "number"}, "": {"type": "null"},
        "x" * 70: {"type": "boolean", "description": "long"}, "größe": {"type": "integer"}, "groe": {"type": "integer"},
        "title": {"type": "string", "title": "Title"}, "$ref": {"type": "string"},
        "deep": {"type": "array", "items": {"type": "object", "properties": {"größe": {}, "ok": True}, "required": ["größe"]}},
    },
    "required": ["with space", "größe"],
}  # fmt: skip

RAW = {
    "hard_names": HARD_NAMES,
    "root_reference": {
        "$ref": "#/$defs/pkg__mod__Node",
        "$defs": {"pkg__mod__Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/pkg__mod__Node"}}}},
    },
    "whole_reference": {"type": "object", "properties": {"kid": {"$ref": "#", "description": "A kid."}}},
    "draft7": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "definitions": {"T": {"type": "string", "title": "T"}}, "properties": {"t": {"$ref": "#/definitions/T"}},
    },
    "root_alternatives": {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        ]
    },
    "root_any_of_required": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": False,
    },
    "root_all_of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"minimum": 1}}},
        ]
    },
    "nested_any_of_required": {
        "type": "object",
        "properties": {"x": {
            "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": False,
        }},
    },
    "conditions": {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "not": {"const": 13}}, "l": {"type": "array", "contains": {"const": 1}, "minContains": 2},
            "o": {"type": "object", "properties": {"a": {"type": "integer"}}, "dependentRequired": {"a": ["b"]},
                  "patternProperties": {"^x": {"type": "integer"}}, "propertyNames": {"maxLength": 3}},
            "c": {"if": {"type": "string"}, "then": {"minLength": 2}},
        },
        "not": {"required": ["n", "l"]},
    },
    "lists_of_types": {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "integer"], "minLength": 2, "minimum": 3, "description": "Either."},
            "b": {"type": ["string", "null"], "enum": ["x", None]}, "c": {"type": ["array", "null"], "items": {"type": "integer"}},
            "d": {"enum": [1, 2.5]}, "e": {"enum": [[1], {"k": 2}]}, "f": {"const": None}, "g": {"enum": [None, ""]},
        },
    },
    "tuples": {
        "type": "object",
        "properties": {
            "open": {"type": "array", "prefixItems": [{"type": "integer"}]},
            "closed": {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "a"}], "items": False},
            "rest": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
            "old": {"type": "array", "items": True}, "any": True,
        },
    },
    "all_of": {
        "type": "object",
        "properties": {
            "one": {"allOf": [{"type": "string", "description": "inner"}], "description": "outer"},
            "two": {"allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "integer"}}},
            ], "additionalProperties": False},
            "clash": {"allOf": [{"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}]},
            "look": {"type": "string", "pattern": "^(?=a)", "minLength": 1},
        },
    },
    "missing": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "gone"]},
    "no_object": {"type": "array", "items": {"type": "integer"}},
    "empty_words": {"type": "object", "properties": {"a": {"type": "string", "deprecated": False, "uniqueItems": False}}},
}  # fmt: skip
"""Schemas from elsewhere (MCP servers, from_schema) with what pydantic never writes."""
