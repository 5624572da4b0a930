"""Tools that hang, let go when the test ends."""

from collections.abc import Iterator

import pytest
from hanging_tools import HangingTools


@pytest.fixture
def hanging() -> Iterator[HangingTools]:
    """The tools of one test; a thread of theirs that still runs affects no other test."""
    tools = HangingTools()
    yield tools
    tools.gate.set()
