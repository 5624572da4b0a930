"""Tools for data: tables in files are described and queried by SQL, which reads these files alone and writes nothing.

DuckDB reads CSV, Parquet and JSON by itself; sheets of Excel and tables of SQLite are loaded into its memory.  A single
SQLite file is queried where it is, by SQLite, so that it may be large.  Each call runs in a process of its own, with
limits for time and memory, see `tables_child`.
"""

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import agentkit
from agentkit import DefinitionError, ToolError
from agentkit.extend import Table, format_table, missing_package
from agentkit.tools import truncate

from .folder import EXCLUDED, Folder

QUERY_SECONDS = 20.0
MAX_SQL_CHARS = 20_000
MAX_ROWS = 500
MAX_TABLES = 100
"""Files that one call opens."""
MAX_COLUMNS_CHARS = 2_000
"""Characters of the columns of one table in a list of tables."""

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
"""The formats by the endings of files."""
_COMPRESSED = ("csv", "json", "jsonl")
"""The formats of files that may also end with `.gz`."""


def table_tools(
    source: str | os.PathLike[str],
    *,
    trust: Literal["trusted", "untrusted"] | None = "untrusted",
    exclude: Collection[str] = EXCLUDED,
) -> "list[agentkit.JsonTool[..., Any]]":
    """Return tools that describe and query tables by SQL: `describe_tables` and `query_tables`.

    Args:
        source: A folder with CSV, TSV, JSON, JSON lines, Parquet, Excel and SQLite files; or one such file.
        trust: Who may have written the data: "untrusted" for anyone, None where you trust it.
        exclude: Patterns of names of files and folders that the tools neither show nor open.

    Raises:
        DefinitionError: The source does not exist or has another format, or DuckDB is not installed.
    """
    path = Path(source).expanduser().resolve()
    if not path.is_file() and not path.is_dir():
        raise DefinitionError(f"source: {str(source)!r} is neither a folder nor a file.")
    is_file = path.is_file()
    if is_file and not _format_of(path.name):
        raise DefinitionError(f"source: {path.name!r} has no known ending. Known: {', '.join(_FORMATS)}.")
    tables = Tables(Folder(path.parent, ()), path.name) if is_file else Tables(Folder(path, exclude))
    if not tables.is_sqlite and not _has_duckdb():
        raise missing_package("table_tools", "duckdb>=1.4", "openpyxl>=3.1")
    methods = (tables.describe_tables, tables.query_tables)
    return [agentkit.JsonTool(method, effect="read", trust=trust) for method in methods]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows that a query returned, or the first of them.

    Attributes:
        columns: The names of the columns.
        types: Their types; "" where the database has none.
        rows: The values; dates and times as ISO 8601.
        is_cut: Whether there are more rows.
    """

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_cut: bool = False

    def __str__(self) -> str:
        count = None if self.is_cut else len(self.rows)
        return format_table(Table(self.columns, self.types, self.rows, count), "; OFFSET {} shows the next")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables in the files of a folder, or in one file.

    Attributes:
        folder: The folder.
        only: The name of the one file in it that is used; None for all.
        seconds: The time limit of a call.
    """

    folder: Folder
    only: str | None = None
    seconds: float = QUERY_SECONDS

    @property
    def is_sqlite(self) -> bool:
        """Whether it is one SQLite file, which is queried where it is."""
        return self.only is not None and _format_of(self.only) == "sqlite"

    def describe_tables(self, table: str = "") -> str:
        """List the tables with their columns.

        Args:
            table: One of them, to get its number of rows and the first rows, too.
        """
        files = self._list_files()
        wanted = table.casefold()
        found = self._ask(
            {path: name for path, name in files.items() if self.is_sqlite or _may_mean(wanted, name, path)},
            table=table,
            max_rows=MAX_TABLES,
        )
        if table:
            result = QueryResult(found["columns"], found["types"], found["rows"])
            return f"{found['path']}: {found['count']:,} rows\n{result}"
        lines = []
        for name, path, columns in found["tables"]:
            where = "" if self.is_sqlite else f" ({path})"
            lines.append(f"{name}{where}: {truncate(columns, MAX_COLUMNS_CHARS)}")
        left = max(found["count"] - len(lines), len(files) - MAX_TABLES)
        if left > 0:
            lines.append(f"[{left:,} more; describe_tables with the path of a file describes it]")
        return "\n".join(lines) or "[there are no tables]"

    def query_tables(self, sql: str, max_rows: int = 50) -> QueryResult:
        """Run one SELECT over the tables, in DuckDB's SQL; in SQLite's for a single SQLite file.

        Args:
            sql: The query; describe_tables has the names of tables and columns.
            max_rows: At most 500.
        """
        if not sql.strip() or len(sql) > MAX_SQL_CHARS:
            raise ToolError(f"sql must have 1 to {MAX_SQL_CHARS:,} characters, got {len(sql):,}.")
        words = sql.casefold()
        files = self._list_files()
        used = {
            path: name
            for path, name in files.items()
            if self.is_sqlite or name.casefold() in words or path.casefold() in words
        }
        found = self._ask(used, sql=sql, max_rows=min(max(max_rows, 1), MAX_ROWS))
        return QueryResult(**found)

    def _list_files(self) -> dict[str, str]:
        """Return the names as tables of the files, by their paths."""
        paths = [self.only] if self.only is not None else [entry.path for entry in self.folder.walk()]
        paths = [path for path in paths if _format_of(path)]
        stems = [_to_identifier(_stem_of(path)) for path in paths]
        folded = [stem.casefold() for stem in stems]
        return {
            path: stem if folded.count(stem.casefold()) == 1 else _to_identifier(path)
            for path, stem in zip(paths, stems, strict=True)
        }

    def _ask(self, files: Mapping[str, str], *, table: str = "", sql: str | None = None, max_rows: int) -> Any:
        """Run a request in its own process."""
        with ExitStack() as stack:
            sources: list[tuple[str, str, str, int, str]] = []
            for path, name in list(files.items())[:MAX_TABLES]:
                file, _ = stack.enter_context(self.folder.open_file(path))
                sources.append((name, path, _format_of(path), file, str(self.folder.root / path)))
            request = {
                "modules": [place for place in sys.path if place],
                "sources": sources,
                "is_sqlite": self.is_sqlite,
                "table": table,
                "sql": sql,
                "max_rows": max_rows,
                "seconds": self.seconds,
            }
            process = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).with_name("tables_child.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[source[3] for source in sources],
                env={"PATH": os.environ.get("PATH", ""), "TZ": os.environ.get("TZ", "UTC"), "HOME": "/nonexistent"},
            )
            with process:
                try:
                    answer, _ = process.communicate(json.dumps(request).encode(), timeout=self.seconds + 2)
                except subprocess.TimeoutExpired:
                    answer = b'{"error": "", "is_timeout": true}'
                finally:
                    process.kill()
        if not answer:
            raise ToolError("The query needs too much memory, or the file is damaged: its process ended.")
        outcome = json.loads(answer)
        if outcome.get("is_timeout"):
            raise ToolError(f"It took more than {self.seconds:g} seconds. Make the query smaller.")
        if outcome.get("is_unknown_table"):
            names = [*self._list_files().values()]
            raise ToolError(f"{outcome['error']} Tables of the files: {', '.join(names[:20])}; see describe_tables.")
        if "error" in outcome:
            raise ToolError(outcome["error"])
        return outcome


def _has_duckdb() -> bool:
    try:
        return find_spec("duckdb") is not None
    except ValueError:  # it is hidden
        return False


def _format_of(path: str) -> str:
    """Return the format of a file with tables; "" of another file."""
    stem, ending = os.path.splitext(path.lower())
    if ending == ".gz":
        inner = _FORMATS.get(os.path.splitext(stem)[1], "")
        return inner if inner in _COMPRESSED else ""
    return _FORMATS.get(ending, "")


def _to_identifier(text: str) -> str:
    """Return a name for a table that needs no quotes."""
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_")
    return name if name and not name[0].isdigit() else f"t_{name}"


def _may_mean(table: str, name: str, path: str) -> bool:
    """Return whether a table may be in a file: each for "", else by the name of the file, a name in it, or its path."""
    return table.startswith(name.casefold()) or table in path.casefold()


def _stem_of(path: str) -> str:
    stem = os.path.splitext(path.rpartition("/")[2])[0]
    return os.path.splitext(stem)[0] if path.lower().endswith(".gz") else stem
