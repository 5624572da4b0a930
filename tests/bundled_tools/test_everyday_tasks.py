"""What people ask of files, tables and a shell on an ordinary day: each task by a script, in at most four calls."""

import csv
import json
import sqlite3
from dataclasses import dataclass

import openpyxl
import pytest
from files import make_pdf

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call
from agentkit_tools import files_tools, shell_tool, table_tools


@pytest.fixture
def home(tmp_path):
    """The folder of somebody who works."""
    (tmp_path / "src").mkdir()
    (tmp_path / "letters").mkdir()
    (tmp_path / "notes.md").write_text("# Notes\n\n- call Ann\n- TODO: book a table\n- pay the rent\n")
    (tmp_path / "src" / "app.py").write_text(
        'VERSION = "1.2"\n\n\ndef greet(name):\n    # TODO: translate\n    return "Hi " + name\n'
    )
    (tmp_path / "src" / "test_app.py").write_text(
        "from app import greet\n\n\ndef test_greet():\n    assert greet('A') == 'Hi A'\n"
    )
    (tmp_path / "letters" / "offer.txt").write_bytes("Sehr geehrte Frau Müller,\r\n1.200 €\r\n".encode("cp1252"))
    (tmp_path / "config.json").write_text(json.dumps({"port": 8000, "debug": True}, indent=2))
    (tmp_path / "invoice.pdf").write_text(make_pdf("Invoice 4711", "Total 99 euros"))
    log = [f"2026-11-{1 + n // 100:02} {'ERROR' if n % 97 == 0 else 'INFO'} job {n}" for n in range(1_000)]
    (tmp_path / "server.log").write_text("\n".join(log) + "\n")
    with open(tmp_path / "sales.csv", "w", newline="") as stream:
        rows = [
            (f"2026-{month:02}-{day:02}", "RS"[day % 2], month * day) for month in range(1, 7) for day in (1, 8, 15)
        ]
        csv.writer(stream).writerows([("day", "shop", "euros"), *rows])
    (tmp_path / "people.json").write_text(json.dumps([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]))
    book = openpyxl.Workbook()
    for row in (["person", "hours"], [1, 7.5], [2, 4], [1, 3]):
        book.active.append(row)
    book.save(tmp_path / "hours.xlsx")
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.execute("CREATE TABLE orders (id INTEGER, person INTEGER, euros REAL)")
    shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, 1, 10), (2, 2, 25.5), (3, 1, 4)])
    shop.commit()
    shop.close()
    return tmp_path


@dataclass
class Task:
    """A task, the calls that do it, and what the last result or a file then contains."""

    text: str
    calls: list
    shown: str = ""
    path: str = ""
    content: str = ""


def sql(text):
    return call("query_tables", sql=text)


def sh(text):
    return call("run_shell", script=text)


TASKS = [
    Task("What is in here?", [call("list_files")], "notes.md (56 bytes)"),
    Task("Which Python files are there?", [call("find_files", pattern="*.py")], "src/test_app.py"),
    Task(
        "Find all TODOs.",
        [call("search_files", text="todo")],
        "notes.md:4: - TODO: book a table\nsrc/app.py:5: # TODO: translate",
    ),
    Task("What do my notes say?", [call("read_file", path="notes.md")], "     3\t- call Ann"),
    Task("What are the last lines of the log?", [call("read_file", path="server.log", start_line=-2)], "job 999"),
    Task("Read line 500 of the log.", [call("read_file", path="server.log", start_line=500, max_lines=1)], "job 499"),
    Task("What is the total of the invoice?", [call("read_file", path="invoice.pdf")], "Total 99 euros"),
    Task("Read the offer.", [call("read_file", path="letters/offer.txt")], "Frau Müller"),
    Task(
        "Set the price to 1.300.", [call("edit_file", path="letters/offer.txt", old="1.200", new="1.300")], "+1.300 €"
    ),
    Task(
        "Switch debug off.",
        [call("edit_file", path="config.json", old='"debug": true', new='"debug": false')],
        path="config.json",
        content='"debug": false',
    ),
    Task(
        "Write a shopping list.",
        [call("write_file", path="lists/shop.txt", text="tea\nmilk\n")],
        path="lists/shop.txt",
        content="tea",
    ),
    Task(
        "Tick off the call.",
        [call("edit_file", path="notes.md", old="- call Ann\n", new="")],
        path="notes.md",
        content="\n\n- TODO",
    ),
    Task(
        "Rename greet to hello.",
        [
            call("edit_file", path="src/app.py", old="greet", new="hello"),
            call("edit_file", path="src/test_app.py", old="greet(", new="hello(", all=True),
            call("edit_file", path="src/test_app.py", old="import greet", new="import hello"),
        ],
        path="src/test_app.py",
        content="hello('A')",
    ),
    Task("Bump the version.", [call("edit_file", path="src/app.py", old='"1.2"', new='"1.3"')], '+VERSION = "1.3"'),
    Task(
        "Put the letter into an archive.",
        [call("move_file", path="letters/offer.txt", new_path="archive/2026/offer.txt")],
        "Moved",
    ),
    Task("Delete the log.", [call("delete_file", path="server.log")], "Deleted the file"),
    Task(
        "Rewrite the notes.",
        [call("write_file", path="notes.md", text="# New\n", replace=True)],
        path="notes.md",
        content="# New",
    ),
    Task(
        "Who calls greet?", [call("search_files", text=r"greet\(", pattern="src/*.py", regex=True)], "src/test_app.py:5"
    ),
    Task(
        "What tables do I have?", [call("describe_tables")], "sales (sales.csv): day DATE, shop VARCHAR, euros BIGINT"
    ),
    Task("What did we sell in all?", [sql("SELECT sum(euros) FROM sales")], "504"),
    Task(
        "Which month was best?",
        [sql("SELECT month(day) m, sum(euros) s FROM sales GROUP BY m ORDER BY s DESC LIMIT 1")],
        "6 | 144",
    ),
    Task("How did the shops do?", [sql("SELECT shop, avg(euros) FROM sales GROUP BY shop ORDER BY shop")], "R | 28.0"),
    Task(
        "Who worked how long?",
        [sql("SELECT name, sum(hours) FROM hours JOIN people ON person = id GROUP BY name ORDER BY name")],
        "Ann | 10.5",
    ),
    Task(
        "Who ordered for more than 20?",
        [sql("SELECT DISTINCT name FROM shop o JOIN people p ON o.person = p.id WHERE euros > 20")],
        "Bob",
    ),
    Task(
        "Show the running total.",
        [sql("SELECT day, sum(euros) OVER (ORDER BY day) FROM sales ORDER BY day LIMIT 2")],
        "2026-01-08 | 9",
    ),
    Task("Describe the sales.", [call("describe_tables", table="sales")], "sales.csv: 18 rows"),
    Task("How many errors are in the log?", [sh("grep -c ERROR server.log")], "11"),
    Task(
        "Errors per day?",
        [sh("grep ERROR server.log | cut -d' ' -f1 | sort | uniq -c | sort -rn | head -1")],
        "2 2026-11-",
    ),
    Task("Which port is set?", [sh("jq .port config.json")], "8000"),
    Task("How many lines of code?", [sh("find src -name '*.py' | xargs cat | wc -l")], "11"),
    Task(
        "Fix all and check.",
        [
            call("search_files", text="Hi "),
            call("edit_file", path="src/app.py", old='"Hi "', new='"Hello "'),
            sh("grep -n Hello src/app.py"),
        ],
        '6:    return "Hello " + name',
    ),
    Task(
        "Make a table of the notes, then query it.",
        [
            call("write_file", path="done.csv", text="task,done\ntea,1\nrent,0\n"),
            sql("SELECT count(*) FROM done WHERE done = 0"),
        ],
        "1",
    ),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.text)
def test_an_everyday_task_is_done(home, task):
    tools = [*files_tools(home, trust=None), *table_tools(home, trust=None), shell_tool(home, trust=None)]
    agent = JsonAgent(tools, model=ScriptedModel(*task.calls, answer("Done.")), approve=lambda call: True)
    result = agent.run(task.text)
    outcomes = [made for made in result.calls if made.call.name != "final_answer"]
    assert len(outcomes) == len(task.calls) <= 4
    assert task.shown in str(outcomes[-1].value)
    if task.path:
        assert task.content in (home / task.path).read_text()


def test_there_are_enough_tasks():
    assert len(TASKS) >= 30
