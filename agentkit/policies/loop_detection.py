"""Detection of runs without progress: the model is warned, then tools are withdrawn, then the run ends.

A turn is *useless* when it is a plain text, or when each of its calls

- could not be made (there is no such tool, the arguments are wrong), or
- was made within the last `COMPARED_TURNS` turns, with the same arguments and the same result, or
- fails like a call of the same tool within the last `COMPARED_TURNS` turns.

This finds one call, or a cycle of two or three calls, that is repeated.  A call that returns something new is never
useless, however often it is made.  Only consecutive useless turns count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from ..core.errors import LimitExceeded, NoAnswer
from ..core.flow import Flow, Hooks, Policy, WarningEvent, emit_first, interpret
from ..core.portable import to_canonical_text
from ..core.values import frozen
from ..engine.model import AskModel, Reply
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry

COMPARED_TURNS = 3
"""Turns with which a turn is compared."""
NOTE_AFTER_TURNS = 2
"""Consecutive useless turns after which results carry a note."""
WITHDRAW_AFTER_TURNS = 4
"""Consecutive useless turns after which the tools of the last one are withdrawn for the rest of the run."""
END_AFTER_TURNS = 5
"""Consecutive useless turns after which the run makes its final request."""


@frozen
class ToolsWithdrawn(WarningEvent):
    """Tools that only repeated or failed are not offered any more in this run."""

    names: tuple[str, ...]

    @property
    def notice(self) -> str:
        return f"no new results from {', '.join(self.names)}: withdrawn for the rest of the run"


def detect_loops() -> Policy:
    """Warn a model that makes no progress, then withdraw tools, then end the run.

    The warning is appended to the results that the model reads; the results' values are unchanged.

    Raises:
        LimitExceeded: Calls made no progress (reason "stuck").
        NoAnswer: The model only wrote texts.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        detector = _LoopDetector()

        asking: Flow[Any] = interpret(flow, Hooks(detector.limit_tools, detector.count_text), AskModel)
        return interpret(asking, Hooks(detector.limit_calls, detector.judge), CallTools)

    return policy


_Outcome: TypeAlias = tuple[str, str, str]
"""The name of a tool, and what the model reads of a call's result: the text, and the images."""


@dataclass(eq=False)
class _SameOutcome:
    """The calls of a turn with one outcome; few turns are compared further, so their arguments are parsed then."""

    results: list[ToolResult] = field(default_factory=list)

    @cached_property
    def has_failed(self) -> bool:
        return any(result.error is not None for result in self.results)

    @cached_property
    def arguments(self) -> frozenset[str]:
        return frozenset(to_canonical_text(result.call.arguments) for result in self.results)


_Turn: TypeAlias = dict[_Outcome, _SameOutcome]


@dataclass(slots=True)
class _LoopDetector:
    """The last turns of one run."""

    useless: int = 0
    is_talk: bool = False
    recent: deque[_Turn] = field(default_factory=partial(deque, maxlen=COMPARED_TURNS))
    withdrawn: set[str] = field(default_factory=set)
    answer: JsonTool[..., Any] | None = None
    filtered: tuple[ToolRegistry, ToolRegistry] | None = None

    def limit_tools(self, effect: AskModel) -> AskModel:
        """Return the request without the withdrawn tools; raise the error that ends the run."""
        tools = effect.request.tools
        self.answer = tools.answer
        if self.useless >= END_AFTER_TURNS:
            turns = self.useless
            self.useless = 0
            if self.is_talk:
                name = effect.model.name
                raise NoAnswer(f"{name} neither calls a tool nor gives an answer ({turns} useless turns in a row)")
            text = f"the run is stuck: {turns} turns in a row brought nothing new, nor did one last request an answer"
            raise LimitExceeded(text, reason="stuck")
        if not self.withdrawn:
            return effect
        if self.filtered is None or self.filtered[0] is not tools:
            self.filtered = tools, tools.filtered(lambda tool: tool.name not in self.withdrawn)
        return replace(effect, request=replace(effect.request, tools=self.filtered[1]))

    def count_text(self, _: AskModel, reply: Reply) -> Reply:
        """Count a reply without calls."""
        self.is_talk = not reply.message.get("tool_calls")
        self.useless += self.is_talk
        return reply

    def limit_calls(self, effect: CallTools) -> CallTools:
        """Return the calls; those of withdrawn tools fail."""
        return effect.with_calls(map(self._refuse_withdrawn, effect.calls)) if self.withdrawn else effect

    def _refuse_withdrawn(self, bound: BoundCall) -> BoundCall:
        """Return the call; one of a withdrawn tool fails."""
        if bound.tool is None or bound.tool.name not in self.withdrawn:
            return bound
        text = f"Not run: {bound.tool.name} is withdrawn, for its calls brought nothing new. {_INSTEAD}"
        return bound.refuse(text)

    def judge(self, effect: CallTools, results: list[ToolResult]) -> list[ToolResult] | Flow[list[ToolResult]]:
        """Count the turn if it was useless, and return its results, with a warning if there is one."""
        turn: _Turn = {}
        is_useless = True
        for bound, result in zip(effect.calls, results, strict=True):
            key = result.call.name, result.content, repr(result.images) if result.images else ""
            is_useless = is_useless and (bound.problem is not None or self._is_known(key, result))
            turn.setdefault(key, _SameOutcome()).results.append(result)
        self.recent.append(turn)
        self.useless = self.useless + 1 if is_useless else 0
        if self.useless < NOTE_AFTER_TURNS:
            return results
        note = f"[Turn {self.useless} in a row that only repeats what was done, or fails. {_INSTEAD}"
        withdrawn: set[str] = set()
        if self.useless >= WITHDRAW_AFTER_TURNS and (withdrawn := self._withdraw(bound.tool for bound in effect.calls)):
            note += f" Withdrawn for the rest of this run: {', '.join(sorted(withdrawn))}."
        note += "]"
        noted = [
            replace(result, content=f"{result.content}\n{note}", notes=(*result.notes, note)) for result in results
        ]
        return emit_first(ToolsWithdrawn(tuple(sorted(withdrawn))), noted) if withdrawn else noted

    def _is_known(self, outcome: _Outcome, result: ToolResult) -> bool:
        """Return whether a recent call of the tool had the same result, with the same arguments unless both failed."""
        found = [turn[outcome] for turn in self.recent if outcome in turn]
        if not found:
            return False
        if result.error is not None and any(earlier.has_failed for earlier in found):
            return True
        arguments = to_canonical_text(result.call.arguments)
        return any(arguments in earlier.arguments for earlier in found)

    def _withdraw(self, tools: Iterable[JsonTool[..., Any] | None]) -> set[str]:
        """Withdraw these tools, never the answer tool; return the names of those that are new."""
        names = {tool.name for tool in tools if tool is not None and tool is not self.answer} - self.withdrawn
        if names:
            self.withdrawn |= names
            self.filtered = None
        return names


_INSTEAD = "Do something else, or call final_answer with what is known."
