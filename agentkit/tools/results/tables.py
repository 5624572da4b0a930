"""Tables as text for a model: a line of columns with their types, a line for each row, and the number of rows.

The text is about half as long as JSON, which repeats each name in each row.  A data frame is any object with `columns`,
`dtypes` and rows, as pandas and Polars have them; neither library is imported.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ...core.values import frozen

MAX_TABLE_CHARS = 16_000
MAX_ROWS_READ = 500
"""Rows of a frame that a model reads."""
MAX_COLUMNS_READ = 100
"""Columns of a frame that a model reads."""
MAX_CELL_CHARS_READ = 500
"""Characters of a cell of a frame that a model reads."""

_SEPARATOR = " | "
_JSON_STARTS = ('"', "[", "{")


@frozen
class Table:
    """Rows of values under columns.

    Attributes:
        columns: The names of the columns.
        types: Their types; "" for one that has none.
        rows: The first rows, or all.
        row_count: The number of all rows; None if it is not known and there are more.
        column_count: The number of all columns, if there are more.
    """

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]
    row_count: int | None
    column_count: int | None = None


def format_table(table: Table, more: str = "") -> str:
    """Return a table as text: the head, as many rows as fit, and a line that counts them.

    Args:
        table: The table; its cells are JSON data.
        more: What the last line adds if rows are left out; `{}` in it is the number of the rows shown.
    """
    named = zip(table.columns, table.types, strict=True)
    head = _SEPARATOR.join(f"{_format_name(name)} ({kind})" if kind else _format_name(name) for name, kind in named)
    lines = [head or "[no columns]"]
    chars = len(head)
    for row in table.rows:
        line = _SEPARATOR.join(map(_format_cell, row))
        chars += len(line) + 1
        if chars > MAX_TABLE_CHARS and len(lines) > 1:
            break
        lines.append(line)
    shown = len(lines) - 1
    if shown == table.row_count:
        note = f"{shown:,} row{'s' * (shown != 1)}"
    else:
        total = "" if table.row_count is None else f" of {table.row_count:,}"
        note = f"the first {shown:,}{total} rows{more.format(shown)}"
    if table.column_count is not None:
        note += f"; the first {len(table.columns):,} of {table.column_count:,} columns"
    return "\n".join([*lines, f"[{note}]"])


def parse_table(text: str) -> Table | None:
    """Return the table in a text that `format_table` made, with cells as text; None for another text."""
    head, *lines = text.split("\n")
    note = lines.pop() if lines else ""
    words = note.removeprefix("[the first ").removeprefix("[").replace(",", "").split(" ")
    if not (note.endswith("]") and words[0].isdecimal()) or int(words[0]) != len(lines):
        return None
    columns = list(_split_line(head))
    rows = [list(_split_line(line)) for line in lines]
    if any(len(row) != len(columns) for row in rows):
        return None
    is_whole = not note.startswith("[the first ")
    return Table(columns, [""] * len(columns), rows, len(rows) if is_whole else None)


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame, also one that is not computed yet."""
    cls = type(value)
    if not (hasattr(cls, "columns") and hasattr(cls, "dtypes") and hasattr(cls, "head")):
        return False
    return hasattr(cls, "itertuples") or hasattr(cls, "iter_rows") or hasattr(cls, "collect_schema")


def read_frame(frame: Any, max_rows: int, max_columns: int | None = None) -> Table:
    """Return the first rows of a data frame; an index with names or values of its own is the first columns.

    A missing value of pandas becomes None.

    Args:
        frame: A data frame.
        max_rows: The rows to read at most.
        max_columns: The columns to read at most.
    """
    if not hasattr(type(frame), "shape"):  # it is not computed
        frame = frame.head(max_rows + 1).collect()
        row_count = None if frame.shape[0] > max_rows else frame.shape[0]
    else:
        row_count = int(frame.shape[0])
    head = frame.head(max_rows)
    if hasattr(type(head), "iter_rows"):
        read = head.iter_rows()
    else:
        if type(head.index).__name__ != "RangeIndex":
            head = head.reset_index(allow_duplicates=True)
        read = head.astype(object).where(head.notna(), None).itertuples(index=False, name=None)
    columns = [_name_of(column) for column in head.columns]
    width = len(columns) if max_columns is None else max_columns
    rows = [tuple(row[:width]) for row in islice(read, max_rows)]
    left_out = len(columns) if len(columns) > width else None
    return Table(columns[:width], [str(kind) for kind in islice(head.dtypes, width)], rows, row_count, left_out)


def _name_of(column: Any) -> str:
    """Return the name of a column; of one with levels, the levels joined by dots."""
    return ".".join(str(level) for level in column if level != "") if isinstance(column, tuple) else str(column)


def _format_name(name: str) -> str:
    return name if name and "|" not in name and name.isprintable() else json.dumps(name, ensure_ascii=False)


def _format_cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    is_plain = text not in ("", "NULL") and "|" not in text and text[0] != '"' and text.isprintable()
    return text if is_plain or not isinstance(value, str) else json.dumps(text, ensure_ascii=False)


def _split_line(line: str) -> Iterator[str]:
    """Yield the cells of a line; a separator inside a JSON text is no border."""
    place = 0
    while True:
        text, end = _read_json(line, place) if line.startswith(_JSON_STARTS, place) else ("", -1)
        if end < 0:
            end = line.find(_SEPARATOR, place)
            end = end if end >= 0 else len(line)
            text = line[place:end]
        yield text
        if end == len(line):
            return
        place = end + len(_SEPARATOR)


def _read_json(line: str, place: int) -> tuple[str, int]:
    """Return the cell of JSON at a place and its end; -1 if it is not JSON, or does not end there."""
    try:
        value, end = json.JSONDecoder().raw_decode(line, place)
    except (ValueError, RecursionError):
        return "", -1
    if end < len(line) and not line.startswith(_SEPARATOR, end):
        return "", -1
    return value if isinstance(value, str) else line[place:end], end
