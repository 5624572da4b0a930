"""Schemas from elsewhere that are made to exhaust their reader: size, patterns, depth, counts."""

import json
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY
from timing import takes_at_most

from agentkit import DefinitionError, JsonTool, compare_locks, lint, lock
from agentkit.schemas.formats import FORMATS
from agentkit.schemas.walk import is_checkable, is_well_formed, matches

MAX_CONTROLS = 500
"""The CPU time of each case, in controls; unlimited, they take hours or gigabytes."""


@pytest.fixture(autouse=True)
def in_time():
    with takes_at_most(MAX_CONTROLS):
        yield


def tool(properties: dict[str, Any], **more: Any) -> JsonTool[..., Any]:
    parameters = {"type": "object", "properties": properties, **more}
    return JsonTool.from_schema(
        name="act", description="Acts on it.", parameters=parameters, call=lambda **given: given
    )


def doubling(levels: int, **last: Any) -> dict[str, Any]:
    definitions = {
        f"L{level}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/L{level + 1}"} for side in ("left", "right")},
            "required": ["left", "right"],
        }
        for level in range(levels)
    }
    return {**definitions, f"L{levels}": {"type": "object", **last}}


@pytest.mark.parametrize("format", FORMATS)
def test_definitions_that_double_keep_their_references(format):
    hostile = tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": doubling(40)})
    assert len(json.dumps(hostile.schema(format))) < 100_000


def test_definitions_that_double_are_bound_checked_and_compared():
    old = tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": doubling(40)})
    new = tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": doubling(40, properties={"b": {}}, required=["b"])})
    assert old.bind('{"a": {}}').ready.name == "ValidationError"
    assert lint([old])
    changes = compare_locks(lock(old), lock(new))
    assert [(change.kind, change.path.endswith("right.b"), change.message) for change in changes] == [
        ("breaking", False, "added, required")
    ]


def test_a_few_shared_definitions_are_still_inlined():
    shared = {"Point": {"type": "object", "properties": {"x": {"type": "number"}}}}
    places = {name: {"$ref": "#/$defs/Point"} for name in ("a", "b", "c")}
    schema = tool(places, **{"$defs": shared}).schema()
    assert "$defs" not in schema
    assert schema["properties"]["c"] == shared["Point"]


def test_validation_of_definitions_that_double_ends():
    definitions = {f"L{n}": {"allOf": 2 * [{"$ref": f"#/$defs/L{n + 1}"}]} for n in range(40)} | {"L40": {}}
    message = tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": definitions}).bind('{"a": 1}').ready.message
    assert "the schema refers to itself too often" in message


HOSTILE = [r"^(a+)+$", r"^(a|a)*$", r"^(.*a){30}$", r"(x+x+)+y"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_takes_linear_time(pattern):
    by_value = tool({"a": {"type": "string", "pattern": pattern}})
    by_key = tool({}, patternProperties={pattern: {}})
    closed = tool({}, patternProperties={pattern: {}}, additionalProperties=False)
    text = "a" * 20_000 + "x" * 20_000 + "!"
    assert by_value.bind(json.dumps({"a": text})).ready.name == "ValidationError"
    assert by_key.bind(json.dumps({text: 1})).ready.keywords == {text: 1}
    assert closed.bind(json.dumps({text: 1})).ready.name == "ValidationError"
    unevaluated = tool({}, allOf=[{"patternProperties": {pattern: {}}}], unevaluatedProperties=False)
    assert unevaluated.bind(json.dumps({text: 1})).ready.keywords == {text: 1}


def test_patterns_are_searched_as_json_schema_demands():
    plain = tool({"a": {"type": "string", "pattern": "b+"}}, patternProperties={"^x-": {"type": "integer"}})
    assert plain.bind('{"a": "abc"}').ready.keywords == {"a": "abc"}
    assert "does not match 'b+'" in plain.bind('{"a": "ac"}').ready.message
    assert plain.bind('{"x-one": 1}').ready.keywords == {"x-one": 1}
    assert plain.bind('{"x-one": []}').ready.name == "ValidationError"


def test_a_pattern_that_cannot_be_checked_is_reported_and_passes():
    pattern = r"^(?!admin)\w+$"
    assert (matches(pattern, "admin"), is_checkable(pattern)) == (None, False)
    unchecked = tool({"a": {"type": "string", "pattern": pattern}})
    assert unchecked.bind('{"a": "admin"}').ready.keywords == {"a": "admin"}
    assert "unchecked-pattern" in {finding.rule for finding in lint(unchecked)}


@pytest.mark.parametrize("pattern", [r"(a{1000}){1000}", r"(\w{100}){100}"])
def test_a_pattern_that_is_too_large_is_not_compiled(pattern):
    assert not is_checkable(pattern)


def test_a_schema_that_is_nested_too_deeply_is_refused():
    nested: dict[str, Any] = {}
    for _ in range(3_000):
        nested = {"items": nested}
    with pytest.raises(DefinitionError, match="nested too deeply"):
        tool({"a": nested})
    chain = {f"L{n}": {"$ref": f"#/$defs/L{n + 1}"} for n in range(3_000)} | {"L3000": {}}
    with pytest.raises(DefinitionError, match="nested too deeply"):
        tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": chain}).schema()


VALUES = [
    None,
    True,
    -1,
    0,
    2.5,
    "",
    "string",
    [],
    ["string"],
    ["string", "string"],
    [1],
    {},
    {"a": {}},
    {"a": 1},
    [{}],
]
UNREAD = {
    *("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"),
    *("additionalItems", "dependencies", "dependentRequired", "minContains", "maxContains", "unevaluatedItems"),
    "contentSchema",
}
"""The keywords of which the quick check accepts nothing, so that the metaschema decides."""
METASCHEMA = {key for uri in REGISTRY if "2020-12" in uri for key in REGISTRY.contents(uri).get("properties", ())}
KEYWORDS = sorted(UNREAD | {"x-order", *METASCHEMA})
"""All that the metaschemas of draft 2020-12 describe, and an unknown one."""


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("inside", [False, True])
def test_what_the_quick_check_accepts_the_metaschema_accepts(keyword, inside):
    schemas = [{"properties": {"a": {"anyOf": [{keyword: value}]}}} if inside else {keyword: value} for value in VALUES]
    accepted = [schema for schema in schemas if is_well_formed(schema)]
    assert bool(accepted) == (keyword not in UNREAD)
    for schema in accepted:
        Draft202012Validator.check_schema(schema)


def test_the_quick_check_accepts_the_usual_schemas():
    def book(name: str, tags: list[str], size: Literal["s", "m"] = "s", spot: tuple[float, float] | None = None):
        """Books."""

    assert is_well_formed(JsonTool(book).schema())


def test_a_chain_of_references_is_followed_to_its_end():
    chain = {f"L{n}": {"$ref": f"#/$defs/L{n + 1}"} for n in range(150)} | {"L150": {"type": "integer"}}
    assert tool({"a": {"$ref": "#/$defs/L0"}}, **{"$defs": chain}).schema()["properties"]["a"] == {"type": "integer"}


@pytest.mark.parametrize(
    "demand",
    [
        {"type": "array", "minItems": 10**12, "items": {"type": "integer"}},
        {"type": "string", "minLength": 10**12},
        {"type": "object", "minProperties": 10**12},
    ],
)
def test_an_example_of_a_huge_value_is_not_built(demand):
    assert len(tool({"a": demand}, required=["a"]).bind("{}").ready.message) < 400
