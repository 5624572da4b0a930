"""A journal in a database without the package that it needs."""

import sys

import pytest

from agentkit.journal import JournalError, runs


def test_a_missing_package_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("psycopg", "agentkit.sessions.journal.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JournalError, match=r'pip install "psycopg\[binary\]>=3.2,<4"'):
        runs("postgresql://localhost/nothing")
