"""The commands for stored runs, on a journal in PostgreSQL."""

import json

import pytest

pytestmark = pytest.mark.integration


def test_runs_are_recorded_listed_shown_and_removed(run, postgres_url):
    for question in ("Add 2 and 3", "Add 3 and 2"):
        asked = run("run", question, "--tools", "mytools.py:add", "--quiet", "--journal", postgres_url)
        assert (asked.exit_code, asked.stdout) == (0, "5\n")
    newest, first = json.loads(run("runs", "--db", postgres_url, "--json").stdout)
    assert (newest["query"], first["state"]) == ("Add 3 and 2", "finished")
    (only,) = json.loads(run("runs", "--db", postgres_url, "--json", "--limit", "1").stdout)
    assert only == newest
    for command in (("runs", first["id"]), ("show", first["id"])):
        assert "answer   5" in run(*command, "--db", postgres_url).stdout
    assert run("runs", "--db", postgres_url, "--check").stdout == "no damage found\n"
    assert run("runs", "--db", postgres_url, "--salvage", "saved.db").stdout == "2 runs copied to saved.db\n"
    assert len(json.loads(run("runs", "--journal", "saved.db", "--json").stdout)) == 2
    run("runs", first["id"], "--delete", "--db", postgres_url)
    assert run("runs", "--db", postgres_url, "--prune", "0").stdout == "1 runs removed\n"
    assert run("resume", "--journal", postgres_url).exit_code == 0


def test_a_password_is_not_shown(run, postgres_url):
    secret = postgres_url.replace("agentkit@", "agentkit:hunter2secret@")
    wrong = run("runs", "--db", secret.rpartition("/")[0] + "/nothing")
    assert wrong.exit_code != 0
    assert "agentkit:***@127.0.0.1" in wrong.output
    assert "hunter2secret" not in wrong.output
