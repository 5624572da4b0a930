"""Translate an expression from everyday notation to the notation of Python's parser."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentkit import ToolError

_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
TOKEN = re.compile(
    rf"""(?P<thousands>[0-9]{{1,3}}(?:,[0-9]{{3}})+(?![0-9])(?:\.[0-9]*)?{_EXPONENT})
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT})
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>\*\*|//|[-+*/%(),^×÷−·])""",
    re.VERBOSE,
)
NUMBER = re.compile(rf"(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}")
IN_PYTHON = {"^": "**", "×": "*", "·": "*", "÷": "/", "−": "-"}
PERCENT = "[0]"
"""A percentage becomes a subscript, which follows its operand, binds tightest, and has no other meaning here."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token, its kind in `TOKEN`, and its position in the expression, from 0."""

    kind: str
    text: str
    place: int


def parse_tokens(expression: str) -> list[Token]:
    """Return the tokens of `expression` in Python's notation; joined by spaces, Python can parse them.

    A comma between thousands is dropped, except inside a function's parentheses, where every comma separates arguments.
    `%` is a remainder when an operand follows (a number, a name, an opening parenthesis), and otherwise a percentage;
    "of" after a percentage multiplies.

    Raises:
        ToolError: A character is not part of an expression; the message contains its position.
    """
    tokens = _split(expression)
    return [Token(token.kind, _translate(tokens, index), token.place) for index, token in enumerate(tokens)]


def _split(expression: str) -> list[Token]:
    tokens: list[Token] = []
    calls: list[bool] = []  # for each open parenthesis: whether it, or an outer one, encloses a function's arguments
    place = 0
    while place < len(expression):
        if expression[place].isspace():
            place += 1
            continue
        match = TOKEN.match(expression, place)
        if match and match.lastgroup == "thousands" and calls and calls[-1]:
            match = NUMBER.match(expression, place)
        if match is None:
            raise ToolError(f"{expression[place]!r} is not part of an expression, at character {place + 1}.")
        token = Token(match.lastgroup or "number", match.group(), place)
        if token.text == "(":
            calls.append(bool(calls and calls[-1]) or bool(tokens and tokens[-1].kind == "name"))
        elif token.text == ")" and calls:
            calls.pop()
        tokens.append(token)
        place = match.end()
    return tokens


def _translate(tokens: Sequence[Token], index: int) -> str:
    token = tokens[index]
    if token.kind in ("number", "thousands"):
        return re.sub(r"^0+(?=[0-9])", "", token.text.replace(",", ""))
    if token.text == "%":
        return "%" if _is_operand(tokens, index + 1) else PERCENT
    if token.text.lower() == "of" and index and tokens[index - 1].text == "%":
        return "*"
    return IN_PYTHON.get(token.text, token.text)


def _is_operand(tokens: Sequence[Token], index: int) -> bool:
    if index == len(tokens):
        return False
    token = tokens[index]
    return token.text == "(" or (token.kind != "sign" and token.text.lower() != "of")
