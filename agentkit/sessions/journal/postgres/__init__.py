"""A journal in PostgreSQL; it needs the package psycopg, which is imported when a URL is first used."""
