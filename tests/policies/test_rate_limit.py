"""Gates before models: how many pass, in which order, across threads, loops and agents, and who makes way."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from agentkit import DefinitionError, JsonAgent, ModelError
from agentkit.core.flow import Done, Emit, adrive, around, ask, drive
from agentkit.core.messages import assistant, user
from agentkit.engine.model import AskModel, Reply, Request
from agentkit.policies import rate_limit
from agentkit.policies.rate_limit import PROCESS_GATES, Gate, GateRegistry, Throttled, WaitForTicket
from agentkit.testing import ScriptedModel
from agentkit.tools.registry import ToolRegistry

END = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "ready"}}]}


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


class Slow:
    """A model that takes its time, and counts how many ask it at once."""

    def __init__(self, name: str = "slow", seconds: float = 0.03) -> None:
        self.name = name
        self.seconds = seconds
        self.now = self.most = self.asked = 0
        self.lock = threading.Lock()

    def step(self, by: int) -> None:
        with self.lock:
            self.now += by
            self.asked += by > 0
            self.most = max(self.most, self.now)

    def ask(self, request):
        self.step(1)
        try:
            time.sleep(self.seconds)
        finally:
            self.step(-1)
        yield Reply(assistant("hm"))

    async def aask(self, request):
        self.step(1)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.step(-1)
        yield Reply(assistant("hm"))


def asking(model, times=1, **asked):
    for _ in range(times):
        reply = yield from ask(AskModel(model, Request([user("?")], ToolRegistry(), **asked)))
    return reply


def in_threads(count, work):
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


async def adone(flow):
    events = [event async for event in adrive(flow)]
    assert isinstance(events[-1], Done)
    return events


def test_no_more_than_allowed_are_under_way_in_threads():
    model = Slow()
    in_threads(8, lambda: list(drive(throttle(2)(asking(model, 2)))))
    assert (model.most, model.asked, model.now) == (2, 16, 0)


def test_no_more_than_allowed_are_under_way_on_a_loop():
    model = Slow()

    async def crowd():
        await asyncio.gather(*(adone(throttle(3)(asking(model, 2))) for _ in range(9)))

    asyncio.run(crowd())
    assert (model.most, model.asked, model.now) == (3, 18, 0)


def test_a_gate_is_shared_between_loops_and_threads():
    model = Slow()

    async def crowd():
        await asyncio.gather(*(adone(throttle(2)(asking(model))) for _ in range(4)))

    in_threads(3, lambda: asyncio.run(crowd()))
    in_threads(3, lambda: list(drive(throttle(2)(asking(model)))))
    assert (model.most, model.asked) == (2, 15)


def test_waiting_does_not_block_the_event_loop():
    model, gate = Slow(), open_gate("slow", 1)
    holder = gate.enter()

    async def crowd():
        waiting = [asyncio.ensure_future(adone(throttle()(asking(model, timeout=10)))) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0.005)
        assert (model.asked, [task.done() for task in waiting]) == (0, [False] * 3)
        gate.leave(holder)
        await asyncio.gather(*waiting)

    asyncio.run(crowd())
    assert (model.most, model.asked) == (1, 3)


def test_models_of_other_names_have_gates_of_their_own():
    both = threading.Barrier(2)

    def meets(request):
        both.wait(10)
        return "hello"

    models = iter([ScriptedModel(meets, name="one"), ScriptedModel(meets, name="two")])
    in_threads(2, lambda: list(drive(throttle(1)(asking(next(models))))))
    assert not both.broken


class Clock:
    """Time that passes when somebody waits for it; stands for the module `time`, and makes timers."""

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


def when_throttled(act):
    """A policy that does so whenever a request begins to wait."""

    def handle(effect):
        if isinstance(effect, Emit) and isinstance(effect.event, Throttled):
            act()
        return (yield from ask(effect))

    return around(handle)


def test_requests_of_a_minute_are_counted(world):
    clock, begun = Clock(), []
    Gates.registry = GateRegistry(lambda: Gate(clock=clock.monotonic, timer=clock.timer))
    model = ScriptedModel([lambda _: begun.append(clock.now) or "hello"] * 5, name="slow")
    _, events = world.drive(when_throttled(clock.pass_by)(throttle(None, 2)(asking(model, 5))))
    assert begun == [100, 100, 160, 160, 220]
    assert events.count(Throttled("slow")) == 2


def test_who_waits_for_time_does_not_need_somebody_to_leave():
    Gates.registry = GateRegistry(lambda: Gate(window=0.2))
    model = Slow(seconds=0.01)
    in_threads(4, lambda: list(drive(throttle(1, 1)(asking(model)))))
    assert model.asked == 4


def test_who_came_first_goes_first():
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


def test_the_smaller_limit_holds(monkeypatch):
    gate = open_gate("both", max_concurrency=5)
    assert open_gate("both", 3, 100) is gate
    assert open_gate("both", 4, 50) is gate
    assert (gate.max_concurrency, gate.requests_per_minute) == (3, 50)
    assert open_gate("both") is gate
    assert (gate.max_concurrency, gate.requests_per_minute) == (3, 50)


def test_an_agent_without_limits_passes_the_gates_of_the_others():
    model = Slow()
    open_gate("slow", 1)
    in_threads(4, lambda: list(drive(throttle()(asking(model)))))
    assert model.most == 1
    both = threading.Barrier(2)
    free = ScriptedModel([lambda _: str(both.wait(10))] * 2, name="free")
    in_threads(2, lambda: list(drive(throttle()(asking(free)))))
    assert not both.broken


@pytest.mark.parametrize("limits", [(0, None), (None, 0), (-1, 5)])
def test_a_limit_below_one_is_refused(limits):
    with pytest.raises(DefinitionError, match="integer >= 1"):
        throttle(*limits)
    with pytest.raises(DefinitionError, match="integer >= 1"):
        open_gate("x", *limits)


def test_the_slot_is_free_after_an_error(world):
    model = ScriptedModel(ModelError("no"), "hello")
    with pytest.raises(ModelError):
        world.drive(throttle(1)(asking(model)))
    reply, events = world.drive(throttle(1)(asking(model)))
    assert reply.message["content"] == "hello"
    assert Throttled("scripted") not in events


def test_an_abandoned_stream_frees_its_slot():
    flow = drive(throttle(1)(asking(ScriptedModel("one two"), stream=True)))
    next(flow)
    next(flow)
    flow.close()
    assert open_gate("scripted").enter().done()


@pytest.mark.parametrize("when", ["waiting", "under way"])
def test_cancellation_makes_way(when):
    async def cancelled():
        gate = open_gate("slow", 1)
        holder = gate.enter() if when == "waiting" else None
        model = Slow(seconds=5)
        task = asyncio.ensure_future(adone(throttle(1)(asking(model))))
        while not model.asked and len(gate._line) == 0:
            await asyncio.sleep(0.005)
        assert model.asked == (when == "under way")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        following = gate.enter()
        if holder:
            assert not following.done()
            gate.leave(holder)
        assert following.done()

    asyncio.run(cancelled())


def test_waiting_counts_towards_the_time_of_the_request(world):
    gate = open_gate("slow", 1)
    holder = gate.enter()
    start, model = time.monotonic(), Slow()
    with pytest.raises(ModelError, match=r"it waited .* for the rate limit") as caught:
        world.drive(throttle()(asking(model, timeout=0.1)))
    assert (caught.value.kind, caught.value.transient, model.asked) == ("timeout", True, 0)
    assert time.monotonic() - start >= 0.1
    gate.leave(holder)
    assert gate.enter().done()


def test_what_is_left_of_the_time_is_the_model_s(world):
    gate = open_gate("scripted", 1)
    holder = gate.enter()
    timeouts: list[float] = []
    model = ScriptedModel(lambda request: timeouts.append(request.timeout) or "hello")

    def make_way():
        time.sleep(0.06)
        gate.leave(holder)

    world.drive(when_throttled(make_way)(throttle()(asking(model, timeout=60))))
    assert 30 < timeouts[0] <= 59.95


def test_a_ticket_is_waited_for_by_an_effect(world):
    gate = open_gate("x", 1)
    holder, ticket = gate.enter(), gate.enter()
    threading.Timer(0.05, gate.leave, [holder]).start()

    def flow():
        yield from ask(WaitForTicket(ticket, "x"))
        return ticket.done()

    assert world.drive(flow())[0]


def test_agents_share_it(world):
    def work() -> str:
        """Works."""
        return "done"

    model = ScriptedModel(END, END, name=f"shared {world}")
    for _ in range(2):
        agent = JsonAgent(work, model=model, max_concurrency=1, requests_per_minute=100)
        assert world.run(agent, "Work.").answer == "ready"
    assert PROCESS_GATES.open(model.name).requests_per_minute == 100
