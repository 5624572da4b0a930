"""Settings of a tool."""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

from ..core.errors import DefinitionError, suggest
from ..core.messages import TRUSTED, Label
from ..schemas.signature import iter_wrapped

RepairMode: TypeAlias = Literal["safe", "off"]
"""Whether mistakes of the model are repaired where the repair is certain, or all reported to it."""
OnError: TypeAlias = Literal["tell", "raise"]
"""Who receives an exception of a tool: the model, as a message, or the caller of the run."""
ToolEffect: TypeAlias = Literal["read", "idempotent", "write", "danger"]
"""Side effects of a call: none; running twice equals running once; each run counts; a person should know."""
Timeout: TypeAlias = float | Literal["agent"] | None
"""Seconds; None is no timeout, "agent" is the agent's setting."""
Isolation: TypeAlias = Literal["process"]
"""Where a tool runs that must be stoppable: in a process of its own."""
Trust: TypeAlias = Literal["trusted", "untrusted"]
"""Whether a tool's result is from a trusted source, or from pages, mails and files that anyone may have written."""
TrustedFields: TypeAlias = Mapping[str, Literal["trusted"]]
"""The fields of an untrusted result whose values are trusted, by their paths: `{"sender.email": "trusted"}`."""


class ToolSettings(TypedDict, total=False):
    """How the calls of one tool run.

    Attributes:
        repair: "off" reports every mistake in the arguments to the model, also where the repair is certain.
        on_error: "raise" ends the run with the exception of the function.  A `ToolError` is always for the model.
        max_result: Characters of a result that the model reads at once; default: the agent's setting.
        timeout: Seconds, retries included, before a call in a run is cancelled; None: no timeout.
        effect: "read" (no side effects: calls overlap, equal ones of a turn run once), "idempotent" (running twice
            equals running once), "write" or "danger" (a person should know).  All but "read" run alone, in the model's
            order.  Without an effect, calls overlap and each one runs.
        retries: How often a failed call ("read" or "idempotent") runs again, unless it failed with `ToolError`.
        sequential: Whether calls never overlap, in any run, because the function is not thread-safe.
        isolate: "process" runs each call in a process that is killed on a timeout or a cancel.  The conditions are
            documented in `agentkit.tools.isolation.process`.
        trust: "untrusted" for content that others may have written: the model reads it as data, see `policies.taint`.
            "trusted" for a source, such as contacts, that also confirms values which untrusted content contains.
            `{"from": "trusted"}` for an untrusted result with trusted fields.
        egress: Whether calls send data outside, reads included, so that they are checked after untrusted content was
            read.  Default: if a parameter is a web address.
        readers: Who may read what calls return: recipients, such as addresses and paths, and names of tools.  A call
            that sends data from there to others waits for a decision.  Default: everyone.
        describe_returns: Whether the description ends with what the tool returns: the text of the docstring's
            `Returns:`, and the JSON Schema of the return type.
    """

    repair: RepairMode
    on_error: OnError
    max_result: int | None
    timeout: Timeout
    effect: ToolEffect | None
    retries: int
    sequential: bool
    isolate: Isolation | None
    trust: Trust | TrustedFields | None
    egress: bool | None
    readers: Sequence[str] | None
    describe_returns: bool


DEFAULTS: Final[ToolSettings] = {
    "repair": "safe",
    "on_error": "tell",
    "max_result": None,
    "timeout": "agent",
    "effect": None,
    "retries": 0,
    "sequential": False,
    "isolate": None,
    "trust": None,
    "egress": None,
    "readers": None,
    "describe_returns": False,
}
KEYWORDS: Final = ("name", "description", "parameters", "overload", *DEFAULTS)
"""All keywords of a tool."""
REPEATABLE_EFFECTS: Final = ("read", "idempotent")
"""Effects of calls that may be retried."""
ORDERED_EFFECTS: Final = ("idempotent", "write", "danger")
"""Effects of calls that run alone, in the order of the model."""
_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "repair": get_args(RepairMode),
    "on_error": get_args(OnError),
    "effect": (*get_args(ToolEffect), None),
    "isolate": (*get_args(Isolation), None),
    "egress": (True, False, None),
    "describe_returns": (True, False),
    "sequential": (True, False),
}


def read_declared_settings(function: Any) -> ToolSettings:
    """Return the settings in the attribute `__agentkit__` of a function, a tool or a `ToolExecutor`.

    They are inherited through partials, methods and decorators, so that a wrapper of a dangerous tool is dangerous too.
    The outermost declaration takes precedence.
    """
    found: dict[str, Any] = {}
    for layer in iter_wrapped(function):
        for holder in (layer, getattr(layer, "__self__", None)):
            declared = getattr(holder, "__agentkit__", None)
            found = {**declared, **found} if isinstance(declared, dict) else found
    return cast("ToolSettings", found)


def explain_unknown_setting(owner: str, name: str, names: Sequence[str] = KEYWORDS) -> str:
    """Return the error text for a keyword that is not among `names`."""
    if name in KEYWORDS:
        return f"{owner}: {name}= is for tools from functions. Put it into the schema or the class of the arguments."
    hint = suggest(name, names, then=f"The settings are: {', '.join(names)}.")
    return f"{owner} has no setting {name!r}. {hint}"


def check_choice(what: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise `DefinitionError` unless `value` is one of `choices`."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise DefinitionError(f"{what} must be one of {', '.join(map(repr, choices))}, got {value!r:.80}")


def complete_settings(tool: str, settings: ToolSettings) -> ToolSettings:
    """Return the settings with defaults; raise `TypeError` for an unknown one, `DefinitionError` for a bad value."""
    if unknown := set(settings) - set(DEFAULTS):
        raise TypeError(explain_unknown_setting(f"the tool {tool!r}", min(unknown)))
    whole: dict[str, Any] = {**DEFAULTS, **settings}
    for name, choices in _CHOICES.items():
        check_choice(f"the tool {tool!r}: {name}", whole[name], choices)
    if not _is_trust(whole["trust"]):
        raise DefinitionError(
            f"the tool {tool!r}: trust must be one of {', '.join(map(repr, get_args(Trust)))}, None, or the trusted "
            f"fields as {{'from': 'trusted'}}, got {whole['trust']!r}"
        )
    readers = whole["readers"]
    is_list = isinstance(readers, Sequence | Set) and not isinstance(readers, str)
    if readers is not None and not (is_list and all(isinstance(name, str) and name for name in readers)):
        raise DefinitionError(
            f"the tool {tool!r}: readers must be a list of recipients or None for everyone, got {readers!r:.80}"
        )
    check_timeout(whole["timeout"], f"the tool {tool!r}: timeout")
    check_integer_from(f"the tool {tool!r}: retries", whole["retries"], 0)
    check_integer_from(f"the tool {tool!r}: max_result", whole["max_result"], 1, or_none=True)
    if whole["retries"] and whole["effect"] not in REPEATABLE_EFFECTS:
        raise DefinitionError(
            f"the tool {tool!r}: only a call that may run twice can be retried. Add "
            "effect='read' or effect='idempotent', or remove retries."
        )
    return cast("ToolSettings", whole)


def label_results(tool: str, trust: Trust | TrustedFields | None, readers: Sequence[str] | None) -> Label:
    """Return the label of what a tool itself reads."""
    readers = None if readers is None else tuple(readers)
    if trust is not None and trust != "trusted":
        return Label("untrusted", (tool,), readers)
    return TRUSTED if readers is None else Label("trusted", (), readers)


def _is_trust(trust: Any) -> bool:
    if isinstance(trust, Mapping):
        return bool(trust) and all(isinstance(name, str) and kind == "trusted" for name, kind in trust.items())
    return trust is None or trust in get_args(Trust)


def check_integer_from(what: str, value: Any, least: int, *, or_none: bool = False) -> None:
    """Raise `DefinitionError` unless `value` is an integer from `least` on, or None where that is allowed."""
    if or_none and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        wanted = f"an integer >= {least}{' or None' if or_none else ''}"
        raise DefinitionError(f"{what} must be {wanted}, got {value!r:.80}")


def check_timeout(timeout: Any, what: str) -> None:
    """Raise `DefinitionError` unless `timeout` is a number of seconds above 0, None or "agent"."""
    if timeout is None or timeout == "agent":
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0 or math.isinf(timeout):
        raise DefinitionError(f"{what} must be a number of seconds above 0, or None for no timeout; got {timeout!r}")
