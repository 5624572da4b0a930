"""What an agent is asked, and what is said with it."""

import os
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

from ..core.errors import RunError
from ..core.flow import Policy
from ..engine.model import Model
from ..policies.approval import Decision
from ..sessions.journal.conversation import Changed, Uncertain
from ..sessions.journal.maintenance import DEFAULT, fork
from ..sessions.journal.store import Errors, Journal, Place, placed
from ..sessions.recordings import Recording, replaying
from ..sessions.session import Session
from ..tools.registry import ToolRegistry

Named: TypeAlias = str | Model | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is asked: a query (None to go on where the session stopped), and what is said with it.

    `replay` is the policy that gives it what was recorded, `decided` what was decided then.
    """

    query: str | None
    session: Session
    approvals: Mapping[str, Decision] | None = None
    stream: bool = False
    model: Named = None
    journal: Place = None
    record: str | os.PathLike[str] | None = None
    replay: Policy | None = None
    decided: Mapping[str, Decision] = field(default_factory=dict)


class How(TypedDict, total=False):
    """What can be said of one run, see `JsonAgent.__call__`."""

    model: Named
    session: Session | None
    approvals: Mapping[str, Decision] | None
    journal: Place
    journal_errors: Errors | None
    record: str | os.PathLike[str] | None


class Resuming(TypedDict, total=False):
    """What can be said of a run that goes on.

    Calls that were under way when it was stopped are made again if their tool is declared "read" or "idempotent"; of
    any other the model is told that its outcome is not known, unless `on_uncertain`, a function of the call or "ask"
    for the person at the terminal, gives True to make it again, or what it came to.  An agent with other tools or
    another instruction than the run began with is refused, and what changed is named; `changed="go on"` goes on.
    """

    model: Named
    approvals: Mapping[str, Decision] | None
    journal: Place
    on_uncertain: Uncertain
    changed: Changed


class Branching(Resuming, total=False):
    """What can be said of a branch of a run: the tools and the instruction that it goes on with, if not the agent's."""

    tools: Iterable[Any] | None
    instruction: str


class Replaying(TypedDict, total=False):
    """What can be said of a run that is replayed.

    What was decided about calls holds again, and nobody is asked.  `execute` runs the tools for real, and asks about
    them; `any_model` lets another provider's model stand for the recorded one; `timed` streams as slowly as the
    recorded run did.
    """

    execute: bool
    any_model: bool
    timed: bool


def asked_of(session: Session, query: str | None, how: How, *, stream: bool = False) -> Asked:
    """What `how` says, in the agent's own `session` if it names no other."""
    _check_names(how, How.__optional_keys__)
    session, journal = how.get("session") or session, placed(how.get("journal"), how.get("journal_errors"))
    return Asked(query, session, how.get("approvals"), stream, how.get("model"), journal, how.get("record"))


def _check_names(how: Mapping[str, Any], names: frozenset[str]) -> None:
    if wrong := how.keys() - names:
        raise TypeError(f"{min(wrong)!r} cannot be said of a run; what can: {', '.join(sorted(names))}")


class Resumable(Protocol):
    """What this file needs of an agent."""

    session: Session
    journal: Place


def resumed(agent: Resumable, run_id: str, how: Resuming) -> Asked:
    """What goes on with a run of the journal, as the agent's own conversation."""
    _check_names(how, Resuming.__optional_keys__)
    return _going_on(agent, run_id, how)


def _going_on(agent: Resumable, run_id: str, how: Resuming) -> Asked:
    changed = how.get("changed", "refuse")
    agent.session = Session.resumed(run_id, _place(agent, how), on_uncertain=how.get("on_uncertain"), changed=changed)
    return Asked(None, agent.session, how.get("approvals"), model=how.get("model"))


class Branchable(Resumable, Protocol):
    """What this file needs of an agent that goes on as another one."""

    tools: ToolRegistry
    _choose: Any
    _instruction: str


B = TypeVar("B", bound=Branchable)


def branched(agent: B, run_id: str, step: int, how: Branching) -> tuple[B, Asked]:
    """A new branch of a run in the journal: the agent that goes on with it, and what that is asked."""
    _check_names(how, Branching.__optional_keys__)
    twin = copy(agent)
    twin._instruction = how.get("instruction") or agent._instruction
    if (tools := how.get("tools")) is not None:
        twin.tools, twin._choose = agent.tools.filtered(lambda _: False).merged(tools), None
    return twin, _going_on(twin, fork(run_id, step, store=_place(agent, how).path), how)


def _place(agent: Resumable, how: Resuming) -> Journal:
    return Journal.of(how.get("journal") or agent.journal or DEFAULT)


def replayed(path: str | os.PathLike[str], how: Replaying) -> Asked:
    """What plays a recorded run again, on the conversation that it began with."""
    recording = Recording.load(path)
    begin = recording.begin
    query = begin.get("query")
    if not query:
        raise RunError(f"{os.fspath(path)!r}: a run that went on without a query cannot be replayed")
    decided = {} if how.get("execute") else recording.decisions  # what is really done is decided anew
    replay = replaying(recording, **how)
    return Asked(query, Session(begin["history"]), stream=begin["stream"], replay=replay, decided=decided)
