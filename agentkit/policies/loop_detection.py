"""A run that does not get on: the model is told, then the tools in question are withdrawn, then the run lands.

A turn is *useless* when it is a plain text, or when each of its calls

- could not be made (there is no such tool, the arguments are wrong), or
- was made within the last `TURNS` turns, with the same arguments and the same result, or
- fails as one of the same tool did within the last `TURNS` turns.

So one call, or two or three by turns, made over and over are found; whatever brings something new is not, however often
it is called.  Only useless turns in a row count.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import LimitExceeded, NoAnswer
from ..core.flow import Effect, Emit, Flow, Policy, WarningEvent, ask, interpret
from ..engine.model import AskModel, Model, Reply
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry

COMPARED_TURNS = 3
NOTE_AFTER_TURNS = 2
"""Useless turns in a row after which the model is told, ..."""
WITHDRAW_AFTER_TURNS = 4
"""... the tools that it called last are withdrawn for the rest of the run, ..."""
END_AFTER_TURNS = 5
"""... and the run is asked for its answer."""


@dataclass(frozen=True, slots=True)
class ToolsWithdrawn(WarningEvent):
    """Tools that the model called in vain are not offered any longer in this run."""

    names: tuple[str, ...]

    @property
    def notice(self) -> str:
        return f"nothing new comes of {', '.join(self.names)}: withdrawn for the rest of the run"


def detect_loops() -> Policy:
    """Tell a model that it gets nowhere; then take the tools away; then raise `LimitExceeded` (`NoAnswer` after texts).

    What the model is told stands at the end of the results that it reads; the results' values stay as they are.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        watch = _LoopDetector()

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, AskModel):
                reply: Reply = yield from ask(watch.offering(effect))
                watch.hear(reply)
                return reply
            if isinstance(effect, CallTools):
                effect = replace(effect, calls=tuple(map(watch.allowed, effect.calls)))
                results: list[ToolResult] = yield from ask(effect)
                known = frozenset(watch.withdrawn)
                judged = watch.judged(effect.calls, results)
                if withdrawn := watch.withdrawn - known:
                    yield from ask(Emit(ToolsWithdrawn(tuple(sorted(withdrawn)))))
                return judged
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


class _LoopDetector:
    """What the last turns of one run brought."""

    def __init__(self) -> None:
        self.useless = 0
        self.is_talk = False
        self.recent: deque[set[int]] = deque(maxlen=COMPARED_TURNS)
        self.withdrawn: set[str] = set()
        self.answer: JsonTool[..., Any] | None = None
        self.offered: tuple[ToolRegistry, ToolRegistry] | None = None

    def offering(self, effect: AskModel) -> AskModel:
        """The request without the withdrawn tools; raises when the run is to end."""
        tools = effect.request.tools
        self.answer = tools.answer
        if self.useless >= END_AFTER_TURNS:
            turns, self.useless = self.useless, 0
            raise self._ending(effect.model, turns)
        if not self.withdrawn:
            return effect
        if self.offered is None or self.offered[0] is not tools:
            self.offered = tools, tools.filtered(lambda tool: tool.name not in self.withdrawn)
        return replace(effect, request=replace(effect.request, tools=self.offered[1]))

    def _ending(self, model: Model, turns: int) -> LimitExceeded | NoAnswer:
        if self.is_talk:
            return NoAnswer(f"{model.name} neither calls a tool nor gives an answer ({turns} useless turns in a row)")
        text = f"the run is stuck: {turns} turns in a row brought nothing new, nor did one last request an answer"
        return LimitExceeded(text, reason="stuck")

    def hear(self, reply: Reply) -> None:
        """Count a reply without calls."""
        self.is_talk = not reply.message.get("tool_calls")
        self.useless += self.is_talk

    def allowed(self, bound: BoundCall) -> BoundCall:
        """The call, unless its tool is withdrawn."""
        if bound.tool is None or bound.tool.name not in self.withdrawn:
            return bound
        text = f"Not run: {bound.tool.name} is withdrawn, for its calls brought nothing new. {_INSTEAD}"
        return bound.refuse(text)

    def judged(self, calls: tuple[BoundCall, ...], results: list[ToolResult]) -> list[ToolResult]:
        """The results of a turn, with what the model should be told of it."""
        turn: set[int] = set()
        is_useless = True
        for bound, result in zip(calls, results, strict=True):
            marks = _fingerprint(result)
            known = any(mark in earlier for mark in marks for earlier in self.recent)
            is_useless = is_useless and (known or bound.problem is not None)
            turn |= marks
        self.recent.append(turn)
        self.useless = self.useless + 1 if is_useless else 0
        if self.useless < NOTE_AFTER_TURNS:
            return results
        note = f"[Turn {self.useless} in a row that only repeats what was done, or fails. {_INSTEAD}"
        if self.useless >= WITHDRAW_AFTER_TURNS:
            note += self._withdraw(bound.tool for bound in calls)
        return [replace(result, content=f"{result.content}\n{note}]") for result in results]

    def _withdraw(self, tools: Iterable[JsonTool[..., Any] | None]) -> str:
        """Take these tools away, but never the answer; returns what to tell the model of it."""
        names = {tool.name for tool in tools if tool is not None and tool is not self.answer} - self.withdrawn
        if not names:
            return ""
        self.withdrawn |= names
        self.offered = None
        return f" Withdrawn for the rest of this run: {', '.join(sorted(names))}."


_INSTEAD = "Do something else, or call final_answer with what is known."


def _fingerprint(result: ToolResult) -> set[int]:
    """What tells a call with its result from others; of a failure also the tool with the error alone."""
    name, content = result.call.name, (result.content, repr(result.images) if result.images else "")
    marks = {hash((name, _canonical(result.call.arguments), content))}
    if result.error is not None:
        marks.add(hash((name, content)))
    return marks


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
