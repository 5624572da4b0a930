"""Approvals: calls that wait for a decision, which allows them, refuses them, changes their arguments or is postponed.

A turn runs as a whole: while one of its calls is undecided, none of them runs, and the run ends with `Paused`.  Each
decision is bound to the name and the arguments that it was made about.  The decisions so far are stored with the
conversation, and so are the paused agents inside its tools.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..core.ask_person import (
    PendingCall,
    Person,
    PersonAnswer,
    Scope,
    UntrustedValue,
    describe_reference,
    escape_unprintable,
)
from ..core.enclosing import enclosing
from ..core.errors import DefinitionError, ExceptionInfo, Paused, RunError
from ..core.flow import Emit, Event, Flow, Policy, WarningEvent, around, ask
from ..core.masking import mask
from ..core.messages import ToolCall
from ..core.portable import to_canonical_text
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.settings import REPEATABLE_EFFECTS
from .consult import ConsultPerson, Decide, check_reason, consult

Decision: TypeAlias = bool | str | dict[str, Any]
"""True: run the call; False or a reason: refuse it, and the model reads why; a dict: run it with these arguments."""


def digest_call(call: ToolCall) -> str:
    """Return a digest of a call's name and arguments, followed by the name; the layout of the JSON does not matter."""
    text = f"{call.name}\0{to_canonical_text(call.arguments)}".encode(errors="surrogatepass")
    return f"{hashlib.sha256(text).hexdigest()}:{call.name}"


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision, the digest of the call that it was made about (None in a replay), and what else it holds for."""

    decision: Decision
    digest: str | None
    scope: Scope = "call"

    def fits(self, call: ToolCall) -> bool:
        """Return whether the decision is about this call; for one with new arguments, the name alone counts."""
        if self.digest is None:
            return True
        if isinstance(self.decision, dict):
            return self.digest.partition(":")[2] == call.name
        return self.digest == digest_call(call)


def find_allowable(bound: BoundCall) -> Sequence[UntrustedValue]:
    """Return the values of a call that can be allowed from now on; none of a dangerous tool."""
    return () if bound.tool is not None and bound.tool.effect == "danger" else bound.untrusted


@dataclass(eq=False)
class Grants:
    """What a person allowed from now on: values of a tool's parameters that need no further decision.

    Grants hold in the conversation and the process in which they were given; no file contains them.
    """

    values: set[tuple[str, str, str]] = field(default_factory=set)
    recipients: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, tool: str, untrusted: Sequence[UntrustedValue], scope: Scope) -> None:
        """Allow the untrusted values of a call, or its destinations, if that is the scope of the decision."""
        if scope == "values":
            self.values |= {_key(tool, value) for value in untrusted}
        elif scope == "recipients":
            self.recipients |= {_key(tool, value) for value in untrusted if value.is_destination}

    def cover(self, tool: str, untrusted: Sequence[UntrustedValue]) -> bool:
        """Return whether a call of the tool with these untrusted values is allowed without a decision.

        Each value must be allowed, or each destination, of which there is one: then the other values do not matter.
        """
        destinations = [value for value in untrusted if value.is_destination]
        keys = {_key(tool, value) for value in untrusted}
        if not keys:
            return False
        return keys <= self.values or (
            bool(destinations) and {_key(tool, value) for value in destinations} <= self.recipients
        )


def _key(tool: str, value: UntrustedValue) -> tuple[str, str, str]:
    return tool, re.sub(r"\[\d+\]", "[]", value.where), json.dumps([value.value, value.readers])


def check_decisions(approvals: Any) -> None:
    """Raise `DefinitionError` for decisions that are not given by calls, and for a yes that is given as a text."""
    if not isinstance(approvals, Mapping):
        raise DefinitionError(
            f"approvals must have a decision for each call, got {approvals!r:.40}. To allow all calls that wait: "
            "approvals=dict.fromkeys(pause.calls, True)"
        )
    for key, decision in approvals.items():
        check_reason(decision, f"approvals[{key.id if isinstance(key, ToolCall) else key!r}] is")


@dataclass(eq=False)
class Approvals:
    """The pending calls of a conversation and the decisions about them, by the ids of the calls.

    Decisions stay in the process: a file of a session or a journal does not bring any.

    Attributes:
        waiting: The digests of the calls that wait, as they were when the run paused.
        decisions: What was decided and not yet carried out.
        nested: The sessions of agents that paused inside a tool, by the id of the tool's call (of an agent that a
            function calls: by its id inside that call).  Their calls have the ids "outer id/inner id" here.
        inner_answers: The answers of agents that a function has called, in case the function runs again, by their ids.
        grants: What a person allowed from now on.
        begun: Decisions about calls that a journal answers, because they had begun when the run stopped.
    """

    waiting: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, StoredDecision] = field(default_factory=dict)
    nested: dict[str, Any] = field(default_factory=dict)
    inner_answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)
    begun: dict[str, Decision] = field(default_factory=dict)

    def accept(self, approvals: Mapping[Any, Any], pending: Iterable[ToolCall]) -> None:
        """Store decisions of the caller, by calls or by their ids.

        A decision is about the call as it was when the run paused, or, where the key is a `ToolCall`, about exactly
        that call.

        Raises:
            RunError: No pending call has the id, or the value is not a decision.
            DefinitionError: They are not given by calls, or a yes is given as a text, which would refuse the call.
        """
        check_decisions(approvals)
        known = {call.id: call for call in pending}
        accepted = {}
        for key, decision in approvals.items():
            identity = key.id if isinstance(key, ToolCall) else key
            if identity not in known:
                ids = ", ".join(map(repr, sorted(known))) or "none"
                raise RunError(f"approvals: no pending call has the id {identity!r}. Pending: {ids}.")
            if isinstance(decision, StoredDecision):
                accepted[identity] = decision
                continue
            answer = decision if isinstance(decision, PersonAnswer) else PersonAnswer(decision)
            if not isinstance(answer.decision, bool | str | dict):
                raise RunError(
                    f"approvals[{identity!r}] must be True, False, a reason (str) or other arguments (dict), "
                    f"got {type(decision).__name__}"
                )
            digest = digest_call(key) if isinstance(key, ToolCall) else self.find_digest(identity)
            accepted[identity] = StoredDecision(answer.decision, digest or digest_call(known[identity]), answer.scope)
        self.decisions.update(accepted)

    def find_digest(self, identity: str) -> str | None:
        """Return the digest of a waiting call, also of one inside a tool; None if it did not wait."""
        if identity in self.waiting:
            return self.waiting[identity]
        for outer, session in self.nested.items():
            if identity.startswith(f"{outer}/"):
                digest: str | None = session.approvals.find_digest(identity.removeprefix(f"{outer}/"))
                return digest
        return None

    def take_inner(self, outer: str) -> dict[str, StoredDecision]:
        """Remove and return the decisions about the calls inside a call, by their ids there."""
        prefix = f"{outer}/"
        keys = [key for key in self.decisions if key.startswith(prefix)]
        return {key.removeprefix(prefix): self.decisions.pop(key) for key in keys}

    def forget_inner(self, call: str) -> None:
        """Remove what is stored of agents inside a call that has its result."""
        for stored in (self.nested, self.inner_answers):
            for key in [key for key in stored if key == call or key.startswith(f"{call}/")]:
                del stored[key]

    def take(self, bound: BoundCall) -> Decision | None:
        """Remove and return the decision about a call; None without one, or if it was made about another call."""
        stored = self.decisions.pop(bound.call.id, None)
        if stored is not None and stored.fits(bound.to_decide):
            self.grants.add(bound.call.name, find_allowable(bound), stored.scope)
            return stored.decision
        is_repeated = bound.tool is not None and bound.tool.effect in REPEATABLE_EFFECTS
        return None if is_repeated else self.begun.pop(bound.call.id, None)

    def store(self, bound: BoundCall, decision: Decision) -> None:
        """Store a decision about a call, in case the run stops before the call has run."""
        self.decisions[bound.call.id] = StoredDecision(decision, digest_call(bound.to_decide))


MAX_SHOWN_CHARS = 200
NOT_ALLOWED = "this call was not allowed."


@dataclass(frozen=True, slots=True)
class ApprovalAsked(WarningEvent):
    """A call waits for a decision, because of `reason`; `untrusted` are its values that no trusted text contains.

    `allowable` are those that a person can allow from now on, with `PersonAnswer(True, "values")` as the decision.
    """

    call: ToolCall
    reason: str
    untrusted: tuple[UntrustedValue, ...] = ()
    allowable: tuple[UntrustedValue, ...] = ()

    @property
    def waits_for(self) -> str:
        return f"for a decision about {self.call.name}"

    @property
    def notice(self) -> str:
        return f"{self.call.name} waits for a decision: {self.reason}"


@dataclass(frozen=True, slots=True)
class ApprovalGiven(Event):
    """The decision about a call was made."""

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


@dataclass(frozen=True, slots=True)
class Approver:
    """What decides in a run; the runs inside its tools inherit it."""

    decide: Decide | None
    approvals: Approvals


def approve(decide: Decide | Literal["ask"] | None = None, approvals: Approvals | None = None) -> Policy:
    """Hold calls until there is a decision: those of tools with `effect="danger"`, and those with `needs_approval`.

    Args:
        decide: Called for every call but the answer's; "ask" asks the person at the terminal or in the notebook, and
            only about calls that need it.  By default, the enclosing run's function decides here too.
        approvals: The decisions that were made before the run; the run's own are stored in it.

    Raises:
        Paused: A call is undecided.
    """
    state = _ApprovalPolicy(Person() if decide == "ask" else decide, approvals or Approvals())
    if (outer := enclosing(Approver)) is not None:
        state.approvals.grants = outer.approvals.grants

    def handle(effect: CallTools) -> Flow[Any]:
        decided: list[BoundCall | None] = []
        for bound in effect.calls:
            decided.append((yield from state.decide_call(bound)))
        if None in decided:
            yield from state.ask_person(effect.calls, decided)
        results = yield from ask(effect.with_calls(state.release(effect.calls, decided)))
        for result in results:  # a run that is stopped meanwhile continues with the decisions
            if not result.is_open:
                state.approvals.decisions.pop(result.call.id, None)
                state.approvals.forget_inner(result.call.id)
        return [state.note_edit(result) for result in results]

    return around(handle, CallTools)


@dataclass
class _ApprovalPolicy:
    """The decisions of one run."""

    decide: Decide | None
    approvals: Approvals
    problems: dict[str, str] = field(default_factory=dict)
    edited: dict[str, str] = field(default_factory=dict)

    def decide_call(self, bound: BoundCall) -> Flow[BoundCall | None]:
        """Return the call as it will run; None if it waits."""
        reason = _find_reason(bound)
        decide = self._find_decide()
        function = None if bound.is_answer or isinstance(decide, Person) else decide
        if bound.problem is not None or not (reason or function):
            return bound
        decision = self.approvals.take(bound)
        if reason and decision is None:
            yield from ask(Emit(ApprovalAsked(bound.to_decide, reason, bound.untrusted, (*find_allowable(bound),))))
        if decision is None and function is not None:
            decision = self._read_scope(bound, (yield from consult(function, bound.to_decide)))
        if not reason and decision is None:
            return bound
        if not reason and decision is True:
            self.approvals.store(bound, True)
            return bound
        if isinstance(decision, bool | str | dict):
            return (yield from self._carry_out(bound, decision))
        if not reason:
            yield from ask(Emit(ApprovalAsked(bound.to_decide, "approve= returned Paused")))
        return None

    def _read_scope(self, bound: BoundCall, answer: Any) -> Any:
        """Return the decision in an answer, and store what it holds for from now on."""
        if not isinstance(answer, PersonAnswer):
            return answer
        self.approvals.grants.add(bound.call.name, find_allowable(bound), answer.scope)
        return answer.decision

    def ask_person(self, calls: Sequence[BoundCall], decided: list[BoundCall | None]) -> Flow[None]:
        """Ask the person, if there is one, about all undecided calls of a turn together."""
        person = self._find_decide()
        while isinstance(person, Person) and (waiting := [at for at, bound in enumerate(decided) if bound is None]):
            pending = tuple(self._describe(calls[at]) for at in waiting)
            answers: dict[str, PersonAnswer] = yield from ask(ConsultPerson(person, pending))
            if not answers:
                return
            for at in waiting:
                if (answer := answers.get(calls[at].call.id)) is None:
                    continue
                decided[at] = yield from self._carry_out(calls[at], self._read_scope(calls[at], answer))

    def _describe(self, bound: BoundCall) -> PendingCall:
        problem = self.problems.get(bound.call.id, "")
        return PendingCall(bound.to_decide, _find_reason(bound), (*find_allowable(bound),), problem)

    def _carry_out(self, bound: BoundCall, decision: Decision) -> Flow[BoundCall | None]:
        """Apply a decision, store it and emit it; return None if its new arguments are invalid."""
        if (done := self._apply(bound, decision)) is not None:
            self.approvals.store(bound, decision)
            self.problems.pop(bound.call.id, None)
            yield from ask(Emit(ApprovalGiven(bound.call, decision)))
        return done

    def _find_decide(self) -> Decide | None:
        if self.decide is not None:
            return self.decide
        approver = enclosing(Approver)
        return approver.decide if approver else None

    def _apply(self, bound: BoundCall, decision: Decision) -> BoundCall | None:
        """Return the call as decided; None if the new arguments are invalid."""
        call = bound.call
        if decision is True:
            return bound
        if not isinstance(decision, dict):
            refused = BoundCall.impossible(call, ExceptionInfo("Denied", decision or NOT_ALLOWED), bound.tool)
            return replace(refused, origin=bound.origin)  # the reason may quote the arguments
        again = bound.with_arguments(decision)
        if again.problem is not None:
            self.problems[call.id] = again.problem.message
            return None
        self.edited[call.id] = again.call.arguments
        return again

    def release(self, calls: Sequence[BoundCall], decided: Sequence[BoundCall | None]) -> tuple[BoundCall, ...]:
        """Return the calls of the turn as decided; raise `Paused` if one of them is undecided."""
        self.approvals.waiting = {}
        if None in decided:
            waiting = [asked.to_decide for asked, bound in zip(calls, decided, strict=True) if bound is None]
            self.approvals.waiting = {call.id: digest_call(call) for call in waiting}
            raise make_pause_error(waiting, self.problems)
        return tuple(bound.within(self.make_approver) for bound in decided if bound is not None)

    def make_approver(self) -> Approver:
        """Return what decides in runs inside of this one's calls."""
        return Approver(self._find_decide(), self.approvals)

    def note_edit(self, result: ToolResult) -> ToolResult:
        """Return the result; if a person changed the arguments, the model reads so."""
        if (arguments := self.edited.get(result.call.id)) is None:
            return result
        note = f"[A person changed the arguments to {arguments}]"
        return replace(result, content=f"{note}\n{result.content}", notes=(*result.notes, note))


def make_pause_error(calls: Sequence[ToolCall], problems: Mapping[str, str]) -> Paused:
    """Return the error that ends a run because these calls are undecided; it names the way to continue."""
    shown = "; ".join(f"{call.id!r}: {call.name}({_describe_arguments(call)})" for call in calls)
    wrong = "".join(
        f" The arguments given for {identity!r} are not valid: {text}" for identity, text in problems.items()
    )
    error = Paused(
        f"{len(calls)} of the model's calls wait for a decision: {shown}.{wrong} Decide and continue: "
        f"agent.run(session=error.session, approvals={{{calls[0].id!r}: True}}), or a reason to refuse it, or other "
        "arguments as a dict."
    )
    error.calls = tuple(calls)
    return error


def _describe_arguments(call: ToolCall) -> str:
    given = escape_unprintable(mask(call.written or call.arguments), MAX_SHOWN_CHARS)
    values = (escape_unprintable(mask(describe_reference(entry)), MAX_SHOWN_CHARS) for entry in call.references)
    return "; ".join([given, *values])


def _find_reason(bound: BoundCall) -> str:
    """Return why a call needs a decision; "" if it needs none."""
    is_dangerous = bound.tool is not None and bound.tool.effect == "danger"
    return bound.needs_approval or ("its tool is declared as dangerous" if is_dangerous else "")
