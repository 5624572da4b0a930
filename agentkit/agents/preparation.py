"""The preparation of a run: one call takes a request to a flow that is ready to be driven.

It applies the settings of the run, locks the session, adds the query, and opens the journal or the recording.  At the
end of the run it closes them, reports the end, and adds to an error what the run has come to.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

from ..core.context import AgentPath
from ..core.enclosing import enclosing
from ..core.errors import RunError
from ..core.flow import Emit, Flow, Policy, apply_policies, ask
from ..core.host import find_versions
from ..core.threads import Cancellation
from ..engine.loop import Answer
from ..engine.model import Model
from ..engine.result import RunFinished, RunStarted
from ..sessions.journal.location import Journal, JournalLocation, absolute_place, show_place
from ..sessions.journal.policy import journal_policy, repeat_answer
from ..sessions.journal.setup import Setup
from ..sessions.journal.writer import JournaledConversation, JournalWriter
from ..sessions.recordings import RequestRecorder
from ..sessions.recordings.file import FIRST_LINE, RecordFile
from ..sessions.session import Session
from .handoffs import run_handoffs
from .instruments import ObservedRun, RunObserver, find_instrument
from .options import RunRequest
from .pipeline import build_flow
from .run_state import Run
from .spec import AgentSpec


@contextmanager
def prepare(spec: AgentSpec, request: RunRequest) -> Iterator[tuple[Run, Flow[None]]]:
    """Yield a run and its flow while the session is locked; add history and usage to the `RunError` that ends it."""
    request = replace(request, query=request.query.strip() if request.query else None)
    spec = spec.for_run(request.settings)
    backend, note = spec.choose_backend(request.model)
    session = request.session
    run = Run(backend.name, session.messages, spec.listeners)
    turn = session.turn(spec.instruction, request.message, request.approvals, request.answers)
    with run.reporting_end(), turn, _persist(spec, request, run) as policies:
        run.handed = [*session.handed]
        before = session.usage if session.journaled is None else session.journaled.base
        if request.replay is None and (observer := _observe(spec, session, run.run_id)):
            run.listeners = (*run.listeners, observer.listen)
            policies = (*policies, observer.policy)
        if request.report is not None:
            run.listeners = (*run.listeners, request.report)
        begun = RunStarted(request.query or "", backend.name, note, run.run_id)
        try:
            yield run, _run_flow(spec, run, request, backend, begun, policies)
        except RunError as error:
            run.fail(error)
            raise
        finally:
            session.usage = before + run.usage


def _observe(spec: AgentSpec, session: Session, run_id: str) -> RunObserver | None:
    """Return the observer of a run that begins, None if nothing observes it."""
    if (instrument := find_instrument(spec.settings.telemetry)) is None:
        return None
    path = enclosing(AgentPath)
    name = path.names[-1] if path else ""
    return instrument.observe(ObservedRun(run_id, name, spec.description, session, spec.list_settings()))


def _run_flow(
    spec: AgentSpec, run: Run, request: RunRequest, backend: Model, begun: RunStarted, policies: tuple[Policy, ...]
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow_of = partial(_agent_flow, spec, run, request, backend, len(run.handed))
    has_handoffs = spec.handoffs or request.session.handed
    flow = run_handoffs(spec, request.session, flow_of) if has_handoffs else flow_of(spec)
    answer = yield from apply_policies(flow, policies)
    request.session.cancellation = Cancellation()  # too late to stop the run
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _agent_flow(
    first: AgentSpec, run: Run, request: RunRequest, backend: Model, begun: int, spec: AgentSpec
) -> Flow[Answer]:
    """Return the flow of one agent; `backend` was chosen for the first one, and the run began after `begun` hand-offs.

    A model that the request names is for the agent with which the run begins or continues.
    """
    if spec is not first:
        spec = spec.for_run(request.settings)
        backend, _ = spec.choose_backend(request.model if len(request.session.handed) == begun else None)
    run.model = backend.name
    journaled = request.session.journaled
    if stored := request.stored or (journaled.stored if journaled else None):
        return repeat_answer(spec.tools, stored)
    return build_flow(spec, run, request, backend)


@contextmanager
def _persist(spec: AgentSpec, request: RunRequest, run: Run) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that record or replay a run; they belong outside of all others."""
    with ExitStack() as stack:
        policies: list[Policy] = []
        if request.replay is not None:
            policies.append(request.replay.policy)
            request.session.approvals.decisions.update(request.replay.decisions)
        elif (conversation := _conversation(request.journal or spec.journal, request.session)) is not None:
            if stored := conversation.stored if request.query is None else None:
                run.usage = stored.run.usage
                run.steps = stored.run.steps
                run.run_id = stored.run.id
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup = Setup.of(spec.instruction, spec.tools)
                conversation.stored = None
                policies.append(stack.enter_context(_journal(conversation, request, setup, run)))
        if request.record is not None:
            policies += stack.enter_context(_record(spec, request, request.record, run))
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
    run.spent = writer.spent
    run.run_id = writer.run
    run.usage = writer.spent.usage
    run.steps = writer.spent.steps
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
    spec: AgentSpec, request: RunRequest, path: str | os.PathLike[str], run: Run
) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that write the rows of the run's journal into a file, and what a replay needs beside them."""
    session = request.session
    setup = Setup.of(spec.instruction, spec.tools)
    plain = {key: value for key, value in spec.list_settings().items() if isinstance(value, str | int | float)}
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
