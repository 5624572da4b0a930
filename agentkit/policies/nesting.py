"""The tool call that encloses the current code: the parent of what is called inside it, an agent for example."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from ..core.context import AgentPath, RunContext
from ..core.enclosing import enclosing
from ..core.flow import Flow, Policy, around, ask
from ..core.messages import ToolCall
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools


@dataclass(eq=False, slots=True)
class ParentCall:
    """A tool call while it runs, as the calls inside it see it.

    A call inside has the id "outer/inner": the id of the outer call, and a name made from what is called, so that a
    repeated run of the outer call gives the same name to the same inner call, in any order.
    """

    call: ToolCall
    context: RunContext[Any]
    _claimed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, text: str, preferred: Iterable[str] = ()) -> str:
        """Return the id for an inner call about `text`; equal texts get different ids, the preferred one first."""
        base = self.name(text)
        with self._lock:
            number = 1
            identity = next((key for key in preferred if key not in self._claimed), base)
            while identity in self._claimed:
                number += 1
                identity = f"{base}.{number}"
            self._claimed.add(identity)
        return identity

    def name(self, text: str) -> str:
        """Return the id of the first inner call about `text`."""
        return f"{self.call.id}/{blake2b(text.encode(errors='surrogatepass'), digest_size=3).hexdigest()}"


def enclose_calls() -> Policy:
    """Set the parent of whatever is called inside a tool call, an agent for example."""

    def handle(effect: CallTools) -> Flow[Any]:
        return (yield from ask(effect.with_calls(map(_enclose, effect.calls))))

    return around(handle, CallTools)


def _enclose(bound: BoundCall) -> BoundCall:
    if bound.context is None or bound.is_answer or bound.problem is not None:
        return bound
    context = bound.context
    outer = enclosing(AgentPath) or AgentPath()
    named = bound.within(partial(AgentPath, (*outer.names, bound.call.name)))
    return named.within(partial(ParentCall, bound.call, context))
