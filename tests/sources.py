"""The source files of this project for tests: one case for each file, which parses its file once."""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agentkit"
BUNDLED = ROOT / "tools" / "agentkit_tools"
TESTS = ROOT / "tests"


def each_path(paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Run a test once for each path, as its argument `path`; the cases of a module that share a path follow each other."""
    return pytest.mark.parametrize(
        "path", list(paths), ids=lambda path: path.relative_to(ROOT).as_posix(), scope="module"
    )


@lru_cache(maxsize=2)
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a Python file, the module first, without those that have no fields, such as operators."""
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            for inner in value if isinstance(value, list) else (value,):
                if isinstance(inner, ast.AST) and inner._fields:
                    nodes.append(inner)
    return tuple(nodes)


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node that holds statements, and all statements in it, without a look into their expressions."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, None)
        for statement in inner if isinstance(inner, list) else ():
            yield from statements_in(statement)
