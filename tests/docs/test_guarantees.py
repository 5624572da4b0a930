"""The guide's table of guarantees names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_guarantee_of_the_journal_has_a_test():
    table = (ROOT / "docs/guides/journal.md").read_text().partition("## What is guaranteed")[2].partition("\n## ")[0]
    named = re.findall(r"`(test_\w+)`", table)
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| What happens")]
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []
    assert [row for row in rows if "`test_" not in row] == []
    assert len(rows) >= 12
