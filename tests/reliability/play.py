"""A scenario: a scripted provider, an agent with a few tools, and the outcomes of a query and of a second one after it.

The server is strict: it rejects what the provider would reject.
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentkit import JsonAgent
from agentkit.core.flow import Event, Sleep
from agentkit.engine.result import Result, RunFinished
from agentkit.testing import ModelServer, answer

KEY = "sk-test-0123456789abcdef"
MODELS = {
    "openai": "openai/gpt-4o-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "gemini3": "gemini/gemini-3-pro-preview",
    "mistral": "mistral/mistral-large-latest",
}
MAY_BE_LATE = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
"""litellm creates a coroutine in a thread before it awaits it; on a busy machine the timeout may expire in between."""
WORLDS = ["sync", "async", "sync-streamed", "async-streamed"]
FASTER = 0.02
"""The factor by which waits between retries are shortened."""


# ----- replies of a model


def call(name: str, arguments: Any = None, /, **more: Any) -> dict[str, Any]:
    """Return one call; `arguments` is an object, or text as the model writes it; `more` are further keys (`id`, `type`)."""
    return {"name": name, "arguments": {} if arguments is None else arguments, **more}


def calls(*made: dict[str, Any], **reply: Any) -> dict[str, Any]:
    return {"tool_calls": list(made), **reply}


def final(text: Any = "done", **reply: Any) -> dict[str, Any]:
    return {**answer(text=text), **reply}


QUERY = "What does tea cost?"
TEA = call("price_of", {"item": "tea"})
COFFEE = call("price_of", {"item": "coffee"})


def reply_unless(text: str, instead: Any, then: Any) -> Callable[[Any], Any]:
    """Return a model that replies `then` if the last message contains `text`, otherwise `instead`."""

    def reply(body: Any) -> Any:
        last = json.dumps([message for message in _messages(body) if message["role"] != "system"][-1])
        return then if text in last else instead

    return reply


def answer_about_tea(body: Any) -> Any:
    """Reply as a model that needs one call for its answer."""
    return reply_unless("3.5", calls(TEA), final("3.5"))(body)


def fail_once(fault: Any, text: str, model: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a model that replies as `model`, but with `fault` the first time that the last message contains `text`."""
    has_read = reply_unless(text, False, True)
    faults = [fault]

    def reply(body: Any) -> Any:
        return faults.pop() if faults and has_read(body) else model(body)

    return reply


def _messages(body: Any) -> list[Any]:
    return body.get("messages") or body["contents"]


# ----- tools


def price_of(item: str) -> float:
    """Look up the price of an item."""
    return {"tea": 3.5, "coffee": 4.25}[item]


def convert(amount: float, currency: str = "USD") -> str:
    """Convert an amount of euros into another currency."""
    return f"{amount * 2:.2f} {currency}"


@dataclass
class RecordedCall:
    """A call of a tool with its arguments, defaults included."""

    name: str
    arguments: dict[str, Any]


def record_calls(function: Any, ran: list[RecordedCall]) -> Any:
    """Wrap `function` so that its calls are recorded; tools that are no plain functions stay as they are."""
    if not inspect.isfunction(function):
        return function

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        ran.append(RecordedCall(function.__name__, dict(bound.arguments)))
        return function(*args, **kwargs)

    if not inspect.iscoroutinefunction(function):
        return record

    @functools.wraps(function)
    async def arecord(*args: Any, **kwargs: Any) -> Any:
        return await record(*args, **kwargs)

    return arecord


# ----- outcomes


@dataclass
class Outcome:
    """One query and its outcome."""

    server: ModelServer
    agent: JsonAgent[Any]
    ran: list[RecordedCall]
    slept: list[float]
    result: Result[Any] | None = None
    error: BaseException | None = None
    events: list[Event] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    """The requests of the first query."""
    messages: list[Any] = field(default_factory=list)
    """The conversation after it."""

    @property
    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result.answer

    @property
    def tool_texts(self) -> list[str]:
        """The texts of the tool messages, in order."""
        contents = [message["content"] for message in self.messages if message["role"] == "tool"]
        return [content if isinstance(content, str) else json.dumps(content) for content in contents]

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The arguments of the tool calls, sorted, because calls of one turn begin in any order."""
        return sorted((entry.arguments for entry in self.ran), key=str)


@dataclass
class Play:
    """Play scenarios in one of the worlds, streamed or not."""

    world: str
    slept: "Sleeps"

    @property
    def is_streamed(self) -> bool:
        return self.world.endswith("streamed")

    @property
    def is_async(self) -> bool:
        return self.world.startswith("async")

    def __call__(
        self,
        replies: Any,
        tools: Any = (price_of, convert),
        query: str = QUERY,
        wire: str = "openai",
        opens_after: float = 0.0,
        faster: float = FASTER,
        **options: Any,
    ) -> Outcome:
        """Run `query` against the model's `replies`, then a second query, which must work on the same agent."""
        ran: list[RecordedCall] = []
        self.slept.clear()
        self.slept.faster = faster
        with ModelServer(list(replies), opens_after=opens_after) as server:
            agent = self.agent(server, [record_calls(tool, ran) for tool in tools], wire, **options)
            outcome = Outcome(server, agent, ran, self.slept)
            try:
                outcome.result, outcome.events = self.run(agent, query)
            except BaseException as error:
                outcome.error = error
            outcome.bodies = [request.body for request in server.requests]
            outcome.messages = list(agent.history)
            outcome.ran = list(ran)
            outcome.slept = list(self.slept)
            assert server.violations == []
            self.again(server, agent)
        return outcome

    def agent(self, server: ModelServer, tools: Any, wire: str = "openai", **options: Any) -> JsonAgent[Any]:
        base = server.api_base(wire.rstrip("3"))
        return JsonAgent(list(tools), model=MODELS[wire], **{"api_base": base, "api_key": KEY, **options})

    def run(self, agent: JsonAgent[Any], query: str, **settings: Any) -> tuple[Result[Any], list[Event]]:
        """Return the result of a run in this world, and the events if it is streamed."""
        if not self.is_streamed:
            run = asyncio.run(agent.arun(query, **settings)) if self.is_async else agent.run(query, **settings)
            return run, []
        if self.is_async:
            events = asyncio.run(_collect(agent, query, settings))
        else:
            events = list(agent.stream(query, **settings))
        last = events[-1]
        assert isinstance(last, RunFinished)
        return last.result, events

    def again(self, server: ModelServer, agent: JsonAgent[Any]) -> None:
        """Check the ground rule: the next query on the same agent works after any outcome."""
        server.play([final("still working")] * 9)
        assert self.run(agent, "And now?")[0].answer == "still working"
        assert server.violations == []


async def _collect(agent: JsonAgent[Any], query: str, settings: dict[str, Any]) -> list[Event]:
    async with aclosing(agent.astream(query, **settings)) as events:
        return [event async for event in events]


class Sleeps(list[float]):
    """The seconds of all `Sleep` steps; each takes the fraction `faster` of them."""

    faster = FASTER

    def shorten(self, effect: Sleep) -> Sleep:
        self.append(effect.seconds)
        return Sleep(effect.seconds * self.faster)


def quick_sleeps(monkeypatch: Any) -> Sleeps:
    """Shorten every `Sleep`."""
    slept = Sleeps()
    perform = Sleep.perform
    aperform = Sleep.aperform
    monkeypatch.setattr(Sleep, "perform", lambda effect: perform(slept.shorten(effect)))
    monkeypatch.setattr(Sleep, "aperform", lambda effect: aperform(slept.shorten(effect)))
    return slept
