"""The exceptions of agentkit, sorted by who can act on them.

AgentkitError
├─ DefinitionError      the developer: a tool or an agent is declared in a way that cannot work
└─ RunError             the operator: a run ended without an answer; carries the history and the usage
   ├─ ModelError        the provider or the backend failed, and retries and fallbacks did not help
   ├─ LimitExceeded     a limit was reached, and the final request brought no answer
   ├─ RunStopped        `stop()` was called; the session can continue
   ├─ NoAnswer          the model stopped making progress
   ├─ Paused            a person must decide about tool calls or answer questions; run the session again
   ├─ JournalError      a journal cannot be written or read, or lacks the requested run
   │  └─ LeaseLost      another process has continued the run meanwhile
   └─ ReplayDiffers     a replayed run differs from the recorded one
ToolError               raised by a tool: its text is what the model reads

A mistake of the model is not an exception: it becomes an `ExceptionInfo`, a value that the model reads and can correct.

All errors about unknown names ask `suggest`.  A suggestion has two sources: a table of terms, which are mostly names
from other frameworks, each with what to do here; and the names that do exist, one of which may be close.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from .messages import Message, ToolCall, Usage
from .pending import WAITS_TITLE, Pending, Question, describe_pause, hint_at_answers, list_waiting, suggest_answers
from .values import frozen

if sys.version_info >= (3, 14):
    from annotationlib import Format

ModelErrorKind: TypeAlias = Literal[
    "authentication",  # the API key is missing or refused
    "bad_request",  # the provider rejected the request as invalid
    "connection",  # the connection was refused, reset or closed before the reply was complete
    "context",  # the conversation exceeds the model's context window
    "internal",  # the backend raised an unexpected exception
    "length",  # the reply was truncated by the token limit, on every attempt
    "not_found",  # no such model or address
    "rate_limit",  # too many requests
    "refused",  # the provider's content policy blocked the request or the reply
    "server",  # the provider answered with a server error
    "timeout",  # no complete reply within the timeout
]

StopReason: TypeAlias = Literal["max_steps", "tokens", "seconds", "dollars", "quota", "tool_calls", "stuck", "stopped"]
"""What ended a run before the model did: a limit, a lack of progress ("stuck") or a call of `stop` ("stopped")."""


PACKAGE = str(Path(__file__).parents[1])


class AgentkitError(Exception):
    """Base class of every exception that agentkit itself raises; `ToolError` is raised by tools."""


class DefinitionError(AgentkitError):
    """A tool, an agent or an option is declared wrongly; the message names the object and the remedy."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in place of a traceback: the text, and the line of the user's code."""
        frames = [frame for frame in extract_tb(self.__traceback__) if not frame.filename.startswith(PACKAGE)]
        users = [frame for frame in frames if "IPython" not in Path(frame.filename).parts]  # a magic is called by it
        where = [f"  line {frame.lineno}: {frame.line}" for frame in users[-1:]]
        return [f"{type(self).__name__}: {self}", *where]


def missing_package(door: str, *requirements: str, missing: str | None = None) -> DefinitionError:
    """Return the error for an optional part whose third-party package is not installed.

    Args:
        door: What needs the package, as the user wrote it.
        requirements: What to install: "opentelemetry-api>=1.30".
        missing: The module that was not found, as in `ImportError.name`; default: the first requirement.
    """
    name = (missing or requirements[0].partition(">")[0]).partition(".")[0]
    install = " ".join(f'"{requirement}"' for requirement in requirements)
    return DefinitionError(f"{door}: the package {name} is not installed. Install it: pip install {install}")


class RunError(AgentkitError):
    """A run ended without an answer.

    Attributes:
        history: The messages up to the end of the run; valid, so a session can continue from them.
        usage: Requests, tokens and dollars that the run used.
        partial: The model's last text, or the arguments of its last invalid answer; "" without either.
        result: The `Result` without an answer, for a report: `error.result.to_html("failed.html")`.
    """

    history: Sequence[Message] = ()
    usage: Usage = Usage()
    partial: str = ""
    result: Any = None


class ModelError(RunError):
    """A request to the model failed.

    Attributes:
        kind: The kind of failure, one of `ModelErrorKind`.
        status: The HTTP status, or None if no response arrived.
        transient: Whether a retry of the same request can succeed.
        retry_after: Seconds to wait before a retry, where the provider names them.
    """

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


class LimitExceeded(RunError):
    """A limit of the run was reached, and the final request brought no answer.

    A policy that raises this error triggers the final request, see `agentkit.policies.final_request`.

    Attributes:
        reason: Which limit; the value that `Result.stopped` has where the final request brings an answer.
    """

    def __init__(self, message: str, *, reason: StopReason = "max_steps") -> None:
        super().__init__(message)
        self.reason: StopReason = reason


class RunStopped(RunError):
    """The run was stopped by `session.stop()` or `agent.stop()`; the session can continue with the next query."""

    reason: StopReason = "stopped"

    def __str__(self) -> str:
        return super().__str__() or "the run was stopped"


class NoAnswer(RunError):
    """The model kept replying with neither a usable tool call nor an answer."""

    reason: StopReason = "stuck"


class Paused(RunError):
    """The run waits for a person, who decides about tool calls or answers questions; run the session to continue.

    Attributes:
        pending: What the run waits for: decisions about calls, then answers to questions.
        session: The session to run again, with `answers={pending.id: True}`, say; None after `pickle`.
        run_id: The id of the run where the agent's journal keeps it: `agent.resume(run_id, answers=...)` continues it
            in any process.
    """

    pending: Sequence[Pending] = ()
    session: Any = None
    run_id: str | None = None

    def __str__(self) -> str:
        waiting = describe_pause(self.pending, self._begin_line("error.session"))
        return " ".join(filter(None, [super().__str__(), waiting]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the session, which stays in its process: `run_id` continues the run in another one."""
        return type(self), self.args, {**self.__dict__, "session": None}

    def _begin_line(self, session: str) -> str:
        """Return the begin of the line that continues the run, up to the answers."""
        return f"agent.run(session={session}, " if self.run_id is None else f"agent.resume({self.run_id!r}, "

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in place of a traceback: what waits, and the line that continues the run."""
        start = self._begin_line("sys.last_value.session")
        return [
            WAITS_TITLE,
            *(f"  {line}" for line in list_waiting(self.pending)),
            hint_at_answers(self.pending),
            f"  {'import sys; ' if self.run_id is None else ''}{start}answers={suggest_answers(self.pending)!r})",
        ]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that wait for a decision."""
        return tuple(entry.call for entry in self.pending if entry.is_approval)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of tools that wait for an answer."""
        return tuple(entry.question for entry in self.pending if not entry.is_approval)


class InnerPaused(Paused):
    """A run inside a tool call paused: the call has no result yet, and the enclosing run pauses, too."""


InnerPaused.__name__ = Paused.__name__  # what frames, records and programs name a pause, wherever it waits


class ToolError(Exception):
    """Raise this in a tool to answer the call with an error; the model reads exactly its text."""


DENIED = "Denied"
"""The name in the `ExceptionInfo` of a call that was not allowed."""


@frozen
class ExceptionInfo:
    """What the model reads of a failed call: an unknown tool, invalid arguments, or an exception of the tool.

    Attributes:
        name: The name of the exception's class.
        message: The exception's text, without traceback and paths, which go to the log only.
        is_own: Whether agentkit or the developer wrote the text, such as that of a refusal or a timeout.  That of a
            tool may contain what others wrote.
        is_refusal: Whether the call was not allowed, and did not run.
    """

    name: str
    message: str
    is_own: bool = field(default=False, repr=False, compare=False)
    is_refusal: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def of(cls, error: BaseException) -> "ExceptionInfo":
        """Return the class name and the text of `error`; the text is "" if `str(error)` raises."""
        try:
            message = str(error)
        except Exception:
            message = ""
        return cls(type(error).__name__, message)

    def __str__(self) -> str:
        if self.name == ToolError.__name__:
            return self.message
        return f"{self.name}: {self.message}" if self.message else self.name


C = TypeVar("C")
MIN_LIKENESS = 0.6
"""Similarity from which a name is taken for a misspelt one."""
NO_TERMS: Mapping[str, str] = MappingProxyType({})


def suggest(
    name: str,
    names: Iterable[str],
    terms: Mapping[str, str] = NO_TERMS,
    *,
    then: str = "",
    likeness: float = MIN_LIKENESS,
) -> str:
    """Return what to do about an unknown name, a sentence; "" without a suggestion.

    Args:
        name: The name.
        names: The names that exist.
        terms: Remedies by names that belong to something else.
        then: What follows the suggestion, or stands alone without one.
        likeness: The similarity, from 0 to 1, from which a name is taken for a misspelt one.
    """
    if (hint := terms.get(name, "")) == "" and (close := get_close_matches(name, list(names), 1, likeness)):
        hint = f"Did you mean {close[0]!r}?"
    return f"{hint} {then}".strip()


def plain_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, also if only type checkers know a type in it.

    Python 3.14 reads the annotations when they are used, and has `ForwardRef` for these.

    Raises:
        ValueError: The function is a builtin without a signature.
    """
    if sys.version_info >= (3, 14):
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def check_takes(setting: str, function: Callable[..., Any], argument: str) -> None:
    """Raise `DefinitionError` for a function of a setting that does not take its one argument, which has this name."""
    try:
        plain_signature(function).bind(None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        remedy = f"Write def {name}({argument}): ..." if name.isidentifier() else f"Write lambda {argument}: ..."
        raise DefinitionError(f"{setting}: {name} must take one argument, the {argument} ({error}). {remedy}") from None


def suggest_name(name: str, names: Iterable[str], terms: Mapping[str, str], modules: Iterable[str]) -> str:
    """Return what to do about a name that a package does not have; "" without a suggestion.

    Args:
        name: The name.
        names: The names of the package.
        terms: Remedies by names that belong to something else.
        modules: The public modules of the package, whose sources and stubs are read; none is imported.
    """
    homes = [module for module in modules if _has_public(module, name)]
    found = {name: f"It is in another module: from {homes[0]} import {name}"} if homes else {}
    return suggest(name, names, {**found, **terms})


def _has_public(module: str, name: str) -> bool:
    spec = find_spec(module)
    assert spec is not None
    source: Any = spec.loader  # which also reads from an archive
    path = str(spec.origin)
    text = b""
    for place in (path.removesuffix(".py") + ".pyi", path):
        with suppress(OSError):
            text = text or source.get_data(place)
    lines = text.decode().splitlines()
    is_listed = any(f'"{name}"' in line for line in lines if line.startswith(('    "', "__all__")))
    return is_listed or any(line.endswith(f" as {name}") for line in lines)


def explain_attributes(terms: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """Return a class decorator: reading an attribute that does not exist and is in `terms` raises with its remedy.

    Type checkers do not see it, so they still report the attribute.  Python itself suggests close names.
    """

    def decorate(cls: type[C]) -> type[C]:
        def explain(value: Any, name: str) -> Any:
            if name not in terms:
                return object.__getattribute__(value, name)  # raises as it did, also what a property raised
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}. {terms[name]}")

        changed: Any = cls
        changed.__getattr__ = explain
        return cls

    return decorate


def explain_keywords(terms: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """Return a class decorator: an unknown keyword of the constructor raises `TypeError` with a suggestion."""

    def decorate(cls: type[C]) -> type[C]:
        construct: Callable[..., None] = cls.__init__
        _, *names = inspect.signature(construct).parameters

        @wraps(construct)
        def checked(value: Any, *args: Any, **given: Any) -> None:
            for name in given.keys() - set(names):
                hint = suggest(name, names, terms, then=f"Keywords: {', '.join(names)}.")
                raise TypeError(f"{cls.__name__}() got an unexpected keyword {name!r}. {hint}")
            construct(value, *args, **given)

        changed: Any = cls
        changed.__init__ = checked
        return cls

    return decorate
