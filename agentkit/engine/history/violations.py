"""What can be wrong with a conversation, and who refuses it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ...core.messages import Message

Rule: TypeAlias = Literal[
    "bad_message",
    "not_json",
    "not_unicode",
    "bad_role",
    "bad_content",
    "empty_content",
    "bad_call",
    "bad_name",
    "bad_arguments",
    "missing_id",
    "duplicate_id",
    "dangling_call",
    "pending_call",
    "orphan_result",
    "duplicate_result",
    "misplaced_result",
    "result_order",
    "late_system",
    "first_user",
    "split_reply",
    "consecutive_roles",
    "lost_thinking",
]
"""A dangling call is one that the conversation went on without answering, a pending one stands at its very end."""

EVERYONE: Collection[str] = ()
OPENAI = frozenset(["openai", "azure"])
ANTHROPIC = frozenset(["anthropic", "bedrock"])
GEMINI = frozenset(["gemini", "vertex_ai"])
ALTERNATING = ANTHROPIC | GEMINI | {"mistral"}
"""Who lets user and assistant speak in turn; some of them join what we send otherwise, others answer with an error."""
MATCHING_BY_NAME = GEMINI | {"mistral"}
"""Who tells a function's results by its name."""


def is_from_anthropic(message: Message) -> bool:
    """Whether Claude wrote a message."""
    writer = message.get("provider")
    return isinstance(writer, str) and writer in ANTHROPIC


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a conversation: the index of the message, the rule, and a sentence that says it."""

    place: int
    rule: Rule
    text: str


@dataclass(slots=True)
class Findings:
    """What was found wrong, each with the providers that refuse it (`EVERYONE`: the form itself is broken)."""

    entries: list[tuple[Violation, Collection[str]]] = field(default_factory=list)

    def add(self, place: int, rule: Rule, text: str, refused_by: Collection[str] = EVERYONE) -> None:
        """Note that the message at `place` breaks `rule`."""
        self.entries.append((Violation(place, rule, text), refused_by))

    def for_provider(self, provider: str | None) -> list[Violation]:
        """What `provider` would refuse, in the order of the conversation; None: what is wrong everywhere."""
        found = [entry for entry, refused_by in self.entries if refused_by is EVERYONE or provider in refused_by]
        return sorted(found, key=lambda violation: violation.place)
