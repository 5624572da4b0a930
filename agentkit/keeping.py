"""How runs are kept: the journal that a run is written into, from its beginning to its end."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from .errors import RunError
from .flow import Policy
from .journal.book import Book
from .journal.conversation import Conversation
from .journal.setup import Setup
from .journal.store import Journal
from .policies.journal import journaled
from .run import Run
from .session import Session

Place: TypeAlias = str | os.PathLike[str] | Journal | None
"""Where runs are kept: the path of a journal, or a `Journal`, which says how."""


@contextmanager
def kept(
    place: Place, session: Session, setup: Callable[[], Setup], query: str | None, run: Run
) -> Iterator[tuple[Policy, ...]]:
    """Keep a run of `session` in a journal, if one is named or the session is of one; yields the policies that do it.

    What ends the run before its end carries the line that goes on with it, as a note.
    """
    conversation = session.kept = _conversation(place, session)
    if conversation is None:
        yield ()
        return
    if query is not None or not conversation.run:
        conversation.base = session.usage
    book = Book(conversation, session.messages, session.state, session.cut.texts, setup())
    book.open(query, run.model)
    run.usage, run.steps, run.run_id = book.prior, book.step, book.run
    book.usage = lambda: run.usage
    try:
        yield (journaled(book, conversation.on_uncertain),)
    except Exception as error:
        error.add_note(_line(book))
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note(_line(book))
        raise
    finally:
        book.close()


def _conversation(place: Place, session: Session) -> Conversation | None:
    """The conversation in the journal that is to keep the run."""
    old, journal = session.kept, None if place is None else Journal.of(place)
    if journal is None:
        return old
    if old is None:
        return Conversation(journal)
    if os.path.realpath(old.journal.path) == os.path.realpath(journal.path):
        old.journal = journal
        return old
    if old.name:
        raise RunError(
            f"the session {old.name!r} is kept in {os.fspath(old.journal.path)!r}, so its runs are: leave journal= out"
        )
    return Conversation(journal)


def _line(book: Book) -> str:
    path = os.fspath(book.conversation.journal.path)
    return f"Go on with this run: agentkit resume {book.run} --journal {path}"
