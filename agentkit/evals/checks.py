"""What is checked of a trial: the calls, the answer and the use, against what the case expects.

The checks are pure but for judges: a function of the answer, and a model that judges by a rubric.
"""

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from .. import JsonAgent, Result, ToolCall, Usage
from ..extend import Message, format_value, run_in_thread
from .cases import ANY_ANSWER, FINAL, Case

MAX_FAILURE_VALUE_CHARS = 200
"""Characters of a value in a failure."""
NOT_MADE = ("UnknownTool: ", "Not run: ")
"""The beginnings of the results of calls that were not made: of a tool that does not exist, or at the end of a run."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that the model made: the tool's name, the arguments as written, and as the tool's types read them."""

    name: str
    arguments: Mapping[str, Any]
    typed: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_show(value)}' for name, value in self.arguments.items())})"


@dataclass
class Attempt:
    """What an agent did in a trial; a judge function can ask for it by a second parameter.

    Attributes:
        case: The case.
        agent: The agent of the trial, with its `deps`.
        model: The name of the model.
        answer: The last answer, in the type that the agent declares.
        messages: The conversation.
        usage: Requests, tokens and dollars, without those of judges and simulated users.
        steps: The replies of the model.
        seconds: How long the runs took.
        runs: The ids of the runs.
        error: Why there is no answer; "" if there is one.
        said: The queries and their answers so far.
        results: The results of the runs in this process, one for each query.
        programs: The conversations of programs (code mode) with their calls, by the ids of the calls of `run_code`.
    """

    case: Case
    agent: JsonAgent[Any]
    model: str = ""
    answer: Any = None
    messages: Sequence[Message] = ()
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    seconds: float = 0.0
    runs: list[str] = field(default_factory=list)
    error: str = ""
    said: list[tuple[Any, Any]] = field(default_factory=list)
    results: list[Result[Any]] = field(default_factory=list)
    programs: dict[str, Sequence[Message]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The answer as text: a string unchanged, data as JSON."""
        return _to_text(self.answer)

    @property
    def calls(self) -> list[MadeCall]:
        """The calls of the model that ran, in their order, without those that could not be bound and `final_answer`.

        Those of its programs are among them.
        """
        return [*_read_calls(self, self.messages)]

    def add(self, result: Result[Any], query: Any = None) -> None:
        """Add the result of a query, None for that of a run that continued."""
        if query is None:
            query = next((entry["content"] for entry in reversed(result.messages) if entry["role"] == "user"), "")
        self.said.append((query, result.answer))
        self.results.append(result)
        self.answer = result.answer
        self.messages = result.messages
        self.usage += result.usage
        self.steps += result.steps
        self.seconds += result.seconds
        self.error = result.error
        for call, trace in result.trace.inner.items():
            self.add_program(call, trace.messages)
        if result.run_id:
            self.runs.append(result.run_id)

    def add_program(self, call: str, messages: Sequence[Message]) -> None:
        """Add the conversation inside a call, if it is that of a program and not of another agent."""
        if any("program" in message for message in messages):
            self.programs[call] = messages


def _read_calls(attempt: Attempt, messages: Sequence[Message]) -> Iterator[MadeCall]:
    tools = attempt.agent.tools
    results = {entry.get("tool_call_id"): entry.get("content") for entry in messages if entry["role"] == "tool"}
    for message in messages:
        for call in message.get("tool_calls") or () if message["role"] == "assistant" else ():
            name = call["function"]["name"]
            text = call["function"]["arguments"] or "{}"
            typed = {}
            if name in tools:
                bound = tools.bind(ToolCall(call["id"], name, text))
                if bound.problem is not None:
                    continue
                typed = to_data(getattr(bound.run, "keywords", {}))
            if name != FINAL and not str(results.get(call["id"], "")).startswith(NOT_MADE):
                yield MadeCall(name, json.loads(text), typed)
            if messages is attempt.messages:
                yield from _read_calls(attempt, attempt.programs.get(call["id"], ()))


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(to_data(value), ensure_ascii=False)


def to_data(value: Any) -> Any:
    """Return a value as JSON data: bytes as text, in base64 where they are not UTF-8."""
    with suppress(ValueError):
        return to_jsonable_python(value, fallback=str)
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def _show(value: Any) -> str:
    return format_value(value, MAX_FAILURE_VALUE_CHARS)


def is_equal(value: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal; numbers but for rounding, texts without the space around them."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, int | float) and isinstance(expected, int | float):
        with suppress(OverflowError):  # an integer that is greater than any float
            return math.isclose(value, expected, rel_tol=1e-9)
    if isinstance(value, str) and isinstance(expected, str):
        return value.strip() == expected.strip()
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        return value.keys() == expected.keys() and all(is_equal(value[key], expected[key]) for key in value)
    if isinstance(value, list | tuple) and isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(is_equal, value, expected))
    return bool(value == expected)


def is_answer_equal(value: Any, expected: Any) -> bool:
    """Return whether a value is the expected one, or a text that is its JSON."""
    if is_equal(value, expected):
        return True
    with suppress(ValueError, RecursionError):
        return isinstance(value, str) and not isinstance(expected, str) and is_equal(json.loads(value), expected)
    return False


def find_mismatch(value: Any, expected: Any) -> str:
    """Return in which way a value is not the expected one; "" if it is."""
    wanted = expected if isinstance(expected, Mapping) else {"equals": expected}
    for key, each in wanted.items():
        try:
            text = _describe_mismatch(key, value, each)
        except Exception as error:  # what cannot be checked fails its trial, and no other
            text = f"{key} cannot be checked: {type(error).__name__}: {error}"
        if text:
            return text
    return ""


def _describe_mismatch(key: str, value: Any, expected: Any) -> str:
    """Return in which way a value does not fit what stands under a key of an expected value; "" if it does."""
    match key:
        case "equals" if not is_answer_equal(value, expected):
            return f"expected {_show(expected)}"
        case "contains":
            text = _to_text(value).casefold()
            texts = [expected] if isinstance(expected, str) else expected
            missing = [part for part in texts if part.casefold() not in text]
            return f"expected a text with {', '.join(map(_show, missing))}" if missing else ""
        case "pattern" if not re.search(expected, _to_text(value)):
            return f"expected a match of the pattern {_show(expected)}"
        case "one_of" if not any(is_answer_equal(value, one) for one in expected):
            return f"expected one of {', '.join(map(_show, expected))}"
        case "schema":
            return _find_schema_error(value, expected)
    return ""


def _find_schema_error(value: Any, schema: Mapping[str, Any]) -> str:
    import jsonschema

    validator = jsonschema.Draft202012Validator(schema)
    plain = to_data(value)
    if validator.is_valid(plain):
        return ""
    with suppress(ValueError, RecursionError):
        plain = json.loads(plain) if isinstance(plain, str) else plain
    first = next(validator.iter_errors(plain), None)
    return f"expected a value of the schema: {first.json_path}: {first.message}" if first else ""


def list_call_failures(case: Case, calls: Sequence[MadeCall]) -> Iterator[str]:
    """Yield what is wrong with the calls: each expected one needs a call of its own, in any order."""
    expected = case.expected_calls
    fitting = [
        [place for place, call in enumerate(calls) if call.name == name and not _find_argument(call, arguments)]
        for name, arguments in expected
    ]
    paired = _pair(fitting)
    for number, (name, arguments) in enumerate(expected):
        if number in paired:
            continue
        wanted = f"{name}({', '.join(f'{key}={_show(value)}' for key, value in arguments.items())})"
        made = ", ".join(str(call) for call in calls if call.name == name)
        made = made or (f"other tools: {', '.join(call.name for call in calls)}" if calls else "no calls")
        yield f"calls: expected {wanted}, got {made:.{2 * MAX_FAILURE_VALUE_CHARS}}"
    for call in calls:
        if call.name in case.not_called:
            yield f"calls: {call.name} must not be called, got {call}"


def _find_argument(call: MadeCall, arguments: Mapping[str, Any]) -> str:
    """Return the first argument that is not the expected one; "" if all are."""
    for name, expected in arguments.items():
        given = [values[name] for values in (call.arguments, call.typed) if name in values]
        if all(find_mismatch(value, expected) for value in given):  # also if it is not given
            return name
    return ""


def _pair(fitting: Sequence[Sequence[int]]) -> set[int]:
    """Return which expected calls get a call of their own, as many as possible (augmenting paths, Kuhn)."""
    owner: dict[int, int] = {}

    def find_place(number: int, tried: set[int]) -> bool:
        for place in fitting[number]:
            if place not in tried:
                tried.add(place)
                if place not in owner or find_place(owner[place], tried):
                    owner[place] = number
                    return True
        return False

    for number in range(len(fitting)):
        find_place(number, set())
    return {*owner.values()}


def list_limit_failures(attempt: Attempt, tool_calls: int) -> Iterator[str]:
    """Yield the limits of the case that the trial exceeds."""
    usage = attempt.usage
    used: dict[str, float | None] = {
        "steps": attempt.steps,
        "tool_calls": tool_calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "seconds": attempt.seconds,
        "dollars": usage.cost,
    }
    for name, most in (attempt.case.limits or {}).items():
        value = used[name]
        if value is None:
            yield f"limits.{name}: at most {most:g}, but the price is unknown"
        elif value > most:
            yield f"limits.{name}: at most {most:g}, got {value:.6g}"


async def call_judge(judge: Callable[..., Any], attempt: Attempt) -> str:
    """Return what a judge function says against an answer; "" if nothing.  An async function is awaited."""
    try:
        count = len([each for each in inspect.signature(judge).parameters.values() if each.default is each.empty])
    except (ValueError, TypeError):
        count = 1
    given = (attempt.answer, attempt)[: max(1, min(count, 2))]
    try:
        if inspect.iscoroutinefunction(judge):
            verdict = await judge(*given)
        else:
            verdict = await run_in_thread(partial(judge, *given))
        is_accepted = verdict is None or bool(verdict)
    except (ValueError, AssertionError) as error:
        return str(error) or type(error).__name__
    except Exception as error:  # a mistake of the judge fails its trial, and no other
        return f"{getattr(judge, '__name__', 'the judge')} failed: {type(error).__name__}: {error}"
    return "" if is_accepted else f"{getattr(judge, '__name__', 'the judge')} returned {verdict!r:.60}"


async def list_failures(attempt: Attempt, ask_judge: Callable[[str, Any], Any]) -> list[str]:
    """Return all that is wrong with a trial.

    Args:
        attempt: The trial.
        ask_judge: An async function of a rubric and of the judging model's name or None; it returns what is wrong.
    """
    case = attempt.case
    calls = attempt.calls
    found = [attempt.error] if attempt.error else []
    found += list_call_failures(case, calls)
    found += list_limit_failures(attempt, len(calls))
    expected = case.answer
    if attempt.error or expected is ANY_ANSWER:
        return found
    wrong = [find_mismatch(to_data(attempt.answer), expected)]
    if isinstance(expected, Mapping):
        if "judge" in expected:
            wrong.append(await call_judge(expected["judge"], attempt))
        if "rubric" in expected:
            wrong.append(await ask_judge(expected["rubric"], expected.get("model")))
    return [*found, *(f"answer: {text}, got {_show(attempt.text)}" for text in wrong if text)]
