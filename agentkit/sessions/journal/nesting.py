"""The run around an agent that is a tool: one journal records both, so that both are resumed together."""

from contextvars import ContextVar
from dataclasses import dataclass

from .conversation import JournaledConversation


@dataclass(frozen=True, slots=True)
class EnclosingRun:
    """A recorded run, as its calls see it; `inner` maps calls to the runs of agents that they had started before."""

    conversation: JournaledConversation
    run: str
    inner: dict[str, str]

    def within(self, call: str) -> JournaledConversation:
        """Return a conversation in the same journal for an agent that starts inside a call."""
        return JournaledConversation(self.conversation.journal, origin=f"{self.run}/{call}")


ENCLOSING_RUN: ContextVar[EnclosingRun | None] = ContextVar("around", default=None)
