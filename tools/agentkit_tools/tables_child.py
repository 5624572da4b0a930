"""The process in which a query over tables runs: a script that is started by its path, once for each call.

It reads a request as JSON from standard input and writes the outcome as JSON to standard output.  Files come as open
descriptors.  Its memory is limited; DuckDB's access to files, but for these, and to extensions is switched off and
locked before the query of a model runs.  It imports nothing of agentkit, which would take longer than the query.
"""

import codecs
import json
import os
import re
import resource
import sqlite3
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from itertools import islice
from typing import IO, Any, NamedTuple

MEMORY = "512MB"
"""What DuckDB may take."""
MAX_ADDRESS_BYTES = 2_000_000_000
"""What the process may take, the programs in it included."""
MAX_CELL_CHARS = 500
MAX_RESULT_CHARS = 200_000
MAX_LOADED_CELLS = 2_000_000
"""Cells of a sheet or of a table of SQLite that are loaded."""
MAX_LOADED_BYTES = 200_000_000
"""Size of an Excel file, uncompressed."""
MAX_VALUE_BYTES = 10_000_000
MAX_SAMPLED_BYTES = 20_000_000
"""Size of a text whose types are found from all of its rows; else from the first ones."""
SNIFFED_BYTES = 65_536
LOADED_ROWS = 10_000

_READERS = {
    "csv": "read_csv({path}, sample_size={sample}{options})",
    "json": "read_json({path}, maximum_object_size=100000000{options})",
    "jsonl": "read_json({path}, format='newline_delimited'{options})",
    "parquet": "read_parquet({path})",
}
_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": MEMORY,
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "2",
}
_FD_PATHS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_NOT_WORD = re.compile(r"\W+")
_GZIP = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ALLOWED_ACTIONS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_FORBIDDEN_FUNCTIONS = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer")
_LIST_SQLITE = "SELECT {} FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
_COLUMN_TYPES: Mapping[type, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    datetime: "TIMESTAMP",
    date: "DATE",
    time_of_day: "TIME",
    timedelta: "INTERVAL",
}


class RefusedError(Exception):
    """A reason that the model reads; `is_unknown_table` if a query names a table that does not exist."""

    def __init__(self, text: str, *, is_unknown_table: bool = False) -> None:
        super().__init__(text)
        self.is_unknown_table = is_unknown_table


class Source(NamedTuple):
    """A file with tables: its name as a table, its path for the model, its format, its descriptor and its place."""

    name: str
    path: str
    format: str
    file: int
    place: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its file, and the sheet of Excel or the table of SQLite in it, if it has several."""

    name: str
    source: Source
    inner: str = ""
    is_alone: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a query may mean it: its own, and its path if nothing else is in the file."""
        return (self.name, self.source.path) if self.is_alone else (self.name,)


def describe(request: Mapping[str, Any], end: float) -> dict[str, Any]:
    """Return the tables with their columns; with `table`, its number of rows and the first of them."""
    with _open(request, end) as database:
        tables = database.tables
        if wanted := request["table"]:
            table = next((each for each in tables if wanted.casefold() in map(str.casefold, each.names)), None)
            if table is None:
                similar = ", ".join(each.name for each in tables[:20])
                hint = f" Similar: {similar}." * bool(similar)
                raise RefusedError(f"No table is called {wanted!r:.200}.{hint}", is_unknown_table=True)
            database.add(table, table.name)
            name = quote(table.name)
            count = database.query(f"SELECT count(*) FROM {name}", 1)["rows"][0][0]
            return {"path": table.source.path, "count": count, **database.query(f"SELECT * FROM {name} LIMIT 3", 3)}
        described = []
        keywords = database.keywords
        for table in tables[: request["max_rows"]]:
            try:
                database.add(table, table.name)
                columns = ", ".join(f"{name} {kind}".strip() for name, kind in database.list_columns(table.name))
            except RefusedError as error:
                columns = f"cannot be read: {error}"
            name = quote(table.name) if table.name.casefold() in keywords else table.name
            described.append([name, table.source.path, columns])
        return {"tables": described, "count": len(tables)}


def query(request: Mapping[str, Any], end: float) -> dict[str, Any]:
    """Return the columns, the types and the first rows of the result of one SELECT."""
    with _open(request, end) as database:
        sql = request["sql"]
        database.check(sql)
        words = sql.casefold()
        failures: list[RefusedError] = []
        for table in database.tables:
            for name in table.names:
                if re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", words):
                    try:
                        database.add(table, name)
                    except RefusedError as error:  # the word may mean a column, or be one of SQL
                        failures.append(error)
        database.lock()
        try:
            return database.query(sql, request["max_rows"])
        except RefusedError as error:
            raise failures[0] if failures and error.is_unknown_table else error from None


@contextmanager
def _open(request: Mapping[str, Any], end: float) -> Iterator["DuckTables | SqliteTables"]:
    sources = [Source(*source) for source in request["sources"]]
    if request["is_sqlite"]:
        with open_sqlite(sources[0], end) as connection:
            yield SqliteTables(connection, sources[0])
        return
    import duckdb

    with closing(duckdb.connect(":memory:", config=_LOCKED)) as database:
        clock = threading.Timer(end - time.monotonic(), database.interrupt)
        clock.daemon = True
        clock.start()
        yield DuckTables(duckdb, database, sources, end)
        clock.cancel()


@dataclass(slots=True)
class DuckTables:
    """The tables of several files in DuckDB."""

    duckdb: Any
    connection: Any
    sources: Sequence[Source]
    end: float
    tables: list[Table] = field(init=False)
    added: set[str] = field(default_factory=set)
    copies: list[IO[bytes]] = field(default_factory=list)
    """Texts in UTF-8 of files that have another encoding."""

    def __post_init__(self) -> None:
        self.tables = [table for source in self.sources for table in self._list_inner(source)]

    @property
    def keywords(self) -> frozenset[str]:
        """The words that are no names of tables without quotes."""
        categories = "('reserved', 'type_function')"
        found = self.connection.execute(
            f"SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN {categories}"
        )
        return frozenset(row[0] for row in found.fetchall())

    def add(self, table: Table, name: str) -> None:
        """Make a table queryable under a name."""
        if name in self.added:
            return
        self.added.add(name)
        source = table.source
        if source.format == "excel":
            with _read_excel(source) as book:
                sheet = book[table.inner] if table.inner else book.worksheets[0]
                self._load(name, table, sheet.iter_rows(values_only=True), None)
        elif source.format == "sqlite":
            with open_sqlite(source, self.end) as database:
                rows = database.execute(f"SELECT * FROM {quote(table.inner)}")
                self._load(name, table, rows, [column[0] for column in rows.description])
        else:
            self._view(name, source)

    def check(self, sql: str) -> None:
        """Refuse all but one SELECT."""
        with self._explain():
            statements = self.connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != self.duckdb.StatementType.SELECT:
            raise RefusedError("sql must be one SELECT (or FROM, WITH, DESCRIBE, SUMMARIZE). Nothing can be changed.")
        if re.match(r"\s*show\b", sql, re.IGNORECASE):  # it would list the tables that the query names
            raise RefusedError("describe_tables lists the tables with their columns.")

    def lock(self) -> None:
        """Switch off all access but to the opened files, and every change of that."""
        files = [*(source.file for source in self.sources), *(copy.fileno() for copy in self.copies)]
        allowed = ", ".join(f"'{_FD_PATHS}/{file}'" for file in files)
        self.connection.execute(f"SET allowed_paths=[{allowed}]")
        self.connection.execute("SET enable_external_access=false")
        self.connection.execute("SET lock_configuration=true")

    def query(self, sql: str, max_rows: int) -> dict[str, Any]:
        """Run a query and return its first rows."""
        with self._explain():
            found = self.connection.sql(sql).limit(max_rows + 1)
            return to_result(found.columns, list(map(str, found.types)), found.fetchall(), max_rows)

    def list_columns(self, name: str) -> list[Sequence[str]]:
        """Return names and types."""
        with self._explain():
            found = self.connection.sql(f"FROM {quote(name)} LIMIT 0")
            return [*zip(found.columns, map(str, found.types), strict=True)]

    def _list_inner(self, source: Source) -> list[Table]:
        try:
            if source.format == "excel":
                with _read_excel(source) as book:
                    inner = [sheet.title for sheet in book.worksheets]
            elif source.format == "sqlite":
                with open_sqlite(source, self.end) as database:
                    inner = [row[0] for row in database.execute(_LIST_SQLITE.format("name"))]
            else:
                return [Table(source.name, source)]
        except RefusedError:  # it is raised again where the table is used
            return [Table(source.name, source)]
        if len(inner) == 1:
            return [Table(source.name, source, inner[0])]
        names = make_unique([f"{source.name}_{_NOT_WORD.sub('_', each).strip('_')}" for each in inner])
        return [Table(name, source, each, False) for name, each in zip(names, inner, strict=True)]

    def _view(self, name: str, source: Source) -> None:
        file = source.file
        options = ""
        head = os.pread(file, MAX_SAMPLED_BYTES if source.format == "csv" else SNIFFED_BYTES, 0)
        if head.startswith(_GZIP):
            options += ", compression='gzip'"
        elif source.format == "csv" and head.startswith(_UTF_16):
            options += ", encoding='utf-16'"
        elif source.format == "csv" and not _is_utf8(head) and os.fstat(file).st_size <= MAX_LOADED_BYTES:
            self.copies.append(_copy_as_utf8(file))
            file = self.copies[-1].fileno()
        path = f"'{_FD_PATHS}/{file}'"
        sample = -1 if len(head) < MAX_SAMPLED_BYTES else 20_480
        for padding in ("", ", null_padding=true, parallel=false"):
            reader = _READERS[source.format].format(path=path, sample=sample, options=options + padding)
            with self._explain():
                self.connection.execute(f"CREATE OR REPLACE VIEW {quote(name)} AS FROM {reader}")
                found = self.connection.sql(f"FROM {quote(name)} LIMIT 1")
                if source.format != "csv" or not _is_misread(head, found.columns, bool(found.fetchall())):
                    break

    def _load(self, name: str, table: Table, rows: Iterable[Sequence[Any]], columns: Sequence[str] | None) -> None:
        """Make a table of rows; without names of columns the first row that is not empty has them."""
        shown = f"{table.source.path} {table.inner}".strip()
        loaded: list[Sequence[Any]] = []
        cells = 0
        try:
            for row in rows:
                cells += max(len(row), 1)
                if cells > MAX_LOADED_CELLS:
                    remedy = " table_tools of this file alone has no such limit." * (table.source.format == "sqlite")
                    raise RefusedError(f"{shown} is too large: more than {MAX_LOADED_CELLS:,} cells.{remedy}")
                if columns is not None:
                    loaded.append(row)
                elif any(cell is not None for cell in row):
                    columns = [" ".join(str(cell).split()) if cell is not None else "" for cell in row]
        except (RefusedError, sqlite3.Error):
            raise
        except Exception as error:  # openpyxl, of a damaged file
            raise RefusedError(f"{shown} is not readable ({type(error).__name__}).") from error
        names = make_unique(columns or ["empty"])
        values = [[row[at] if at < len(row) else None for row in loaded] for at in range(len(names))]
        types = [find_type(column) for column in values]
        fields = ", ".join(f"{quote(column)} {kind}" for column, kind in zip(names, types, strict=True))
        unnested = ", ".join(f"unnest(${number}::{kind}[])" for number, kind in enumerate(types, 1))
        with self._explain():
            self.connection.execute(f"CREATE TABLE {quote(name)} ({fields})")
            for start in range(0, len(loaded), LOADED_ROWS):
                part = [
                    [_to_text(value) if kind == "VARCHAR" else value for value in column[start : start + LOADED_ROWS]]
                    for column, kind in zip(values, types, strict=True)
                ]
                self.connection.execute(f"INSERT INTO {quote(name)} SELECT {unnested}", part)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Raise an error of DuckDB as a reason, with the paths that the model knows."""
        try:
            yield
        except self.duckdb.InterruptException:
            raise TimeoutError from None
        except (self.duckdb.Error, UnicodeError, RecursionError, OverflowError, ValueError) as error:
            if "bad_alloc" in str(error) or isinstance(error, self.duckdb.OutOfMemoryException):
                raise MemoryError from None
            text = str(error).partition("\n\nLINE")[0]
            for source in self.sources:
                text = text.replace(f"{_FD_PATHS}/{source.file}", source.path)
            raise RefusedError(
                " ".join(text.split())[:MAX_CELL_CHARS], is_unknown_table="Table with name" in text
            ) from None


@dataclass(frozen=True, slots=True)
class SqliteTables:
    """The tables of one SQLite file, queried where they are."""

    connection: sqlite3.Connection
    source: Source

    @property
    def tables(self) -> list[Table]:
        """All tables and views."""
        rows = self.connection.execute(_LIST_SQLITE.format("name"))
        return [Table(row[0], self.source, row[0], False) for row in rows]

    @property
    def keywords(self) -> frozenset[str]:
        """None: a name may be quoted as it is."""
        return frozenset()

    def add(self, table: Table, name: str) -> None:
        """Do nothing: the table is there."""

    def check(self, sql: str) -> None:
        """Do nothing: the authorizer decides about statements."""

    def lock(self) -> None:
        """Do nothing: the connection is locked since it was opened."""

    def query(self, sql: str, max_rows: int) -> dict[str, Any]:
        """Run a query and return its first rows."""
        cursor = self.connection.execute(sql)
        if cursor.description is None:
            raise RefusedError("sql must be one SELECT. Nothing can be changed.")
        columns = [column[0] for column in cursor.description]
        return to_result(columns, [""] * len(columns), list(islice(cursor, max_rows + 1)), max_rows)

    def list_columns(self, name: str) -> list[Sequence[str]]:
        """Return names and declared types."""
        self.connection.set_authorizer(None)
        try:
            return [(row[1], row[2]) for row in self.connection.execute(f"PRAGMA table_info({quote(name)})")]
        finally:
            self.connection.set_authorizer(_authorize)


@contextmanager
def open_sqlite(source: Source, end: float) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file for SELECT alone; what SQLite raises becomes a reason."""
    try:
        database = _connect_sqlite(source.place)
        opened = os.fstat(source.file)
        found = os.stat(source.place, follow_symlinks=False)
        with closing(database):
            if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
                raise RefusedError(f"{source.path} was replaced in the meantime.")
            database.set_authorizer(_authorize)
            database.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            yield database
    except sqlite3.Error as error:
        text = str(error)
        if "one statement" in text:
            raise RefusedError("sql must be one SELECT, not several statements.") from None
        if text == "interrupted":
            raise TimeoutError from None
        if "authoriz" in text or "prohibited" in text:
            raise RefusedError(f"sql must be one SELECT over the tables. Nothing else is allowed: {text}.") from None
        is_unknown_table = "no such table" in text
        raise RefusedError(f"{source.path}: {text[:MAX_CELL_CHARS]}.", is_unknown_table=is_unknown_table) from None
    except (sqlite3.Warning, ValueError, OverflowError) as error:  # two statements, a null byte
        raise RefusedError(f"sql: {str(error)[:MAX_CELL_CHARS]}") from None


def _connect_sqlite(place: str) -> sqlite3.Connection:
    """Return a connection that cannot write; of a file with a log that cannot be read, one without the log."""
    address = "file:" + re.sub(r"[?#%]", lambda letter: f"%{ord(letter[0]):02x}", place) + "?mode=ro"
    failure: sqlite3.OperationalError | None = None
    for option in ("", "&immutable=1"):
        database = sqlite3.connect(address + option, uri=True, isolation_level=None)
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            database.execute("PRAGMA query_only=ON")
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            failure = error
            database.close()
            continue
        except sqlite3.Error:
            database.close()
            raise
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return database
    raise failure or AssertionError("one of the two attempts raises or returns")


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    is_function = action == sqlite3.SQLITE_FUNCTION
    if action not in _ALLOWED_ACTIONS or (is_function and (second or first or "").lower() in _FORBIDDEN_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


@contextmanager
def _read_excel(source: Source) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise RefusedError(f"{source.path} needs the package openpyxl: pip install openpyxl") from None
    with open(source.file, "rb", closefd=False) as stream:
        try:
            stream.seek(0)
            size = sum(member.file_size for member in zipfile.ZipFile(stream).infolist())
            if size > MAX_LOADED_BYTES:
                raise RefusedError(f"{source.path} is too large: {size:,} bytes, at most {MAX_LOADED_BYTES:,}.")
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        except (RefusedError, MemoryError):
            raise
        except Exception as error:  # openpyxl raises what a damaged file makes it raise
            raise RefusedError(f"{source.path} is not a readable Excel file ({type(error).__name__}).") from error
        try:
            yield book
        finally:
            book.close()


def quote(name: str) -> str:
    """Return a name as it stands in SQL."""
    return '"' + name.replace('"', '""') + '"'


def to_result(columns: Sequence[str], types: Sequence[str], rows: Sequence[Any], max_rows: int) -> dict[str, Any]:
    """Return rows as JSON can have them, with the note whether there are more."""
    shown: list[list[Any]] = []
    chars = 0
    for row in rows[:max_rows]:
        shown.append([_to_plain(value) for value in row])
        chars += sum(len(str(value)) for value in shown[-1])
        if chars > MAX_RESULT_CHARS:
            break
    return {"columns": columns, "types": types, "rows": shown, "is_cut": len(rows) > len(shown)}


def _to_plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict | list | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
        return value if isinstance(value, list | dict) and len(text) <= MAX_CELL_CHARS else _shorten(text)
    return _shorten(value.isoformat(" ") if isinstance(value, datetime) else str(value))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}..."


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _is_misread(head: bytes, columns: Sequence[str], has_rows: bool) -> bool:
    """Return whether all columns were taken for one, or the first rows were skipped, because of one row's length."""
    if len(columns) == 1:
        return re.search(r"[,;|\t]", columns[0]) is not None
    first = head[:SNIFFED_BYTES].lstrip().partition(b"\n")[0]
    cells = 1 + max(map(first.count, (b",", b";", b"|", b"\t")))
    return 1 < cells < len(columns) and (columns[0] == "column0" or not has_rows)


def _copy_as_utf8(file: int) -> IO[bytes]:
    """Return a text in Windows-1252, which DuckDB does not read, as UTF-8, in a file without a name."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as its table)
    with open(file, encoding="cp1252", errors="replace", newline="", closefd=False) as text:
        text.seek(0)
        for part in iter(lambda: text.read(SNIFFED_BYTES), ""):
            copy.write(part.encode())
    copy.flush()
    return copy


def make_unique(names: Sequence[str]) -> list[str]:
    """Return names of columns that are not empty and differ from each other, in any case."""
    unique: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        wanted = name or f"column{number}"
        while wanted.casefold() in unique:
            wanted = f"{wanted}_{number}"
        unique[wanted.casefold()] = wanted
    return list(unique.values())


def find_type(values: Iterable[Any]) -> str:
    """Return the type of a column: VARCHAR for values of several types, but for numbers, and for days with times."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1:
        kind = _COLUMN_TYPES.get(next(iter(kinds)), "VARCHAR")
        return "DOUBLE" if kind == "BIGINT" and any(abs(value or 0) >= 1 << 63 for value in values) else kind
    if kinds and kinds <= {int, float}:
        return "DOUBLE"
    return "TIMESTAMP" if kinds and kinds <= {date, datetime} else "VARCHAR"


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    outcome: dict[str, Any]
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
        end = time.monotonic() + request["seconds"]
        sys.path[:] = request["modules"]
        outcome = describe(request, end) if request["sql"] is None else query(request, end)
    except RefusedError as error:
        outcome = {"error": str(error), "is_unknown_table": error.is_unknown_table}
    except TimeoutError:
        outcome = {"error": "It took too long.", "is_timeout": True}
    except MemoryError:
        outcome = {"error": "The query needs too much memory. Make it smaller."}
    json.dump(outcome, sys.stdout)


if __name__ == "__main__":
    main()
