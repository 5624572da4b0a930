"""Caps on steps, tokens, seconds, dollars and tool calls, for a run and for those inside of its tools."""

import itertools
import json
import random
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace

import pytest
from clock import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from one_policy import Turns, drive_here
from stacked_runs import Endless, run_stacked
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, LimitExceeded, ModelError, RunError
from agentkit.core.context import enclose
from agentkit.core.flow import Emit, Sleep, around, ask
from agentkit.core.messages import ToolCall, Usage, assistant, user
from agentkit.engine.model import AskModel, Reply, Request
from agentkit.policies.final_request import FinalRequest
from agentkit.policies.limits import (
    FINAL_REQUEST_GROWTH,
    FINAL_REQUEST_SHARE,
    MIN_REPLY_TOKENS,
    Budget,
    Limits,
    PriceUnknown,
    limit,
)
from agentkit.policies.rate_limit import GateRegistry, Throttled, throttle
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.registry import ToolRegistry

DONE = answer("done")


def counter():
    numbers = itertools.count()

    def count() -> int:
        """Counts."""
        return next(numbers)

    return count


def priced(entry, tokens=0, cost=0.0) -> Reply:
    """A reply that took so much."""
    (one,) = entry["tool_calls"]
    calls = [ToolCall("c", one["name"], json.dumps(one["arguments"]))]
    return Reply(assistant(None, calls), Usage(1, tokens, 0, cost=cost))


def finish(world, model, *tools, limits=None, max_steps=50, wanted="done", **settings) -> Turns:
    """Turns under limits, which end with an answer; it may be that of the final request."""
    turns = Turns(model, *tools)
    assert turns.drive(world, turns.finish(), limit(limits, max_steps, **settings)) == wanted
    return turns


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("steps", 1.5), ("steps", True), ("tokens", -1), ("tokens", "many"), ("seconds", 0),
        ("seconds", float("inf")), ("seconds", float("nan")), ("dollars", -0.5), ("dollars", "1"), ("tool_calls", 0),
        ("unknown_price", "ignore"),
    ],
)  # fmt: skip
def test_a_senseless_limit_is_refused_by_name(name, value):
    with pytest.raises(DefinitionError, match=rf"Limits: {name} must be"):
        Limits(**{name: value})


def ask_again(effect: AskModel):
    """Repeat a request until it has a reply, as a retry does, nearer to the loop than the limit."""
    while True:
        try:
            return (yield from ask(effect))
        except ModelError:
            continue


class TestSteps:
    @pytest.mark.parametrize(
        "given", [{"max_steps": 3}, {"limits": Limits(steps=3)}, {"limits": Limits(steps=3), "max_steps": 1}]
    )
    def test_they_are_counted_and_the_answer_is_asked_for(self, world, given):
        model = Endless(call("count"), last=DONE)
        assert (finish(world, model, counter(), **given).stopped, model.asked) == ("max_steps", 4)

    def test_without_an_answer_the_error_names_them(self, world):
        turns = Turns(Endless(call("count")), counter())
        with pytest.raises(LimitExceeded, match="no final answer after 3 steps, nor in one last request") as caught:
            turns.drive(world, turns.take(), limit(max_steps=3))
        assert caught.value.reason == "max_steps"

    def test_a_request_that_failed_and_was_made_again_counts_once(self, world):
        busy = ModelError("busy", transient=True)
        turns = Turns(ScriptedModel(busy, call("count"), busy, DONE), counter())
        assert turns.drive(world, turns.take(), around(ask_again, AskModel), limit(max_steps=2)) == "done"


class TestTokens:
    def test_in_and_out_are_counted(self, world):
        model = ScriptedModel(*[priced(call("count"), 400) for _ in range(3)], DONE)
        assert finish(world, model, counter(), limits=Limits(tokens=1000)).stopped == "tokens"

    def test_below_the_limit_nothing_happens(self, world):
        model = ScriptedModel(priced(call("count"), 400), priced(call("count"), 599), DONE)
        assert finish(world, model, counter(), limits=Limits(tokens=1000)).stopped == "answer"


class TestToolCalls:
    def test_calls_beyond_the_limit_are_answered_and_the_final_request_follows(self, world):
        ran_tools = []

        def work(number: int) -> int:
            """Works."""
            ran_tools.append(number)
            return number

        two = calls(call("work", number=1), call("work", number=2))
        turns = finish(world, ScriptedModel(call("work", number=0), two, DONE), work, limits=Limits(tool_calls=2))
        assert (turns.stopped, ran_tools) == ("tool_calls", [0, 1])
        assert turns.contents[:3] == ["0", "1", "Not run: the run's limit of 2 tool calls is reached."]

    def test_a_run_that_just_reaches_the_limit_continues(self, world):
        turns = finish(world, ScriptedModel(call("count"), "Hm.", DONE), counter(), limits=Limits(tool_calls=1))
        assert turns.stopped == "answer"

    def test_mistakes_and_the_answer_are_not_calls(self, world):
        model = ScriptedModel(call("fly"), call("count", x=1), call("count"), DONE)
        assert finish(world, model, counter(), limits=Limits(tool_calls=1)).stopped == "answer"


class TestSeconds:
    @pytest.fixture
    def clock(self):
        return Clock()

    def test_a_run_out_of_time_makes_its_final_request_in_the_time_reserved_for_it(self, world, clock):
        def work() -> None:
            """Works."""
            clock.ahead += 85

        model = ScriptedModel(call("work"), DONE)
        turns = finish(world, model, work, limits=Limits(seconds=100), clock=clock.monotonic)
        assert turns.stopped == "seconds"
        assert 0 < turns.requests[1].timeout <= 100 * FINAL_REQUEST_SHARE - 5

    def test_each_request_has_the_time_that_is_left(self, world):
        requests = finish(world, ScriptedModel(call("count"), DONE), counter(), limits=Limits(seconds=100)).requests
        assert 70 < requests[1].timeout < requests[0].timeout <= 100 * (1 - FINAL_REQUEST_SHARE)

    def test_a_shorter_timeout_stays(self):
        request = Request([user("?")], ToolRegistry(counter()), timeout=3.0)
        assert _sent(request, Limits(seconds=100)).timeout == 3.0
        assert _sent(request, Limits()) == request

    def test_a_request_that_took_all_the_time_is_the_limits_affair(self, world, clock):
        class Slow(ScriptedModel):
            def ask(self, request):
                if request.tool_choice != "final_answer":
                    clock.ahead += request.timeout
                    raise ModelError("no answer in time", kind="timeout", transient=True)
                yield from super().ask(request)

        turns = finish(world, Slow(DONE), counter(), limits=Limits(seconds=100), clock=clock.monotonic)
        assert turns.stopped == "seconds"

    def test_a_tool_is_waited_for_as_long_as_there_is_time(self, world, clock):
        hung = threading.Event()

        def late(_):
            clock.ahead += 79.8
            return call("hang")

        def hang() -> None:
            """Hangs."""
            hung.wait(HANGS)

        turns = finish(world, ScriptedModel(late, DONE), hang, limits=Limits(seconds=100), clock=clock.monotonic)
        assert turns.stopped == "seconds"
        hung.set()

    def test_no_wait_is_longer_than_the_run(self):
        def sleeping():
            yield from ask(Sleep(99))

        assert next(limit(Limits(seconds=2))(sleeping())).seconds <= 2
        assert next(limit()(sleeping())).seconds == 99

    @pytest.mark.parametrize("leaves", [True, False])
    def test_a_line_is_stood_in_as_long_as_there_is_time(self, world, leaves, clock):
        gates = GateRegistry()
        gate = gates.open("scripted", 1)
        holder = gate.enter()
        model = ScriptedModel(DONE)
        turns = Turns(model, counter())

        def handle(effect):
            told = effect.event if isinstance(effect, Emit) else None
            if isinstance(told, Throttled):
                clock.ahead += 79.8
            elif isinstance(told, FinalRequest) and leaves:  # in the time that is kept for the last request
                gate.leave(holder)
            return (yield from ask(effect))

        policies = throttle(gates=gates), limit(Limits(seconds=100), clock=clock.monotonic), around(handle)
        if leaves:
            assert turns.drive(world, turns.finish(), *policies) == "done"
            assert model.requests[0].tool_choice == "final_answer"
        else:
            with pytest.raises(LimitExceeded) as caught:
                turns.drive(world, turns.finish(), *policies)
            assert (caught.value.reason, model.requests) == ("seconds", [])
            gate.leave(holder)
        assert gate.enter().done(), "nobody stands in line any longer"

    def test_when_the_last_request_comes_too_late_the_error_names_the_limit(self, world):
        class Slow(ScriptedModel):
            def ask(self, request):
                time.sleep(request.timeout)
                raise ModelError("no answer in time", kind="timeout", transient=True)
                yield

        with pytest.raises(LimitExceeded, match="the last of its seconds") as caught:
            finish(world, Slow(), counter(), limits=Limits(seconds=0.2))
        assert caught.value.reason == "seconds"


def _sent(request: Request, limits: Limits, model=None) -> Request:
    """The request that goes out."""

    def asking():
        yield from ask(AskModel(model or ScriptedModel(), request))

    return next(limit(limits)(asking())).request


class Shop:
    """A model with prices: a tenth of a cent for each message, a cent for each 100 tokens of the reply; `spent` is what it took."""

    name = "shop"
    longest = 4_000

    def __init__(self, seed: int = 0, *tools: str, thrift: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.tools = tools
        self.thrift = thrift
        self.spent = 0.0
        self.asked = 0
        self.lock = threading.Lock()

    def worst_case(self, request: Request) -> float:
        return self.price(len(request.messages), min(request.max_tokens or self.longest, self.longest))

    def price(self, messages: int, tokens: int) -> float:
        return 0.001 * messages + 0.0001 * tokens

    def ask(self, request: Request):
        with self.lock:
            most = min(request.max_tokens or self.longest, self.longest)
            tokens = most if self.random.random() > self.thrift else self.random.randint(1, most)
            cost = self.price(len(request.messages), tokens)
            self.spent += cost
            self.asked += 1
            is_last = request.tool_choice == "final_answer"
            calls = [ToolCall("c", "final_answer", '{"text": "done"}')]
            if not is_last and self.tools:
                names = self.random.choices(self.tools, k=self.random.randint(1, 3))
                calls = [ToolCall(f"c{number}", name, "{}") for number, name in enumerate(names)]
            yield Reply(assistant(None, calls), Usage(1, 10, tokens, cost=cost))

    async def aask(self, request: Request):
        for piece in self.ask(request):
            yield piece


class TestDollars:
    def test_a_request_that_fits_goes_out_as_it_is(self):
        request = Request([user("?")], ToolRegistry(counter()))
        assert _sent(request, Limits(dollars=5), Shop()) == request

    def test_a_request_that_might_cost_too_much_gets_fewer_tokens(self):
        request = Request([user("?")], ToolRegistry(counter()))
        sent = _sent(request, Limits(dollars=0.2), Shop())
        kept = FINAL_REQUEST_GROWTH * Shop().worst_case(replace(request, max_tokens=MIN_REPLY_TOKENS))
        assert 0.19 - kept < Shop().worst_case(sent) <= 0.2 - kept
        assert sent.max_tokens > MIN_REPLY_TOKENS

    def test_a_models_own_limit_does_not_mislead(self):
        class Terse(Shop):
            longest = MIN_REPLY_TOKENS + 60

            def worst_case(self, request):
                return super().worst_case(request) + 0.01 * ((request.max_tokens or 9999) > 300)

        request = Request([user("?")], ToolRegistry(counter()))
        least = Terse().worst_case(replace(request, max_tokens=MIN_REPLY_TOKENS))
        sent = _sent(request, Limits(dollars=(1 + FINAL_REQUEST_GROWTH) * least + 0.005), Terse())
        assert Terse().worst_case(sent) <= least + 0.005

    def test_the_last_request_is_paid_from_what_was_kept(self, world):
        shop = Shop(0, "count")
        assert finish(world, shop, counter(), limits=Limits(dollars=1.0)).stopped == "dollars"
        assert shop.asked > 2
        assert shop.spent <= 1.0

    def test_where_there_is_too_little_from_the_start_nothing_is_spent(self, world):
        shop = Shop()
        with pytest.raises(LimitExceeded, match="the last of its dollars") as caught:
            finish(world, shop, counter(), limits=Limits(dollars=0.001))
        assert (caught.value.reason, shop.spent) == ("dollars", 0.0)

    def test_what_a_failed_request_set_aside_comes_back(self, world):
        class Failing(Shop):
            def ask(self, request):
                if self.asked < 5:
                    self.asked += 1
                    raise ModelError("down")
                yield from super().ask(request)

        turns = Turns(Failing(), counter())
        assert turns.drive(world, turns.take(), around(ask_again, AskModel), limit(Limits(dollars=0.6))) == "done"

    def test_a_reply_without_a_cost_costs_what_was_reserved(self, world):
        class Silent(Shop):
            def ask(self, request):
                for reply in super().ask(request):
                    yield replace(reply, usage=replace(reply.usage, cost=None))

        shop = Silent(3, "count", thrift=1.0)
        assert finish(world, shop, counter(), limits=Limits(dollars=2.0)).stopped == "dollars"
        assert shop.spent < 1.9

    def test_a_model_without_a_price_is_refused_before_anything_is_asked(self, world):
        model = ScriptedModel(DONE)
        with pytest.raises(
            RunError, match=r'scripted: its price is unknown.*input_cost_per_token=.*unknown_price="allow"'
        ):
            finish(world, model, counter(), limits=Limits(dollars=1))
        assert model.requests == []

    def test_it_may_be_allowed_and_is_reported_once(self, world):
        model = ScriptedModel(priced(call("count"), cost=0.4), priced(call("count"), cost=0.4), DONE)
        turns = finish(world, model, counter(), limits=Limits(dollars=1, unknown_price="allow"))
        assert [event.model for event in turns.events if isinstance(event, PriceUnknown)] == ["scripted"]

    def test_the_costs_that_its_replies_report_count(self, world):
        model = ScriptedModel(*[priced(call("count"), cost=0.4)] * 3, DONE)
        ran = run_stacked(world, model, counter(), limits=Limits(dollars=1, unknown_price="allow"))
        assert (ran.stopped, ran.answer) == ("dollars", "done"), "the final request comes on top"

    def test_without_a_limit_in_dollars_no_prices_are_read(self, world):
        class Bare(ScriptedModel):
            def worst_case(self, request):
                raise AssertionError

        finish(world, Bare(DONE), counter(), limits=Limits(tokens=9))


class TestRunsInsideOfTools:
    """A run inside of a tool draws from the budget of the run that calls the tool."""

    def outer(self, world, inner_model, outer_model, limits, inner_limits=None):
        def inner() -> str:
            return drive_here(limit(inner_limits)(Turns(inner_model, counter()).finish()))

        def ask_other() -> str:
            """Asks another agent."""
            return inner()

        async def ask_other_too() -> str:
            """Asks another agent, inside a coroutine."""
            return inner()

        return finish(world, outer_model, ask_other, ask_other_too, limits=limits)

    @pytest.mark.parametrize("tool", ["ask_other", "ask_other_too"])
    def test_tokens(self, world, tool):
        inner = ScriptedModel(priced(call("count"), 600), priced(call("count"), 600), answer("inner"))
        turns = self.outer(world, inner, ScriptedModel(call(tool), DONE), Limits(tokens=1000))
        assert turns.stopped == "tokens"
        assert turns.contents[0] == "inner", "the inner run ended when the outer budget was empty"
        inner.assert_done()

    def test_tool_calls(self, world):
        inner = Endless(call("count"), last=answer("inner"))
        turns = self.outer(world, inner, Endless(call("ask_other"), last=DONE), Limits(tool_calls=3))
        assert (turns.stopped, turns.contents[0]) == ("tool_calls", "inner")
        assert inner.asked == 4

    def test_seconds(self, world):
        inner = ScriptedModel(DONE)
        asked = []
        inner.script[0] = lambda request: asked.append(request.timeout) or DONE
        self.outer(world, inner, ScriptedModel(call("ask_other"), DONE), Limits(seconds=10))
        assert 6 < asked[0] <= 10 * (1 - FINAL_REQUEST_SHARE) ** 2

    def test_steps_are_each_runs_own(self, world):
        inner = ScriptedModel(*[call("count")] * 5, answer("inner"))
        assert self.outer(world, inner, ScriptedModel(call("ask_other"), DONE), Limits(steps=2)).stopped == "answer"
        inner.assert_done()

    def test_its_own_limits_are_kept_too_and_end_only_itself(self, world):
        inner = Endless(call("count"), last=answer("inner"))
        outer = ScriptedModel(call("ask_other"), DONE)
        turns = self.outer(world, inner, outer, Limits(tool_calls=9), Limits(tool_calls=2))
        assert (turns.stopped, turns.contents[0]) == ("answer", "inner")

    def test_a_run_that_comes_after_has_a_budget_of_its_own(self, world):
        for _ in range(2):
            model = ScriptedModel(call("count"), DONE)
            assert finish(world, model, counter(), limits=Limits(tool_calls=1)).stopped == "answer"

    def test_what_the_outer_run_kept_for_its_last_request_is_not_spent_inside(self, world):
        inner = Shop(1, "count")
        outer = Shop(2, "ask_other")
        assert self.outer(world, inner, outer, Limits(dollars=2.0)).stopped == "dollars"
        assert inner.asked > 0
        assert inner.spent + outer.spent <= 2.0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dollars=st.floats(0.01, 5.0),
    thrift=st.floats(0, 1),
    depth=st.integers(0, 2),
    own=st.none() | st.floats(0.05, 1.0),
)
def test_what_is_spent_is_never_more_than_the_limit(seed, dollars, thrift, depth, own):
    """Random scripts, with runs inside of the tools of runs, several of them at once."""
    shops = [
        Shop(seed + level, "count", "below" if level < depth else "count", thrift=thrift) for level in range(depth + 1)
    ]

    def level_of(level: int, limits: Limits | None):
        def below() -> str:
            """Asks the agent below."""
            return drive_here(level_of(level + 1, own and Limits(dollars=own)))

        return limit(limits, 6)(Turns(shops[level], counter(), below).finish())

    with suppress(LimitExceeded):
        assert drive_here(level_of(0, Limits(dollars=dollars))) == "done"
    assert sum(shop.spent for shop in shops) <= dollars + 1e-9


def test_a_run_that_is_left_in_a_request_gives_back_what_it_set_aside():
    outer = Budget(Limits(dollars=1))

    def leave():
        enclose([lambda: outer])
        flow = limit()(Turns(Shop(), counter()).take())
        next(flow)
        assert outer.held > 0
        flow.close()

    copy_context().run(leave)
    assert (outer.held, outer.dollars) == (0, 0)


def test_under_the_other_policies_a_limit_brings_the_final_request(world):
    model = Endless(call("count"), last=DONE)
    ran = run_stacked(world, model, counter(), limits=Limits(tool_calls=2))
    assert (ran.answer, ran.stopped, model.asked) == ("done", "tool_calls", 4)
    assert list(ran.requests[-1].tools) == ["final_answer"]


def test_an_agent_answers_at_its_limits(world):
    model = Endless(priced(call("count"), 400), last=DONE)
    result = world.run(JsonAgent(counter(), model=model, limits=Limits(tokens=1000)), "go")
    assert (result.answer, result.stopped, model.asked) == ("done", "tokens", 4)
