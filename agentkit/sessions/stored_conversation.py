"""The named conversations of a journal as front doors show them: a list, and one with the frames of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.masking import mask
from ..core.pending import Pending
from ..views.frames import Frame, frames_of_stored_run
from .journal import JournaledRun, runs
from .journal.location import Place
from .journal.maintenance import name_conversations, show_conversation
from .session import Session


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A named conversation: its key, as in `RunInfo`, its first query, and the time and the state of its last run."""

    key: int
    name: str
    title: str
    seen: float
    state: str


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A named conversation with its runs, the oldest first; `interrupted` is the id of a last run that has no end."""

    session: Session
    runs: Sequence[JournaledRun]
    interrupted: str

    def list_pending_of(self, run: JournaledRun) -> Sequence[Pending]:
        """Return what a run waits for, masked: nothing, unless it is the last one and paused."""
        if run is not self.runs[-1] or run.run.state != "paused":
            return ()
        return [entry.masked() for entry in self.session.pending]


def list_conversations(store: Place) -> list[ConversationInfo]:
    """Return the named conversations of a journal, the newest first; secrets masked."""
    names = name_conversations(store)
    found: dict[str, ConversationInfo] = {}
    for run in sorted(runs(store), key=lambda run: run.begun):
        if name := names.get(run.conversation):
            title = found[name].title if name in found else mask(run.query)
            found[name] = ConversationInfo(run.conversation, name, title, run.seen, run.state)
    return sorted(found.values(), key=lambda info: info.seen, reverse=True)


def find_conversation(name: str, store: Place) -> StoredConversation | None:
    """Return a named conversation of a journal; None if the journal has no conversation of that name."""
    key = next((key for key, known in name_conversations(store).items() if known == name), None)
    if key is None:
        return None
    session = Session.open(name, store)
    own = show_conversation(key, store=store)
    interrupted = own[-1].run.id if own and own[-1].run.state == "interrupted" else ""
    return StoredConversation(session, own, interrupted)


def frames_of_journaled_run(run: JournaledRun, pending: Sequence[Pending] = ()) -> Sequence[tuple[float, Frame]]:
    """Return the frames of a run of a journal with their seconds after its begin."""
    info = run.run
    return frames_of_stored_run(
        run.as_dict(), run_id=info.id, query=info.query, state=info.state, first=info.first, pending=pending
    )
