"""Tool calls that a model wrote as text instead of calling the tool.

A call needs the name of a known tool, and arguments that fit that tool.  A reply consists of calls if nothing but a
leading sentence stands beside them: text after the calls is not allowed.

The forms are read one after another: JSON (plain, in a code block, in `<tool_call>` tags, after `[TOOL_CALLS]`, one
object or a list, under the keys that models use), `<function=name>{...}</function>` (Llama),
`<function=name><parameter=x>...</parameter></function>` (Qwen3-Coder), `<invoke name="...">` (Claude), the name and
then the JSON (Mistral, Kimi, DeepSeek, gpt-oss: between special tokens), and `Action:` with `Action Input:` (ReAct).
Python (`get_weather(city="Rome")`, literals only) is tried last, alone, in lines or in a list.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.threads import parse_python
from ..core.values import frozen
from .arguments.fixes import match_tool_name
from .arguments.json_text import InvalidJson, JsonReader
from .arguments.validation_errors import find_schemas, list_types
from .registry import ToolRegistry


@frozen
class TextCall:
    """A call of a known tool: its name, the arguments as JSON text, and the source text."""

    name: str
    arguments: str
    source: str


MAX_LEAD_CHARS = 200
"""Characters of the text before a call."""
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_OPENING = re.compile(r"<tool_calls?>|<function_calls?>|<function[=(]|<[|｜]|\[TOOL_CALLS?\]|```|<(?:antml:)?invoke\b")
_MAX_STARTS = 4
_QUOTING = re.compile(
    r"[\"“”«»`?]|\b(?:example|e\.g|instance|such as|like this|would|could|might|says?|said|states?|reads?|contain\w*"
    r"|quot\w+|returned|wrote|writ\w+|attack\w*|inject\w*|not|n't|never|ask\w*|tells?|told|claim\w*|format|syntax"
    r"|looks|documentation|docs|document|page|email|instruct\w*|ignor\w+|found|suspicious|malicious|avoid|refus\w+"
    r"|cannot|won't|don't|shows?|showed)\b",
    re.IGNORECASE,
)
"""Signs of a quotation.  To miss a call costs a turn; to run a quoted call may do harm."""


@frozen
class TextCalls:
    """The calls of a text, and the sentence before them."""

    lead: str
    calls: list[TextCall]


def find_text_calls(text: str, tools: ToolRegistry) -> TextCalls | None:
    """Return the calls of known tools that make up `text`; None if it holds anything else.

    Thoughts in `<think>` tags are ignored.  Arguments are not validated.
    """
    text = strip_thoughts(text)
    if not text:
        return None
    for start in _iter_starts(text):
        lead = text[:start].strip()
        if (not lead or _is_lead(lead)) and (calls := read_calls(text[start:], tools)):
            return TextCalls(lead, calls)
    return None


def write_call(name: str, arguments: str) -> str:
    """Return a call as the JSON text that models without tool calling read and write; `arguments` is JSON text."""
    return f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}'


def strip_thoughts(text: str) -> str:
    """Return the text without the `<think>` block at its start."""
    thought = _THOUGHT.match(text)
    return text[thought.end() if thought else 0 :].strip()


def _iter_starts(text: str) -> Iterator[int]:
    """Yield the places where the first call may start: the text, its first lines, the first opening mark."""
    yield 0
    places = {match.end() for match in re.finditer(r"\n\s*", text[: MAX_LEAD_CHARS + 20])}
    if opening := _OPENING.search(text, 0, MAX_LEAD_CHARS + 20):
        places.add(opening.start())
    yield from sorted(places)[:_MAX_STARTS]


def _is_lead(lead: str) -> bool:
    """Return whether a text leads to a call: at most two short sentences, without signs of a quotation."""
    if len(lead) > MAX_LEAD_CHARS or lead[-1] not in ".:!…。：！" or _QUOTING.search(lead):
        return False
    return len(re.findall(r"[.!:](?=\s|\Z)", lead)) <= 2


_BETWEEN = re.compile(
    r"(?:[\s,;]|</?(?:tool_calls?|toolcalls?|function_calls?|tool_use|tools?|calls?|antml:function_calls)>"
    r"|<[|｜][^<>\n]{1,60}[|｜]>|</?s>|\[/?TOOL_CALLS?\]|\[/TOOL_CALL\])*+"
)
_CODE_BLOCKS = tuple(  # the block may end at the next mark or at the last, as the code may hold such marks
    re.compile(rf"```[ \t]*[\w+-]*(?P<inside>[\s{{\[<].{many})(?:```|\Z)", re.DOTALL) for many in ("*?", "*")
)
_CODE_BLOCK_END = re.compile(r"\s*```")
_FUNCTION = re.compile(
    r"<(?:function|(?:antml:)?invoke)(?:=|\s+name=|\s*\()\s*[\"']?(?P<name>[\w.:/-]+)[\"']?\)?\s*/?>"
)
_PARAMETER = re.compile(
    r"\s*<(?:antml:)?parameter(?:=|\s+name=)[\"']?(?P<key>[\w.-]+)[\"']?[^>]*>\n?(?P<value>.*?)\n?</(?:antml:)?parameter>",
    re.DOTALL,
)
_END = re.compile(r"\s*</(?:function|(?:antml:)?invoke)>")
_NAMED = re.compile(
    r"(?:(?:assistant|commentary|analysis|function)\b\s*|to=|<[|｜][^<>\n]{1,60}[|｜]>)*"
    r"(?P<name>[A-Za-z_][\w.:/-]*)"
    r"(?:\s|<[|｜][^<>\n]{1,60}[|｜]>|\[ARGS\]|\[CALL_ID\]\w+|\b(?:json|code)\b|```)*(?=\{)"
)
_REACT = re.compile(
    r"(?:(?:\*\*)?Thought:[^\n]*+\n(?:(?![ \t]*+(?:\*\*)?Action:)[^\n]*+\n)*+)?+\s*+(?:\*\*)?Action:(?:\*\*)?[ \t]*+"
    r"(?P<name>[^\n]++)\n\s*+(?:\*\*)?Action Input:(?:\*\*)?[ \t]*+"
    r"(?P<input>.*)",
    re.DOTALL,
)


class Scanner:
    """A text, the tools that it may call, and the current position; a text in a code block holds no other block."""

    def __init__(self, text: str, tools: ToolRegistry, *, in_block: bool = False) -> None:
        self.text = text
        self.tools = tools
        self.in_block = in_block
        self.at = 0

    def calls(self) -> list[TextCall]:
        """Return the calls of the text; none if it holds anything else."""
        found: list[TextCall] = []
        while not self.at_end():
            calls = self.unit()
            if not calls:
                return []
            found += calls
        return found

    def at_end(self) -> bool:
        """Return whether only white space and marks around calls remain."""
        if between := _BETWEEN.match(self.text, self.at):
            self.at = between.end()
        return self.at >= len(self.text)

    def unit(self) -> list[TextCall]:
        """Return the calls of the next unit (a block, a tag or a JSON value); none if that is not a call."""
        start = self.at
        for form in (self._fenced, self._react, self._function, self._json, self._named):
            self.at = start
            if calls := form():
                return calls
        return []

    def _fenced(self) -> list[TextCall]:
        for form in () if self.in_block else _CODE_BLOCKS:
            block = form.match(self.text, self.at)
            if block and (calls := read_calls(block["inside"], self.tools, in_block=True)):
                self.at = block.end()
                return calls
        return []

    def _react(self) -> list[TextCall]:
        if not (found := _REACT.match(self.text, self.at)):
            return []
        given = found["input"].strip().removesuffix("Observation:").strip().removeprefix("```json").strip("`").strip()
        self.at = len(self.text)
        return make_call(found["name"].strip(" `*[]\"'").removesuffix("()"), given, found["input"], self.tools)

    def _json(self) -> list[TextCall]:
        if self.text[self.at] not in "{[":
            return []
        start = self.at
        value = self._value()
        return read_json_calls(value, self.text[start : self.at], self.tools)

    def _named(self) -> list[TextCall]:
        if not (found := _NAMED.match(self.text, self.at)):
            return []
        start = self.at
        self.at = found.end()
        value = self._value()
        if self.text[start : self.at].count("```") == 1 and (fence := _CODE_BLOCK_END.match(self.text, self.at)):
            self.at = fence.end()
        return make_call(found["name"], value, self.text[start : self.at], self.tools) if value is not None else []

    def _function(self) -> list[TextCall]:
        if not (found := _FUNCTION.match(self.text, self.at)):
            return []
        start = self.at
        self.at = found.end()
        texts = []
        while parameter := _PARAMETER.match(self.text, self.at):
            texts.append((parameter["key"], parameter["value"]))
            self.at = parameter.end()
        has_json = not texts and self.text[self.at :].lstrip().startswith("{")
        value = self._value() if has_json else None
        end = _END.match(self.text, self.at)
        if end:
            self.at = end.end()
        source = self.text[start : self.at]
        if has_json:
            return make_call(found["name"], value, source, self.tools) if value is not None else []
        return make_call_from_texts(found["name"], texts, source, self.tools) if end else []

    def _value(self) -> object:
        """Return the JSON value at the current position; None, without advancing, if there is no value."""
        reader = JsonReader(self.text)
        reader.at = self.at
        try:
            value: object = reader.read_value()
        except (InvalidJson, RecursionError):
            return None
        self.at = reader.at
        return value


def read_calls(text: str, tools: ToolRegistry, *, in_block: bool = False) -> list[TextCall]:
    """Return the calls of a text in any form; none if it holds anything else."""
    return Scanner(text, tools, in_block=in_block).calls() or read_python_calls(text, tools)


_LOOKS_LIKE = re.compile(r"\s*+(?:#.*+\n\s*+)*+(?:\w++\s*+=\s*+)?+\[?\s*+(?:await\s++)?+[A-Za-z_][\w.]*+\s*+\(")
MAX_CODE_CHARS = 20_000
"""Limit on the text, because parsing takes time."""
_JSON_NAMES = {"true": True, "false": False, "null": None}


def read_python_calls(text: str, tools: ToolRegistry) -> list[TextCall]:
    """Return the calls in a piece of Python; none if it holds anything else."""
    if len(text) > MAX_CODE_CHARS or not _LOOKS_LIKE.match(text):
        return []
    try:
        body = parse_python(text.strip()).body
        expressions = [part for statement in body for part in _list_expressions(statement)]
        calls = [_read_call(expression, text, tools) for expression in expressions]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, Warning):
        return []
    return [call for found in calls for call in found] if all(calls) else []


def _list_expressions(statement: ast.stmt) -> list[ast.expr]:
    if not isinstance(statement, ast.Expr | ast.Assign) or statement.value is None:
        raise ValueError("no expression")
    value = statement.value
    return list(value.elts) if isinstance(value, ast.List | ast.Tuple) else [value]


def _read_call(expression: ast.expr, text: str, tools: ToolRegistry) -> list[TextCall]:
    if isinstance(expression, ast.Await):
        expression = expression.value
    if not isinstance(expression, ast.Call):
        return []
    name = ast.unparse(expression.func)
    if name == "print" and "print" not in tools and len(expression.args) == 1:  # Gemini's habit in its "tool_code"
        return _read_call(expression.args[0], text, tools)
    named = {keyword.arg: _read_literal(keyword.value) for keyword in expression.keywords if keyword.arg}
    if len(named) != len(expression.keywords):
        return []
    positional = [_read_literal(argument) for argument in expression.args]
    return make_call_from_python(name, positional, named, ast.get_source_segment(text.strip(), expression) or "", tools)


def _read_literal(node: ast.expr) -> Any:
    """Return the value of a literal; raises `ValueError` for an expression."""
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    if isinstance(node, ast.List):
        return [_read_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {
            ast.literal_eval(key): _read_literal(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key
        }
    return ast.literal_eval(node)


_NAME_KEYS = ("name", "tool_name", "tool", "function_name", "function", "action", "recipient_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")
_LIST_KEYS = ("tool_calls", "tool_uses", "calls", "function_calls")
_OTHER_KEYS = frozenset(["id", "type", "index", "call_id", "tool_call_id", "thought", "thoughts", "reasoning"])
"""Keys that may stand beside the name and the arguments; with any other key the object is not a call."""


def read_json_calls(value: Any, source: str, tools: ToolRegistry) -> list[TextCall]:
    """Return the calls in a JSON value; none if any part of the value is not a call."""
    if isinstance(value, list):
        return _read_list(value, source, tools)
    if not isinstance(value, Mapping):
        return []
    rest = {key: entry for key, entry in value.items() if key not in _OTHER_KEYS}
    if len(rest) == 1:
        key, inner = next(iter(rest.items()))
        if key in _LIST_KEYS and isinstance(inner, list):
            return _read_list(inner, source, tools)
        if key in ("function", "function_call", "tool_call", "action") and isinstance(inner, Mapping):
            return read_json_calls(inner, source, tools)
        if key in tools and isinstance(inner, Mapping):
            return make_call(key, inner, source, tools)
    names = [key for key in _NAME_KEYS if key in rest]
    given = [key for key in _ARGUMENT_KEYS if key in rest]
    if len(names) != 1 or len(given) != 1 or len(rest) != 2:
        return []
    return make_call(rest[names[0]], rest[given[0]], source, tools)


def _read_list(values: list[Any], source: str, tools: ToolRegistry) -> list[TextCall]:
    found: list[TextCall] = []
    for value in values:
        calls = read_json_calls(value, source, tools) if isinstance(value, Mapping) else []
        if not calls:
            return []
        found += calls
    return found


def make_call(name: Any, given: Any, source: str, tools: ToolRegistry) -> list[TextCall]:
    """Return the one call of the tool that `name` certainly means; none if there is no such tool.

    Args:
        name: The written name.
        given: An object, its JSON text, nothing, or the bare value for a tool with only one parameter.
        source: The text of the call.
        tools: The known tools.
    """
    if not isinstance(name, str) or (known := match_tool_name(name.strip(), tools)) is None:
        return []
    if given is None:
        given = {}
    if isinstance(given, str):
        given = _parse_object(given)
    parameters = list(tools[known].parameters.get("properties", {}))
    if not isinstance(given, Mapping) and len(parameters) == 1:
        given = {parameters[0]: given}
    if not isinstance(given, Mapping):
        return []
    try:
        return [TextCall(known, json.dumps(given, ensure_ascii=False), source)]
    except (TypeError, ValueError, RecursionError):
        return []


def make_call_from_texts(
    name: str, texts: Sequence[tuple[str, str]], source: str, tools: ToolRegistry
) -> list[TextCall]:
    """Return the call whose parameters are separate texts: JSON where the parameter is not a string."""
    if (known := match_tool_name(name.strip(), tools)) is None:
        return []
    parameters = tools[known].parameters
    given = {}
    for key, text in texts:
        given[key] = text if "string" in list_types(find_schemas(parameters, (key,))) else parse_value(text, text)
    return make_call(known, given, source, tools)


def make_call_from_python(
    name: str, positional: Sequence[Any], named: Mapping[str, Any], source: str, tools: ToolRegistry
) -> list[TextCall]:
    """Return the call with arguments as in Python; positional ones follow the order of the parameters."""
    if (known := match_tool_name(name.strip(), tools)) is None:
        return []
    parameters = list(tools[known].parameters.get("properties", {}))
    if len(positional) == 1 and isinstance(positional[0], dict) and not named and set(positional[0]) <= set(parameters):
        return make_call(known, positional[0], source, tools)
    given = dict(zip(parameters, positional, strict=False))
    if len(positional) > len(parameters) or set(given) & set(named):
        return []
    return make_call(known, {**given, **named}, source, tools)


def parse_value(text: str, otherwise: Any = None) -> Any:
    """Return the JSON value of a text, syntax errors accepted; `otherwise` without one."""
    reader = JsonReader(text)
    try:
        value = reader.read_value()
        return otherwise if reader.peek() else value
    except (InvalidJson, RecursionError):
        return otherwise


def _parse_object(text: str) -> Any:
    value = parse_value(text)
    return value if isinstance(value, dict) else {} if text.strip() in ("", "null") else text
