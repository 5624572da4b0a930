"""The lock: what is written, and how changes are reported."""

import json
from dataclasses import dataclass
from datetime import date  # noqa: F401 - date and Union are named in signatures
from typing import Annotated, Any, Literal, Union, overload  # noqa: F401

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field  # noqa: F401

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


def tool(signature: str, description: str = "Tells the weather.", name: str = "get_weather") -> JsonTool[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"def {name}({signature}):\n    return None", globals(), namespace)
    return JsonTool(namespace[name], description=description)


def changes(old: Any, new: Any) -> list[Change]:
    return compare_locks(lock(old), lock(new))


BREAKING = [
    ("days: int", "", "days", "removed"),
    ("days: int", "number_of_days: int", "number_of_days", "added, required"),
    ("days: int = 1", "days: int", "days", "now required"),
    ("days: int", "days: str", "days", "type integer -> string"),
    ("days: int", "days: float", "days", "type integer -> number"),
    ("days: int | None", "days: int", "days", "removed: null"),
    ("days: Any", "days: int", "days", "type anything -> integer"),
    ("unit: str", "unit: Literal['c', 'f']", "unit", 'enum none -> ["c", "f"]'),
    ("unit: Literal['c', 'f', 'k']", "unit: Literal['c', 'f']", "unit", 'removed: "k"'),
    ("unit: Literal['c', 'f'] | None", "unit: Literal['c'] | None", "unit", 'removed: "f"'),
    ("days: int", "days: Annotated[int, Field(le=7)]", "days", "maximum none -> 7"),
    ("days: Annotated[int, Field(le=7)]", "days: int", "days", "maximum 7 -> none"),
    ("city: str", "city: Annotated[str, Field(pattern='^a')]", "city", 'pattern none -> "^a"'),
    ("days: list[int]", "days: list[str]", "days[]", "type integer -> string"),
    ("at: tuple[float, float]", "at: tuple[float, int]", "at[1]", "type number -> integer"),
    ("at: tuple[float, float]", "at: tuple[float, float, float]", "at", "minItems 2 -> 3"),
    ("scores: dict[str, float]", "scores: dict[str, int]", "scores.*", "type number -> integer"),
    ("to: Address", "to: LongAddress", "to.country", "added, required"),
    ("to: list[LongAddress]", "to: list[Address]", "to[].country", "removed"),
    ("to: WiderNode", "to: Node", "to.value", "type number -> integer"),
    ("to: Node | None", "to: WiderNode | None", "to.value", "type integer -> number"),
    ("pet: Cat | Dog", "pet: Cat", "pet", "removed: object with kind"),
    ("pet: Cat | Dog", "pet: ShyCat | Dog", "pet.lives", "removed"),
    ("**extra: int", "", "", 'additionalProperties {"type": "integer"} -> false'),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), BREAKING)
def test_what_was_removed_or_changed_is_breaking(old, new, path, message):
    assert Change("get_weather", path, "breaking", message) in changes(tool(old), tool(new))


COMPATIBLE = [
    ("", "days: int = 1", "days", "added, optional"),
    ("days: int", "days: int = 1", "days", "now optional"),
    ("days: int = 1", "days: int = 2", "days", "default 1 -> 2"),
    ("days: int", "days: int | None", "days", "added: null"),
    ("unit: Literal['c', 'f']", "unit: Literal['c', 'f', 'k']", "unit", 'added: "k"'),
    ("to: Address", "to: LooseAddress", "to.city", "now optional"),
    ("pet: Cat", "pet: Cat | Dog", "pet", "added: object with kind"),
    ("a: Annotated[int, 'One.']", "a: Annotated[int, 'Two.']", "a", 'description "One." -> "Two."'),
    ("a: Annotated[int, Field(examples=[1])]", "a: int", "a", "examples [1] -> none"),
]


@pytest.mark.parametrize(("old", "new", "path", "message"), COMPATIBLE)
def test_other_texts_and_defaults_and_optional_additions_are_compatible(old, new, path, message):
    found = changes(tool(old), tool(new))
    assert Change("get_weather", path, "compatible", message) in found
    assert {change.kind for change in found} == {"compatible"}


SAME = [
    ("a: int, b: str = 'x'", "*, b: str = 'x', a: int"),
    ("a: int | None", "a: None | int"),
    ("to: Node", "to: Node"),
    ("to: Cat | Dog", "to: Dog | Cat"),
    ("a: Literal['x', 'y']", "a: Literal['y', 'x']"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_another_order_is_not_a_change(old, new):
    assert changes(tool(old), tool(new)) == []


def test_tools_may_be_added_but_not_removed():
    old = [tool("a: int", name="one"), tool("b: int", name="two"), tool("c: int", name="three")]
    new = [tool("a: int", name="one"), tool("b: int", name="second"), tool("d: str", name="four")]
    assert changes(old, new) == [
        Change("four", "", "compatible", "added"),
        Change("second", "", "compatible", "added"),
        Change("three", "", "breaking", "removed"),
        Change("two", "", "breaking", "removed"),
    ]


def test_another_text_of_a_tool_is_compatible():
    assert changes(tool("", "Tells the weather."), tool("", "Tells the weather of today.")) == [
        Change("get_weather", "", "compatible", 'description "Tells the weather." -> "Tells the weather of today."')
    ]


def test_signatures_of_an_overloaded_function_are_compared_one_by_one():
    @overload
    def find(id: int) -> str: ...
    @overload
    def find(name: str, country: str = "") -> str: ...
    def find(**given: Any) -> str:
        """Finds a person."""
        return ""

    both = JsonTool(find)
    first = JsonTool(find, overload=0)
    assert changes(both, both) == []
    assert {change.kind for change in changes(first, both)} == {"compatible"}
    assert Change("find", "", "breaking", "removed: object with name, country") in changes(both, first)


def test_breaking_changes_of_a_tool_stand_first():
    kinds = [change.kind for change in changes(tool("a: int, b: int"), tool("a: int = 1, c: str = ''"))]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"breaking", "compatible"}


def raw(**schema: Any) -> dict[str, Any]:
    return {"version": 1, "tools": {"t": {"type": "object", "properties": {"a": schema}}}}


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ({"not": {"type": "null"}}, {}, "breaking", 'not {"type": "null"} -> none'),
        ({"allOf": [{"minimum": 1}]}, {"allOf": [{"minimum": 2}]}, "breaking", 'allOf [{"minimum": 1}] -> [{"minimum": 2}]'),
        ({"not": {"type": "null", "description": "One."}}, {"not": {"type": "null"}}, "", ""),
        ({"const": 1}, {"enum": [1, 2]}, "compatible", "added: 2"),
        ({"enum": [1, True]}, {"enum": [1]}, "breaking", "removed: true"),
        ({"type": ["string", "null"]}, {"type": "string"}, "breaking", "removed: null"),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, "breaking", 'items none -> {"type": "string"}'),
    ],
)  # fmt: skip
def test_schemas_from_elsewhere_are_compared_with_care(old, new, kind, message):
    found = compare_locks(raw(**old), raw(**new))
    assert [(change.kind, change.message) for change in found] == ([(kind, message)] if kind else [])


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
def test_another_file_is_refused(text):
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
def test_a_schema_is_compatible_with_itself_and_with_a_union_that_contains_it(hint, other):
    assert changes(tool(f"a: {hint}"), tool(f"a: {hint}")) == []
    assert [c for c in changes(tool(f"a: {hint}"), tool(f"a: Union[{hint}, {other}]")) if c.kind == "breaking"] == []
