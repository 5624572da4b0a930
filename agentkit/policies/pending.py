"""The waiting room of a conversation: the calls that wait for a person, and the decisions and answers so far.

A decision is bound to the name and the arguments that it was made about, and is used once.  The calls of a turn are
decided together, because no file of a session or a journal brings a decision.  Answers to questions are stored with
the conversation, so that nothing is asked twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..core.ask_person import Person, PersonAnswer, Scope, is_consent
from ..core.background import aresolve, is_async, resolve, run_in_thread
from ..core.errors import DefinitionError, Paused, RunError
from ..core.flow import Done, Event, Flow, ask
from ..core.masking import mask
from ..core.messages import ToolCall
from ..core.pending import APPROVAL_SCHEMA, Pending, Question, UntrustedValue, digest_call
from ..core.values import frozen
from ..tools.execution.call import BoundCall
from ..tools.questions import build_example, explain_answer
from ..tools.settings import REPEATABLE_EFFECTS

Decide: TypeAlias = Callable[[ToolCall], Any]
"""Returns the `Decision` about a call; None to leave a dangerous one undecided and allow any other; `Paused` to let it
wait in any case.  May be a coroutine function; in an asynchronous run, other functions are called in a thread."""


@frozen
class Consult:
    """The effect that calls `decide` with a call, with a question of a tool, or with all calls of a turn that wait."""

    decide: Callable[[Any], Any]
    asked: ToolCall | Question | Sequence[Pending]

    def perform(self) -> Generator[Event, None, Any]:
        yield from ()
        return resolve(self.decide(self.asked))

    async def aperform(self) -> AsyncGenerator[Event | Done[Any], None]:
        is_plain = not is_async(self.decide)
        answer = await run_in_thread(lambda: self.decide(self.asked)) if is_plain else self.decide(self.asked)
        yield Done(await aresolve(answer))


def check_reason(decision: Any, how: str) -> None:
    """Raise `DefinitionError` for a decision that would refuse a call with a yes as the reason; `how` it was given."""
    reason = decision.decision if isinstance(decision, PersonAnswer) else decision
    if isinstance(reason, str) and is_consent(reason):
        raise DefinitionError(
            f"{how} {reason!r:.60}, and a text refuses a call, as the reason. "
            "Give True to allow it, False to refuse it."
        )


def consult(decide: Decide, call: ToolCall) -> Flow[Any]:
    """Return the answer of `decide` about a call: a decision, also one that holds for more, None, or `Paused`."""
    try:
        answer = yield from ask(Consult(decide, call))
    except Paused:
        return Paused
    check_reason(answer, "approve= returned")
    if answer is None or isinstance(answer, bool | str | dict | PersonAnswer):
        return answer
    if answer is Paused or isinstance(answer, Paused):
        return Paused
    raise DefinitionError(
        f"approve= must return True, False, a reason (str), other arguments (dict), PersonAnswer, None or Paused for "
        f"a call, got {type(answer).__name__}"
    )


OnQuestion: TypeAlias = Callable[[Question], Any]
"""Returns the answer to a question; None or `Paused` to let it wait.  May be a coroutine function."""
Decision: TypeAlias = bool | str | dict[str, Any]
"""True: run the call; False or a reason: refuse it, and the model reads why; a dict: run it with these arguments."""
Given: TypeAlias = Mapping[Any, Any]
"""Decisions and answers, by what waits or its id; a decision also by its call."""


@frozen
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


def read_approval(form: Mapping[str, Any]) -> Decision:
    """Return the decision in a form that has `APPROVAL_SCHEMA`; a refusal unless `approved` is true.

    Raises:
        RunError: The call is allowed with arguments that are no object.
    """
    if form.get("approved") is True:
        arguments = form.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            raise RunError(
                f"the arguments of a decision must be an object, got {arguments!r:.80}. "
                "Leave them out to allow the call as it is."
            )
        return True if arguments is None else arguments
    reason = form.get("reason")
    return reason if isinstance(reason, str) and reason.strip() and not is_consent(reason) else False


def join_given(approvals: Any, answers: Any) -> Any:
    """Return `answers=` with what is given as `approvals=`, where a dict is always other arguments.

    Raises:
        DefinitionError: One of them is no mapping, such as a function that decides.
    """
    for name, given in (("approvals", approvals), ("answers", answers)):
        if given is not None and not isinstance(given, Mapping):
            raise DefinitionError(
                f"{name}: expected decisions by the ids of pending calls, {{'call_1': True}}, got {given!r:.80}. "
                "To allow all calls that wait: answers=dict.fromkeys(pause.calls, True). What decides about each call "
                "as it comes is approve=function, of the agent or of the run."
            )
    if not isinstance(approvals, Mapping) or not isinstance(answers or {}, Mapping):
        return approvals or answers
    decisions = {key: PersonAnswer(value) if isinstance(value, dict) else value for key, value in approvals.items()}
    return {**(answers or {}), **decisions}


@frozen
class InputAsked(Event):
    """A call waits for a person: for a decision about it, or for the answer to a question of its tool.

    Attributes:
        pending: What it waits for.
        untrusted: The values of the call that no trusted text contains.
    """

    pending: Pending
    untrusted: tuple[UntrustedValue, ...] = ()

    @property
    def call(self) -> ToolCall:
        """The call."""
        return self.pending.call

    @property
    def reason(self) -> str:
        """Why the call waits for a decision."""
        return self.pending.reason

    @property
    def allowable(self) -> tuple[UntrustedValue, ...]:
        """The values that a person can allow from now on, with `PersonAnswer(True, "values")` as the decision."""
        return self.pending.allowable

    @property
    def question(self) -> Question:
        """The question."""
        return self.pending.question

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "WARNING" if self.pending.is_approval else "INFO"

    @property
    def waits_for(self) -> str:
        return f"for {'a decision about' if self.pending.is_approval else 'an answer to'} {self.call.name}"

    @property
    def notice(self) -> str:
        if self.pending.is_approval:
            return f"{self.call.name} waits for a decision: {self.reason}"
        return f"{self.call.name} asks: {self.pending.text}"


@frozen
class InputGiven(Event):
    """A call has what it waited for: the decision about it, or the answer to its question."""

    pending: Pending
    answer: Any

    @property
    def call(self) -> ToolCall:
        """The call."""
        return self.pending.call

    @property
    def question(self) -> Question:
        """The question."""
        return self.pending.question

    @property
    def decision(self) -> Decision:
        """The decision."""
        decision: Decision = self.answer
        return decision

    @property
    def waits_for(self) -> str:
        return ""

    @property
    def notice(self) -> str:
        if not self.pending.is_approval:
            return f"{self.call.name}: answered"
        if isinstance(self.answer, dict):
            return f"{self.call.name}: allowed with other arguments: {json.dumps(self.answer, ensure_ascii=False)}"
        refused = f"refused: {self.answer}" if self.answer else "refused"
        return f"{self.call.name}: {'allowed' if self.answer is True else refused}"


class ApprovalAsked(InputAsked):
    """`InputAsked` for a decision."""

    __slots__ = ()
    __match_args__ = ("call", "reason", "untrusted", "allowable")


class ApprovalGiven(InputGiven):
    """`InputGiven` for a decision."""

    __slots__ = ()
    __match_args__ = ("call", "decision")


class QuestionAsked(InputAsked):
    """`InputAsked` for an answer."""

    __slots__ = ()
    __match_args__ = ("call", "question")


class QuestionAnswered(InputGiven):
    """`InputGiven` for an answer."""

    __slots__ = ()
    __match_args__ = ("call", "question", "answer")


def find_allowable(bound: BoundCall) -> tuple[UntrustedValue, ...]:
    """Return the values of a call that can be allowed from now on; none of a dangerous tool."""
    return () if bound.tool is not None and bound.tool.effect == "danger" else (*bound.untrusted,)


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


@frozen
class HeldCall:
    """A call that waits for a decision: its digest when the run paused, and what a person reads beside the call."""

    digest: str = ""
    reason: str = ""
    allowable: tuple[UntrustedValue, ...] = ()
    problem: str = ""


@dataclass(eq=False)
class AskingCall:
    """A call that ended for questions.

    Attributes:
        questions: The questions, with the ids that the tool gave them.
        state: The state of the call.
        answers: The answers so far, by those ids.
        known: The texts of earlier questions of the call with their answers.
    """

    questions: Sequence[Question]
    state: Any = None
    answers: dict[str, Any] = field(default_factory=dict)
    known: list[tuple[str, Any]] = field(default_factory=list)

    def list_open(self, call: ToolCall) -> list[Pending]:
        """Return the questions without an answer."""
        questions = [one for one in self.questions if one.id not in self.answers]
        return [
            replace(Pending.answer(call, one, self.state), example=build_example(dict(one.schema))) for one in questions
        ]

    def list_known(self) -> list[tuple[str, Any]]:
        """Return the texts of all questions of the call with their answers."""
        return [*self.known, *((question.text, self.answers[question.id]) for question in self.questions)]

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> AskingCall:
        """Return the call that `dataclasses.asdict` described."""
        known = [(text, value) for text, value in saved["known"]]
        questions = [Question(**entry) for entry in saved["questions"]]
        return cls(questions, saved["state"], dict(saved["answers"]), known)


@dataclass(eq=False)
class PendingInputs:
    """What a conversation waits for, and the decisions and answers so far, by the ids of the calls.

    Attributes:
        held: The calls that wait for a decision, with those of the same turn whose decision this object alone has.
        asking: The calls that ended for questions.
        decisions: What was decided and not yet carried out.
        answers: Answers to questions of agents inside tools, by the ids "outer/inner".
        nested: The sessions of agents that paused inside a tool, by the id of the tool's call (of an agent that a
            function calls: by its id inside that call).  What they wait for has the ids "outer id/inner id" here.
        inner_answers: The answers of agents that a function has called, in case the function runs again, by their ids.
        grants: What a person allowed from now on.
        begun: Decisions about calls that a journal answers, because they had begun when the run stopped.
    """

    held: dict[str, HeldCall] = field(default_factory=dict)
    asking: dict[str, AskingCall] = field(default_factory=dict)
    decisions: dict[str, StoredDecision] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    nested: dict[str, Any] = field(default_factory=dict)
    inner_answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)
    begun: dict[str, Decision] = field(default_factory=dict)

    def list_open(self, calls: Sequence[ToolCall], show: Callable[[ToolCall, str], ToolCall]) -> list[Pending]:
        """Return what waits for a person: the decisions about pending calls, then the answers.

        `show` returns a call that waits, which has a digest, with the values of its references.
        """
        inner = [entry.inside(outer) for outer, session in self.nested.items() for entry in session.pending]
        waiting = [
            Pending.decision(show(call, held.digest), held.reason, held.allowable, held.problem)
            for call in calls
            if (held := self.held.get(call.id)) and call.id not in self.decisions
        ]
        waiting += [entry for call in calls if call.id in self.asking for entry in self.asking[call.id].list_open(call)]
        waiting += [entry for entry in inner if entry.id not in self.answers]
        return sorted(waiting, key=lambda entry: not entry.is_approval)

    def accept(self, given: Given, waiting: Sequence[Pending], calls: Iterable[ToolCall] = ()) -> None:
        """Store decisions and answers of the caller.

        A decision is about the call as it was when the run paused, or, where the key is a `ToolCall`, about exactly
        that call.

        Args:
            given: The decisions and answers.
            waiting: What waits for one.
            calls: Pending calls that can be decided about before they wait.

        Raises:
            RunError: Nothing waits with the id, or the value is not a decision, or no valid answer, or another call of
                the same turn is left undecided.
            DefinitionError: They are not given by ids, or a yes is given as a text, which would refuse the call.
        """
        if not isinstance(given, Mapping):
            raise DefinitionError(
                f"answers must have an answer for each id, got {given!r:.40}. To allow all calls that wait: "
                "answers=dict.fromkeys(pause.calls, True)"
            )
        undecided = [call for call in calls if call.id not in self.asking and call.id not in self.nested]
        known = {**{call.id: Pending.decision(call) for call in undecided}, **{entry.id: entry for entry in waiting}}
        decisions = {}
        answers = []
        for key, value in given.items():
            identity = key.id if isinstance(key, ToolCall | Pending) else key
            if (entry := known.get(identity)) is None:
                ids = ", ".join(sorted(repr(entry.id) for entry in waiting) or map(repr, known)) or "none"
                raise RunError(f"answers: nothing waits with the id {identity!r}. Waiting: {ids}.")
            if entry.is_approval:
                digest = digest_call(key) if isinstance(key, ToolCall) else self._find_digest(identity) or entry.digest
                decisions[identity] = _read_decision(value, entry, digest)
            elif problem := explain_answer(entry, value):
                raise RunError(f"answers[{identity!r}]: {problem}")
            else:
                answers.append((entry, value))
        _check_turns(decisions, [entry for entry in waiting if entry.is_approval])
        self.decisions.update(decisions)
        for entry, value in answers:
            self.answer(entry, value)

    def answer(self, entry: Pending, value: Any) -> None:
        """Store a valid answer to a question."""
        call = entry.call.id
        if call in self.asking:
            self.asking[call].answers[entry.id.removeprefix(call).removeprefix("/")] = value
        else:  # of an agent inside a call
            self.answers[entry.id] = value

    def _find_digest(self, identity: str) -> str:
        """Return the digest of a waiting call, also of one inside a tool; "" if it did not wait."""
        if identity in self.held:
            return self.held[identity].digest
        for outer, session in self.nested.items():
            if identity.startswith(f"{outer}/"):
                digest: str = session.inputs._find_digest(identity.removeprefix(f"{outer}/"))
                return digest
        return ""

    def take_inner(self, outer: str, waiting: Iterable[Pending]) -> dict[str, Any]:
        """Return the decisions and answers for the agent inside a call, for which it waits, by their ids there.

        The decisions are removed: they are used once.
        """
        prefix = f"{outer}/"
        decided = [key for key in self.decisions if key.startswith(prefix)]
        answers = {entry.id: self.answers[key] for entry in waiting if (key := f"{prefix}{entry.id}") in self.answers}
        return answers | {key.removeprefix(prefix): self.decisions.pop(key) for key in decided}

    def forget(self, call: str) -> None:
        """Remove what is stored of a call that has its result, and of agents inside it."""
        for stored in (self.decisions, self.asking, self.answers, self.nested, self.inner_answers):
            if not stored:
                continue
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

    def hold(self, waiting: Iterable[Pending]) -> None:
        """Store the calls that wait for a decision now."""
        self.held = {
            entry.id: HeldCall(entry.digest, entry.reason, entry.allowable, entry.problem) for entry in waiting
        }

    def as_dict(self) -> dict[str, Any]:
        """Return what is stored with a conversation, as JSON data."""
        asking = {identity: asdict(entry) for identity, entry in [*self.asking.items()]}
        return {
            "waiting": {identity: entry.digest for identity, entry in self.held.items()},
            "reasons": {identity: mask(entry.reason) for identity, entry in self.held.items()},
            "problems": {identity: mask(entry.problem) for identity, entry in self.held.items() if entry.problem},
            "nested": {identity: session.as_dict() for identity, session in [*self.nested.items()]},
            "asked": {"calls": asking, "inner": {**self.answers}} if asking or self.answers else {},
            "inner_answers": {**self.inner_answers},
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], read_session: Callable[[Any], Any]) -> PendingInputs:
        """Return what `as_dict` described; older files have the ids of the waiting calls, or their digests, alone."""
        waiting = saved["waiting"] if isinstance(saved["waiting"], Mapping) else dict.fromkeys(saved["waiting"], "")
        reasons = saved.get("reasons", {})
        problems = saved.get("problems", {})
        asked = saved.get("asked", {})
        return cls(
            held={
                identity: HeldCall(digest, reasons.get(identity, ""), problem=problems.get(identity, ""))
                for identity, digest in waiting.items()
            },
            asking={identity: AskingCall.from_dict(entry) for identity, entry in asked.get("calls", {}).items()},
            answers=dict(asked.get("inner", {})),
            nested={identity: read_session(inner) for identity, inner in saved["nested"].items()},
            inner_answers={**saved.get("inner_answers", {})},
        )


@frozen
class Respondent:
    """What answers for a person in a run; the runs inside its tools inherit it.

    Attributes:
        decide: Decides about calls; None to let them wait.
        function: Answers questions; None to let them wait.
        inputs: What the run waits for; None if nothing can wait, because its calls need no approval.
    """

    decide: Decide | None = None
    function: OnQuestion | Person | None = None
    inputs: PendingInputs | None = None


NO_RESPONDENT = Respondent()


def _read_decision(value: Any, entry: Pending, digest: str) -> StoredDecision:
    """Return the decision that was given about a call: True, False, a reason, other arguments or a form."""
    if isinstance(value, StoredDecision):
        return value
    answer = value if isinstance(value, PersonAnswer) else PersonAnswer(_open_form(value, entry))
    if not isinstance(answer.decision, bool | str | dict):
        raise RunError(
            f"answers[{entry.id!r}] must be True, False, a reason (str) or other arguments (dict), "
            f"got {type(answer.decision).__name__}"
        )
    check_reason(answer, f"answers[{entry.id!r}] is")
    return StoredDecision(answer.decision, digest, answer.scope)


def _check_turns(decided: Iterable[str], waiting: Sequence[Pending]) -> None:
    """Raise `RunError` for a call that is left undecided beside a call of its turn.

    The calls of a turn run together.  A decision that waited for another one would have to be kept, and no file may.
    """
    turns = {identity.rpartition("/")[0] for identity in decided}
    together = [entry for entry in waiting if entry.id.rpartition("/")[0] in turns]
    if left := [entry for entry in together if entry.id not in decided]:
        named = ", ".join(f"{entry.call.name!r} ({entry.id!r})" for entry in left)
        example = ", ".join(f"{entry.id!r}: ..." for entry in together)
        raise RunError(
            f"answers: {named} wait{'s' if len(left) == 1 else ''} in the same turn. The calls of a turn are decided "
            f"together: answers={{{example}}}"
        )


def _open_form(value: Any, entry: Pending) -> Any:
    """Return the decision in a form; what is no form is returned as it is."""
    keys = APPROVAL_SCHEMA["properties"].keys()
    if not isinstance(value, dict) or not isinstance(value.get("approved"), bool) or not value.keys() <= keys:
        return value
    if "arguments" not in value and '"approved"' in entry.call.arguments:
        raise RunError(
            f"answers[{entry.id!r}]: {value!r:.80} can be a decision or other arguments of {entry.call.name}. "
            'Give True or False, or {"approved": True, "arguments": {...}}.'
        )
    try:
        return read_approval(value)
    except RunError as error:
        raise RunError(f"answers[{entry.id!r}]: {error}") from None


def read_answers(given: Any, waiting: Sequence[Pending]) -> dict[str, Any]:
    """Return decisions and answers as JSON data that `answers=` takes in another process; see `PendingInputs.accept`.

    Raises:
        RunError: Nothing waits with the id, or the value is not a decision, or no valid answer, or another call of the
            same turn is left undecided.
        DefinitionError: They are not given by ids, or a yes is given as a text, which would refuse the call.
    """
    inputs = PendingInputs()
    inputs.accept({} if given is None else given, waiting)
    answers = dict(inputs.answers)
    for identity, stored in inputs.decisions.items():
        decision = stored.decision
        answers[identity] = {"approved": True, "arguments": decision} if isinstance(decision, dict) else decision
    return answers


def make_pause(waiting: Sequence[Pending]) -> Paused:
    """Return the error that ends a run because this is undecided or unanswered."""
    error = Paused()
    error.pending = tuple(waiting)
    return error
