"""Workers whose database has no room: the runs stand still and end when there is room again."""

from collections.abc import Iterator

import psycopg
import pytest
from dbos_workers import check_finished, effects_at_rest, submit
from postgres_server import PostgresServer, running_server, why_not
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    """A server on a small disk of its own."""
    if reason := why_not():
        pytest.skip(reason)
    try:
        with running_server(megabytes=90) as server:
            yield server
    except OSError as error:
        pytest.skip(str(error))


def use_up_log(server: PostgresServer) -> None:
    """Begin new files of the server's log until there is no room for the next one, which ends the server."""
    for _ in range(9):
        server.execute("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'test', 'more')")


@pytest.mark.parametrize("ends_server", [False, True], ids=["tables", "log"])
def test_a_full_disk_stops_the_runs_until_there_is_room(client, start, effects, postgres_server, ends_server):
    worker = start().wait_ready()
    handles = submit(client, 8, 0.2)
    wait_until(lambda: len(effects()) > 8)
    postgres_server.disk.fill()
    if ends_server:
        with pytest.raises(psycopg.OperationalError):
            use_up_log(postgres_server)
    wait_until(lambda: "No space left on device" in postgres_server.log.read_text())
    assert len(effects_at_rest(effects)) < 8 * 20, "they went on to their end"
    postgres_server.disk.empty()
    if postgres_server.process.poll() is not None:
        postgres_server.start()
    check_finished(handles, effects)
    assert worker.process.poll() is None
