import datetime
import gzip
import sqlite3
import subprocess
import sys

import openpyxl
import pytest

from agentkit import DefinitionError, JsonAgent, ToolError
from agentkit.testing import ScriptedModel, answer, call
from agentkit_tools import table_tools
from agentkit_tools.folder import Folder
from agentkit_tools.tables import QueryResult, Tables

ORDERS = "day,city,item,euros\n2026-03-02,Rome,tea,42.5\n2026-03-03,Pune,coffee,\n2026-03-04,Rome,coffee,34\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a table in each format."""
    root = tmp_path_factory.mktemp("data")
    (root / "old").mkdir()
    (root / "orders.csv").write_text(ORDERS)
    (root / "old" / "orders.csv").write_text("a;b\n1;2\n")
    (root / "latin.csv").write_bytes("name\nCafé\n".encode("cp1252"))
    (root / "packed.csv.gz").write_bytes(gzip.compress(b"x\n1\n2\n"))
    (root / "people.json").write_text('[{"name": "Ann", "home": {"city": "Rome"}}, {"name": "Bob"}]')
    (root / "log.jsonl").write_text('{"level": "info"}\n{"level": "error"}\n')
    make = "COPY (SELECT i, 'text ' || i AS t FROM range(100000) r(i)) TO 'big.parquet'"
    subprocess.run([sys.executable, "-c", f"import duckdb; duckdb.execute({make!r})"], cwd=root, check=True)
    book = openpyxl.Workbook()
    book.active.title = "Team 2026"
    for row in ([], ["Name", "Days", "Since", "Name"], ["Ann", 3, datetime.datetime(2026, 1, 2), None], ["Bob", 4.5]):
        book.active.append(row)
    book.create_sheet("Rooms").append(["room"])
    book.save(root / "staff.xlsx")
    shop = sqlite3.connect(root / "shop.db")
    shop.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL, extra)")
    shop.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", [(1, "tea", 2.5, b"\0"), (2, "coffee", 3, "x")])
    shop.execute("CREATE TABLE empty (a)")
    shop.commit()
    shop.close()
    (root / "bad.parquet").write_text("x")
    (root / "bad.xlsx").write_text("x")
    (root / "notes.txt").write_text("no table")
    return root


def tools_of(source):
    tools = {tool.name: tool for tool in table_tools(source)}
    return lambda name, **arguments: tools[name].call(arguments)


def test_each_table_of_a_folder_is_described(data):
    assert tools_of(data)("describe_tables").splitlines() == [
        "bad_parquet (bad.parquet): cannot be read: Invalid Input Error: File 'bad.parquet' too small to be a Parquet file",
        "bad_xlsx (bad.xlsx): cannot be read: bad.xlsx is not a readable Excel file (BadZipFile).",
        "big (big.parquet): i BIGINT, t VARCHAR",
        "latin (latin.csv): name VARCHAR",
        "log (log.jsonl): level VARCHAR",
        "orders_csv (orders.csv): day DATE, city VARCHAR, item VARCHAR, euros DOUBLE",
        "packed (packed.csv.gz): x BIGINT",
        "people (people.json): name VARCHAR, home STRUCT(city VARCHAR)",
        "shop_empty (shop.db): a VARCHAR",
        "shop_items (shop.db): id BIGINT, name VARCHAR, price DOUBLE, extra VARCHAR",
        "staff_Team_2026 (staff.xlsx): Name VARCHAR, Days DOUBLE, Since TIMESTAMP, Name_4 VARCHAR",
        "staff_Rooms (staff.xlsx): room VARCHAR",
        "old_orders_csv (old/orders.csv): a BIGINT, b BIGINT",
    ]


@pytest.mark.parametrize("table", ["staff_Team_2026", "STAFF_team_2026"])
def test_one_table_is_described_with_its_first_rows(data, table):
    assert tools_of(data)("describe_tables", table=table) == (
        "staff.xlsx: 2 rows\n"
        "Name (VARCHAR) | Days (DOUBLE) | Since (TIMESTAMP) | Name_4 (VARCHAR)\n"
        "Ann | 3.0 | 2026-01-02 00:00:00 | NULL\n"
        "Bob | 4.5 | NULL | NULL\n"
        "[2 rows]"
    )


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT city, sum(euros) FROM orders_csv GROUP BY city ORDER BY 1", [["Pune", None], ["Rome", 76.5]]),
        ("FROM 'orders.csv' SELECT max(day)", [["2026-03-04"]]),
        ("select b from old_orders_csv", [[2]]),
        ("from latin", [["Café"]]),
        ("select sum(x) from packed", [[3]]),
        ("select home.city, home from people where home is not null", [["Rome", {"city": "Rome"}]]),
        ("select count(*) from LOG where level = 'error'", [[1]]),
        ("select count(*), sum(i) from big", [[100_000, 4_999_950_000]]),
        (
            "select p.name, days from people p join staff_team_2026 s using (name) order by 1",
            [["Ann", 3.0], ["Bob", 4.5]],
        ),
        ("select name, extra from shop_items order by id", [["tea", "\0"], ["coffee", "x"]]),
        ("describe packed", [["x", "BIGINT", "YES", None, None, None]]),
        (
            "select 1.5::decimal(4,2), date '2026-01-02', 'x'::blob, [1], interval 2 days",
            [[1.5, "2026-01-02", "<1 bytes>", [1], "2 days, 0:00:00"]],
        ),
    ],
)
def test_a_query_reads_every_format_and_joins_them(data, sql, rows):
    assert tools_of(data)("query_tables", sql=sql).rows == rows


def test_a_result_is_a_compact_table_with_types_and_a_count(data):
    assert str(tools_of(data)("query_tables", sql="from orders_csv where city = 'Rome'")) == (
        "day (DATE) | city (VARCHAR) | item (VARCHAR) | euros (DOUBLE)\n"
        "2026-03-02 | Rome | tea | 42.5\n"
        "2026-03-04 | Rome | coffee | 34.0\n"
        "[2 rows]"
    )


def test_a_long_result_states_how_to_read_on(data):
    shown = str(tools_of(data)("query_tables", sql="select i from big order by i", max_rows=3))
    assert shown == "i (BIGINT)\n0\n1\n2\n[the first 3 rows; OFFSET 3 shows the next]"
    wide = str(tools_of(data)("query_tables", sql="select repeat('x', 900) from big", max_rows=500))
    assert len(wide) < 17_000
    assert wide.endswith("rows; OFFSET 31 shows the next]")


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "NULL"),
        ("", '""'),
        ("a|b", '"a|b"'),
        ("a\nb", '"a\\nb"'),
        (1.5, "1.5"),
        (True, "True"),
        ([1, "é"], '[1, "é"]'),
    ],
)
def test_a_cell_cannot_be_taken_for_another(cell, shown):
    assert str(QueryResult(["a"], [""], [[cell]])) == f"a\n{shown}\n[1 row]"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("select * from order", "syntax error"),
        ("select * from missing", "Table with name missing does not exist.*Tables of the files: bad_parquet"),
        ("select town from orders_csv", r'column "town" not found in FROM clause! Candidate bindings:'),
        ("select * from bad_parquet", "File 'bad.parquet' too small"),
        ("", "sql must have 1 to 20,000 characters, got 0"),
    ],
)
def test_an_error_names_what_the_model_can_change(data, sql, problem):
    with pytest.raises(ToolError, match=problem):
        tools_of(data)("query_tables", sql=sql)


def test_an_unknown_table_is_answered_with_those_that_exist(data):
    with pytest.raises(ToolError, match=r"No table is called 'team'.*Tables of the files: .*staff"):
        tools_of(data)("describe_tables", table="team")


def test_names_of_sheets_and_tables_that_become_the_same_word_stay_apart(tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "A-B"
    book.active.append(["first"])
    book.create_sheet("A B").append(["second"])
    book.save(tmp_path / "book.xlsx")
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute('CREATE TABLE "a b" (x)')
        shop.execute("CREATE TABLE a_b (y)")
    shop.close()
    use = tools_of(tmp_path)
    assert use("describe_tables").splitlines() == [
        "book_A_B (book.xlsx): first VARCHAR",
        "book_A_B_2 (book.xlsx): second VARCHAR",
        "shop_a_b (shop.db): x VARCHAR",
        "shop_a_b_2 (shop.db): y VARCHAR",
    ]
    assert use("query_tables", sql="select * from book_A_B_2, shop_a_b_2").columns == ["second", "y"]


@pytest.mark.parametrize("sql", ["select id from orders", "select id as in_order from orders order by id"])
def test_a_damaged_file_that_a_query_does_not_use_does_not_stop_it(tmp_path, sql):
    (tmp_path / "orders.csv").write_text("id\n1\n")
    (tmp_path / "order.xlsx").write_bytes(b"damaged")
    assert tools_of(tmp_path)("query_tables", sql=sql).rows == [[1]]
    with pytest.raises(ToolError, match=r"order\.xlsx is not a readable Excel file"):
        tools_of(tmp_path)("query_tables", sql='select id from "order"')


def test_a_name_that_is_a_word_of_sql_is_listed_with_its_quotes(tmp_path):
    (tmp_path / "order.csv").write_text("id\n1\n")
    assert tools_of(tmp_path)("describe_tables") == '"order" (order.csv): id BIGINT'
    assert tools_of(tmp_path)("query_tables", sql='select id from "order"').rows == [[1]]
    with pytest.raises(ToolError, match="describe_tables lists the tables"):
        tools_of(tmp_path)("query_tables", sql="SHOW TABLES")


@pytest.mark.parametrize("rows_before", [0, 20_000])
def test_a_csv_file_of_windows_is_read_with_its_euro_signs(tmp_path, rows_before):
    rows = "plain,1\n" * rows_before + "Müller,5\n\u201c\u20ac\u201d,6\n"
    (tmp_path / "prices.csv").write_bytes(f"name,price\n{rows}".encode("cp1252"))
    found = tools_of(tmp_path)("query_tables", sql="select name from prices where price > 1")
    assert found.rows == [["Müller"], ["\u201c\u20ac\u201d"]]


@pytest.mark.parametrize(
    ("row", "shown"), [("9", [9, None]), ("9,z,more", [9, "z", "more"]), ('9,"z\nz"\n8', [9, "z\nz"])]
)
def test_a_row_with_fewer_or_more_cells_leaves_the_columns_of_the_others_as_they_are(tmp_path, row, shown):
    rows = "".join(f"{number},n{number}\n" for number in range(9))
    (tmp_path / "ragged.csv").write_text(f"id,name\n{rows}{row}\n")
    found = tools_of(tmp_path)("query_tables", sql="select * from ragged where id in (3, 9) order by id")
    assert [found.columns[:2], *found.rows] == [["id", "name"], [3, "n3", None][: len(shown)], shown]


def test_lines_before_the_names_of_columns_are_skipped(tmp_path):
    (tmp_path / "report.csv").write_text("# made by hand\n\nReport,May\nid,name,euros\n1,tea,2\n2,coffee,3\n")
    assert tools_of(tmp_path)("query_tables", sql="select sum(euros) from report").rows == [[5]]


class TestOneSqliteFile:
    @pytest.fixture
    def use(self, data):
        return tools_of(data / "shop.db")

    def test_its_tables_are_described(self, use):
        assert use("describe_tables") == "empty: a\nitems: id INTEGER, name TEXT, price REAL, extra"
        assert use("describe_tables", table="items").startswith("shop.db: 2 rows\nid | name | price | extra\n1 | tea |")

    def test_it_is_queried_by_sqlite(self, use):
        assert use("query_tables", sql="SELECT name, iif(price > 2.7, 'dear', '') FROM items").rows == [
            ["tea", ""],
            ["coffee", "dear"],
        ]
        with pytest.raises(ToolError, match=r"shop\.db: no such column: prize"):
            use("query_tables", sql="SELECT prize FROM items")

    def test_what_a_program_has_not_yet_merged_into_the_file_is_read(self, tmp_path):
        writing = sqlite3.connect(tmp_path / "live.db")
        writing.execute("PRAGMA journal_mode=WAL")
        writing.execute("CREATE TABLE t AS SELECT 7 AS a")
        writing.commit()
        assert tools_of(tmp_path / "live.db")("query_tables", sql="SELECT * FROM t").rows == [[7]]
        writing.close()


class TestLimits:
    @pytest.mark.parametrize("source", ["", "shop.db"])
    def test_a_query_without_end_is_stopped(self, data, source):
        tables = Tables(Folder(data), source or None, seconds=0.5)
        with pytest.raises(ToolError, match=r"took more than 0\.5 seconds"):
            tables.query_tables(
                "WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r) SELECT count(*) FROM r"
            )

    @pytest.mark.parametrize(
        "sql",
        [
            "select length(repeat('x', 2000000000))",
            "select list(i) from range(1000000000) t(i)",
        ],
    )
    def test_a_query_for_too_much_memory_is_stopped(self, data, sql):
        with pytest.raises(ToolError, match="too much memory"):
            tools_of(data)("query_tables", sql=sql)


@pytest.mark.parametrize(
    ("source", "problem"),
    [("/nowhere", "neither a folder nor a file"), (__file__, "has no known ending. Known: .csv,")],
)
def test_a_source_without_tables_is_an_error_of_the_developer(source, problem):
    with pytest.raises(DefinitionError, match=problem):
        table_tools(source)


def test_without_duckdb_the_error_names_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DefinitionError, match=r'pip install "duckdb>=1\.4" "openpyxl>=3\.1"'):
        table_tools(data)
    assert len(table_tools(data / "shop.db")) == 2


def test_the_data_is_untrusted_unless_declared(data):
    assert {tool.trust for tool in table_tools(data)} == {"untrusted"}
    assert {tool.trust for tool in table_tools(data, trust=None)} == {None}
    assert {tool.effect for tool in table_tools(data)} == {"read"}


def test_an_agent_answers_a_question_about_data(world, data):
    model = ScriptedModel(
        call("describe_tables"),
        call("query_tables", sql="select sum(euros) from orders_csv where city = 'Rome'"),
        answer("76.5 euros"),
    )
    result = world.run(JsonAgent(*table_tools(data), model=model), "How much did we take in Rome?")
    assert result.calls[1].value.rows == [[76.5]]
