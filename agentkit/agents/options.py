"""Options of one run."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict

from ..core.approval_question import PersonAnswer
from ..core.flow import Listener, Policy
from ..core.labels import Label
from ..core.messages import ToolCall
from ..core.parts import Content
from ..engine.model import Model
from ..policies.budget import Limits
from ..policies.decisions import Decision, StoredDecision
from ..sessions.journal.conversation import Changed, StoredAnswer, Uncertain
from ..sessions.journal.location import JournalErrors, JournalLocation
from ..sessions.recordings import Replay
from ..sessions.session import Session

_Decided: TypeAlias = Decision | StoredDecision | PersonAnswer
Approved: TypeAlias = Mapping[str, _Decided] | Mapping[ToolCall, _Decided] | None
"""Decisions by calls or by their ids."""
ModelChoice: TypeAlias = str | Model | None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The query of a run (None: continue where the session stopped) and its options.

    `settings` are the `RunSettings` among the options.  `content` is what the user message has, if more than `query`.
    """

    query: str | None
    session: Session
    approvals: Approved = None
    stream: bool = False
    model: ModelChoice = None
    journal: JournalLocation = None
    record: str | os.PathLike[str] | None = None
    replay: Replay | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] | None = None
    content: Content = None
    label: Label | None = None
    """The label of the query; default: the user's, or that of the call that encloses the run."""
    tool: str = ""
    """The name of the tool that the agent is, where the run is such a call."""
    stored: StoredAnswer | None = None
    """The answer that the run has already given."""
    on_end: Listener | None = None
    """Gets the `RunEnded` of this run, like a listener."""


class RunSettings(TypedDict, total=False):
    """Options of a run that replace those of its agent; `listeners` and `policies` are added to the agent's.

    `temperature` and the options below it go to the model, see `JsonAgent`.  Agents inside tools keep their own.
    """

    deps: Any
    limits: Limits | None
    max_steps: int
    listeners: Sequence[Listener]
    policies: Sequence[Policy]
    temperature: float
    top_p: float
    max_tokens: int
    stop: str | list[str]
    seed: int
    reasoning_effort: str
    extra_body: dict[str, Any]
    extra_headers: dict[str, str]


class RunOptions(RunSettings, total=False):
    """Options of a run, see `JsonAgent.__call__`."""

    model: ModelChoice
    session: Session | None
    approvals: Approved
    answers: Mapping[str, Any] | None
    journal: JournalLocation
    journal_errors: JournalErrors | None
    record: str | os.PathLike[str] | None
    label: Label | None


class ResumeOptions(RunSettings, total=False):
    """Options of a run that is resumed.

    Calls that were in progress when the run stopped are repeated if their tool is declared "read" or "idempotent".
    For any other call the model is informed that the outcome is unknown, unless `on_uncertain` decides: a function of
    the call, or "ask" for the person at the terminal, returns True to repeat the call, or its result.  A run is not
    resumed by an agent with other tools or another instruction; `changed="go on"` allows that.
    """

    model: ModelChoice
    approvals: Approved
    answers: Mapping[str, Any] | None
    journal: JournalLocation
    on_uncertain: Uncertain
    changed: Changed


class ForkOptions(ResumeOptions, total=False):
    """Options of a branch of a run: also its tools and its instruction, if they are not the agent's."""

    tools: Iterable[Any] | None
    instruction: str


class ReplayOptions(TypedDict, total=False):
    """Options of a run that is replayed; recorded decisions about calls are used again.

    `execute` runs the tools, and asks for approvals; `any_model` accepts another provider's model; `timed` streams
    with the recorded delays.  With `journal` the run of that id in the journal is replayed, instead of a file.
    """

    execute: bool
    any_model: bool
    timed: bool
    journal: JournalLocation
