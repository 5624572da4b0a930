"""The run around an agent that is a tool: one journal records both, so that both are resumed together."""

import json
from contextvars import ContextVar
from dataclasses import dataclass

from .connections import opened_store
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

    def instruction_of(self, run: str) -> str:
        """Return the instruction with which a run of the journal began."""
        sql = "SELECT body FROM setups JOIN runs ON setups.id = runs.setup WHERE runs.id = ?"
        with opened_store(self.conversation.journal.path, must_exist=True) as store:
            rows = store.read(sql, run)
        return str(json.loads(rows[0][0])[0]) if rows else ""


ENCLOSING_RUN: ContextVar[EnclosingRun | None] = ContextVar("around", default=None)
