"""From callables to plain JSON Schema, and from arguments to calls."""

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from agentkit import DefinitionError, JsonTool
from agentkit.core.errors import check_takes
from agentkit.policies.answer_checks import check_arity
from agentkit.schemas.annotations import read_docstring
from agentkit.schemas.functions import FunctionSchema
from agentkit.schemas.walk import inline, iter_children, rebuild


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(BaseModel):
    """A place on the map."""

    name: str
    unit: Unit = Unit.C


class Node(BaseModel):
    value: int
    kids: list["Node"] = []


@dataclass
class Point:
    x: float
    y: float = 0.0


def parameters(function) -> dict[str, Any]:
    return FunctionSchema(function).parameters


def properties(function) -> dict[str, Any]:
    return parameters(function)["properties"]


def test_types_defaults_and_texts_become_a_schema():
    def search(query: str, limit: int = 10, exact: bool = False, tags: list[str] | None = None) -> list[str]:
        """Searches.

        Args:
            query: What to
                look for.
            limit: How many.
        """

    assert parameters(search) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "default": 10, "description": "How many."},
            "exact": {"type": "boolean", "default": False},
            "tags": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
    }


def test_a_function_without_parameters_is_an_empty_object():
    assert parameters(lambda: None)["properties"] == {}
    assert FunctionSchema(lambda: 7).bind("{}")() == 7


def test_enums_models_dataclasses_and_literals_arrive_as_such():
    def f(unit: Unit, place: Place, point: Point, mode: Literal["a", "b"], day: date, price: Decimal):
        return unit, place, point, mode, day, price

    given = {"unit": "celsius", "place": {"name": "Rome"}, "point": {"x": 1}, "mode": "a", "day": "2026-01-02"}
    call = FunctionSchema(f).bind(json.dumps({**given, "price": "1.10"}))
    assert call() == (Unit.C, Place(name="Rome"), Point(1.0), "a", date(2026, 1, 2), Decimal("1.10"))
    json.dumps(parameters(f))


def test_every_kind_of_parameter_can_be_called():
    def f(a: int, /, b: int = 2, *args: int, c: int, **rest: int):
        return a, b, args, c, rest

    schema = FunctionSchema(f)
    assert schema.bind('{"a": 1, "c": 3}')() == (1, 2, (), 3, {})
    assert schema.bind('{"a": 1, "b": 5, "args": [6, 7], "c": 3, "d": 4}')() == (1, 5, (6, 7), 3, {"d": 4})
    assert schema.parameters["required"] == ["a", "c"]
    assert schema.parameters["additionalProperties"] == {"type": "integer"}


@pytest.mark.parametrize("name", ["self", "cls", "schema", "json", "copy", "model_config", "_private", "args", "größe"])
def test_no_parameter_name_is_forbidden(name):
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int):\n    return {name}", namespace)
    assert FunctionSchema(namespace["f"]).bind(json.dumps({name: 4}))() == 4


def test_what_a_partial_binds_is_hidden():
    def f(key: str, query: str, limit: int = 3):
        """Searches."""
        return key, query, limit

    schema = FunctionSchema(functools.partial(f, "secret", limit=9))
    assert list(schema.parameters["properties"]) == ["query"]
    assert schema.bind('{"query": "x"}')() == ("secret", "x", 9)
    with pytest.raises(ValidationError):
        schema.bind('{"query": "x", "limit": 1}')


def test_methods_wrapped_functions_and_callable_objects_show_their_own_parameters():
    class Shop:
        def price(self, item: str) -> str:
            """Price of an item."""
            return item

        def __call__(self, item: str) -> str:
            """Buys an item."""
            return item

    @functools.wraps(Shop().price)
    def wrapped(*args, **kwargs):
        return Shop().price(*args, **kwargs)

    for function in (Shop().price, Shop(), wrapped, functools.lru_cache(Shop().price)):
        assert list(properties(function)) == ["item"]
        assert FunctionSchema(function).bind('{"item": "tea"}')() == "tea"


def test_mutable_defaults_are_not_shared_between_calls():
    def f(items: list[int] = []):
        items.append(1)
        return items

    schema = FunctionSchema(f)
    assert schema.bind("{}")() == [1]
    assert schema.bind("{}")() == [1]


def test_defaults_that_json_cannot_hold_stay_in_python():
    marker = object()

    def f(a: float = float("inf"), b: Any = marker, c: int = None):  # noqa: RUF013
        return a, b, c

    assert FunctionSchema(f).bind("{}")() == (float("inf"), marker, None)
    assert FunctionSchema(f).bind('{"c": null}')()[2] is None
    assert "default" not in properties(f)["a"]
    assert "default" not in properties(f)["b"]
    json.dumps(parameters(f), allow_nan=False)


def test_texts_of_annotations_stand_above_the_docstring():
    def f(a: Annotated[int, "from text"], b: Annotated[int, Field(description="from field", ge=1)], c: int):
        """Does.

        Args:
            a: from docstring
            b: from docstring
            c: from docstring
        """

    texts = {name: schema["description"] for name, schema in properties(f).items()}
    assert texts == {"a": "from text", "b": "from field", "c": "from docstring"}
    assert properties(f)["b"]["minimum"] == 1


def test_a_nested_models_text_is_its_own():
    def f(place: Place, other: Place):
        """Does.

        Args:
            place: Where to.
            name: not the model's.
        """

    schema = inline(parameters(f))
    assert schema["properties"]["place"]["description"] == "Where to."
    assert schema["properties"]["other"]["description"] == "A place on the map."
    assert "description" not in schema["properties"]["place"]["properties"]["name"]


@pytest.mark.parametrize(
    "docstring",
    [
        "Adds.\n\nArgs:\n    a: The first.\n    b (int): The second.",
        "Adds.\nArgs:\n    a: The first.\n    b: The second.",
        "Adds.\n\nParameters\n----------\na : int\n    The first.\nb : int\n    The second.",
        "Adds.\n\n:param a: The first.\n:param int b: The second.",
        "Adds.\n\n@param a: The first.\n@param b: The second.",
    ],
    ids=["google", "google without a blank line", "numpy", "sphinx", "epydoc"],
)
def test_docstrings_are_read_in_every_style(docstring):
    reading = read_docstring(docstring, ["a", "b"])
    assert reading.description == "Adds."
    assert reading.parameters == {"a": "The first.", "b": "The second."}


def test_a_docstring_without_parameters_is_all_description():
    assert read_docstring("First line.\n\nMore: of it.", ["a"]).description == "First line.\n\nMore: of it."
    assert read_docstring(None, []).description == ""


def test_titles_go_but_properties_called_title_stay():
    class Book(BaseModel):
        title: str
        default: int

    def f(title: str, book: Book):
        pass

    schema = inline(parameters(f))
    assert set(schema["properties"]) == {"title", "book"}
    assert set(schema["properties"]["book"]["properties"]) == {"title", "default"}
    assert "title" not in schema["properties"]["book"]


def test_inlining_leaves_no_reference_and_shares_nothing():
    def f(a: Place, b: Place, c: Place | None = None):
        pass

    schema = inline(parameters(f))
    assert "$ref" not in json.dumps(schema)
    schema["properties"]["a"]["properties"]["name"]["description"] = "changed"
    assert "description" not in schema["properties"]["b"]["properties"]["name"]


def test_a_recursive_type_keeps_its_references():
    def f(node: Node):
        return node

    schema = inline(parameters(f))
    assert schema["$defs"]["Node"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Node"}
    node = FunctionSchema(f).bind('{"node": {"value": 1, "kids": [{"value": 2}]}}')()
    assert node.kids[0].value == 2


def test_only_references_are_inlined_and_what_stands_beside_one_stays():
    definitions = {
        "A": {"$ref": "#/$defs/B", "title": "A"},
        "B": {"type": "string", "description": "B.", "enum": ["b"]},
    }
    schema = inline(
        {
            "$defs": definitions,
            "properties": {
                "$ref": {"$ref": "#/$defs/A"},
                "own": {"$ref": "#/$defs/A", "description": "Own."},
                "data": {"type": "object", "default": {"$ref": "#/$defs/A"}},
            },
        }
    )
    target = {"type": "string", "description": "B.", "enum": ["b"], "title": "A"}
    assert schema["properties"] == {
        "$ref": target,
        "own": {**target, "description": "Own."},
        "data": {"type": "object", "default": {"$ref": "#/$defs/A"}},
    }
    assert schema["properties"]["$ref"]["enum"] is not schema["properties"]["own"]["enum"]


def test_a_tool_of_nested_models_takes_few_calls_beside_those_of_pydantic():
    """A count of calls, because a time would depend on the machine; pydantic makes most of them in both."""

    class Route(BaseModel):
        """A way."""

        stops: list[Place]
        start: Place
        end: Place | None = None
        notes: dict[str, str] = {}

    def plan(route: Route) -> str:
        """Plans.

        Args:
            route: The way.
        """
        return route.start.name

    def count_calls(make: Callable[[], object]) -> int:
        make()
        calls = 0

        def count(_frame: Any, event: str, _: Any) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            make()
        finally:
            sys.setprofile(before)
        return calls

    own = count_calls(lambda: JsonTool(plan).openai_schema)
    bare = count_calls(lambda: TypeAdapter(plan).json_schema())
    most = 1 if sys.version_info < (3, 12) else 1.6  # comprehensions are no calls there, and pydantic has more of them
    assert own <= most * bare


@pytest.mark.parametrize("same_fields", [True, False], ids=["one schema", "two schemas"])
def test_definitions_of_classes_with_one_name_have_the_names_that_pydantic_gives(same_fields):
    def make_class(second: type) -> type[BaseModel]:
        return create_model("Spot", first=(int, ...), second=(second, ...))

    class Way(BaseModel):
        start: make_class(int)
        end: make_class(int if same_fields else str)
        other: list[Place]

    def go(way: Way):
        pass

    assert list(parameters(go)["$defs"]) == list(TypeAdapter(go).json_schema()["$defs"])


def test_a_class_that_sets_the_mode_of_its_schema_sets_it_for_its_own_fields_alone():
    class Written(BaseModel):
        model_config = ConfigDict(json_schema_mode_override="serialization")

        price: Decimal = Decimal(1)

    class Order(BaseModel):
        before: Decimal
        written: Written
        after: Decimal

    def buy(order: Order):
        pass

    schema = parameters(buy)["$defs"]
    written = next(name for name in schema if name.startswith("Written"))
    assert schema[written]["properties"]["price"]["type"] == "string"
    for name in ("before", "after"):
        assert {branch["type"] for branch in schema["Order"]["properties"][name]["anyOf"]} == {"number", "string"}


def test_a_reference_to_elsewhere_is_refused_not_fetched():
    with pytest.raises(DefinitionError, match=r"example\.org"):
        inline({"$defs": {"A": {}}, "properties": {"a": {"$ref": "http://example.org/schema.json"}}})


def test_an_unknown_type_name_is_a_definition_error_that_names_it():
    def f(a: "Missing"):  # noqa: F821
        pass

    with pytest.raises(DefinitionError, match=r"f: the parameter 'a' names the type 'Missing'"):
        FunctionSchema(f)


def test_the_type_of_a_result_may_be_known_to_type_checkers_alone():
    def f(a: "list[int]", b: "int | None" = None) -> "dict[str, Missing]":  # noqa: F821
        """Sum up.

        Returns:
            The sums.
        """

    assert FunctionSchema(f).parameters["properties"]["a"] == {"type": "array", "items": {"type": "integer"}}
    assert JsonTool(f).output_schema == {"description": "The sums."}


def test_of_two_unknown_type_names_that_of_the_parameter_is_reported():
    def f(a: "Unknown") -> "Missing":  # noqa: F821
        pass

    with pytest.raises(DefinitionError, match=r"f: the parameter 'a' names the type 'Unknown'"):
        FunctionSchema(f)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 the function itself cannot be defined")
def test_a_function_whose_annotations_only_type_checkers_know_is_read():
    def f(a: int) -> Missing:  # noqa: F821
        """Counts."""

    def g(a: Missing) -> int:  # noqa: F821
        """Counts."""

    assert JsonTool(f).parameters["properties"] == {"a": {"type": "integer"}}
    check_takes("judge=", g, "answer")
    check_arity(g)
    with pytest.raises(DefinitionError, match=r"g: the parameter 'a' names the type 'Missing'"):
        JsonTool(g)


def test_a_type_that_no_model_can_write_is_a_definition_error():
    class Opaque:
        pass

    def f(a: Opaque):
        pass

    with pytest.raises(DefinitionError, match=r"f: the parameter 'a' has the type Opaque.*Injected\[Opaque\]"):
        FunctionSchema(f)


def test_a_builtin_without_signature_is_a_definition_error():
    with pytest.raises(DefinitionError, match="no signature that Python can read"):
        FunctionSchema(min)


def test_validation_never_calls_and_a_tools_own_validation_error_is_not_about_arguments():
    called = []

    def f(a: int):
        called.append(a)
        Place(name=None)

    call = FunctionSchema(f).bind('{"a": 1}')
    assert called == []
    with pytest.raises(ValidationError):
        call()


def test_walking_touches_schemas_only():
    schema = {"properties": {"items": {"type": "string", "enum": ["items"]}}, "default": {"properties": {"x": {}}}}
    assert [path for path, _ in iter_children(schema)] == [("properties", "items")]
    seen = []
    rebuild(schema, lambda node: seen.append(node) or node)
    assert len(seen) == 2


class Drink(BaseModel):
    size: int = 1


class Bag(BaseModel):
    model_config = ConfigDict(extra="allow")
    size: int = 1


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")
    size: int = 1


def test_keys_that_a_class_does_not_declare_are_not_lost():
    def order(drink: Drink, **more: int) -> str:
        """Orders a drink."""
        return f"{drink} {more}"

    tool = JsonTool(order)
    assert tool.call_with_raw_arguments('{"drink": {"size": 2}, "ice": 3}') == "size=2 {'ice': 3}"
    for arguments in ('{"drink": {"siz": 2}}', {"drink": {"siz": 2}}):
        told = tool.call_with_raw_arguments(arguments)
        assert "drink.siz: there is no such parameter; the parameters are: size" in told.message


def test_keys_that_an_arguments_class_does_not_declare_are_not_lost():
    def show(value: object) -> str:
        return repr(value)

    told = JsonTool.from_model(Drink, show, description="Shows.").call_with_raw_arguments('{"siz": 2}')
    assert "siz: there is no such parameter" in told.message
    assert (
        JsonTool.from_model(Bag, show, description="Shows.").call_with_raw_arguments('{"a": 2}') == "Bag(size=1, a=2)"
    )
    assert JsonTool.from_model(Loose, show, description="Shows.").call_with_raw_arguments('{"a": 2}') == "Loose(size=1)"
