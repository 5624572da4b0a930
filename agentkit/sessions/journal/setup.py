"""What a run began with, and whoever goes on with it should have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...tools.lock import compare_locks, lock
from ...tools.registry import ToolRegistry

MAX_SHOWN_CHARS = 60
"""Characters of an instruction that are shown from the place on where it changed."""


@dataclass(frozen=True, slots=True)
class Setup:
    """An agent's instruction and the schemas of its tools."""

    instruction: str
    tools: Mapping[str, Any]

    @classmethod
    def of(cls, instruction: str, tools: ToolRegistry) -> "Setup":
        """The setup of an agent."""
        return cls(instruction, schemas_of(tools))

    def changes(self, now: "Setup") -> list[str]:
        """What is otherwise in `now`: which tool, which field; where the instruction differs."""
        found = compare_locks({"tools": self.tools}, {"tools": now.tools})
        told = [f"{change.tool}{'.' if change.path else ''}{change.path}: {change.message}" for change in found]
        if self.instruction != now.instruction:
            pairs = zip(self.instruction, now.instruction, strict=False)
            shorter = min(len(self.instruction), len(now.instruction))
            place = next((place for place, (old, new) in enumerate(pairs) if old != new), shorter)
            old, new = (text[place : place + MAX_SHOWN_CHARS] for text in (self.instruction, now.instruction))
            told.append(f"instruction, from character {place} on: {old!r} became {new!r}")
        return told


def schemas_of(tools: ToolRegistry) -> dict[str, Any]:
    """The plain schemas of tools by name, that of the answer included."""
    answer = {} if tools.answer is None else {tools.answer.name: tools.answer.schema("json")}
    return {**lock(tools)["tools"], **answer}
