"""Gates before models: how many requests they admit, and in which order, across threads, loops and agents."""

import asyncio
import os
import threading
import time
from types import SimpleNamespace

import pytest

from agentkit import DefinitionError, JsonAgent, ModelError, RunError, Session
from agentkit.core.flow import Done, Emit, adrive, around, ask, drive
from agentkit.core.messages import assistant, user
from agentkit.engine.model import AskModel, Reply, Request
from agentkit.policies import rate_limit
from agentkit.policies.rate_limit import PROCESS_GATES, Gate, GateRegistry, Throttled, WaitForTicket
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.registry import ToolRegistry

END = answer("ready")
PATIENCE = 30.0
"""Seconds that a test waits for an event before it fails."""


class Gates:
    """The gates of the test that runs."""

    registry = GateRegistry()


@pytest.fixture(autouse=True)
def _no_gates():
    Gates.registry = GateRegistry()


def throttle(*limits):
    return rate_limit.throttle(*limits, gates=Gates.registry)


def open_gate(*limits, **more):
    return Gates.registry.open(*limits, **more)


class Crowd:
    """A model that counts how many ask it at once; each request stays until `expected` others wait in line.

    It also stays no longer than until there are more requests than `limit`, which is a failure.
    """

    def __init__(self, limit: int, expected: int, name: str = "slow") -> None:
        self.name = name
        self.limit = limit
        self.expected = expected
        self.now = 0
        self.most = 0
        self.asked = 0
        self.waiting = 0
        self.lock = threading.Lock()
        self.is_full = threading.Event()
        if not expected:
            self.is_full.set()

    def step(self, by: int) -> None:
        with self.lock:
            self.now += by
            self.asked += by > 0
            self.most = max(self.most, self.now)
            if self.now > self.limit:
                self.is_full.set()

    def note_waiting(self) -> None:
        """Note that one more request waits."""
        with self.lock:
            self.waiting += 1
            if self.waiting >= self.expected:
                self.is_full.set()

    def throttled(self, policy, flow):
        """Return the flow under a policy of `throttle`; its waiting requests are noted."""
        return when_throttled(self.note_waiting)(policy(flow))

    def ask(self, request):
        self.step(1)
        try:
            self.is_full.wait(PATIENCE)
        finally:
            self.step(-1)
        yield Reply(assistant("hm"))

    async def aask(self, request):
        self.step(1)
        try:
            async with asyncio.timeout(PATIENCE):
                while not self.is_full.is_set():
                    await asyncio.sleep(0)
        finally:
            self.step(-1)
        yield Reply(assistant("hm"))


def when_throttled(act):
    """Return a policy that calls `act` whenever a request begins to wait."""

    def handle(effect):
        if isinstance(effect, Emit) and isinstance(effect.event, Throttled):
            act()
        return (yield from ask(effect))

    return around(handle)


def asking(model, times=1, **asked):
    for _ in range(times):
        reply = yield from ask(AskModel(model, Request([user("?")], ToolRegistry(), **asked)))
    return reply


def in_threads(count, work):
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        assert not thread.is_alive()


async def adone(flow):
    events = [event async for event in adrive(flow)]
    assert isinstance(events[-1], Done)
    return events


def test_no_more_requests_than_allowed_are_in_progress_in_threads():
    crowd = Crowd(limit=2, expected=6)
    in_threads(8, lambda: list(drive(crowd.throttled(throttle(2), asking(crowd, 2)))))
    assert (crowd.most, crowd.asked, crowd.now) == (2, 16, 0)


def test_no_more_requests_than_allowed_are_in_progress_on_a_loop():
    crowd = Crowd(limit=3, expected=6)

    async def main():
        await asyncio.gather(*(adone(crowd.throttled(throttle(3), asking(crowd, 2))) for _ in range(9)))

    asyncio.run(main())
    assert (crowd.most, crowd.asked, crowd.now) == (3, 18, 0)


def test_a_gate_is_shared_between_loops_and_threads():
    crowd = Crowd(limit=2, expected=13)
    numbers = iter(range(6))

    async def main():
        await asyncio.gather(*(adone(crowd.throttled(throttle(2), asking(crowd))) for _ in range(4)))

    def work():
        if next(numbers) % 2:
            asyncio.run(main())
        else:
            list(drive(crowd.throttled(throttle(2), asking(crowd))))

    in_threads(6, work)
    assert (crowd.most, crowd.asked, crowd.now) == (2, 15, 0)


def test_waiting_does_not_block_the_event_loop():
    crowd = Crowd(limit=1, expected=3)
    gate = open_gate("slow", 1)
    holder = gate.enter()

    async def main():
        flows = [crowd.throttled(throttle(), asking(crowd, timeout=PATIENCE)) for _ in range(3)]
        waiting = [asyncio.ensure_future(adone(flow)) for flow in flows]
        async with asyncio.timeout(PATIENCE):
            while crowd.waiting < 3:
                await asyncio.sleep(0)
        assert (crowd.asked, [task.done() for task in waiting]) == (0, [False] * 3)
        gate.leave(holder)
        await asyncio.gather(*waiting)

    asyncio.run(main())
    assert (crowd.most, crowd.asked) == (1, 3)


def test_a_blocking_call_is_refused_where_its_event_loop_holds_all_places():
    async def main():
        gate = open_gate("slow", 1)
        model = Silent()
        holder = asyncio.ensure_future(adone(throttle(1)(asking(model))))
        async with asyncio.timeout(PATIENCE):
            await model.asked.wait()
        with pytest.raises(RunError, match=r"slow: .* Await the run: await agent\.arun\(query\)"):
            list(drive(throttle(1)(asking(Silent(), timeout=PATIENCE))))
        holder.cancel()
        await asyncio.wait([holder])
        assert gate.enter().done()

    asyncio.run(main())


def test_a_blocking_call_is_refused_where_a_stream_of_the_main_thread_holds_the_place():
    agent = JsonAgent(print, model=ScriptedModel(END, END, name="left"), max_concurrency=1)
    stream = agent.stream("hi", session=Session())
    while not next(stream).is_piece:
        pass
    with pytest.raises(RunError, match=r"left: .* Read them to their end, close them, or raise max_concurrency"):
        agent.run("hi", session=Session())
    stream.close()
    assert agent.run("hi", session=Session()).answer == "ready"


def test_an_awaited_call_is_refused_where_a_stream_of_its_task_holds_the_place():
    agent = JsonAgent(print, model=ScriptedModel(END, END, END, name="left here"), max_concurrency=1)

    async def main():
        async with asyncio.timeout(PATIENCE):
            stream = agent.astream("hi", session=Session())
            while not (await anext(stream)).is_piece:
                pass
            with pytest.raises(RunError, match=r"left here: .* that this task began .* close them, or raise max_conc"):
                await agent.arun("hi", session=Session())
            other = asyncio.ensure_future(agent.arun("hi", session=Session()))  # which waits: this task may continue
            await asyncio.sleep(0)
            await stream.aclose()
            return (await other).answer

    assert asyncio.run(main()) == "ready"


def test_an_awaited_call_waits_for_a_dropped_stream_of_its_task():
    agent = JsonAgent(print, model=ScriptedModel(END, END, name="dropped"), max_concurrency=1)

    async def main():
        async with asyncio.timeout(PATIENCE):
            async for event in agent.astream("hi", session=Session()):
                if event.is_piece:
                    break
            return (await agent.arun("hi", session=Session())).answer

    assert asyncio.run(main()) == "ready"


def test_a_stream_of_a_pool_holds_a_place_until_another_thread_has_read_it():
    gate = Gate()
    gate.narrow(1, None)
    begun = []

    def begin_and_wait():
        begun.append(gate.enter())
        ticket = gate.enter()
        threading.Timer(0.01, gate.leave, begun).start()
        list(drive(ask(WaitForTicket(ticket, "slow", PATIENCE, gate))))
        begun.append(ticket)

    in_threads(1, begin_and_wait)
    assert len(begun) == 2


@pytest.mark.parametrize("of", ["concurrency", "a minute"])
def test_a_blocking_call_waits_where_its_event_loop_leaves_it_a_place(of):
    async def main():
        gate = Gate(window=0.05)
        gate.narrow(*(2, None) if of == "concurrency" else (None, 1))
        own = gate.enter()
        other = await asyncio.to_thread(gate.enter)
        ticket = gate.enter()
        threading.Timer(0.01, gate.leave, [other]).start()
        list(drive(ask(WaitForTicket(ticket, "slow", PATIENCE, gate))))
        assert own.done()

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_requests_of_its_parent():
    gate = PROCESS_GATES.open("forked", 1)
    holder = gate.enter()
    if not (child := os.fork()):
        first, second = (PROCESS_GATES.find("forked").enter() for _ in range(2))
        os._exit(0 if first.done() and not second.done() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not gate.enter().done()
    gate.leave(holder)


def test_models_of_other_names_have_gates_of_their_own():
    both = threading.Barrier(2)

    def meets(request):
        both.wait(60)
        return "hello"

    models = iter([ScriptedModel(meets, name="one"), ScriptedModel(meets, name="two")])
    in_threads(2, lambda: list(drive(throttle(1)(asking(next(models))))))
    assert not both.broken


class Clock:
    """Time that passes when a test says so; stands for the module `time`, and makes timers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers = []

    def monotonic(self):
        return self.now

    def timer(self, seconds, function):
        self.timers.append((self.now + seconds, function))
        return SimpleNamespace(start=lambda: None)

    def pass_by(self):
        self.now, ring = self.timers.pop()
        ring()


def test_requests_of_a_minute_are_counted(world):
    clock = Clock()
    begun = []
    Gates.registry = GateRegistry(lambda: Gate(clock=clock.monotonic, timer=clock.timer))
    model = ScriptedModel([lambda _: begun.append(clock.now) or "hello"] * 5, name="slow")
    _, events = world.drive(when_throttled(clock.pass_by)(throttle(None, 2)(asking(model, 5))))
    assert begun == [100, 100, 160, 160, 220]
    assert events.count(Throttled("slow")) == 2


def test_a_request_that_waits_for_time_is_admitted_by_the_timer_alone():
    clock = Clock()
    gate = Gate(clock=clock.monotonic, timer=clock.timer)
    gate.narrow(2, 1)
    first, second, third = (gate.enter() for _ in range(3))
    assert [ticket.done() for ticket in (first, second, third)] == [True, False, False]
    clock.pass_by()
    assert [ticket.done() for ticket in (first, second, third)] == [True, True, False]


def test_requests_are_admitted_in_the_order_of_their_arrival():
    gate = open_gate("line", 1)
    holder, *waiting = [gate.enter() for _ in range(4)]
    assert holder.done()
    gone = waiting.pop(1)
    gate.leave(gone)
    gate.leave(holder)
    for ticket in list(waiting):
        assert [other.done() for other in waiting] == [other is ticket for other in waiting]
        gate.leave(waiting.pop(0))
        gate.leave(ticket)
    assert gate.enter().done()


def test_the_smaller_limit_holds():
    gate = open_gate("both", max_concurrency=5)
    assert open_gate("both", 3, 100) is gate
    assert open_gate("both", 4, 50) is gate
    assert (gate.max_concurrency, gate.requests_per_minute) == (3, 50)
    assert open_gate("both") is gate
    assert (gate.max_concurrency, gate.requests_per_minute) == (3, 50)


def test_an_agent_without_limits_passes_the_gates_of_the_others():
    crowd = Crowd(limit=1, expected=3)
    open_gate("slow", 1)
    in_threads(4, lambda: list(drive(crowd.throttled(throttle(), asking(crowd)))))
    assert crowd.most == 1
    both = threading.Barrier(2)
    free = ScriptedModel([lambda _: str(both.wait(60))] * 2, name="free")
    in_threads(2, lambda: list(drive(throttle()(asking(free)))))
    assert not both.broken


@pytest.mark.parametrize("limits", [(0, None), (None, 0), (-1, 5)])
def test_a_limit_below_one_is_refused(limits):
    with pytest.raises(DefinitionError, match="integer >= 1"):
        throttle(*limits)
    with pytest.raises(DefinitionError, match="integer >= 1"):
        open_gate("x", *limits)


def test_an_error_frees_the_place(world):
    model = ScriptedModel(ModelError("no"), "hello")
    with pytest.raises(ModelError):
        world.drive(throttle(1)(asking(model)))
    reply, events = world.drive(throttle(1)(asking(model)))
    assert reply.message["content"] == "hello"
    assert Throttled("scripted") not in events


def test_an_abandoned_stream_frees_its_place():
    flow = drive(throttle(1)(asking(ScriptedModel("one two"), stream=True)))
    next(flow)
    next(flow)
    flow.close()
    assert open_gate("scripted").enter().done()


class Silent:
    """A model that never replies."""

    name = "slow"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def aask(self, request):
        self.asked.set()
        await asyncio.Event().wait()
        yield Reply(assistant("never"))


@pytest.mark.parametrize("when", ["waiting", "in progress"])
def test_a_cancelled_request_frees_its_place(when):
    async def main():
        gate = open_gate("slow", 1)
        holder = gate.enter() if when == "waiting" else None
        model = Silent()
        waits = asyncio.Event()
        task = asyncio.ensure_future(adone(when_throttled(waits.set)(throttle(1)(asking(model)))))
        async with asyncio.timeout(PATIENCE):
            await (waits if holder else model.asked).wait()
        assert model.asked.is_set() == (holder is None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        following = gate.enter()
        if holder:
            assert not following.done()
            gate.leave(holder)
        assert following.done()

    asyncio.run(main())


def test_waiting_counts_towards_the_time_of_the_request(world):
    gate = open_gate("slow", 1)
    holder = gate.enter()
    start = time.monotonic()
    model = Silent()
    with pytest.raises(ModelError, match=r"it waited .* for the rate limit") as caught:
        world.drive(throttle()(asking(model, timeout=0.1)))
    assert (caught.value.kind, caught.value.transient, model.asked.is_set()) == ("timeout", True, False)
    assert time.monotonic() - start >= 0.1
    gate.leave(holder)
    assert gate.enter().done()


def test_the_model_gets_the_time_that_is_left(world):
    gate = open_gate("scripted", 1)
    holder = gate.enter()
    timeouts: list[float] = []
    model = ScriptedModel(lambda request: timeouts.append(request.timeout) or "hello")

    waited = []

    def make_way():
        start = time.monotonic()
        while time.monotonic() < start + 0.001:
            pass
        waited.append(time.monotonic() - start)
        gate.leave(holder)

    world.drive(when_throttled(make_way)(throttle()(asking(model, timeout=60))))
    assert 0 < timeouts[0] <= 60 - waited[0]


def test_a_ticket_is_waited_for_by_an_effect(world):
    gate = open_gate("x", 1)
    holder = gate.enter()
    ticket = gate.enter()
    threading.Timer(0.01, gate.leave, [holder]).start()

    def flow():
        yield from ask(WaitForTicket(ticket, "x"))
        return ticket.done()

    assert world.drive(flow())[0]


def test_agents_share_the_gates_of_the_process(world):
    def work() -> str:
        """Works."""
        return "done"

    model = ScriptedModel(END, END, name=f"shared {world}")
    for _ in range(2):
        agent = JsonAgent(work, model=model, max_concurrency=1, requests_per_minute=100)
        assert world.run(agent, "Work.").answer == "ready"
    assert PROCESS_GATES.open(model.name).requests_per_minute == 100
