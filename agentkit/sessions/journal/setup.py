"""The instruction and tools that a run began with; an agent that resumes it should have the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...tools.lock import lock
from ...tools.registry import ToolRegistry
from ..differences import compare_values, list_changes
from .location import JournalError
from .store import Store


@dataclass(frozen=True, slots=True)
class Setup:
    """An agent's instruction and the schemas of its tools."""

    instruction: str
    tools: Mapping[str, Any]

    @classmethod
    def of(cls, instruction: str, tools: ToolRegistry) -> "Setup":
        """Return the setup of an agent."""
        return cls(instruction, schemas_of(tools))

    def check(self, run: str, now: "Setup") -> None:
        """Raise `JournalError` if `now` differs from the setup that `run` began with."""
        if changes := self.changes(now):
            raise JournalError(
                f"run {run} began with another agent. {'; '.join(changes)}. To resume it with this agent: "
                'agent.resume(run_id, changed="go on")'
            )

    def changes(self, now: "Setup") -> list[str]:
        """Describe how `now` differs: the tools, their fields, and the first change of the instruction."""
        changes = list_changes(self.tools, now.tools)
        if self.instruction != now.instruction:
            changes.append(compare_values("instruction", self.instruction, now.instruction))
        return changes


def read_setup(store: Store, run: str) -> Setup | None:
    """Return the setup that a run of a journal began with; None for a branch, which stores none."""
    rows = store.read("SELECT body FROM setups JOIN runs ON setups.id = runs.setup WHERE runs.id = ?", run)
    return Setup(*json.loads(rows[0][0])) if rows else None


def schemas_of(tools: ToolRegistry) -> dict[str, Any]:
    """Return the plain schemas of tools by name, that of the answer included."""
    answer = {} if tools.answer is None else {tools.answer.name: tools.answer.schema("json")}
    return {**lock(tools)["tools"], **answer}
