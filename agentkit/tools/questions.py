"""Ask a person from inside a tool, and check the answers by their JSON Schema."""

import json
from collections.abc import Mapping
from itertools import count, islice
from typing import Any, TypeVar, overload

from ..core.context import enclosing
from ..core.errors import DefinitionError, RunError
from ..core.pending import CallQuestions, InputRequired, Pending, Question
from ..core.portable import format_value
from ..schemas.functions import build_type_schema, validate_value
from ..schemas.walk import JsonSchema, check_references, is_well_formed
from .arguments.explain import Source, build_value

T = TypeVar("T")

MAX_ANSWER_EXAMPLE_VALUES = 100
MAX_ANSWER_PROBLEMS = 3
MAX_SCHEMA_CHARS = 300


@overload
def ask_question(text: str, answer: type[T]) -> T: ...
@overload
def ask_question(text: str, answer: Any) -> Any: ...
@overload
def ask_question(text: str) -> str: ...
def ask_question(text: str, answer: Any = str) -> Any:
    """Ask a person, in a tool that an agent calls, and return the answer.

    If no answer can be had at once, the run pauses.  With the answer, the tool is called again from its beginning, and
    this function returns.  So ask before the tool changes anything, or use `InputRequired` with a state.

    Args:
        text: What the person reads.
        answer: The type of the answer, any that pydantic can validate; or a JSON Schema, for an answer as JSON data.

    Raises:
        InputRequired: There is no answer yet.  Let it pass: it ends the call.
        RunError: The code is not part of a tool call: a thread that the tool started itself, or another process.
        DefinitionError: The type has no schema.
    """
    questions = enclosing(CallQuestions)
    if questions is None:
        raise RunError(
            f"ask_question({text!r:.60}): no tool call of an agent is in progress here. Call it in the tool itself, "
            "not in a thread or process that the tool started."
        )
    if found := questions.find_answer(text):
        return found[0] if isinstance(answer, Mapping) else validate_value(answer, found[0])
    schema = answer if isinstance(answer, Mapping) else build_type_schema(answer)
    number = len(questions.known) + 1
    raise InputRequired(Question(text, schema, "" if number == 1 else str(number)))


def check_question(question: Question) -> str:
    """Return why the schema of a question cannot be used; "" if it can."""
    schema = dict(question.schema)
    try:
        if not is_well_formed(schema):
            from jsonschema import Draft202012Validator

            Draft202012Validator.check_schema(schema)
        check_references(schema)
    except DefinitionError as error:
        return str(error)
    except Exception as error:  # jsonschema has no common base class for what an odd schema raises
        return f"the schema of the question {question.text!r:.60} is not valid: {getattr(error, 'message', error)}"
    return ""


def explain_answer(question: Question | Pending, value: Any) -> str:
    """Return why `value` is not a valid answer, and what is expected; "" for a valid one."""
    if not (found := find_answer_problem(question, value)):
        return ""
    schema = dict(question.schema)
    example = json.dumps(build_example(schema), ensure_ascii=False)
    return f"{found}. Expected: {format_value(schema, MAX_SCHEMA_CHARS)}, for example {example}"


def find_answer_problem(question: Question | Pending, value: Any) -> str:
    """Return why `value` is not a valid answer, for a person who has read the question; "" for a valid one."""
    from ..schemas.safe_validator import SafeValidator  # imports jsonschema

    schema = dict(question.schema)
    try:
        json.dumps(value, allow_nan=False)
        found = [*islice(SafeValidator(schema).describe_errors(value), MAX_ANSWER_PROBLEMS)]
    except (TypeError, ValueError, RecursionError) as error:
        found = [str(error)]
    return "; ".join(found)


def build_example(schema: JsonSchema) -> Any:
    """Return an example of an answer."""
    return build_value(schema, Source(schema, count(MAX_ANSWER_EXAMPLE_VALUES, -1)))
