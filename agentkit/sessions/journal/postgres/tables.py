"""The tables of a journal in PostgreSQL: those of SQLite in a schema, with the types of PostgreSQL."""

from ..tables import migrations_from

SCHEMA = "agentkit"
TYPES = {" INTEGER": " bigint", " REAL": " double precision", " TEXT": ' text COLLATE "C"', " WITHOUT ROWID": ""}
BEGIN = (f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}", f"CREATE TABLE {SCHEMA}.version (number integer NOT NULL)")
END = (
    "ALTER TABLE runs ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY",
    "CREATE INDEX runs_by_time ON runs (begun)",
    "CREATE INDEX runs_by_setup ON runs (setup)",
)


def list_migrations(version: int) -> list[str]:
    """Return the statements that bring the tables of a version up to date; version 0 has no schema."""
    tables = [*migrations_from(version)]
    for old, new in TYPES.items():
        tables = [statement.replace(old, new) for statement in tables]
    return tables if version else [*BEGIN, *tables, *END]
