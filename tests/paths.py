"""Tests of many files: one case for each file, named after its path in the repository."""

from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def each_path(paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Run a test once for each path, as its argument `path`."""
    return pytest.mark.parametrize("path", list(paths), ids=lambda path: path.relative_to(ROOT).as_posix())
