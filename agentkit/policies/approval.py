"""Approvals: calls that wait for a decision, which allows them, refuses them, changes their arguments or is postponed.

A turn runs as a whole: while one of its calls is undecided, none of them runs, and the run ends with `Paused`.  Each
decision is bound to the name and the arguments that it was made about, see `PendingInputs`.

In a dry run nothing needs a decision: calls of tools that only read are made, all others are listed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..core.ask_person import Person, PersonAnswer
from ..core.context import enclosing
from ..core.errors import DENIED, ExceptionInfo
from ..core.flow import Emit, Flow, Hooks, Policy, around, ask
from ..core.pending import Pending
from ..tools.execution.call import NOT_RUN, BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.roles import runs_program
from .pending import (
    NO_RESPONDENT,
    ApprovalAsked,
    ApprovalGiven,
    Consult,
    Decide,
    Decision,
    PendingInputs,
    Respondent,
    consult,
    find_allowable,
    make_pause,
)

NOT_ALLOWED = "this call was not allowed."


def approve(decide: Decide | Literal["ask"] | None = None, inputs: PendingInputs | None = None) -> Policy:
    """Hold calls until there is a decision: those of tools with `effect="danger"`, and those with `needs_approval`.

    Args:
        decide: Called for every call but the answer's; "ask" asks the person at the terminal or in the notebook, and
            only about calls that need it.  By default, the enclosing run's function decides here too.
        inputs: The decisions that were made before the run; the run's own are stored in it.

    Raises:
        Paused: A call is undecided.
    """
    state = _ApprovalPolicy(Person() if decide == "ask" else decide, inputs or PendingInputs())
    outer = enclosing(Respondent) or NO_RESPONDENT
    if outer.inputs is not None:
        state.inputs.grants = outer.inputs.grants

    def begin(effect: CallTools) -> CallTools | Flow[list[ToolResult]]:
        if any(map(state.is_decided, effect.calls)):
            return decide_calls(effect)
        return effect.with_calls(state.enclose(effect.calls))

    def decide_calls(effect: CallTools) -> Flow[list[ToolResult]]:
        decided: list[BoundCall | None] = []
        for bound in effect.calls:
            decided.append((yield from state.decide_call(bound)))
        if None in decided:
            yield from state.ask_person(effect.calls, decided)
        results = yield from ask(effect.with_calls(state.release(effect.calls, decided)))
        return end(effect, results)

    def end(_: CallTools, results: list[ToolResult]) -> list[ToolResult]:
        for result in results:  # a run that is stopped meanwhile continues with the decisions
            if not result.is_open:
                state.inputs.forget(result.call.id)
        return [state.note_edit(result) for result in results] if state.edited else results

    return around(Hooks(begin, end), CallTools)


@dataclass
class _ApprovalPolicy:
    """The decisions of one run."""

    decide: Decide | None
    inputs: PendingInputs
    problems: dict[str, str] = field(default_factory=dict)
    edited: dict[str, str] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    """The calls that the person of this process was asked about."""

    def is_decided(self, bound: BoundCall) -> bool:
        """Return whether the call runs only after a decision, of a function or a person."""
        if bound.problem is not None or bound.is_stored:
            return False
        return bool(_find_reason(bound) or bound.call.id in self.inputs.decisions or self._find_function(bound))

    def _find_function(self, bound: BoundCall) -> Decide | None:
        """Return the function that decides about each call; None without one, or where the person decides."""
        decide = None if bound.is_answer else self._find_decide()
        return None if isinstance(decide, Person) else decide

    def decide_call(self, bound: BoundCall) -> Flow[BoundCall | None]:
        """Return the call as it will run; None if it waits."""
        if not self.is_decided(bound):
            return bound
        reason = _find_reason(bound)
        function = self._find_function(bound)
        decision = self.inputs.take(bound)
        if reason and decision is None:
            yield from ask(Emit(ApprovalAsked(self._describe(bound), bound.untrusted)))
        if decision is None and function is not None:
            decision = self._read_scope(bound, (yield from consult(function, bound.to_decide)))
        if not reason and decision is None:
            return bound
        if not reason and decision is True:
            self.inputs.store(bound, True)
            return bound
        if isinstance(decision, bool | str | dict):
            return (yield from self._carry_out(bound, decision))
        if not reason:
            yield from ask(Emit(ApprovalAsked(Pending.decision(bound.to_decide, "approve= returned Paused"))))
        return None

    def _read_scope(self, bound: BoundCall, answer: Any) -> Any:
        """Return the decision in an answer, and store what it holds for from now on."""
        if not isinstance(answer, PersonAnswer):
            return answer
        self.inputs.grants.add(bound.call.name, find_allowable(bound), answer.scope)
        return answer.decision

    def ask_person(self, calls: Sequence[BoundCall], decided: list[BoundCall | None]) -> Flow[None]:
        """Ask the person, if there is one, about all undecided calls of a turn together."""
        person = self._find_decide()
        while isinstance(person, Person) and (waiting := [at for at, bound in enumerate(decided) if bound is None]):
            pending = tuple(self._describe(calls[at]) for at in waiting)
            answers: dict[str, PersonAnswer] | None = yield from ask(Consult(person.ask_about, pending))
            if not answers:
                return
            self.shown.update(answers)
            for at in waiting:
                if (answer := answers.get(calls[at].call.id)) is None:
                    continue
                decided[at] = yield from self._carry_out(calls[at], self._read_scope(calls[at], answer))

    def _describe(self, bound: BoundCall) -> Pending:
        problem = self.problems.get(bound.call.id, "")
        return Pending.decision(bound.to_decide, _find_reason(bound), find_allowable(bound), problem)

    def _carry_out(self, bound: BoundCall, decision: Decision) -> Flow[BoundCall | None]:
        """Apply a decision, store it and emit it; return None if its new arguments are invalid."""
        if (done := self._apply(bound, decision)) is not None:
            self.inputs.store(bound, decision)
            self.problems.pop(bound.call.id, None)
            yield from ask(Emit(ApprovalGiven(self._describe(bound), decision)))
        return done

    def _find_decide(self) -> Decide | None:
        return (enclosing(Respondent) or NO_RESPONDENT).decide if self.decide is None else self.decide

    def _apply(self, bound: BoundCall, decision: Decision) -> BoundCall | None:
        """Return the call as decided; None if the new arguments are invalid."""
        call = bound.call
        if decision is True:
            return bound
        if not isinstance(decision, dict):
            refused = BoundCall.impossible(
                call, ExceptionInfo(DENIED, decision or NOT_ALLOWED, is_refusal=True), bound.tool
            )
            return replace(refused, origin=bound.origin)  # the reason may quote the arguments
        again = bound.with_arguments(decision)
        if again.problem is not None:
            self.problems[call.id] = again.problem.message
            return None
        self.edited[call.id] = again.call.arguments
        return again

    def release(self, calls: Sequence[BoundCall], decided: Sequence[BoundCall | None]) -> tuple[BoundCall, ...]:
        """Return the calls of the turn as decided; raise `Paused` if one of them is undecided.

        A call that a person has decided about is held with the undecided ones: no file has the decision.
        """
        turn = [*zip(calls, decided, strict=True)]
        if waiting := [self._describe(asked) for asked, bound in turn if bound is None]:
            of_person = {*self.inputs.held, *self.shown}
            held = [asked for asked, bound in turn if bound is None or asked.call.id in of_person]
            self.inputs.hold(map(self._describe, held))
            raise make_pause(waiting)
        return self.enclose(filter(None, decided))

    def enclose(self, calls: Iterable[BoundCall]) -> tuple[BoundCall, ...]:
        """Return calls that all run now; the agents in them ask the same person."""
        self.inputs.held = {}
        decide = self._find_decide()

        def make() -> Respondent:
            outer = enclosing(Respondent) or NO_RESPONDENT
            return Respondent(decide, outer.function, self.inputs)

        return tuple([bound.within(make) for bound in calls])

    def note_edit(self, result: ToolResult) -> ToolResult:
        """Return the result; if a person changed the arguments, the model reads so."""
        if (arguments := self.edited.get(result.call.id)) is None:
            return result
        note = f"[A person changed the arguments to {arguments}]"
        return replace(result, content=f"{note}\n{result.content}", notes=(*result.notes, note))


def _find_reason(bound: BoundCall) -> str:
    """Return why a call needs a decision; "" if it needs none."""
    is_dangerous = bound.tool is not None and bound.tool.effect == "danger"
    return bound.needs_approval or ("its tool is declared as dangerous" if is_dangerous else "")


def dry_run(keeping: Container[str] = ()) -> Policy:
    """Make the calls of tools with `effect="read"`; the result of every other one is `NOT_RUN`.

    A tool without a declared effect counts as one that writes, and so does an agent that is a tool.  A program runs,
    and the same holds for the calls in it.  No person is asked about a call that is not made.  Place the policy next to
    the loop, so that the others see what it leaves.

    Args:
        keeping: Names of tools whose calls are made all the same, such as those of hand-overs.
    """

    def plan_calls(effect: CallTools) -> CallTools:
        return effect.with_calls([bound if bound.call.name in keeping else _plan(bound) for bound in effect.calls])

    return around(Hooks(plan_calls), CallTools)


def _plan(bound: BoundCall) -> BoundCall:
    """Return the call as it is if it reads, answers, runs a program or cannot run; else one with no effect."""
    if bound.tool is None or bound.problem is not None or bound.is_answer or bound.tool.effect == "read":
        return bound
    if runs_program(bound.tool):
        return bound
    harmless = JsonTool(bound.tool, effect="read", egress=False, isolate=None, retries=0)
    return bound.change(tool=harmless, run=lambda: NOT_RUN, is_stored=True)
