"""Properties of the repairs: over random tools, arguments and mistakes, the call that runs is the one that was meant."""

import inspect
import json
import re
import string
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import UUID4, Base64Str, BaseModel, Field, IPvAnyAddress, Json

from agentkit import ExceptionInfo, JsonTool, ToolRegistry
from agentkit.tools.arguments.explain import MAX_EXAMPLE_VALUES, Source, build_value
from agentkit.tools.arguments.json_text import InvalidJson, is_strict_object, parse_lenient

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


class Place(BaseModel):
    street_name: str
    number: int = 1
    floor: int | None = None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "null",
        "None",
        "",
        "[1]",
        '{"a": 1}',
        "it's",
        'say "hi"',
        "a,}",
        "```",
        "<|x|>",
        "a\nb",
        "True",
        "\\d",
        "nan",
        "'",
    ]
)
NUMBERS = st.integers(-(10**18), 10**18)
OPTIONS = Literal["Celsius", "kelvin", "Max Planck"]
KINDS: dict[Any, st.SearchStrategy] = {
    str: TEXTS,
    int: NUMBERS,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str | None: st.none() | TEXTS,
    int | None: st.none() | NUMBERS,
    OPTIONS: st.sampled_from(["Celsius", "kelvin", "Max Planck"]),
    Literal[1, 2, 3]: st.sampled_from([1, 2, 3]),
    list[int]: st.lists(NUMBERS, max_size=3),
    list[str]: st.lists(TEXTS, max_size=3),
    dict[str, int]: st.dictionaries(TEXTS, NUMBERS, max_size=3),
    list[str] | None: st.none() | st.lists(TEXTS, max_size=3),
    Place: st.fixed_dictionaries(
        {"street_name": TEXTS}, optional={"number": NUMBERS, "floor": st.none() | NUMBERS}
    ),
    Any: st.none() | NUMBERS | TEXTS | st.lists(NUMBERS, max_size=2),
}  # fmt: skip
NAMES = ["city", "user_name", "max_days", "x", "unit_of_measure", "tags"]


@st.composite
def tools(draw, first=None):
    """A tool by its signature or by its JSON Schema, and arguments that are meant for it.

    `first` draws the type of one of its parameters and the value that is meant for it, `...` if it is left out.
    """
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=2 if first is not None else 0, max_size=4))
    hints = {name: draw(st.sampled_from(list(KINDS))) for name in names}
    optional = {name: draw(st.booleans()) for name in names}
    meant = {name: draw(KINDS[hints[name]]) for name in names if not optional[name] or draw(st.booleans())}
    if first is not None:
        hints[names[0]], value = draw(first)
        optional[names[0]] |= value is ...
        meant = {name: item for name, item in {**meant, names[0]: value}.items() if item is not ...}

    def work(**given: Any) -> Any:
        """Works."""
        return {
            name: item.model_dump(exclude_unset=True) if isinstance(item, Place) else item
            for name, item in given.items()
            if item is not OMITTED
        }

    kind = inspect.Parameter.KEYWORD_ONLY
    work.__annotations__ = hints
    work.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, kind, annotation=hint, default=OMITTED if optional[name] else kind_empty)
            for name, hint in hints.items()
        ]
    )
    tool = JsonTool(work, name="work")
    raw = JsonTool.from_schema(
        name="work", description="Works.", call=lambda **given: given, parameters=without_defaults(tool.parameters)
    )
    return draw(st.sampled_from([tool, raw])), hints, optional, meant


OMITTED = object()
kind_empty = inspect.Parameter.empty


def without_defaults(schema):
    return json.loads(json.dumps(schema, default=str)) | {"additionalProperties": False}


def execute(tool, text):
    result = ToolRegistry(tool).execute(tool.name, text)
    assert isinstance(json.loads(result.call.arguments), dict)
    return result


# mistakes of the syntax: text -> text
def unquoted(text):
    return re.sub(r'"([a-z_]+)": ', r"\1: ", text, count=1)


SYNTAX = {
    "fence": lambda text: f"```json\n{text}\n```",
    "comma": lambda text: text[:-1] + ",}" if len(text) > 2 else text,
    "python": lambda text: repr(json.loads(text)),
    "tokens": lambda text: f"<|start|>{text}<|end|>",
    "unquoted": unquoted,
    "twice": lambda text: text + text,
    "empty first": lambda text: "{}" + text,
    "encoded": json.dumps,
    "encoded twice": lambda text: json.dumps(json.dumps(text)),
    "bracket": lambda text: text + "}",
    "raw breaks": lambda text: text.replace("\\n", "\n"),
    "white space": lambda text: f"\ufeff {text}\n",
}


# mistakes of the values: arguments, hints, optional -> arguments
def one(meant, hints, wanted, change):
    name = next((name for name in meant if wanted(hints[name], meant[name])), None)
    return {**meant, name: change(meant[name])} if name else meant


VALUES = {
    "wrapped": lambda meant, hints, optional: {"arguments": meant},
    "in parameters": lambda meant, hints, optional: {"parameters": json.dumps(meant)},
    "by name": lambda meant, hints, optional: {"work": meant},
    "whole call": lambda meant, hints, optional: {"name": "work", "arguments": meant},
    "case": lambda meant, hints, optional: {name.upper(): item for name, item in meant.items()},
    "camel": lambda meant, hints, optional: {
        re.sub(r"_(.)", lambda found: found[1].upper(), name): item for name, item in meant.items()
    },
    "option": lambda meant, hints, optional: one(meant, hints, lambda hint, item: hint is OPTIONS, str.upper),
    "number": lambda meant, hints, optional: one(meant, hints, lambda hint, item: hint == Literal[1, 2, 3], str),
    "encoded": lambda meant, hints, optional: one(
        meant, hints, lambda hint, item: isinstance(item, list | dict) and hint is not Any, json.dumps
    ),
    "python": lambda meant, hints, optional: one(
        meant, hints, lambda hint, item: isinstance(item, list | dict) and hint is not Any, repr
    ),
    "null": lambda meant, hints, optional: one(
        meant, hints, lambda hint, item: item is None and hint in (int | None, list[str] | None), lambda item: "None"
    ),
    "default": lambda meant, hints, optional: meant
    | {name: None for name in hints if name not in meant and hints[name] in (int, str, OPTIONS, list[int], Place)},
    "flat": lambda meant, hints, optional: next(
        ({**meant[name], **{key: item for key, item in meant.items() if key != name}}
         for name in meant if list(hints.values()).count(Place) == 1 and hints[name] is Place), meant,
    ),
}  # fmt: skip


def of(*hints):
    return st.sampled_from(hints).flatmap(lambda hint: st.tuples(st.just(hint), KINDS[hint]))


TO_SLIP_IN = {
    "option": of(OPTIONS),
    "number": of(Literal[1, 2, 3]),
    "encoded": of(list[int], list[str], dict[str, int], Place),
    "python": of(list[int], list[str], dict[str, int], Place),
    "null": st.tuples(st.sampled_from([int | None, list[str] | None]), st.none()),
    "default": st.tuples(st.sampled_from([int, str, OPTIONS, list[int], Place]), st.just(...)),
    "flat": of(Place),
    "raw breaks": st.tuples(st.just(str), TEXTS.map(lambda text: f"{text}\n")),
}
"""Without such a parameter there is hardly a place for the mistake."""


@QUICK
@given(tools())
def test_valid_arguments_are_taken_as_they_are_without_a_repair_record(case):
    tool, _hints, _optional, meant = case
    text = json.dumps(meant, ensure_ascii=False)
    result = execute(tool, text)
    assert (result.value, result.repairs) == (meant, ())
    assert result.call.arguments is text


@QUICK
@given(
    tools(), st.lists(st.sampled_from(list(VALUES)), max_size=2), st.lists(st.sampled_from(list(SYNTAX)), max_size=2)
)
def test_what_runs_is_what_was_meant(case, values, syntax):
    tool, hints, optional, meant = case
    given_ = meant
    try:
        for slip in values:
            given_ = VALUES[slip](given_, hints, optional)
        text = json.dumps(given_, ensure_ascii=False)
        for slip in syntax:
            text = SYNTAX[slip](text)
    except (KeyError, TypeError, ValueError):
        assume(False)  # the mistakes exclude each other
    result = execute(tool, text)
    assert isinstance(result.value, ExceptionInfo) or result.value == meant
    if result.error is not None:
        assert len(result.content) <= 400


@pytest.mark.parametrize(
    ("slip", "is_value"), [*((slip, True) for slip in VALUES), *((slip, False) for slip in SYNTAX)]
)
def test_each_mistake_by_itself_is_repaired_most_of_the_time(slip, is_value):
    repaired = []

    @settings(QUICK, max_examples=60, derandomize=True)  # a share of random cases would fail now and then
    @given(tools(TO_SLIP_IN.get(slip, of(*KINDS))))
    def check(case):
        tool, hints, optional, meant = case
        text = json.dumps(meant)
        slipped = json.dumps(VALUES[slip](meant, hints, optional)) if is_value else SYNTAX[slip](text)
        assume(slipped != text and meant)
        result = execute(tool, slipped)
        assert isinstance(result.value, ExceptionInfo) or result.value == meant
        repaired.append(result.error is None)

    check()
    assert repaired.count(True) >= 0.6 * len(repaired), (slip, repaired.count(True), len(repaired))


@QUICK
@given(tools(), st.data())
def test_a_text_that_was_cut_never_runs_as_something_else(case, data):
    tool, _hints, _optional, meant = case
    text = data.draw(st.sampled_from([json.dumps(meant), repr(meant), f"```json\n{json.dumps(meant)}\n```"]))
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    result = execute(tool, cut)
    assert isinstance(result.value, ExceptionInfo) or result.value == meant


@QUICK
@given(TEXTS, st.sampled_from([*SYNTAX, ""]))
def test_text_stays_as_it_was_to_the_byte(text, slip):
    def echo(text: str) -> str:
        """Echoes."""
        return text

    raw = JsonTool.from_schema(
        name="echo",
        description="Echoes.",
        call=echo,
        parameters={"properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False},
    )
    written = SYNTAX.get(slip, str)(json.dumps({"text": text}, ensure_ascii=False))
    for tool in (JsonTool(echo), raw):
        result = execute(tool, written)
        assert isinstance(result.value, ExceptionInfo) or result.value == text
        if slip not in ("python", "encoded", "encoded twice", "unquoted"):
            assert result.error is None, result.content


@QUICK
@given(tools(), st.text() | st.text("{}[]\"':,\\ \n0a.eE-+NIntruefalsenull`<|>"), st.data())
def test_no_text_is_a_crash(case, noise, data):
    tool, _hints, _optional, meant = case
    text = json.dumps(meant)
    place = data.draw(st.integers(0, len(text)))
    for written in (noise, text[:place] + noise + text[place:], noise[:1] * 3_000, text[:place] + text[place + 1 :]):
        result = execute(tool, written)
        assert result.error is None or result.error.name == "ValidationError"
        assert result.error is None or len(result.content) <= 400


@QUICK
@given(tools())
def test_the_example_of_an_error_is_valid(case):
    tool, hints, _optional, _meant = case
    for wrong in ("{", "[]", '{"no such": 1}', json.dumps({name: {"no": [None]} for name in hints})):
        content = execute(tool, wrong).content
        if "Valid, for example: " in content:
            example = content.partition("Valid, for example: ")[2]
            assert execute(tool, example).repairs == ()
            assert execute(tool, example).error is None


SCHEMAS = [
    {"type": "integer", "minimum": 3, "maximum": 4}, {"type": "integer", "exclusiveMinimum": 3, "multipleOf": 5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, {"type": "number", "maximum": -0.5},
    {"type": "integer", "exclusiveMaximum": -3}, {"type": "string", "minLength": 9}, {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[A-Z]{3}$"}, {"type": "string", "pattern": "^\\d{4}$"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    {"type": ["null", "boolean"]}, {"const": {"a": [1]}}, {"enum": [None, 2]}, {}, {"type": "null"},
    {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"type": "object", "properties": {"b": {}}, "required": ["b"]}]},
    {"$ref": "#/$defs/Node"}, {"type": "string", "examples": ["Rome"]},
]  # fmt: skip
NODE = {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Node"}]},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}, "required": ["n", "next", "kids"]}  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_an_example_is_valid_by_its_schema(schema):
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"Node": NODE}}
    tool = JsonTool.from_schema(name="t", description="T.", call=lambda **given: "ran", parameters=parameters)
    content = execute(tool, "{}").content
    if "$ref" in schema:
        assert len(json.dumps(build_value(schema, Source(parameters, count(MAX_EXAMPLE_VALUES, -1))))) < 100_000, (
            "a type that contains itself comes to an end"
        )
    else:
        assert "Valid, for example: " in content
        assert execute(tool, content.partition("Valid, for example: ")[2]).value == "ran"


@pytest.mark.parametrize(
    "kind", [UUID4, IPv4Network, IPv6Network, IPv4Interface, IPv6Interface, IPvAnyAddress, Base64Str, Json[list[int]]]
)
def test_an_error_about_a_text_with_a_form_has_an_example(kind):
    def take(value: kind) -> None:
        """Takes a value."""

    assert "Valid, for example: " in JsonTool(take).call_with_raw_arguments("{}").message


def test_an_example_that_would_not_be_valid_is_not_shown():
    def work(code: Annotated[str, Field(pattern="^q{3}-[0-9]{7}$")], n: int) -> None:
        """Works."""

    content = execute(JsonTool(work), '{"n": 1}').content
    assert "code: missing" in content
    assert "Valid, for example" not in content


@QUICK
@given(
    st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    )
)
def test_reading_past_mistakes_gives_exactly_what_was_written(value):
    assert repr(parse_lenient(json.dumps([value])).value) == repr([value])
    for slip in (lambda text: text[:-1] + ",]", lambda text: f"```\n{text}\n```", lambda text: f"{text}<|end|>"):
        if value != []:
            assert repr(parse_lenient(slip(json.dumps([value], ensure_ascii=False))).value) == repr([value])
    try:
        assert repr(parse_lenient(repr([value])).value) == repr([value])
    except InvalidJson:
        assert "\\" in repr([value]), "only Python's own escapes are not read"


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ('{"a": 1}', True), ('{"a": "nan"}', False), ('{"a": "information"}', True), ("[1]", False), ("", False),
        ('{"a": 1, "a": 1}', True), ('{"a": 1, "a": 2}', False), ('{"a": NaN}', False), ('{"a": 1e400}', False),
        ('{"a": "\\ud800"}', False), ('{"a": "\\ud83d\\ude00"}', True), ('{"a": "\ud800"}', False), ("[" * 10**5, False),
    ],
)  # fmt: skip
def test_soundness(text, sound):
    assert is_strict_object(text) is sound


def test_printable_text_needs_no_care():
    assert is_strict_object(json.dumps({"a": string.printable}))
