"""What records a run of a session, from its start to its end: a journal, or a file that `replay` reads.

Both have the same rows: what is about to be done, and its outcome.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from ..core.errors import RunError
from ..core.flow import Listener, Policy
from ..core.host import find_versions
from .journal.location import Journal, Place, absolute_place, show_place
from .journal.policy import journal_policy
from .journal.setup import Setup
from .journal.writer import JournaledConversation, JournalWriter
from .recordings import RequestRecorder
from .recordings.file import FIRST_LINE, RecordFile
from .session import Session


def conversation_in(session: Session, place: Place | Journal) -> JournaledConversation:
    """Return the conversation of the session in a journal; a new one for a session that is in none.

    Raises:
        RunError: The session has a name in another journal.
    """
    old = session.journaled
    journal = Journal.of(place)
    if old is not None and absolute_place(old.journal.path) == absolute_place(journal.path):
        old.journal = journal
        return old
    if old is not None and old.name:
        raise RunError(
            f"journal={show_place(journal.path)!r}: the session {old.name!r} is in {show_place(old.journal.path)!r}. "
            "Leave journal= out."
        )
    return JournaledConversation(journal)


@contextmanager
def open_journal(
    session: Session, conversation: JournaledConversation, query: str | None, model: str, setup: Setup
) -> Iterator[JournalWriter]:
    """Yield what writes the run into the journal; an error that ends the run gets a note with the command to resume.

    Args:
        session: The session.
        conversation: Its conversation in the journal.
        query: The query, None for a run that continues.
        model: The name of the model.
        setup: The instruction and the tools of the agent.
    """
    session.journaled = conversation
    conversation.stored = None
    if query is not None or not conversation.run:
        conversation.base = session.usage
    writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup)
    writer.open(query, model)
    session.inputs.begun = writer.decided
    try:
        yield writer
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not conversation.origin and (command := conversation.command_to_resume()):
            error.add_note(f"Resume this run: {command}")
        raise
    finally:
        writer.close()


@contextmanager
def open_recording(
    session: Session,
    path: str | os.PathLike[str],
    query: str | None,
    model: str,
    setup: Setup,
    *,
    run_id: str,
    about: Mapping[str, Any],
) -> Iterator[tuple[Listener, tuple[Policy, ...]]]:
    """Yield a listener and policies that write the rows of a run into a file, and what a replay needs beside them.

    Args:
        session: The session.
        path: The file.
        query: The query, None for a run that continues.
        model: The name of the model.
        setup: The instruction and the tools of the agent.
        run_id: The id of the run.
        about: More about the run, for the first line.
    """
    usage = session.usage.as_dict()
    conversation = JournaledConversation(Journal(path, errors="raise"), next_run=run_id)
    with closing(RecordFile(path)) as file:
        file.write(**FIRST_LINE, versions=find_versions(), **about, usage=usage)
        writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup, append=file.append)
        writer.begin(query or "", model)
        recorder = RequestRecorder(writer, file)
        with closing(writer):
            yield recorder.listen, (recorder.policy, journal_policy(writer))
