"""Workers that cannot reach their database: effects are neither repeated nor lost, and the runs end."""

import time
from contextlib import closing

import pytest
from dbos_workers import check_finished, submit
from network import Network
from waiting import wait_until

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
    time.sleep(1)  # for the calls in progress
    before = effects()
    time.sleep(3)
    assert effects() == before  # a call that cannot be recorded does not begin
    network.join()
    assert check_finished(handles, effects) == 0
    assert worker.process.poll() is None


def test_a_worker_without_its_network_is_replaced_and_ends(client, start, effects, url, network):
    worker = start(db=network.url(url)).wait_ready()
    handles = submit(client, 4, 0.3)
    wait_until(lambda: len(effects()) > 10)
    start().wait_ready()
    network.stall()
    assert check_finished(handles, effects) <= len(handles)  # by the other worker
    made = effects()
    statuses = [handle.status for handle in handles]
    network.join()
    assert worker.process.wait(900) == 75
    assert (effects(), [handle.status for handle in handles]) == (made, statuses)
