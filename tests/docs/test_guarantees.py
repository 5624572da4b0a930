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


def test_each_guarantee_of_safety_has_a_test():
    table = (ROOT / "docs/guides/safety.md").read_text().partition("## What is guaranteed")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| Guarantee")]
    assert [row for row in rows if not re.search(r"\| `tests/[^|]+` \|$", row)] == []
    named = re.findall(r"`(tests/[^`]+)`", table)
    assert [place for place in named if not _exists(*place.split("::"))] == []
    assert len(rows) >= 25


def _exists(path, *names):
    """Whether a file defines a class and, inside of it, a test."""
    text = (ROOT / path).read_text()
    for name in names:
        found = re.search(rf"^ *(class|(async )?def) {name}\b", text, re.MULTILINE)
        if found is None:
            return False
        text = text[found.end() :]
    return True
