"""What an agent is asked, and what is said with it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from .errors import RunError
from .flow import Policy
from .journal.conversation import Changed, Uncertain
from .journal.managing import DEFAULT
from .journal.store import Place
from .model import Model
from .policies.approve import Decision
from .recordings import Recording, replaying
from .session import Session

Named: TypeAlias = str | Model | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is asked: a query (None to go on where the session stopped), and what is said with it.

    `replay` is the policy that gives it what was recorded.
    """

    query: str | None
    session: Session
    approvals: Mapping[str, Decision] | None = None
    stream: bool = False
    model: Named = None
    journal: Place = None
    record: str | os.PathLike[str] | None = None
    replay: Policy | None = None


class How(TypedDict, total=False):
    """What can be said of one run, see `JsonAgent.__call__`."""

    model: Named
    session: Session | None
    approvals: Mapping[str, Decision] | None
    journal: Place
    record: str | os.PathLike[str] | None


class Resuming(TypedDict, total=False):
    """What can be said of a run that goes on, see `JsonAgent.resume`."""

    model: Named
    approvals: Mapping[str, Decision] | None
    journal: Place
    on_uncertain: Uncertain
    changed: Changed


class Replaying(TypedDict, total=False):
    """What can be said of a run that is replayed, see `JsonAgent.replay`."""

    execute: bool
    any_model: bool
    timed: bool


def asked_of(session: Session, query: str | None, how: How, *, stream: bool = False) -> Asked:
    """What `how` says, in the agent's own `session` if it names no other."""
    session = how.get("session") or session
    told = (how.get("approvals"), stream, how.get("model"), how.get("journal"), how.get("record"))
    return Asked(query, session, *told)


def resumed(run_id: str, journal: Place, how: Resuming) -> Asked:
    """What goes on with a run of the journal that `how` names, or of the agent's own."""
    place, changed = how.get("journal") or journal or DEFAULT, how.get("changed", "refuse")
    session = Session.resumed(run_id, place, on_uncertain=how.get("on_uncertain"), changed=changed)
    return Asked(None, session, how.get("approvals"), model=how.get("model"))


def replayed(path: str | os.PathLike[str], how: Replaying) -> Asked:
    """What plays a recorded run again, on the conversation that it began with."""
    recording = Recording.load(path)
    begin = recording.begin
    query = begin.get("query")
    if not query:
        raise RunError(f"{os.fspath(path)!r}: a run that went on without a query cannot be replayed")
    return Asked(query, Session(begin["history"]), stream=begin["stream"], replay=replaying(recording, **how))
