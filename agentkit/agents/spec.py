"""What an agent is, as a value: its tools, its model, its instruction and its settings, without a conversation.

An agent holds one specification.  A run with other settings, a branch of a run or a reader of hidden texts is a changed
copy, `replace(spec, ...)`, so no part of a run can change the agent.

The first part is about the extensions of an agent: what is checked when it is made, and what they add to its tools
and its runs.
"""

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import (
    Any,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    overload,
)

from ..core.context import Extension, RunContext, enclosing
from ..core.errors import DefinitionError, RunError, check_takes
from ..core.flow import Listener, Policy
from ..core.masking import MaskedDict, mask, mask_exception, masked_repr
from ..core.messages import Message
from ..core.values import frozen
from ..engine.model import Model
from ..policies.answer_checks import Check, check_arity
from ..policies.limits import FLAT_NAMES, NO_LIMITS, UNSET, Limits
from ..policies.pending import Decide
from ..policies.questions import Respondents
from ..policies.quota import Account, Accounts, Quota, QuotaStore, check_owner
from ..policies.taint.hidden import HANDLE_TOOLS
from ..policies.taint.policy import UntrustedSetting
from ..sessions.journal.run_info import Setup, schemas_of
from ..sessions.journal.store import JournalLocation
from ..sessions.session import Session
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.toolset import Toolset, split_toolsets
from .backends import Backends, check_model, is_model_selector, preload
from .instruments import Instrument

_METHODS = {"instruction": "def", "policies": "def", "open": "async def", "close": "async def"}


def check_extensions(given: Any) -> tuple[Extension, ...]:
    """Return extensions as a tuple; raise `DefinitionError` for anything else, and for two with the same name."""
    if isinstance(given, Extension | str) or not isinstance(given, Iterable):
        raise DefinitionError(f"extensions must be a list of extensions, got {given!r:.80}. Write extensions=[...].")
    found = tuple(given)
    names = set[str]()
    for entry in found:
        if isinstance(entry, type) and issubclass(entry, Extension):
            name = entry.__name__
            raise DefinitionError(f"extensions: got the class {name}. Give an object of it: extensions=[{name}()].")
        if not isinstance(entry, Extension):
            remedy = "Derive its class from agentkit.extend.Extension; tools and servers stand among the tools."
            raise DefinitionError(f"extensions: expected objects of Extension, got {entry!r:.80}. {remedy}")
        for name, written in _METHODS.items():
            method = getattr(entry, name)
            is_awaited = written == "async def"
            if not callable(method) or inspect.iscoroutinefunction(method) != is_awaited:
                what = "a coroutine function" if is_awaited else f"a function, got {method!r:.80}"
                raise DefinitionError(f"{type(entry).__name__}.{name} must be {what}. Write: {written} {name}(...)")
        if entry.name in names:
            remedy = "Leave one out, or give its class a name of its own: name = '...'"
            raise DefinitionError(f"two extensions are called {entry.name!r}. {remedy}.")
        names.add(entry.name)
    return found


def add_tools(tools: ToolRegistry, extensions: Iterable[Extension]) -> tuple[ToolRegistry, tuple[Toolset, ...]]:
    """Return tools with those of extensions after them, and the toolsets of the extensions.

    Raises:
        DefinitionError: The tools of an extension are no list of tools, or a name is taken.
    """
    owners = dict.fromkeys(tools, "a tool of the agent")
    added: list[ToolRegistry] = []
    toolsets: list[Toolset] = []
    for extension in extensions:
        given = extension.tools
        if isinstance(given, str) or callable(given) or not isinstance(given, Iterable):
            remedy = "Set it to a list, or write it as a property."
            raise DefinitionError(f"{extension.name}.tools must be a list of tools, got {given!r:.80}. {remedy}")
        entries, sources = split_toolsets(given)
        own = ToolRegistry(tool.offered() for tool in ToolRegistry(entries).own_tools)
        for name in own:
            if name in owners:
                remedy = "Rename one: @tool(name='...')"
                raise DefinitionError(
                    f"extension {extension.name}: its tool {name!r} has the name of {owners[name]}. {remedy}."
                )
            owners[name] = f"a tool of the extension {extension.name}"
        added.append(own)
        toolsets += sources
    return (tools.merged(added) if any(added) else tools), tuple(toolsets)


def write_instruction(extension: Extension, context: RunContext[Any]) -> str:
    """Return what an extension adds to the instruction of a run; raise `DefinitionError` for anything but a text."""
    text = extension.instruction(context)
    if not isinstance(text, str):
        remedy = "Return '' for none."
        raise DefinitionError(f"{extension.name}.instruction must return a text, got {text!r:.80}. {remedy}")
    return text.strip()


def list_policies(extension: Extension, context: RunContext[Any]) -> Sequence[Policy]:
    """Return the policies of an extension for a run; raise `DefinitionError` for anything else."""
    given = extension.policies(context)
    if callable(given) or not isinstance(given, Iterable) or not all(map(callable, found := tuple(given))):
        raise DefinitionError(f"{extension.name}.policies must return a list of functions, got {given!r:.80}.")
    return found


def opens(extension: Extension) -> bool:
    """Return whether an extension has an `open` or a `close` of its own."""
    kind = type(extension)
    return kind.open is not Extension.open or kind.close is not Extension.close


@dataclass
class OpenedExtension:
    """Open an extension for a run as a toolset is opened."""

    name: str
    extension: Extension
    context: RunContext[Any] = field(compare=False)

    async def open_tools(self) -> None:
        await self.extension.open(self.context)

    async def close_tools(self) -> None:
        await self.extension.close(self.context)

    def list_tools(self) -> Sequence[JsonTool[..., Any]]:
        return ()


INSTRUCTION = """\
Work through the task step by step with the tools, several calls at once where they do not depend on each other. \
Rely on what the tools return; when one fails, try another way or say so. \
When the task is done, or cannot be done, call final_answer; call it only then."""
ToolMode: TypeAlias = Literal["auto", "schema", "text"]
ToolThread: TypeAlias = Literal["worker", "caller"]
ToolSelector: TypeAlias = Callable[[RunContext[Any]], Iterable[Any]]
"""A function of the run that returns the tools for its next step."""
Description: TypeAlias = str | Callable[[RunContext[Any]], str]
"""What an agent is, or a function of the run that returns it."""
ModelSelector: TypeAlias = Callable[[RunContext[Any]], str | Model]
"""A function of the run that returns its model."""
V = TypeVar("V")


def _integer_from(least: int, *, or_none: bool = False) -> tuple[Callable[[Any], bool], str]:
    def holds(value: Any) -> bool:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return (is_integer and value >= least) or (or_none and value is None)

    return holds, f"an integer >= {least}{' or None' if or_none else ''}"


_VALID_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "retries": _integer_from(0),
    "max_concurrency": _integer_from(1, or_none=True),
    "requests_per_minute": _integer_from(1, or_none=True),
    "approve": (lambda value: value in (None, "ask") or callable(value), 'a function of the call, "ask" or None'),
    "on_question": (
        lambda value: value in (None, "ask") or callable(value),
        'a function of the question, "ask" or None',
    ),
    "sequential": (lambda value: isinstance(value, bool), "True or False"),
    "tool_thread": (lambda value: value in get_args(ToolThread), '"worker" or "caller"'),
    "memory": (lambda value: isinstance(value, bool), "True or False"),
    "description": (lambda value: isinstance(value, str) or callable(value), "a text or a function of the run"),
    "tool_mode": (lambda value: value in get_args(ToolMode), '"auto", "schema" or "text"'),
    "untrusted": (lambda value: value in get_args(UntrustedSetting), '"values", "context" or "hidden"'),
    "quota": (
        lambda value: value is None or isinstance(value, Quota),
        "Quota(owner=..., dollars=...) or None",
    ),
}
"""For each setting: a check of its value, and the description of valid values."""


@frozen(slots=False)
class Settings:
    """The settings of an agent's runs; the docstring of `JsonAgent` describes them."""

    limits: Limits
    retries: int
    sequential: bool
    tool_thread: ToolThread
    max_concurrency: int | None
    requests_per_minute: int | None
    approve: Decide | Literal["ask"] | None
    on_question: Respondents
    checks: Sequence[Check]
    tool_mode: ToolMode
    untrusted: UntrustedSetting
    policies: Sequence[Policy]
    telemetry: Instrument | Literal[False] | None = None
    """False for none, None if the agent leaves it open."""
    quota: Quota | None = None

    def __post_init__(self) -> None:
        check_values(**{name: getattr(self, name) for name in _VALID_VALUES if hasattr(self, name)})
        for name in ("policies", "checks"):
            object.__setattr__(self, name, check_functions(name, getattr(self, name)))
        for check in self.checks:
            check_arity(check)
        for name, argument in (("approve", "call"), ("on_question", "question")):
            if callable(function := getattr(self, name)):
                check_takes(name, function, argument)
        if self.quota is not None and callable(self.quota.owner):
            _check_selector("quota owner", self.quota.owner)


@frozen(slots=False)
class AgentSpec:
    """The specification of an agent; the docstring of `JsonAgent` describes what is a parameter there.

    Attributes:
        select: The function that returns more tools for each step, if `tools` was one.
        text_ends: Whether a text without tool calls is the answer.
        own_instruction: The whole system message, in place of the description and how to work.
        extract: Answers a question about a text with the model of a specification, for `untrusted="hidden"`.
        run_program: Runs a program with the tools of a specification, for `RunContext.run_program`.
        program_of: The messages of the run in which a program makes the calls, in place of a model: it may repeat them.
        extensions: The extensions; `tools` and `toolsets` have what they bring.
    """

    tools: ToolRegistry
    settings: Settings
    backends: Backends
    extract: "Extract"
    run_program: "RunProgramOf"
    toolsets: tuple[Toolset, ...] = ()
    extensions: tuple[Extension, ...] = ()
    select: ToolSelector | None = None
    model: str | Model | ModelSelector | None = None
    description: Description = ""
    own_instruction: str = ""
    deps: Any = None
    listeners: tuple[Listener, ...] = ()
    journal: JournalLocation = None
    handoffs: Mapping[str, Any] = field(default_factory=dict)
    text_ends: bool = True
    memory: bool = True
    program_of: Sequence[Message] | None = None

    __repr__ = masked_repr

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "an agent cannot be pickled or copied deeply: its tools are functions of this process. Make it where it is "
            "used. agent.session.save(path) stores its conversation, agent.map(queries) answers many queries at a time"
        )

    def alone(self, **parts: Any) -> "AgentSpec":
        """Return the specification with other parts, without servers, extensions, hand-offs and a journal."""
        return replace(
            self, select=None, toolsets=(), extensions=(), handoffs={}, journal=None, text_ends=False, **parts
        )

    @property
    def about(self) -> str:
        """The description; "" for a function, which only a run can call."""
        return self.description if isinstance(self.description, str) else ""

    @cached_property
    def selects_model(self) -> bool:
        """Whether the model is a function, which only a run can call."""
        return is_model_selector(self.model)

    @cached_property
    def fixed_model(self) -> str | Model | None:
        """The model, checked; None for a function."""
        model: str | Model | None = None if self.selects_model else check_model(self.model)
        return model

    @cached_property
    def instruction(self) -> str:
        """The system message without the texts of extensions, which follow it in a run, and of a function."""
        return self.own_instruction or f"{self.about.strip()}\n\n{INSTRUCTION}".strip()

    @property
    def _fixed_instruction(self) -> str | None:
        """The begin of the system message, if a run adds to it; "" if a function writes it."""
        if callable(self.description) and not self.own_instruction:
            return ""
        return self.instruction if self.extensions else None

    def instruct(self, context: RunContext[Any]) -> str:
        """Return the system message of a run."""
        instruction = self.instruction
        if callable(self.description) and not self.own_instruction:
            described = _call_with_run("description", self.description, context)
            if not isinstance(described, str):
                raise _selector_error("description", self.description, "a text", described)
            instruction = f"{described.strip()}\n\n{INSTRUCTION}".strip()
        added = (write_instruction(extension, context) for extension in self.extensions)
        return "\n\n".join([instruction, *filter(None, added)])

    def is_instructed_by(self, text: str) -> bool:
        """Return whether a text may be the system message of a run of this agent."""
        fixed = self._fixed_instruction
        if fixed == "":
            return INSTRUCTION in text
        return text == self.instruction if fixed is None else text.startswith(fixed)

    def choose_model(self, context: RunContext[Any], chosen: str) -> "AgentSpec":
        """Return the specification with the model of a run: that of its function, or the one `chosen` before."""
        model = chosen or _call_with_run("model", cast(ModelSelector, self.model), context)
        if model is None or is_model_selector(model):
            raise _selector_error("model", self.model, "the name of a model or a model object", model)
        return replace(self, model=check_model(model))

    def list_accounts(self, context: RunContext[Any], store: QuotaStore | None) -> list[Account]:
        """Return the accounts from which a run pays: of its quota, and of those of the enclosing run.

        Raises:
            DefinitionError: The store cannot keep quotas, or the run has none.
        """
        outer = enclosing(Accounts)
        accounts = [account.copy() for account in outer.of_run] if outer else []
        if (quota := self.settings.quota) is None:
            return accounts
        if store is None:
            raise DefinitionError(
                "quota: the sums of all processes are in a journal, and the run has none. "
                'Give one: JsonAgent(..., journal="runs.db")'
            )
        owner = quota.owner
        own = Account(
            quota, check_owner(_call_with_run("quota owner", owner, context) if callable(owner) else owner), store
        )
        same = [account for account in accounts if account.is_account_of(own)]  # a request counts once in an account
        others = [account for account in accounts if account not in same]
        return [min([own, *same], key=lambda account: account.quota.dollars), *others]

    def setup(self, instruction: str = "") -> Setup:
        """Return what a run begins with, with the system message of the run; without one, for a comparison."""
        return Setup(instruction or self.instruction, schemas_of(self.tools), fixed=self._fixed_instruction)

    @cached_property
    def all_settings(self) -> Mapping[str, Any]:
        """The settings of runs and of the model; secrets are masked where they are shown."""
        steps = {"max_steps": self.settings.limits.steps}
        return MaskedDict({**vars(self.settings), **steps, "handoffs": self.handoffs, **self.backends.options})

    def check(self, names: Iterable[str]) -> None:
        """Check the tools, the texts and the options of a new agent, and begin to load the backend of its model.

        Raises:
            DefinitionError: The agent has no tools, one of them has a name that agentkit's own have, `deps` lacks a
                value that one of them needs, or an option is neither one of the keywords `names` nor one of the model.
        """
        has_tools = len(self.tools) > 1 or self.tools.provider_tools or self.select is not None or self.toolsets
        if not has_tools and self.text_ends:
            raise DefinitionError("an agent needs tools: JsonAgent([my_function, my_other_function])")
        for tool in self.tools.own_tools if self.settings.tool_thread == "caller" else ():
            if isinstance(tool.timeout, int | float) and not tool.is_async and tool.isolate is None:
                raise DefinitionError(
                    f"{tool.name}: on the calling thread (tool_thread='caller') a timeout cannot be kept. "
                    "Set timeout=None, or isolate it."
                )
        for name in HANDLE_TOOLS if self.settings.untrusted == "hidden" else ():
            if name in self.tools:
                raise DefinitionError(
                    f'the tool name {name!r} is taken: untrusted="hidden" offers a tool with that name. Rename yours, '
                    '@tool(name="...").'
                )
        if self.deps is not None:  # else the runs give theirs
            self.tools.check_injected(RunContext(self.deps))
        self.backends.check_options(self.model, names)
        preload(self.model)

    def for_run(self, settings: Mapping[str, Any]) -> "AgentSpec":
        """Return the specification with the `RunSettings` of a run; raise `DefinitionError` for an invalid value."""
        options = dict(settings)
        deps = options.pop("deps", self.deps)
        if deps is not self.deps or deps is None:
            self.tools.check_injected(RunContext(deps))
        if not settings:
            return self
        listeners = (*self.listeners, *check_functions("listeners", options.pop("listeners", ())))
        policies = (*self.settings.policies, *check_functions("policies", options.pop("policies", ())))
        limits = join_limits(self.settings.limits, options.pop("limits", Limits()), take_flat_limits(options))
        quota = options.pop("quota", self.settings.quota)
        own = replace(self.settings, limits=limits, policies=policies, quota=quota)
        same_time = limits.request_seconds == self.settings.limits.request_seconds
        backends = self.backends.with_options(options, UNSET if same_time else limits.request_seconds)
        return replace(self, deps=deps, listeners=listeners, settings=own, backends=backends)


def read_model(model: Any) -> Any:
    """Return a model, or a function that returns one; raise `DefinitionError` for anything else."""
    if not is_model_selector(model):
        return check_model(model)
    _check_selector("model", model)
    return model


def read_description(description: Any) -> Description:
    """Return a description, or a function that returns one; raise `DefinitionError` for anything else."""
    check_values(description=description)
    if callable(description):
        _check_selector("description", description)
    return cast(Description, description)


def read_memory(memory: Any) -> bool:
    """Return whether calls share a conversation; raise `DefinitionError` for anything but a bool."""
    check_values(memory=memory)
    return bool(memory)


def read_toolsets(toolsets: Any) -> tuple[Toolset, ...]:
    """Return toolsets as a tuple; raise `DefinitionError` for anything else."""
    others, found = split_toolsets((toolsets,))
    if others:
        remedy = "Functions and tools are given when an agent is made: JsonAgent(my_function)"
        raise DefinitionError(f"toolsets must be a list of toolsets, got {others[0]!r:.80}. {remedy}")
    return found


def _name(function: Any) -> str:
    return getattr(function, "__name__", "it")


def _check_selector(name: str, function: Any) -> None:
    """Raise `DefinitionError` for a function that cannot be called with a `RunContext`, or has to be awaited."""
    if inspect.iscoroutinefunction(function):
        why = "it has to be awaited, and a run calls it before its first step. Write def instead of async def"
        raise DefinitionError(f"{name}={_name(function)}: {why}.")
    check_takes(name, function, "context")


def _call_with_run(name: str, function: Callable[[RunContext[Any]], Any], context: RunContext[Any]) -> Any:
    try:
        return function(context)
    except (RunError, DefinitionError):
        raise
    except Exception as error:
        mask_exception(error)
        what = f"{type(error).__name__}: {mask(str(error))}"
        raise RunError(f"{name}={_name(function)}: the function of the run failed: {what}") from error


def _selector_error(name: str, function: Any, wanted: str, given: Any) -> DefinitionError:
    return DefinitionError(f"{name}={_name(function)}: expected {wanted} from the function, got {given!r:.80}.")


Extract: TypeAlias = Callable[[AgentSpec, Any, str, str, RunContext[Any]], Awaitable[Any]]
"""A function of a specification, the type of the answer, the question, the text and the run."""


RunProgramOf: TypeAlias = Callable[[AgentSpec, Session, RunContext[Any], str, Policy, Session], Awaitable[str]]
"""A function of a specification, the session of its run, and the arguments of `RunProgram`."""


class Agent(Protocol):
    """An agent, as the other modules of this folder know it."""

    spec: AgentSpec
    session: Session


class SpecPart(Generic[V]):
    """An attribute of an agent that is in its specification; an assignment replaces the specification."""

    def __init__(self, check: Callable[[Any], V] | None = None) -> None:
        """Make an attribute.

        Args:
            check: Returns a value that is assigned, in the form of the specification, or raises `DefinitionError`.
                None for one that cannot be assigned, because tools were made from its value.
        """
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, agent: None, owner: type) -> Self: ...

    @overload
    def __get__(self, agent: Agent, owner: type) -> V: ...

    def __get__(self, agent: Agent | None, owner: type) -> Self | V:
        if agent is None:
            return self
        value: V = getattr(agent.spec, self._name)
        return value

    def __set__(self, agent: Agent, value: V) -> None:
        if self._check is None:
            raise AttributeError(f"an agent keeps its {self._name}. Make one: JsonAgent(..., {self._name}=...)")
        changed: dict[str, Any] = {self._name: self._check(value)}
        with _assignments:  # other threads may assign other attributes
            agent.spec = replace(agent.spec, **changed)


_assignments = threading.Lock()


def join_limits(outer: Limits, limits: Limits | None, flat: Mapping[str, Any]) -> Limits:
    """Return the limits in `limits=` and in options of their own, with those of `outer` where none is given.

    Raises:
        DefinitionError: `limits` is something else, or a limit is given in both ways.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise DefinitionError(f"limits must be Limits(tokens=..., seconds=...) or None, got {limits!r:.80}")
    own = NO_LIMITS if limits is None else limits
    for option, name in FLAT_NAMES.items():
        if option in flat and limits is not None and name in limits.given:
            raise DefinitionError(
                f"{option}={flat[option]!r} and Limits({name}={limits.given[name]!r}): the limit is given twice. "
                f"Leave {option}= out."
            )
    return replace(own, **{FLAT_NAMES[option]: value for option, value in flat.items()}).inherit(outer)


def take_flat_limits(options: dict[str, Any], *, warns: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Remove and return the limits among options; `warns` is called with the text for one that is now in `Limits`.

    Raises:
        DefinitionError: `max_steps` is not an integer above 0.
    """
    flat = {name: options.pop(name) for name in FLAT_NAMES if name in options}
    steps = flat.get("max_steps", 1)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise DefinitionError(f"max_steps must be an integer >= 1, got {steps!r:.80}")
    for name in flat.keys() - {"max_steps"}:
        if warns is not None:
            is_default = name == "request_timeout" and flat[name] is None
            remedy = "leave it out" if is_default else f"write limits=Limits({FLAT_NAMES[name]}={flat[name]!r})"
            warns(f"{name}= is deprecated: {remedy}")
    if flat.get("request_timeout", 0) is None:
        del flat["request_timeout"]  # it was the time of the backend
    return flat


def check_values(**values: Any) -> None:
    """Raise `DefinitionError` for the first value that its setting cannot have."""
    for name, value in values.items():
        holds, wanted = _VALID_VALUES[name]
        if not holds(value):
            raise DefinitionError(f"{name} must be {wanted}, got {value!r:.80}")


_ARGUMENTS = {"policies": "flow", "listeners": "event"}


def check_functions(name: str, functions: Any) -> tuple[Any, ...]:
    """Return functions as a tuple; raise `DefinitionError` for anything but a list of functions."""
    if isinstance(functions, Iterable) and not callable(functions) and all(map(callable, found := tuple(functions))):
        for function in found if name in _ARGUMENTS else ():
            check_takes(name, function, _ARGUMENTS[name])
            if inspect.iscoroutinefunction(function):
                why = "has to be awaited, and a run only calls it. Write def instead of async def"
                raise DefinitionError(f"{name}: {_name(function)} {why}.")
        return found
    raise DefinitionError(f"{name} must be a list of functions, got {functions!r:.80}")
