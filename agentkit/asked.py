"""What an agent is asked, and what is said with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from .journal.conversation import Changed, Uncertain
from .keeping import Place
from .model import Model
from .policies.approve import Decision
from .session import Session

Named: TypeAlias = str | Model | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is asked: a query (None to go on where the session stopped), and what is said with it."""

    query: str | None
    session: Session
    approvals: Mapping[str, Decision] | None = None
    stream: bool = False
    model: Named = None
    journal: Place = None


class How(TypedDict, total=False):
    """What can be said of one run, see `JsonAgent.__call__`."""

    model: Named
    session: Session | None
    approvals: Mapping[str, Decision] | None
    journal: Place


class Resuming(TypedDict, total=False):
    """What can be said of a run that goes on, see `JsonAgent.resume`."""

    model: Named
    approvals: Mapping[str, Decision] | None
    journal: Place
    on_uncertain: Uncertain
    changed: Changed
