"""The cases of an evaluation: what is asked, and what is expected of the calls, the answer and the use.

Cases are written in YAML, in JSON or in Python, with the same keys.  All of a file is checked before anything runs: an
error names the file, the case, the key and what to do.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import DefinitionError
from ..extend import Query, import_file, mask, suggest, to_valid_text

ANY_ANSWER: Any = type("AnyAnswer", (), {"__repr__": lambda _: "any answer"})()
"""The expected answer of a case without one."""
MATCHERS = ("equals", "contains", "pattern", "one_of", "schema")
"""What may be expected of a value; an answer may also have a judge."""
ANSWER_KEYS = (*MATCHERS, "judge", "rubric", "model")
LIMITS = ("steps", "tool_calls", "tokens", "seconds", "dollars")
"""What the limits of a case may name, as `agentkit.Limits` does."""
USER_KEYS = ("instruction", "function", "model", "turns")
FINAL = "final_answer"
FUNCTION_KEYS = (("answer", "judge"), ("user", "function"))
"""Keys, and what is a function there: `file.py:name` in a file."""
DEFAULT_TURNS = 10
"""Queries of a simulated user in a conversation."""
FILE_KEYS = ("defaults", "cases")
MAX_CASE_NAME_CHARS = 80
TERMS = {
    **dict.fromkeys(("input", "question", "prompt", "inputs"), "Use query."),
    **dict.fromkeys(("id", "title", "case"), "Use name."),
    **dict.fromkeys(("output", "expected", "expected_output", "target", "reference"), "Use answer."),
    **dict.fromkeys(("tools", "tool_calls", "expected_calls", "trajectory"), "Use calls."),
    **dict.fromkeys(("turns", "replies", "simulated_user"), "Use user."),
    **dict.fromkeys(("max_steps", "budget"), "Use limits: {steps: ...}."),
}
"""Keys of cases elsewhere, and what to write here."""
MATCHER_TERMS = {
    **dict.fromkeys(("regex", "regexp", "matches"), "Use pattern."),
    **dict.fromkeys(("enum", "in", "any_of"), "Use one_of."),
    **dict.fromkeys(("equal", "value", "is"), "Use equals."),
    **dict.fromkeys(("includes", "has"), "Use contains."),
    **dict.fromkeys(("check", "function"), "Use judge."),
}
VALUE_HINT = "A mapping as a value stands under equals."


@dataclass(frozen=True)
class Case:
    """A query with what is expected of the answer, of the calls and of the use.

    A value that is expected, of an argument or of the answer, is that value, or a mapping with one or more of
    `equals`, `contains` (a text or several, in any case), `pattern` (a regular expression that is searched), `one_of`
    (a list) and `schema` (a JSON Schema).  All of them must hold.

    Args:
        query: What is asked.
        name: The name of the case, by which runs are compared; default: the beginning of the query.
        calls: The calls that are expected, in any order and among others: the name of a tool, or its name with a part
            of its arguments, as `{"get_weather": {"city": "Rome"}}`.
        not_called: Names of tools that must not be called.
        answer: The expected answer, as above.  Beside the keys above a mapping may have `judge`, a function, and
            `rubric`, a text by which a model judges, with its `model`.  The function gets the answer and, with a second
            parameter, the `Attempt`; it returns False or raises `ValueError` or `AssertionError` for a wrong answer.
            In a file it is `checks.py:function`, beside the file.
        limits: The most that a trial may take, with the keys "steps", "tool_calls", "tokens", "seconds", "dollars".
        user: What the user says next: texts, one after each answer; or a simulated user, which ends the conversation
            itself: a mapping with `instruction` (who the user is and wants) and `model`, or with `function`, which gets
            the `Attempt` and returns the next text, None at the end; and with `turns` (10 by default).
        approve: How calls that need an approval are decided; without it they pause the run, which fails the trial.

    Raises:
        DefinitionError: A value is not valid; the error names the case, the key and the remedy.
    """

    query: Query
    name: str = ""
    calls: Sequence[str | Mapping[str, Mapping[str, Any]]] = ()
    not_called: Sequence[str] = ()
    answer: Any = ANY_ANSWER
    limits: Mapping[str, float] | None = None
    user: Sequence[str] | Mapping[str, Any] = ()
    approve: bool | None = None

    def __post_init__(self) -> None:
        name = self.name or (self.query if isinstance(self.query, str) else "")
        if not isinstance(name, str):
            raise DefinitionError(f"name: expected a text, got {name!r:.60}.")
        name = mask(" ".join(name.split()))[:MAX_CASE_NAME_CHARS]  # as reports and journals write it
        object.__setattr__(self, "name", to_valid_text(name))
        with placed(f"case {self.name!r}" if self.name else "case"):
            _check_case(self)

    def __str__(self) -> str:
        return self.name

    @property
    def asks_judge(self) -> str:
        """The key for which a model is needed that the case does not name; "" without one."""
        if isinstance(self.user, Mapping) and not (self.user.get("model") or self.user.get("function")):
            return "user"
        is_judged = isinstance(self.answer, Mapping) and "rubric" in self.answer
        return "answer.rubric" if is_judged and not self.answer.get("model") else ""

    @property
    def expected_calls(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The expected calls, each with the part of its arguments."""
        return [(call, {}) if isinstance(call, str) else next(iter(call.items())) for call in self.calls]

    def check_tools(self, tools: Mapping[str, Any]) -> None:
        """Raise `DefinitionError` for a call of a tool, or with an argument, that does not exist."""
        tools = {name: tool for name, tool in tools.items() if name != FINAL}  # the answer is no call
        with placed(f"case {self.name!r}"):
            named = {"calls": [name for name, _ in self.expected_calls], "not_called": self.not_called}
            for key, name in ((key, name) for key, names in named.items() for name in names):
                if name not in tools:
                    raise DefinitionError(f"{key}: the agent has no tool {name!r}. {_suggest(name, tools)}")
            for name, arguments in self.expected_calls:
                parameters = tools[name].parameters
                known = parameters.get("properties", {})
                for argument in arguments:
                    if argument not in known and not parameters.get("additionalProperties"):
                        raise DefinitionError(
                            f"calls: {name} has no parameter {argument!r}. {_suggest(argument, known)}"
                        )


_KEYS = tuple(field.name for field in fields(Case))


def read_cases(path: str | os.PathLike[str]) -> list[Case]:
    """Return the cases of a file: `.yaml`, `.yml`, `.json`, or `file.py:NAME`, a list of cases in Python.

    The file has a list of cases, or `{"defaults": {...}, "cases": [...]}`, whose defaults are the values of keys that
    cases leave out.

    Raises:
        DefinitionError: The content is not valid; the error names the file, the case, the key and the remedy.
        OSError: The file cannot be read.
    """
    text = os.fspath(path)
    place = text.rpartition(":")[0]
    with placed(text):
        if place.endswith(".py"):
            found = _load_object(text, Path())
            return list_cases(found, Path(place).parent)
        if text.endswith(".py"):
            raise DefinitionError(f"which list of it? Write {text}:CASES")
        if not text.endswith((".yaml", ".yml", ".json")):
            raise DefinitionError("expected a file .yaml, .yml or .json, or file.py:NAME")
        if not Path(text).exists():
            raise DefinitionError("no such file. Write the cases there, or name another file.")
        try:
            content = Path(text).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise DefinitionError(f"it is no UTF-8: {error}. Save it in this encoding.") from None
        return list_cases(_parse_json(content) if text.endswith(".json") else _parse_yaml(content), Path(text).parent)


def list_cases(given: Any, folder: Path = Path()) -> list[Case]:
    """Return cases, each given as a `Case` or as a mapping; functions are looked for in `folder`.

    Raises:
        DefinitionError: One of them is not valid, or two have the same name.
    """
    defaults: Mapping[str, Any] = {}
    if isinstance(given, Mapping):
        _check_keys(given, FILE_KEYS, "", dict.fromkeys(_KEYS, "It belongs to a case: cases: [{...}]."))
        defaults = given.get("defaults") or {}
        if not isinstance(defaults, Mapping):
            raise DefinitionError(f"defaults: expected keys of cases, got {defaults!r:.60}.")
        _check_keys(defaults, _KEYS, "defaults: ", TERMS)
        given = given.get("cases")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DefinitionError(f"cases: expected a list of cases, got {given!r:.60}. Write - query: ...")
    found: list[Case] = []
    names: dict[str, int] = {}
    for number, entry in enumerate(given, 1):
        case = entry if isinstance(entry, Case) else _read_case(entry, defaults, folder, number)
        if case.name in names:
            other = f"the name {case.name!r} is that of entry {names[case.name]}"
            raise DefinitionError(f"entry {number}: {other}. Give it another one: name: ...")
        names[case.name] = number
        found.append(case)
    if not found:
        raise DefinitionError("cases: the list is empty. Write - query: ...")
    return found


def _read_case(entry: Any, defaults: Mapping[str, Any], folder: Path, number: int) -> Case:
    with placed(f"entry {number}"):
        if not isinstance(entry, Mapping):
            raise DefinitionError(f"expected a mapping, got {entry!r:.60}. Write query: ...")
        label = entry.get("name") or entry.get("query")
        label = f"case {label!r:.{MAX_CASE_NAME_CHARS}}: " if isinstance(label, str) else ""
        _check_keys(entry, _KEYS, label, TERMS)
        values = {**defaults, **entry}
        if "query" not in values:
            raise DefinitionError(f"{label}it has no query. Write query: ...")
        for key, part in FUNCTION_KEYS:
            given = values.get(key)
            if isinstance(given, Mapping) and isinstance(given.get(part), str):
                with placed(f"{label}{key}.{part}"):
                    values[key] = {**given, part: _load_object(given[part], folder)}
        return Case(**values)


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Raise the errors of the body with the place before them."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{place}: {error}") from None


def _suggest(name: str, names: Iterable[str], terms: Mapping[str, str] | None = None) -> str:
    listed = [*names]
    return suggest(name, listed, terms or {}, then=f"There are: {', '.join(listed)}.")


def _check_keys(given: Mapping[Any, Any], known: Sequence[str], place: str, terms: Mapping[str, str]) -> None:
    for key in given:
        if key not in known:
            raise DefinitionError(f"{place}unknown key {key!r}. {_suggest(str(key), known, terms)}")


def _check_case(case: Case) -> None:
    if not case.query or not isinstance(case.query, str | list | tuple):
        raise DefinitionError(f"query: expected a text, got {case.query!r:.60}. Write query: ...")
    if not case.name:
        raise DefinitionError("name: a query without a text needs one. Write name: ...")
    if not isinstance(case.calls, list | tuple):
        raise DefinitionError(f"calls: expected a list, got {case.calls!r:.60}. Write [get_weather: {{city: Rome}}].")
    for number, call in enumerate(case.calls, 1):
        _check_call(call, f"calls, entry {number}")
    _check_texts(case.not_called, "not_called", "names of tools")
    if case.answer is not ANY_ANSWER:
        _check_expected(case.answer, "answer", ANSWER_KEYS)
    _check_limits(case.limits)
    if isinstance(case.user, Mapping):
        _check_user(case.user)
    else:
        _check_texts(case.user, "user", "texts, or a mapping with instruction")
    if case.approve not in (None, True, False):
        raise DefinitionError(f"approve: expected true or false, got {case.approve!r:.60}.")


def _check_call(call: Any, place: str) -> None:
    if isinstance(call, str) and call:
        return
    if not isinstance(call, Mapping) or len(call) != 1:
        raise DefinitionError(
            f"{place}: expected the name of a tool, or its name with arguments, got {call!r:.60}. "
            "Write get_weather: {city: Rome}."
        )
    name, arguments = next(iter(call.items()))
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise DefinitionError(f"{place}: expected arguments by their names, got {arguments!r:.60}. Write {{}} for any.")
    for argument, expected in arguments.items():
        _check_expected(expected, f"{place}: {name}.{argument}", MATCHERS)


def _check_texts(given: Any, key: str, what: str) -> None:
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) and text for text in given):
        raise DefinitionError(f"{key}: expected a list of {what}, got {given!r:.60}. Texts like 3.50 need quotes.")


def _check_expected(expected: Any, place: str, keys: Sequence[str]) -> None:
    """Check an expected value, or what must hold for it."""
    if not isinstance(expected, Mapping):
        return
    if not expected:
        raise DefinitionError(f"{place}: the mapping is empty. {VALUE_HINT}")
    for key, value in expected.items():
        if key not in keys:
            raise DefinitionError(
                f"{place}: unknown key {key!r}. {_suggest(str(key), keys, MATCHER_TERMS)} {VALUE_HINT}"
            )
        _check_condition(key, value, f"{place}.{key}")
    if "model" in expected and "rubric" not in expected:
        raise DefinitionError(f"{place}.model: it judges by a rubric. Write rubric: ...")


def _check_condition(key: str, value: Any, place: str) -> None:
    """Check what stands under a key of an expected value."""
    match key:
        case "contains":
            texts = value if isinstance(value, list | tuple) else [value]
            if not texts or not all(isinstance(text, str) and text for text in texts):
                expected = f"expected a text or a list of texts, got {value!r:.60}"
                raise DefinitionError(f"{place}: {expected}. Write it in quotes.")
        case "pattern":
            try:
                re.compile(value)
            except (re.error, TypeError) as error:
                raise DefinitionError(
                    f"{place}: {value!r:.60} is no regular expression: {error}. Correct it."
                ) from None
        case "one_of" if not isinstance(value, list | tuple) or not value:
            raise DefinitionError(f"{place}: expected a list of values, got {value!r:.60}.")
        case "schema":
            _check_schema(value, place)
        case "judge":
            _check_function(value, place)
        case "rubric":
            _check_text(value, place)


def _check_schema(value: Any, place: str) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{place}: expected a JSON Schema, got {value!r:.60}. Write {{type: object, ...}}.")
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(value)
    except jsonschema.SchemaError as error:
        raise DefinitionError(f"{place}: it is no JSON Schema: {error.message}. Correct it.") from None


def _check_function(value: Any, place: str) -> None:
    if not callable(value):
        raise DefinitionError(f"{place}: expected a function, got {value!r:.60}. In a file, write checks.py:function.")


def _check_text(value: Any, place: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise DefinitionError(f"{place}: expected a text, got {value!r:.60}.")


def _check_limits(limits: Any) -> None:
    if limits is None:
        return
    if not isinstance(limits, Mapping):
        raise DefinitionError(f"limits: expected a mapping, got {limits!r:.60}. Write limits: {{steps: 5}}.")
    _check_keys(
        limits, LIMITS, "limits: ", {"calls": "Use tool_calls.", "cost": "Use dollars.", "time": "Use seconds."}
    )
    for key, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise DefinitionError(f"limits.{key}: expected a number >= 0, got {value!r:.60}.")


def _check_user(user: Mapping[str, Any]) -> None:
    _check_keys(user, USER_KEYS, "user: ", {})
    if "function" not in user:
        _check_text(user.get("instruction"), "user.instruction")
    else:
        _check_function(user["function"], "user.function")
        if other := next((key for key in ("instruction", "model") if key in user), ""):
            raise DefinitionError(f"user: {other} and function exclude each other. Write one of them.")
    turns = user.get("turns", DEFAULT_TURNS)
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
        raise DefinitionError(f"user.turns: expected an integer >= 1, got {turns!r:.60}.")


def _load_object(text: str, folder: Path) -> Any:
    """Return what `file.py:name` names; the file is looked for in `folder`."""
    place, _, name = text.rpartition(":")
    file = folder / place
    if not place.endswith(".py") or not name:
        raise DefinitionError(f"expected file.py:name, got {text!r:.60}.")
    if not file.is_file():
        raise DefinitionError(f"no such file: {file}. It is looked for in the folder of the cases.")
    module = sys.modules.get(file.stem)
    if Path(getattr(module, "__file__", None) or "").resolve() != file.resolve():  # else it is imported already
        try:
            module = import_file(file)
        except (Exception, SystemExit) as error:
            raise DefinitionError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise DefinitionError(f"{place} has no {name!r}. {suggest(name, [*vars(module)])}".strip())
    return getattr(module, name)


def _parse_json(content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"it is no JSON: {error}. Correct it.") from None


def _parse_yaml(content: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise DefinitionError("to read YAML, pip install pyyaml; or write the cases in JSON.") from None
    try:
        return yaml.load(content, Loader=_yaml_loader())
    except (yaml.YAMLError, RecursionError) as error:
        raise DefinitionError(
            f"it is no YAML: {' '.join(str(error).split())}. Correct it, or quote the text."
        ) from None


YAML_SCALARS = (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", "n~\0"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
    ("merge", r"<<", "<"),
)
"""The scalars that are no texts, as in JSON: no dates, no times, and no words like `no` and `on`."""


@cache
def _yaml_loader() -> Any:
    """Return a loader of YAML that reads scalars as JSON does, and refuses repeated keys."""
    yaml = import_module("yaml")
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def construct_mapping(loader: Any, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        if repeated := {key for key in keys if keys.count(key) > 1}:
            text = f"the key {min(repeated)!r} is repeated"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        return base.construct_mapping(loader, node, deep)

    made: Any = type("CaseLoader", (base,), {"construct_mapping": construct_mapping, "yaml_implicit_resolvers": {}})
    for kind, pattern, first in YAML_SCALARS:
        begins = [character.strip("\0") for character in first]
        made.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), begins)
    return made
