"""Words: docstrings, comments and documents, those of the tests too, are plain technical English, without the words that the style page bans."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from sources import BUNDLED, PACKAGE, ROOT, TESTS, each_path, statements_in

BANNED = re.compile(
    r"\b(whoever|nobody|what came of|comes? of|came of|heard|is told|are told|was told|is none|are none|there is none"
    r"|lest|in vain|by now|so many|goes on|go on|gone on|going on|went on|put right|purse|receipt|slips?)\b"
    r"|\bof it(?=[.;:]|$)",
    re.IGNORECASE | re.MULTILINE,
)
"""Dialect: verbs of saying for what a program does, coined nouns, negation by "none"; see docs/contributing/style.md."""

PERHAPS = re.compile(BANNED.pattern.replace("[.;:]", "[^ \\w]"), BANNED.flags)
"""Finds what `BANNED` may find in a docstring or a comment, in the whole text of a file."""


def files():
    yield from sorted(PACKAGE.rglob("*.py"))
    yield from sorted(BUNDLED.rglob("*.py"))
    yield from sorted(path for path in TESTS.rglob("*.py") if path.name not in ("test_words.py", "test_steering.py"))
    yield from [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "notebooks").glob("*.py"))]
    yield from [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]


def prose_of(path: Path):
    """The docstrings and comments of a Python file, or the text of a document without its code, with line numbers."""
    text = path.read_text()
    if path.suffix == ".md":
        hidden = re.sub(
            r"^```.*?^```|`[^`\n]*`", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.M | re.S
        )
        yield 1, hidden
        return
    for node in statements_in(ast.parse(text)):
        for expression in node.body if isinstance(getattr(node, "body", None), list) else ():
            value = getattr(expression, "value", None)
            if isinstance(expression, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield expression.lineno, re.sub(r"`[^`\n]*`", "", value.value)
    if "#" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`\n]*`", "", token.string)


def is_suspicious(path: Path) -> bool:
    """Return whether a banned word stands anywhere in a file, but for the page that lists the words."""
    return path != ROOT / "docs" / "contributing" / "style.md" and bool(PERHAPS.search(path.read_text()))


@each_path(filter(is_suspicious, files()))
def test_prose_is_plain(path):
    found = [
        f"{path.name}:{line + text.count(chr(10), 0, match.start())} {match[0]!r}"
        for line, text in prose_of(path)
        for match in BANNED.finditer(text)
    ]
    assert not found


def test_names_of_tests_are_plain():
    names = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def test_(\w+)", path.read_text())}
    assert len(names) > 1_000
    assert not [name for name in names if BANNED.search(name.replace("_", " "))]


@pytest.mark.parametrize(
    "text",
    [
        '"""Lest it fails."""',
        "x = 1  # what came of it",
        'def f():\n    """Return all of it"""',
        "class A:\n    'None of it'",
    ],
)
def test_a_banned_word_is_found_in_docstrings_and_comments(tmp_path, text):
    path = tmp_path / "module.py"
    path.write_text(text)
    with pytest.raises(AssertionError, match=r"module\.py:"):
        test_prose_is_plain(path)
