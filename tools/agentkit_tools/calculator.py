"""Arithmetic for a model: a few lines of mathematics, never Python.

The text is split into tokens, the notations of people (`×`, `^`, `15%`, `1,000`) are written as Python's, and the syntax
tree is walked with a list of what is allowed. Nothing is ever passed to `eval`, and every result is bounded.
"""

import ast
import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping

from agentkit.errors import ToolError

from ._expression import Token, tokens

Number = int | float

MAX_LENGTH = 1000
"""Characters of an expression."""
MAX_DEPTH = 200
"""Operations within operations."""
MAX_DIGITS = 1000
"""Digits of a whole number, also on the way to the result."""

CONSTANTS: Mapping[str, Number] = {"pi": math.pi, "e": math.e}

OPERATORS: Mapping[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def _factorial(number: Number) -> int:
    if number > MAX_DIGITS:
        raise OverflowError
    return math.factorial(operator.index(number) if isinstance(number, int) else _whole(number))


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ValueError("a whole number is needed")
    return int(number)


def _round(number: Number, digits: int = 0) -> Number:
    if abs(digits) > MAX_DIGITS:
        raise OverflowError
    return round(number, digits) if digits else round(number)


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


def calculate(expression: str) -> float | int:
    """Calculate an arithmetic expression.

    Operators: + - * / // % ** (also ^ × ÷) and parentheses. Constants: pi, e. Functions: abs, round(x, digits), min,
    max, floor, ceil, sqrt, exp, log(x, base) (natural without a base), ln, log2, log10, sin, cos, tan, asin, acos,
    atan (radians), degrees, radians, factorial, gcd.
    Percentages: "15% of 80" is 12, "200 + 10%" is 220 (10% of the 200), "10 % 3" is the remainder 1.

    Args:
        expression: The expression, for example "(1,250 - 17.5) * 3 ^ 2". A comma separates thousands, or, inside a
            function's parentheses, arguments.

    Returns:
        A whole number where the operation is exact, otherwise a float, rounded to 15 significant digits.

    Raises:
        ToolError: The expression cannot be read (with the place), divides by zero, has no real result or is too large.
    """
    if len(expression) > MAX_LENGTH:
        raise ToolError(f"The expression is too long: {len(expression)} characters, at most {MAX_LENGTH}.")
    written = tokens(expression)
    if not written:
        raise ToolError('The expression is empty: write for example "2 * (3 + 4)".')
    result = _Walk(expression, written).result()
    return float(f"{result:.15g}") if isinstance(result, float) else result


class _Walk:
    """One calculation: the expression as it was written, and where each of its tokens stands."""

    def __init__(self, expression: str, written: list[Token]) -> None:
        self.expression = expression
        self.places = [token.place for token in written]
        self.source = " ".join(token.text for token in written)
        self.columns = [0]
        for token in written[:-1]:
            self.columns.append(self.columns[-1] + len(token.text) + 1)

    def result(self) -> Number:
        try:
            tree = ast.parse(self.source, mode="eval")
        except SyntaxError as error:
            raise self.fault("Cannot read the expression", (error.offset or 1) - 1) from None
        except (MemoryError, RecursionError):
            raise ToolError("The expression is nested too deeply.") from None
        return self.value(tree.body, 0)

    def fault(self, message: str, column: int) -> ToolError:
        """The error with the place in the text as the model wrote it; `column` counts in the text for Python."""
        place = self.places[bisect_right(self.columns, column) - 1]
        near = self.expression[place : place + 12]
        return ToolError(f"{message}, at character {place + 1}: {near!r}.")

    def value(self, node: ast.expr, depth: int) -> Number:
        """The value of one node, checked to be a real number of bounded size."""
        if depth > MAX_DEPTH:
            raise ToolError(f"The expression is nested too deeply: at most {MAX_DEPTH} operations within each other.")
        try:
            value = self.compute(node, depth + 1)
            if isinstance(value, complex):
                raise ValueError
            if not math.isfinite(value) or (isinstance(value, int) and _digits(value) > MAX_DIGITS):
                raise OverflowError
        except ZeroDivisionError:
            raise self.fault("Division by zero", self.operator_column(node)) from None
        except OverflowError:
            raise self.fault(f"Too large (more than {MAX_DIGITS} digits, or 1e308)", node.col_offset) from None
        except (ValueError, TypeError):
            raise self.fault("No real number is the result of this", node.col_offset) from None
        return value

    def operator_column(self, node: ast.expr) -> int:
        """Where the right side of an operation begins: the divisor, in a division."""
        return node.right.col_offset if isinstance(node, ast.BinOp) else node.col_offset

    def compute(self, node: ast.expr, depth: int) -> Number:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name.lower() in CONSTANTS:
                return CONSTANTS[name.lower()]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.value(operand, depth))
            case ast.Subscript(value=percentage):  # how a percentage is written for Python, see _expression.py
                return self.value(percentage, depth) / 100
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return _power(self.value(left, depth), self.value(right, depth))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=ast.Subscript() as right):
                whole = self.value(left, depth)
                return OPERATORS[type(op)](whole, whole * self.value(right, depth))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.value(left, depth), self.value(right, depth))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self.call(node, name, [self.value(argument, depth) for argument in arguments])
            case ast.Name(id=name):
                raise self.fault(f"Unknown name {name!r}; constants: {', '.join(CONSTANTS)}", node.col_offset)
            case ast.Tuple():
                raise self.fault('A comma belongs between thousands ("1,000") or arguments', node.col_offset)
            case ast.Call():
                raise self.fault('Write the multiplication: "2 * (3 + 4)"', node.col_offset)
        raise self.fault("Only arithmetic is possible", node.col_offset)

    def call(self, node: ast.expr, name: str, arguments: list[Number]) -> Number:
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise self.fault(f"Unknown function {name!r}; there are: {', '.join(FUNCTIONS)}", node.col_offset)
        try:
            return function(*arguments)
        except (TypeError, ValueError):
            shown = ", ".join(f"{argument:.15g}" if isinstance(argument, float) else "…" if _digits(argument) > 30
                              else str(argument) for argument in arguments)
            raise self.fault(f"{name}({shown}) has no real result", node.col_offset) from None


def _power(base: Number, exponent: Number) -> Number:
    """`base ** exponent`, refused before it is computed when the result would be too large."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 0:
        if exponent * math.log10(abs(base)) > MAX_DIGITS:
            raise OverflowError
    power: Number = base**exponent
    return power


def _digits(number: int) -> int:
    """About how many decimal digits a whole number has, without writing it out."""
    return int(number.bit_length() * math.log10(2)) + 1
