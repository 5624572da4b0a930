"""A run inside a tool call: it belongs to the enclosing run, whether the agent is the tool or a function calls it.

Its events, usage, pending inputs and journal are parts of the enclosing run's.  An agent that is a tool has the
id of its call; one that a function calls has an id inside that call, "outer/inner".  When the enclosing run continues,
the function runs again: agents that had answered return that answer, and the others continue.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, count
from typing import Any

from ..core.context import ParentCall, enclosing
from ..core.errors import InnerPaused, Paused
from ..core.flow import Event
from ..core.messages import Label, ToolCall, calls_of, text_of, user
from ..engine.result import Result, RunFinished, SubRun
from ..policies.pending import NO_RESPONDENT, PendingInputs, Respondent
from ..policies.taint.origins import EnclosingCall, Origins
from ..sessions.journal.connections import opened_store
from ..sessions.journal.run_info import RunInfo, read_setup
from ..sessions.journal.store import JournalError
from ..sessions.journal.writer import JournaledConversation, JournalWriter, StoredAnswer
from ..sessions.session import Session
from ..tools.results.jsonable import to_answer_data
from .options import RunRequest, UserQuery
from .spec import AgentSpec

ADOPTED = ("messages", "usage", "cut", "inbox", "inputs", "handed", "session_state", "model", "journaled", "_own")
"""The parts of a session that continue in another one."""


@contextmanager
def nest(
    spec: AgentSpec, request: RunRequest, query: UserQuery | None
) -> Iterator[tuple[RunRequest, UserQuery | None]]:
    """Yield the request and the query as parts of the enclosing run; None for the query of a run that continues.

    A run that begins outside of a tool call, replays a recording or has no query of its own is not changed.

    Raises:
        InnerPaused: The run paused, or its journal cannot be used now; the enclosing run has to pause.
    """
    parent = enclosing(ParentCall)
    if query is None or parent is None or request.replay is not None or request.session._busy.locked():
        yield request, query
        return
    inner = InnerRun(spec, request, query, parent)
    try:
        yield inner.request, None if inner.has_begun else query
    except Paused as error:
        if not inner.can_pause:
            raise
        raise inner.pause(error) from None
    except JournalError as error:  # the call stays open and continues when the journal works again
        raise InnerPaused(f"{inner.name}: {error}") from error
    finally:
        inner.close()


class InnerRun:
    """A run inside the call `parent`, with the id `key`; it has the `deps` of the enclosing run if it has none.

    `request` begins it, or continues it where it stopped, and `query` is what it is asked, or was asked if it
    `has_begun`.
    """

    def __init__(self, spec: AgentSpec, request: RunRequest, query: UserQuery, parent: ParentCall) -> None:
        waiting = (enclosing(Respondent) or NO_RESPONDENT).inputs
        outer = enclosing(JournalWriter)
        self.inputs = PendingInputs() if waiting is None else waiting
        self.can_pause = waiting is not None
        self.query = query
        self.parent = parent
        self.name = request.tool or parent.call.name
        self.key = parent.call.id if request.tool else _claim(spec, query.text, parent, self.inputs, outer)
        self.has_begun = False
        deps = request.settings.get("deps", spec.deps)
        inherited = {"deps": parent.context.deps} if deps is None and parent.context.deps is not None else {}
        self.request = replace(request, report=self.report, settings={**request.settings, **inherited})
        self._attach(outer)

    def _attach(self, writer: JournalWriter | None) -> None:
        """Attach the journal to the session, and continue the run if it has begun before."""
        session = self.request.session
        found: Session | None = self.inputs.nested.pop(self.key, None)
        if writer is not None and session.journaled is None and (found is None or found.journaled is None):
            found = _resume(writer, self.key) or found
        if found is None and (stored := self.inputs.inner_answers.get(self.key)):
            calls = tuple(ToolCall(*entry) for entry in stored["calls"])
            ended = RunInfo("", answer=stored["value"], stopped=stored["stopped"], steps=stored["steps"])
            answer = StoredAnswer(ended, calls)
            self._continue(session=Session([user(self.query.text)]), stored=answer)
            return
        if found is not None and found is not session:
            for name in ADOPTED:
                setattr(session, name, getattr(found, name))
        if self.request.outer is not None:
            _share(self.request.outer, session)
        if writer is not None and session.journaled is None:
            journal = writer.conversation.journal
            written = set() if self.request.outer is None else {*session.cut.texts}  # the enclosing run writes those
            session.journaled = JournaledConversation(journal, origin=f"{writer.run}/{self.key}", cut=written)
        if found is not None and found.messages:
            self._continue(answers=self.inputs.take_inner(self.key, session.pending))

    def _continue(self, **how: Any) -> None:
        self.has_begun = True
        self.request = replace(self.request, **how)

    def report(self, event: Event) -> None:
        """Emit an event of the run in the enclosing run, and store its answer."""
        if isinstance(event, RunFinished) and not self.request.tool and self.request.stored is None:
            self.inputs.inner_answers[self.key] = _describe_answer(event.result)
        if self.request.tool:
            inner = SubRun(self.name, self.parent.call, event)
        else:
            call = ToolCall(self.key, self.name, json.dumps({"query": self.query.text}, ensure_ascii=False))
            inner = SubRun(self.name, call, event, self.parent.call.id)
        self.parent.context.emit(inner)

    def close(self) -> None:
        """Label what the run has read; separate its conversation from the enclosing run's journal.

        A conversation that paused continues in that journal.
        """
        session = self.request.session
        stored = self.inputs.inner_answers.get(self.key)
        outer = enclosing(EnclosingCall) if self.has_begun else None
        if outer is not None:  # a run that only repeats its answer does not label what it had read
            read = Label.from_dict(stored["label"]) if stored else Origins(session.messages, outer).whole_label
            outer.origin.add(read)
        if session.journaled is not None and session.journaled.origin and self.key not in self.inputs.nested:
            session.journaled = None

    def pause(self, error: Paused) -> InnerPaused:
        """Store the session for the enclosing run to continue; return the exception that pauses that run."""
        if isinstance(error, InnerPaused) and not error.pending:
            return error
        session = self.request.session
        self.inputs.nested[self.key] = session
        pending = tuple(entry.inside(self.key) for entry in session.pending)
        pause = InnerPaused(*error.args)
        pause.pending = pending
        pause.session = session
        return pause


def _share(outer: Session, session: Session) -> None:
    """Let a run share the state and the stored results of the enclosing one, which gets those that it has already."""
    outer.session_state.update(session.session_state)
    session.session_state = outer.session_state
    outer.cut.add(session.cut)
    session.cut = outer.cut


def _resume(writer: JournalWriter, key: str) -> Session | None:
    """Return the session of the run with this id from the journal of the enclosing run; None if it has none."""
    if not (run := writer.inner.pop(key, None)):
        return None
    outer = writer.conversation
    try:
        session = Session.resumed(run, outer.journal, on_uncertain=outer.on_uncertain, changed=outer.changed)
    except JournalError as error:
        raise InnerPaused(str(error)) from error
    if session.journaled is not None:
        session.journaled.origin = f"{writer.run}/{key}"
    return session


_claims = threading.Lock()


def _claim(spec: AgentSpec, query: str, parent: ParentCall, inputs: PendingInputs, writer: JournalWriter | None) -> str:
    """Return the id of a run that a function begins: the id of the function's call, and a name made from the query.

    A function that runs again gives the same id to the same query, in any order.  Equal queries get different ids; of
    those that have begun before, the one that belongs to the agent.
    """
    base = f"{parent.call.id}/{blake2b(query.encode(errors='surrogatepass'), digest_size=3).hexdigest()}"
    recorded = {**writer.inner} if writer else {}  # runs in other threads take theirs out
    nested = {**inputs.nested}
    answers = {**inputs.inner_answers}
    known = [key for key in {**recorded, **nested, **answers} if key.startswith(base)]

    def rank(key: str) -> int:
        """Return 0 for a run of another agent, 3 for one of this agent; between, tools differ (1) or are not known."""
        if writer is not None and key in recorded:
            with opened_store(writer.conversation.journal.path) as store:
                setup = read_setup(store, recorded[key])
            if setup is None or not spec.is_instructed_by(setup.instruction):
                return 0
            return 1 if setup.changes(spec.setup()) else 3
        if key in nested:
            messages = nested[key].messages
            if not spec.is_instructed_by(text_of(messages[0])):
                return 0
            called = {call.name for message in messages if message["role"] == "assistant" for call in calls_of(message)}
            return 3 if called <= spec.tools.keys() else 1
        return 2 if spec.is_instructed_by(answers[key]["instruction"]) else 0

    ranks = {key: rank(key) for key in known} if len(known) > 1 else {}
    preferred = sorted(filter(ranks.get, ranks), key=lambda key: (-ranks[key], key))
    following = (f"{base}.{number}" for number in count(2))
    with _claims:
        identity = next(key for key in chain(preferred, [base], following) if key not in parent.claimed)
        parent.claimed.add(identity)
    return identity


def _describe_answer(result: Result[Any]) -> dict[str, Any]:
    """Return what a run inside a function needs to give its answer again, as JSON data."""
    replies = [message for message in result.messages if message["role"] == "assistant"]
    calls = [[call.id, call.name, call.arguments] for call in calls_of(replies[-1])] if replies else []
    value = to_answer_data(result.answer)
    instruction = result.messages[0].get("content") if result.messages else ""
    figures = {"stopped": result.stopped, "steps": result.steps, "label": result.label.as_dict()}
    return {"value": value, "calls": calls, "instruction": instruction, **figures}
