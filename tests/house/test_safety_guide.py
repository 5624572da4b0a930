"""Each guarantee in the safety guide names tests, and these exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "safety.md").read_text()
SECTION = GUIDE.partition("## What is guaranteed")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ") and not line.startswith("| Guarantee")]
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def names_in(path):
    """The tests and classes of a file, as pytest names them."""
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}::{inner.name}" for inner in node.body if hasattr(inner, "name"))


def test_there_are_guarantees():
    assert len(ROWS) > 15


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_guarantee_names_tests_that_exist(row):
    guarantee, tests = row.strip("| ").rsplit(" | ", 1)
    assert guarantee.endswith(".")
    found = TEST.findall(tests)
    assert found
    assert TEST.sub("", tests).strip(", ") == "", "every part of the column is a test"
    for path, name in found:
        assert name.startswith(("test_", "Test"))
        assert name in names_in(path), f"{path} has no {name}"
