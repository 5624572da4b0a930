"""The errors, sorted by who can do something about them.

AgentkitError
├─ DefinitionError      the developer, when a tool or an agent is declared
└─ RunError             the operator, at run time; carries the history and the usage, so that nothing paid for is lost
   ├─ ModelError        the provider failed after the policies gave up
   ├─ LimitExceeded     a limit was reached and no answer could be had in a last request
   ├─ NoAnswer          the model says nothing of use any more
   ├─ Paused            a person is needed; run the session again to go on
   ├─ JournalError      a journal cannot be written or read, or does not hold what is wanted of it
   └─ ReplayDiffers     a run that is replayed is not the recorded one
ToolError               a tool raises it to say something to the model in its own words

A model's mistake is none of these: it becomes an `ExceptionInfo`, a value that the model reads and learns from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .messages import Message, ToolCall, Usage

ModelErrorKind: TypeAlias = Literal[
    "authentication",  # the key is missing or refused
    "bad_request",  # the provider refused the request as it stands
    "connection",  # no complete reply came: refused, reset, cut off
    "context",  # the conversation is longer than the model's window
    "internal",  # the backend itself failed
    "length",  # the reply was cut by the token limit, and so was each further try
    "not_found",  # no such model or address
    "rate_limit",  # too many requests
    "refused",  # the provider's content policy stopped it
    "server",  # the provider failed
    "timeout",  # the provider did not answer in time
]

StopReason: TypeAlias = Literal["max_steps", "tokens", "seconds", "dollars", "tool_calls", "stuck"]
"""What ended a run before the model did: one of the limits, or that nothing new came of it."""


class AgentkitError(Exception):
    """Whatever agentkit raises."""


class DefinitionError(AgentkitError):
    """A tool or an agent is declared in a way that cannot work; the message names it and says what to write."""


class RunError(AgentkitError):
    """A run ended without an answer; `history` and `usage` hold what it did and took until then.

    `partial` is the last that the model said: a text, or the arguments of an answer that was not valid.  `result` is
    the `Result` without an answer, for a report: `error.result.to_html("failed.html")`.
    """

    history: Sequence[Message] = ()
    usage: Usage = Usage()
    partial: str = ""
    result: Any = None


class ModelError(RunError):
    """The model could not be had: what kind of failure, the HTTP status if one came, and whether a retry can help."""

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind = "internal",
        status: int | None = None,
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.status = status
        self.transient = transient
        self.retry_after = retry_after
        """Seconds that the provider asked us to wait."""


class LimitExceeded(RunError):
    """A limit of the run was reached, and the model gave no final answer when asked for it one last time.

    `reason` is what `Result.stopped` would have said.  A policy that raises it has the run *land*, see `landing`.
    """

    def __init__(self, message: str, *, reason: StopReason = "max_steps") -> None:
        super().__init__(message)
        self.reason: StopReason = reason


class NoAnswer(RunError):
    """The model kept replying without a tool call and without an answer."""

    reason: StopReason = "stuck"


class Paused(RunError):
    """The run waits for a person to decide about `calls`; running the `session` again goes on where it stopped."""

    calls: Sequence[ToolCall] = ()
    session: Any = None


class ToolError(Exception):
    """Raised by a tool to say something to the model: the model reads exactly this text."""


@dataclass(frozen=True, slots=True)
class ExceptionInfo:
    """What the model sees of an unknown tool, of bad arguments, or of whatever a tool raised."""

    name: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> "ExceptionInfo":
        """The exception's class and text; no stack and no paths, which are for the log only."""
        try:
            message = str(error)
        except Exception:
            message = ""
        return cls(type(error).__name__, message)

    def __str__(self) -> str:
        if self.name == ToolError.__name__:
            return self.message
        return f"{self.name}: {self.message}" if self.message else self.name
