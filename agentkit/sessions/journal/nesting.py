"""The run around an agent that is a tool: one journal keeps both, so that both go on together."""

from contextvars import ContextVar
from dataclasses import dataclass

from .conversation import JournaledConversation


@dataclass(frozen=True, slots=True)
class EnclosingRun:
    """A run that is kept, as its calls see it; `inner` are the runs of agents in calls that it had begun before."""

    conversation: JournaledConversation
    run: str
    inner: dict[str, str]

    def within(self, call: str) -> JournaledConversation:
        """The conversation, in the same journal, of an agent that begins inside of a call."""
        return JournaledConversation(self.conversation.journal, origin=f"{self.run}/{call}")


ENCLOSING_RUN: ContextVar[EnclosingRun | None] = ContextVar("around", default=None)
