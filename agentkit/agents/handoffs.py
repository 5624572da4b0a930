"""Hand-offs: an agent transfers the conversation to another one.

The other agent continues the conversation under its own instruction, with its own tools and model, and answers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.errors import DefinitionError, RunError
from ..core.flow import Emit, Flow, Policy, around, ask
from ..core.messages import Label
from ..core.values import frozen
from ..engine.loop import Answer
from ..engine.result import HandedOver
from ..schemas.signature import check_name
from ..sessions.journal.maintenance import HANDOFF_PREFIX, TRANSFER_PREFIX
from ..sessions.session import Session
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from .spec import AgentSpec

MAX_HANDOFFS = 10
"""Hand-offs of a run; after that the current agent must answer."""


@frozen
class HandOff:
    """The value of a transfer call: the name of the next agent, and the reason."""

    name: str
    reason: str


def check_handoffs(handoffs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `handoffs`, agents or functions that return one, by name; raise `DefinitionError` for others."""
    agents: Any = handoffs or {}
    if not isinstance(agents, Mapping) or not all(map(callable, agents.values())):
        text = 'agents by name, handoffs={"clerk": clerk}, or functions that return them'
        raise DefinitionError(f"handoffs must be {text}; got {handoffs!r:.80}")
    for name in agents:
        check_name(name, "handoffs={{{!r}: ...}}", TRANSFER_PREFIX)
    return dict(agents)


def make_handoff_tools(handoffs: Mapping[str, Any]) -> list[JsonTool[..., Any]]:
    """Return a tool `transfer_to_...` for each agent."""
    return [_handoff_tool(name, agent) for name, agent in handoffs.items()]


def _handoff_tool(name: str, agent: Any) -> JsonTool[..., Any]:
    def transfer(reason: str) -> HandOff:
        """Hands on.

        Args:
            reason: Why, and what they should know beyond what was said in the conversation, which they can read.
        """
        return HandOff(name, reason)

    given = getattr(agent, "description", "")  # a function that returns the agent has none
    about = given if isinstance(given, str) else ""  # else a function of the run
    text = f"Hand the whole conversation over to {name}, who answers from then on.\n\n{about.strip()}"
    return JsonTool(transfer, name=f"{TRANSFER_PREFIX}{name}", description=text.strip(), effect="read").offered()


def list_handoff_names(handoffs: Iterable[str]) -> set[str]:
    """Return the names of the tools that hand over to these agents."""
    return {f"{TRANSFER_PREFIX}{name}" for name in handoffs}


def hand_over(handoffs: Mapping[str, Any], session: Session) -> Policy:
    """End the agent's part of a run at the first valid call of a `transfer_to_` tool, as its answer does.

    The policy must be outside of those that check answers.
    """
    names = list_handoff_names(handoffs)

    def handle(effect: CallTools) -> Flow[Any]:
        chosen = next((bound for bound in effect.calls if _is_transfer(bound, names)), None)
        if chosen is None:
            return (yield from ask(effect))
        calls = (_mark_call(bound, chosen, names, len(session.handed)) for bound in effect.calls)
        results = yield from ask(effect.with_calls(calls))
        return [_describe_handoff(result, chosen.origin.label) for result in results]

    return around(handle, CallTools)


def _is_transfer(bound: BoundCall, names: set[str]) -> bool:
    return bound.problem is None and bound.tool is not None and bound.tool.name in names


def _mark_call(bound: BoundCall, chosen: BoundCall, names: set[str], handed: int) -> BoundCall:
    if bound is chosen and handed < MAX_HANDOFFS:
        return replace(bound, is_answer=True)
    if bound is chosen:
        text = f"The conversation was handed over {handed} times already: go on yourself."
    elif bound.is_answer or _is_transfer(bound, names):
        text = f"Not run: {chosen.call.name} was called in the same turn."
    else:
        return bound
    return bound.refuse(text)


def _describe_handoff(result: ToolResult, label: Label) -> ToolResult:
    if not isinstance(result.value, HandOff):
        return result
    return replace(result, content=f"{HANDOFF_PREFIX}{result.value.name}. {result.value.reason}", label=label)


def run_handoffs(first: AgentSpec, session: Session, flow_of: Callable[[AgentSpec], Flow[Answer]]) -> Flow[Answer]:
    """Run `first` and the agents that the conversation is handed over to; return the answer of the last one.

    A paused session continues with the agent that had it: its `handed` lists the hand-offs so far.  `flow_of` returns
    the flow of one agent's part, under its system message.
    """
    spec = first
    for name in session.handed:
        spec = find_agent(spec, name)
    while True:
        answer = yield from flow_of(spec)
        if not isinstance(answer.value, HandOff):
            return answer
        spec = find_agent(spec, answer.value.name)
        session.handed.append(answer.value.name)
        yield from ask(Emit(HandedOver(answer.value.name, answer.value.reason)))


def find_agent(spec: AgentSpec, name: str) -> AgentSpec:
    """Return the agent that this one hands over to under the name; raise `RunError` without one."""
    if name not in spec.handoffs:
        raise RunError(
            f"the session was handed over to {name!r}, which is not among the handoffs of this agent "
            f"({', '.join(spec.handoffs) or 'none'}). Continue it with the agent that began it."
        )
    other = spec.handoffs[name]
    if isinstance(other, AgentSpec):
        return other
    agent = other if hasattr(other, "spec") else other()
    if not isinstance(found := getattr(agent, "spec", None), AgentSpec):
        raise DefinitionError(f"handoffs: the function of {name!r} must return an agent, got {agent!r:.80}")
    return found


def change_last(spec: AgentSpec, names: Sequence[str], change: Callable[[AgentSpec], AgentSpec]) -> AgentSpec:
    """Return `spec` with a change of the agent that has the conversation after the hand-offs to `names`."""
    if not names:
        return change(spec)
    name = names[0]
    changed = change_last(find_agent(spec, name), names[1:], change)
    return replace(spec, handoffs={**spec.handoffs, name: changed})
