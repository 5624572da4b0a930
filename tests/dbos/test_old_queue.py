"""A queue of an older version: its runs are executed by a worker of this one."""

import gzip
import sqlite3
import sys
from pathlib import Path

import pytest

from agentkit.journal import runs

OLD = Path(__file__).parents[1] / "sessions" / "journal" / "old"


@pytest.fixture
def url(tmp_path) -> str:
    """The URL of a journal and a queue in files that ba49f56 wrote."""
    for suffix in ("", "-queue"):
        content = gzip.decompress((OLD / f"runs-ba49f56.db{suffix}.gz").read_bytes())
        (tmp_path / f"runs.db{suffix}").write_bytes(content)
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42), reason="DBOS needs SQLite 3.42 here"
)
def test_a_queued_run_of_an_older_version_is_executed(url, client, start, effects):
    handle = client.run("queued-1")
    assert handle.status.state == "queued"
    start().wait_ready()
    assert handle.result(timeout=900) == "done queued"
    assert effects() == ["queued/0", "queued/1"]
    assert {run.query: run.state for run in runs(url)}["effect 2 0.01 queued"] == "finished"
