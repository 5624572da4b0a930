"""Python that is parsed while another thread, or a finalizer, parses too."""

import ast
import gc
from collections.abc import Iterator

import pytest

from agentkit.core.threads import parse_python

COLLECTIONS = 8
NESTED = f"[{', '.join(f'[[{number}]]' for number in range(50))}]"


@pytest.fixture
def _parses_in_between() -> Iterator[None]:
    """Parse in the first collections of garbage, which fall into the middle of the test's own parsing."""
    ran = []

    def parse(*_) -> None:
        if len(ran) < COLLECTIONS:
            ran.append(True)
            ast.parse("f(a=[1, 2])")

    limits = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(parse)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*limits)
    gc.callbacks.remove(parse)
    assert ran


@pytest.mark.usefixtures("_parses_in_between")
def test_parsing_that_is_entered_twice_succeeds():
    assert ast.literal_eval(parse_python(NESTED).body[0].value)[-1] == [[49]]
