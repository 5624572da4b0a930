"""Calls that wait for a person's word: allowed, refused with a reason, made with other arguments, or decided on later.

A turn runs as a whole: as long as one of its calls is undecided, none of them is run, and the run ends with `Paused`.
What was decided by then is kept with the conversation, and so are the paused agents inside its tools.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..core.ask_person import Person, escape_unprintable
from ..core.background import aresolve, is_async, resolve, run_in_thread
from ..core.errors import DefinitionError, ExceptionInfo, Paused
from ..core.flow import Done, Emit, Event, Flow, Policy, WarningEvent, around, ask
from ..core.messages import ToolCall
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools

Decision: TypeAlias = bool | str | dict[str, Any]
"""True: the call is made; False or a reason: it is not, and the model reads why; a dict: made with these arguments."""
Decide: TypeAlias = Callable[[ToolCall], Any]
"""Gives the `Decision` about a call; None to leave a dangerous one to somebody else and to allow any other; `Paused` to
let it wait in any case.  May be a coroutine function; in an asynchronous run any other is called in a thread."""

NOT_ALLOWED = "this call was not allowed."


@dataclass(frozen=True, slots=True)
class ApprovalAsked(WarningEvent):
    """A call waits for a decision, because of `reason`."""

    call: ToolCall
    reason: str

    @property
    def waits_for(self) -> str:
        return f"for a decision about {self.call.name}"

    @property
    def notice(self) -> str:
        return f"{self.call.name} waits for a decision: {self.reason}"


@dataclass(frozen=True, slots=True)
class ApprovalGiven(Event):
    """It is decided what becomes of a call."""

    call: ToolCall
    decision: Decision

    @property
    def waits_for(self) -> str:
        return ""

    @property
    def notice(self) -> str:
        if isinstance(self.decision, dict):
            return f"{self.call.name}: allowed with other arguments: {json.dumps(self.decision, ensure_ascii=False)}"
        refused = f"refused: {self.decision}" if self.decision else "refused"
        return f"{self.call.name}: {'allowed' if self.decision is True else refused}"


@dataclass(eq=False)
class Approvals:
    """What the calls of a conversation wait for, and what is decided about them by now, by the ids of the calls.

    `nested` holds the sessions of agents that paused inside a tool, by the id of the call that waits for them; their
    calls are known here as "outer id/inner id".
    """

    waiting: list[str] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)
    nested: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Approver:
    """Who decides in a run; the runs inside its tools inherit it."""

    decide: Decide | None
    approvals: Approvals


APPROVER: ContextVar[Approver | None] = ContextVar("authority", default=None)


def approve(decide: Decide | Literal["ask"] | None = None, approvals: Approvals | None = None) -> Policy:
    """Let calls wait for a decision: those of tools with `effect="danger"`, and those that say why they need one.

    `decide` is asked about every call but the answer's; "ask" asks the person at the terminal or in the notebook, and
    only about calls that need it.  Without it, who decides in the run around this one decides here too.  `approvals`
    holds the decisions that were made beforehand.  Raises `Paused` when nobody decides.
    """
    desk = _ApprovalPolicy(Person() if decide == "ask" else decide, approvals or Approvals())

    def handle(effect: CallTools) -> Flow[Any]:
        decided = []
        for bound in effect.calls:
            decided.append((yield from desk.decided(bound)))
        results = yield from ask(replace(effect, calls=desk.released(effect.calls, decided)))
        for result in results:  # a run that is stopped meanwhile goes on with what was decided
            desk.approvals.decisions.pop(result.call.id, None)
        return [desk.told(result) for result in results]

    return around(handle, CallTools)


@dataclass
class _ApprovalPolicy:
    """Where the calls of one run are decided on."""

    decide: Decide | None
    approvals: Approvals
    problems: dict[str, str] = field(default_factory=dict)
    edited: dict[str, str] = field(default_factory=dict)

    def decided(self, bound: BoundCall) -> Flow[BoundCall | None]:
        """The call as it is to be run; None if it waits."""
        reason = _find_reason(bound)
        decide = self.decide or _inherit_decide()
        consulted = decide is not None and not bound.is_answer and not isinstance(decide, Person)
        if bound.problem is not None or not (reason or consulted):
            return bound
        decisions, identity = self.approvals.decisions, bound.call.id
        if reason and identity not in decisions:
            yield from ask(Emit(ApprovalAsked(bound.call, reason)))
        while True:
            decision = decisions.pop(identity, None)
            if decision is None and decide is not None:
                decision = yield from _consult(Consult(decide, bound.call, self.problems.get(identity, "")))
            if not reason and decision is None:
                return bound
            if not reason and decision is True:
                decisions[identity] = True
                return bound
            if not isinstance(decision, bool | str | dict):
                if not reason:
                    yield from ask(Emit(ApprovalAsked(bound.call, "it was asked to wait")))
                return None
            done = self._applied(bound, decision)
            if done is not None:
                decisions[identity] = decision
                self.problems.pop(identity, None)
                yield from ask(Emit(ApprovalGiven(bound.call, decision)))
                return done
            if not isinstance(decide, Person):
                return None

    def _applied(self, bound: BoundCall, decision: Decision) -> BoundCall | None:
        """The call as it was decided; None if the arguments that it was given are not valid."""
        call = bound.call
        if decision is True:
            return bound
        if not isinstance(decision, dict):
            return BoundCall.impossible(call, ExceptionInfo("Denied", decision or NOT_ALLOWED), bound.tool)
        assert bound.tool is not None  # the call of an unknown tool has a problem
        again = bound.tool.bind(decision, bound.context)
        if isinstance(again.ready, ExceptionInfo):
            self.problems[call.id] = again.ready.message
            return None
        self.edited[call.id] = again.arguments
        return replace(bound, call=replace(call, arguments=again.arguments), run=again.ready)

    def released(self, calls: Sequence[BoundCall], decided: Sequence[BoundCall | None]) -> tuple[BoundCall, ...]:
        """The calls of the turn, decided on; raises `Paused` if one of them is not."""
        waiting = [asked.call for asked, bound in zip(calls, decided, strict=True) if bound is None]
        self.approvals.waiting[:] = [call.id for call in waiting]
        if waiting:
            raise make_pause_error(waiting, self.problems)
        return tuple(bound.with_variable(APPROVER, self.authority) for bound in decided if bound is not None)

    @property
    def authority(self) -> Approver:
        """Who decides in runs inside of the calls of this one."""
        return Approver(self.decide or _inherit_decide(), self.approvals)

    def told(self, result: ToolResult) -> ToolResult:
        """The result; the model is told if the call was not the one that it made."""
        if (arguments := self.edited.get(result.call.id)) is None:
            return result
        return replace(result, content=f"[A person changed the arguments to {arguments}]\n{result.content}")


def make_pause_error(calls: Sequence[ToolCall], problems: Mapping[str, str]) -> Paused:
    """The error that ends a run because of these calls; it says how to go on."""
    shown = "; ".join(f"{call.id!r}: {call.name}({escape_unprintable(call.arguments, 200)})" for call in calls)
    wrong = "".join(
        f" The arguments given for {identity!r} are not valid: {text}" for identity, text in problems.items()
    )
    error = Paused(
        f"{len(calls)} of the model's calls wait for a decision: {shown}.{wrong} Decide and go on: "
        f"agent.run(session=error.session, approvals={{{calls[0].id!r}: True}}), or a reason to refuse it, or other "
        "arguments as a dict."
    )
    error.calls = tuple(calls)
    return error


@dataclass(frozen=True, slots=True)
class Consult:
    """The effect that asks `decide` about a call."""

    decide: Decide
    call: ToolCall
    problem: str = ""

    def perform(self) -> Generator[Event, None, Any]:
        yield from ()
        return resolve(self._said())

    async def aperform(self) -> AsyncGenerator[Event | Done[Any], None]:
        said = self._said() if is_async(self.decide) else await run_in_thread(self._said)
        yield Done(await aresolve(said))

    def _said(self) -> Any:
        if isinstance(self.decide, Person):
            return self.decide(self.call, self.problem)
        return self.decide(self.call)


def _consult(effect: Consult) -> Flow[Any]:
    """What was said about a call: a decision, None, or `Paused`."""
    try:
        said = yield from ask(effect)
    except Paused:
        return Paused
    if said is None or isinstance(said, bool | str | dict):
        return said
    if said is Paused or isinstance(said, Paused):
        return Paused
    raise DefinitionError(
        f"approve= must give True, False, a reason (str), other arguments (dict), None or Paused for a call, "
        f"not {type(said).__name__}"
    )


def _find_reason(bound: BoundCall) -> str:
    """Why somebody must decide about a call; "" if nobody need."""
    is_dangerous = bound.tool is not None and bound.tool.effect == "danger"
    return bound.needs_approval or ("its tool is declared as dangerous" if is_dangerous else "")


def _inherit_decide() -> Decide | None:
    authority = APPROVER.get()
    return authority.decide if authority else None
