"""Tools by name."""

import asyncio

import pytest

from agentkit import DefinitionError, ExceptionInfo, JsonTool, ToolCall, ToolRegistry, tool
from agentkit.tools.final_answer import make_answer_tool


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def double(a: int) -> int:
    """Doubles."""
    return 2 * a


def test_a_registry_is_a_mapping_in_order_of_registration():
    registry = ToolRegistry(add, [double])
    assert list(registry) == ["add", "double"]
    assert len(registry) == 2
    assert "add" in registry
    assert isinstance(registry["add"], JsonTool)
    assert registry.get("nope") is None
    assert dict(registry)["double"].is_async


def test_register_is_a_method_and_a_decorator():
    registry = ToolRegistry()
    registry.register(add)

    @registry.register
    def sub(a: int, b: int) -> int:
        """Subtracts."""
        return a - b

    @registry.register
    @tool(name="neg")
    def negate(a: int) -> int:
        """Negates."""
        return -a

    assert list(registry) == ["add", "sub", "neg"]
    assert sub(3, 1) == 2
    assert negate(3) == -3


def test_two_tools_of_one_name_are_refused():
    registry = ToolRegistry(add)
    with pytest.raises(DefinitionError, match=r"two tools are called 'add'.*Rename"):
        registry.register(add)
    assert len(registry) == 1


def test_the_answers_name_is_refused_with_the_remedy():
    def final_answer(text: str) -> str:
        """Mine."""
        return text

    with pytest.raises(DefinitionError, match=r"'final_answer' is taken.*answer="):
        ToolRegistry(final_answer, answer=make_answer_tool())


@pytest.mark.parametrize("wrong", [7, "add", None])
def test_a_value_that_is_not_a_tool_is_refused(wrong):
    with pytest.raises(DefinitionError, match="must be a function or a JsonTool"):
        ToolRegistry(wrong)


def test_the_error_for_a_function_that_was_called_names_the_function():
    async def look() -> str:
        """Look."""
        return "seen"

    async def count():
        """Count."""
        yield 1

    called = look()
    with pytest.raises(DefinitionError, match=r"Pass the function itself: look, not look\(\.\.\.\)\.$"):
        ToolRegistry(called)
    called.close()
    with pytest.raises(DefinitionError, match=r"Pass the function itself: count, not count\(\.\.\.\)\.$"):
        ToolRegistry(count())


def test_a_name_in_place_of_the_function_names_the_keyword():
    with pytest.raises(DefinitionError, match=r"@tool: expected a function, got 'look'. For a name: @tool\(name=...\)"):
        tool("look")


def test_the_error_for_a_class_method_names_the_order_of_the_decorators():
    with pytest.raises(DefinitionError, match="Write @tool below @classmethod"):

        class Shop:
            @tool
            @classmethod
            def price(cls, item: str) -> float:
                """Looks up a price."""
                return 1.0


def test_schemas_are_built_once_and_again_when_a_tool_comes():
    registry = ToolRegistry(add)
    assert registry.schemas("openai") is registry.schemas("openai")
    assert [schema["function"]["name"] for schema in registry.schemas("openai")] == ["add"]
    registry.register(double)
    assert [schema["name"] for schema in registry.schemas("anthropic")] == ["add", "double"]
    with pytest.raises(DefinitionError):
        registry.schemas("openay")


def test_execute_runs_a_tool_by_name():
    registry = ToolRegistry(add, double)
    result = registry.execute("add", '{"a": 1, "b": 2}')
    assert (result.value, result.content, result.error) == (3, "3", None)
    assert registry.execute("double", '{"a": 4}').value == 8
    assert asyncio.run(registry.aexecute("double", '{"a": 4}')).value == 8
    assert asyncio.run(registry.aexecute("add", '{"a": 1, "b": 2}')).value == 3


def test_an_unknown_name_is_a_result_that_names_the_nearest_and_all():
    result = ToolRegistry(add, double).execute("ad", "{}")
    assert result.error == ExceptionInfo(
        "UnknownTool", "there is no tool 'ad'. Did you mean 'add'? The tools are: add, double."
    )
    assert result.message["role"] == "tool"


def test_the_list_of_tools_in_an_error_is_bounded():
    tools = [JsonTool(add, name=f"tool_{number}") for number in range(500)]
    assert len(ToolRegistry(tools).execute("x" * 10_000).content) < 600


def test_binding_never_fails_and_never_calls():
    called = []

    def f(a: int) -> None:
        """Does."""
        called.append(a)

    bound = ToolRegistry(f).bind(ToolCall("1", "f", '{"a": "x"}'))
    assert bound.problem.name == "ValidationError"
    assert bound.invoke().error == bound.problem
    ToolRegistry(f).bind(ToolCall("1", "f", '{"a": 1}'))
    assert called == []


def test_registries_can_be_prefixed_filtered_and_merged():
    registry = ToolRegistry(add, double)
    assert list(registry.prefixed("math_")) == ["math_add", "math_double"]
    assert registry.prefixed("math_").execute("math_add", '{"a": 1, "b": 2}').value == 3
    assert list(registry.filtered(lambda tool: tool.is_async)) == ["double"]
    assert list(registry.merged(registry.prefixed("x_"))) == ["add", "double", "x_add", "x_double"]
    assert list(registry) == ["add", "double"], "the registry itself stays as it is"


def test_the_answer_tool_survives_filtering_and_merging():
    registry = ToolRegistry(add, answer=make_answer_tool())
    assert list(registry.filtered(lambda _: False)) == ["final_answer"]
    merged = registry.merged(double)
    assert list(merged) == ["final_answer", "add", "double"]
    assert merged.answer is registry.answer
