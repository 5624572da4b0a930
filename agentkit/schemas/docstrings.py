"""Parse docstrings: the description of the whole, and of each parameter or attribute."""

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from textwrap import dedent

from docstring_parser import DocstringStyle, ParseError, parse

from ..core.threads import parse_python

OTHER_STYLES = (DocstringStyle.NUMPYDOC, DocstringStyle.REST, DocstringStyle.EPYDOC)
SECTION_TITLES = "Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Attributes"
SECTION = re.compile(rf"(?P<title>{SECTION_TITLES}|Returns?|Yields?|Raises|Except(?:ions)?)[ \t]*:[ \t]*")
ENTRY = re.compile(r"(?P<names>[`*]*\w+[`]*(?:[ \t]*,[ \t]*[`*]*\w+`*)*)[ \t]*(?:\([^)]*\)+)?[ \t]*:(?!:)(?P<text>.*)")
RETURN_TYPE = re.compile(r"^[A-Za-z_][\w.]*(?:\[[^\]]*\]+)?: (?=\S)")
"""A type before the text: `dict[str, int]: The count of each word.`"""
UNDERLINED = re.compile(r"(?m)^[ \t]*-{3,}[ \t]*$")
ATTRIBUTE = re.compile(r"""(?m)^[ \t]+\w+[ \t]*[:=][^\n]*\n[ \t]+[rR]?["']""")


@dataclass(frozen=True, slots=True)
class Documentation:
    """A parsed docstring: the text about the whole, about each parameter by its name, and about the return value."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str | None, names: Collection[str]) -> Documentation:
    """Parse a docstring in Google, NumPy, Sphinx or Epydoc style, whichever documents most of `names`."""
    if not text or not text.strip():
        return Documentation()
    return max(_parse_styles(text, names), key=lambda reading: len(reading.parameters))


def read_returns(text: str | None) -> str:
    """Return what a docstring documents about the return value, in any of these styles; "" without it."""
    readings = _parse_styles(text, ()) if text and text.strip() else []
    return next((reading.returns for reading in readings if reading.returns), "")


def _parse_styles(text: str, names: Collection[str]) -> list[Documentation]:
    readings = [_parse_google(text, names)]
    if UNDERLINED.search(text) or re.search(r"(?m)^[ \t]*[:@]\w+", text):
        readings += [reading for style in OTHER_STYLES if (reading := _parse_style(text, style, names)) is not None]
    return readings


def _parse_style(text: str, style: DocstringStyle, names: Collection[str]) -> Documentation | None:
    try:
        parsed = parse(text, style=style)
    except ParseError:
        return None
    parameters = {
        name: _join_lines(entry.description)
        for entry in parsed.params
        if entry.description
        for name in re.findall(r"\w+", entry.arg_name)
        if name in names
    }
    returns = _join_lines(parsed.returns.description or "") if parsed.returns else ""
    return Documentation((parsed.description or "").strip(), parameters, returns)


def _parse_google(text: str, names: Collection[str]) -> Documentation:
    """Parse Google style; docstring-parser skips a whole section for one line without a colon, this does not."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    returns = ""
    lines = text.expandtabs().splitlines()
    while lines:
        line = lines.pop(0)
        section = SECTION.fullmatch(line.strip())
        at_start = not kept and not parameters and bool(lines) and not _count_indent(lines[0])
        block = _take_block(lines, -1 if at_start else _count_indent(line)) if section else []
        if section is None or not block:
            kept.append(line)
        elif section["title"] in SECTION_TITLES.split("|"):
            parameters |= _read_entries(block, names)
        elif section["title"] in ("Return", "Returns"):
            returns = RETURN_TYPE.sub("", _join_lines(" ".join(block)))
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Documentation(description, parameters, returns)


def _take_block(lines: list[str], indent: int) -> list[str]:
    """Remove from `lines` those that belong to a section whose title has the indentation `indent`, and return them.

    -1 stands for a title that opens the docstring, whose lines are not indented: they end at the first empty one.
    """
    block: list[str] = []
    while lines and (_count_indent(lines[0]) > indent if lines[0].strip() else indent >= 0):
        block.append(lines.pop(0))
    return dedent("\n".join(block)).splitlines() if any(line.strip() for line in block) else []


def _read_entries(block: list[str], names: Collection[str]) -> dict[str, str]:
    """Read `name (type): text` lines with their continuation lines; other lines belong to the entry above."""
    texts: dict[str, list[str]] = {}
    current: list[str] = []
    base = min(_count_indent(line) for line in block if line.strip())
    for line in block:
        entry = ENTRY.fullmatch(line.strip()) if _count_indent(line) == base else None
        found = re.findall(r"\w+", entry["names"]) if entry else []
        if entry and any(name in names for name in found):
            current = [entry["text"]]
            texts |= {name: current for name in found if name in names}
        elif entry and len(found) == 1 and " " not in entry["names"]:
            current = []  # an entry of an unknown name
        else:
            current.append(line)
    return {name: joined for name, parts in texts.items() if (joined := _join_lines(" ".join(parts)))}


def read_attribute_texts(cls: type) -> dict[str, str]:
    """Return the strings under a class's attributes in its source, if the source is available."""
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    return dict(_read_file(path).get(cls.__qualname__, {})) if path else {}


@cache
def _read_file(path: str) -> dict[str, dict[str, str]]:
    """Return the attribute texts of all classes of a file by qualified name; parse only a file with candidates."""
    source = "".join(linecache.getlines(path))
    if not ATTRIBUTE.search(source):
        return {}
    found: dict[str, dict[str, str]] = {}
    try:
        _collect(parse_python(source), "", found)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return found


def _collect(node: ast.AST, prefix: str, found: dict[str, dict[str, str]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            found[name] = _read_attributes(child.body)
            _collect(child, f"{name}.", found)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(child, f"{prefix}{child.name}.<locals>.", found)


def _read_attributes(body: list[ast.stmt]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for statement, following in pairwise(body):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = following.value if isinstance(following, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            texts[target.id] = _join_lines(inspect.cleandoc(value.value))
    return texts


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_lines(text: str) -> str:
    return " ".join(text.split())
