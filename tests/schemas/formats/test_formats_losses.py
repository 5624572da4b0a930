"""Nothing is lost silently, whatever the schema: random schemas, and what became of each of their keywords."""

import json

import pytest
from format_rules import PARTS, RULES, every_schema, parameters_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentkit.schemas.formats import FORMATS, Declaration, render
from agentkit.schemas.walk import inline

NAMES = st.sampled_from(["a", "b", "title", "type", "größe", "with space", "$ref", "x" * 65, "default", "名"])
NUMBERS = st.integers(10_000, 99_999)
TEXTS = st.text("abcdefgh", min_size=8, max_size=12)
JSON = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none(), st.lists(NUMBERS, max_size=2))


def some(required, **optional):
    return st.fixed_dictionaries(required, optional={"description": TEXTS, "default": JSON} | optional)


def typed(kind, **optional):
    return some({"type": st.just(kind)}, **optional)


SCALARS = st.one_of(
    typed(
        "string", minLength=NUMBERS, maxLength=NUMBERS, pattern=TEXTS | st.just("^(?=ab)c"), contentEncoding=TEXTS,
        format=st.sampled_from(["date-time", "uuid", "uri", "binary"]), examples=st.lists(TEXTS, min_size=1, max_size=2),
    ),
    typed("integer", minimum=NUMBERS, maximum=NUMBERS, exclusiveMinimum=NUMBERS, multipleOf=NUMBERS),
    typed("number", exclusiveMaximum=NUMBERS, exclusiveMinimum=NUMBERS),
    typed("boolean"),
    typed("null"),
    typed(["string", "null"], maxLength=NUMBERS),
    some({"const": TEXTS | NUMBERS | st.booleans()}),
    some({"enum": st.lists(TEXTS | NUMBERS | st.none(), min_size=1, max_size=3, unique_by=json.dumps)}),
    some({}),
    st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/A", "#/$defs/B"])}, optional={"description": TEXTS}),
)  # fmt: skip


def containers(inner):
    closed = st.booleans() | inner
    return st.one_of(
        typed("array", items=inner, minItems=NUMBERS, uniqueItems=st.just(True), contains=inner),
        some({"type": st.just("array"), "prefixItems": st.lists(inner, min_size=1, max_size=2)}, items=st.just(False)),
        objects(inner, additionalProperties=closed, minProperties=NUMBERS, deprecated=st.just(True)),
        some({"type": st.just("object"), "additionalProperties": inner}),
        some({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        some({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
        some({"allOf": st.lists(inner, min_size=1, max_size=1)}),  # several may contradict each other
    )


def objects(inner, **optional):
    properties = st.dictionaries(NAMES, inner, max_size=3)
    whole = some({"type": st.just("object"), "properties": properties}, **optional)
    return st.tuples(whole, st.randoms()).map(
        lambda drawn: {**drawn[0], "required": [name for name in drawn[0]["properties"] if drawn[1].random() < 0.5]}
    )


SCHEMAS = st.recursive(SCALARS, containers, max_leaves=6)
ROOTS = st.tuples(objects(SCHEMAS), SCHEMAS, SCHEMAS).map(
    lambda drawn: {**drawn[0], "$defs": {"A": drawn[1], "B": drawn[2]}}
)
relaxed = settings(
    deadline=None, max_examples=50, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

FOLLOWED = {"properties", "items", "anyOf", "allOf", "oneOf", "prefixItems", "$defs", "$ref", "required", "type"}
"""Keywords whose contents are looked at one by one, and types, which the providers' rules are about."""


def strings(value):
    """The words in a JSON value that a description would have to repeat."""
    if isinstance(value, dict):
        return [word for key, inner in value.items() for word in [*([] if key in FOLLOWED else [key]), *strings(inner)]]
    if isinstance(value, list):
        return [word for inner in value for word in strings(inner)]
    return [] if isinstance(value, bool | None) else [str(value)]


def loops_emptily(schema):
    """Whether a definition needs itself for the very same value, which says nothing at all."""

    def needed(part):
        own = [part["$ref"][-1]] if "$ref" in part else []
        return own + [
            name for key in ("anyOf", "oneOf", "allOf") for inner in part.get(key, ()) for name in needed(inner)
        ]

    first = {name: set(needed(schema["$defs"][name])) for name in "AB"}
    return "A" in first["A"] or "B" in first["B"] or ("B" in first["A"] and "A" in first["B"])


@pytest.mark.parametrize("format", FORMATS)
def test_every_keyword_survives_or_is_accounted_for(format):
    @relaxed
    @given(ROOTS)
    def holds(schema):
        if loops_emptily(schema):
            return
        rendering = render(Declaration("take", "Takes it.", schema), format)
        assert list(RULES[format](rendering.schema)) == []
        parts = [part for _, part in every_schema(parameters_of(format, rendering.schema))]
        there = {(key, json.dumps(value)) for part in parts for key, value in part.items()}
        told = "\n".join(part.get("description", "") for part in parts)
        told += str(rendering.schema.get("description"))
        lost = {(loss.keyword, json.dumps(loss.value)) for loss in rendering.losses}
        within = json.dumps([loss.value for loss in rendering.losses], ensure_ascii=False)
        whole = inline(schema)
        if format == "gemini" and "$defs" in whole:
            return  # a text beside a reference stands for that of the type, whose deepest levels are cut
        for _, part in every_schema(whole):
            for key, value in part.items():
                if key in FOLLOWED or (key, json.dumps(value)) in there | lost:
                    continue
                if key == "enum" and (key, json.dumps([*value, None])) in there:
                    continue  # nullable
                if isinstance(value, dict) and key in PARTS and any(key in names for names in [*parts, dict(lost)]):
                    continue  # it is looked at itself
                if key == "description":
                    assert value in told or value in within, value
                elif isinstance(value, dict | list):
                    assert all(word in within for word in strings(value)), f"{key}: {value} is gone"
                else:
                    assert json.dumps({key: value}, ensure_ascii=False)[1:-1] in within, f"{key}: {value} is gone"
        for loss in rendering.losses:
            if loss.moved_to == "description" and loss.keyword not in ("uniqueItems", "deprecated"):
                for word in strings(loss.value):
                    assert word.replace('"', "") in told.replace("\\", "").replace('"', "") or loss.path.count(
                        "$defs"
                    ), (loss, told)
        json.dumps(rendering.schema, allow_nan=False)

    holds()


@pytest.mark.parametrize("format", ["openai", "anthropic", "mcp", "json"])
@pytest.mark.parametrize("references", ["inline", "keep"])
def test_a_portable_schema_takes_the_same_values(format, references):
    values = st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXTS | st.floats(1, 2),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
        max_leaves=4,
    )

    @relaxed
    @given(ROOTS, st.dictionaries(NAMES, values, max_size=3))
    def holds(schema, value):
        if loops_emptily(schema) or "oneOf" in json.dumps(schema):  # oneOf is widened to anyOf
            return
        rendering = render(Declaration("take", "Takes it.", schema), format, references)
        shown = Draft202012Validator(parameters_of(format, rendering.schema))
        to_alias = {name: alias for alias, name in rendering.aliases.items()}
        assert shown.is_valid(renamed(value, to_alias)) == Draft202012Validator(schema).is_valid(value)
        assert rendering.restore_names(renamed(value, to_alias)) == value

    holds()


def renamed(value, names):
    if isinstance(value, dict):
        return {names.get(key, key): renamed(inner, names) for key, inner in value.items()}
    return [renamed(inner, names) for inner in value] if isinstance(value, list) else value
