"""Turns under the policies for untrusted text and limited readers, without an agent."""

from collections.abc import Callable, Mapping
from typing import Any

from one_policy import Turns

from agentkit import Paused, RunContext
from agentkit.core.ask_person import Person
from agentkit.core.flow import Flow, Policy
from agentkit.core.messages import ToolCall
from agentkit.policies.approval import approve
from agentkit.policies.long_results import TruncatedResults
from agentkit.policies.pending import PendingInputs
from agentkit.policies.taint.hidden import hide_untrusted
from agentkit.policies.taint.policy import UntrustedSetting, guard_untrusted
from agentkit.testing import ScriptedModel, answer


class Guarded(Turns):
    """Turns under `guard_untrusted`, and `hide_untrusted` if that is the setting; the calls that are held wait.

    Attributes:
        kept: The hidden texts.
        extracted: What was asked about hidden texts: the type of the answer, the question and the text.
    """

    def __init__(
        self,
        *replies: Mapping[str, Any],
        tools: tuple[Callable[..., Any], ...],
        query: str = "go",
        setting: UntrustedSetting = "values",
        extracts: tuple[Any, ...] = (),
        kept: TruncatedResults | None = None,
        decide: Person | None = None,
    ) -> None:
        super().__init__(ScriptedModel(*replies, answer("Done.")), *tools, query=query)
        self.setting = setting
        self.decide = decide
        self.inputs = PendingInputs()
        self.kept = kept or TruncatedResults()
        self.extracts = iter(extracts)
        self.extracted: list[tuple[Any, str, str]] = []

    async def _extract(self, kind: Any, question: str, text: str, run: RunContext[Any]) -> Any:
        self.extracted.append((kind, question, text))
        found = next(self.extracts)
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, the innermost first."""
        hide = hide_untrusted(self.messages, self.kept, self._extract, RunContext(None), inputs=self.inputs)
        guard = guard_untrusted(self.messages, setting=self.setting, inputs=self.inputs)
        return (*([hide] if self.setting == "hidden" else []), guard, approve(self.decide, self.inputs))

    def guarded(self) -> Flow[Any]:
        """Return the flow under its policies, to be driven inside of a tool."""
        flow = self.take()
        for policy in self.policies:
            flow = policy(flow)
        return flow

    def go_on(self, world) -> Any:
        return self.drive(world, self.take(), *self.policies)

    def list_held(self, world) -> list[ToolCall]:
        """Take turns, and return the calls that wait for a decision."""
        try:
            self.go_on(world)
        except Paused as pause:
            return [*pause.calls]
        return []

    @property
    def shown(self) -> str:
        """All that the model was sent, as text."""
        return str([[message.get("content") for message in request.messages] for request in self.requests])
