"""Asking again: what is asked again, how often, how long, and what of a broken reply is withdrawn."""

import pytest

from agentkit import ModelError, ToolRegistry
from agentkit.core.flow import Sleep, around, ask
from agentkit.core.messages import user
from agentkit.engine.model import AskModel, ModelAsked, Request, TextDelta
from agentkit.policies.retries import Retrying, retry
from agentkit.testing import ScriptedModel
from agentkit.tools.final_answer import make_answer_tool

TOOLS = ToolRegistry(answer=make_answer_tool())


def failure(kind="rate_limit", transient=True, **more) -> ModelError:
    return ModelError("busy", kind=kind, transient=transient, **more)


def asking(model, **asked):
    return (yield from ask(AskModel(model, Request([user("?")], TOOLS, **asked))))


class Clock:
    """Stands still, but for sleeps and requests."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Slept(list[float]):
    """The seconds that would have been slept; as a policy outside of the retries, it answers their `Sleep`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __call__(self, flow):
        return around(self.handle, Sleep)(flow)

    def handle(self, effect: Sleep):
        self.append(effect.seconds)
        self.clock.now += effect.seconds
        yield from ()


@pytest.fixture
def slept(clock) -> Slept:
    return Slept(clock)


def test_waits_grow_and_are_spread_by_chance(world, slept):
    model = ScriptedModel([*(failure() for _ in range(4)), "hello"])
    reply, events = world.drive(slept(retry()(asking(model))))
    assert reply.message["content"] == "hello"
    for seconds, wait in zip(slept, (0.5, 1, 2, 4), strict=True):
        assert 0.8 * wait <= seconds <= 1.2 * wait
    assert [event.seconds for event in events if isinstance(event, Retrying)] == slept
    assert len({slept[number] / wait for number, wait in enumerate((0.5, 1, 2, 4))}) > 1, "by chance"


def test_after_the_last_wait_the_error_has_the_number_of_tries(world, slept):
    errors = [failure() for _ in range(3)]
    with pytest.raises(ModelError) as caught:
        world.drive(slept(retry([1, 1])(asking(ScriptedModel([*errors])))))
    assert caught.value is errors[-1]
    assert caught.value.__notes__ == ["The request was made 3 times."]
    assert len(slept) == 2


@pytest.mark.parametrize(
    ("kind", "status"), [("bad_request", 400), ("authentication", 401), ("authentication", 403), ("not_found", 404)]
)
def test_what_does_not_pass_is_asked_once(world, slept, kind, status):
    model = ScriptedModel(failure(kind, transient=False, status=status), "not asked for")
    with pytest.raises(ModelError) as caught:
        world.drive(slept(retry()(asking(model))))
    assert (len(model.requests), slept) == (1, [])
    assert not hasattr(caught.value, "__notes__")


def test_what_the_provider_asks_for_is_kept_to_up_to_a_limit(world, slept):
    world.drive(slept(retry()(asking(ScriptedModel(failure(retry_after=7.0), failure(retry_after=0.0), "hello")))))
    assert slept == [7.0, 0.0]
    with pytest.raises(ModelError) as caught:
        world.drive(slept(retry()(asking(ScriptedModel(failure(retry_after=11.0))))))
    assert caught.value.retry_after == 11.0
    assert caught.value.__notes__ == ["The provider asks to wait 11 seconds, more than the maximum of 10."]
    world.drive(slept(retry(max_wait=20)(asking(ScriptedModel(failure(retry_after=11.0), "hello")))))
    assert slept == [7.0, 0.0, 11.0]


def test_no_try_begins_beyond_the_budget(world, slept, clock):
    def slow(request):
        clock.now += 5
        return failure(retry_after=9.0)

    model = ScriptedModel([slow] * 10)
    with pytest.raises(ModelError) as caught:
        world.drive(slept(retry([1] * 9, max_seconds=30, clock=clock.monotonic)(asking(model))))
    assert slept == [9.0] * 2, "33 seconds are over by then"
    assert caught.value.__notes__ == ["The request was made 3 times."]


def test_a_budget_is_for_one_request(world, slept, clock):
    model = ScriptedModel([failure(retry_after=9.0), "one", failure(retry_after=9.0), "two"])

    def both():
        yield from asking(model)
        return (yield from asking(model))

    reply, _ = world.drive(slept(retry(max_seconds=10, clock=clock.monotonic)(both())))
    assert reply.message["content"] == "two"


def test_the_time_of_a_request_holds_for_all_its_tries(world, slept, clock):
    timeouts = []

    def fails(request):
        timeouts.append(request.timeout)
        clock.now += 2
        return failure(retry_after=1.0)

    with pytest.raises(ModelError):
        world.drive(slept(retry([0.05] * 100, clock=clock.monotonic)(asking(ScriptedModel([fails] * 100), timeout=10))))
    assert timeouts == [10, 7, 4, 1]
    assert slept == [1.0] * 3


def test_what_was_streamed_of_a_broken_reply_is_withdrawn(world):
    class Breaking(ScriptedModel):
        """Its first reply breaks off in the middle."""

        def ask(self, request):
            for place, piece in enumerate(super().ask(request)):
                if len(self.requests) == 1 and place == 1:
                    raise failure("connection", retry_after=0.0)
                yield piece

    reply, events = world.drive(retry()(asking(Breaking("one two", "one two"), stream=True)))
    told = [event for event in events if isinstance(event, TextDelta | Retrying | ModelAsked)]
    assert [type(event) for event in told] == [ModelAsked, TextDelta, Retrying, ModelAsked, TextDelta, TextDelta]
    shown = ""
    for event in told:
        shown = shown + event.text if isinstance(event, TextDelta) else "" if isinstance(event, Retrying) else shown
    assert shown == reply.message["content"] == "one two"
