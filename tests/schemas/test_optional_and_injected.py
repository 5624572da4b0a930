"""None as a default, and parameters that the agent fills: where the marks and texts of an annotation belong."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import Doc, TypedDict, Unpack

from agentkit import DefinitionError, Injected, JsonAgent, JsonTool, RunContext


@dataclass
class User:
    name: str = ""


USER = User("ada")


def with_default(user: Injected[User] = None, query: str = "") -> Any:
    """Reads."""
    return user


def with_union(user: Injected[User] | None, query: str = "") -> Any:
    """Reads."""
    return user


def with_optional_inside(user: Injected[Optional[User]], query: str = "") -> Any:
    """Reads."""
    return user


def with_mark(user: Annotated[User, Injected] = None, query: str = "") -> Any:
    """Reads."""
    return user


def with_validator(user: Annotated[User, Injected, AfterValidator(str)] = None, query: str = "") -> Any:
    """Reads."""
    return user


class Options(TypedDict, total=False):
    user: Injected[User]
    query: str


def with_keys(**options: Unpack[Options]) -> Any:
    """Reads."""
    return options["user"]


INJECTED = [with_default, with_union, with_optional_inside, with_mark, with_validator, with_keys]


@pytest.mark.parametrize("function", INJECTED)
def test_an_injected_parameter_is_never_the_models(function):
    tool = JsonTool(function)
    assert list(tool.parameters["properties"]) == ["query"]
    refused = tool.bind('{"user": {"name": "admin"}}', RunContext(USER))
    assert "user: there is no such parameter" in refused.ready.message
    assert tool.bind("{}", RunContext(USER)).ready() is USER


@pytest.mark.parametrize("function", INJECTED[:-2])
@pytest.mark.parametrize("deps", [None, {}, {"other": 1}])
def test_an_optional_injected_parameter_without_a_value_is_null(function, deps):
    assert JsonTool(function).bind("{}", RunContext(deps)).ready() is None


def test_an_optional_injected_parameter_with_several_values_is_ambiguous():
    with pytest.raises(DefinitionError, match="exactly one User for a tool's parameter, found 2"):
        JsonTool(with_default).bind("{}", RunContext({"a": User(), "b": User()}))


def run_by_default(context: RunContext = None) -> Any:
    """Reads."""
    return context


def run_or_none(context: RunContext[User] | None) -> Any:
    """Reads."""
    return context


@pytest.mark.parametrize("function", [run_by_default, run_or_none])
def test_an_optional_context_is_filled(function):
    context = RunContext(USER)
    assert JsonTool(function).parameters["properties"] == {}
    assert JsonTool(function).bind("{}", context).ready() is context


class Request(BaseModel):
    """A request."""

    user: Injected[User] = Field(default_factory=User)


class SendArgs(BaseModel):
    """Sends."""

    user: Injected[User]


def test_a_mark_where_it_has_no_effect_is_refused():
    def listed(users: list[Injected[User]]) -> None:
        """Reads."""

    def nested(request: Request) -> None:
        """Reads."""

    with pytest.raises(DefinitionError, match="listed: the parameter 'users' has Injected inside another type"):
        JsonTool(listed)
    with pytest.raises(DefinitionError, match=r"Request.user: a field cannot be injected"):
        JsonTool(nested)
    with pytest.raises(DefinitionError, match=r"SendArgs.user: a field cannot be injected"):
        JsonTool.from_model(SendArgs, lambda args: None)


TEXTS = [
    (Annotated[int, "The text."], {"type": "integer"}),
    (Annotated[int, Doc("The text.")], {"type": "integer"}),
    (Annotated[int, Field(ge=1, description="The text.")], {"type": "integer", "minimum": 1}),
    (Annotated[str, Field(pattern="^a"), "The text."], {"type": "string", "pattern": "^a"}),
    (Annotated[str, "The text.", AfterValidator(str.upper)], {"type": "string"}),
    (Annotated[str, Field(description="The text."), AfterValidator(str.upper)], {"type": "string"}),
    (Annotated[Literal["a", "b"], "The text."], {"type": "string", "enum": ["a", "b"]}),
]


@pytest.mark.parametrize(("annotation", "schema"), TEXTS)
def test_an_annotations_text_stands_above_the_docstring_with_none_as_default(annotation, schema):
    def read(x=None):
        """Reads.

        Args:
            x: Another text.
        """
        return x

    read.__annotations__ = {"x": annotation}
    tool = JsonTool(read)
    place = tool.parameters["properties"]["x"]
    assert place["description"] == "The text."
    kinds = [{key: value for key, value in branch.items() if key != "description"} for branch in place["anyOf"]]
    assert kinds == [schema, {"type": "null"}]
    assert tool.call_with_raw_arguments("{}") is None
    assert tool.call_with_raw_arguments('{"x": null}') is None


ADMIN = User(name="default")


def with_own_default(user: Injected[User] = ADMIN, query: str = "") -> Any:
    """Reads."""
    return user


def with_own_default_or_none(user: Injected[User] | None = ADMIN, query: str = "") -> Any:
    """Reads."""
    return user


def with_any(user: Injected[Any] = ADMIN, query: str = "") -> Any:
    """Reads."""
    return user


def by_position(user: Injected[User] = ADMIN, /, query: str = "") -> Any:
    """Reads."""
    return user


@pytest.mark.parametrize("function", [with_own_default, with_own_default_or_none, with_any, by_position])
def test_an_injected_parameter_without_a_value_has_its_default(function):
    tool = JsonTool(function)
    assert tool.bind("{}", RunContext(None)).ready() is ADMIN
    assert tool.bind("{}", RunContext(USER)).ready() is USER
    JsonAgent(tool, model="offline")


@pytest.mark.parametrize("function", [with_own_default, with_own_default_or_none])
def test_a_default_does_not_choose_among_several_values(function):
    with pytest.raises(DefinitionError, match="exactly one User for a tool's parameter, found 2"):
        JsonTool(function).bind("{}", RunContext({"a": USER, "b": User()}))


def test_an_injected_key_that_may_be_left_out_is_left_out_without_a_value():
    tool = JsonTool(with_keys_counted)
    assert tool.bind("{}", RunContext(None)).ready() == []
    assert tool.bind("{}", RunContext(USER)).ready() == ["user"]


def with_keys_counted(**options: Unpack[Options]) -> Any:
    """Reads."""
    return list(options)
