"""The tables of a journal, and the statements that write rows of them."""

from collections.abc import Iterator

MIGRATIONS = (
    """
CREATE TABLE conversations (id INTEGER PRIMARY KEY, name TEXT UNIQUE, state TEXT NOT NULL DEFAULT '{}');
CREATE TABLE messages (
    conversation INTEGER, place INTEGER, body TEXT NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (conversation, place)
) WITHOUT ROWID;
CREATE TABLE cut (conversation INTEGER, key TEXT, body TEXT NOT NULL, PRIMARY KEY (conversation, key)) WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY, conversation INTEGER, query TEXT, model TEXT, setup TEXT, first INTEGER, begun REAL,
    ended REAL, status TEXT, outcome TEXT, origin TEXT
);
CREATE INDEX runs_of ON runs (conversation);
CREATE INDEX runs_from ON runs (origin, begun, id) WHERE origin IS NOT NULL;
CREATE TABLE setups (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE steps (
    run TEXT, step INTEGER, call TEXT, name TEXT, input INTEGER, arguments TEXT, begun REAL, ended REAL, outcome TEXT,
    PRIMARY KEY (run, step, call)
) WITHOUT ROWID
""",
    "ALTER TABLE runs ADD COLUMN last INTEGER;\nALTER TABLE steps ADD COLUMN digest INTEGER",
    """
DROP TABLE IF EXISTS leases;
CREATE TABLE leases (conversation INTEGER PRIMARY KEY, token INTEGER, owner INTEGER, holder TEXT, since TEXT)
""",
    "ALTER TABLE cut ADD COLUMN digest INTEGER",
    "CREATE TABLE IF NOT EXISTS compatibility (version INTEGER PRIMARY KEY, readable_by INTEGER, writable_by INTEGER)",
)
"""The statements that turn version n of the tables into version n + 1; version 0 has no tables."""
SCHEMA_VERSION = len(MIGRATIONS)
READABLE_BY = 5
WRITABLE_BY = 5
"""The oldest version whose programs can read, or write, the tables of this version; the table `compatibility` has it
for the versions to which the tables were brought, so that an older program knows what it may do."""
COMPATIBILITY = "SELECT readable_by, writable_by FROM compatibility WHERE version = ?"
APPLICATION_ID = 0x616B6A6C
"""The application id, in the header of a SQLite file."""
COLUMNS = {
    "conversations": ("id", "name", "state"),
    "messages": ("conversation", "place", "body", "digest"),
    "cut": ("conversation", "key", "body", "digest"),
    "runs": (
        "id", "conversation", "query", "model", "setup", "first", "begun", "ended", "status", "outcome", "origin",
        "last",
    ),
    "setups": ("id", "body"),
    "steps": ("run", "step", "call", "name", "input", "arguments", "begun", "ended", "outcome", "digest"),
    "leases": ("conversation", "token", "owner", "holder", "since"),
}  # fmt: skip
"""The columns of each table, in order."""
KEY_COLUMNS = {"conversations": 1, "messages": 2, "cut": 2, "runs": 1, "setups": 1, "steps": 3, "leases": 1}
"""The number of columns at the beginning of each table that identify a row."""


def insert(table: str, *, replace: bool = False) -> str:
    """Return the statement that adds a row, unless a row with its key exists; with `replace` in place of that row."""
    columns = COLUMNS[table]
    number = KEY_COLUMNS[table]
    others = ", ".join(f"{name} = excluded.{name}" for name in columns[number:])
    action = f"({', '.join(columns[:number])}) DO UPDATE SET {others}" if replace else "DO NOTHING"
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT {action}"


INSERT_MESSAGE = insert("messages", replace=True)
INSERT_CUT = insert("cut", replace=True)
INSERT_STEP = insert("steps", replace=True)
INSERT_CONVERSATION = "INSERT INTO conversations (id, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
RELEASE_NAME = "UPDATE conversations SET name = NULL WHERE name = ? AND id != ?"
"""Takes the name of a conversation that continues as another one."""
INSERT_SETUP = insert("setups")
INSERT_RUN = """
INSERT INTO runs (id, conversation, query, model, setup, first, begun, status, origin)
VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?) ON CONFLICT DO NOTHING
"""
END_STEP = "UPDATE steps SET ended = ?, outcome = ?, digest = ? WHERE run = ? AND step = ? AND call = ?"
END_RUN = "UPDATE runs SET status = ?, ended = ?, outcome = ?, last = ? WHERE id = ?"
UPDATE_STATE = "UPDATE conversations SET state = ? WHERE id = ?"
DELETE_MESSAGES = "DELETE FROM messages WHERE conversation = ? AND place >= ?"
SELECT_UNCHECKED = "SELECT conversation, key, body FROM cut WHERE digest IS NULL"
"""The texts of an older version, which get their digests when the tables are brought up to date."""
CHECK_CUT = "UPDATE cut SET digest = ? WHERE conversation = ? AND key = ?"
DELETE_CUT = "DELETE FROM cut WHERE conversation = ? AND key = ?"
SUPERSEDE_RUNS = "UPDATE runs SET status = 'superseded' WHERE conversation = ? AND status != 'finished' AND id != ?"
TAKE_LEASE = f"{insert('leases', replace=True)} WHERE leases.token = ? AND leases.owner = ?"
"""Takes the lease of a conversation that has none, or the one that was read before."""
END_LEASE = "DELETE FROM leases WHERE conversation = ? AND token = ?"


def migrations_from(version: int) -> Iterator[str]:
    """Yield the statements that bring the tables of a version up to date."""
    for statements in MIGRATIONS[version:]:
        yield from statements.strip().split(";\n")
    yield f"INSERT INTO compatibility VALUES ({SCHEMA_VERSION}, {READABLE_BY}, {WRITABLE_BY}) ON CONFLICT DO NOTHING"
