"""Which calls of a turn run at a time, in which threads, and in which order a lock is granted."""

import asyncio
import os
import signal
import threading
from collections import Counter

import pytest
from hanging_tools import PATIENCE, turn

from agentkit import JsonTool, ToolRegistry, tool
from agentkit.core.flow import drive
from agentkit.core.threads import FifoLock
from agentkit.events import ToolFinished, ToolStarted

CALLS = [("work", f'{{"number": {number}}}') for number in range(4_000)]
MAX_OVERLAP = 32


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_turn_of_4000_calls_runs_32_at_a_time(world, is_async):
    running = []
    most = []
    threads = []
    barrier = threading.Barrier(MAX_OVERLAP, timeout=PATIENCE)
    abarrier = asyncio.Barrier(MAX_OVERLAP)

    def enter():
        running.append(1)
        most.append(len(running))
        threads.append(threading.active_count())

    def work(number: int) -> int:
        """Works; the first calls wait for each other."""
        enter()
        if number < MAX_OVERLAP:
            barrier.wait()
        running.pop()
        return number

    async def awork(number: int) -> int:
        """Works; the first calls wait for each other."""
        enter()
        if number < MAX_OVERLAP:
            await abarrier.wait()
        running.pop()
        return number

    before = threading.active_count()
    tools = ToolRegistry(JsonTool(awork if is_async else work, name="work"))
    results, events = world.drive(turn(tools, *CALLS))
    assert [result.value for result in results] == list(range(4_000))
    kinds = Counter(type(event) for event in events)  # a slow machine also warns that a call blocked the loop
    assert (kinds[ToolStarted], kinds[ToolFinished]) == (4_000, 4_000)
    assert max(most) == MAX_OVERLAP
    assert max(threads) - before <= MAX_OVERLAP + 4


def test_calls_that_wait_for_others_have_not_begun_when_the_run_is_stopped(world):
    over = threading.Event()

    def work(number: int) -> int:
        """Works, or stops the run."""
        if number == 3:
            raise KeyboardInterrupt
        over.wait(PATIENCE)
        return number

    finished: dict = {}
    with pytest.raises(KeyboardInterrupt):
        world.drive(turn(ToolRegistry(work), *CALLS[:50], finished=finished))
    over.set()
    not_begun = [result for result in finished.values() if result.error and "before this call began" in result.content]
    assert len(not_begun) == 50 - MAX_OVERLAP


def test_threads_are_used_again():
    def which() -> int:
        """Returns the thread."""
        return threading.get_ident()

    tools = ToolRegistry(which)
    found = set()
    for _ in range(20):
        found |= {event.result.value for event in drive(turn(tools, "which")) if isinstance(event, ToolFinished)}
    assert len(found) < 15


def test_a_lock_is_granted_to_one_at_a_time_in_the_order_of_the_requests():
    lock = FifoLock()
    granted = []
    requests = [lambda number=number: granted.append(number) for number in range(3)]
    for request in requests:
        lock.acquire(request)
    assert granted == [0]
    lock.release(requests[1])
    assert granted == [0]
    lock.release(requests[0])
    lock.release(requests[0])
    assert granted == [0, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_the_sequential_calls_of_its_parent():
    begun = threading.Event()
    over = threading.Event()

    @tool(sequential=True)
    def work(place: str) -> str:
        """Works."""
        if place == "parent":
            begun.set()
            over.wait(PATIENCE)
        return place

    def values(place):
        events = [*drive(turn(ToolRegistry(work), ("work", f'{{"place": "{place}"}}')))]
        return [event.result.value for event in events if isinstance(event, ToolFinished)]

    parent = threading.Thread(target=values, args=["parent"])
    parent.start()
    begun.wait(PATIENCE)
    if not (child := os.fork()):
        signal.alarm(10)
        os._exit(0 if values("child") == ["child"] else 1)
    status = os.waitpid(child, 0)[1]
    over.set()
    parent.join()
    assert status == 0
