"""Attach the journal or the recording to a run, from its start to its end."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from ..core.errors import RunError
from ..core.flow import Policy
from ..core.versions import find_versions
from ..sessions.journal.conversation import JournaledConversation
from ..sessions.journal.location import Journal, JournalLocation, absolute_place, show_place
from ..sessions.journal.policy import journal_policy
from ..sessions.journal.setup import Setup
from ..sessions.journal.writer import JournalWriter
from ..sessions.recordings import RequestRecorder
from ..sessions.recordings.lines import FIRST_LINE, RecordFile
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
            policies.append(request.replay.policy)
            request.session.approvals.decisions.update(request.replay.decisions)
        elif (conversation := _conversation(request.journal or agent.journal, request.session)) is not None:
            if stored := conversation.stored if request.query is None else None:
                run.usage, run.steps, run.run_id = stored.run.usage, stored.run.steps, stored.run.id
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup, conversation.stored = Setup.of(agent.instruction, agent.tools), None
                policies.append(stack.enter_context(_journal(conversation, request, setup, run)))
        if request.record is not None:
            policies += stack.enter_context(_record(agent, request, request.record, run))
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
    run.spent, run.run_id = writer.spent, writer.run
    run.usage, run.steps = writer.spent.usage, writer.spent.steps
    session.approvals.begun = writer.decided
    writer.usage = lambda: run.usage
    try:
        yield journal_policy(writer, conversation.on_uncertain)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not conversation.origin and (command := conversation.command_to_resume()):
            error.add_note(f"Resume this run: {command}")
        raise
    finally:
        writer.close()


def _conversation(place: JournalLocation, session: Session) -> JournaledConversation | None:
    """Return the conversation in the journal for the run, None without a journal."""
    old = session.journaled
    if place is None:
        return old
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
def _record(
    agent: Runnable, request: RunRequest, path: str | os.PathLike[str], run: Run
) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that write the rows of the run's journal into a file, and what a replay needs beside them."""
    session, setup = request.session, Setup.of(agent.instruction, agent.tools)
    plain = {key: value for key, value in agent.settings.items() if isinstance(value, str | int | float)}
    usage = session.usage.as_dict()
    conversation = JournaledConversation(Journal(path, errors="raise"), next_run=run.run_id)
    with closing(RecordFile(path)) as file:
        file.write(**FIRST_LINE, versions=find_versions(), stream=request.stream, settings=plain, usage=usage)
        writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup, append=file.append)
        writer.begin(request.query or "", run.model)
        recorder = RequestRecorder(writer, file)
        run.listeners = (*run.listeners, recorder.listen)
        with closing(writer):
            yield recorder.policy, journal_policy(writer)
