"""The run around an agent that is a tool: one journal records both, so that both are resumed together."""

from contextvars import ContextVar
from dataclasses import dataclass

from .connections import opened_store
from .conversation import JournaledConversation
from .setup import read_setup


@dataclass(frozen=True, slots=True)
class EnclosingRun:
    """A recorded run, as its calls see it; `inner` maps calls to the runs of agents that they had started before."""

    conversation: JournaledConversation
    run: str
    inner: dict[str, str]

    def within(self, call: str) -> JournaledConversation:
        """Return a conversation in the same journal for an agent that starts inside a call."""
        return JournaledConversation(self.conversation.journal, origin=f"{self.run}/{call}")

    def instruction_of(self, run: str) -> str:
        """Return the instruction with which a run of the journal began."""
        with opened_store(self.conversation.journal.path, must_exist=True) as store:
            setup = read_setup(store, run)
        return setup.instruction if setup else ""


ENCLOSING_RUN: ContextVar[EnclosingRun | None] = ContextVar("around", default=None)
