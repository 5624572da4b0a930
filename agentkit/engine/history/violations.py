"""The rules that a conversation can violate, and which providers reject the violation."""

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
"""A dangling call is unanswered in the middle of the conversation, a pending call at its very end."""

EVERYONE: Collection[str] = ()
OPENAI = frozenset(["openai", "azure"])
ANTHROPIC = frozenset(["anthropic", "bedrock"])
GEMINI = frozenset(["gemini", "vertex_ai"])
ALTERNATING = ANTHROPIC | GEMINI | {"mistral"}
"""Providers where user and assistant must alternate; some merge consecutive messages, others return an error."""
MATCHING_BY_NAME = GEMINI | {"mistral"}
"""Providers that match results to calls by the function's name."""


def is_from_anthropic(message: Message) -> bool:
    """Whether Claude wrote a message."""
    writer = message.get("provider")
    return isinstance(writer, str) and writer in ANTHROPIC


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation in a conversation: the index of the message, the rule, and a description."""

    place: int
    rule: Rule
    text: str


@dataclass(slots=True)
class Findings:
    """The violations found, each with the providers that reject it (`EVERYONE`: the format itself is broken)."""

    entries: list[tuple[Violation, Collection[str]]] = field(default_factory=list)

    def add(self, place: int, rule: Rule, text: str, refused_by: Collection[str] = EVERYONE) -> None:
        """Add a violation of `rule` by the message at `place`."""
        self.entries.append((Violation(place, rule, text), refused_by))

    def for_provider(self, provider: str | None) -> list[Violation]:
        """Return what `provider` rejects, in the order of the conversation; None: what every provider rejects."""
        found = [entry for entry, refused_by in self.entries if refused_by is EVERYONE or provider in refused_by]
        return sorted(found, key=lambda violation: violation.place)
