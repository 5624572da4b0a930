"""Attach the journal or the recording to a run, from its start to its end."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from ..core.errors import RunError
from ..core.flow import Policy
from ..policies.budget import Spent
from ..policies.decisions import StoredDecision
from ..sessions.journal.conversation import JournaledConversation
from ..sessions.journal.location import Journal, JournalLocation, absolute_place, show_place
from ..sessions.journal.policy import journal_policy
from ..sessions.journal.setup import Setup
from ..sessions.journal.writer import JournalWriter
from ..sessions.recordings import RunRecorder
from ..sessions.session import Session
from .interface import Runnable
from .options import RunRequest
from .run_state import Run


@contextmanager
def persist(agent: Runnable, request: RunRequest, run: Run) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that record or replay a run; they belong outside of all others."""
    with ExitStack() as stack:
        policies: list[Policy] = []
        if request.replay is not None:
            policies.append(request.replay)
            decided = {call: StoredDecision(decision, None) for call, decision in request.decided.items()}
            request.session.approvals.decisions.update(decided)
        elif (conversation := _conversation(request.journal or agent.journal, request.session)) is not None:
            if stored := conversation.stored if request.query is None else None:
                run.usage, run.steps, run.run_id = stored.usage, stored.steps, stored.run
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup, conversation.stored = Setup.of(agent.instruction, agent.tools), None
                policies.append(stack.enter_context(_journal(conversation, request, setup, run)))
        if request.record is not None:
            recorder = stack.enter_context(closing(_recorder(agent, request, request.record, run)))
            policies.append(recorder.policy)
        yield tuple(policies)


@contextmanager
def _journal(conversation: JournaledConversation, request: RunRequest, setup: Setup, run: Run) -> Iterator[Policy]:
    """Yield the journal policy; add the command that resumes the run as a note to the error that ends it."""
    session = request.session
    session.journaled = conversation
    if request.query is not None or not conversation.run:
        conversation.base = session.usage
    writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup)
    writer.open(request.query, run.model)
    run.usage, run.steps, run.run_id = writer.prior, writer.replies, writer.run
    run.spent = Spent(writer.replies, writer.calls, writer.seconds, writer.prior)
    writer.usage = lambda: run.usage
    try:
        yield journal_policy(writer, conversation.on_uncertain)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        path = show_place(conversation.journal.path)
        if not conversation.origin:
            error.add_note(f"Resume this run: agentkit resume {writer.run} --journal {path}")
        raise
    finally:
        writer.close()


def _conversation(place: JournalLocation, session: Session) -> JournaledConversation | None:
    """Return the conversation in the journal for the run, None without a journal."""
    old, journal = session.journaled, None if place is None else Journal.of(place)
    if journal is None:
        return old
    if old is None:
        return JournaledConversation(journal)
    if absolute_place(old.journal.path) == absolute_place(journal.path):
        old.journal = journal
        return old
    if old.name:
        raise RunError(
            f"journal={show_place(journal.path)!r}: the session {old.name!r} is in {show_place(old.journal.path)!r}. "
            "Leave journal= out."
        )
    return JournaledConversation(journal)


def _recorder(agent: Runnable, request: RunRequest, path: str | os.PathLike[str], run: Run) -> RunRecorder:
    plain = {key: value for key, value in agent.settings.items() if isinstance(value, str | int | float)}
    begin = {"query": request.query, "model": run.model, "stream": request.stream, "settings": plain}
    before = run.history[: len(run.history) - (request.query is not None)]
    content = {} if request.content is None else {"content": request.content}
    return RunRecorder(path, {**begin, **content, "history": before})
