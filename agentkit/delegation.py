"""Agents that call agents: one as a tool of another, and one that hands the conversation on to another.

An agent as a tool has a conversation of its own for each call, and gives its answer as the tool's result.  A hand-off
keeps the conversation: the other agent goes on with it, under its own instruction, tools and model, and answers.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from .calls import BoundCall, ToolResult
from .context import INSIDE, RunContext
from .errors import DefinitionError, Paused, RunError, ToolError
from .flow import Emit, Event, Flow, Policy, around, ask
from .journal.around import AROUND
from .journal.managing import HANDED
from .journal.store import JournalError
from .json_tool import JsonTool
from .loop import Answer
from .messages import system
from .policies.approve import AUTHORITY, Approvals, Decision, paused
from .run import HandedOver, Result, RunFinished, SubRun
from .running import CallTools
from .schemas import check_description, check_name
from .session import Session

MOST_HANDOFFS = 10
"""How often a run may be handed on; after that the agent that has it must answer."""
PREFIX = "transfer_to_"

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
        INSIDE.set((*INSIDE.get(), name))  # each call has a context of its own
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
    authority, identity = AUTHORITY.get(), run.call.id if run.call else ""
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
    authority = AUTHORITY.get()
    if authority is None or run.call is None:
        return ToolError("A call inside needs approval, and nobody can be asked.")
    authority.approvals.nested[run.call.id] = session
    return paused([replace(call, id=f"{run.call.id}/{call.id}") for call in session.waiting], {})


@dataclass(frozen=True, slots=True)
class HandOff:
    """What a run ends with that goes on under another agent."""

    name: str
    reason: str


class Hand(Protocol):
    """An agent that may hand on."""

    @property
    def instruction(self) -> str: ...

    @property
    def handoffs(self) -> Mapping[str, Any]: ...


H = TypeVar("H", bound=Hand)


def by_name(handoffs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The agents that an agent was given to hand over to; raises `DefinitionError` for what cannot be that.

    An agent that is not made yet stands there as a function that returns it: `{"triage": lambda: triage}`.
    """
    agents: Any = handoffs or {}
    if not isinstance(agents, Mapping) or not all(map(callable, agents.values())):
        text = 'agents by the names that the model reads, handoffs={"clerk": clerk}, or functions that return them'
        raise DefinitionError(f"handoffs are {text}; not {handoffs!r:.80}")
    for name in agents:
        check_name(name, "handoffs={{{!r}: ...}}", PREFIX)
    return dict(agents)


def handoff_tools(handoffs: Mapping[str, Any]) -> list[JsonTool[..., Any]]:
    """The tools `transfer_to_...`, by which a model hands the conversation on; `handoffs` are the agents by name."""
    return [_handoff_tool(name, getattr(agent, "description", "")) for name, agent in handoffs.items()]


def _handoff_tool(name: str, about: str) -> JsonTool[..., Any]:
    def transfer(reason: str) -> HandOff:
        """Hands on.

        Args:
            reason: Why, and what they should know beyond what was said in the conversation, which they can read.
        """
        return HandOff(name, reason)

    description = f"Hand the whole conversation over to {name}, who answers from then on."
    return JsonTool(transfer, name=f"{PREFIX}{name}", description=f"{description}\n\n{about.strip()}".strip())


def hand_over(handoffs: Mapping[str, Any], session: Session) -> Policy:
    """Let the first valid call of a `transfer_to_` tool end the agent's part of the run, as its answer does.

    Must stand outside of what looks at answers.
    """
    names = {f"{PREFIX}{name}" for name in handoffs}

    def handle(effect: CallTools) -> Flow[Any]:
        chosen = next((bound for bound in effect.calls if _is_transfer(bound, names)), None)
        if chosen is None:
            return (yield from ask(effect))
        calls = tuple(_marked(bound, chosen, names, len(session.handed)) for bound in effect.calls)
        results = yield from ask(replace(effect, calls=calls))
        return [_told(result) for result in results]

    return around(handle, CallTools)


def _is_transfer(bound: BoundCall, names: set[str]) -> bool:
    return bound.problem is None and bound.tool is not None and bound.tool.name in names


def _marked(bound: BoundCall, chosen: BoundCall, names: set[str], handed: int) -> BoundCall:
    if bound is chosen and handed < MOST_HANDOFFS:
        return replace(bound, is_answer=True)
    if bound is chosen:
        text = f"The conversation was handed over {handed} times already: go on yourself."
    elif bound.is_answer or _is_transfer(bound, names):
        text = f"Not run: {chosen.call.name} was called in the same turn."
    else:
        return bound
    return bound.refused(text)


def _told(result: ToolResult) -> ToolResult:
    if not isinstance(result.value, HandOff):
        return result
    return replace(result, content=f"{HANDED}{result.value.name}. {result.value.reason}")


def with_handoffs(first: H, session: Session, flow_of: Callable[[H], Flow[Answer]]) -> Flow[Answer]:
    """The answer of `first`, or of whoever it hands the conversation on to; `flow_of` runs one of them.

    A session that paused goes on with the agent that had it by then.  The system message is that of the agent that has
    the conversation.
    """
    agent = first
    for name in session.handed:
        agent = _reached(agent, name)
    while True:
        session.messages[0] = system(agent.instruction)
        answer = yield from flow_of(agent)
        if not isinstance(answer.value, HandOff):
            return answer
        agent = _reached(agent, answer.value.name)
        session.handed.append(answer.value.name)
        yield from ask(Emit(HandedOver(answer.value.name, answer.value.reason)))


def _reached(agent: H, name: str) -> H:
    if name not in agent.handoffs:
        there = ", ".join(agent.handoffs) or "nobody"
        raise RunError(f"this session was handed over to {name!r}, and this agent hands over to: {there}")
    other = agent.handoffs[name]
    reached: H = other if hasattr(other, "instruction") else other()
    return reached
