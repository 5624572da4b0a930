"""What code inside a run finds: the `RunContext` of a tool, and the values that enclose its call.

The agent fills the parameters that no model sees from the context.  What a run and its policies give to the code inside
a tool call, and to the runs inside it, encloses the call: who decides, who answers, the budgets, the journal, the
telemetry.

An `Extension` gives an agent tools, a part of its instruction, and policies, which read the context of the run.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Protocol, TypeVar, Union, get_args, get_origin

from .errors import DefinitionError
from .flow import Event, Policy
from .messages import CallOrigin, Label, Message, ToolCall, Usage, make_addition
from .pending import Answers, CallQuestions
from .values import copy_with, frozen

T = TypeVar("T")
Make = Callable[[], Any]
"""Returns a value for the code inside a call; called before each run of the call."""
_VALUES: ContextVar[Mapping[type, Any]] = ContextVar("enclosing", default={})  # noqa: B039 - the default is never changed


def enclosing(kind: type[T]) -> T | None:
    """Return the value of a type that encloses the current code, the nearest one; None without one."""
    return _VALUES.get().get(kind)


def enclose(makers: Iterable[Make]) -> Token[Mapping[type, Any]]:
    """Let the values enclose the code that runs from now on in this context; each replaces the one of its type.

    A maker finds the values of those before it.
    """
    values = dict(_VALUES.get())
    token = _VALUES.set(values)
    try:
        for make in makers:
            value = make()
            values[type(value)] = value
    except BaseException:
        _VALUES.reset(token)
        raise
    return token


class enclosed:  # noqa: N801 - a context manager, faster than a generator with `contextmanager`
    """Let the values enclose the code of the body alone."""

    __slots__ = ("_makers", "_token")

    def __init__(self, makers: Iterable[Make]) -> None:
        self._makers = makers

    def __enter__(self) -> None:
        self._token = enclose(self._makers)

    def __exit__(self, *_: object) -> None:
        try:
            _VALUES.reset(self._token)
        except ValueError:
            return  # a coroutine that is not awaited to its end is closed in another context


Deps = TypeVar("Deps")


@frozen
class Progress(Event):
    """A tool reports progress through `RunContext.emit`; `call` is its call, `value` what it reports."""

    call: ToolCall | None
    value: Any


@frozen
class PlanStep:
    """A step of a plan."""

    text: str
    done: bool = False


@frozen
class PlanChanged(Event):
    """The model wrote its plan anew, or ticked steps off; `steps` is the whole plan."""

    steps: tuple[PlanStep, ...]


@frozen
class AgentPath:
    """The names of the agents inside tools that the enclosed code runs in, outermost first."""

    names: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Channel:
    """Carry events from tools to the listeners of their run; without `send`, between turns, they are dropped."""

    send: Callable[[Event], object] | None = None

    def put(self, event: Event) -> None:
        """Forward `event` to the listeners; from any thread."""
        if send := self.send:
            send(event)


@frozen(slots=False)
class RunContext(Generic[Deps]):
    """The run that calls a tool; a parameter of this type, under any name, is filled by the agent.

    Attributes:
        deps: The agent's `deps`.
        state: A dict that lives as long as the run; tools share it.
        session_state: A dict of JSON values that lives as long as the conversation, which is journaled and saved with
            it; tools and extensions share it.
        usage: Returns the requests, tokens and dollars that the run has used so far.
        call: The tool call that the model made.
        stream: Whether the run is streamed.
        inbox: Messages for the model, see `say`.
        channel: Carries events to the listeners, see `emit`.
        origin: The origin of what the call returns and says, see `mark_untrusted` and `limit_readers`.
        model: The model that the run asks; another agent takes it as `model=`.
        tools: Returns the tools of the current step, a `ToolRegistry`.
        run_program: Runs a program inside the call, whose calls are calls of this agent's tools; see `RunProgram`.
        messages: The conversation so far; it is the run's own list: read it, never change it.
        texts: The whole texts of its truncated results, `TruncatedResults`.
        find_model: Returns the backend of a model's name.
    """

    deps: Deps
    state: dict[str, Any] = field(default_factory=dict)
    usage: Callable[[], Usage] = Usage
    call: ToolCall | None = None
    stream: bool = False
    inbox: deque[Message] = field(default_factory=deque, repr=False)
    channel: Channel = field(default_factory=Channel, repr=False)
    origin: CallOrigin = field(default_factory=CallOrigin, repr=False)
    model: Any = field(default=None, repr=False)
    session_state: dict[str, Any] = field(default_factory=dict)
    tools: Callable[[], Any] = field(default=dict, repr=False)
    run_program: "RunProgram | None" = field(default=None, repr=False)
    messages: Sequence[Message] = field(default=(), repr=False)
    texts: Any = field(default=None, repr=False)
    find_model: Callable[[str], Any] = field(default=str, repr=False)

    @property
    def answered(self) -> Answers | None:
        """The answers to the questions that ended this call before, see `InputRequired`; None without any."""
        questions = enclosing(CallQuestions)
        return questions.answered if questions else None

    def for_call(self, call: ToolCall) -> "RunContext[Deps]":
        """Return the context of a call of the run; each call has its own."""
        return copy_with(self, {"call": call, "origin": CallOrigin()})

    def say(self, text: str) -> None:
        """Add a user message to the next request; from any thread.  It has the label of the call's result."""
        self.inbox.append(make_addition(text, self.origin.label))

    def mark_untrusted(self, source: str = "") -> None:
        """Mark what this call returns and says as untrusted, for a tool whose results are not always.

        Args:
            source: Who may have written it; default: the tool's name.
        """
        self.origin.add(Label.untrusted(source or (self.call.name if self.call else "a tool")))

    def limit_readers(self, *readers: str) -> None:
        """Limit who may read what this call returns and says, as `readers=` of a tool does for all its calls.

        Args:
            *readers: Recipients, such as addresses and paths, and names of tools.
        """
        self.origin.add(Label("trusted", (), readers))

    def emit(self, value: Any) -> None:
        """Send an event to the listeners, or any other value as `Progress`; from any thread."""
        self.channel.put(value if isinstance(value, Event) else Progress(self.call, value))


@dataclass(slots=True, eq=False)
class ParentCall:
    """A tool call while it runs: the parent of what is called inside it, an agent for example.

    Attributes:
        call: The call.
        context: The run that makes it.
        claimed: The ids of the runs that began inside it.
    """

    call: ToolCall
    context: RunContext[Any]
    claimed: set[str] = field(default_factory=set)


class RunProgram(Protocol):
    """Run a program as a run inside a call: approved, limited, labelled, journaled and shown as an agent in a tool is.

    The policy is the program.  It answers each `AskModel` effect with the next calls, and gets their results as the
    outcomes of `CallTools` effects; its last reply calls the answer tool with a text.  Every other policy of the agent
    sees the calls as it sees those of the model.
    """

    def __call__(self, run: RunContext[Any], query: str, program: Policy, session: Any) -> Awaitable[str]:
        """Return the answer of the program.

        Args:
            run: The context of the call.
            query: What the program is begun with; the history shows it as the question.
            program: The policy.
            session: A new session, which is given the messages of a program that continues.
        """
        ...


class _Mark:
    """Mark a parameter as filled by the agent."""

    def __repr__(self) -> str:
        return "Injected"


MARK = _Mark()
Injected = Annotated[T, MARK]
"""Mark a parameter to be filled from the agent's `deps`, by its type.

Write `db: Injected[Database]`, or `db: Annotated[Database, Injected]`.
"""


def is_injected(annotation: Any) -> bool:
    """Return whether a parameter with this annotation is hidden from the model and filled by the agent.

    An alternative of a union counts: `Injected[T] | None` and `RunContext | None` are injected.
    """
    if any(mark is MARK or mark is Injected for mark in getattr(annotation, "__metadata__", ())):
        return True
    inside = _inside(annotation)
    return any(map(is_injected, inside)) if inside else RunContext in _classes_to_inject(annotation)


def is_injected_inside(annotation: Any) -> bool:
    """Return whether a mark stands deeper in an annotation, where it has no effect: `list[Injected[T]]`."""
    inside = get_args(annotation)
    return any(is_injected(entry) or is_injected_inside(entry) for entry in inside)


def wants_run(injected: Iterable[inspect.Parameter]) -> bool:
    """Return whether one of these parameters is filled with the `RunContext` itself."""
    return any(RunContext in _classes_to_inject(parameter.annotation) for parameter in injected)


def find_injected(parameter: inspect.Parameter, context: RunContext[Any]) -> Any:
    """Return the value for an injected parameter: the context itself, or the value in `deps` that has its type.

    That is `deps`, or one of its entries or attributes. Where none has the type, it is the parameter's default, or None
    if its annotation allows None.

    Raises:
        DefinitionError: `deps` holds no value of the type for a parameter without a default, or more than one; or is
            missing for a `RunContext[T]`.
    """
    classes = _classes_to_inject(parameter.annotation)
    deps = context.deps
    has_default = parameter.default is not parameter.empty
    if RunContext in classes:
        if deps is None and not has_default and (needed := _deps_needed(parameter.annotation)) is not None:
            name = getattr(needed, "__name__", str(needed))
            raise DefinitionError(
                f"deps: a tool's parameter is a RunContext[{name}], and `deps` is missing. {_pass_deps(name)}."
            )
        return context
    wanted = tuple(entry for entry in classes if entry is not NoneType)
    if Any in wanted:
        return parameter.default if deps is None and has_default else deps
    if isinstance(deps, wanted):
        return deps
    entries = deps.values() if isinstance(deps, dict) else vars(deps).values() if hasattr(deps, "__dict__") else ()
    found = [value for value in entries if isinstance(value, wanted)]
    if not found and (has_default or NoneType in classes):
        return parameter.default if has_default else None
    if len(found) != 1:
        name = " or ".join(getattr(entry, "__name__", str(entry)) for entry in wanted)
        raise DefinitionError(
            f"deps: expected exactly one {name} for a tool's parameter, found {len(found)}. "
            f"{_pass_deps(name)}, or pass an object that has exactly one."
        )
    return found[0]


def _pass_deps(name: str) -> str:
    return f"Pass it as JsonAgent(..., deps=my_{name.split()[0].lower()}) or agent.run(query, deps=...)"


def _deps_needed(annotation: Any) -> Any:
    """Return the type of `deps` in `RunContext[T]`; None where it may be missing."""
    context = annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation
    (wanted,) = get_args(context) if get_origin(context) is RunContext else (None,)
    may_miss = wanted in (Any, None, NoneType) or isinstance(wanted, TypeVar) or NoneType in get_args(wanted)
    return None if may_miss else wanted


def _inside(annotation: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, or the type inside `Annotated`."""
    if hasattr(annotation, "__metadata__"):
        return (annotation.__origin__,)
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()


def _classes_to_inject(annotation: Any) -> tuple[Any, ...]:
    """Return the classes in an annotation, without the mark and without type arguments."""
    if inside := _inside(annotation):
        return tuple(found for entry in inside for found in _classes_to_inject(entry))
    return (get_origin(annotation) or annotation,)


class Extension:
    """Give an agent tools, a part of its instruction and policies: `JsonAgent(tools, extensions=[Notes()])`.

    Derive a class and override what you need.  One object may serve several agents, and many runs at the same time.
    What belongs to a run is kept in `context.state`, and what belongs to the conversation in `self.state(context)`.

    Attributes:
        name: The name in errors, and the key of the state; default: the name of the class.
        tools: Functions, tools, registries or servers, read once, when the agent is made; they come after the agent's
            own tools.
        sees_sent_requests: Whether its policies receive requests as they are sent, when `ContextWindow` has taken old
            texts out of them; else they receive requests with the whole conversation.
    """

    name: str = "Extension"
    tools: Iterable[Any] = ()
    sees_sent_requests: bool = False

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def state(self, context: RunContext[Any]) -> dict[str, Any]:
        """Return what the extension keeps with the conversation: JSON values, for its methods and its tools to change.

        They are journaled and saved with the conversation, and are there again when it resumes or is replayed.
        """
        own: dict[str, Any] = context.session_state.setdefault(self.name, {})
        return own

    def instruction(self, context: RunContext[Any]) -> str:  # noqa: ARG002
        """Return a text that the instruction ends with, "" for none.

        It is called once, when a run begins; a run that resumes or is replayed keeps the text.  A text that is the same
        in each run keeps the prompt caches of providers valid.
        """
        return ""

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:  # noqa: ARG002
        """Return the policies of a run; they receive an effect after the agent's own policies."""
        return ()

    async def open(self, context: RunContext[Any]) -> None:
        """Prepare for a run: open a connection, say, and store it in `context.state`.  An error ends the run."""

    async def close(self, context: RunContext[Any]) -> None:
        """Release what `open` has opened, at the end of the run, whatever the end is.  An error becomes a warning."""
