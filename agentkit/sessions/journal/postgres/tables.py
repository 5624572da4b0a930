"""The tables of a journal in PostgreSQL: those of SQLite, and one of leases."""

SCHEMA = "agentkit"
MIGRATIONS = (
    """
CREATE SCHEMA IF NOT EXISTS agentkit;
CREATE TABLE agentkit.version (number integer NOT NULL);
CREATE TABLE agentkit.conversations (id bigint PRIMARY KEY, name text UNIQUE, state text NOT NULL DEFAULT '{}');
CREATE TABLE agentkit.messages (
    conversation bigint, place integer, body text NOT NULL, digest bigint NOT NULL, PRIMARY KEY (conversation, place)
);
CREATE TABLE agentkit.cut (conversation bigint, key text, body text NOT NULL, PRIMARY KEY (conversation, key));
CREATE TABLE agentkit.runs (
    id text COLLATE "C" PRIMARY KEY, conversation bigint, query text, model text, setup text, first integer,
    begun double precision, ended double precision, status text, outcome text, origin text COLLATE "C", last integer,
    rowid bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX runs_of ON agentkit.runs (conversation);
CREATE INDEX runs_from ON agentkit.runs (origin, begun, id) WHERE origin IS NOT NULL;
CREATE INDEX runs_by_time ON agentkit.runs (begun);
CREATE INDEX runs_by_setup ON agentkit.runs (setup);
CREATE TABLE agentkit.setups (id text PRIMARY KEY, body text NOT NULL);
CREATE TABLE agentkit.steps (
    run text COLLATE "C", step integer, call text COLLATE "C", name text, input bigint, arguments text,
    begun double precision, ended double precision, outcome text, digest bigint, PRIMARY KEY (run, step, call)
);
CREATE TABLE agentkit.leases (conversation bigint PRIMARY KEY, token bigint, holder text, since text);
INSERT INTO agentkit.version VALUES (1)
""",
)
"""The statements that turn version n of the tables into version n + 1; version 0 has no tables."""
