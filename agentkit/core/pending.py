"""What a person is asked: decisions about calls, and answers to questions of tools, as a paused run waits for them.

A decision is an answer too: to a form that has `APPROVAL_SCHEMA`.  What the person reads of a call and the digest for
which a decision holds are made here, from one call.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .masking import mask, mask_data
from .messages import ReferencedValue, ToolCall
from .portable import parse_json, to_canonical_text
from .values import frozen

TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}


@frozen
class Question:
    """A question of a tool.

    Attributes:
        text: What the person reads.
        schema: The JSON Schema (draft 2020-12) that the answer must match; default: any text.
        id: In `InputRequired`, a name that is unique in the call, or "".  In `Paused.questions`, the key for
            `answers=`: the id of the call, followed by "/" and the name; inside an agent of a tool, "outer/inner".
        state: The state of the call, see `InputRequired`.
        is_for_person: False for what no person answers, but the program that runs the agent: no respondent is asked,
            and the run pauses until `answers=` has the answer.
    """

    text: str
    schema: Mapping[str, Any] = field(default_factory=lambda: TEXT_SCHEMA)
    id: str = ""
    state: Any = None
    is_for_person: bool = True


@frozen
class Answers:
    """The answers with which a call runs again: their values by `Question.id`, and the state of the call."""

    values: Mapping[str, Any]
    state: Any = None


class InputRequired(Exception):
    """Raise this in a tool to ask a person; the call runs again, from its beginning, when all answers are there.

    The second time, `RunContext.answered` has the answers and `state`.  A simple question needs `ask_question` alone.

    Args:
        questions: The questions; several need ids of their own.
        state: JSON data that the call gets back unchanged, also in another process.  No person and no model sees it.

    Raises:
        ValueError: There is no question, two have the same id, or `state` is not JSON data.
    """

    def __init__(self, *questions: Question, state: Any = None) -> None:
        names = [question.id for question in questions]
        if not questions or len(set(names)) != len(names):
            raise ValueError(f"InputRequired: expected questions with ids of their own, got the ids {names}")
        try:
            json.dumps(state, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"InputRequired: state must be JSON data: {error}") from error
        super().__init__("; ".join(question.text for question in questions))
        self.questions = questions
        self.state = state


@frozen
class LiveRespondent:
    """Answers the questions of a call that cannot wait: the run continues only with the answer.

    A front door encloses its runs in one.  Any other question pauses the run, so that its answer may come much later.

    Attributes:
        ask: Returns the answer; None without one, `Paused` where no person can be asked.
    """

    ask: Callable[[Question], Awaitable[Any]]


@dataclass(eq=False, slots=True)
class CallQuestions:
    """The questions of one tool call, while it runs.

    Attributes:
        answered: The answers with which the call runs again; None in its first run.
        known: The texts of its questions so far, each with its answer.
        register: Stores the questions that end the call.
        asked: How often each text was asked in this run of the call.
    """

    answered: Answers | None
    known: Sequence[tuple[str, Any]]
    register: Callable[[InputRequired], None]
    asked: dict[str, int] = field(default_factory=dict)

    def find_answer(self, text: str) -> tuple[Any, ...]:
        """Return the answer to this question in a tuple; an empty one before that."""
        values = [value for known, value in self.known if known == text]
        place = self.asked.get(text, 0)
        self.asked[text] = place + 1
        return tuple(values[place : place + 1])


APPROVAL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "Why not: the model reads it."},
        "arguments": {"type": "object", "description": "Other arguments for the call."},
    },
    "required": ["approved"],
}
MAX_ARGUMENT_CHARS = 10_000
"""Characters of one argument that the person is shown."""
UNKNOWN_REASON = "it may have side effects"
WAITS_TITLE = "The run waits for you:"
_DECIDE = "Decide and continue (True allows a call, a text refuses it with that reason):"
_ANSWER = "Answer and continue:"


@frozen
class UntrustedValue:
    """A value of a call that comes neither from the user nor from a trusted tool, or that its recipient may not read.

    `where` is its place in the arguments. `origin` is the tool whose result contains it, "" if the model wrote it, and
    `passage` the value in that result, with some characters around it. `is_destination` is set for a recipient, an
    address, a path or an account. `readers` are set if the call waits because only they may read the text that has the
    value.
    """

    where: str
    value: str | int | float
    origin: str = ""
    passage: str = ""
    is_destination: bool = False
    readers: tuple[str, ...] | None = None


@frozen
class Pending:
    """An input of a person that a paused run waits for.

    Attributes:
        id: The key for `answers=`: the id of the call, for a question followed by "/" and the name of the question.
            Inside an agent of a tool, "outer/inner".
        call: The call that waits for a decision, with the values of its references; or the call that asks.
        text: What the person reads: the call with its arguments and what others wrote in them; or the question.
        schema: The JSON Schema that the answer must match; that of a decision is `APPROVAL_SCHEMA`.
        reason: Why the call waits for a decision; "" for a question.
        allowable: The values of the call that a decision can allow from now on.
        problem: What was wrong with the answer that was given last.
        state: The state of a call that asks, see `InputRequired`; no person sees it.
        is_for_person: As in `Question`.
        example: An answer that the schema allows.
    """

    id: str
    call: ToolCall
    text: str
    schema: Mapping[str, Any]
    reason: str = ""
    allowable: tuple[UntrustedValue, ...] = ()
    problem: str = ""
    state: Any = None
    is_for_person: bool = True
    example: Any = "your answer"

    def __hash__(self) -> int:
        return hash(self.id)  # a schema has no hash

    @classmethod
    def decision(
        cls, call: ToolCall, reason: str = "", allowable: tuple[UntrustedValue, ...] = (), problem: str = ""
    ) -> "Pending":
        """Return the decision that a call waits for."""
        reason = reason or UNKNOWN_REASON
        return cls(call.id, call, describe_call(call), APPROVAL_SCHEMA, reason, allowable, problem, example=True)

    @classmethod
    def answer(cls, call: ToolCall, question: Question, state: Any = None) -> "Pending":
        """Return the answer that a call waits for."""
        identity = f"{call.id}/{question.id}" if question.id else call.id
        asks = question.is_for_person
        return cls(identity, call, question.text, question.schema, state=state, is_for_person=asks)

    @property
    def is_approval(self) -> bool:
        """Whether a decision about the call is wanted."""
        return bool(self.reason)

    @property
    def question(self) -> Question:
        """The question, with the id for `answers=`."""
        return Question(self.text, self.schema, self.id, self.state, self.is_for_person)

    @property
    def digest(self) -> str:
        """The digest of the call that a decision holds for."""
        return digest_call(self.call)

    @property
    def references(self) -> tuple[str, ...]:
        """What others wrote in the arguments, in the place of references, for a person; secrets masked."""
        return tuple(mask(describe_reference(entry)) for entry in self.call.references)

    @property
    def values(self) -> str:
        """The values that a decision can allow from now on, for a person; secrets masked."""
        return mask(", ".join(f"{entry.where} = {entry.value}" for entry in self.allowable))

    def as_dict(self) -> dict[str, Any]:
        """Return the input as JSON data, without what the process alone needs."""
        call = asdict(self.call)
        call = call if self.call.references else {name: call[name] for name in ("id", "name", "arguments")}
        if self.is_approval:
            wrong = {"problem": mask(self.problem)} if self.problem else {}
            return {"call": call, "reason": mask(self.reason), **wrong}
        asked = {"call": call, "id": self.id, "text": self.text, "schema": dict(self.schema)}
        return asked if self.is_for_person else {**asked, "is_for_person": False}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Pending":
        """Return the input that `as_dict` described."""
        given = saved["call"]
        references = tuple(ReferencedValue(**entry) for entry in given.get("references", ()))
        call = ToolCall(**{**given, "references": references})
        if "schema" not in saved:
            return cls.decision(call, saved.get("reason", ""), problem=saved.get("problem", ""))
        asks = saved.get("is_for_person", True)
        return cls(saved["id"], call, saved["text"], saved["schema"], is_for_person=asks)

    def inside(self, outer: str) -> "Pending":
        """Return the input of an agent inside the call `outer`, with its id in the enclosing run."""
        return replace(self, id=f"{outer}/{self.id}", call=replace(self.call, id=f"{outer}/{self.call.id}"))

    def masked(self) -> "Pending":
        """Return a copy for a front door: secrets masked, and no state."""
        references = tuple(replace(entry, value=mask_data(entry.value)) for entry in self.call.references)
        arguments = mask(self.call.arguments)
        call = replace(self.call, arguments=arguments, written=mask(self.call.written), references=references)
        allowable = tuple(
            replace(entry, value=mask_data(entry.value), passage=mask(entry.passage)) for entry in self.allowable
        )
        schema = self.schema if self.is_approval else mask_data(dict(self.schema))
        return replace(
            self,
            call=call,
            text=mask(self.text),
            schema=schema,
            example=mask_data(self.example),
            reason=mask(self.reason),
            allowable=allowable,
            problem=mask(self.problem),
            state=None,
        )


def list_waiting(pending: Sequence[Pending]) -> list[str]:
    """Return a line for each input that a person reads in a notebook; secrets masked."""
    return [
        escape_unprintable(mask(f"{entry.call.name}({entry.call.arguments})" if entry.is_approval else entry.text))
        for entry in pending
    ]


def hint_at_answers(pending: Sequence[Pending]) -> str:
    """Return what a person reads above the line with `suggest_answers`."""
    return _DECIDE if any(entry.is_approval for entry in pending) else _ANSWER


def suggest_answers(pending: Sequence[Pending]) -> dict[str, Any]:
    """Return an example of `answers=`, which allows each call."""
    return {entry.id: entry.example for entry in pending}


MAX_SHOWN_CHARS = 200
"""Characters of an argument or a question in the text of `Paused`."""


def describe_pause(pending: Sequence[Pending], start: str) -> str:
    """Return what a paused run waits for, and the lines that continue it, which begin with `start`."""
    decisions = [entry for entry in pending if entry.is_approval]
    questions = [entry for entry in pending if not entry.is_approval]
    parts = []
    if decisions:
        shown = "; ".join(f"{entry.id!r}: {entry.call.name}({_describe_arguments(entry.call)})" for entry in decisions)
        wrong = "".join(
            f" The arguments given for {entry.id!r} are not valid: {entry.problem}"
            for entry in decisions
            if entry.problem
        )
        parts.append(
            f"{len(decisions)} of the model's calls wait{'s' if len(decisions) == 1 else ''} for a decision: "
            f"{shown}.{wrong} Decide and continue: "
            f"{start}answers={suggest_answers(decisions[:1])!r}), or a reason to refuse it, or "
            "other arguments as a dict."
        )
    if questions:
        shown = "; ".join(f"{entry.id!r}: {_shorten(entry.text)}" for entry in questions)
        parts.append(
            f"{len(questions)} question{' waits' if len(questions) == 1 else 's wait'} for an answer: {shown}. "
            f"Answer and continue: {start}answers={suggest_answers(questions[:1])!r})"
        )
    return " ".join(parts)


def _describe_arguments(call: ToolCall) -> str:
    return "; ".join(
        [_shorten(call.written or call.arguments), *map(_shorten, map(describe_reference, call.references))]
    )


def _shorten(text: str) -> str:
    return escape_unprintable(mask(text), MAX_SHOWN_CHARS)


def digest_call(call: ToolCall) -> str:
    """Return a digest of a call's name and arguments, followed by the name; the layout of the JSON does not matter."""
    text = f"{call.name}\0{to_canonical_text(call.arguments)}".encode(errors="surrogatepass")
    return f"{hashlib.sha256(text).hexdigest()}:{call.name}"


def describe_call(call: ToolCall) -> str:
    """Return the call as text for a person: one line per argument, with control characters escaped.

    A line for each reference follows, with its value as a JSON text, which the value cannot close.
    """
    given = call.written or call.arguments
    arguments = parse_json(given)
    entries = arguments.items() if isinstance(arguments, dict) else [("arguments", arguments)]
    lines = [f"The agent wants to call {escape_unprintable(call.name)}:"]
    for key, value in entries:
        lines.append(f"  {escape_unprintable(str(key))}: {_show_ends(json.dumps(value, ensure_ascii=False))}")
    return "\n".join([*lines, *(f"  {describe_reference(entry)}" for entry in call.references)])


def describe_reference(entry: ReferencedValue) -> str:
    """Return a reference with its value, marked as text of others; the value is a JSON text, which it cannot close."""
    value = _show_ends(json.dumps(entry.value, ensure_ascii=False, default=str))
    return f"{entry.reference} is {value} (text of others, from {escape_unprintable(entry.source)})"


def _show_ends(text: str) -> str:
    """Return the escaped text, masked; of a long one the head and the tail, because both can decide about a call."""
    text = mask(text)
    if len(text) <= MAX_ARGUMENT_CHARS:
        return escape_unprintable(text)
    half = MAX_ARGUMENT_CHARS // 2
    left_out = f"... ({len(text) - 2 * half:,} characters left out) ..."
    return f"{escape_unprintable(text[:half])}{left_out}{escape_unprintable(text[-half:])}"


def escape_unprintable(text: str, max_chars: int = MAX_ARGUMENT_CHARS) -> str:
    """Escape what moves the cursor or reverses the writing direction, and truncate to `max_chars` characters."""
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text[:max_chars])
    return shown if len(text) <= max_chars else f"{shown}... ({len(text) - max_chars:,} more characters)"
