"""The engine, driven by hand and in both worlds."""

import asyncio
import itertools
import sys
import threading
import traceback
from dataclasses import dataclass

import pytest

from agentkit.core.flow import (
    Done,
    Emit,
    Event,
    Flow,
    Hooks,
    Sleep,
    adrive,
    apply_policies,
    around,
    ask,
    drive,
    interpret,
)
from agentkit.core.threads import RUN_CANCELLATION, Cancellation

PATIENCE = 30.0
"""Seconds that a test waits for an event before it fails."""


@dataclass(frozen=True)
class Said(Event):
    text: str


@dataclass(frozen=True)
class Echo:
    """An effect that says its text and gives it back, or raises what it was given."""

    text: str
    error: Exception | None = None

    def perform(self):
        yield Said(self.text)
        if self.error:
            raise self.error
        return self.text

    async def aperform(self):
        yield Said(self.text)
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        yield Done(self.text)


def two_words() -> Flow[str]:
    first = yield from ask(Echo("a"))
    second = yield from ask(Echo("b"))
    return first + second


def test_a_flow_receives_the_outcomes_of_its_effects(world):
    assert world.drive(two_words()) == ("ab", [Said("a"), Said("b")])


def test_a_flow_can_be_driven_by_hand():
    flow = two_words()
    assert next(flow) == Echo("a")
    assert flow.send("x") == Echo("b")
    with pytest.raises(StopIteration) as stop:
        flow.send("y")
    assert stop.value.value == "xy"


def test_an_effect_that_fails_raises_inside_the_flow(world):
    def flow() -> Flow[str]:
        try:
            yield from ask(Echo("a", ValueError("no")))
        except ValueError as error:
            return f"caught {error}"
        return "missed"

    assert world.drive(flow())[0] == "caught no"


def test_an_error_that_the_flow_lets_pass_reaches_the_caller(world):
    def flow() -> Flow[None]:
        yield from ask(Echo("a", ValueError("no")))

    with pytest.raises(ValueError, match="no"):
        world.drive(flow())


def test_a_policy_sees_every_effect_and_may_change_it(world):
    def louder(effect):
        return (yield from ask(Echo(effect.text.upper())))

    assert world.drive(around(louder)(two_words())) == ("AB", [Said("A"), Said("B")])


def test_a_policy_may_answer_an_effect_without_performing_it(world):
    def silent(effect):
        return "-"
        yield

    assert world.drive(around(silent)(two_words())) == ("--", [])


def test_a_policy_may_try_again(world):
    failing = [ValueError("once"), None]

    def flow() -> Flow[str]:
        return (yield from ask(Echo("a")))

    def flaky(effect):
        return (yield from ask(Echo(effect.text, failing.pop(0))))

    def again(effect):
        try:
            return (yield from ask(effect))
        except ValueError:
            return (yield from ask(effect))

    assert world.drive(apply_policies(flow(), (around(again), around(flaky)))) == ("a", [Said("a"), Said("a")])


def test_the_first_policy_of_a_stack_sees_an_effect_first(world):
    def adding(letter):
        def handle(effect):
            return (yield from ask(Echo(effect.text + letter)))

        return around(handle)

    assert world.drive(apply_policies(two_words(), (adding("1"), adding("2"))))[0] == "a12b12"


@pytest.mark.parametrize("policies", [(), (around(Hooks(after=lambda _, outcome: outcome)),)], ids=["bare", "hooks"])
def test_closing_a_drive_closes_the_flow(policies):
    closed = []

    def flow() -> Flow[None]:
        try:
            yield from ask(Echo("a"))
        finally:
            closed.append("flow")

    driver = drive(apply_policies(flow(), policies))
    assert next(driver) == Said("a")
    driver.close()
    assert closed == ["flow"]


def test_cancelling_an_adrive_closes_the_flow():
    closed = []

    def flow() -> Flow[None]:
        try:
            yield from ask(Sleep(60))
        finally:
            closed.append("flow")

    async def main():
        async def consume():
            async for _ in adrive(flow()):
                pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert closed == ["flow"]


def test_an_interrupt_in_an_effect_passes_the_flow_by():
    caught = []

    class Interrupt:
        def perform(self):
            yield Said("now")
            raise KeyboardInterrupt

    def flow() -> Flow[None]:
        try:
            yield Interrupt()
        except Exception as error:
            caught.append(error)

    with pytest.raises(KeyboardInterrupt):
        list(drive(flow()))
    assert caught == []


def test_emit_shows_an_event_and_sleep_lets_time_pass(world):
    def flow() -> Flow[str]:
        yield from ask(Emit(Said("hello")))
        yield from ask(Sleep(0))
        return "done"

    assert world.drive(flow()) == ("done", [Said("hello")])


def test_interpret_is_the_one_mechanism_of_drivers_and_policies():
    def numbers():
        got = yield 1
        got += yield 2
        return got

    def tens(wish):
        yield f"asked {wish}"
        return wish * 10

    steps = interpret(numbers(), tens)
    assert next(steps) == "asked 1"
    assert next(steps) == "asked 2"
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == 30


def test_a_traceback_does_not_grow_with_the_number_of_policies(world):
    def flow() -> Flow[None]:
        yield from ask(Echo("a", ValueError()))

    def frames(policies: int) -> list[str]:
        with pytest.raises(ValueError) as caught:
            world.drive(apply_policies(flow(), (around(ask),) * policies))
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    assert frames(1) == frames(30)


def test_a_handlers_own_exception_shows_where_it_was_raised(world):
    def translate(effect):
        try:
            return (yield from ask(effect))
        except ValueError as error:
            raise KeyError("translated") from error

    def flow() -> Flow[None]:
        yield from ask(Echo("a", ValueError()))

    with pytest.raises(KeyError) as caught:
        world.drive(apply_policies(flow(), (around(ask), around(translate), around(ask))))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "translate"
    assert isinstance(caught.value.__cause__, ValueError)


def test_all_handlers_are_closed_from_the_outside_in_even_if_one_fails():
    closed = []

    def closing(name):
        def handle(effect):
            try:
                return (yield from ask(effect))
            finally:
                closed.append(name)
                if name == "middle":
                    raise OSError("while closing")

        return around(handle)

    def flow() -> Flow[None]:
        try:
            yield from ask(Echo("a"))
        finally:
            closed.append("flow")

    steps = drive(apply_policies(flow(), tuple(map(closing, ("inner", "middle", "outer")))))
    next(steps)
    with pytest.raises(OSError, match="while closing"):
        steps.close()
    assert closed == ["outer", "middle", "inner", "flow"]


def test_a_handler_may_take_several_kinds_of_effect(world):
    seen = []

    def note(effect):
        seen.append(type(effect).__name__)
        return (yield from ask(effect))

    def flow() -> Flow[None]:
        yield from ask(Echo("a"))
        yield from ask(Sleep(0))
        yield from ask(Emit(Said("b")))

    world.drive(apply_policies(flow(), (around(note, (Echo, Emit)), around(note, Sleep))))
    assert seen == ["Echo", "Sleep", "Emit"]


def test_hooks_change_the_effect_and_its_outcome_in_their_place_among_the_handlers(world):
    def adding(letter):
        def handle(effect):
            return f"{(yield from ask(Echo(effect.text + letter)))}{letter.upper()}"

        return around(handle)

    def before(effect):
        return Echo(effect.text + "h")

    def after(effect, outcome):
        return f"{outcome}<{effect.text}>"

    policies = (adding("1"), around(Hooks(before, after), Echo), adding("2"), around(Hooks(after=after), Echo))
    assert world.drive(apply_policies(two_words(), policies))[0] == "a1h2<a1h2>2<a1h>1b1h2<b1h2>2<b1h>1"


def test_hooks_may_answer_with_a_flow_that_only_the_outer_handlers_see(world):
    seen = []

    def watch(effect):
        seen.append(effect.text)
        return effect

    def replace(effect):
        return said(effect) if effect.text == "a" else effect

    def repeat(effect, outcome):
        return said(effect) if outcome == "b" else outcome

    def said(effect):
        first = yield from ask(Echo(effect.text + "1"))
        second = yield from ask(Echo(effect.text + "2"))
        return f"[{first}{second}]"

    policies = (around(Hooks(replace, repeat), Echo), around(Hooks(watch), Echo))
    assert world.drive(apply_policies(two_words(), policies))[0] == "[a1a2][b1b2]"
    assert seen == ["a1", "a2", "b", "b1", "b2"]


@pytest.mark.parametrize("place", ["before", "after", "failed"])
def test_an_exception_of_hooks_is_raised_in_the_handlers_below_them(world, place):
    calls = []

    def raising(*_):
        calls.append(place)
        raise KeyError(place)

    def recover(effect, error):
        return again(error) if isinstance(error, KeyError) else None

    def again(error):
        return (yield from ask(Emit(Said(f"recovered from {error}"))))

    def flow() -> Flow[str]:
        return (yield from ask(Echo("a", ValueError("no") if place == "failed" else None)))

    policies = (around(Hooks(failed=recover)), around(Hooks(**{place: raising}), Echo))
    assert world.drive(apply_policies(flow(), policies))[1][-1] == Said(f"recovered from '{place}'")
    assert calls == [place]


def test_an_error_that_hooks_do_not_handle_reaches_the_caller_with_the_frames_of_its_origin_alone(world):
    def flow() -> Flow[None]:
        yield from ask(Echo("a", ValueError("no")))

    def frames(policies):
        with pytest.raises(ValueError, match="no") as caught:
            world.drive(apply_policies(flow(), policies))
        return len(traceback.extract_tb(caught.tb))

    passing = around(Hooks(failed=lambda *_: None), Echo)
    assert frames((passing,) * 8) == frames((passing,))


def test_a_stop_in_the_same_thread_ends_a_sleep_wherever_it_arrives():
    """A signal handler runs between two instructions of the thread that sleeps; a profiler stands for it."""

    def sleep_until_stopped_at(place):
        stopped = Cancellation()
        RUN_CANCELLATION.set(stopped)
        count = itertools.count()
        sys.setprofile(lambda *_: stopped.set() if next(count) == place else None)
        try:
            list(drive(ask(Sleep(0.001))))
        finally:
            sys.setprofile(None)
        return next(count)

    def stop_everywhere():
        for place in range(sleep_until_stopped_at(-1)):
            sleep_until_stopped_at(place)
        ended.set()

    ended = threading.Event()
    threading.Thread(target=stop_everywhere, daemon=True).start()
    assert ended.wait(PATIENCE)
