"""Read the tool calls of a text one after another, in all forms except Python.

The forms: JSON (plain, in a code block, in `<tool_call>` tags, after `[TOOL_CALLS]`), `<function=name>{...}</function>`
(Llama), `<function=name><parameter=x>...</parameter></function>` (Qwen3-Coder), `<invoke name="...">` (Claude), the
name and then the JSON (Mistral, Kimi, DeepSeek, gpt-oss: between special tokens), and `Action:` with `Action Input:`
(ReAct).
"""

import re

from ..arguments.json_reader import InvalidJson, JsonReader
from ..registry import ToolRegistry
from .call import TextCall, make_call, make_call_from_texts
from .json_calls import read_json_calls
from .python_calls import read_python_calls

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

    def calls(self) -> list[TextCall] | None:
        """Return the calls of the text; None if it holds anything else."""
        found: list[TextCall] = []
        while not self.at_end():
            calls = self.unit()
            if not calls:
                return None
            found += calls
        return found or None

    def at_end(self) -> bool:
        """Return whether only white space and marks around calls remain."""
        if between := _BETWEEN.match(self.text, self.at):
            self.at = between.end()
        return self.at >= len(self.text)

    def unit(self) -> list[TextCall] | None:
        """Return the calls of the next unit (a block, a tag or a JSON value); None if that is not a call."""
        start = self.at
        for form in (self._fenced, self._react, self._function, self._json, self._named):
            self.at = start
            if calls := form():
                return calls
        return None

    def _fenced(self) -> list[TextCall] | None:
        for form in () if self.in_block else _CODE_BLOCKS:
            block = form.match(self.text, self.at)
            if block and (calls := read_calls(block["inside"], self.tools, in_block=True)):
                self.at = block.end()
                return calls
        return None

    def _react(self) -> list[TextCall] | None:
        if not (found := _REACT.match(self.text, self.at)):
            return None
        given = found["input"].strip().removesuffix("Observation:").strip().removeprefix("```json").strip("`").strip()
        call = make_call(found["name"].strip(" `*[]\"'").removesuffix("()"), given, found["input"], self.tools)
        self.at = len(self.text)
        return [call] if call else None

    def _json(self) -> list[TextCall] | None:
        if self.text[self.at] not in "{[":
            return None
        start = self.at
        value = self._value()
        return read_json_calls(value, self.text[start : self.at], self.tools)

    def _named(self) -> list[TextCall] | None:
        if not (found := _NAMED.match(self.text, self.at)):
            return None
        start, self.at = self.at, found.end()
        value = self._value()
        if self.text[start : self.at].count("```") == 1 and (fence := _CODE_BLOCK_END.match(self.text, self.at)):
            self.at = fence.end()
        call = make_call(found["name"], value, self.text[start : self.at], self.tools) if value is not None else None
        return [call] if call else None

    def _function(self) -> list[TextCall] | None:
        if not (found := _FUNCTION.match(self.text, self.at)):
            return None
        start, self.at = self.at, found.end()
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
            call = make_call(found["name"], value, source, self.tools) if value is not None else None
        else:
            call = make_call_from_texts(found["name"], texts, source, self.tools) if end else None
        return [call] if call else None

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


def read_calls(text: str, tools: ToolRegistry, *, in_block: bool = False) -> list[TextCall] | None:
    """Return the calls of a text in any form; None if it holds anything else."""
    return Scanner(text, tools, in_block=in_block).calls() or read_python_calls(text, tools)
