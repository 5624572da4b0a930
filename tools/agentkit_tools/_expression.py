"""An expression as people write it -> tokens that Python's parser reads."""

import re
from dataclasses import dataclass

from agentkit.errors import ToolError

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|//|[-+*/%(),^×÷−·]))",
    re.ASCII,
)
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
PYTHON = {"^": "**", "×": "*", "·": "*", "÷": "/", "−": "-"}
PERCENT = "[0]"
"""A percentage as a subscript, the one thing that follows its operand, binds tightest and is not arithmetic."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token, and at which character of the expression it begins."""

    text: str
    place: int


def tokens(expression: str) -> list[Token]:
    """The tokens in Python's notation; a percentage becomes `[0]` after its number, and its "of" a multiplication.

    `%` is a percentage unless an operand follows (a number, a name, an opening parenthesis): then it is the remainder.

    Raises:
        ToolError: A character that no expression has, with its place.
    """
    found: list[Token] = []
    functions: list[bool] = []  # of each open parenthesis: whether it, or one around it, holds a function's arguments
    place = 0
    end = len(expression.rstrip())
    while place < end:
        thousands = THOUSANDS.match(expression, _skip(expression, place))
        if thousands and not (functions and functions[-1]):
            ...
    return found
