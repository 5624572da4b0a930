"""Functions with several signatures."""

import functools
import inspect
from typing import overload

import pytest

from agentkit import DefinitionError, ExceptionInfo, JsonTool
from agentkit.core.context import RunContext


@overload
def forecast(city: str) -> str: ...
@overload
def forecast(city: str, days: int) -> str: ...
@overload
def forecast(latitude: float, longitude: float) -> str: ...
def forecast(*args, **kwargs) -> str:
    """Forecasts the weather.

    Args:
        city: The city.
        days: How many.
    """
    return f"{args} {kwargs}"


@functools.singledispatch
def describe(thing) -> str:
    """Describes a thing."""
    raise TypeError(thing)


@describe.register
def _(thing: int) -> str:
    return f"the number {thing}"


@describe.register(list)
def _(thing) -> str:
    return f"a list of {len(thing)}"


@pytest.mark.parametrize(
    "choice",
    [1, (str, int), [str, int], lambda signature: "days" in signature.parameters],
    ids=["index", "types", "list of types", "predicate"],
)
def test_a_signature_is_chosen_by_index_types_or_predicate(choice):
    tool = JsonTool(forecast, overload=choice)
    assert list(tool.parameters["properties"]) == ["city", "days"]
    assert tool.parameters["required"] == ["city", "days"]
    assert tool.call_with_raw_arguments({"city": "Rome", "days": "2"}) == "() {'city': 'Rome', 'days': 2}"


def test_each_signature_has_its_own_texts():
    assert JsonTool(forecast, overload=0).parameters["properties"]["city"]["description"] == "The city."


def test_without_a_choice_all_are_offered_together():
    tool = JsonTool(forecast)
    assert set(tool.parameters["properties"]) == {"city", "days", "latitude", "longitude"}
    assert [branch["required"] for branch in tool.parameters["anyOf"]] == [
        ["city"],
        ["city", "days"],
        ["latitude", "longitude"],
    ]
    assert tool.call_with_raw_arguments({"latitude": 1, "longitude": 2}) == "() {'latitude': 1.0, 'longitude': 2.0}"
    assert tool.call_with_raw_arguments({"city": "Rome", "days": 3}) == "() {'city': 'Rome', 'days': 3}"
    info = tool.call_with_raw_arguments({"latitude": 1})
    assert isinstance(info, ExceptionInfo)
    assert "longitude" in info.message


def test_a_dispatching_function_offers_its_cases():
    tool = JsonTool(describe)
    assert tool.call_with_raw_arguments({"thing": 7}) == "the number 7"
    assert tool.call_with_raw_arguments({"thing": [1, 2]}) == "a list of 2"
    assert JsonTool(describe, overload=[list]).call_with_raw_arguments({"thing": [1]}) == "a list of 1"
    assert JsonTool(describe, overload=0).parameters["properties"]["thing"]["type"] == "integer"


@pytest.mark.parametrize("choice", [7, -1, (bytes,), lambda signature: True])
def test_a_choice_that_fits_none_or_several_is_refused_with_the_list(choice):
    with pytest.raises(DefinitionError, match=r"forecast: overload=.*0: \(city: str\)"):
        JsonTool(forecast, overload=choice)


def test_a_function_without_overloads_has_none_to_choose():
    def f(a: int) -> int:
        """Does."""
        return a

    with pytest.raises(DefinitionError, match="Signatures: none"):
        JsonTool(f, overload=0)
    assert list(inspect.signature(f).parameters) == list(JsonTool(f).parameters["properties"])


def test_injected_parameters_of_overloads_stay_hidden():
    @overload
    def g(a: int, run: RunContext) -> int: ...
    @overload
    def g(a: str) -> str: ...
    def g(a, run=None):
        """Does."""
        return a, run is not None

    tool = JsonTool(g)
    assert set(tool.parameters["properties"]) == {"a"}
    assert tool.call_with_raw_arguments({"a": 1}) == (1, True)
    assert tool.call_with_raw_arguments({"a": "x"}) == ("x", False)
