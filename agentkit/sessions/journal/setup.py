"""The instruction and tools that a run began with; an agent that resumes it should have the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...tools.lock import compare_locks, lock
from ...tools.registry import ToolRegistry
from .location import JournalError
from .store import Store

MAX_SHOWN_CHARS = 60
"""Characters of an instruction that are shown after its first change."""


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
        found = compare_locks({"tools": self.tools}, {"tools": now.tools})
        listed = [f"{change.tool}{'.' if change.path else ''}{change.path}: {change.message}" for change in found]
        if self.instruction != now.instruction:
            pairs = zip(self.instruction, now.instruction, strict=False)
            shorter = min(len(self.instruction), len(now.instruction))
            place = next((place for place, (old, new) in enumerate(pairs) if old != new), shorter)
            old, new = (text[place : place + MAX_SHOWN_CHARS] for text in (self.instruction, now.instruction))
            listed.append(f"instruction, at character {place}: {old!r} became {new!r}")
        return listed


def read_setup(store: Store, run: str) -> Setup | None:
    """Return the setup that a run of a journal began with; None for a branch, which stores none."""
    rows = store.read("SELECT body FROM setups JOIN runs ON setups.id = runs.setup WHERE runs.id = ?", run)
    return Setup(*json.loads(rows[0][0])) if rows else None


def schemas_of(tools: ToolRegistry) -> dict[str, Any]:
    """Return the plain schemas of tools by name, that of the answer included."""
    answer = {} if tools.answer is None else {tools.answer.name: tools.answer.schema("json")}
    return {**lock(tools)["tools"], **answer}
