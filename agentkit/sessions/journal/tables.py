"""The tables of a journal."""

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
INSERT_RUN = """
INSERT INTO runs (id, conversation, query, model, setup, first, begun, status, origin)
VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?)
"""
UPGRADE = """
ALTER TABLE runs ADD COLUMN last INTEGER;
ALTER TABLE steps ADD COLUMN digest INTEGER;
PRAGMA user_version=2;
"""
"""The statements that turn version 1 of the tables into version 2."""
