"""The journal of a run: each request and each call is written before it is made, and again with its outcome.

The policy is the outermost one, next to the driver, so it sees what is really done.  A resumed run gets the recorded
outcomes.  A call without an outcome is repeated if its tool only reads or is idempotent; of any other the model is
informed that the outcome is unknown.  A finished run returns its answer again, without model, tools and writes.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import field, replace
from functools import partial
from typing import Any

from ...core.ask_person import ask_line, is_consent
from ...core.background import run_in_thread
from ...core.errors import ExceptionInfo, Paused, RunStopped
from ...core.flow import Done, Effect, Event, Flow, Policy, WarningEvent, ask, interpret
from ...core.messages import ToolCall
from ...core.pending import describe_call
from ...core.values import frozen
from ...engine.loop import Answer
from ...engine.model import AskModel, Reply
from ...policies.pending import Consult
from ...tools.execution.call import UNKNOWN_OUTCOME, BoundCall, CallRefused, ToolResult
from ...tools.execution.call_tools import CallTools, ToolFinished, ToolStarted
from ...tools.registry import ToolRegistry
from ...tools.results.jsonable import to_answer_data
from ...tools.roles import runs_agent
from ...tools.settings import REPEATABLE_EFFECTS
from ...views.log import is_shown
from .run_info import has_key, preset_result, restore_result
from .store import JournalError
from .writer import JournalWriter, StoredAnswer

NOT_RECORDED = ExceptionInfo(
    "NotRecorded",
    "not run, because the call cannot be recorded now (the journal cannot be written), so that its effect could be "
    "repeated later. Tools that only read still run.",
)
REPEAT_QUESTION = "It began before the run was stopped. Repeat it? y, n, or its result: "


@frozen
class JournalFailed(WarningEvent):
    """The journal could not be written; the run continues, and the missing rows are written as soon as possible."""

    error: JournalError

    @property
    def notice(self) -> str:
        return f"the run is not recorded: {self.error}"


def outcome_of_error(error: BaseException, run: str | None = None) -> dict[str, Any]:
    """Return what is recorded of a run that ended with an error.

    The reader of a pause has no session, so the text says how `run` is resumed.
    """
    if isinstance(error, Paused):
        error = copy(error)
        error.run_id = error.run_id or run
    stopped = {"stopped": error.reason} if isinstance(error, RunStopped) else {}
    return {"error": f"{type(error).__name__}: {error}", **stopped}


def journal_policy(writer: JournalWriter) -> Policy:
    """Record a run with `writer`, and give it the outcomes that are recorded already.

    The conversation's `on_uncertain` decides about calls that began and have no outcome, see `Uncertain`.
    """

    def handle(effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            if recorded := writer.take_reply():
                return recorded
            yield from ask(WriteJournal(writer, partial(writer.begin_request, effect.model.name)))
            reply: Reply = yield from ask(effect)
            yield from ask(WriteJournal(writer, partial(writer.end_request, reply)))
            return reply
        yield from ask(WriteJournal(writer))
        if isinstance(effect, CallTools):
            calls = []
            for bound in effect.calls:
                if bound.call.id in writer.known:
                    bound = yield from _restore_call(bound, writer)
                if writer.append is None:  # agents inside the call are journaled too
                    bound = bound.within(lambda: writer)
                calls.append(_guard(bound, writer))
            others = effect.writers if isinstance(effect, JournaledCalls) else ()
            effect = JournaledCalls(**{**vars(effect), "calls": tuple(calls), "writers": (*others, writer)})
        return (yield from ask(effect))

    def policy(flow: Flow[Any]) -> Flow[Any]:
        try:
            answer: Answer = yield from interpret(flow, handle)
        except Exception as error:
            status = "paused" if isinstance(error, Paused) else "failed"
            run = writer.run if writer.append is None else None  # an inner run continues with the enclosing one
            with suppress(JournalError):
                yield from ask(WriteJournal(writer, partial(writer.end_run, status, outcome_of_error(error, run))))
            raise
        outcome = {"answer": to_answer_data(answer.value), "stopped": answer.stopped}
        yield from ask(WriteJournal(writer, partial(writer.end_run, "finished", outcome)))
        return answer

    return policy


@frozen
class WriteJournal:
    """An effect that calls `note`, which adds rows, and writes all new rows into the journal."""

    writer: JournalWriter
    note: Callable[[], None] | None = None

    def perform(self) -> Generator[Event, None, None]:
        if error := self.writer.write(self.note):
            failed = JournalFailed(error)
            if not is_shown():  # else the log shows it
                sys.stderr.write(f"agentkit: {failed.notice}\n")
            yield failed

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        for event in await self.events():
            yield event
        yield Done(None)

    async def events(self) -> list[Event]:
        """Write in a thread, because a locked or slow disk would block the event loop; return the events."""
        return await run_in_thread(lambda: [*self.perform()])


@frozen(slots=False)
class JournaledCalls(CallTools):
    """`CallTools` that writes each call before it begins and when it has its result.

    Calls that have finished when the turn is stopped are written too, although the loop does not get their results.
    """

    writers: tuple[JournalWriter, ...] = field(kw_only=True)

    def perform(self) -> Generator[Event, None, list[ToolResult]]:
        try:
            return (yield from interpret(CallTools.perform(self), self._kept))
        finally:
            self._write_rest()

    async def aperform(self) -> AsyncGenerator[Event | Done[list[ToolResult]], None]:
        try:
            async with aclosing(CallTools.aperform(self)) as events:
                async for event in events:
                    for write in self._writes(event):
                        for warning in await write.events():
                            yield warning
                    yield event
        finally:
            self._write_rest()

    def _kept(self, event: Event) -> Generator[Event, None, None]:
        for write in self._writes(event):
            yield from write.perform()
        yield event

    def _writes(self, event: Event | Done[Any]) -> Iterator[WriteJournal]:
        for writer in self.writers:
            if isinstance(event, ToolStarted):
                yield WriteJournal(writer, partial(writer.begin_call, event.call))
            elif isinstance(event, ToolFinished):
                yield WriteJournal(writer, partial(writer.end_call, event.result))

    def _write_rest(self) -> None:
        with suppress(JournalError):
            for result in [*self.finished.values()]:
                for writer in self.writers:
                    writer.end_call(result)


def _guard(bound: BoundCall, writer: JournalWriter) -> BoundCall:
    """Return the call as one that does not run if it may have an effect and its beginning is not recorded."""
    if bound.tool is None or bound.problem is not None or bound.is_answer or bound.tool.effect in REPEATABLE_EFFECTS:
        return bound
    return replace(bound, run=partial(_run_recorded, bound, writer))


def _run_recorded(bound: BoundCall, writer: JournalWriter) -> Any:
    if not writer.may_run(bound.call.id):
        raise CallRefused(NOT_RECORDED)
    return bound.run()


def _restore_call(bound: BoundCall, writer: JournalWriter) -> Flow[BoundCall]:
    """Return a call that began before as it is to be made now: with its result, if that is recorded."""
    outcome = writer.known.pop(bound.call.id)
    if outcome is not None:
        return restore_result(bound, outcome)
    if _runs_again(bound, writer.inner):
        return bound if _can_run(bound) else preset_result(bound, UNKNOWN_OUTCOME)
    decision: Any = None
    if (on_uncertain := writer.conversation.on_uncertain) is not None:
        decision = yield from ask(Consult(_ask_person if on_uncertain == "ask" else on_uncertain, bound.to_decide))
    if decision is True and _can_run(bound):
        return bound
    return preset_result(bound, UNKNOWN_OUTCOME if decision is None or isinstance(decision, bool) else decision)


def _can_run(bound: BoundCall) -> bool:
    """Return whether nothing stands in the way of a call, which would then read that it was not run."""
    return bound.problem is None and (bound.timeout is None or bound.timeout > 0)


def _runs_again(bound: BoundCall, inner: Mapping[str, str]) -> bool:
    """Return whether a call that had begun is made again: if that has no effect, or continues the agents inside it.

    Those are an agent as a tool, or the agents that a function calls which does not declare that it changes something.
    An agent that is not recorded has made no call yet.
    """
    if bound.tool is not None and runs_agent(bound.tool):
        return True
    effect = bound.tool.effect if bound.tool is not None else "unknown"
    has_agents = has_key(inner, bound.call.id)
    return bound.call.id in inner or effect in REPEATABLE_EFFECTS or (effect is None and has_agents)


def _ask_person(call: ToolCall) -> Any:
    """Ask the person at the terminal about a call; return None if there is no terminal."""
    decision = ask_line(f"\n{describe_call(call)}\n{REPEAT_QUESTION}") or ""
    return True if is_consent(decision) else {"": None, "n": None, "no": None}.get(decision.lower(), decision)


def repeat_answer(tools: ToolRegistry, stored: StoredAnswer) -> Flow[Answer]:
    """Return the stored answer: typed, if the recorded call of the answer tool is still valid; else as JSON."""
    for bound in map(tools.bind, stored.calls):
        if bound.is_answer:
            with suppress(Exception):
                results: Any = yield from ask(CallTools((bound,)))
                if results[0].error is None:
                    return Answer(results[0].value, stored.run.stopped)
    return Answer(stored.run.answer, stored.run.stopped)
