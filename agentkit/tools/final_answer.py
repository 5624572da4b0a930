"""The tool that ends a run: its arguments are the answer, validated like any arguments."""

import inspect
import json
import types
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, partial
from typing import Any

from ..core.errors import DefinitionError, ToolError
from ..core.messages import ToolCall
from ..schemas.annotations import read_docstring, texts_of
from ..schemas.functions import describe_type, describe_type_error
from ..schemas.models import is_arguments_model, keep_instance
from ..schemas.signature import docstring_of
from .json_tool import JsonTool

FINAL_ANSWER = "final_answer"
DESCRIPTION = "Give the final answer and end the task: when it is done, or to say why it cannot be done."
ANSWER_KEY = "answer"
"""The parameter of an answer without fields; models also put an answer with fields under this key."""


def make_answer_tool(answer: Any = str) -> JsonTool[..., Any]:
    """Return the tool `final_answer` for answers of type `answer`, any type that pydantic can validate.

    The fields of a pydantic model, a dataclass, a TypedDict or a NamedTuple are the parameters; `{"answer": {...}}` is
    accepted as well.  The parameters of a function are the parameters, its return value is the answer, and its
    exceptions are errors for the model.  Any other type is the type of the one parameter `answer`; for `str` it is
    called `text`.
    """
    if isinstance(answer, Mapping):
        raise DefinitionError(
            f"answer: a mapping is not a type: {answer!r:.80}. Use a TypedDict, a dataclass or a pydantic model."
        )
    if answer is None or answer is types.NoneType:
        raise DefinitionError("answer=None: the answer would be null. Leave answer= out for a text, or give a type.")
    if answer is str:
        return copy(_make_text_tool())
    if is_arguments_model(answer) and not getattr(answer, "__pydantic_root_model__", False):
        description = _describe(texts_of(answer).description)
        return JsonTool.from_model(answer, keep_instance, name=FINAL_ANSWER, description=description)
    if inspect.isroutine(answer) or isinstance(answer, JsonTool | partial):
        description = _describe(read_docstring(docstring_of(answer), ()).description)
        return JsonTool(answer, name=FINAL_ANSWER, description=description)
    try:
        return JsonTool(_make_identity(answer), name=FINAL_ANSWER, description=DESCRIPTION)
    except Exception as error:  # pydantic raises various exceptions for objects that are not types
        cause = error.__cause__ if isinstance(error, DefinitionError) else error
        reason = describe_type_error(cause) if isinstance(cause, Exception) else ""
        if isinstance(answer, list):
            remedy = f"For a list of answers: list[{', '.join(map(describe_type, answer)) or 'str'}]."
        elif is_arguments_model(type(answer)):
            remedy = f"It is an object. Pass its class: answer={type(answer).__name__}."
        else:
            kinds = "a number, a string, a list, a dataclass, a pydantic model"
            remedy = f"Use a type that pydantic can validate from JSON: {kinds}."
        what = f"a model cannot write this type{f' ({reason})' if reason else ''}"
        raise DefinitionError(f"answer={describe_type(answer)}: {what}. {remedy}") from error


def takes_text(tool: JsonTool[..., Any]) -> bool:
    """Return whether the answer of an answer tool is plain text."""
    return list(tool.parameters["properties"]) == ["text"]


def make_answer_call(text: str, tool: JsonTool[..., Any]) -> ToolCall:
    """Return the call of the answer tool for a reply: its text is the answer, or the arguments of the call."""
    return ToolCall("", tool.name, json.dumps({"text": text}, ensure_ascii=False) if takes_text(tool) else text)


@cache
def _make_text_tool() -> JsonTool[..., Any]:
    """Return the tool for plain text; made once, because almost every agent has a copy."""
    return JsonTool(check_text_answer, name=FINAL_ANSWER, description=DESCRIPTION)


def _describe(text: str) -> str:
    return f"{DESCRIPTION}\n\n{text}" if text else DESCRIPTION


def _make_identity(type_: Any) -> Callable[..., Any]:
    """Return a function that has one parameter of that type and returns it."""

    def typed(answer: Any) -> Any:
        return answer

    typed.__annotations__ = {ANSWER_KEY: type_, "return": type_}
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(ANSWER_KEY, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=type_)]
    )
    return typed


def check_text_answer(text: str) -> str:
    """The plain answer.

    Args:
        text: The whole answer, as the person should read it.
    """
    if not text.strip():
        raise ToolError("The answer is empty. Give all of it, or say why there is none.")
    return text
