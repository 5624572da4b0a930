"""How runs are kept: the journal or the recording that a run is written into, from its beginning to its end."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Protocol

from ..core.errors import RunError
from ..core.flow import Policy
from ..policies.budget import Spent
from ..sessions.journal.conversation import Conversation
from ..sessions.journal.policy import journaled
from ..sessions.journal.setup import Setup
from ..sessions.journal.store import Journal, Place
from ..sessions.journal.writer import Book
from ..sessions.recordings import Recorder
from ..sessions.session import Session
from ..tools.registry import ToolRegistry
from .options import Asked
from .run_state import Run


class Keepable(Protocol):
    """What this file needs of an agent."""

    @property
    def instruction(self) -> str: ...

    @property
    def tools(self) -> ToolRegistry: ...

    @property
    def journal(self) -> Place: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was given that concerns its runs and its model."""
        ...


@contextmanager
def kept(agent: Keepable, asked: Asked, run: Run) -> Iterator[tuple[Policy, ...]]:
    """Keep a run where it is to be kept; yields the policies that do it, which belong outside of all others."""
    with ExitStack() as stack:
        policies: list[Policy] = []
        if asked.replay is not None:
            policies.append(asked.replay)
            asked.session.approvals.decisions.update(asked.decided)
        elif (conversation := _conversation(asked.journal or agent.journal, asked.session)) is not None:
            setup = Setup.of(agent.instruction, agent.tools)
            policies.append(stack.enter_context(_journal(conversation, asked, setup, run)))
        if asked.record is not None:
            recorder = stack.enter_context(closing(_recorder(agent, asked, asked.record, run)))
            policies.append(recorder.policy)
        yield tuple(policies)


@contextmanager
def _journal(conversation: Conversation, asked: Asked, setup: Setup, run: Run) -> Iterator[Policy]:
    """What ends the run before its end carries the line that goes on with it, as a note."""
    session = asked.session
    session.kept = conversation
    if asked.query is not None or not conversation.run:
        conversation.base = session.usage
    book = Book(conversation, session.messages, session.state, session.cut.texts, setup)
    book.open(asked.query, run.model)
    run.usage, run.steps, run.run_id = book.prior, book.step, book.run
    run.spent = Spent(book.step, book.calls, book.seconds, book.prior)
    book.usage = lambda: run.usage
    try:
        yield journaled(book, conversation.on_uncertain)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        path = os.fspath(conversation.journal.path)
        if not conversation.origin:
            error.add_note(f"Go on with this run: agentkit resume {book.run} --journal {path}")
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


def _recorder(agent: Keepable, asked: Asked, path: str | os.PathLike[str], run: Run) -> Recorder:
    plain = {key: value for key, value in agent.settings.items() if isinstance(value, str | int | float)}
    begin = {"query": asked.query, "model": run.model, "stream": asked.stream, "settings": plain}
    before = run.history[: len(run.history) - (asked.query is not None)]
    return Recorder(path, {**begin, "history": before})
