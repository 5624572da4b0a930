"""What can be a tool, what cannot and why, and the settings that a tool inherits from what it is made of."""

import functools
import types
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import pytest
from pydantic import BaseModel

from agentkit import (
    DefinitionError,
    ExceptionInfo,
    JsonAgent,
    JsonTool,
    Paused,
    ToolExecutor,
    ToolRegistry,
    annotate,
    tool,
)
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.final_answer import make_answer_tool

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh():
    DONE.clear()


class PathArgs(BaseModel):
    path: str


class DeleteFile(ToolExecutor[PathArgs]):
    """Deletes a file."""

    effect = "danger"
    timeout = 5

    def execute(self, args: PathArgs) -> str:
        DONE.append(args.path)
        return "deleted"


@tool(effect="danger", trust="untrusted", timeout=3, sequential=True)
def delete(path: str) -> str:
    """Delete a file."""
    DONE.append(path)
    return "deleted"


class Shop:
    """A shop."""

    def price(self, item: str) -> int:
        """Price of an item."""
        return len(item)

    @tool
    def cost(self, item: str) -> int:
        """Cost of an item."""
        return len(item)


# Settings have one meaning, whatever a tool is made of


class ByKeyword(ToolExecutor[PathArgs], effect="danger", timeout=5, name="erase"):
    """Erases a file."""

    def execute(self, args: PathArgs) -> str:
        return "erased"


@tool(effect="danger", name="wipe", description="Wipes a file.")
class Wipe(ToolExecutor[PathArgs]):
    def execute(self, args: PathArgs) -> str:
        DONE.append(args.path)
        return "wiped"


@pytest.mark.parametrize(
    "made", [DeleteFile, DeleteFile(), ByKeyword, Wipe, DeleteFile().execute, partial(DeleteFile().execute)]
)
def test_a_class_declares_its_settings_and_the_person_is_asked(world, made):
    made = (
        made
        if not callable(made) or made in (DeleteFile, ByKeyword, Wipe)
        else JsonTool(made, name="t", description="T.")
    )
    (tools,) = ToolRegistry(made).values()
    assert tools.effect == "danger"
    agent = JsonAgent(tools, model=ScriptedModel(call(tools.name, path="a")))
    with pytest.raises(Paused):
        world.run(agent, "go")
    assert DONE == []


def test_a_decorated_executor_is_its_class_with_the_given_settings():
    assert issubclass(Wipe, ToolExecutor)
    assert (Wipe.name, Wipe.description, Wipe.effect) == ("wipe", "Wipes a file.", "danger")
    registry = ToolRegistry()
    registry.register(Wipe())
    assert list(registry["wipe"].parameters["properties"]) == ["path"]
    assert registry.execute("wipe", '{"path": "x"}').value == "wiped"
    assert DONE == ["x"]
    assert tool(DeleteFile) is DeleteFile
    with pytest.raises(TypeError, match=r"DeleteFile has no setting 'efect'\. Did you mean 'effect'\?"):
        tool(efect="read")(DeleteFile)
    with pytest.raises(DefinitionError, match="the tool 'DeleteFile': effect must be one of"):
        tool(effect="reads")(type("DeleteFile", (DeleteFile,), {}))


def test_a_tool_has_the_names_of_other_libraries():
    assert delete.json_schema() == delete.schema("openai")
    assert delete.fn is delete.function


def test_settings_of_an_instance_count():
    class Slow(ToolExecutor[PathArgs]):
        """Slow."""

        def __init__(self, timeout: float) -> None:
            self.timeout = timeout

        def execute(self, args: PathArgs) -> str:
            return ""

    assert ToolRegistry(Slow(7))["slow"].timeout == 7
    assert JsonTool(Slow(7), timeout=8).timeout == 8


def test_unknown_and_impossible_settings_of_a_class_are_refused_when_it_is_declared():
    with pytest.raises(TypeError, match=r"A has no setting 'efect'. Did you mean 'effect'\?"):
        types.new_class("A", (ToolExecutor[PathArgs],), {"efect": "danger"})
    with pytest.raises(DefinitionError, match=r"A.efect: no such setting. Did you mean 'effect'\?"):
        type("A", (ToolExecutor,), {"efect": "danger"})
    with pytest.raises(DefinitionError, match="effect must be one of 'read'"):
        type("A", (ToolExecutor,), {"effect": "dangerous"})


def test_other_attributes_and_methods_of_a_class_are_its_own():
    class Counter(ToolExecutor[PathArgs]):
        """Counts."""

        retry_count = 3
        folder = "/tmp"

        def repair(self) -> None:
            """Repairs the counter."""

        def execute(self, args: PathArgs) -> str:
            return self.folder

    assert ToolRegistry(Counter)["counter"].repair == "safe"


def test_from_model_and_from_schema_inherit_the_settings_of_what_they_call():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert JsonTool.from_schema(name="a", description="A.", parameters=schema, call=delete).effect == "danger"
    assert JsonTool.from_model(PathArgs, DeleteFile().execute, name="b", description="B.").effect == "danger"


# What wraps a dangerous tool is dangerous


@functools.wraps(delete)
def decorated(path: str) -> str:
    return delete(path)


WRAPPERS = {
    "tool": lambda: tool(delete),
    "JsonTool": lambda: JsonTool(delete),
    "renamed": lambda: JsonTool(delete, name="other", description="Other."),
    "with texts": lambda: JsonTool(delete, parameters={"path": "The path."}),
    "partial": lambda: JsonTool(partial(delete), name="p", description="P."),
    "partial of partial": lambda: JsonTool(partial(partial(delete, "a")), name="p", description="P."),
    "decorated": lambda: JsonTool(decorated),
    "registered": lambda: ToolRegistry(partial(delete))["delete"],
}


@pytest.mark.parametrize("make", WRAPPERS.values(), ids=WRAPPERS)
def test_what_is_made_of_a_dangerous_tool_inherits_its_settings(make):
    made = make()
    assert (made.effect, made.trust, made.timeout, made.sequential) == ("danger", "untrusted", 3, True)
    assert made.fifo_lock is delete.fifo_lock


def test_a_tool_of_a_tool_has_its_schema_and_texts():
    raw = JsonTool.from_schema(
        name="find",
        description="Finds.",
        parameters={"type": "object", "properties": {"q": {"type": "string", "pattern": "a+"}}, "required": ["q"]},
        call=lambda **given: given,
        effect="read",
    )
    copy = tool(raw)
    assert copy.parameters == raw.parameters
    assert (copy.name, copy.description, copy.effect) == ("find", "Finds.", "read")
    assert JsonTool(raw, name="search").name == "search"
    assert JsonTool(delete, parameters={"path": "Where."}).parameters["properties"]["path"]["description"] == "Where."
    for source in (raw, Wipe):
        with pytest.raises(DefinitionError, match="parameters= and overload= are for functions"):
            JsonTool(source, parameters={"q": "Q."})


def test_an_explicit_setting_takes_precedence():
    assert JsonTool(delete, effect="write", timeout=None).effect == "write"
    assert JsonTool(delete, effect="write").trust == "untrusted"


@pytest.mark.parametrize("form", [delete, partial(delete)], ids=["tool", "partial"])
def test_a_dangerous_function_as_the_answer_waits_for_a_decision(world, form):
    assert make_answer_tool(form).effect == "danger"
    agent = JsonAgent(Shop().price, answer=form, model=ScriptedModel(call("final_answer", path="a")))
    with pytest.raises(Paused):
        world.run(agent, "go")
    assert DONE == []


# What cannot be a tool


def forms_of_agent():
    agent = JsonAgent(Shop().price, model=ScriptedModel())
    return [agent, agent.run, agent.arun, agent.stream, partial(agent), partial(agent.run, "q")]


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("take", [JsonAgent, ToolRegistry, JsonTool, tool, lambda entry: JsonAgent([entry])])
def test_an_agent_among_the_tools_is_refused_with_the_remedy(place, take):
    with pytest.raises(DefinitionError, match=r'JsonAgent: an agent is not a tool.*agent\.as_tool\("name"'):
        take(forms_of_agent()[place])


def test_what_an_agent_makes_of_itself_is_a_tool():
    assert JsonAgent(forms_of_agent()[0].as_tool("shop", "Answers."), model=ScriptedModel()).tools["shop"]


@pytest.mark.parametrize("method", [Shop.price, Shop.cost], ids=["function", "tool"])
def test_a_method_without_its_object_is_refused_with_the_remedy(method):
    with pytest.raises(
        DefinitionError, match=r"Shop\.\w+: a method needs its object.*ToolRegistry\.from_object\(Shop\("
    ):
        ToolRegistry(method)


def test_a_function_within_a_function_is_not_a_method():
    def look(self: str) -> str:
        """Look."""
        return self

    assert ToolRegistry(look)["look"].parameters["properties"] == {"self": {"type": "string"}}


@pytest.mark.parametrize("take", [ToolRegistry, JsonAgent, JsonTool, tool])
def test_a_class_an_instance_and_a_dict_are_refused_with_the_remedy(take):
    with pytest.raises(
        DefinitionError, match=r"Shop: a class is not a tool.*ToolRegistry\.from_object\(Shop\(\.\.\.\)\)"
    ):
        take(Shop)
    with pytest.raises(DefinitionError, match=r"got Shop: .*ToolRegistry\.from_object\(shop\)"):
        take(Shop())
    with pytest.raises(DefinitionError, match=r"got dict: .*JsonTool\.from_schema\("):
        take({"type": "function", "function": {"name": "f"}})
    with pytest.raises(DefinitionError, match=r"got dict: .*Pass functions"):
        take({"price": Shop().price})
    with pytest.raises(DefinitionError, match=r"got str: 'Sell\.'\. .*What the agent is for: description="):
        take("Sell.")
    with pytest.raises(DefinitionError, match=r"got str: 'openai/gpt-4o'\. .*For a model: model='openai/gpt-4o'"):
        take("openai/gpt-4o")


def test_a_misspelled_keyword_names_the_right_one():
    with pytest.raises(TypeError, match=r"the tool 'price' has no setting 'desciption'. Did you mean 'description'\?"):
        tool(desciption="Price.")(Shop().price)


def test_the_tools_of_another_agent_are_taken_without_its_answer():
    other = JsonAgent(Shop().price, model=ScriptedModel())
    agent = JsonAgent(other.tools, answer=int, model=ScriptedModel(answer(answer=3)))
    assert list(agent.tools) == ["final_answer", "price"]
    assert agent("go") == 3


@dataclass
class Odd:
    inner: object


class Unusable:
    pass


@pytest.mark.parametrize("form", [5, Unusable, Annotated[Unusable, "x"], list[Unusable], "Nothing", Shop()])
def test_an_answer_of_an_unusable_type_names_the_option_and_the_remedy(form):
    with pytest.raises(DefinitionError) as caught:
        JsonAgent(Shop().price, answer=form, model=ScriptedModel())
    text = str(caught.value)
    assert text.startswith("answer=")
    assert "a number, a string, a list, a dataclass, a pydantic model" in text
    assert "Injected" not in text
    assert "<locals>" not in text


def test_an_answer_given_as_a_dict_is_refused_and_a_class_proposed():
    with pytest.raises(DefinitionError, match=r"a mapping is not a type: \{'item': <class 'str'>\}"):
        JsonAgent(Shop().price, answer={"item": str}, model=ScriptedModel())


def test_annotate_of_a_function_names_the_keyword_for_functions():
    with pytest.raises(DefinitionError, match=r"annotate: price is not a class.*JsonTool\(function, parameters="):
        annotate(Shop.price, description="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"x"', 'not a text (got "x")'),
        ('"a longer text, with a comma"', "not a text"),
        ("[1]", "not a list (got [1])"),
        ("7", "not integer (got 7)"),
        ("x", "expected a JSON value at character 0, near 'x'"),
        ('{"item": "x', "cut off after 11 characters"),
        ('"{\\"item\\": "', "cut off"),
    ],
)
def test_arguments_that_are_not_an_object_are_named_for_what_they_are(written, expected):
    error = JsonTool(Shop().price).call_with_raw_arguments(written)
    assert isinstance(error, ExceptionInfo)
    assert expected in error.message
