"""The outputs, judged by the providers' own SDK types."""

import warnings

import pytest
from format_signatures import RAW, SIGNATURES
from pydantic import ConfigDict, TypeAdapter, with_config

from agentkit.schemas.formats import Declaration, render
from agentkit.schemas.functions import FunctionSchema

TABLE = {name: FunctionSchema(function).parameters for name, function in SIGNATURES.items()} | RAW
every_name = pytest.mark.parametrize("name", TABLE)


def rendered(name, format):
    return render(Declaration("take", "Takes it.", TABLE[name]), format).schema


def closed(typed_dict):
    """A validator of an SDK's TypedDict that takes no other keys."""
    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(typed_dict))


@every_name
def test_openai_types_take_the_tools(name):
    chat = pytest.importorskip("openai.types.chat")
    shared = pytest.importorskip("openai.types.shared_params")
    responses = pytest.importorskip("openai.types.responses")
    closed(chat.ChatCompletionFunctionToolParam).validate_python(rendered(name, "openai"))
    closed(chat.ChatCompletionFunctionToolParam).validate_python(rendered(name, "openai_strict"))
    closed(responses.FunctionToolParam).validate_python(rendered(name, "responses"))
    closed(shared.ResponseFormatJSONSchema).validate_python(rendered(name, "response_format"))


@every_name
def test_openai_sdk_finds_nothing_to_change_in_a_strict_schema(name):
    """`to_strict_json_schema` is what the SDK does to a pydantic model: on our output it must be the identity."""
    pydantic_part = pytest.importorskip("openai.lib._pydantic")
    function = rendered(name, "openai_strict")["function"]
    if function["strict"]:
        schema = function["parameters"]
        again = pydantic_part._ensure_strict_json_schema(
            rendered(name, "openai_strict")["function"]["parameters"], path=(), root=schema
        )
        assert again == schema


@every_name
def test_anthropic_types_take_the_tools(name):
    types = pytest.importorskip("anthropic.types")
    closed(types.ToolParam).validate_python(rendered(name, "anthropic"))


@every_name
def test_google_types_take_the_declarations(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        types = pytest.importorskip("google.genai.types")
    declaration = rendered(name, "gemini")
    taken = types.FunctionDeclaration.model_validate(upper_case(declaration))
    back = taken.model_dump(exclude_none=True, by_alias=True, mode="json")
    assert back == upper_case(declaration)


def upper_case(value):
    """The same with types as the SDK's enum spells them."""
    if isinstance(value, dict):
        return {
            key: inner.upper() if key == "type" and isinstance(inner, str) else upper_case(inner)
            for key, inner in value.items()
        }
    return [upper_case(inner) for inner in value] if isinstance(value, list) else value
