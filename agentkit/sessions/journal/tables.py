"""The tables of a journal, and the statements that write rows of them."""

APPLICATION, VERSION = 0x616B6A6C, 2
"""The application id and the version of the tables, in the header of the SQLite file."""
TABLES = """
CREATE TABLE conversations (id INTEGER PRIMARY KEY, name TEXT UNIQUE, state TEXT NOT NULL DEFAULT '{}');
CREATE TABLE messages (
    conversation INTEGER, place INTEGER, body TEXT NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (conversation, place)
) WITHOUT ROWID;
CREATE TABLE cut (conversation INTEGER, key TEXT, body TEXT NOT NULL, PRIMARY KEY (conversation, key)) WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY, conversation INTEGER, query TEXT, model TEXT, setup TEXT, first INTEGER, begun REAL,
    ended REAL, status TEXT, outcome TEXT, origin TEXT, last INTEGER
);
CREATE INDEX runs_of ON runs (conversation);
CREATE INDEX runs_from ON runs (origin, begun, id) WHERE origin IS NOT NULL;
CREATE TABLE setups (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE steps (
    run TEXT, step INTEGER, call TEXT, name TEXT, input INTEGER, arguments TEXT, begun REAL, ended REAL, outcome TEXT,
    digest INTEGER, PRIMARY KEY (run, step, call)
) WITHOUT ROWID;
"""
COLUMNS = {
    "conversations": ("id", "name", "state"),
    "messages": ("conversation", "place", "body", "digest"),
    "cut": ("conversation", "key", "body"),
    "runs": (
        "id", "conversation", "query", "model", "setup", "first", "begun", "ended", "status", "outcome", "origin",
        "last",
    ),
    "setups": ("id", "body"),
    "steps": ("run", "step", "call", "name", "input", "arguments", "begun", "ended", "outcome", "digest"),
}  # fmt: skip
"""The columns of each table, in order."""
KEY_COLUMNS = {"conversations": 1, "messages": 2, "cut": 2, "runs": 1, "setups": 1, "steps": 3}
"""The number of columns at the beginning of each table that identify a row."""


def insert(table: str, *, replace: bool = False) -> str:
    """Return the statement that adds a row, unless a row with its key exists; with `replace` in place of that row."""
    columns, number = COLUMNS[table], KEY_COLUMNS[table]
    others = ", ".join(f"{name} = excluded.{name}" for name in columns[number:])
    action = f"({', '.join(columns[:number])}) DO UPDATE SET {others}" if replace else "DO NOTHING"
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT {action}"


INSERT_MESSAGE = insert("messages", replace=True)
INSERT_CUT = insert("cut", replace=True)
INSERT_STEP = insert("steps", replace=True)
INSERT_CONVERSATION = "INSERT INTO conversations (id, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
INSERT_SETUP = insert("setups")
INSERT_RUN = """
INSERT INTO runs (id, conversation, query, model, setup, first, begun, status, origin)
VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?) ON CONFLICT DO NOTHING
"""
END_STEP = "UPDATE steps SET ended = ?, outcome = ?, digest = ? WHERE run = ? AND step = ? AND call = ?"
END_RUN = "UPDATE runs SET status = ?, ended = ?, outcome = ?, last = ? WHERE id = ?"
UPDATE_STATE = "UPDATE conversations SET state = ? WHERE id = ?"
DELETE_MESSAGES = "DELETE FROM messages WHERE conversation = ? AND place >= ?"
DELETE_CUT = "DELETE FROM cut WHERE conversation = ? AND key = ?"
SUPERSEDE_RUNS = "UPDATE runs SET status = 'superseded' WHERE conversation = ? AND status != 'finished' AND id != ?"
UPGRADE = """
ALTER TABLE runs ADD COLUMN last INTEGER;
ALTER TABLE steps ADD COLUMN digest INTEGER;
PRAGMA user_version=2;
"""
"""The statements that turn version 1 of the tables into version 2."""
