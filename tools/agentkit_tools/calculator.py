"""Arithmetic for a model: mathematics, never Python.

An expression in everyday notation is translated to that of Python, whose parser makes a tree from it, and only listed
kinds of nodes are accepted. Python itself evaluates nothing, and the size of every intermediate number is limited.
"""

import ast
import math
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentkit import ToolError
from agentkit.tools import parse_python

from .declarations import declare

Number: TypeAlias = int | float

MAX_EXPRESSION_CHARS = 1000
MAX_DEPTH = 200
"""Nesting of operations."""
MAX_DIGITS = 1000
"""Digits of an integer, intermediate results included."""

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


@declare(effect="read")
def calculate(expression: str) -> float | int:
    """Calculate an arithmetic expression.

    Operators: + - * / // % ** (also ^ × ÷) and parentheses. Constants: pi, e. Functions: abs, round(x, digits), min,
    max, floor, ceil, sqrt, exp, log(x, base), ln, log2, log10, sin, cos, tan, asin, acos, atan (in radians), degrees,
    radians, factorial, gcd. Percentages: "15% of 80" is 12, "200 + 10%" is 220, but "10 % 3" is the remainder 1.

    Args:
        expression: For example "(1,250 - 17.5) * 3^2". Inside a function's parentheses commas separate arguments.

    Returns:
        An int if all intermediate results are integers, otherwise a float, rounded to 15 significant digits.

    Raises:
        ToolError: The expression cannot be parsed, divides by zero, has no real result or is too large. The message
            contains the position.
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ToolError(f"The expression is too long: {len(expression)} characters, at most {MAX_EXPRESSION_CHARS}.")
    tokens = parse_tokens(expression)
    if not tokens:
        raise ToolError('The expression is empty. Write for example "2 * (3 + 4)".')
    try:
        result = _Calculation(expression, tokens).evaluate()
    except (MemoryError, RecursionError):
        raise ToolError("The expression is nested too deeply.") from None
    return float(f"{result:.15g}") if isinstance(result, float) else result


def _round(number: Number, digits: int = 0) -> Number:
    if abs(digits) > MAX_DIGITS:
        raise OverflowError
    return round(number, digits) if digits else round(number)


def _factorial(number: Number) -> int:
    if number > MAX_DIGITS:
        raise OverflowError
    if number != int(number):
        raise ValueError
    return math.factorial(int(number))


def _power(base: Number, exponent: Number) -> Number:
    """Return `base ** exponent`; raise OverflowError before a computation whose result would be too large."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and exponent > 0 and exponent * math.log10(abs(base)) > MAX_DIGITS:
        raise OverflowError
    power: Number = base**exponent
    return power


CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}

OPERATORS: Mapping[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "degrees": math.degrees,
    "radians": math.radians,
    "factorial": _factorial,
    "gcd": math.gcd,
}


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


class _Calculation:
    """The evaluation of one expression, with the position of each token in the model's text."""

    def __init__(self, expression: str, tokens: Sequence[Token]) -> None:
        self.expression = expression
        self.tokens = tokens
        self.columns = [0]
        for token in tokens:
            self.columns.append(self.columns[-1] + len(token.text) + 1)

    def evaluate(self) -> Number:
        try:
            tree = parse_python(" ".join(token.text for token in self.tokens), "eval")
        except SyntaxError as error:
            raise self.make_error("Cannot parse the expression", (error.offset or 1) - 1) from None
        return self.evaluate_node(tree.body, 0)

    def make_error(self, message: str, column: int) -> ToolError:
        """Return an error with its position in the model's text; `column` is the position in the parsed text."""
        index = min(bisect_right(self.columns, column), len(self.tokens)) - 1
        place = self.tokens[index].place
        return ToolError(f"{message}, at character {place + 1}: {self.expression[place : place + 20]!r}.")

    def evaluate_node(self, node: ast.expr, depth: int) -> Number:
        """Return the value of one node, a real number of limited size."""
        if depth > MAX_DEPTH:
            raise RecursionError
        try:
            value = self.compute(node, depth + 1)
            if isinstance(value, complex):
                raise ValueError
            if not (math.isfinite(value) if isinstance(value, float) else _count_digits(value) <= MAX_DIGITS):
                raise OverflowError
        except ZeroDivisionError:
            divisor = node.right if isinstance(node, ast.BinOp) else node
            raise self.make_error("Division by zero", divisor.col_offset) from None
        except OverflowError:
            raise self.make_error(
                f"Too large (over {MAX_DIGITS} digits, or a float over 1e308)", node.col_offset
            ) from None
        except (ValueError, TypeError):
            raise self.make_error("This has no real number as its result", node.col_offset) from None
        return value

    def compute(self, node: ast.expr, depth: int) -> Number:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return number
            case ast.Name(id=name) if name.lower() in CONSTANTS:
                return CONSTANTS[name.lower()]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.evaluate_node(operand, depth))
            case ast.Subscript(value=percentage):  # see PERCENT
                return self.evaluate_node(percentage, depth) / 100
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=ast.Subscript() as right):
                whole = self.evaluate_node(left, depth)
                return OPERATORS[type(op)](whole, whole * self.evaluate_node(right, depth))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.evaluate_node(left, depth), self.evaluate_node(right, depth))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name.lower() in FUNCTIONS:
                return FUNCTIONS[name.lower()](*[self.evaluate_node(argument, depth) for argument in arguments])
        raise self.make_error(_explain_refusal(node), node.col_offset)


def _explain_refusal(node: ast.expr) -> str:
    """Return why a node is not arithmetic, and what to write instead."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return f"Unknown function {name!r}; the functions are {', '.join(FUNCTIONS)}"
        case ast.Call():
            return 'Write the multiplication sign, as in "2 * (3 + 4)"'
        case ast.Name(id=name):
            return f"Unknown constant {name!r}; the constants are {', '.join(CONSTANTS)}"
        case ast.Tuple():
            return 'A comma belongs between thousands ("1,000") or between arguments'
    return "Only arithmetic is supported"


def _count_digits(number: int) -> int:
    """Return the number of decimal digits of an integer, off by one at most, without formatting the integer."""
    return int(number.bit_length() * math.log10(2)) + 1
