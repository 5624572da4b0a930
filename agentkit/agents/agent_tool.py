"""Agents that call agents: one as a tool of another, and one that hands the conversation on to another.

An agent as a tool has a conversation of its own for each call, and gives its answer as the tool's result.  A hand-off
keeps the conversation: the other agent goes on with it, under its own instruction, tools and model, and answers.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from ..core.context import ENCLOSING_AGENTS, RunContext
from ..core.errors import Paused, RunError, ToolError
from ..core.flow import Event
from ..engine.result import Result, RunFinished, SubRun
from ..policies.approval import APPROVER, Approvals, Decision, make_pause_error
from ..schemas import check_description, check_name
from ..sessions.journal.nesting import AROUND
from ..sessions.journal.store import JournalError
from ..sessions.session import Session
from ..tools.json_tool import JsonTool

Start: TypeAlias = Callable[[str | None, Session, Mapping[str, Decision], bool], AsyncGenerator[Event, None]]
"""Begins a run of an agent: a query (None to go on), a session, decisions, whether to stream; yields its events."""


def agent_tool(start: Start, name: str, description: str) -> JsonTool[..., Any]:
    """The tool `name` that has an agent answer a query; `start` begins a run of that agent.

    Each call has a session of its own.  What happens in it is shown in the outer run as `SubRun`, what it takes counts
    there, and who decides there about dangerous calls decides here; when it pauses, the outer run pauses, and goes on
    with it.  A run without an answer is told to the model.  Raises `DefinitionError` without a description.
    """

    async def ask_agent(query: str, run: RunContext[Any]) -> Any:
        """Asks an agent.

        Args:
            query: The whole task, with all that must be known for it: nothing of this conversation is.
        """
        session, given = _resumed(run)
        asked = None if session.messages else query
        result: Result[Any] | None = None
        ENCLOSING_AGENTS.set((*ENCLOSING_AGENTS.get(), name))  # each call has a context of its own
        try:
            async with aclosing(start(asked, session, given, run.stream)) as events:
                async for event in events:
                    run.emit(SubRun(name, run.call, event))
                    if isinstance(event, RunFinished):
                        result = event.result
        except Paused:
            raise _paused(run, session) from None
        except JournalError as error:  # the call stays open, so that it can go on when that is put right
            raise Paused(f"{name}: {error}") from error
        except RunError as error:
            partial = f" It had come this far: {error.partial}" if error.partial else ""
            raise ToolError(f"{name} came to no answer. {type(error).__name__}: {error}{partial}") from error
        assert result is not None  # every run that does not raise ends with it
        return result.answer

    check_name(name, "agent.as_tool({!r})")
    remedy = f'Give JsonAgent(..., description="...") or agent.as_tool({name!r}, description="...").'
    check_description(name, description, remedy)
    return JsonTool(ask_agent, name=name, description=description, on_error="raise", timeout=None)


def _resumed(run: RunContext[Any]) -> tuple[Session, dict[str, Decision]]:
    """The session in which this very call paused or was stopped, with what was decided since; else a new one."""
    authority, identity = APPROVER.get(), run.call.id if run.call else ""
    approvals, prefix = authority.approvals if authority else Approvals(), f"{identity}/"
    paused: Session | None = approvals.nested.pop(identity, None)
    keys = [key for key in approvals.decisions if key.startswith(prefix)]
    given = {key.removeprefix(prefix): approvals.decisions.pop(key) for key in keys}
    return (paused if paused is not None and paused.kept is not None else _kept(identity, paused)), given


def _kept(identity: str, paused: Session | None) -> Session:
    """The session of a call as the journal of the run around it has it, if that is kept; else the one that paused."""
    around = AROUND.get()
    if around is not None and (inner := around.inner.pop(identity, None)):
        outer = around.conversation
        try:
            return Session.resumed(inner, outer.journal, on_uncertain=outer.on_uncertain, changed=outer.changed)
        except JournalError as error:
            raise Paused(str(error)) from error
    session = paused or Session()
    if around is not None and not session.messages:
        session.kept = around.within(identity)
    return session


def _paused(run: RunContext[Any], session: Session) -> Exception:
    """What the outer run ends with; its session keeps this one, so that both go on together."""
    authority = APPROVER.get()
    if authority is None or run.call is None:
        return ToolError("A call inside needs approval, and nobody can be asked.")
    authority.approvals.nested[run.call.id] = session
    return make_pause_error([replace(call, id=f"{run.call.id}/{call.id}") for call in session.waiting], {})
