"""The lock: what is written, and how changes are classified."""

import json
from dataclasses import dataclass
from datetime import date  # noqa: F401 - date and Union are named in signatures
from typing import Annotated, Any, Literal, Union, overload  # noqa: F401

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentkit import DefinitionError, JsonAgent, JsonTool, ToolRegistry
from agentkit.tools.lock import Change, compare_locks, format_lock, lock, read_lock


class Address(BaseModel):
    """An address."""

    city: str
    zip: str = ""


class LooseAddress(BaseModel):
    """An address."""

    city: str | None = None
    zip: str = ""


class LongAddress(BaseModel):
    """An address."""

    city: str
    zip: str = ""
    country: str


class Node(BaseModel):
    """A node."""

    value: int
    children: "list[Node]" = []


class WiderNode(BaseModel):
    """A node."""

    value: float
    children: "list[WiderNode]" = []


class NarrowerNode(BaseModel):
    """A node."""

    value: Literal[1, 2]
    children: "list[NarrowerNode] | None" = None


@dataclass
class Cat:
    """A cat."""

    kind: Literal["cat"]
    lives: int


@dataclass
class ShyCat:
    """A cat."""

    kind: Literal["cat"]


@dataclass
class Dog:
    """A dog."""

    kind: Literal["dog"]


Three = Annotated[int, Field(ge=1, le=3)]


def tool(signature: str, description: str = "Tells the weather.", name: str = "get_weather") -> JsonTool[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"def {name}({signature}):\n    return None", globals(), namespace)
    return JsonTool(namespace[name], description=description)


def changes(old: Any, new: Any) -> list[Change]:
    return compare_locks(lock(old), lock(new))


BREAKING = [
    ("days: int", "", "days", "removed"),
    ("days: int, city: str", "city: str", "days", "removed"),
    ("days: int", "number_of_days: int", "days", "renamed to number_of_days"),
    ("place: str, days: int", "places: str, days: int", "place", "renamed to places"),
    ("days: int", "days: int, city: str", "city", "added, required"),
    ("days: int = 1", "days: int", "days", "is required now"),
    ("days: int", "days: str", "days", "type integer -> string"),
    ("days: float", "days: int", "days", "type number -> integer"),
    ("days: int | None", "days: int", "days", "no longer takes null"),
    ("days: int | str", "days: str", "days", "no longer takes integer"),
    ("days: Any", "days: int", "days", "type anything -> integer"),
    ("unit: str", "unit: Literal['c', 'f']", "unit", 'takes only "c", "f" now'),
    ("unit: Literal['c', 'f', 'k']", "unit: Literal['c', 'f']", "unit", 'no longer takes "k"'),
    ("unit: Literal['c', 'f'] | None", "unit: Literal['c'] | None", "unit", 'no longer takes "f"'),
    ("unit: Literal['c']", "unit: int", "unit", "takes any integer now"),
    ("days: int", "days: Annotated[int, Field(le=7)]", "days", "maximum none -> 7"),
    ("days: Three", "days: Annotated[int, Field(ge=2, le=3)]", "days", "minimum 1 -> 2"),
    ("x: float", "x: Annotated[float, Field(gt=0)]", "x", "minimum none -> 0 (excluded)"),
    ("x: Annotated[float, Field(ge=0)]", "x: Annotated[float, Field(gt=0)]", "x", "minimum 0 -> 0 (excluded)"),
    ("x: int", "x: Annotated[int, Field(multiple_of=5)]", "x", "multipleOf none -> 5"),
    ("city: str", "city: Annotated[str, Field(max_length=5)]", "city", "maxLength none -> 5"),
    ("city: str", "city: Annotated[str, Field(pattern='^a')]", "city", 'pattern none -> "^a"'),
    ("day: str", "day: date", "day", 'format none -> "date"'),
    ("days: list[int]", "days: list[str]", "days[]", "type integer -> string"),
    ("days: list[int]", "days: set[int]", "days", "items must now differ"),
    ("days: list[int]", "days: Annotated[list[int], Field(min_length=1)]", "days", "minItems none -> 1"),
    ("at: tuple[float, float]", "at: tuple[float, int]", "at[1]", "type number -> integer"),
    ("at: tuple[float, float]", "at: tuple[float, float, float]", "at", "minItems 2 -> 3"),
    ("scores: dict[str, float]", "scores: dict[str, int]", "scores.*", "type number -> integer"),
    ("to: Address", "to: LongAddress", "to.country", "added, required"),
    ("to: LooseAddress", "to: Address", "to.city", "is required now"),
    ("to: list[LongAddress]", "to: list[Address]", "to[].country", "removed"),
    ("to: WiderNode", "to: Node", "to.value", "type number -> integer"),
    ("to: Node", "to: NarrowerNode", "to.value", "takes only 1, 2 now"),
    ("pet: Cat | Dog", "pet: Cat", "pet", "no longer takes object with kind"),
    ("pet: Cat | Dog", "pet: ShyCat | Dog", "pet.lives", "removed"),
    ("**extra: int", "", "*", "no longer takes others"),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), BREAKING)
def test_what_takes_less_is_breaking(old, new, path, message):
    assert Change("get_weather", path, "breaking", message) in changes(tool(old), tool(new))


COMPATIBLE = [
    ("", "days: int = 1", "days", "added, optional"),
    ("days: int", "days: int, city: str = ''", "city", "added, optional"),
    ("days: int", "days: int = 1", "days", "may be left out now"),
    ("days: int = 1", "days: int = 2", "days", "default 1 -> 2"),
    ("days: int", "days: float", "days", "type integer -> number"),
    ("days: int", "days: int | None", "days", "now also takes null"),
    ("days: int", "days: int | str", "days", "now also takes string"),
    ("days: int", "days: Any", "days", "type integer -> anything"),
    ("unit: Literal['c', 'f']", "unit: Literal['c', 'f', 'k']", "unit", 'now also takes "k"'),
    ("unit: Literal['c', 'f']", "unit: str", "unit", "takes any string now"),
    ("days: Three", "days: int", "days", "maximum 3 -> none"),
    ("days: Three", "days: Annotated[int, Field(ge=0, le=3)]", "days", "minimum 1 -> 0"),
    ("x: Annotated[int, Field(multiple_of=10)]", "x: Annotated[int, Field(multiple_of=5)]", "x", "multipleOf 10 -> 5"),
    ("city: Annotated[str, Field(pattern='^a')]", "city: str", "city", 'pattern "^a" -> none'),
    ("day: date", "day: str", "day", 'format "date" -> none'),
    ("days: set[int]", "days: list[int]", "days", "items may now be equal"),
    ("at: tuple[int, int]", "at: tuple[int, float]", "at[1]", "type integer -> number"),
    ("to: LongAddress", "to: LongAddress | None", "to", "now also takes null"),
    ("to: Address", "to: LooseAddress", "to.city", "may be left out now"),
    ("to: Node", "to: WiderNode", "to.value", "type integer -> number"),
    ("pet: Cat", "pet: Cat | Dog", "pet", "now also takes object with kind"),
    ("a: Annotated[int, 'One.']", "a: Annotated[int, 'Two.']", "a", "another description"),
    ("", "**extra: int", "*", "now also takes others"),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), COMPATIBLE)
def test_what_takes_more_or_only_says_it_otherwise_is_compatible(old, new, path, message):
    found = changes(tool(old), tool(new))
    assert Change("get_weather", path, "compatible", message) in found
    assert {change.kind for change in found} == {"compatible"}


SAME = [
    ("a: int, b: str = 'x'", "*, b: str = 'x', a: int"),
    ("a: int | None", "a: None | int"),
    ("a: Annotated[int, Field(ge=1)]", "a: Annotated[int, Field(gt=0)]"),
    ("to: Node", "to: Node"),
    ("to: Cat | Dog", "to: Dog | Cat"),
    ("a: Literal['x', 'y']", "a: Literal['y', 'x']"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_another_order_is_no_change(old, new):
    assert changes(tool(old), tool(new)) == []


def test_tools_may_be_added_but_not_removed_or_renamed():
    old = [tool("a: int", name="one"), tool("b: int", name="two"), tool("c: int", name="three")]
    new = [tool("a: int", name="one"), tool("b: int", name="second"), tool("d: str", name="four")]
    assert changes(old, new) == [
        Change("four", "", "compatible", "added"),
        Change("three", "", "breaking", "removed"),
        Change("two", "", "breaking", "renamed to second"),
    ]


def test_another_text_of_a_tool_is_compatible():
    assert changes(tool("", "Tells the weather."), tool("", "Tells the weather of today.")) == [
        Change("get_weather", "", "compatible", "another description")
    ]


def test_signatures_of_an_overloaded_function_are_compared_one_by_one():
    @overload
    def find(id: int) -> str: ...
    @overload
    def find(name: str, country: str = "") -> str: ...
    def find(**given: Any) -> str:
        """Finds a person."""
        return ""

    both, first = JsonTool(find), JsonTool(find, overload=0)
    assert changes(both, both) == []
    assert {change.kind for change in changes(first, both)} == {"compatible"}
    assert Change("find", "", "breaking", "no longer takes object with name, country") in changes(both, first)


def test_breaking_changes_of_a_tool_stand_first():
    kinds = [change.kind for change in changes(tool("a: int, b: int"), tool("a: int = 1, c: str = ''"))]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"breaking", "compatible"}


def raw(**schema: Any) -> dict[str, Any]:
    return {"version": 1, "tools": {"t": {"type": "object", "properties": {"a": schema}}}}


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ({"not": {"type": "null"}}, {}, "compatible", 'not {"type": "null"} -> none'),
        ({}, {"not": {"type": "null"}}, "breaking", 'not none -> {"type": "null"}'),
        ({"allOf": [{"minimum": 1}]}, {"allOf": [{"minimum": 2}]}, "breaking", 'allOf [{"minimum": 1}] -> [{"minimum": 2}]'),
        ({"const": 1}, {"enum": [1, 2]}, "compatible", "now also takes 2"),
        ({"enum": [1, True]}, {"enum": [1]}, "breaking", "no longer takes true"),
        ({"type": ["string", "null"]}, {"type": "string"}, "breaking", "no longer takes null"),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, "breaking", "type anything -> string"),
    ],
)  # fmt: skip
def test_schemas_from_elsewhere_are_compared_with_care(old, new, kind, message):
    assert [(change.kind, change.message) for change in compare_locks(raw(**old), raw(**new))] == [(kind, message)]


def test_a_lock_is_plain_sorted_json_and_reads_back():
    registry = ToolRegistry(tool("b: int, a: Node", name="second"), tool("a: Address", name="first"))
    locked = lock(registry)
    assert list(locked["tools"]) == ["first", "second"]
    assert locked["tools"]["first"]["description"] == "Tells the weather."
    text = format_lock(locked)
    assert read_lock(text) == locked == json.loads(text)
    assert text == format_lock(lock(registry)) == format_lock(lock([*registry.values()][::-1]))
    assert text.endswith("}\n")


def test_an_agents_answer_tool_is_not_locked():
    agent = JsonAgent(tool("a: int"), model="offline")
    assert list(lock(agent.tools)["tools"]) == ["get_weather"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 2, "tools": {}}', '{"tools": {}}'])
def test_what_is_no_lock_file_is_said(text):
    with pytest.raises(DefinitionError, match="lock file"):
        read_lock(text)


LEAVES = st.sampled_from(["int", "str", "float", "bool", "None", "Any", "date", "Literal['a', 'b']", "Address", "Node"])
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda hint: f"list[{hint}]"),
        inner.map(lambda hint: f"dict[str, {hint}]"),
        st.tuples(inner, inner).map(lambda hints: f"tuple[{hints[0]}, {hints[1]}]"),
        st.tuples(inner, inner).map(lambda hints: f"Union[{hints[0]}, {hints[1]}]"),
    ),
    max_leaves=4,
)


@given(TYPES, TYPES)
def test_a_schema_is_compatible_with_itself_and_with_a_union_of_it(hint, other):
    assert changes(tool(f"a: {hint}"), tool(f"a: {hint}")) == []
    assert [c for c in changes(tool(f"a: {hint}"), tool(f"a: Union[{hint}, {other}]")) if c.kind == "breaking"] == []
