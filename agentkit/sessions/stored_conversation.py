"""The conversations of a journal as front doors show them: a list, and one with the frames of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.masking import mask
from ..core.pending import Pending
from ..views.frames import Frame, frames_of_stored_run
from .journal import JournaledRun, runs
from .journal.location import Place
from .journal.maintenance import Mark, name_conversations, read_mark, show_conversation
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
    """A conversation of a journal with its runs, the oldest first.

    Attributes:
        session: Its session; a new one while a run of another process has the conversation.
        runs: Its runs.
        interrupted: The id of a last run that can be continued without a decision or an answer; "" without one.
        mark: Its state when it was read.
        name: Its name, "" without one.
    """

    session: Session
    runs: Sequence[JournaledRun]
    interrupted: str
    mark: Mark
    name: str

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


def find_conversation(conversation: str | int, store: Place) -> StoredConversation | None:
    """Return a conversation of a journal by its name, or its key in `RunInfo`; None if the journal does not have it."""
    if (mark := read_mark(conversation, store)) is None:
        return None
    own = show_conversation(mark.key, store=store)
    name = conversation if isinstance(conversation, str) else name_conversations(store).get(conversation, "")
    if mark.is_running:
        return StoredConversation(Session(), own, "", mark, name)
    if isinstance(conversation, str):
        session = Session.open(conversation, store)
    else:
        session = Session.resumed(own[-1].run.id, store) if own else Session()
    interrupted = own[-1].run.id if own and own[-1].run.state in ("interrupted", "failed") else ""
    return StoredConversation(session, own, interrupted, mark, name)


def frames_of_journaled_run(run: JournaledRun, pending: Sequence[Pending] = ()) -> Sequence[tuple[float, Frame]]:
    """Return the frames of a run of a journal with their seconds after its begin."""
    info = run.run
    return frames_of_stored_run(
        run.as_dict(), run_id=info.id, query=info.query, state=info.state, first=info.first, pending=pending
    )
