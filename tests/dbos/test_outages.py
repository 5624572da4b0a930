"""Workers that cannot reach their database: effects are neither repeated nor lost, and the runs end."""

import asyncio
import time
from contextlib import closing

import pytest
from dbos_workers import check_finished, effects_at_rest, submit
from network import Network
from waiting import wait_until

from agentkit.journal import JournalError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def network(postgres_server):
    with closing(Network(postgres_server.port)) as found:
        yield found


def test_a_network_that_is_cut_and_back_costs_nothing(client, start, effects, url, network):
    worker = start(db=network.url(url)).wait_ready()
    handles = submit(client, 4, 0.2)
    wait_until(lambda: len(effects()) > 10)
    network.cut()
    assert len(effects_at_rest(effects)) < 4 * 20, "a call that cannot be recorded has begun"
    network.join()
    assert check_finished(handles, effects) == 0
    assert worker.process.poll() is None


def test_a_worker_without_its_network_is_replaced_and_ends(client, start, effects, url, network):
    worker = start(db=network.url(url)).wait_ready()
    handles = submit(client, 4, 0.3)
    wait_until(lambda: len(effects()) > 10)
    network.stall()  # before the other worker is there: its start can take longer than the runs
    start().wait_ready()
    assert check_finished(handles, effects) <= len(handles)  # by the other worker
    made = effects()
    statuses = [handle.status for handle in handles]
    network.join()
    assert worker.process.wait(900) == 75
    assert (effects(), [handle.status for handle in handles]) == (made, statuses)


def test_a_client_waits_for_the_server_no_longer_than_its_timeout(client, postgres_server):
    handle = client.submit("agent", "effect 1 0 a")
    postgres_server.stop()
    try:
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match="has no result yet"):
            handle.result(timeout=0.5)
        with pytest.raises(TimeoutError, match="has no result yet"):
            asyncio.run(handle.aresult(timeout=0.5))
        with pytest.raises(JournalError, match=r"the queue of the journal .*: connection failed"):
            client.states([handle.id], seconds=0.0)
        assert time.monotonic() - begun < 10
    finally:
        postgres_server.start()
    assert handle.status.state == "queued"
