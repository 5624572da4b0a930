"""Where the runs of a test are recorded: in a SQLite file, in a file of lines, and in a PostgreSQL database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentkit.sessions.journal.connections import _open


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """For what concerns the file itself."""
    return tmp_path / "runs.db"


@pytest.fixture(params=["sqlite", "lines", pytest.param("postgres", marks=pytest.mark.integration)])
def new_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Path | str]]:
    """A function that returns the place of a journal that has no runs, in each kind of store."""
    if request.param != "postgres":
        numbers = iter(range(1000))
        suffix = "jsonl" if request.param == "lines" else "db"
        yield lambda: tmp_path / f"runs{next(numbers) or ''}.{suffix}"
        return
    server = request.getfixturevalue("postgres_server")
    with ExitStack() as databases:
        yield lambda: databases.enter_context(server.database())


@pytest.fixture(autouse=True)
def _no_lease_is_left() -> Iterator[None]:
    """A store with a lease would be used again by a later test that gets the same database."""
    yield
    assert [store.place for store in _open.values() if store._held] == []


@pytest.fixture
def path(new_journal: Callable[[], Path | str]) -> Path | str:
    """The journal, for what holds in all stores."""
    return new_journal()
