"""The instruction and tools that a run began with; an agent that resumes it should have the same.

A difference names the message, the tool's schema, or the field.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ...tools.lock import compare_locks, lock
from ...tools.registry import ToolRegistry
from ..records import RunBegun, fold
from .location import JournalError
from .store import RunFilter, Store, encode_json

CONTEXT_CHARS = 30
"""Characters that are shown before the first difference of two texts; twice as many after it."""


def compare_messages(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> str:
    """Describe the first difference of two conversations, without their labels; "" if they are equal."""
    for place, (before, now) in enumerate(zip_longest(map(_without_label, old), map(_without_label, new))):
        if before != now:
            where = f"message {place} ({(now or before).get('role')})"
            if before and now:
                return f"{where}, {compare_values('', before, now)}"
            shown = json.dumps(now or before, ensure_ascii=False, default=str)
            return f"{where} is {'new' if now else 'recorded only'}: {shown[: 3 * CONTEXT_CHARS]}"
    return ""


def _without_label(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in message.items() if key != "label"} if "label" in message else message


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe each difference of the tools' schemas."""
    changes = compare_locks({"tools": old}, {"tools": new})
    return [f"{change.tool}{'.' if change.path else ''}{change.path}: {change.message}" for change in changes]


def compare_values(path: str, old: Any, new: Any) -> str:
    """Describe the first difference of two JSON values, with its path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return compare_values(f"{path}.{key}".lstrip("."), old.get(key), new.get(key))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, now) in enumerate(zip(old, new, strict=True)):
            if before != now:
                return compare_values(f"{path}[{place}]", before, now)
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (old, new)]
    pairs = enumerate(zip(*texts, strict=False))
    same = next((place for place, (before, now) in pairs if before != now), min(map(len, texts)))
    cut = [text[max(0, same - CONTEXT_CHARS) : same + 2 * CONTEXT_CHARS] for text in texts]
    return f"{path or 'the value'}: recorded {cut[0]!r}, now {cut[1]!r}"


@dataclass(frozen=True, slots=True)
class Setup:
    """An agent's instruction and the schemas of its tools, and the `session_state` of the conversation.

    `fixed` is the begin of the instruction, which alone is compared; None: the whole instruction is.
    """

    instruction: str
    tools: Mapping[str, Any]
    session_state: Mapping[str, Any] = field(default_factory=dict)
    fixed: str | None = None

    @classmethod
    def of(cls, instruction: str, tools: ToolRegistry, *, fixed: str | None = None) -> "Setup":
        """Return the setup of an agent."""
        return cls(instruction, schemas_of(tools), fixed=fixed)

    def encode(self) -> str:
        """Return the setup as JSON, for `decode_setup`."""
        state = [self.session_state] if self.session_state else []
        return encode_json([self.instruction, self.tools, *state])

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
        fixed = now.fixed
        if self.instruction != now.instruction if fixed is None else not self.instruction.startswith(fixed):
            changes.append(compare_values("instruction", self.instruction, now.instruction))
        return changes


def read_setup(store: Store, run: str) -> Setup | None:
    """Return the setup that a run of a journal began with; None for a branch, which stores none."""
    entries = store.runs(RunFilter(ids=[run]))
    return decode_setup(fold(store.records(*entries, kinds=(RunBegun,))).setups.get(run))


def decode_setup(text: str | None) -> Setup | None:
    """Return the setup in a record of the begin of a run, if it has one."""
    return Setup(*json.loads(text)) if text else None


def schemas_of(tools: ToolRegistry) -> dict[str, Any]:
    """Return the plain schemas of tools by name, that of the answer included."""
    answer = {} if tools.answer is None else {tools.answer.name: tools.answer.schema("json")}
    return {**lock(tools)["tools"], **answer}
