"""What a model, or who writes into what it reads, may try with the tools of the kit: nothing of it leaves the folder."""

import os
import shutil
import socket
import sqlite3
import threading
from contextlib import suppress

import pytest

from agentkit import ToolError
from agentkit_tools import fetch_page, files_tools, http_json_tool, shell_tool, table_tools
from agentkit_tools.files import Files
from agentkit_tools.folder import Folder

SECRET = "the secret of the neighbour"


@pytest.fixture
def root(tmp_path):
    """A folder with traps, beside one with a secret."""
    outside = tmp_path / "outside"
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / ".git" / "hooks").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (root / "mine.txt").write_text("mine")
    (root / ".env").write_text(SECRET)
    (root / ".git" / "config").write_text(SECRET)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "near.txt").symlink_to("../outside/secret.txt")
    (root / "chain.txt").symlink_to("link.txt")
    (root / "dangling").symlink_to(outside / "new.txt")
    (root / "linked").symlink_to(outside, target_is_directory=True)
    (root / "up").symlink_to("..", target_is_directory=True)
    (root / "inner" / "loop").symlink_to("../inner", target_is_directory=True)
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    return root


@pytest.fixture
def unchanged(tmp_path, root):
    """Fail if something outside of the folder changes, or what is excluded in it."""

    def snapshot():
        paths = [*(tmp_path / "outside").rglob("*"), *(root / ".git").rglob("*"), root / ".env"]
        return {str(path): path.read_bytes() if path.is_file() else None for path in paths}, sorted(
            os.listdir(tmp_path)
        )

    before = snapshot()
    yield
    assert snapshot() == before


READS = [
    *("../outside/secret.txt", "inner/../../outside/secret.txt", "/etc/passwd", "//etc/passwd", "~/.ssh/id_rsa"),
    *("{root}/../outside/secret.txt", "{root}x/secret.txt", "file:///etc/passwd", "link.txt", "near.txt", "chain.txt"),
    *("linked/secret.txt", "up/outside/secret.txt", "inner/loop/loop/../../../outside/secret.txt", "pipe", "zero"),
    *("dangling", ".", "", "inner", "mine.txt/x", "mine.txt\0.png", "\ud800", "a/" * 5_000, "x" * 5_000, "..\\..\\x"),
    *(".env", "./.ENV", ".env ", ".git/config", "inner/../.GIT/config", ".g\u200cit/config", ".git./config"),
    *("．ｇｉｔ/config", "/proc/self/environ", "/dev/stdin", "%2e%2e/outside/secret.txt", "....//outside/secret.txt"),
]


@pytest.mark.parametrize("path", READS, ids=lambda path: ascii(path)[:40])
def test_no_path_reads_what_is_outside_or_excluded(root, unchanged, path):
    tools = {tool.name: tool for tool in files_tools(root)}
    with pytest.raises(ToolError) as refused:
        tools["read_file"].call({"path": path.replace("{root}", str(root))})
    assert SECRET not in str(refused.value)
    assert "root:x:" not in str(refused.value)


CHANGES = [
    ("write_file", {"path": "../outside/new.txt", "text": "x"}),
    ("write_file", {"path": "linked/new.txt", "text": "x"}),
    ("write_file", {"path": "linked/deep/new.txt", "text": "x"}),
    ("write_file", {"path": "dangling", "text": "x"}),
    ("write_file", {"path": "dangling", "text": "x", "replace": True}),
    ("write_file", {"path": "link.txt", "text": "x", "replace": True}),
    ("write_file", {"path": "pipe", "text": "x", "replace": True}),
    ("write_file", {"path": ".git/hooks/pre-commit", "text": "x"}),
    ("write_file", {"path": ".GIT/hooks/pre-commit", "text": "x"}),
    ("write_file", {"path": "inner/.env.local", "text": "x"}),
    ("edit_file", {"path": "chain.txt", "old": "secret", "new": "x"}),
    ("edit_file", {"path": "up/outside/secret.txt", "old": "secret", "new": "x"}),
    ("move_file", {"path": "mine.txt", "new_path": "../outside/mine.txt"}),
    ("move_file", {"path": "mine.txt", "new_path": "linked/mine.txt"}),
    ("move_file", {"path": "linked/secret.txt", "new_path": "mine2.txt"}),
    ("move_file", {"path": "link.txt", "new_path": "inner/link.txt"}),
    ("move_file", {"path": ".git", "new_path": "git"}),
    ("move_file", {"path": "mine.txt", "new_path": ".git/config"}),
    ("move_file", {"path": "inner", "new_path": "inner/loop/x"}),
    ("delete_file", {"path": "linked/secret.txt"}),
    ("delete_file", {"path": "../outside/secret.txt"}),
    ("delete_file", {"path": ".git/config"}),
    ("delete_file", {"path": "."}),
    ("delete_file", {"path": "/"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES, ids=lambda value: str(value)[:60])
def test_no_path_changes_what_is_outside_or_excluded(root, unchanged, tool, arguments):
    tools = {tool.name: tool for tool in files_tools(root)}
    with pytest.raises(ToolError):
        tools[tool].call(arguments)
    assert (root / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_files", {"text": "secret"}),
        ("search_files", {"text": "secret", "pattern": "linked/*"}),
        ("search_files", {"text": ".*", "regex": True}),
        ("find_files", {"pattern": "**/secret*"}),
        ("find_files", {"pattern": "../outside/*"}),
        ("find_files", {"pattern": ".git/**"}),
        ("list_files", {"folder": "."}),
    ],
    ids=str,
)
def test_no_search_shows_what_is_outside_or_excluded(root, unchanged, tool, arguments):
    tools = {tool.name: tool for tool in files_tools(root)}
    shown = tools[tool].call(arguments)
    assert SECRET not in shown
    assert "secret.txt" not in shown
    assert all(line.startswith("[") or ".git" not in line for line in shown.splitlines())


@pytest.mark.parametrize("folder", ["linked", "up", "..", "/", "up/outside", ".git", "mine.txt", "pipe"])
@pytest.mark.parametrize(
    ("tool", "arguments"), [("list_files", {}), ("find_files", {"pattern": "*"}), ("search_files", {"text": "e"})]
)
def test_no_folder_outside_is_listed(root, unchanged, folder, tool, arguments):
    tools = {tool.name: tool for tool in files_tools(root)}
    with pytest.raises(ToolError) as refused:
        tools[tool].call({**arguments, "folder": folder})
    assert "secret.txt" not in str(refused.value)


def test_a_socket_is_not_opened(root):
    os.chdir(root)  # the path of a socket must be short
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("sock")
    with listening, pytest.raises(ToolError, match="'sock' is not a regular file"):
        files_tools(root)[3].call({"path": "sock"})


def test_a_folder_that_becomes_a_link_between_two_steps_leads_nowhere(root, unchanged, tmp_path):
    tools = {tool.name: tool for tool in files_tools(root)}
    (root / "swapped").mkdir()
    (root / "swapped" / "secret.txt").write_text("inner")
    over = threading.Event()

    def swap():
        while not over.is_set():
            os.rename(root / "swapped", root / "aside")
            with suppress(FileExistsError, IsADirectoryError):  # an edit may make the folder that is missing
                os.symlink(tmp_path / "outside", root / "swapped")
                os.unlink(root / "swapped")
            if (root / "swapped").exists():
                shutil.rmtree(root / "swapped")
            os.rename(root / "aside", root / "swapped")

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes = set()
    try:
        for number in range(1_500):
            for tool, arguments in [
                ("read_file", {"path": "swapped/secret.txt"}),
                (
                    "edit_file",
                    {"path": "swapped/secret.txt", "old": "nm"[number % 2], "new": "mn"[number % 2], "all": True},
                ),
            ]:
                try:
                    outcomes.add(tools[tool].call(arguments)[:20])
                except ToolError:
                    outcomes.add("refused")
    finally:
        over.set()
        swapping.join()
    assert not any(SECRET[:10] in outcome for outcome in outcomes)
    assert "inner" in tools["read_file"].call({"path": "swapped/secret.txt"}).replace("m", "n")  # it was never harmed


@pytest.mark.parametrize(
    "text",
    ["(a+)+$", "(a|aa)+$", "((((((((a?){9}){9}){9}){9}){9}){9}){9}){9}", "(?:" * 190 + "a" + ")*" * 190, "(", "x{"],
)
def test_a_regular_expression_takes_no_long_time(root, text):
    (root / "as.txt").write_text("a" * 30_000 + "!")
    try:
        shown = Files(Folder(root), search_seconds=0.2).search_files(text, regex=True)
    except ToolError as refused:
        shown = str(refused)
    ends = ("takes too long", "regular expression", "repeats too much", "nothing", "as.txt:1: a")
    assert any(end in shown for end in ends)  # Python 3.13 matches one of them at once


DUCKDB = [
    *("FROM '{outside}'", "FROM read_csv('{outside}')", "FROM read_text('{outside}')", "FROM read_blob('{outside}')"),
    *("FROM '../outside/secret.csv'", "FROM 'link.csv'", "FROM link", "FROM '.git/secret.csv'", "FROM secret"),
    *("FROM glob('/**')", "FROM glob('/proc/self/fd/*')", "FROM sniff_csv('{outside}')", "FROM parquet_metadata('/x')"),
    *("FROM read_csv('/proc/self/cwd/../secret.csv')", "FROM read_csv('file://{outside}')", "FROM '/dev/stdin'"),
    *(
        "FROM read_csv('https://example.com/x.csv')",
        "FROM 's3://bucket/x'",
        "FROM read_json('http://169.254.169.254/')",
    ),
    *("COPY (SELECT 1) TO '{outside}'", "COPY mine TO 'stolen.csv'", "EXPORT DATABASE '{outside}.d'", "CHECKPOINT"),
    *("ATTACH '{outside}.db'", "ATTACH 'sqlite:{outside}.db'", "INSTALL httpfs", "LOAD httpfs", "LOAD '/tmp/x.so'"),
    *("SET enable_external_access=true", "SET allowed_directories=['/']", "RESET ALL", "PRAGMA disable_profiling"),
    *("SELECT 1; COPY (SELECT 1) TO '{outside}'", "SELECT 1; SET lock_configuration=false", "EXPLAIN ANALYZE SELECT 1"),
    *("FROM query('COPY (SELECT 1) TO ''{outside}''')", "FROM query_table('{outside}')", "CALL pragma_version()"),
    *(
        "PREPARE p AS SELECT 1",
        "VACUUM",
        "USE x",
        "DROP VIEW mine",
        "CREATE SECRET s (TYPE s3)",
        "CREATE TABLE x (a INT)",
    ),
    *("SELECT content FROM read_text(['mine.csv', '{outside}'])", "FROM read_csv('{root}/.git/secret.csv')"),
    *("SELECT getenv('PATH')", "(" * 3_000 + "1" + ")" * 3_000, "FROM mine\0", "FROM read_csv('/proc/self/environ')"),
]
SQLITE = [
    *(
        "ATTACH '{outside}.db' AS x",
        "ATTACH 'file:{outside}?mode=rwc' AS x",
        "VACUUM INTO '{outside}.db'",
        "DETACH main",
    ),
    *(
        "PRAGMA query_only=OFF",
        "PRAGMA writable_schema=ON",
        "PRAGMA temp_store_directory='/'",
        "PRAGMA journal_mode=WAL",
    ),
    *(
        "DELETE FROM t",
        "UPDATE t SET a = 1",
        "INSERT INTO t VALUES (1)",
        "DROP TABLE t",
        "CREATE TABLE x (a)",
        "REINDEX",
    ),
    *("CREATE TEMP TABLE x (a)", "CREATE VIRTUAL TABLE x USING fts5(a)", "SELECT load_extension('/tmp/x.so')", "BEGIN"),
    *("SELECT readfile('{outside}')", "SELECT writefile('{outside}', 'x')", "SELECT 1; DROP TABLE t", "ANALYZE"),
    *("SELECT edit('x', 'sh')", "SELECT fts3_tokenizer('simple')", "SELECT zeroblob(1000000000)", "SELECT 1\0"),
]


@pytest.fixture
def tables(tmp_path):
    """A folder with tables, beside one with a secret."""
    root = tmp_path / "tables"
    (root / ".git").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.csv").write_text(f"a\n{SECRET}\n")
    (root / "mine.csv").write_text("a\nmine\n")
    (root / ".git" / "secret.csv").write_text(f"a\n{SECRET}\n")
    (root / "link.csv").symlink_to(tmp_path / "outside" / "secret.csv")
    database = sqlite3.connect(root / "mine.db")
    database.execute("CREATE TABLE t AS SELECT 7 AS a")
    database.commit()
    database.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    yield root
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("source", "sql"),
    [*(("", sql) for sql in DUCKDB), *(("mine.db", sql) for sql in SQLITE)],
    ids=lambda text: ascii(text)[:50],
)
def test_no_query_reads_another_file_or_changes_anything(tables, tmp_path, source, sql):
    _, query = table_tools(tables / source)
    sql = sql.replace("{outside}", str(tmp_path / "outside" / "secret.csv")).replace("{root}", str(tables))
    with pytest.raises(ToolError) as refused:
        query.call({"sql": sql})
    assert SECRET not in str(refused.value)


def test_a_table_whose_file_becomes_a_link_is_not_read(tables, tmp_path):
    describe, _ = table_tools(tables)
    (tables / "mine.csv").unlink()
    (tables / "mine.csv").symlink_to(tmp_path / "outside" / "secret.csv")
    try:
        assert "mine.csv" not in describe.call({})
    finally:
        (tables / "mine.csv").unlink()
        (tables / "mine.csv").write_text("a\nmine\n")


SCRIPTS = [
    *("cat ../outside/secret.txt", "cat {outside}/secret.txt", "cat link.txt", "cat linked/secret.txt", "cat .env"),
    *("cat .git/config", "ls -laR / | grep secret", "find / -name 'secret*'", "grep -r neighbour / 2>/dev/null", "env"),
    *("cat /proc/self/environ /proc/1/environ", "cat < /etc/shadow", "cd /; cd ../..; cat etc/passwd", "cat zero pipe"),
    *("ln -s {outside} x; cat x/secret.txt; echo x > x/secret.txt", "ln -s {outside}/secret.txt mine.txt"),
    *("ln -sf ../outside inner; echo x > inner/secret.txt", "echo x > {outside}/secret.txt", "rm -rf {outside} /"),
    *("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", "echo x > .env", "mkdir .GIT; echo x > .GIT/config"),
    *(
        "echo x > linked/secret.txt",
        "mkdir linked; echo x > linked/secret.txt",
        "echo x > link.txt",
        "echo x > dangling",
    ),
    *("curl http://169.254.169.254/", "wget https://example.com", "exec 3<>/dev/tcp/127.0.0.1/80", "nc 127.0.0.1 80"),
    *("python3 -c 'print(open(1))'", "/bin/cat {outside}/secret.txt", "eval cat {outside}/secret.txt", "sh -c 'id'"),
    *("source {outside}/secret.txt", "kill -9 1; kill -9 $PPID", "chmod -R 777 {outside}", "cp -r / copied", "git log"),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda text: text[:50])
def test_no_script_reaches_what_is_outside_or_excluded(root, unchanged, tmp_path, monkeypatch, script):
    monkeypatch.setenv("MY_API_KEY", SECRET)
    shown = shell_tool(root, write=True).call({"script": script.replace("{outside}", str(tmp_path / "outside"))})
    assert SECRET not in shown
    for host in ("/root", "/bin/sh", "daemon:"):
        assert host not in shown


ADDRESSES = [
    *(
        "http://api.example/x",
        "https://evil.example/",
        "https://api.example.evil.example/",
        "https://evil.example#api.example",
    ),
    *("https://api.example@evil.example/", "https://evil.example/?https://api.example/", "https://api.example:8443/"),
    *("https://api.example\\@evil.example/", "//evil.example/", "https:evil.example", "https://api。evil.example/"),
    *(
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://0x7f.1/",
        "https://2130706433/",
        "http://169.254.169.254/latest/",
    ),
    *("file:///etc/passwd", "gopher://api.example/", "ftp://api.example/", "data:text/html,x", "javascript:alert(1)"),
    *("https://api.example/\r\nHost: evil.example", "https://api.example\t.evil.example/", "", "api.example/x"),
    *("https://sub.api.example/", "https://API.EXAMPLE.:443/", "https://xn--api-example/", "https://api%2eexample/"),
]


@pytest.mark.parametrize("url", ADDRESSES, ids=lambda text: ascii(text)[:50])
def test_only_a_declared_host_is_asked(internet, url):
    with pytest.raises(ToolError):
        http_json_tool(["api.example"], headers={"X-Key": SECRET}).call({"url": url})
    assert internet.lookups == []
    assert internet.connections == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "fd00::1", "0.0.0.0", "168.63.129.16"]
)
@pytest.mark.parametrize("use", [fetch_page, lambda url: http_json_tool(["api.example"]).call({"url": url})])
def test_a_name_that_leads_inside_is_not_connected_to(internet, use, address):
    internet.names["api.example"] = [[address]]
    with pytest.raises(ToolError, match="is not on the public internet"):
        use("https://api.example/")
    assert internet.connections == []
