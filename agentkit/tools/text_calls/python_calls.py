"""Tool calls written as Python, like `get_weather(city="Rome")`, alone, in lines or in a list; literals only."""

import ast
import re
from typing import Any

from ..registry import ToolRegistry
from .call import TextCall, make_call_from_python

_LOOKS_LIKE = re.compile(r"\s*+(?:#.*+\n\s*+)*+(?:\w++\s*+=\s*+)?+\[?\s*+(?:await\s++)?+[A-Za-z_][\w.]*+\s*+\(")
MAX_CODE_CHARS = 20_000
"""Limit on the text, because parsing takes time."""
_JSON_NAMES = {"true": True, "false": False, "null": None}


def read_python_calls(text: str, tools: ToolRegistry) -> list[TextCall] | None:
    """Return the calls in a piece of Python; None if it holds anything else."""
    if len(text) > MAX_CODE_CHARS or not _LOOKS_LIKE.match(text):
        return None
    try:
        body = ast.parse(text.strip()).body
        expressions = [part for statement in body for part in _list_expressions(statement)]
        calls = [_read_call(expression, text, tools) for expression in expressions]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, Warning):
        return None
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _list_expressions(statement: ast.stmt) -> list[ast.expr]:
    if not isinstance(statement, ast.Expr | ast.Assign) or statement.value is None:
        raise ValueError("no expression")
    value = statement.value
    return list(value.elts) if isinstance(value, ast.List | ast.Tuple) else [value]


def _read_call(expression: ast.expr, text: str, tools: ToolRegistry) -> TextCall | None:
    if isinstance(expression, ast.Await):
        expression = expression.value
    if not isinstance(expression, ast.Call):
        return None
    name = ast.unparse(expression.func)
    if name == "print" and "print" not in tools and len(expression.args) == 1:  # Gemini's habit in its "tool_code"
        return _read_call(expression.args[0], text, tools)
    named = {keyword.arg: _read_literal(keyword.value) for keyword in expression.keywords if keyword.arg}
    if len(named) != len(expression.keywords):
        return None
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
