"""Calls that only read begin while the reply still streams in: as soon as their arguments are complete.

Nothing is seen of it but the time that is saved.  When the turn's calls are run, such a call waits for what it began;
what no call asks for after all (the reply was withdrawn, a limit, no approval) is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..core.ask_person import Person
from ..core.background import MAX_ITEMS, aresolve, resolve, start_coroutine, start_thread
from ..core.context import RunContext, wants_run
from ..core.flow import Done, Effect, Event, Flow, Policy, ask, interpret
from ..core.messages import ToolCall
from ..core.threads import on_cancel
from ..engine.model import AskModel, Reply, ToolCallDelta
from ..tools.arguments.json_text import is_strict_object
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools, is_ordered, read_key
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.settings import ORDERED_EFFECTS
from .approval import AUTHORITY

TRIES = 8
"""How often the arguments of one call are looked at for being complete, before the next call has begun."""


def early_reads(context: RunContext[Any] | None = None) -> Policy:
    """Begin with the calls of tools that are declared as "read" while the reply streams in.

    Not with those that want the run's context (which tells the id of the call), are kept apart or isolated, and not
    with what stands after a call that changes something, and with none where a function decides about every call.
    `context` fills the other hidden parameters.  It belongs innermost, so that what other policies make of a call is
    made of what it began, too.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        begun = _Begun(context or RunContext(None))

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, AskModel) and effect.request.stream:
                effect = WatchedAsk(effect.model, effect.request, effect.variables, begun=begun)
            if not isinstance(effect, CallTools):
                return (yield from ask(effect))
            try:
                return (yield from ask(replace(effect, calls=begun.joined(effect.calls))))
            finally:
                begun.drop()

        try:
            return (yield from interpret(flow, handle, (AskModel, CallTools)))
        finally:
            begun.drop()

    return policy


@dataclass(frozen=True, slots=True)
class WatchedAsk(AskModel):
    """`AskModel` that shows `begun` each piece of a call."""

    begun: _Begun = field(kw_only=True)

    def perform(self) -> Generator[Event, None, Reply]:
        seen = self.begun.watch(self, None)

        def show(event: Event) -> Generator[Event, None, None]:
            if isinstance(event, ToolCallDelta):
                seen(event)
            yield event

        return interpret(AskModel.perform(self), show)

    async def aperform(self) -> AsyncGenerator[Event | Done[Reply], None]:
        seen = self.begun.watch(self, asyncio.get_running_loop())
        async with aclosing(AskModel.aperform(self)) as events:
            async for event in events:
                if isinstance(event, ToolCallDelta):
                    seen(event)
                yield event


class _Begun:
    """The reads that were begun for the next turn."""

    def __init__(self, context: RunContext[Any]) -> None:
        self._context = context
        self._reads: dict[object, _Read] = {}

    def watch(self, asked: AskModel, loop: asyncio.AbstractEventLoop | None) -> Callable[[ToolCallDelta], object]:
        """What is to see the pieces of the calls of one reply, in a blocking run or on `loop`."""
        if _is_asked_first():
            return lambda _: None
        return _Forming(asked.request.tools, self._context, partial(self._begin, asked, loop)).take

    def _begin(self, asked: AskModel, loop: asyncio.AbstractEventLoop | None, bound: BoundCall) -> None:
        key = read_key(bound)
        if key is not None and key not in self._reads:
            for variable, value in asked.variables:  # as the policies set them for the calls of a turn
                bound = bound.with_variable(variable, value)
            self._reads[key] = _Read(bound, loop)

    def joined(self, calls: Sequence[BoundCall]) -> tuple[BoundCall, ...]:
        """The calls of the turn; those that were begun wait for what they began."""
        if not self._reads:
            return tuple(calls)
        first = next((place for place, bound in enumerate(calls) if is_ordered(bound)), len(calls))
        return (*map(self._joined, calls[:first]), *calls[first:])

    def _joined(self, bound: BoundCall) -> BoundCall:
        read = self._reads.get(read_key(bound))
        return bound if read is None else replace(bound, run=partial(read.join, bound.run))

    def drop(self) -> None:
        """Forget what was begun, and give up what still goes on."""
        while self._reads:
            self._reads.popitem()[1].drop()


class _Read:
    """A read that has begun, and that a call of the turn may join."""

    def __init__(self, bound: BoundCall, loop: asyncio.AbstractEventLoop | None) -> None:
        self._outcome: Future[Any] = Future()
        self._is_joined = False
        self._is_async = bound.tool is not None and bound.tool.is_async
        if self._is_async:
            self._stop = start_coroutine(self._await(bound), loop)
        else:
            self._stop = start_thread(partial(self._run, bound, loop)).cancel

    def join(self, run: Callable[[], Any]) -> Any:
        """What came of the read, the first time; when the call is made again, `run` is run."""
        if self._is_joined:
            return run()
        self._is_joined = True
        if self._is_async:
            return self._ajoin()
        with on_cancel(self.drop):
            return self._outcome.result()

    async def _ajoin(self) -> Any:
        try:
            return await asyncio.shield(asyncio.wrap_future(self._outcome))
        finally:
            self.drop()

    def drop(self) -> None:
        """Wait for it no longer."""
        if not self._outcome.done():
            self._stop()
            self._tell(self._outcome.set_exception, asyncio.CancelledError())

    def _run(self, bound: BoundCall, loop: asyncio.AbstractEventLoop | None) -> None:
        try:
            self._tell(self._outcome.set_result, resolve(bound.run(), MAX_ITEMS, loop))
        except BaseException as error:
            self._tell(self._outcome.set_exception, error)

    async def _await(self, bound: BoundCall) -> None:
        try:
            self._tell(self._outcome.set_result, await aresolve(bound.run(), MAX_ITEMS))
        except BaseException as error:
            self._tell(self._outcome.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with suppress(InvalidStateError):  # it was dropped, or has just ended
            settle(outcome)


class _Forming:
    """The calls of one reply as they form; `begin` is given each that only reads, as soon as it is complete."""

    def __init__(self, tools: ToolRegistry, context: RunContext[Any], begin: Callable[[BoundCall], object]) -> None:
        self._tools = tools
        self._context = context
        self._begin = begin
        self._index = -1
        self._name = ""
        self._pieces: list[str] = []
        self._depth = 0
        self._tries = TRIES
        self._has_ended = True
        self._is_over = False

    def take(self, delta: ToolCallDelta) -> None:
        """Add a piece of a call."""
        if delta.index != self._index:
            self._end("".join(self._pieces))
            self._is_over |= delta.index < self._index  # calls that form side by side are left alone
            self._index, self._name, self._pieces, self._depth = delta.index, "", [], 0
            self._tries, self._has_ended = TRIES, False
        self._name = delta.name or self._name
        self._pieces.append(delta.arguments)
        self._depth += delta.arguments.count("{") - delta.arguments.count("}")
        if self._depth == 0 and delta.arguments.rstrip().endswith("}") and self._tries:
            self._tries -= 1
            text = "".join(self._pieces)
            if is_strict_object(text):
                self._end(text)

    def _end(self, text: str) -> None:
        """The current call is complete."""
        if self._is_over or self._has_ended:
            return
        self._has_ended = True
        tool = self._tools.get(self._name)
        if tool is None or tool.effect in ORDERED_EFFECTS:  # an unknown name may be meant for such a tool
            self._is_over = True  # what reads after it must see what it changes
        elif _may_begin(tool):
            bound = self._tools.bind(ToolCall("", self._name, text), self._context)
            if bound.problem is None and not bound.repairs:
                self._begin(bound)


def _is_asked_first() -> bool:
    """Whether the run around this one decides about each call before it is made."""
    authority = AUTHORITY.get()
    return authority is not None and authority.decide is not None and not isinstance(authority.decide, Person)


def _may_begin(tool: JsonTool[..., Any]) -> bool:
    is_free = tool.fifo_lock is None and tool.isolate is None and not wants_run(tool.arguments.injected.values())
    return is_free and tool.effect == "read"
