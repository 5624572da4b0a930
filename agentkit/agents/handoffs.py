"""Agents that call agents: one as a tool of another, and one that hands the conversation on to another.

An agent as a tool has a conversation of its own for each call, and gives its answer as the tool's result.  A hand-off
keeps the conversation: the other agent goes on with it, under its own instruction, tools and model, and answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from ..core.errors import DefinitionError, RunError
from ..core.flow import Emit, Flow, Policy, around, ask
from ..core.messages import system
from ..engine.loop import Answer
from ..engine.result import HandedOver
from ..schemas import check_name
from ..sessions.journal.maintenance import HANDED
from ..sessions.session import Session
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool

MOST_HANDOFFS = 10
"""How often a run may be handed on; after that the agent that has it must answer."""
PREFIX = "transfer_to_"


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
    return bound.refuse(text)


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
