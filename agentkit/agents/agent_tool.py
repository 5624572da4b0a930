"""An agent as a tool of another agent: each call has a conversation of its own and returns the agent's answer."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ..core.context import ENCLOSING_AGENTS, RunContext
from ..core.errors import Paused, RunError, ToolError
from ..engine.result import Result, RunFinished, SubRun
from ..policies.approval import APPROVER, make_pause_error
from ..policies.decisions import Approvals, StoredDecision
from ..policies.questions import RESPONDENT, describe_pause
from ..schemas import check_description, check_name
from ..sessions.journal.location import JournalError
from ..sessions.journal.nesting import ENCLOSING_RUN
from ..sessions.session import Session
from ..tools.json_tool import JsonTool
from .interface import Runnable
from .options import RunRequest
from .runner import astream_run


def make_agent_tool(agent: Runnable, name: str, description: str) -> JsonTool[..., Any]:
    """Return a tool that runs `agent` with a query.

    Each call has a session of its own.  Its events are emitted in the outer run as `SubRun`, and its usage counts
    there.  The outer run's approvals decide about its dangerous calls: if it pauses, the outer run pauses, and both
    continue together.  A run without an answer is a failed call.

    Raises:
        DefinitionError: The name is not valid, or the description is empty.
    """

    async def ask_agent(query: str, run: RunContext[Any]) -> Any:
        """Asks an agent.

        Args:
            query: The whole task, with all that must be known for it: nothing of this conversation is.
        """
        session, decisions = _session_of_call(run)
        respondent = RESPONDENT.get()
        answers = respondent.questions.take_inner(run.call.id, session.questions) if respondent and run.call else {}
        request = RunRequest(
            None if session.messages else query, session, decisions, run.stream, answers=answers,
            on_end=lambda ended: run.emit(SubRun(name, run.call, ended)),
        )  # fmt: skip
        result: Result[Any] | None = None
        ENCLOSING_AGENTS.set((*ENCLOSING_AGENTS.get(), name))  # each call has a context of its own
        try:
            async with aclosing(astream_run(agent, request)) as events:
                async for event in events:
                    run.emit(SubRun(name, run.call, event))
                    if isinstance(event, RunFinished):
                        result = event.result
        except Paused:
            raise _pause_outer(run, session) from None
        except JournalError as error:  # the call stays open and continues when the journal works again
            raise Paused(f"{name}: {error}") from error
        except RunError as error:
            partial = f" It had come this far: {error.partial}" if error.partial else ""
            raise ToolError(f"{name} came to no answer. {type(error).__name__}: {error}{partial}") from error
        assert result is not None  # a run that does not raise ends with RunFinished
        return result.answer

    check_name(name, "agent.as_tool({!r})")
    remedy = f'Give JsonAgent(..., description="...") or agent.as_tool({name!r}, description="...").'
    check_description(name, description, remedy)
    return JsonTool(ask_agent, name=name, description=description, on_error="raise", timeout=None)


def _session_of_call(run: RunContext[Any]) -> tuple[Session, Mapping[str, StoredDecision]]:
    """Return the session in which this call paused or stopped, and the new decisions; else a new session."""
    authority, identity = APPROVER.get(), run.call.id if run.call else ""
    approvals, prefix = authority.approvals if authority else Approvals(), f"{identity}/"
    paused: Session | None = approvals.nested.pop(identity, None)
    keys = [key for key in approvals.decisions if key.startswith(prefix)]
    decisions = {key.removeprefix(prefix): approvals.decisions.pop(key) for key in keys}
    if paused is not None and paused.journaled is not None:
        return paused, decisions
    return _journaled_session(identity, paused), decisions


def _journaled_session(identity: str, paused: Session | None) -> Session:
    """Return the session of a call from the journal of the enclosing run, if there is one; else the paused one."""
    enclosing = ENCLOSING_RUN.get()
    if enclosing is not None and (inner := enclosing.inner.pop(identity, None)):
        outer = enclosing.conversation
        try:
            return Session.resumed(inner, outer.journal, on_uncertain=outer.on_uncertain, changed=outer.changed)
        except JournalError as error:
            raise Paused(str(error)) from error
    session = paused or Session()
    if enclosing is not None and not session.messages:
        session.journaled = enclosing.within(identity)
    return session


def _pause_outer(run: RunContext[Any], session: Session) -> Exception:
    """Return the exception that pauses the outer run; its session keeps `session`, so that both continue together."""
    authority = APPROVER.get()
    if authority is None or run.call is None:
        return ToolError("A call inside needs approval, and nobody can be asked.")
    authority.approvals.nested[run.call.id] = session
    if calls := [replace(call, id=f"{run.call.id}/{call.id}") for call in session.waiting]:
        return make_pause_error(calls, {})
    return describe_pause([replace(question, id=f"{run.call.id}/{question.id}") for question in session.questions])
